/* A leader whose sequences draft: what they get is what they get without,
 * whichever drafts are right, and whatever comes between. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/stages/ring.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
#define STOP   SLUICE__V1__FINISH__FINISH_STOP
#define KEEP   40u

static void options(struct worker_options *o, uint32_t drafts)
{
    ring_options(o);
    o->pool.n_pages = 512;
    o->reuse = true;
    o->drafting.most = drafts;
    o->drafting.keep_tokens = KEEP;
}

/* Makes a leader of n stages whose last one has an MTP layer. */
static struct rig *leader(uint32_t n_stages, uint32_t drafts,
                          enum rig_drafts right)
{
    struct worker_options o;
    struct rig *r;

    options(&o, drafts);
    r = ring_rig(n_stages, &o);
    ring_drafts(r->ring, KEEP, true);
    r->drafts = right;
    r->acknowledge = true;
    return r;
}

static uint64_t submit(struct rig *r, uint32_t id, uint32_t n_prompt,
                       uint32_t max_tokens)
{
    struct rig_submit s = {
        .id = id, .n_prompt = n_prompt, .max_tokens = max_tokens};

    (void)rig_submit(r, &s);
    return r->grant;
}

static void run(struct rig *r)
{
    rig_turn(r);
    ring_run(r->ring);
    if (r->n_broken > 0) {
        fail_msg("%s", r->broken_why);
    }
}

static void check(const struct rig *r, uint64_t grant, uint32_t id,
                  uint32_t n_prompt, uint32_t n)
{
    rig_check_tokens(r, grant, id, n_prompt, n);
    assert_int_equal(r->heard[grant].finish, LENGTH);
}

/* ---- tokens ---- */

static void tokens_are_those_without_drafts(void **state)
{
    (void)state;
    for (uint32_t k = 1; k <= DRAFTS_MAX; k++) {
        for (int right = RIG_DRAFTS_RIGHT; right <= RIG_DRAFTS_MIXED; right++) {
            struct rig *r = leader(2 + k % 3, k, (enum rig_drafts)right);
            uint64_t first = submit(r, 1, 40, 90);

            (void)submit(r, 2, 7, 33);
            (void)submit(r, 3, 130, 120);
            run(r);
            check(r, first, 1, 40, 90);
            check(r, first + 1, 2, 7, 33);
            check(r, first + 2, 3, 130, 120);
            assert_true(r->ring->n_draft_rows > 0);
            assert_int_equal(r->ring->n_accepted > 0,
                             right != RIG_DRAFTS_WRONG);
            ring_rig_end(&r);
        }
    }
}

static void right_drafts_save_rounds(void **state)
{
    struct rig *r = leader(3, 4, RIG_DRAFTS_RIGHT);
    uint64_t grant = submit(r, 1, 10, 51);

    (void)state;
    run(r);
    check(r, grant, 1, 10, 51);
    assert_int_equal(r->ring->n_refused, 0);
    assert_int_equal(r->ring->n_accepted, 40);
    assert_int_equal(r->ring->n_forwards, 1 + 10);
    assert_int_equal(r->ring->n_accepts, 10);
    ring_rig_end(&r);
}

/* Slots or blocks may be missing at the leader, or at the others. */
static void stages_may_lack_a_class(void **state)
{
    static const struct mirror_stage shapes[][2] = {
        {{512, 1, 0, 0}, {512, 1, 2, 0}},
        {{512, 0, 1, 0}, {512, 1, 0, 0}},
        {{512, 1, 2, 0}, {512, 0, 1, 0}},
    };

    (void)state;
    for (int i = 0; i < 6; i++) {
        struct worker_options o;
        struct rig *r;
        uint64_t grant;

        options(&o, 4);
        o.pool.pages_per_slot = i % 2 == 0 ? 0 : o.pool.pages_per_slot;
        r = ring_rig_with(3, &o, shapes[i / 2]);
        ring_drafts(r->ring, KEEP, true);
        r->drafts = RIG_DRAFTS_MIXED;
        r->acknowledge = true;
        grant = submit(r, 1, 30, 60);
        (void)submit(r, 2, 70, 40);
        run(r);
        check(r, grant, 1, 30, 60);
        check(r, grant + 1, 2, 70, 40);
        assert_true(r->ring->n_accepted > 0 && r->ring->n_refused > 0);
        ring_rig_end(&r);
    }
}

/* An end token inside accepted drafts ends the sequence; what was drafted
 * behind it is gone. */
