/* A stage: rows with drafts, Accept, and every way in which they can be
 * wrong. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/stages/stage_bench.h"

#define NONE     UINT32_MAX
#define PROMPT   10u
#define KIND_MTP 8u

static struct bench *stand(bool last)
{
    struct bench *b = bench_new(last);

    bench_assemble(b);
    return b;
}

static void run_all(struct bench *b)
{
    while (bench_run(b)) {
    }
}

static void intact(const struct bench *b)
{
    if (b->n_broken > 0) {
        fail_msg("%s", b->why);
    }
}

/* Opens a sequence that has its first token. */
static uint64_t decoding(struct bench *b, uint32_t max_tokens)
{
    uint64_t grant = bench_open_plain(b, PROMPT, max_tokens);

    bench_forward(b, grant, false, 0, PROMPT, 0);
    run_all(b);
    return grant;
}

/* Fills the ids of a row that is the first of its Forward: `right` of its n
 * drafts are what the last stage samples. */
static void fill_ids(uint64_t step, uint32_t n, uint32_t right, uint32_t *ids)
{
    ids[0] = 1;
    for (uint32_t i = 0; i < n; i++) {
        ids[1 + i] = (uint32_t)bench_x(step, i) + (i < right ? 0 : 1);
    }
}

/* Adds a row with n drafts behind n_generated tokens. */
static void draft_row(struct bench_forward *f, uint64_t grant,
                      uint32_t n_generated, uint32_t n, uint32_t keep_at,
                      uint32_t right)
{
    uint32_t ids[DRAFTS_MAX + 2];

    fill_ids(f->m.step, n, right, ids);
    bench_row(f, grant, true, PROMPT - 1 + n_generated, 1, n_generated);
    bench_drafts(f, keep_at, ids, n);
}

static void send_drafts(struct bench *b, uint64_t grant, uint32_t n_generated,
                        uint32_t n, uint32_t keep_at, uint32_t right)
{
    struct bench_forward f;

    bench_begin(b, &f);
    draft_row(&f, grant, n_generated, n, keep_at, right);
    bench_send(b, &f);
}

/* ---- a stage before the last ---- */

static void passes_drafts_on(void **state)
{
    struct bench *b = stand(false);
    uint64_t one = decoding(b, 20), two = decoding(b, 20), three;
    const struct bench_said *s;
    struct bench_forward f;

    (void)state;
    three = bench_open_plain(b, PROMPT, 20);
    bench_begin(b, &f);
    draft_row(&f, one, 1, 3, 4, 3);
    bench_row(&f, two, true, PROMPT, 1, 1);
    f.kind[1] |= KIND_MTP;
    f.propose[1] = 2;
    f.m.n_propose = 3;
    f.tokens[f.m.n_tokens++] = 77;
    bench_row(&f, three, false, 0, 4, NONE);
    f.kind[2] |= KIND_MTP;
    for (uint32_t i = 0; i < 4; i++) {
        f.tokens[f.m.n_tokens++] = 80 + i;
    }
    f.next[f.m.n_next++] = 99;
    bench_send(b, &f);
    intact(b);
    assert_true(b->plan->rows[0].keep);
    assert_int_equal(b->plan->rows[0].keep_at, 4);
    assert_false(b->plan->rows[1].keep);
    bench_run(b);
    s = bench_last(b, METHOD_STAGE_FORWARD);
    assert_int_equal(s->n, 3);
    assert_int_equal(s->n_drafts, 3);
    assert_memory_equal(s->drafts, f.drafts, 3 * sizeof *f.drafts);
    assert_memory_equal(s->kind, f.kind, 3 * sizeof *f.kind);
    assert_int_equal(s->n_keep_at, 1);
    assert_int_equal(s->keep_at[0], 4);
    assert_int_equal(s->n_propose, 3);
    assert_memory_equal(s->propose, f.propose, 3 * sizeof *f.propose);
    assert_int_equal(s->n_ids, 4 + 1 + 4);
    assert_memory_equal(s->ids, f.tokens, 9 * sizeof *f.tokens);
    assert_int_equal(s->n_next, 1);
    assert_int_equal(s->next[0], 99);
    bench_free(&b);
}

/* Whatever was accepted: the next row finds the state there. */
static void replays_what_was_accepted(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= 4; count++) {
        struct bench *b = stand(false);
        uint64_t one = decoding(b, 20);

        send_drafts(b, one, 1, 3, 20, 0);
        run_all(b);
        bench_accept(b, one, count);
        assert_int_equal(bench_last(b, METHOD_STAGE_ACCEPT)->grants[0], one);
        assert_int_equal(bench_last(b, METHOD_STAGE_ACCEPT)->count[0], count);
        send_drafts(b, one, 1 + count, 2, 0, 0);
        assert_int_equal(b->plan->n_replays, 1);
        assert_int_equal(b->plan->replays[0].keep_at, 20);
        assert_int_equal(b->plan->replays[0].n_tokens, count);
        run_all(b);
        bench_accept(b, one, 1);
        bench_forward(b, one, true, PROMPT + 1 + count, 1, 2 + count);
        run_all(b);
        intact(b);
        bench_free(&b);
    }
}

