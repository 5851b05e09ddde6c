/* Kept sequences that others continue, and ranges of them. */
#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig.h"
#include "worker/sequences/batch.h"

#define KEPT    4
#define UNKNOWN 0

static void defaults(struct worker_options *o)
{
    rig_defaults(o);
    o->n_pages = 512;
    o->reuse = true;
}

/* A conversation: its ids so far, and their kinds. */
struct chat {
    struct rig *r;
    uint32_t ids[RIG_CONTEXT], n;
    uint32_t spans[16], n_spans;
    uint32_t id; /* of the newest turn's sequence */
};

/* Adds a turn of n prompt ids and m tokens, which continues the last one if
 * `from`; its sequence is kept.  Returns the positions that were computed. */
static uint32_t turn(struct chat *c, uint32_t n, uint32_t m, bool from)
{
    struct rig_submit s = {.id = c->id + 1,
                           .max_tokens = m,
                           .keep_ms = 5000,
                           .prompt = c->ids,
                           .spans = c->spans,
                           .from = from ? c->id : 0};
    struct rig_prompt p = {.ids = c->ids, .spans = c->spans};
    uint32_t before = c->r->n_computed;
    uint64_t tag;

    for (uint32_t i = 0; i < n; i++) {
        c->ids[c->n++] = rig_prompt_id(c->id + 70, i);
    }
    if (c->n_spans % 2 == 1) { /* it was cut within a prompt run */
        c->spans[c->n_spans - 1] += n;
    } else {
        c->spans[c->n_spans++] = n;
    }
    s.n_prompt = p.n = c->n;
    s.n_spans = p.n_spans = c->n_spans;
    tag = rig_submit(c->r, &s);
    rig_turn(c->r);
    rig_check_ok(c->r, tag);
    rig_run(c->r);
    rig_expect_prompt(c->r, &p, m, &c->ids[c->n]);
    assert_int_equal(c->r->heard[c->r->grant].n, m);
    assert_memory_equal(c->r->heard[c->r->grant].tokens, &c->ids[c->n],
                        m * sizeof *c->ids);
    c->n += m;
    c->spans[c->n_spans++] = m;
    c->id++;
    return c->r->n_computed - before;
}

/* With one arithmetic or two, with blocks that end with the prompt or not. */
static void goes_on_without_computing_again(void **state)
{
    for (uint32_t kind = 0; kind < 8; kind++) {
        struct worker_options o;
        struct chat c = {.id = 1};
        uint32_t n = kind & 4 ? 64 : 45;

        defaults(&o);
        o.one_arithmetic = kind & 1;
        o.engine_depth = 1 + (kind >> 1 & 1);
        c.r = rig_new(&o);
        assert_int_equal(turn(&c, n, 20, false), n + 19);
        assert_int_equal(rig_state(c.r, 2), KEPT);
        /* The last token of a turn was not computed yet. */
        assert_int_equal(turn(&c, n, 20, true), 1 + n + 19);
        assert_int_equal(rig_state(c.r, 2), UNKNOWN);
        assert_int_equal(c.r->heard[c.r->grant].reused, n + 19);
        assert_int_equal(turn(&c, n, 20, true), 1 + n + 19);
        assert_int_equal(rig_account(c.r).slots.held, 1);
        rig_free(&c.r);
    }
    (void)state;
}

/* The same ids and kinds elsewhere, from nothing: bit-equal, because turn()
 * expects the same hash of ids and kinds. */
static void computed_again_elsewhere_is_the_same(void **state)
{
    for (int one = 0; one < 2; one++) {
        struct worker_options o;
        struct chat c = {.id = 1};
        struct rig *other;
        uint32_t n;

        defaults(&o);
        o.one_arithmetic = one == 1;
        c.r = rig_new(&o);
        turn(&c, 70, 30, false);
        turn(&c, 41, 30, true);
        other = rig_new(&o);
        n = c.n;
        rig_free(&c.r);
        c.r = other;
        assert_int_equal(turn(&c, 33, 10, false), n + 33 + 9);
        rig_free(&c.r);
    }
    (void)state;
}

/* A prompt row that begins behind a generated run ends at the next multiple of
 * 64, and all later ones at multiples or at the end of the run. */