static void stops_inside_drafts(void **state)
{
    (void)state;
    for (uint32_t at = 1; at < 12; at++) {
        struct rig *r = leader(3, 5, RIG_DRAFTS_RIGHT);
        uint64_t grant;

        r->eos_at = at;
        grant = submit(r, 1, 10, 40);
        run(r);
        assert_int_equal(r->heard[grant].n, at + 1);
        assert_int_equal(r->heard[grant].tokens[at], RIG_EOS);
        assert_int_equal(r->heard[grant].finish, STOP);
        ring_rig_end(&r);
    }
}

/* The rig compares each logprob with that of its token and index. */
static void logprobs_are_of_their_tokens(void **state)
{
    struct rig *r = leader(3, 5, RIG_DRAFTS_MIXED);
    struct rig_submit s = {.id = 1,
                           .n_prompt = 10,
                           .max_tokens = 100,
                           .logprobs = true,
                           .n_top = 3};
    uint64_t grant;

    (void)state;
    (void)rig_submit(r, &s);
    grant = r->grant;
    s = (struct rig_submit){
        .id = 2, .n_prompt = 20, .max_tokens = 60, .penalise = true};
    (void)rig_submit(r, &s);
    run(r);
    check(r, grant, 1, 10, 100);
    check(r, grant + 1, 2, 20, 60);
    assert_true(r->ring->n_accepted > 0);
    ring_rig_end(&r);
}

/* Without an MTP layer, drafts come from the text: tokens of this rig are
 * sums, which repeat. */
static void drafts_come_from_the_text_too(void **state)
{
    uint32_t tokens[2][60];

    (void)state;
    for (int drafts = 0; drafts < 2; drafts++) {
        struct worker_options o;
        struct rig *r;

        options(&o, drafts ? 4 : 0);
        r = ring_rig(3, &o);
        ring_drafts(r->ring, KEEP, false);
        r->counts = true;
        r->acknowledge = true;
        (void)submit(r, 1, 10, 60);
        run(r);
        assert_int_equal(r->heard[r->grant].n, 60);
        memcpy(tokens[drafts], r->heard[r->grant].tokens, sizeof tokens[0]);
        assert_int_equal(r->ring->n_accepted > 0, drafts);
        ring_rig_end(&r);
    }
    assert_memory_equal(tokens[0], tokens[1], sizeof tokens[0]);
}

/* ---- whether it drafts ---- */

static void makes_no_drafts_unless_all_can(void **state)
{
    (void)state;
    for (int how = 0; how < 6; how++) {
        struct worker_options o;
        struct rig *r;
        uint64_t grant;

        options(&o, how == 0 ? 0 : 4);
        o.drafting.keep_tokens = how == 1 ? 0 : KEEP;
        r = ring_rig(3, &o);
        ring_drafts(r->ring, KEEP, true);
        r->ring->n_keep_tokens -= how == 2; /* the last one is old */
        r->ring->n_keep_tokens -= how == 3 ? 2 : 0;
        r->ring->keep_tokens[0] = how == 4 ? 0 : KEEP;
        r->ring->keep_tokens[1] = how == 5 ? 1 : KEEP;
        grant = submit(r, 1, 10, 20);
        run(r);
        check(r, grant, 1, 10, 20);
        assert_int_equal(r->ring->n_draft_rows, 0);
        ring_rig_end(&r);
    }
}

/* Five inputs are kept at once: one row of four drafts, or two of one. */
static void keeps_no_more_than_the_smallest_stage(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint64_t grant;

    (void)state;
    options(&o, 6);
    r = ring_rig(3, &o);
    ring_drafts(r->ring, 5, true);
    r->drafts = RIG_DRAFTS_THIRD;
    r->acknowledge = true;
    grant = submit(r, 1, 10, 40);
    (void)submit(r, 2, 20, 50);
    (void)submit(r, 3, 30, 30);
    run(r);
    check(r, grant, 1, 10, 40);
    check(r, grant + 1, 2, 20, 50);
    check(r, grant + 2, 3, 30, 30);
    assert_true(r->ring->n_accepted > 0);
    ring_rig_end(&r);
}

/* Every step takes as long here, so all drafts pay that are accepted. */
static void learns_from_results_what_pays(void **state)
{
    uint32_t n_drafts[2];

    (void)state;
    for (int wrong = 0; wrong < 2; wrong++) {
        struct worker_options o;
        struct rig *r;
        uint64_t grant;

        options(&o, 4);
        o.drafting.chooses = true;
        r = ring_rig(3, &o);
        ring_drafts(r->ring, KEEP, true);
        r->drafts = wrong ? RIG_DRAFTS_WRONG : RIG_DRAFTS_RIGHT;
        r->acknowledge = true;
        grant = submit(r, 1, 10, 300);
        run(r);
        check(r, grant, 1, 10, 300);
        n_drafts[wrong] = r->ring->n_refused + r->ring->n_accepted;
        assert_int_equal(r->ring->n_accepted > 0, !wrong);
        ring_rig_end(&r);
    }
    assert_true(n_drafts[0] > 150);
    assert_in_range(n_drafts[1], 1, 299 * 4 * 2 / 3); /* of all rows */
}

