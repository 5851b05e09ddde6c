/* False receipts: the worker's session ends, and no caller sees a figure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "router/base/router_limits.h"
#include "tests/unit/router/rig.h"

#define N_TOKENS 3 /* generated before the Cancel */
#define MOST     10

typedef Sluice__V1__Receipt receipt;
typedef Sluice__V1__SequenceState sequence_state;

static char logged[LOG_LINE];

static void sink(void *arg, enum log_level level, const char *line)
{
    (void)arg, (void)level;
    if (strstr(line, "worker-protocol-violation") != NULL) {
        snprintf(logged, sizeof logged, "%s", line);
    }
}

/* A sequence of 40 + 10 tokens has two blocks and a slot. */
struct scene {
    struct rig *rig;
    struct fake *w, *c;
    struct record *cancel;
};

static void cancel_with(struct scene *s, void (*spoil)(receipt *r))
{
    s->rig = rig_new(NULL);
    s->w = rig_worker(s->rig, "w1", 64, 8);
    s->c = rig_client(s->rig, "c1");
    client_generate(s->c, 1, 40, MOST);
    rig_run(s->rig);
    worker_give(s->w, 1, 0, N_TOKENS, 0);
    s->w->spoil_receipt = spoil;
    logged[0] = '\0';
    s->cancel = client_cancel(s->c, 1);
    rig_run(s->rig);
}

/* ---- at the limit ---- */

static void least(receipt *r)
{
    r->n_generated = N_TOKENS;
    r->blocks = r->slots = 0;
    r->micros = r->snapshot = 0;
}
static void most(receipt *r)
{
    r->n_generated = MOST;
    r->blocks = 2;
    r->slots = 1;
    r->micros = RECEIPT_SLACK_US;
    r->snapshot += RECEIPT_SNAPSHOTS_MAX - 1; /* the newest ledger's + 1 */
}
static void unknown(receipt *r)
{
    r->state = SLUICE__V1__SEQUENCE_STATE__SEQUENCE_UNKNOWN;
    r->n_generated = r->blocks = r->slots = 0;
}
static void finished(receipt *r)
{
    r->state = SLUICE__V1__SEQUENCE_STATE__SEQUENCE_FINISHED;
    r->blocks = r->slots = 0;
}

static void true_receipts_reach_the_caller(void **state)
{
    void (*const spoils[])(receipt *) = {NULL, least, most, unknown, finished};

    (void)state;
    for (size_t i = 0; i < sizeof spoils / sizeof *spoils; i++) {
        struct scene s;

        cancel_with(&s, spoils[i]);
        assert_false(s.w->gone);
        assert_true(s.cancel->ended && s.cancel->status == ST_OK);
        assert_string_equal(logged, "");
        rig_free(&s.rig);
    }
}

/* ---- one past it ---- */

/* clang-format off */
static void blocks_past(receipt *r)      { r->blocks = 3; }
static void blocks_max(receipt *r)       { r->blocks = UINT32_MAX; }
static void slots_past(receipt *r)       { r->slots = 2; }
static void checkpoints_past(receipt *r) { r->checkpoints = 1; }
static void tokens_past(receipt *r)      { r->n_generated = MOST + 1; }
static void tokens_lost(receipt *r)      { r->n_generated = N_TOKENS - 1; }
static void micros_past(receipt *r)      { r->micros = RECEIPT_SLACK_US + 1; }
static void micros_max(receipt *r)       { r->micros = UINT64_MAX; }
static void snapshot_past(receipt *r)    { r->snapshot += RECEIPT_SNAPSHOTS_MAX; }
static void snapshot_max(receipt *r)     { r->snapshot = UINT64_MAX; }
static void state_past(receipt *r)       { r->state = (sequence_state)6; }
static void state_99(receipt *r)         { r->state = (sequence_state)99; }
static void state_negative(receipt *r)   { r->state = (sequence_state)-1; }
static void other_choice(receipt *r)     { r->sequence->choice++; }
static void other_request(receipt *r)    { r->sequence->request_id.data[3] ^= 1; }
static void short_id(receipt *r)         { r->sequence->request_id.len = 15; }
static void unknown_frees(receipt *r)
{
    r->state = SLUICE__V1__SEQUENCE_STATE__SEQUENCE_UNKNOWN;
}
static void finished_frees(receipt *r)
{
    r->state = SLUICE__V1__SEQUENCE_STATE__SEQUENCE_FINISHED;
}
static void stages_from_nowhere(receipt *r)
{
    static uint32_t column[1] = {2};

    r->stage_blocks = r->stage_slots = column;
    r->n_stage_blocks = r->n_stage_slots = 1;
}
/* clang-format on */