/* The plan of another sequence carries the replay, and uses the region. */
static void the_next_plan_replays(void **state)
{
    struct bench *b = stand(false);
    uint64_t one = decoding(b, 20), two = decoding(b, 20);

    (void)state;
    send_drafts(b, one, 1, 3, 0, 0);
    run_all(b);
    bench_accept(b, one, 2);
    assert_null(b->plan);
    send_drafts(b, two, 1, 5, 0, 0);
    assert_int_equal(b->plan->n_replays, 1);
    run_all(b);
    bench_accept(b, two, 6);
    bench_forward(b, one, true, PROMPT + 2, 1, 3);
    assert_int_equal(b->plan->n_replays, 1);
    run_all(b);
    bench_forward(b, two, true, PROMPT + 6, 1, 7);
    assert_int_equal(b->plan->n_replays, 0);
    run_all(b);
    intact(b);
    bench_free(&b);
}

/* A Forward that came as failed runs no plan, and one that the engine refuses
 * does not either: the replay goes with the next. */
static void replays_are_not_lost(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        struct bench *b = stand(false);
        uint64_t one = decoding(b, 20), two = decoding(b, 20);
        struct bench_forward f;

        send_drafts(b, one, 1, 3, 0, 0);
        run_all(b);
        bench_accept(b, one, 3);
        if (how == 0) {
            bench_begin(b, &f);
            bench_row(&f, two, true, PROMPT, 1, 1);
            f.m.has_failure = true;
            f.m.failure = wire_text("it failed");
            bench_send(b, &f);
        } else if (how == 1) {
            b->refuse_plans = true;
            bench_forward(b, two, true, PROMPT, 1, 1);
            b->refuse_plans = false;
        } else { /* the next one is in line already */
            bench_forward(b, two, true, PROMPT, 1, 1);
            bench_forward(b, one, true, PROMPT + 3, 1, 4);
            b->fail_next = "it failed";
        }
        run_all(b);
        if (how < 2) {
            bench_forward(b, one, true, PROMPT + 3, 1, 4);
            assert_int_equal(b->plan->n_replays, 1);
            run_all(b);
        }
        intact(b);
        bench_free(&b);
    }
}

/* The sequence of a failed step begins anew; Accept of none frees its region,
 * which another one gets. */
static void a_failed_row_keeps_nothing(void **state)
{
    (void)state;
    for (int how = 0; how < 2; how++) {
        struct bench *b = stand(false);
        uint64_t one = decoding(b, 20), two = decoding(b, 20);
        struct bench_forward f;

        bench_begin(b, &f);
        draft_row(&f, one, 1, 3, 0, 0);
        if (how == 0) {
            f.m.has_failure = true;
            f.m.n_tokens = 0;
            f.m.failure = wire_text("it failed");
        } else {
            b->fail_next = "it failed";
        }
        bench_send(b, &f);
        run_all(b);
        assert_string_equal(bench_last(b, METHOD_STAGE_FORWARD)->failure,
                            how == 0 ? "it failed" : "stage 1: it failed");
        assert_int_equal(bench_last(b, METHOD_STAGE_FORWARD)->n_keep_at, 1);
        assert_int_equal(bench_last(b, METHOD_STAGE_FORWARD)->n_ids, 0);
        bench_accept(b, one, 0);
        send_drafts(b, two, 1, 5, 0, 0);
        assert_int_equal(b->plan->n_replays, 0);
        run_all(b);
        bench_begin(b, &f);
        bench_row(&f, one, false, 0, PROMPT, NONE);
        f.kind[0] |= 4; /* anew */
        f.index[0] = 1;
        bench_send(b, &f);
        run_all(b);
        bench_forward(b, one, true, PROMPT, 1, 1);
        run_all(b);
        bench_accept(b, two, 6);
        intact(b);
        bench_free(&b);
    }
}

/* Its replay waits when the sequence is removed; the slot is another one's
 * then. */
