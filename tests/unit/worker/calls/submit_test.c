/* Every field of Submit: values past the limit are refused with the right
 * error, and the limit itself is accepted. */
#include <math.h>
#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig.h"

typedef void change_fn(struct rig_message *m);

struct wrong {
    const char *what;
    change_fn *change;
    enum status status;
    const char *says; /* part of the error */
};

#define CHANGE(name, ...)                             \
    static void name(struct rig_message *message)     \
    {                                                 \
        Sluice__V1__SubmitRequest *m = &message->m;   \
        Sluice__V1__Sampling *s = &message->sampling; \
        Sluice__V1__Need *need = &message->need;      \
        (void)m;                                      \
        (void)s;                                      \
        (void)need;                                   \
        __VA_ARGS__;                                  \
    }

/* n runs of one position. */
static void ones(Sluice__V1__SubmitRequest *m, uint32_t n)
{
    static uint32_t runs[SPANS_MAX + 1];

    for (uint32_t i = 0; i < n; i++) {
        runs[i] = 1;
    }
    m->spans = runs;
    m->n_spans = n;
}

static void name_tenant(Sluice__V1__SubmitRequest *m, size_t n)
{
    static uint8_t name[TENANT_NAME_MAX + 1];

    memset(name, 'a', sizeof name);
    m->has_tenant = true;
    m->tenant = (ProtobufCBinaryData){n, name};
}

CHANGE(nothing, (void)0)
CHANGE(empty_prompt, m->n_prompt = 0; m->n_tokens = 0)
CHANGE(no_tokens_wanted, m->max_tokens = 0)
CHANGE(over_context, m->max_tokens = RIG_CONTEXT - m->n_prompt + 1;
       need->blocks = RIG_CONTEXT / 8 + 1)
CHANGE(at_context, m->max_tokens = RIG_CONTEXT - m->n_prompt;
       need->blocks = RIG_CONTEXT / 8)
CHANGE(far_over_context, m->max_tokens = UINT32_MAX; m->n_prompt = UINT32_MAX)
CHANGE(more_made_than_wanted, m->n_generated = 11)
CHANGE(more_ids_than_announced, m->n_tokens = 21)
CHANGE(id_at_vocab, message->ids[19] = RIG_VOCAB)
CHANGE(id_below_vocab, message->ids[19] = RIG_VOCAB - 1)
CHANGE(first_id_wild, message->ids[0] = UINT32_MAX)
CHANGE(hot, s->has_temperature = true; s->temperature = 100.1f)
CHANGE(hottest, s->has_temperature = true; s->temperature = 100.0f)
CHANGE(cold, s->has_temperature = true; s->temperature = -0.1f)
CHANGE(greedy, s->has_temperature = true; s->temperature = 0.0f)
CHANGE(nan_temperature, s->has_temperature = true; s->temperature = NAN)
CHANGE(inf_temperature, s->has_temperature = true; s->temperature = INFINITY)
CHANGE(top_k_over, s->has_top_k = true; s->top_k = RIG_VOCAB + 1)
CHANGE(top_k_at, s->has_top_k = true; s->top_k = RIG_VOCAB)
CHANGE(top_p_zero, s->has_top_p = true; s->top_p = 0.0f)
CHANGE(top_p_over, s->has_top_p = true; s->top_p = 1.001f)
CHANGE(top_p_one, s->has_top_p = true; s->top_p = 1.0f)
CHANGE(top_p_nan, s->has_top_p = true; s->top_p = NAN)
CHANGE(no_seed, s->has_seed = false)
CHANGE(few_blocks, need->blocks = 3)
CHANGE(spare_blocks, need->blocks = RIG_CONTEXT / 8 + 1)
CHANGE(many_blocks, need->blocks = RIG_CONTEXT / 8 + 2)
CHANGE(no_slot, need->slots = 0)
CHANGE(two_slots, need->slots = 2)
CHANGE(a_checkpoint, need->checkpoints = 1)
CHANGE(kept_longest, m->has_keep_ms = true; m->keep_ms = KEEP_MS_MAX)
CHANGE(kept_too_long, m->has_keep_ms = true; m->keep_ms = KEEP_MS_MAX + 1)
CHANGE(continues, m->continue_from = &message->ref)
CHANGE(spans_most, m->n_prompt = SPANS_MAX; m->n_tokens = SPANS_MAX;
       need->blocks = (SPANS_MAX + 10 + 7) / 8; ones(m, SPANS_MAX))
