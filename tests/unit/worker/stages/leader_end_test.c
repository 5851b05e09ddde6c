/* A leader with failed steps, with wrong streams, and at the end of its
 * assembly. */
#include <stddef.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/stages/ring.h"
#include "worker/base/metrics.h"
#include "worker/sequence/sequence.h"

static const struct rig_submit usual = {
    .id = 1, .n_prompt = 10, .max_tokens = 6, .ignore_eos = true};

static struct rig *with_one(const struct rig_submit *s)
{
    struct rig *r = ring_rig(3, NULL);

    rig_submit(r, s);
    rig_turn(r);
    return r;
}

/* ---- failures ---- */

static struct rig *with_three(struct worker_options *o)
{
    struct rig *r = ring_rig(3, o);

    for (uint32_t i = 1; i <= 3; i++) {
        struct rig_submit s = usual;

        s.id = i;
        rig_submit(r, &s);
    }
    rig_turn(r);
    /* All prompts have returned, and the next rows are in separate
     * microbatches. */
    rig_step(r);
    while (r->heard[1].n == 0) {
        assert_true(ring_step(r->ring));
    }
    while (rig_step(r)) {
    }
    assert_int_equal(r->ring->n_forwards, 4);
    return r;
}

/* The sequence `id` fails after n tokens, the others finish; 0: all finish. */
static void check_ends(struct rig *r, uint32_t id, uint32_t n)
{
    ring_run(r->ring);
    rig_advance(r, 20000);
    for (uint32_t i = 1; i <= 3; i++) {
        assert_int_equal(r->heard[i].finish,
                         i == id ? FINISH_FAILED : FINISH_LENGTH);
        rig_check_tokens(r, i, i, 10, i == id ? n : 6);
        assert_int_equal(ring_removes(r->ring, i), 1);
    }
    assert_int_equal(r->n_broken, 0);
    rig_check_empty(r);
    ring_rig_end(&r);
}

static uint32_t n_recomputed(const struct rig *r)
{
    struct worker_metrics m;

    worker_counts(r->worker, &m);
    return (uint32_t)m.recomputed;
}

static void computes_the_rows_of_a_failed_step_again(void **state)
{
    struct rig *r = with_three(NULL);

    (void)state;
    r->ring->fail_next = "stage 1: out of luck";
    ring_step(r->ring);
    assert_int_equal(n_recomputed(r), 1);
    check_ends(r, 0, 0);
}

static void fails_what_fails_alone(void **state)
{
    struct rig *r = with_three(NULL);
    uint32_t id = (uint32_t)ring_said(r->ring, r->ring->n_done)->grants[0];

    (void)state;
    r->ring->fail_next = "stage 1: out of luck";
    ring_step(r->ring);
    while (r->heard[id].finish == FINISH_NONE) { /* the next step is its own */
        bool own = ring_waiting(r->ring) > 0 &&
                   ring_said(r->ring, r->ring->n_done)->grants[0] == id;

        r->ring->fail_next = own ? "stage 1: out of\nluck" : NULL;
        if (!ring_step(r->ring)) {
            assert_true(rig_step(r));
        }
    }
    assert_non_null(strstr(r->failure, "out of\\x0aluck"));
    assert_non_null(strstr(r->failure, "when it ran alone"));
    check_ends(r, id, 1);
}

/* Damage at the last stage ends that row alone. */
static void fails_a_damaged_row_alone(void **state)
{
    (void)state;
    for (uint32_t id = 1; id <= 3; id++) {
        struct rig *r = with_three(NULL);

        r->ring->damaged = id;
        while (r->heard[id].finish == FINISH_NONE) {
            assert_true(ring_step(r->ring) || rig_step(r));
        }
        assert_non_null(strstr(r->failure, "are not finite"));
        assert_int_equal(n_recomputed(r), 0);
        check_ends(r, id, 1);
    }
}

/* A failed step goes round like any other, which keeps the order. */
static void passes_its_own_failed_step_on(void **state)
{
    struct rig *r = with_three(NULL);
    const struct ring_said *s;
    uint32_t id;

    (void)state;
    ring_step(r->ring); /* room for another */
    id = (uint32_t)rig_plan(r, 0)->rows[0].sequence;
    r->fail_next = "the leader's engine";
    rig_step(r);
    s = ring_said(r->ring, r->ring->n_said - 1);
    assert_int_equal(s->method, METHOD_STAGE_FORWARD);
    assert_true(s->failed);
    assert_int_equal(s->grants[0], id);
    assert_int_equal(n_recomputed(r), 0);
    check_ends(r, 0, 0);
}