/* ---- what comes between ---- */

/* Cancels a sequence at each moment of its life. */
static void cancels_leave_nothing_behind(void **state)
{
    (void)state;
    for (uint32_t steps = 0; steps < 40; steps++) {
        struct rig *r = leader(3, 4, RIG_DRAFTS_MIXED);
        uint64_t grant = submit(r, 1, 20, 60);

        (void)submit(r, 2, 20, 40);
        rig_turn(r);
        for (uint32_t i = 0; i < steps; i++) {
            if (i % 2 == 0 ? !rig_step(r) : !ring_step(r->ring)) {
                (void)ring_step(r->ring);
            }
        }
        rig_cancel(r, 1);
        run(r);
        check(r, grant + 1, 2, 20, 40);
        assert_int_equal(r->ring->keeps.n, 0);
        rig_advance(r, 500000);
        rig_check_empty(r);
        ring_rig_end(&r);
    }
}

/* A step fails at a stage or at the leader, or the engine refuses it: the
 * sequence is computed again, and gets the same tokens. */
static void failed_steps_change_no_token(void **state)
{
    (void)state;
    for (uint32_t steps = 4; steps < 40; steps++) {
        for (int how = 0; how < 3; how++) {
            struct rig *r = leader(3, 4, RIG_DRAFTS_THIRD);
            uint64_t grant = submit(r, 1, 20, 60);

            (void)submit(r, 2, 70, 40);
            rig_turn(r);
            for (uint32_t i = 0; i < steps; i++) {
                if (i % 2 == 0 ? !rig_step(r) : !ring_step(r->ring)) {
                    (void)ring_step(r->ring);
                }
            }
            r->fail_next = how == 0 ? "the leader's" : NULL;
            r->ring->fail_next = how == 1 ? "a stage" : NULL;
            r->refuse_once = how == 2;
            run(r);
            check(r, grant, 1, 20, 60);
            check(r, grant + 1, 2, 70, 40);
            assert_int_equal(r->ring->keeps.n, 0);
            ring_rig_end(&r);
        }
    }
}

static void a_damaged_row_ends_its_sequence_alone(void **state)
{
    struct rig *r = leader(3, 4, RIG_DRAFTS_RIGHT);
    uint64_t grant = submit(r, 1, 20, 60);

    (void)state;
    (void)submit(r, 2, 20, 60);
    rig_turn(r);
    for (int i = 0; i < 12; i++) {
        (void)rig_step(r);
        (void)ring_step(r->ring);
    }
    assert_true(r->ring->n_draft_rows > 0);
    r->ring->damaged = grant;
    run(r);
    assert_int_equal(r->heard[grant].finish, SLUICE__V1__FINISH__FINISH_FAILED);
    check(r, grant + 1, 2, 20, 60);
    assert_int_equal(r->ring->keeps.n, 0);
    ring_rig_end(&r);
}

/* Fills ids[] with the prompt of sequence 1, its n tokens and 10 more, and
 * continues it. */
static void continue_one(struct rig *r, uint64_t grant, uint32_t n,
                         uint32_t *expect)
{
    uint32_t ids[RIG_CONTEXT], spans[3] = {20, n, 10};
    struct rig_prompt p = {
        .ids = ids, .n = 30 + n, .spans = spans, .n_spans = 3};
    struct rig_submit s = {.id = 9,
                           .n_prompt = 30 + n,
                           .max_tokens = 30,
                           .prompt = ids,
                           .from = 1,
                           .spans = spans,
                           .n_spans = 3};

    for (uint32_t i = 0; i < 20; i++) {
        ids[i] = rig_prompt_id(1, i);
    }
    memcpy(ids + 20, r->heard[grant].tokens, n * sizeof *ids);
    for (uint32_t i = 20 + n; i < 30 + n; i++) {
        ids[i] = rig_prompt_id(2, i);
    }
    r->ring->has_runs = true;
    (void)rig_submit(r, &s);
    rig_expect_prompt(r, &p, 30, expect);
}

static uint64_t submit_kept(struct rig *r, uint32_t n)
{
    struct rig_submit s = {
        .id = 1, .n_prompt = 20, .max_tokens = n, .keep_ms = 1000};

    (void)rig_submit(r, &s);
    return r->grant;
}