static void a_removed_sequence_leaves_its_region(void **state)
{
    (void)state;
    for (int accepted = 0; accepted < 2; accepted++) {
        struct bench *b = stand(false);
        uint64_t one = decoding(b, 20), two = decoding(b, 20), three;

        send_drafts(b, one, 1, 8, 0, 0);
        run_all(b);
        if (accepted) {
            bench_accept(b, one, 4);
        }
        bench_remove(b, one);
        three = decoding(b, 20);
        send_drafts(b, two, 1, 8, 0, 0);
        run_all(b);
        bench_accept(b, two, 9);
        send_drafts(b, three, 1, 8, 9, 0);
        run_all(b);
        bench_accept(b, three, 1);
        bench_forward(b, two, true, PROMPT + 9, 1, 10);
        run_all(b);
        bench_forward(b, three, true, PROMPT + 1, 1, 2);
        run_all(b);
        intact(b);
        bench_free(&b);
    }
}

/* Restores come right behind Accept, before any plan has replayed. */
static void another_takes_over_accepted_positions(void **state)
{
    struct bench *b = stand(false);
    uint64_t one = decoding(b, 20), two;

    (void)state;
    send_drafts(b, one, 1, 4, 0, 0);
    run_all(b);
    bench_accept(b, one, 4);
    two = bench_open_plain(b, PROMPT + 10, 8);
    bench_continue(b, two, PROMPT + 4, one);
    bench_remove(b, one);
    bench_forward(b, two, false, PROMPT + 4, 6, 0);
    assert_int_equal(b->plan->n_replays, 1);
    run_all(b);
    intact(b);
    bench_free(&b);
}

/* A unit that accepted drafts complete is kept at once; the state there comes
 * from the replay. */
static void keeps_what_drafts_completed(void **state)
{
    struct bench *b = stand(false);
    uint64_t one = bench_open_plain(b, 58, 30), two;
    uint32_t ids[8] = {0};
    struct bench_forward f;

    (void)state;
    bench_forward(b, one, false, 0, 58, 0);
    run_all(b);
    bench_begin(b, &f);
    bench_row(&f, one, true, 58, 1, 1);
    bench_drafts(&f, 0, ids, 5);
    bench_send(b, &f);
    run_all(b);
    bench_accept(b, one, 6);
    bench_keep(b, one, 10, NONE, 64);
    bench_begin(b, &f);
    bench_row(&f, one, true, 64, 1, 7);
    bench_send(b, &f);
    run_all(b);
    bench_cut(b, one, 65, NONE);
    two = bench_open_plain(b, 80, 8);
    bench_continue(b, two, 65, one);
    bench_remove(b, one);
    bench_forward(b, two, false, 65, 15, 0);
    run_all(b);
    intact(b);
    bench_free(&b);
}

/* ---- the last stage ---- */

static void the_last_stage_accepts(void **state)
{
    (void)state;
    for (uint32_t right = 0; right <= 4; right++) {
        struct bench *b = stand(true);
        uint64_t one = decoding(b, 20);
        const struct bench_said *s;

        send_drafts(b, one, 1, 4, 0, right);
        assert_false(b->plan->rows[0].keep);
        run_all(b);
        s = bench_last(b, METHOD_STAGE_RESULT);
        assert_int_equal(s->n, 1);
        assert_int_equal(s->n_accepted, 1);
        assert_int_equal(s->accepted[0], right);
        assert_int_equal(s->tokens[0], (uint32_t)bench_x(b->step, right));
        assert_int_equal(s->n_proposed, 0);
        bench_accept(b, one, right + 1);
        bench_forward(b, one, true, PROMPT + right + 1, 1, right + 2);
        assert_int_equal(b->plan->n_replays, 0);
        run_all(b);
        intact(b);
        assert_int_equal(bench_last(b, METHOD_STAGE_RESULT)->n_accepted, 0);
        bench_free(&b);
    }
}

static void the_last_stage_proposes(void **state)
{
    struct bench *b = stand(true);
    uint64_t one = decoding(b, 20), two = decoding(b, 20);
    const struct bench_said *s;
    struct bench_forward f;

    (void)state;
    bench_begin(b, &f);
    draft_row(&f, one, 1, 2, 0, 2);
    f.kind[0] |= KIND_MTP;
    f.propose[0] = 3;
    bench_row(&f, two, true, PROMPT, 1, 1);
    f.m.n_propose = 2;
    bench_send(b, &f);
    assert_true(b->plan->rows[0].mtp && !b->plan->rows[1].mtp);
    assert_int_equal(b->plan->tokens[1], f.tokens[1]);
    assert_true(b->plan->rows[0].n_blocks * 8 >= PROMPT + 3 + 3);
    run_all(b);
    s = bench_last(b, METHOD_STAGE_RESULT);
    assert_int_equal(s->n, 2);
    assert_int_equal(s->n_accepted, 1);
    assert_int_equal(s->accepted[0], 2);
    assert_int_equal(s->n_proposed, 1);
    assert_int_equal(s->proposed[0], 3);
    assert_int_equal(s->n_proposals, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(s->proposals[i], s->tokens[0] + 1 + i);
    }
    intact(b);
    bench_free(&b);
}