static void cuts_prompt_rows_at_absolute_multiples(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint32_t ids[400], spans[] = {70, 30, 250};
    struct rig_submit s = {.id = 1,
                           .n_prompt = 350,
                           .max_tokens = 1,
                           .prompt = ids,
                           .spans = spans,
                           .n_spans = 3};
    static const struct {
        uint32_t position, n;
        enum row_kind kind;
    } rows[] = {{0, 70, ROW_PROMPT},
                {70, 30, ROW_GENERATED},
                {100, 28, ROW_PROMPT},
                {128, 128, ROW_PROMPT},
                {256, 94, ROW_PROMPT}};

    (void)state;
    defaults(&o);
    r = rig_new(&o);
    for (uint32_t i = 0; i < 350; i++) {
        ids[i] = rig_prompt_id(1, i);
    }
    rig_submit(r, &s);
    rig_turn(r);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct plan_row *row = &rig_plan(r, 0)->rows[0];

        assert_int_equal(row->position, rows[i].position);
        assert_int_equal(row->n_tokens, rows[i].n);
        assert_int_equal(row->kind, rows[i].kind);
        rig_step(r);
    }
    rig_free(&r);
}

/* A lease holds what was computed, not what max_tokens would have needed. */
static void keeps_no_grant_that_it_cannot_use(void **state)
{
    for (uint32_t depth = 1; depth <= 2; depth++) {
        struct worker_options o;
        struct rig *r;
        struct rig_submit s = {
            .id = 1, .n_prompt = 40, .max_tokens = 400, .keep_ms = 5000};
        uint64_t tag;

        defaults(&o);
        o.reuse = false;
        o.engine_depth = depth;
        r = rig_new(&o);
        r->eos_at = 2;
        rig_submit(r, &s);
        rig_turn(r);
        rig_run(r);
        assert_int_equal(rig_state(r, 1), KEPT);
        assert_int_equal(rig_account(r).blocks.granted, 0);
        assert_int_equal(rig_account(r).blocks.held, 6);
        tag = rig_remove(r, 1);
        rig_turn(r);
        rig_check_ok(r, tag);
        assert_int_equal(r->ends[tag].receipt.blocks, 6);
        rig_free(&r);
    }
    (void)state;
}

static void takes_over_without_a_second_slot_held(void **state)
{
    struct worker_options o;
    struct chat c = {.id = 1};
    uint64_t tag;
    struct rig_submit s = {.id = 3, .max_tokens = 4, .prompt = c.ids};

    (void)state;
    defaults(&o);
    c.r = rig_new(&o);
    turn(&c, 100, 20, false);
    s.n_prompt = c.n + 5;
    s.from = 2;
    tag = rig_submit(c.r, &s);
    rig_turn(c.r);
    rig_check_ok(c.r, tag);
    assert_int_equal(rig_account(c.r).slots.held, 1);
    assert_int_equal(rig_account(c.r).slots.granted, 0);
    assert_int_equal(rig_account(c.r).blocks.held, 15); /* to position 119 */
    rig_run(c.r);
    rig_free(&c.r);
}

/* Without spans the kinds are those of the kept sequence. */
static void inherits_kinds(void **state)
{
    struct worker_options o;
    struct chat c = {.id = 1};
    struct rig_submit s = {
        .id = 3, .max_tokens = 9, .prompt = c.ids, .from = 2};
    struct rig_prompt p = {.ids = c.ids, .spans = c.spans};
    uint32_t expect[RIG_CONTEXT];

    (void)state;
    defaults(&o);
    o.one_arithmetic = false;
    c.r = rig_new(&o);
    turn(&c, 100, 20, false);
    s.n_prompt = p.n = c.n + 5;
    c.spans[2] = 5;
    p.n_spans = 3;
    rig_submit(c.r, &s);
    rig_turn(c.r);
    rig_run(c.r);
    rig_expect_prompt(c.r, &p, 9, expect);
    assert_memory_equal(c.r->heard[2].tokens, expect, 9 * sizeof *expect);
    rig_free(&c.r);
}

static void refused(struct rig *r, const struct rig_submit *s,
                    enum status status, const char *says)
{
    uint64_t tag = rig_submit(r, s);

    rig_turn(r);
    if (r->ends[tag].status != status ||
        strstr(r->ends[tag].text, says) == NULL) {
        fail_msg("%s: %s", status_name(r->ends[tag].status), r->ends[tag].text);
    }
    assert_int_equal(rig_state(r, s->id), UNKNOWN);
}