CHANGE(spans_many, m->n_prompt = SPANS_MAX + 1; m->n_tokens = SPANS_MAX + 1;
       need->blocks = (SPANS_MAX + 11 + 7) / 8; ones(m, SPANS_MAX + 1))
CHANGE(spans_short, static uint32_t runs[] = {10, 9}; m->spans = runs;
       m->n_spans = 2)
CHANGE(spans_wild, static uint32_t runs[] = {UINT32_MAX, 1}; m->spans = runs;
       m->n_spans = 2)
CHANGE(spans_empty, static uint32_t runs[] = {10, 0, 10}; m->spans = runs;
       m->n_spans = 3)
CHANGE(tenant_most, name_tenant(m, TENANT_NAME_MAX))
CHANGE(tenant_long, name_tenant(m, TENANT_NAME_MAX + 1))
CHANGE(salt_most, name_tenant(m, TENANT_NAME_MAX); m->has_cache_salt = true;
       m->cache_salt = m->tenant)
CHANGE(salt_long, name_tenant(m, CACHE_SALT_MAX + 1); m->has_cache_salt = true;
       m->cache_salt = m->tenant; m->tenant.len = 1)
CHANGE(zero_id, memset(message->id, 0, 16))
CHANGE(short_id, message->ref.request_id.len = 15)
CHANGE(no_id, message->ref.request_id.len = 0)

static const struct wrong wrongs[] = {
    {"nothing", nothing, ST_OK, ""},
    {"empty", empty_prompt, ST_INVALID_ARGUMENT,
     "n_prompt is 0, a prompt has at least 1 id"},
    {"max_tokens", no_tokens_wanted, ST_INVALID_ARGUMENT,
     "max_tokens is 0, it must be at least 1"},
    {"context", over_context, ST_INVALID_ARGUMENT,
     "n_prompt 20 and max_tokens 493 exceed the context of 512"},
    {"context", at_context, ST_OK, ""},
    {"context", far_over_context, ST_INVALID_ARGUMENT, "exceed the context"},
    {"n_generated", more_made_than_wanted, ST_INVALID_ARGUMENT,
     "n_generated is 11, it must be at most max_tokens, 10"},
    {"ids", more_ids_than_announced, ST_INVALID_ARGUMENT,
     "21 ids came, but n_prompt and n_generated announce 20"},
    {"vocabulary", id_at_vocab, ST_INVALID_ARGUMENT,
     "id 1000 at position 19 is not below the vocabulary, 1000"},
    {"vocabulary", id_below_vocab, ST_OK, ""},
    {"vocabulary", first_id_wild, ST_INVALID_ARGUMENT, "at position 0"},
    {"temperature", hot, ST_INVALID_ARGUMENT, "temperature is 100.1"},
    {"temperature", hottest, ST_OK, ""},
    {"temperature", cold, ST_INVALID_ARGUMENT, "it must be 0 to 100"},
    {"temperature", greedy, ST_OK, ""},
    {"temperature", nan_temperature, ST_INVALID_ARGUMENT, "temperature is nan"},
    {"temperature", inf_temperature, ST_INVALID_ARGUMENT, "temperature is inf"},
    {"top_k", top_k_over, ST_INVALID_ARGUMENT, "top_k is 1001"},
    {"top_k", top_k_at, ST_OK, ""},
    {"top_p", top_p_zero, ST_INVALID_ARGUMENT, "top_p is 0"},
    {"top_p", top_p_over, ST_INVALID_ARGUMENT, "top_p is 1.001"},
    {"top_p", top_p_one, ST_OK, ""},
    {"top_p", top_p_nan, ST_INVALID_ARGUMENT, "top_p is nan"},
    {"seed", no_seed, ST_INVALID_ARGUMENT, "seed is missing"},
    {"need", few_blocks, ST_INVALID_ARGUMENT,
     "need has 3 blocks, 30 ids need 4 to 65 blocks of 8 ids"},
    {"need", spare_blocks, ST_OK, ""},
    {"need", many_blocks, ST_INVALID_ARGUMENT, "need has 66 blocks"},
    {"need", no_slot, ST_INVALID_ARGUMENT,
     "need has 0 slots, a sequence needs 1 here"},
    {"need", two_slots, ST_INVALID_ARGUMENT, "need has 2 slots"},
    {"need", a_checkpoint, ST_INVALID_ARGUMENT,
     "need has 1 checkpoints, none are granted"},
    {"keep_ms", kept_longest, ST_OK, ""},
    {"keep_ms", kept_too_long, ST_INVALID_ARGUMENT,
     "keep_ms is 600001, it must be at most 600000"},
    {"continue_from", continues, ST_NOT_FOUND, "is not kept here"},
    {"spans", spans_most, ST_OK, ""},
    {"spans", spans_many, ST_INVALID_ARGUMENT,
     "spans has 129 runs, at most 128 are allowed"},
    {"spans", spans_short, ST_INVALID_ARGUMENT,
     "spans has 19 positions, n_prompt is 20"},
    {"spans", spans_wild, ST_INVALID_ARGUMENT,
     "spans has 4294967296 positions, n_prompt is 20"},
    {"spans", spans_empty, ST_INVALID_ARGUMENT, "run 1 of spans is empty"},
    {"tenant", tenant_most, ST_OK, ""},
    {"tenant", tenant_long, ST_INVALID_ARGUMENT,
     "tenant has 65 bytes, it may have 64"},
    {"cache_salt", salt_most, ST_OK, ""},
    {"cache_salt", salt_long, ST_INVALID_ARGUMENT,
     "cache_salt has 65 bytes, it may have 64"},
    {"request_id", zero_id, ST_INVALID_ARGUMENT, "request_id is all zero"},
    {"request_id", short_id, ST_INVALID_ARGUMENT,
     "request_id has 15 bytes, it must have 16"},
    {"request_id", no_id, ST_INVALID_ARGUMENT, "request_id has 0 bytes"},
};