/* A step fails while a row before it waits in line: what that row computes may
 * be restored, with the MTP layer's part. */
static void the_mtp_layer_computes_what_came_before_a_failure(void **state)
{
    struct bench *b = bench_new(true);
    struct bench_forward f;
    uint64_t one, two;

    (void)state;
    b->n_stages = 3;
    b->stage = 2;
    bench_assemble(b);
    one = bench_open_plain(b, PROMPT, 20);
    two = bench_open_plain(b, PROMPT, 20);
    bench_forward(b, two, false, 0, 4, NONE);
    for (uint32_t at = 0; at < 8; at += 4) {
        bench_begin(b, &f);
        bench_row(&f, one, false, at, 4, NONE);
        f.kind[0] |= KIND_MTP;
        for (uint32_t i = 0; i < 4 && at == 0; i++) {
            f.tokens[f.m.n_tokens++] = 80 + i;
        }
        if (at == 0) {
            f.next[f.m.n_next++] = 84;
        } else {
            f.m.has_failure = true;
            f.m.failure = wire_text("it failed");
        }
        bench_send(b, &f);
    }
    intact(b);
    assert_true(bench_run(b));
    assert_int_equal(b->plan->rows[0].position, 0);
    assert_true(b->plan->rows[0].mtp);
    assert_int_equal(b->plan->rows[0].next, 84);
    run_all(b);
    intact(b);
    bench_free(&b);
}

static void logprobs_are_of_each_token(void **state)
{
    struct bench *b = stand(true);
    const struct bench_said *s;
    struct bench_open o;
    uint64_t one;

    (void)state;
    bench_open(b, &o, PROMPT, 20);
    o.sampling.has_top_logprobs = true;
    o.sampling.top_logprobs = 1;
    bench_say(b, METHOD_STAGE_OPEN, &o.m.base);
    one = b->grant;
    bench_forward(b, one, false, 0, PROMPT, 0);
    run_all(b);
    send_drafts(b, one, 1, 3, 0, 2);
    run_all(b);
    s = bench_last(b, METHOD_STAGE_RESULT);
    assert_int_equal(s->accepted[0], 2);
    assert_int_equal(s->n_width, 1);
    assert_int_equal(s->width[0], 2);
    assert_int_equal(s->n_logprobs, 6);
    assert_true(s->logprobs[0] == -1.0f && s->logprobs[2] == -2.0f);
    assert_true(s->logprobs[4] == -0.5f);
    assert_int_equal(s->n_top, 3);
    assert_int_equal(s->top[0], 10);
    assert_int_equal(s->top[1], 20);
    assert_int_equal(s->top[2], 0);
    bench_free(&b);
}

/* Accepted drafts are in the history of the next token, refused ones are not.
 */
static void penalties_see_accepted_drafts(void **state)
{
    struct bench *b = stand(true);
    uint32_t ids[3], first;
    struct bench_open o;
    struct bench_forward f;

    (void)state;
    bench_open(b, &o, 6, 20);
    o.sampling.has_frequency_penalty = true;
    o.sampling.frequency_penalty = 1;
    o.m.n_tokens = 6;
    bench_say(b, METHOD_STAGE_OPEN, &o.m.base);
    bench_forward(b, b->grant, false, 0, 6, 0);
    run_all(b);
    first = (105 * 7 + 6) % BENCH_VOCAB; /* of six ids, the last is 105 */
    ids[0] = first;
    ids[1] = (first * 7 + 7) % BENCH_VOCAB;
    ids[2] = 3; /* wrong */
    bench_begin(b, &f);
    bench_row(&f, b->grant, true, 6, 1, 1);
    bench_drafts(&f, 0, ids, 2);
    bench_send(b, &f);
    run_all(b);
    assert_int_equal(bench_last(b, METHOD_STAGE_RESULT)->accepted[0], 1);
    ids[2] = (ids[1] * 7 + 8) % BENCH_VOCAB;
    assert_int_equal(bench_last(b, METHOD_STAGE_RESULT)->tokens[0], ids[2]);
    bench_accept(b, b->grant, 2);
    bench_forward(b, b->grant, true, 8, 1, 3);
    run_all(b);
    assert_int_equal(bench_last(b, METHOD_STAGE_RESULT)->tokens[0],
                     (ids[2] * 7 + 9) % BENCH_VOCAB);
    intact(b);
    bench_free(&b);
}