static void refuses_what_it_cannot_continue(void **state)
{
    struct worker_options o;
    struct chat c = {.id = 1};
    struct rig_submit running = {.id = 8, .n_prompt = 20, .max_tokens = 40};
    struct rig_submit ended = {.id = 9, .n_prompt = 20, .max_tokens = 4};
    struct rig_submit s = {
        .id = 3, .n_prompt = 125, .max_tokens = 4, .prompt = c.ids, .from = 2};
    uint32_t wrong[] = {100, 19, 6};

    (void)state;
    defaults(&o);
    c.r = rig_new(&o);
    turn(&c, 100, 20, false);
    c.r->acknowledge = false;
    rig_submit(c.r, &ended);
    rig_turn(c.r);
    rig_run(c.r);
    rig_submit(c.r, &running);
    rig_turn(c.r);
    s.from = 77;
    refused(c.r, &s, ST_NOT_FOUND, "is not kept here");
    s.from = 8;
    refused(c.r, &s, ST_FAILED_PRECONDITION, "is prefill: continue it after");
    s.from = 9;
    refused(c.r, &s, ST_NOT_FOUND, "has ended and is not kept");
    s.from = 2;
    s.tenant = "b";
    refused(c.r, &s, ST_NOT_FOUND, "is not kept here");
    s.tenant = NULL;
    s.n_prompt = 119;
    refused(c.r, &s, ST_INVALID_ARGUMENT,
            "n_prompt is 119, but sequence 02000000a5a5a5a5a5a5a5a5a5a5a5a5/0, "
            "which continue_from names, has 120 ids");
    s.n_prompt = 125;
    c.ids[3] ^= 1;
    refused(c.r, &s, ST_INVALID_ARGUMENT, "at position 3 differs from id");
    c.ids[3] ^= 1;
    s.spans = wrong;
    s.n_spans = 3;
    refused(c.r, &s, ST_INVALID_ARGUMENT, "spans give position 119 another");
    s.n_spans = 0;
    assert_int_equal(rig_state(c.r, 2), KEPT);
    rig_submit(c.r, &s);
    s.id = 4;
    refused(c.r, &s, ST_NOT_FOUND, "another request continues sequence");
    c.r->acknowledge = true;
    rig_run(c.r);
    rig_free(&c.r);
}

/* Its ids come in parts: the lease does not end meanwhile, and starts anew if
 * the new sequence is cancelled. */
static void the_lease_waits_for_the_heir(void **state)
{
    struct worker_options o;
    struct chat c = {.id = 1};
    struct rig_submit s = {.id = 3,
                           .n_prompt = 125,
                           .max_tokens = 4,
                           .n_first = 10,
                           .prompt = c.ids,
                           .from = 2};

    (void)state;
    defaults(&o);
    c.r = rig_new(&o);
    turn(&c, 100, 20, false);
    rig_submit(c.r, &s);
    rig_advance(c.r, 6000000);
    assert_int_equal(rig_state(c.r, 2), KEPT);
    rig_cancel(c.r, 3);
    rig_advance(c.r, 4000000);
    assert_int_equal(rig_state(c.r, 2), KEPT);
    rig_advance(c.r, 1100000);
    assert_int_equal(rig_state(c.r, 2), UNKNOWN);
    rig_check_empty(c.r);
    rig_free(&c.r);
}

/* The router has ended the kept sequence when its heir is accepted: if the heir
 * is cancelled before its first plan, the request_id is free all the same. */
static void ends_with_an_accepted_heir(void **state)
{
    struct worker_options o;
    struct chat c = {.id = 1};
    struct rig_submit s = {
        .id = 3, .n_prompt = 125, .max_tokens = 4, .prompt = c.ids, .from = 2};
    struct rig_submit other = {.id = 4, .n_prompt = 9, .max_tokens = 2};
    struct rig_submit again = {.id = 2, .n_prompt = 9, .max_tokens = 2};
    uint64_t tag;

    (void)state;
    defaults(&o);
    c.r = rig_new(&o);
    turn(&c, 100, 20, false);
    rig_submit(c.r, &other); /* the engine is full */
    rig_turn(c.r);
    tag = rig_submit(c.r, &s);
    rig_turn(c.r);
    rig_check_ok(c.r, tag);
    assert_int_equal(rig_state(c.r, 2), KEPT);
    rig_cancel(c.r, 3);
    rig_turn(c.r);
    assert_int_equal(rig_state(c.r, 2), UNKNOWN);
    rig_run(c.r);
    assert_int_equal(rig_used_blocks(c.r), 0);
    tag = rig_submit(c.r, &again);
    rig_turn(c.r);
    rig_check_ok(c.r, tag);
    rig_run(c.r);
    rig_check_tokens(c.r, c.r->grant, 2, 9, 2);
    rig_free(&c.r);
}