static void check_heir(struct rig *r, const uint32_t *expect)
{
    assert_int_equal(r->heard[r->grant].n, 30);
    assert_memory_equal(r->heard[r->grant].tokens, expect, 30 * sizeof *expect);
    rig_advance(r, 1000000);
    ring_run(r->ring);
}

/* Its last row had drafts, whose replay goes with the first plan of the heir,
 * although the kept sequence is removed before. */
static void another_continues_behind_drafts(void **state)
{
    (void)state;
    for (uint32_t n = 2; n < 30; n++) {
        struct rig *r = leader(3, 4, RIG_DRAFTS_MIXED);
        uint32_t expect[30];
        uint64_t grant = submit_kept(r, n);

        run(r);
        continue_one(r, grant, n, expect);
        run(r);
        check_heir(r, expect);
        ring_rig_end(&r);
    }
}

/* A replay waits for the next plan that runs: plans of other sequences may get
 * no rows, or be refused. */
static void replays_here_are_not_lost(void **state)
{
    uint32_t n_hits = 0;

    (void)state;
    for (uint32_t steps = 0; steps < 60; steps++) {
        struct rig *r = leader(2, 4, RIG_DRAFTS_MIXED);
        uint32_t expect[30];
        uint64_t grant = submit_kept(r, 20), other;

        other = submit(r, 2, 60, 80);
        rig_turn(r);
        for (uint32_t i = 0; i < steps; i++) {
            (void)(rig_step(r) || ring_step(r->ring));
        }
        n_hits += r->heard[grant].finish == LENGTH;
        r->refuse_once = true;
        while (r->heard[grant].finish == 0) {
            assert_true(rig_step(r) || ring_step(r->ring));
        }
        for (uint32_t i = 0; i < 4; i++) {
            (void)(rig_step(r) || ring_step(r->ring));
        }
        continue_one(r, grant, 20, expect);
        run(r);
        check(r, other, 2, 60, 80);
        check_heir(r, expect);
        ring_rig_end(&r);
    }
    assert_true(n_hits > 0 && n_hits < 60);
}

static void check_prompt(const struct rig *r, uint64_t grant,
                         const struct rig_submit *s)
{
    struct rig_prompt p = {
        .ids = s->prompt, .n = s->n_prompt, .choice = s->choice};
    uint32_t expect[RIG_CONTEXT];

    rig_expect_prompt(r, &p, s->max_tokens, expect);
    assert_int_equal(r->heard[grant].n, s->max_tokens);
    assert_memory_equal(r->heard[grant].tokens, expect,
                        s->max_tokens * sizeof *expect);
}

/* Choices share a prompt, which the index has afterwards. */
static void twins_and_hits_draft(void **state)
{
    struct rig *r = leader(3, 4, RIG_DRAFTS_MIXED);
    uint32_t ids[300];
    struct rig_submit s = {
        .id = 1, .n_prompt = 300, .max_tokens = 40, .prompt = ids};
    uint64_t first = r->grant + 1;

    (void)state;
    for (uint32_t i = 0; i < 300; i++) {
        ids[i] = rig_prompt_id(7, i);
    }
    for (s.choice = 0; s.choice < 3; s.choice++) {
        (void)rig_submit(r, &s);
    }
    run(r);
    for (s.choice = 0; s.choice < 3; s.choice++) {
        check_prompt(r, first + s.choice, &s);
    }
    s.id = 2;
    s.choice = 0;
    (void)rig_submit(r, &s);
    run(r);
    check_prompt(r, r->grant, &s);
    assert_int_equal(r->heard[r->grant].reused, 256);
    ring_rig_end(&r);
}

/* A new assembly begins with nothing kept. */
static void an_assembly_ends_between_drafts(void **state)
{
    (void)state;
    for (uint32_t steps = 6; steps < 24; steps++) {
        struct rig *r = leader(3, 4, RIG_DRAFTS_THIRD);
        uint64_t grant;

        (void)submit(r, 1, 20, 60);
        (void)submit(r, 2, 20, 60);
        rig_turn(r);
        for (uint32_t i = 0; i < steps; i++) {
            (void)rig_step(r);
            (void)ring_step(r->ring);
        }
        ring_cut(r->ring);
        rig_run(r);
        rig_advance(r, 500000);
        rig_check_empty(r);
        ring_assemble(r->ring);
        r->n_broken = 0;
        grant = submit(r, 3, 30, 50);
        run(r);
        check(r, grant, 3, 30, 50);
        ring_rig_free(&r);
    }
}