static void a_damaged_row_accepts_none(void **state)
{
    struct bench *b = stand(true);
    uint64_t one = decoding(b, 20);
    struct bench_forward f;

    (void)state;
    b->damaged = 1;
    bench_begin(b, &f);
    draft_row(&f, one, 1, 2, 0, 2);
    f.kind[0] |= KIND_MTP;
    f.propose[0] = 2;
    f.m.n_propose = 1;
    bench_send(b, &f);
    run_all(b);
    assert_int_equal(bench_last(b, METHOD_STAGE_RESULT)->damaged[0], 1);
    assert_int_equal(bench_last(b, METHOD_STAGE_RESULT)->accepted[0], 0);
    assert_int_equal(bench_last(b, METHOD_STAGE_RESULT)->proposed[0], 0);
    bench_accept(b, one, 0);
    bench_remove(b, one);
    intact(b);
    bench_free(&b);
}

/* ---- what stages state ---- */

static void geometry_has_what_drafts_need(void **state)
{
    Sluice__V1__StageGeometry m = SLUICE__V1__STAGE_GEOMETRY__INIT;
    const struct bench_said *s;

    (void)state;
    for (int last = 0; last < 2; last++) {
        struct bench *b = stand(last);

        bench_say(b, METHOD_STAGE_GEOMETRY, &m.base);
        s = bench_last(b, METHOD_STAGE_GEOMETRY);
        assert_int_equal(s->n_keep_tokens, 1);
        assert_int_equal(s->keep_tokens[0], BENCH_KEEP);
        assert_int_equal(s->proposes, last);
        intact(b);
        bench_free(&b);
    }
}

/* Stage 2 after one of an older version, and after one that states its own. */
static void geometry_stays_short_behind_an_old_stage(void **state)
{
    uint32_t pages[1] = {50}, per_block[1] = {1}, per_slot[1] = {2};
    uint32_t keep[1] = {7};

    (void)state;
    for (uint32_t known = 0; known < 2; known++) {
        Sluice__V1__StageGeometry m = SLUICE__V1__STAGE_GEOMETRY__INIT;
        Sluice__V1__AssembleRequest to;
        struct bench *b = bench_new(false);
        const struct bench_said *s;

        bench_message(b, &to);
        to.stage = b->stage = 2;
        to.n_stages = b->n_stages = 4;
        bench_send_assemble(b, &to);
        bench_connect(b, b->assembly, 1);
        m.n_n_pages = m.n_pages_per_block = m.n_pages_per_slot = 1;
        m.n_pages = pages;
        m.pages_per_block = per_block;
        m.pages_per_slot = per_slot;
        m.n_keep_tokens = known;
        m.keep_tokens = keep;
        bench_say(b, METHOD_STAGE_GEOMETRY, &m.base);
        intact(b);
        s = bench_last(b, METHOD_STAGE_GEOMETRY);
        assert_int_equal(s->n, 2);
        assert_int_equal(s->n_keep_tokens, known > 0 ? 2 : 0);
        assert_int_equal(s->keep_tokens[0], known > 0 ? 7 : 0);
        assert_int_equal(s->keep_tokens[1], known > 0 ? BENCH_KEEP : 0);
        bench_free(&b);
    }
}

/* ---- wrong messages ---- */

struct wrong {
    const char *text;
    void (*change)(struct bench_forward *f);
};

#define CHANGE(name, what)                             \
    static void change_##name(struct bench_forward *f) \
    {                                                  \
        what;                                          \
    }

CHANGE(few_drafts, f->m.n_drafts = 1)
CHANGE(many_drafts, f->m.n_drafts = 3)
CHANGE(no_propose, f->m.n_propose = 1)
CHANGE(few_places, f->m.n_keep_at = 0)
CHANGE(many_places, f->m.n_keep_at = 2)
CHANGE(few_ids, f->m.n_tokens--)
CHANGE(many_ids, f->m.n_tokens++)
CHANGE(few_next, f->kind[1] = KIND_MTP | 1; f->m.n_tokens++)
CHANGE(many_next, f->m.n_next = 1)
CHANGE(too_many, f->drafts[0] = 9; f->count[0] = 10; f->n_tokens += 6;
       f->m.n_tokens += 6)
CHANGE(count, f->drafts[0] = 2)
CHANGE(prompt_row, f->kind[0] = 2)
CHANGE(no_sample, f->kind[0] = 1; f->index[0] = 0)
CHANGE(at, f->keep_at[0] = BENCH_KEEP - 3)
CHANGE(far, f->keep_at[0] = UINT32_MAX)
CHANGE(id, f->tokens[2] = BENCH_VOCAB)
CHANGE(next_id, f->kind[1] = KIND_MTP | 1; f->index[1] = 0; f->m.n_tokens++;
       f->next[f->m.n_next++] = BENCH_VOCAB)
CHANGE(mtp, f->kind[1] |= KIND_MTP; f->m.n_tokens++)
CHANGE(propose_many, f->kind[1] |= KIND_MTP; f->m.n_tokens++; f->propose[1] = 9)
CHANGE(propose_none, f->propose[1] = 2)
CHANGE(propose_no_token, f->kind[1] = KIND_MTP | 1; f->index[1] = 0;
       f->m.n_tokens++; f->m.n_next++; f->propose[1] = 2)