/* Cancelled, or its assembly over, at any moment of its recomputation. */
static void ends_what_is_computed_again(void **state)
{
    (void)state;
    for (uint32_t steps = 0; steps < 24; steps++) {
        struct rig *r = with_three(NULL);

        r->ring->fail_next = "stage 1: out of luck";
        ring_step(r->ring);
        for (uint32_t i = 0; i < steps / 2; i++) {
            if (!ring_step(r->ring)) {
                rig_step(r);
            }
        }
        if (steps % 2 == 0) {
            for (uint32_t id = 1; id <= 3; id++) {
                rig_cancel(r, id);
            }
            rig_turn(r);
            ring_run(r->ring);
            assert_int_equal(r->n_broken, 0);
        } else {
            ring_cut(r->ring);
            rig_run(r);
        }
        rig_advance(r, 500000);
        rig_check_empty(r);
        if (steps % 2 == 0) {
            ring_rig_end(&r);
        } else {
            ring_rig_free(&r);
        }
    }
}

static void survives_an_engine_that_takes_no_plan(void **state)
{
    struct rig *r = with_three(NULL);

    (void)state;
    r->refuse_plans = true;
    ring_step(r->ring);
    r->refuse_plans = false;
    ring_run(r->ring);
    assert_int_equal(r->n_broken, 0);
    rig_check_empty(r);
    ring_rig_end(&r);
}

static void give_no_hidden(struct plan_result *out)
{
    out->hidden = NULL;
}

static void give_another_step(struct plan_result *out)
{
    out->step++;
}

static void takes_no_result_of_an_engine_that_lies(void **state)
{
    void (*const lies[])(struct plan_result *) = {give_no_hidden,
                                                  give_another_step};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct rig *r = with_one(&usual);

        r->lie = lies[i];
        ring_run(r->ring);
        assert_int_equal(r->heard[1].finish, FINISH_LENGTH);
        rig_check_tokens(r, 1, 1, 10, 6);
        assert_int_equal(n_recomputed(r), 1);
        assert_int_equal(r->n_broken, 0);
        ring_rig_end(&r);
    }
}

/* ---- the end of an assembly ---- */

/* Checks that Broken was sent once with this reason, that all memory is
 * free, and that another assembly can begin. */
static void check_broken(struct rig **r, const char *why)
{
    rig_turn(*r);
    assert_int_equal((*r)->n_broken, 1);
    if (strstr((*r)->broken_why, why) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", (*r)->broken_why, why);
    }
    rig_run(*r);
    rig_check_empty(*r);
    ring_assemble((*r)->ring);
    rig_submit(*r, &usual);
    rig_turn(*r);
    ring_run((*r)->ring);
    rig_check_tokens(*r, (*r)->grant, 1, 10, 6);
    ring_rig_free(r);
}

/* A sequence with logprobs whose first Forward waits for its Result. */
static struct rig *with_result(struct ring_result *out)
{
    struct rig_submit s = usual;
    struct rig *r;

    s.logprobs = true;
    s.n_top = 2;
    r = with_one(&s);
    rig_step(r);
    ring_step(r->ring);
    ring_result(r->ring, out);
    return r;
}

static void breaks_at_wrong_results(void **state)
{
    struct {
        const char *why;
        size_t field; /* a count of the message, minus one; 0: another error */
    } const columns[] = {
        {"0 damaged, 0 tokens, 1 widths, 3 logprobs and 2 top_tokens",
         offsetof(Sluice__V1__StageResult, n_tokens)},
        {"1 tokens, 0 widths", offsetof(Sluice__V1__StageResult, n_width)},
        {"2 logprobs", offsetof(Sluice__V1__StageResult, n_logprobs)},
        {"1 top_tokens", offsetof(Sluice__V1__StageResult, n_top_tokens)},
        {"times of 2 stages, but there are 3",
         offsetof(Sluice__V1__StageResult, n_device_us)},
    };

    (void)state;
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        for (int more = 0; more < 2; more++) {
            struct ring_result x;
            struct rig *r = with_result(&x);
            size_t *n = (size_t *)(void *)((char *)&x.m + columns[i].field);

            memset(&x.tokens[1], 0, sizeof x.tokens[1]);
            x.width[1] = 0;
            x.logprobs[3] = 0;
            x.top[2] = x.device_us[3] = 0;
            *n += more ? 1 : (size_t)-1;
            ring_say(r->ring, METHOD_STAGE_RESULT, &x.m.base);
            check_broken(&r, more ? "Result of step 1" : columns[i].why);
        }
    }
}