/* ---- wrong Results ---- */

typedef void (*wrong_fn)(struct ring_result *x);

#define WRONG(name, what)                           \
    static void wrong_##name(struct ring_result *x) \
    {                                               \
        what;                                       \
    }

WRONG(few_accepted, x->m.n_accepted = 0)
WRONG(many_accepted, x->m.n_accepted = 2)
WRONG(accepted, x->accepted[0] = 5)
WRONG(accepted_much, x->accepted[0] = 256)
WRONG(few_proposed, x->m.n_proposed = 0)
WRONG(many_proposed, x->m.n_proposed = 2)
WRONG(proposed, x->proposed[0] = 5; x->m.n_proposals = 5)
WRONG(few_ids, x->m.n_proposals--)
WRONG(many_ids, x->m.n_proposals++)
WRONG(no_logprobs, x->accepted[0]--)
WRONG(id, x->proposals[0] = RIG_VOCAB)
WRONG(logprob, x->logprobs[0] = 1)
WRONG(failure, x->m.has_failure = true; x->m.n_tokens = x->m.n_width = 0;
      x->m.n_logprobs = x->m.n_top_tokens = 0)

/* A row of 4 right drafts, with logprobs, that proposes 4 more. */
static struct rig *with_result(struct ring_result *out)
{
    struct rig *r = leader(3, 4, RIG_DRAFTS_RIGHT);
    struct rig_submit s = {.id = 1,
                           .n_prompt = 10,
                           .max_tokens = 40,
                           .logprobs = true,
                           .n_top = 1};

    (void)rig_submit(r, &s);
    rig_turn(r);
    while (r->ring->n_draft_rows == 0) {
        (void)(rig_step(r) || ring_step(r->ring));
    }
    while (r->ring->said[r->ring->n_done].method != METHOD_STAGE_FORWARD) {
        (void)ring_step(r->ring);
    }
    memset(out, 0, sizeof *out);
    ring_result(r->ring, out);
    assert_int_equal(out->accepted[0], 4);
    assert_int_equal(out->proposed[0], 4);
    return r;
}

static void breaks_at_wrong_drafts(void **state)
{
    static const struct {
        const char *why;
        wrong_fn make;
    } wrong[] = {
        {"of drafts 0 accepted", wrong_few_accepted},
        {"of drafts 2 accepted", wrong_many_accepted},
        {"do not match its 1 rows", wrong_accepted},
        {"do not match its 1 rows", wrong_accepted_much},
        {"0 proposed and 4 ids", wrong_few_proposed},
        {"2 proposed and 4 ids", wrong_many_proposed},
        {"1 proposed and 5 ids", wrong_proposed},
        {"1 proposed and 3 ids", wrong_few_ids},
        {"1 proposed and 5 ids", wrong_many_ids},
        {"do not match its 1 rows", wrong_no_logprobs},
        {"drafted id 1000, which is not below", wrong_id},
        {"logprob of 1", wrong_logprob},
        {"do not match its 1 rows", wrong_failure},
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct ring_result x;
        struct rig *r = with_result(&x);

        wrong[i].make(&x);
        ring_say(r->ring, METHOD_STAGE_RESULT, &x.m.base);
        rig_turn(r);
        assert_int_equal(r->n_broken, 1);
        if (strstr(r->broken_why, wrong[i].why) == NULL) {
            fail_msg("\"%s\" lacks \"%s\"", r->broken_why, wrong[i].why);
        }
        rig_run(r);
        rig_check_empty(r);
        ring_rig_free(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_those_without_drafts),
        cmocka_unit_test(right_drafts_save_rounds),
        cmocka_unit_test(stages_may_lack_a_class),
        cmocka_unit_test(stops_inside_drafts),
        cmocka_unit_test(logprobs_are_of_their_tokens),
        cmocka_unit_test(drafts_come_from_the_text_too),
        cmocka_unit_test(makes_no_drafts_unless_all_can),
        cmocka_unit_test(keeps_no_more_than_the_smallest_stage),
        cmocka_unit_test(learns_from_results_what_pays),
        cmocka_unit_test(cancels_leave_nothing_behind),
        cmocka_unit_test(failed_steps_change_no_token),
        cmocka_unit_test(a_damaged_row_ends_its_sequence_alone),
        cmocka_unit_test(another_continues_behind_drafts),
        cmocka_unit_test(replays_here_are_not_lost),
        cmocka_unit_test(twins_and_hits_draft),
        cmocka_unit_test(an_assembly_ends_between_drafts),
        cmocka_unit_test(breaks_at_wrong_drafts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