CHANGE(propose_far, f->kind[1] |= KIND_MTP; f->m.n_tokens++;
       f->position[1] = 22; f->propose[1] = 8)
CHANGE(kind, f->kind[0] |= 16)
CHANGE(saves, bench_save(f, 12, 5); f->save_row[0] = 0)

/* Row 0: a token and 3 drafts of grant 101; row 1: a token of 102. */
static void send_wrong(struct bench *b, void (*change)(struct bench_forward *))
{
    uint64_t one = decoding(b, 20), two = decoding(b, 20);
    struct bench_forward f;

    memset(&f, 0, sizeof f);
    bench_begin(b, &f);
    draft_row(&f, one, 1, 3, 0, 0);
    bench_row(&f, two, true, PROMPT, 1, 1);
    f.m.n_drafts = f.m.n_propose = 2;
    change(&f);
    bench_send(b, &f);
}

static void a_wrong_row_breaks_it(void **state)
{
    static const struct wrong wrong[] = {
        {"columns of 1 drafts and 2 proposals, but it has 2",
         change_few_drafts},
        {"columns of 3 drafts and 2 proposals, but it has 2",
         change_many_drafts},
        {"columns of 2 drafts and 1 proposals, but it has 2",
         change_no_propose},
        {"0 places of kept inputs, 4 ids and 0 next", change_few_places},
        {"2 places of kept inputs, 4 ids and 0 next", change_many_places},
        {"3 ids and 0 next ones, but its rows need 1, 4", change_few_ids},
        {"5 ids and 0 next ones, but its rows need 1, 4", change_many_ids},
        {"0 next ones, but its rows need 1, 5 and 1", change_few_next},
        {"1 next ones, but its rows need 1, 4 and 0", change_many_next},
        {"9 drafts in a row of 10 tokens", change_too_many},
        {"2 drafts in a row of 4 tokens", change_count},
        {"prompt positions 10 to 14, but the prompt has 10", change_prompt_row},
        {"3 drafts in a row of 4 tokens and kind 1", change_no_sample},
        {"it keeps 4 inputs at 21, but a part of that is in use", change_at},
        {"it keeps 4 inputs at 4294967295", change_far},
        {"id 1000 is not below the vocabulary", change_id},
        {"positions to 11 without a token", change_next_id},
        {"kind 11, but this stage has no MTP layer", change_mtp},
        {"9 drafts to propose behind 1 tokens", change_propose_many},
        {"2 drafts to propose behind 1 tokens of kind 3", change_propose_none},
        {"2 drafts to propose behind 1 tokens of kind 9",
         change_propose_no_token},
        {"8 drafts to propose behind 1 tokens of kind 11 at 22",
         change_propose_far},
        {"kind 19", change_kind},
        {"it saves at 12, but a row with drafts", change_saves},
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct worker_options o;
        struct bench *b;

        bench_options(&o, true);
        o.drafting.has_mtp = wrong[i].change != change_mtp;
        b = bench_new_with(&o, true);
        bench_assemble(b);
        send_wrong(b, wrong[i].change);
        bench_check_broken(b, wrong[i].text);
        bench_free(&b);
    }
}

/* The last position of a request samples its last token; drafts behind it would
 * get none. */
static void drafts_end_with_the_request(void **state)
{
    (void)state;
    for (uint32_t over = 0; over < 2; over++) {
        struct bench *b = stand(false);
        uint64_t one = decoding(b, 5);

        send_drafts(b, one, 1, 3 + over, 0, 0);
        if (over) {
            bench_check_broken(b, "4 drafts from position 10 on, but there are "
                                  "15 positions");
        } else {
            run_all(b);
            bench_accept(b, one, 4);
            intact(b);
        }
        bench_free(&b);
    }
}

/* All of the inputs that a stage keeps, and one more. */
static void keeps_as_much_as_it_states(void **state)
{
    (void)state;
    for (uint32_t over = 0; over < 2; over++) {
        struct bench *b = stand(false);
        uint64_t grant[3];
        struct bench_forward f;

        for (int i = 0; i < 3; i++) {
            grant[i] = decoding(b, 20);
        }
        bench_begin(b, &f);
        for (uint32_t i = 0; i < 3; i++) {
            draft_row(&f, grant[i], 1, 7 + (i == 2 ? over : 0), 8 * i, 0);
        }
        bench_send(b, &f);
        if (over) {
            bench_check_broken(b, "it keeps 9 inputs at 16");
        } else {
            run_all(b);
            intact(b);
        }
        bench_free(&b);
    }
}