static void goes_on_alone_if_the_kept_one_is_removed(void **state)
{
    struct worker_options o;
    struct chat c = {.id = 1};
    struct rig_submit s = {.id = 3,
                           .n_prompt = 125,
                           .max_tokens = 4,
                           .n_first = 10,
                           .prompt = c.ids,
                           .from = 2};
    struct rig_prompt p = {.ids = c.ids, .n = 125};
    struct rig_message m;
    uint32_t expect[RIG_CONTEXT];

    (void)state;
    defaults(&o);
    c.r = rig_new(&o);
    turn(&c, 100, 20, false);
    rig_message(c.r, &s, &m);
    rig_send_submit(c.r, &m);
    rig_turn(c.r);
    rig_remove(c.r, 2);
    rig_turn(c.r);
    rig_part(c.r, 2, &m, 10, 115);
    rig_turn(c.r);
    rig_run(c.r);
    rig_expect_prompt(c.r, &p, 4, expect);
    assert_int_equal(c.r->heard[2].n, 4);
    assert_memory_equal(c.r->heard[2].tokens, expect, 4 * sizeof *expect);
    rig_free(&c.r);
}

/* With two plans in flight a row of the kept sequence may still run, and fail:
 * its state is then not used. */
static void waits_for_the_last_row_of_the_kept_one(void **state)
{
    for (int fails = 0; fails < 2; fails++) {
        struct worker_options o;
        struct chat c = {.id = 1};
        struct rig_submit first = {.id = 2,
                                   .n_prompt = 100,
                                   .max_tokens = 20,
                                   .keep_ms = 5000,
                                   .prompt = c.ids};
        struct rig_submit s = {
            .id = 3, .max_tokens = 4, .prompt = c.ids, .from = 2};
        struct rig_prompt p = {.ids = c.ids};
        uint32_t expect[RIG_CONTEXT];

        defaults(&o);
        o.engine_depth = 2;
        c.r = rig_new(&o);
        c.r->eos_at = 9;
        for (uint32_t i = 0; i < 300; i++) {
            c.ids[i] = rig_prompt_id(1, i);
        }
        rig_submit(c.r, &first);
        rig_turn(c.r);
        while (c.r->heard[1].finish == 0) {
            assert_true(rig_step(c.r));
        }
        assert_int_equal(rig_state(c.r, 2), KEPT);
        assert_int_equal(rig_inflight(c.r), 1);
        c.r->eos_at = UINT32_MAX;
        memcpy(c.ids + 100, c.r->heard[1].tokens, 10 * sizeof *c.ids);
        p.n = s.n_prompt = 140;
        rig_submit(c.r, &s);
        rig_turn(c.r);
        c.r->fail_next = fails ? "a failure" : NULL;
        rig_run(c.r);
        rig_expect_prompt(c.r, &p, 4, expect);
        assert_int_equal(c.r->heard[2].n, 4);
        assert_memory_equal(c.r->heard[2].tokens, expect, 4 * sizeof *expect);
        assert_int_equal(c.r->heard[2].reused, fails ? 64 : 110);
        rig_free(&c.r);
    }
    (void)state;
}

/* All choices of a request continue one sequence: one takes it over, the others
 * are its twins. */
