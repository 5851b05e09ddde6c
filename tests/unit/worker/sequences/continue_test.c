/* Kept sequences that others continue. */
#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/sequences/chat.h"

/* With one arithmetic or two, with blocks that end with the prompt or not. */
static void goes_on_without_computing_again(void **state)
{
    for (uint32_t kind = 0; kind < 8; kind++) {
        struct worker_options o;
        struct chat c = {.id = 1};
        uint32_t n = kind & 4 ? 64 : 45;

        chat_defaults(&o);
        o.one_arithmetic = kind & 1;
        o.engine_depth = 1 + (kind >> 1 & 1);
        c.r = rig_new(&o);
        assert_int_equal(chat_turn(&c, n, 20, false), n + 19);
        assert_int_equal(rig_state(c.r, 2), KEPT);
        /* The last token of a turn was not computed yet. */
        assert_int_equal(chat_turn(&c, n, 20, true), 1 + n + 19);
        assert_int_equal(rig_state(c.r, 2), UNKNOWN);
        assert_int_equal(c.r->heard[c.r->grant].reused, n + 19);
        assert_int_equal(chat_turn(&c, n, 20, true), 1 + n + 19);
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

        chat_defaults(&o);
        o.one_arithmetic = one == 1;
        c.r = rig_new(&o);
        chat_turn(&c, 70, 30, false);
        chat_turn(&c, 41, 30, true);
        other = rig_new(&o);
        n = c.n;
        rig_free(&c.r);
        c.r = other;
        assert_int_equal(chat_turn(&c, 33, 10, false), n + 33 + 9);
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
    chat_defaults(&o);
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

        chat_defaults(&o);
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
    chat_defaults(&o);
    c.r = rig_new(&o);
    chat_turn(&c, 100, 20, false);
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
    chat_defaults(&o);
    o.one_arithmetic = false;
    c.r = rig_new(&o);
    chat_turn(&c, 100, 20, false);
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
    chat_defaults(&o);
    c.r = rig_new(&o);
    chat_turn(&c, 100, 20, false);
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
    chat_defaults(&o);
    c.r = rig_new(&o);
    chat_turn(&c, 100, 20, false);
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

/* Sequence 2 is kept, and its heir 3 was accepted, but waits because the engine
 * is full.  Returns the heir's grant. */
static uint64_t begin_heir(struct chat *c)
{
    struct worker_options o;
    struct rig_submit s = {
        .id = 3, .n_prompt = 125, .max_tokens = 4, .prompt = c->ids, .from = 2};
    struct rig_submit other = {.id = 4, .n_prompt = 9, .max_tokens = 2};
    uint64_t tag;

    chat_defaults(&o);
    *c = (struct chat){.id = 1};
    c->r = rig_new(&o);
    chat_turn(c, 100, 20, false);
    rig_submit(c->r, &other);
    rig_turn(c->r);
    tag = rig_submit(c->r, &s);
    rig_turn(c->r);
    rig_check_ok(c->r, tag);
    assert_int_equal(rig_state(c->r, 2), KEPT);
    return c->r->grant;
}

/* A new request takes the request_id of the kept sequence. */
static void take_id(struct chat *c)
{
    struct rig_submit again = {.id = 2, .n_prompt = 9, .max_tokens = 2};
    uint64_t tag = rig_submit(c->r, &again);

    rig_turn(c->r);
    rig_check_ok(c->r, tag);
    rig_run(c->r);
    rig_check_tokens(c->r, c->r->grant, 2, 9, 2);
}

/* The router has ended the kept sequence when its heir is accepted: if the heir
 * is cancelled before its first plan, the request_id is free all the same. */
static void ends_with_an_accepted_heir(void **state)
{
    struct chat c;

    (void)state;
    begin_heir(&c);
    rig_cancel(c.r, 3);
    rig_turn(c.r);
    assert_int_equal(rig_state(c.r, 2), UNKNOWN);
    rig_run(c.r);
    assert_int_equal(rig_used_blocks(c.r), 0);
    take_id(&c);
    rig_free(&c.r);
}

/* The request_id is free from then on, also while the heir waits for a plan. */
static void an_accepted_heir_frees_the_request_id(void **state)
{
    struct chat c;
    struct rig_prompt p = {.ids = c.ids, .n = 125};
    uint32_t expect[RIG_CONTEXT];
    uint64_t heir = begin_heir(&c);

    (void)state;
    take_id(&c);
    rig_expect_prompt(c.r, &p, 4, expect);
    assert_int_equal(c.r->heard[heir].n, 4);
    assert_memory_equal(c.r->heard[heir].tokens, expect, 4 * sizeof *expect);
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
    chat_defaults(&o);
    c.r = rig_new(&o);
    chat_turn(&c, 100, 20, false);
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

        chat_defaults(&o);
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
    chat_defaults(&o);
    c.r = rig_new(&o);
    chat_turn(&c, 100, 20, false);
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

        chat_defaults(&o);
        c.r = rig_new(&o);
        chat_turn(&c, 100, 20, false);
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

        chat_defaults(&o);
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
    chat_defaults(&o);
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
        cmocka_unit_test(an_accepted_heir_frees_the_request_id),
        cmocka_unit_test(goes_on_alone_if_the_kept_one_is_removed),
        cmocka_unit_test(waits_for_the_last_row_of_the_kept_one),
        cmocka_unit_test(choices_continue_together),
        cmocka_unit_test(ends_with_the_session_at_any_moment),
        cmocka_unit_test(bounds_the_runs_that_are_inherited),
        cmocka_unit_test(counts_alike_continued),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