/* As many rows as the logprobs of a Result have room for: 56 with all drafts,
 * and one with 7. */
#define WIDE_ROWS 57u

struct wide {
    Sluice__V1__StageForward m;
    uint64_t grant[WIDE_ROWS];
    uint32_t position[WIDE_ROWS], count[WIDE_ROWS], kind[WIDE_ROWS];
    uint32_t index[WIDE_ROWS], drafts[WIDE_ROWS], keep_at[WIDE_ROWS];
    uint32_t ids[WIDE_ROWS * (DRAFTS_MAX + 1)], device_us[1];
};

static void begin_wide(struct bench *b, struct wide *w)
{
    memset(w, 0, sizeof *w);
    sluice__v1__stage_forward__init(&w->m);
    w->m.step = ++b->step;
    w->m.n_grant = w->m.n_position = w->m.n_count = WIDE_ROWS;
    w->m.n_kind = w->m.n_index = WIDE_ROWS;
    w->m.grant = w->grant;
    w->m.position = w->position;
    w->m.count = w->count;
    w->m.kind = w->kind;
    w->m.index = w->index;
    w->m.n_device_us = 1;
    w->m.device_us = w->device_us;
    w->m.drafts = w->drafts;
    w->m.keep_at = w->keep_at;
    w->m.tokens = w->ids;
}

static void send_wide(struct bench *b, struct wide *w, uint32_t n_tokens)
{
    static float x[WIDE_ROWS * (DRAFTS_MAX + 1) * BENCH_HIDDEN];

    assert_int_equal(
        peer_oneway_tensor(b->out, METHOD_STAGE_FORWARD, &w->m.base, x,
                           n_tokens * BENCH_HIDDEN * (uint32_t)sizeof *x),
        ST_OK);
    bench_turn(b);
}

/* Opens all sequences with the most logprobs, and gives each a token. */
static void open_wide(struct bench *b, uint64_t *grant)
{
    struct bench_open o;
    struct wide w;

    for (uint32_t i = 0; i < WIDE_ROWS; i++) {
        bench_open(b, &o, 2, 20);
        o.sampling.has_top_logprobs = true;
        o.sampling.top_logprobs = TOP_LOGPROBS_MAX;
        bench_say(b, METHOD_STAGE_OPEN, &o.m.base);
        grant[i] = b->grant;
    }
    begin_wide(b, &w);
    memcpy(w.grant, grant, sizeof w.grant);
    for (uint32_t i = 0; i < WIDE_ROWS; i++) {
        w.count[i] = 2;
        w.kind[i] = 2;
    }
    send_wide(b, &w, 2 * WIDE_ROWS);
    run_all(b);
}

static void a_result_has_room_for_all_logprobs(void **state)
{
    struct worker_options o;

    (void)state;
    bench_options(&o, true);
    o.max_rows = WIDE_ROWS;
    o.step_tokens = o.drafting.keep_tokens = WIDE_ROWS * (DRAFTS_MAX + 1);
    o.pool.n_pages = 1000;
    o.pool.slot_cap = 64;
    for (uint32_t over = 0; over < 2; over++) {
        struct bench *b = bench_new_with(&o, true);
        uint64_t grant[WIDE_ROWS];
        uint32_t n = 0;
        struct wide w;

        bench_assemble(b);
        b->deaf = true;
        open_wide(b, grant);
        begin_wide(b, &w);
        memcpy(w.grant, grant, sizeof w.grant);
        for (uint32_t i = 0; i < WIDE_ROWS; i++) {
            w.drafts[i] = i + 1 < WIDE_ROWS || over ? DRAFTS_MAX : 7;
            w.position[i] = 2;
            w.count[i] = 1 + w.drafts[i];
            w.kind[i] = 3;
            w.index[i] = 1;
            w.keep_at[i] = n;
            n += w.count[i];
        }
        w.m.n_drafts = w.m.n_keep_at = WIDE_ROWS;
        w.m.n_tokens = n;
        send_wide(b, &w, n);
        if (over) {
            bench_check_broken(b, "10773 logprobs, at most 10752 fit");
        } else {
            assert_non_null(b->plan);
            run_all(b);
            intact(b);
        }
        bench_free(&b);
    }
}

/* ---- wrong orders ---- */

typedef void (*act_fn)(struct bench *b, uint64_t one, uint64_t two);

#define ACT(name, what)                                                 \
    static void act_##name(struct bench *b, uint64_t one, uint64_t two) \
    {                                                                   \
        (void)one, (void)two;                                           \
        what;                                                           \
    }