static void refuses_what_is_wrong_and_nothing_else(void **state)
{
    struct rig *r = rig_new(NULL);

    (void)state;
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        const struct wrong *w = &wrongs[i];
        struct rig_submit s = {
            .id = 100 + (uint32_t)i, .n_prompt = 20, .max_tokens = 10};
        struct rig_message m;
        struct rig_end *end;
        uint64_t tag;

        rig_message(r, &s, &m);
        w->change(&m);
        tag = rig_send_submit(r, &m);
        rig_turn(r);
        end = &r->ends[tag];
        if (!end->ended || end->status != w->status ||
            strstr(end->text, w->says) == NULL) {
            fail_msg("%zu %s: %s: %s", i, w->what, status_name(end->status),
                     end->text);
        }
        /* The grant is used up, whether the Submit is accepted or refused. */
        assert_int_equal(rig_account(r).grant, i + 1);
        if (w->status != ST_OK) {
            rig_check_empty(r);
            continue;
        }
        rig_cancel(r, s.id);
        rig_turn(r);
        rig_run(r);
        rig_advance(r, 300000);
        rig_check_empty(r);
    }
    assert_int_equal(r->n_goodbyes, 0);
    rig_free(&r);
}

static void refuses_what_does_not_fit_with_figures(void **state)
{
    struct worker_options o;
    struct rig *r;
    struct rig_submit s = {.id = 1, .n_prompt = 400, .max_tokens = 112};
    uint64_t tag;

    (void)state;
    rig_defaults(&o);
    o.pool.n_pages = 64 + 2 + 63 + 2 + 3;
    r = rig_new(&o);
    rig_submit(r, &s);
    s.id = 2;
    s.max_tokens = 104;
    rig_submit(r, &s); /* two slots, 64 + 63 blocks: 3 pages are left */
    s.id = 3;
    s.n_prompt = 8;
    s.max_tokens = 1;
    tag = rig_submit(r, &s);
    rig_turn(r);
    assert_int_equal(r->ends[tag].status, ST_RESOURCE_EXHAUSTED);
    assert_string_equal(r->ends[tag].text, "needs 4 pages, 3 free of 134");
    assert_true(r->ends[tag].retry_after_ms > 0);
    s.n_prompt = 7;
    tag = rig_submit(r, &s); /* the last pages */
    rig_turn(r);
    assert_int_equal(r->ends[tag].status, ST_OK);
    assert_int_equal(rig_account(r).pages.free, 0);
    rig_run(r);
    rig_free(&r);
}