static void choices_continue_together(void **state)
{
    struct worker_options o;
    struct chat c = {.id = 1};
    struct rig_submit s = {
        .id = 3, .n_prompt = 150, .max_tokens = 4, .prompt = c.ids, .from = 2};
    uint32_t before, expect[RIG_CONTEXT];

    (void)state;
    defaults(&o);
    c.r = rig_new(&o);
    turn(&c, 100, 20, false);
    before = c.r->n_computed;
    for (s.choice = 0; s.choice < 3; s.choice++) {
        rig_submit(c.r, &s);
    }
    rig_turn(c.r);
    rig_run(c.r);
    assert_int_equal(c.r->n_computed - before, 31 + 3 * 3);
    for (uint32_t i = 0; i < 3; i++) {
        struct rig_prompt p = {.ids = c.ids, .n = 150, .choice = i};

        rig_expect_prompt(c.r, &p, 4, expect);
        assert_int_equal(c.r->heard[2 + i].n, 4);
        assert_memory_equal(c.r->heard[2 + i].tokens, expect,
                            4 * sizeof *expect);
    }
    rig_free(&c.r);
}

static void ends_with_the_session_at_any_moment(void **state)
{
    for (int parts = 0; parts < 2; parts++) {
        struct worker_options o;
        struct chat c = {.id = 1};
        struct rig_submit s = {.id = 3,
                               .n_prompt = 150,
                               .max_tokens = 4,
                               .n_first = parts ? 10 : 0,
                               .prompt = c.ids,
                               .from = 2};

        defaults(&o);
        c.r = rig_new(&o);
        turn(&c, 100, 20, false);
        rig_submit(c.r, &s);
        rig_turn(c.r);
        rig_lose(c.r);
        rig_reconnect(c.r);
        rig_disown(c.r, 3, 0);
        rig_disown(c.r, 2, 0);
        rig_turn(c.r);
        rig_run(c.r);
        rig_check_empty(c.r);
        rig_free(&c.r);
    }
    (void)state;
}

/* ---- ranges ---- */

/* Cuts at p, and continues there with other ids. */
static void cut(const struct worker_options *o, uint32_t p, uint32_t reached)
{
    struct chat c = {.id = 1};
    uint64_t tag;
    uint32_t bt = o->block_tokens, kept;

    c.r = rig_new(o);
    turn(&c, 300, 100, false);
    tag = rig_remove_range(c.r, 2, p, p % 2 ? 400 : 0);
    rig_turn(c.r);
    rig_check_ok(c.r, tag);
    assert_true(c.r->ends[tag].receipt.has_position);
    assert_int_equal(c.r->ends[tag].receipt.position, reached);
    assert_int_equal(c.r->ends[tag].receipt.state, KEPT);
    kept = (reached + bt - 1) / bt;
    assert_int_equal(c.r->ends[tag].receipt.blocks, (399 + bt - 1) / bt - kept);
    assert_int_equal(rig_state(c.r, 2), KEPT);
    c.n = p;
    c.spans[p <= 300 ? 0 : 1] = p <= 300 ? p : p - 300;
    c.n_spans = p <= 300 ? 1 : 2;
    assert_int_equal(turn(&c, 50, 9, true), p + 50 - reached + 8);
    rig_free(&c.r);
}

static void goes_back_to_a_checkpoint(void **state)
{
    struct worker_options o;

    (void)state;
    defaults(&o);
    /* Decode saved at 384, the prompt at 256. */
    cut(&o, 399, 399);
    cut(&o, 400, 399);
    cut(&o, 390, 384);
    cut(&o, 384, 384);
    cut(&o, 383, 256);
    cut(&o, 301, 256);
    cut(&o, 256, 256);
    o.one_arithmetic = false;
    cut(&o, 390, 256);
}

static void goes_back_exactly_without_linear_layers(void **state)
{
    struct worker_options o;

    (void)state;
    defaults(&o);
    o.pages_per_slot = 0;
    cut(&o, 399, 399);
    cut(&o, 390, 390);
    cut(&o, 333, 333);
    cut(&o, 203, 203);
}

static void goes_back_to_the_begin_without_a_checkpoint(void **state)
{
    struct worker_options o;
    struct rig *r;
    struct rig_submit s = {
        .id = 2, .n_prompt = 300, .max_tokens = 9, .keep_ms = 5000};
    uint64_t tag;

    (void)state;
    defaults(&o);
    o.reuse = false;
    r = rig_new(&o);
    rig_submit(r, &s);
    rig_turn(r);
    rig_run(r);
    tag = rig_remove_range(r, 2, 305, 0);
    rig_turn(r);
    rig_check_ok(r, tag);
    assert_int_equal(r->ends[tag].receipt.position, 0);
    assert_int_equal(r->ends[tag].receipt.blocks, 39);
    assert_int_equal(r->ends[tag].receipt.slots, 1);
    rig_free(&r);
}