ACT(unknown, bench_accept(b, 99, 1))
ACT(removed, bench_remove(b, one); bench_accept(b, one, 1))
ACT(none_kept, bench_accept(b, two, 1))
ACT(too_many, bench_accept(b, one, 5))
ACT(twice, bench_accept(b, one, 2); bench_accept(b, one, 2))
ACT(row_first, bench_forward(b, one, true, PROMPT + 1, 1, 2))
ACT(restore_first, bench_restore(b, one, 0, NONE, NONE))
ACT(cut_first, bench_cut(b, one, PROMPT + 1, NONE))
ACT(overlap, send_drafts(b, two, 1, 3, 3, 0))
ACT(behind, bench_accept(b, one, 2); bench_keep(b, one, 10, NONE, 64))

static void on_its_way(struct bench *b, uint64_t one, uint64_t two)
{
    (void)one;
    send_drafts(b, two, 1, 3, 8, 0);
    bench_accept(b, two, 1);
}

static void take_over_first(struct bench *b, uint64_t one, uint64_t two)
{
    uint64_t three = bench_open_plain(b, PROMPT + 10, 8);

    (void)two;
    bench_continue(b, three, PROMPT + 1, one);
}

static void empty(struct bench *b, uint64_t one, uint64_t two)
{
    Sluice__V1__StageAccept m = SLUICE__V1__STAGE_ACCEPT__INIT;

    (void)one, (void)two;
    bench_say(b, METHOD_STAGE_ACCEPT, &m.base);
}

static void short_column(struct bench *b, uint64_t one, uint64_t two)
{
    Sluice__V1__StageAccept m = SLUICE__V1__STAGE_ACCEPT__INIT;

    (void)two;
    m.n_grant = 1;
    m.grant = &one;
    bench_say(b, METHOD_STAGE_ACCEPT, &m.base);
}

static void a_wrong_order_breaks_it(void **state)
{
    static const struct {
        const char *text;
        act_fn act;
    } wrong[] = {
        {"Accept: grant 99: the sequence is not open here", act_unknown},
        {"Accept: grant 101: the sequence is", act_removed},
        {"it advances by 1 inputs, but 0 are kept", act_none_kept},
        {"it advances by 5 inputs, but 4 are kept", act_too_many},
        {"it advances by 2 inputs, but 0 are kept", act_twice},
        {"its drafts are neither accepted nor refused", act_row_first},
        {"0 steps with it are here, and 4 inputs are kept", act_restore_first},
        {"0 steps with it are here, and 4 inputs are kept", act_cut_first},
        {"grant 101 is to be taken over at 11", take_over_first},
        {"it keeps 4 inputs at 3", act_overlap},
        {"node 10 ends at 64, but 12 positions are computed", act_behind},
        {"1 steps with it are here", on_its_way},
        {"columns of 0 grants and 0 counts", empty},
        {"columns of 1 grants and 0 counts", short_column},
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct bench *b = stand(false);
        uint64_t one = decoding(b, 20), two = decoding(b, 20);

        send_drafts(b, one, 1, 3, 0, 0);
        run_all(b);
        wrong[i].act(b, one, two);
        bench_check_broken(b, wrong[i].text);
        bench_free(&b);
    }
}

/* The last stage has sampled what Accept counts. */
static void the_last_stage_checks_the_count(void **state)
{
    struct bench *b = stand(true);
    uint64_t one = decoding(b, 20);

    (void)state;
    send_drafts(b, one, 1, 3, 0, 2);
    run_all(b);
    bench_accept(b, one, 2);
    bench_check_broken(b, "it advances by 2 inputs, but got 3 tokens");
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_drafts_on),
        cmocka_unit_test(replays_what_was_accepted),
        cmocka_unit_test(the_next_plan_replays),
        cmocka_unit_test(replays_are_not_lost),
        cmocka_unit_test(a_failed_row_keeps_nothing),
        cmocka_unit_test(a_removed_sequence_leaves_its_region),
        cmocka_unit_test(another_takes_over_accepted_positions),
        cmocka_unit_test(keeps_what_drafts_completed),
        cmocka_unit_test(the_last_stage_accepts),
        cmocka_unit_test(the_last_stage_proposes),
        cmocka_unit_test(the_mtp_layer_computes_what_came_before_a_failure),
        cmocka_unit_test(logprobs_are_of_each_token),
        cmocka_unit_test(penalties_see_accepted_drafts),
        cmocka_unit_test(a_damaged_row_accepts_none),
        cmocka_unit_test(geometry_has_what_drafts_need),
        cmocka_unit_test(geometry_stays_short_behind_an_old_stage),
        cmocka_unit_test(a_wrong_row_breaks_it),
        cmocka_unit_test(drafts_end_with_the_request),
        cmocka_unit_test(keeps_as_much_as_it_states),
        cmocka_unit_test(a_result_has_room_for_all_logprobs),
        cmocka_unit_test(a_wrong_order_breaks_it),
        cmocka_unit_test(the_last_stage_checks_the_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