static void breaks_at_wrong_values(void **state)
{
    (void)state;
    for (int i = 0; i < 7; i++) {
        const char *const why[] = {
            "sampled id 1000, which is not below the vocabulary of 1000",
            "ranked id 1000",
            "logprob of 1",
            "Result of step 7, but the oldest step under way is 1",
            "which do not match its",
            "which do not match its",
            "2 damaged, 1 tokens"};
        struct ring_result x;
        struct rig *r = with_result(&x);

        x.tokens[0] = i == 0 ? RIG_VOCAB : x.tokens[0];
        x.top[1] = i == 1 ? RIG_VOCAB : x.top[1];
        x.logprobs[2] = i == 2 ? 1.0f : x.logprobs[2];
        x.m.step = i == 3 ? 7 : x.m.step;
        x.width[0] = i == 4 ? 2 : x.width[0];
        x.m.has_failure = i == 5; /* with columns */
        x.m.n_damaged = i == 6 ? 2 : 0;
        x.damaged[1] = 0;
        ring_say(r->ring, METHOD_STAGE_RESULT, &x.m.base);
        check_broken(&r, why[i]);
    }
}

/* The limit itself is accepted. */
static void takes_the_last_id_of_the_vocabulary(void **state)
{
    struct ring_result x;
    struct rig *r = with_result(&x);

    (void)state;
    r->hears_lies = true;
    x.tokens[0] = RIG_VOCAB - 1;
    x.top[1] = RIG_VOCAB - 1;
    x.logprobs[2] = 0;
    r->ring->n_done++;
    r->ring->n_results++;
    ring_say(r->ring, METHOD_STAGE_RESULT, &x.m.base);
    assert_int_equal(r->heard[1].tokens[0], RIG_VOCAB - 1);
    assert_int_equal(r->n_broken, 0);
    rig_cancel(r, 1);
    rig_turn(r);
    ring_run(r->ring);
    ring_rig_end(&r);
}

static void breaks_at_a_result_of_nothing(void **state)
{
    struct ring_result x;
    struct rig *r = with_result(&x);

    (void)state;
    r->ring->n_done++;
    r->ring->n_results++;
    ring_say(r->ring, METHOD_STAGE_RESULT, &x.m.base);
    assert_int_equal(rig_inflight(r), 1); /* the next plan is here */
    ring_say(r->ring, METHOD_STAGE_RESULT, &x.m.base);
    check_broken(&r, "Result of step 1, but no step is under way");
}

static void fill_remove(Sluice__V1__StageRemove *m, uint64_t grant,
                        uint32_t *zeros)
{
    sluice__v1__stage_remove__init(m);
    m->grant = grant;
    m->n_blocks = m->n_slots = m->n_checkpoints = 2;
    m->blocks = m->slots = m->checkpoints = zeros;
}

static void breaks_at_wrong_removes(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        const char *const why[] = {"Remove of grant 1, which was not sent",
                                   "Remove of grant 9, which was not sent",
                                   "Remove of grant 0, which was not sent",
                                   "overtook the Results of 1 steps",
                                   "receipts of 2, 1, 2 and 0 stages",
                                   "receipts of 3, 2, 2 and 0 stages"};
        struct rig *r = with_one(&usual);
        Sluice__V1__StageRemove m;
        uint32_t zeros[3] = {0};

        rig_step(r);
        if (i >= 3) {
            rig_cancel(r, 1);
            rig_turn(r);
        }
        if (i >= 4) {
            ring_step(r->ring);
            ring_step(r->ring);
        }
        fill_remove(&m, i == 1 ? 9 : i == 2 ? 0 : 1, zeros);
        m.n_slots = i == 4 ? 1 : 2;
        m.n_blocks = i == 5 ? 3 : 2;
        ring_say(r->ring, METHOD_STAGE_REMOVE, &m.base);
        check_broken(&r, why[i]);
    }
}

/* The sequence is still here, because the router has not acknowledged its end.
 */
static void breaks_at_a_remove_that_comes_twice(void **state)
{
    struct rig *r = with_one(&usual);
    Sluice__V1__StageRemove m;
    uint32_t zeros[3] = {0};

    (void)state;
    r->acknowledge = false;
    ring_run(r->ring);
    assert_int_equal(ring_removes(r->ring, 1), 1);
    assert_int_equal(rig_state(r, 1), 5);
    fill_remove(&m, 1, zeros);
    ring_say(r->ring, METHOD_STAGE_REMOVE, &m.base);
    r->acknowledge = true;
    check_broken(&r, "Remove of grant 1, which was not sent");
}