/* With two plans in flight a row of the kept sequence may still run.  Its
 * blocks and its slot stay until the row has come back. */
static void frees_a_range_behind_the_last_row(void **state)
{
    struct worker_options o;
    struct rig *r;
    struct rig_submit s = {
        .id = 2, .n_prompt = 100, .max_tokens = 20, .keep_ms = 5000};
    uint32_t held, blocks = 0, slots = 0;

    (void)state;
    defaults(&o);
    o.engine_depth = 2;
    r = rig_new(&o);
    r->eos_at = 9;
    rig_submit(r, &s);
    rig_turn(r);
    while (r->heard[1].finish == 0) {
        assert_true(rig_step(r));
    }
    assert_int_equal(rig_inflight(r), 1);
    held = rig_account(r).pages.held;
    for (uint32_t begin = 70, reached = 64;; begin = reached = 0) {
        uint64_t tag = rig_remove_range(r, 2, begin, 0);

        rig_turn(r);
        rig_check_ok(r, tag);
        assert_int_equal(r->ends[tag].receipt.position, reached);
        blocks += r->ends[tag].receipt.blocks;
        slots += r->ends[tag].receipt.slots;
        assert_int_equal(rig_account(r).pages.held, held);
        if (begin == 0) {
            break;
        }
    }
    assert_int_equal(blocks, (110 + o.block_tokens - 1) / o.block_tokens);
    assert_int_equal(slots, 1);
    assert_true(rig_step(r));
    assert_int_equal(rig_account(r).pages.held, 0);
    assert_int_equal(rig_state(r, 2), KEPT);
    rig_free(&r);
}

/* What is cut back holds ids and little else: it ends early when the ids of
 * another sequence find no room. */
static void what_is_cut_makes_room_for_ids(void **state)
{
    struct worker_options o;
    struct rig *r;
    struct rig_submit s = {.n_prompt = 480, .max_tokens = 9, .keep_ms = 60000};
    uint64_t tag;

    (void)state;
    defaults(&o);
    o.slot_cap = 1;
    o.reuse = false;
    r = rig_new(&o);
    for (s.id = 1; s.id <= 40; s.id++) {
        tag = rig_submit(r, &s);
        rig_turn(r);
        rig_check_ok(r, tag);
        rig_run(r);
        rig_check_tokens(r, s.id, s.id, 480, 9);
        assert_int_equal(rig_state(r, s.id), KEPT);
        tag = rig_remove_range(r, s.id, 470, 0);
        rig_turn(r);
        rig_check_ok(r, tag);
        assert_int_equal(r->ends[tag].receipt.position, 0);
    }
    assert_int_equal(rig_state(r, 1), UNKNOWN);
    assert_int_equal(rig_state(r, 40), KEPT);
    rig_free(&r);
}

static void cut_refused(struct rig *r, uint32_t id, uint32_t begin,
                        uint32_t end, enum status status, const char *says)
{
    uint64_t tag = rig_remove_range(r, id, begin, end);

    rig_turn(r);
    if (r->ends[tag].status != status ||
        strstr(r->ends[tag].text, says) == NULL) {
        fail_msg("%s: %s", status_name(r->ends[tag].status), r->ends[tag].text);
    }
}

static void refuses_what_is_no_range(void **state)
{
    struct worker_options o;
    struct chat c = {.id = 1};
    struct rig_submit running = {.id = 8, .n_prompt = 20, .max_tokens = 40};
    uint64_t tag;

    (void)state;
    defaults(&o);
    c.r = rig_new(&o);
    turn(&c, 100, 20, false);
    rig_submit(c.r, &running);
    rig_turn(c.r);
    cut_refused(c.r, 77, 0, 0, ST_NOT_FOUND, "is not here");
    cut_refused(c.r, 8, 0, 0, ST_FAILED_PRECONDITION, "is prefill; a range");
    cut_refused(c.r, 2, 121, 0, ST_INVALID_ARGUMENT, "begin is 121, but");
    cut_refused(c.r, 2, 50, 119, ST_INVALID_ARGUMENT, "end is 119, but");
    cut_refused(c.r, 2, 50, 121, ST_INVALID_ARGUMENT, "end is 121, but");
    tag = rig_remove_range(c.r, 2, 120, 120);
    rig_turn(c.r);
    rig_check_ok(c.r, tag);
    assert_int_equal(c.r->ends[tag].receipt.position, 119);
    assert_int_equal(c.r->ends[tag].receipt.blocks, 0);
    rig_run(c.r);
    rig_free(&c.r);
}