static void refuses_a_slot_too_many(void **state)
{
    struct rig *r = rig_new(NULL);
    uint64_t tag = 0;

    (void)state;
    for (uint32_t i = 1; i <= 9; i++) {
        struct rig_submit s = {.id = i, .n_prompt = 4, .max_tokens = 4};

        tag = rig_submit(r, &s);
    }
    rig_turn(r);
    assert_int_equal(r->ends[tag - 1].status, ST_OK);
    assert_int_equal(r->ends[tag].status, ST_RESOURCE_EXHAUSTED);
    assert_string_equal(r->ends[tag].text, "needs 1 slots, 0 free of 8");
    rig_run(r);
    rig_free(&r);
}

/* The number of finished, unacknowledged sequences is bounded too. */
static void remembers_a_bounded_number(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint32_t taken = 0;
    uint64_t tag;

    (void)state;
    rig_defaults(&o);
    o.pool.slot_cap = 2;
    r = rig_new(&o);
    r->acknowledge = false;
    do {
        struct rig_submit s = {
            .id = 1000 + taken, .n_prompt = 4, .max_tokens = 2};

        tag = rig_submit(r, &s);
        rig_turn(r);
        rig_run(r);
        taken += r->ends[tag].status == ST_OK ? 1 : 0;
        assert_in_range(taken, 0, 24);
    } while (r->ends[tag].status == ST_OK);
    assert_int_equal(taken, 24); /* 4 times 2 slots, and 16 */
    assert_int_equal(r->ends[tag].status, ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(r->ends[tag].text, "not yet acknowledged"));
    r->acknowledge = true;
    rig_advance(r, 300000);
    rig_check_empty(r);
    rig_free(&r);
}

static void tells_long_outputs_in_portions(void **state)
{
    struct worker_options o;
    struct rig_submit s = {.id = 1, .n_prompt = 4, .max_tokens = 500};
    uint32_t expect[RIG_CONTEXT];
    struct rig *r;

    (void)state;
    rig_defaults(&o);
    r = rig_new(&o);
    r->acknowledge = false;
    rig_submit(r, &s);
    rig_turn(r);
    rig_run(r);
    assert_int_equal(r->heard[1].n, STEP_ROW_TOKENS_MAX);
    assert_int_equal(r->heard[1].finish,
                     0); /* that row does not have the end */
    r->acknowledge = true;
    rig_advance(r, 300000);
    rig_expect(1, 4, 500, expect);
    assert_int_equal(r->heard[1].n, 500);
    assert_memory_equal(r->heard[1].tokens, expect, 500 * sizeof *expect);
    assert_int_equal(r->heard[1].finish, SLUICE__V1__FINISH__FINISH_LENGTH);
    rig_check_empty(r);
    rig_free(&r);
}

/* More rows than an output holds: the others follow soon, and take turns. */
static void tells_many_sequences_in_turns(void **state)
{
    const uint32_t n = STEP_ROWS_MAX + 88;
    struct worker_options o;
    struct rig *r;

    (void)state;
    rig_defaults(&o);
    o.pool.pages_per_slot = 0;
    o.pool.n_pages = 1024;
    o.max_rows = PLAN_ROWS_MAX;
    o.step_tokens = 4096;
    r = rig_new(&o);
    r->acknowledge = false;
    for (uint32_t i = 1; i <= n; i++) {
        struct rig_submit s = {.id = i, .n_prompt = 1, .max_tokens = 1};

        rig_submit(r, &s);
        if (i % 50 == 0) {
            rig_turn(r); /* the window of the link, not of the worker */
        }
    }
    rig_turn(r);
    rig_run(r);
    rig_advance(r, 25000);
    for (uint32_t i = 1; i <= n; i++) {
        assert_int_equal(r->heard[i].finish, SLUICE__V1__FINISH__FINISH_LENGTH);
    }
    r->acknowledge = true;
    rig_advance(r, 300000);
    rig_check_empty(r);
    rig_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_is_wrong_and_nothing_else),
        cmocka_unit_test(refuses_what_does_not_fit_with_figures),
        cmocka_unit_test(refuses_a_slot_too_many),
        cmocka_unit_test(remembers_a_bounded_number),
        cmocka_unit_test(tells_long_outputs_in_portions),
        cmocka_unit_test(tells_many_sequences_in_turns),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