/* With plans here and at the stages, a receipt that waits, and a Submit
 * whose ids have not all come: UNAVAILABLE, so the router can retry
 * elsewhere. */
static void frees_all_when_an_edge_breaks(void **state)
{
    struct worker_options o;
    struct rig_submit s = usual;
    struct rig *r;
    uint64_t tag, open;

    (void)state;
    ring_options(&o);
    o.engine_depth = 2;
    r = with_three(&o);
    s.id = 4;
    s.n_first = 5;
    open = rig_submit(r, &s);
    ring_step(r->ring);
    assert_int_equal(rig_inflight(r), 1);
    tag = rig_cancel(r, 2);
    rig_turn(r);
    ring_cut(r->ring);
    rig_turn(r);
    ring_check_refused(r, tag, ST_UNAVAILABLE,
                       "assembly of its stages is over");
    ring_check_refused(r, open, ST_UNAVAILABLE,
                       "assembly of its stages is over");
    assert_int_equal(rig_inflight(r),
                     1); /* it holds the memory that it names */
    check_broken(&r, "");
}

/* A Submit whose ids have not all come has no answer yet: it fails with
 * UNAVAILABLE, so the router retries elsewhere. */
static void sends_a_half_submit_elsewhere(void **state)
{
    const struct rig_submit s = {
        .id = 9, .n_prompt = 20, .max_tokens = 4, .n_first = 10};
    struct rig_message m;
    struct rig *r = with_three(NULL);
    uint64_t tag;

    (void)state;
    rig_message(r, &s, &m);
    tag = rig_send_submit(r, &m);
    rig_turn(r);
    assert_false(r->ends[tag].ended);
    ring_cut(r->ring);
    rig_turn(r);
    assert_true(r->ends[tag].ended);
    assert_int_equal(r->ends[tag].status, ST_UNAVAILABLE);
    check_broken(&r, "");
}

/* A plan of the last assembly returns from the engine in the next one. */
static void forgets_the_plans_of_the_last_assembly(void **state)
{
    struct rig *r = with_three(NULL);

    (void)state;
    ring_step(r->ring);
    assert_int_equal(rig_inflight(r), 1);
    ring_cut(r->ring);
    rig_turn(r);
    assert_int_equal(r->n_broken, 1);
    ring_assemble(r->ring);
    rig_submit(r, &usual);
    rig_turn(r);
    assert_int_equal(rig_inflight(r), 1); /* still the old one */
    ring_run(r->ring);
    rig_check_tokens(r, r->grant, 1, 10, 6);
    rig_check_empty(r);
    ring_rig_end(&r);
}

/* No orphan outlives its assembly. */
static void drops_all_with_the_session(void **state)
{
    struct rig *r = with_three(NULL);

    (void)state;
    rig_lose(r);
    rig_run(r);
    rig_check_empty(r);
    rig_reconnect(r);
    assert_int_equal(r->hello_live, 0);
    assert_int_equal(r->n_lives, 0);
    ring_assemble(r->ring);
    rig_submit(r, &usual);
    rig_turn(r);
    ring_run(r->ring);
    rig_check_tokens(r, 1, 1, 10, 6);
    ring_rig_end(&r);
}

static void drops_all_when_it_stops(void **state)
{
    struct rig *r = with_three(NULL);

    (void)state;
    ring_step(r->ring);
    ring_rig_free(&r); /* checks that everything is free */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(computes_the_rows_of_a_failed_step_again),
        cmocka_unit_test(fails_what_fails_alone),
        cmocka_unit_test(fails_a_damaged_row_alone),
        cmocka_unit_test(ends_what_is_computed_again),
        cmocka_unit_test(passes_its_own_failed_step_on),
        cmocka_unit_test(survives_an_engine_that_takes_no_plan),
        cmocka_unit_test(takes_no_result_of_an_engine_that_lies),
        cmocka_unit_test(breaks_at_wrong_results),
        cmocka_unit_test(breaks_at_wrong_values),
        cmocka_unit_test(takes_the_last_id_of_the_vocabulary),
        cmocka_unit_test(breaks_at_a_result_of_nothing),
        cmocka_unit_test(breaks_at_wrong_removes),
        cmocka_unit_test(breaks_at_a_remove_that_comes_twice),
        cmocka_unit_test(frees_all_when_an_edge_breaks),
        cmocka_unit_test(sends_a_half_submit_elsewhere),
        cmocka_unit_test(forgets_the_plans_of_the_last_assembly),
        cmocka_unit_test(drops_all_with_the_session),
        cmocka_unit_test(drops_all_when_it_stops),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