/* The block at the cut is in the index: the heir writes to a copy of it. */
static void copies_a_block_that_others_have(void **state)
{
    struct worker_options o;
    struct chat c = {.id = 1};
    uint32_t ids[RIG_CONTEXT], before;
    struct rig_submit s = {
        .id = 50, .n_prompt = 300, .max_tokens = 2, .prompt = ids};

    (void)state;
    defaults(&o);
    o.pages_per_slot = 0;
    c.r = rig_new(&o);
    turn(&c, 300, 100, false);
    memcpy(ids, c.ids, sizeof ids);
    rig_remove_range(c.r, 2, 203, 0);
    rig_turn(c.r);
    c.n = 203;
    c.n_spans = 1;
    c.spans[0] = 203;
    turn(&c, 40, 5, true);
    /* The index still has what was there. */
    before = c.r->n_computed;
    rig_submit(c.r, &s);
    rig_turn(c.r);
    rig_run(c.r);
    assert_int_equal(c.r->n_computed - before, 300 - 256 + 1);
    assert_int_equal(c.r->heard[c.r->grant].tokens[0], ids[300]);
    rig_free(&c.r);
}

static void the_state_is_lost_with_a_refused_plan(void **state)
{
    struct worker_options o;
    struct chat c = {.id = 1};
    struct rig_submit other = {.id = 60, .n_prompt = 30, .max_tokens = 3};

    (void)state;
    defaults(&o);
    c.r = rig_new(&o);
    turn(&c, 300, 100, false);
    rig_remove_range(c.r, 2, 390, 0);
    rig_turn(c.r);
    c.r->refuse_once = true; /* the plan that was to load the state */
    rig_submit(c.r, &other);
    rig_turn(c.r);
    rig_run(c.r);
    rig_check_tokens(c.r, 2, 60, 30, 3);
    c.n = 390;
    c.spans[1] = 90;
    turn(&c, 50, 9, true);
    rig_free(&c.r);
}

/* A plan loads states for LOADS_MAX kept sequences.  On an idle worker no plan
 * comes: further sequences give their states back, and their heirs find the
 * same states in the index. */
static void bounds_the_states_that_a_plan_loads(void **state)
{
    struct worker_options o;
    struct rig *r;
    struct rig_submit s = {.n_prompt = 70, .max_tokens = 3, .keep_ms = 60000};
    uint32_t ids[80];
    uint64_t tag = 0;

    (void)state;
    defaults(&o);
    o.slot_cap = LOADS_MAX + 2;
    o.n_pages = 4096;
    r = rig_new(&o);
    for (s.id = 1; s.id <= LOADS_MAX + 1; s.id++) {
        rig_submit(r, &s);
    }
    rig_turn(r);
    rig_run(r);
    for (uint32_t id = 1; id <= LOADS_MAX; id++) {
        tag = rig_remove_range(r, id, 70, 0);
        rig_turn(r);
        rig_check_ok(r, tag);
        assert_int_equal(r->ends[tag].receipt.position, 64);
    }
    tag = rig_remove_range(r, LOADS_MAX + 1, 70, 0);
    rig_turn(r);
    rig_check_ok(r, tag);
    assert_int_equal(r->ends[tag].receipt.position, 0);
    assert_int_equal(r->ends[tag].receipt.slots, 1);
    for (uint32_t id = LOADS_MAX; id <= LOADS_MAX + 1; id++) {
        uint32_t before = r->n_computed;

        for (uint32_t i = 0; i < 80; i++) {
            ids[i] = rig_prompt_id(id, i);
        }
        s.id = 2 * LOADS_MAX + id;
        s.prompt = ids;
        s.from = id;
        s.n_prompt = 80;
        rig_submit(r, &s);
        rig_turn(r);
        rig_run(r);
        assert_int_equal(r->heard[r->grant].n, s.max_tokens);
        assert_int_equal(r->heard[r->grant].reused, 64);
        assert_int_equal(r->n_computed - before, 80 - 64 + s.max_tokens - 1);
    }
    rig_free(&r);
}