static const struct {
    void (*spoil)(receipt *r);
    const char *why;
} lies[] = {
    {blocks_past, "blocks 3, must be 0..2"},
    {blocks_max, "blocks 4294967295, must be 0..2"},
    {slots_past, "slots 2, must be 0..1"},
    {checkpoints_past, "checkpoints 1, must be 0..0"},
    {tokens_past, "n_generated 11, must be 3..10"},
    {tokens_lost, "n_generated 2, must be 3..10"},
    {micros_past, "micros 60000001, must be 0..60000000"},
    {micros_max, "micros 18446744073709551615"},
    {snapshot_past, "snapshot"},
    {snapshot_max, "snapshot 18446744073709551615"},
    {state_past, "state 6, must be 0..5"},
    {state_99, "state 99, must be 0..5"},
    {state_negative, "state 4294967295, must be 0..5"},
    {other_choice, "names another sequence"},
    {other_request, "names another sequence"},
    {short_id, "names another sequence"},
    {unknown_frees, "blocks 2, must be 0..0"},
    {finished_frees, "blocks 2, must be 0..0"},
    {stages_from_nowhere, "lists 1 and 1 stages, the place has 0"},
};

static void no_false_receipt_is_believed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct scene s;

        cancel_with(&s, lies[i].spoil);
        if (!s.w->gone || strstr(logged, lies[i].why) == NULL) {
            fail_msg("\"%s\" is logged as: %s", lies[i].why, logged);
        }
        /* The router answers itself, with the figures that it has. */
        assert_true(s.cancel->ended && s.cancel->status == ST_OK);
        assert_int_equal(s.cancel->receipt.n_generated, N_TOKENS);
        assert_int_equal(s.cancel->receipt.blocks, 0);
        assert_int_equal(s.cancel->receipt.slots, 0);
        assert_true(s.cancel->receipt.micros == 0);
        assert_true(s.cancel->receipt.snapshot == 0);
        rig_free(&s.rig);
    }
}

/* The time of a Cancel that takes long is no lie. */
static void a_slow_release_is_believed(void **state)
{
    struct scene s;

    (void)state;
    cancel_with(&s, most);
    rig_free(&s.rig);
    s.rig = rig_new(NULL);
    s.w = rig_worker(s.rig, "w1", 64, 8);
    s.c = rig_client(s.rig, "c1");
    client_generate(s.c, 1, 40, MOST);
    rig_run(s.rig);
    s.w->hold_receipts = true;
    s.w->spoil_receipt = micros_past;
    s.cancel = client_cancel(s.c, 1);
    rig_run(s.rig);
    rig_advance(s.rig, 1);
    worker_receipt(s.w);
    rig_run(s.rig);
    assert_true(s.cancel->ended && !s.w->gone);
    assert_true(s.cancel->receipt.micros == RECEIPT_SLACK_US + 1);
    rig_free(&s.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(true_receipts_reach_the_caller),
        cmocka_unit_test(no_false_receipt_is_believed),
        cmocka_unit_test(a_slow_release_is_believed),
    };

    log_setup(LOG_WARN, sink, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