/* Inherited kinds add two runs to those of the kept sequence. */
static void bounds_the_runs_that_are_inherited(void **state)
{
    for (uint32_t over = 0; over < 2; over++) {
        struct worker_options o;
        struct rig *r;
        uint32_t n = SPANS_MAX - 2 + over, ids[SPANS_MAX + 20];
        uint32_t spans[SPANS_MAX];
        struct rig_submit s = {.id = 1,
                               .n_prompt = n,
                               .max_tokens = 2,
                               .keep_ms = 5000,
                               .prompt = ids,
                               .spans = spans,
                               .n_spans = n};
        uint64_t tag;

        defaults(&o);
        r = rig_new(&o);
        for (uint32_t i = 0; i < SPANS_MAX + 20; i++) {
            ids[i] = rig_prompt_id(1, i);
            spans[i < SPANS_MAX ? i : 0] = 1;
        }
        rig_submit(r, &s);
        rig_turn(r);
        rig_run(r);
        memcpy(ids + n, r->heard[1].tokens, 2 * sizeof *ids);
        s.id = 2;
        s.from = 1;
        s.n_prompt = n + 7;
        s.n_spans = 0;
        tag = rig_submit(r, &s);
        rig_turn(r);
        assert_int_equal(r->ends[tag].status,
                         over ? ST_INVALID_ARGUMENT : ST_OK);
        assert_true(!over || strstr(r->ends[tag].text, "has 127 runs") != NULL);
        rig_run(r);
        rig_free(&r);
    }
    (void)state;
}

/* ---- the counter model ---- */

static void counts_alike_continued(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint32_t ids[] = {1, 2, 3, 6, 4, 7};
    struct rig_submit s = {.id = 1,
                           .n_prompt = 3,
                           .max_tokens = 2,
                           .prompt = ids,
                           .ignore_eos = true,
                           .keep_ms = 5000};

    (void)state;
    defaults(&o);
    r = rig_new(&o);
    r->counts = true;
    rig_submit(r, &s);
    rig_turn(r);
    rig_run(r);
    assert_int_equal(r->heard[1].tokens[0], 6);
    assert_int_equal(r->heard[1].tokens[1], 4);
    s.id = 2;
    s.n_prompt = 6;
    s.from = 1;
    rig_submit(r, &s);
    rig_turn(r);
    rig_run(r);
    assert_int_equal(r->heard[2].tokens[0], 7);
    assert_int_equal(r->heard[2].tokens[1], 6);
    assert_int_equal(r->heard[2].reused, 4);
    rig_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on_without_computing_again),
        cmocka_unit_test(computed_again_elsewhere_is_the_same),
        cmocka_unit_test(cuts_prompt_rows_at_absolute_multiples),
        cmocka_unit_test(keeps_no_grant_that_it_cannot_use),
        cmocka_unit_test(takes_over_without_a_second_slot_held),
        cmocka_unit_test(inherits_kinds),
        cmocka_unit_test(refuses_what_it_cannot_continue),
        cmocka_unit_test(the_lease_waits_for_the_heir),
        cmocka_unit_test(ends_with_an_accepted_heir),
        cmocka_unit_test(goes_on_alone_if_the_kept_one_is_removed),
        cmocka_unit_test(waits_for_the_last_row_of_the_kept_one),
        cmocka_unit_test(choices_continue_together),
        cmocka_unit_test(ends_with_the_session_at_any_moment),
        cmocka_unit_test(goes_back_to_a_checkpoint),
        cmocka_unit_test(goes_back_exactly_without_linear_layers),
        cmocka_unit_test(goes_back_to_the_begin_without_a_checkpoint),
        cmocka_unit_test(frees_a_range_behind_the_last_row),
        cmocka_unit_test(what_is_cut_makes_room_for_ids),
        cmocka_unit_test(refuses_what_is_no_range),
        cmocka_unit_test(copies_a_block_that_others_have),
        cmocka_unit_test(the_state_is_lost_with_a_refused_plan),
        cmocka_unit_test(bounds_the_states_that_a_plan_loads),
        cmocka_unit_test(bounds_the_runs_that_are_inherited),
        cmocka_unit_test(counts_alike_continued),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
