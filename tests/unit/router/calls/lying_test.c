/* Protocol violations of workers: the session ends, and no client sees them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "router/base/router_limits.h"
#include "tests/unit/router/rig.h"

/* One row for grant 1, changed by each violation. */
struct said {
    uint64_t grant;
    uint32_t first, count, finish, state, tokens[16];
    size_t n_first, n_count, n_finish, n_state, n_tokens, n_reused;
    uint32_t reused;
};

struct lie {
    const char *name;
    void (*tell)(struct fake *w, struct said *s);
    const char *why; /* part of the logged reason */
};

static char logged[LOG_LINE];

static void sink(void *arg, enum log_level level, const char *line)
{
    (void)arg, (void)level;
    if (strstr(line, "worker-protocol-violation") != NULL) {
        snprintf(logged, sizeof logged, "%s", line);
    }
}

#define LIE(name) static void name(struct fake *w, struct said *s)

LIE(token_past_vocab)
{
    (void)w;
    s->tokens[1] = RIG_VOCAB;
}
LIE(token_max)
{
    (void)w;
    s->tokens[0] = UINT32_MAX;
}
LIE(grant_never_given)
{
    (void)w;
    s->grant = 3;
}
LIE(grant_zero)
{
    (void)w;
    s->grant = 0;
}
LIE(more_than_max_tokens)
{
    (void)w;
    s->count = 9;
    s->n_tokens = 9;
}
LIE(index_overflow)
{
    (void)w;
    s->first = UINT32_MAX;
}
LIE(other_tokens_than_before)
{
    (void)w;
    s->first = 0;
    s->tokens[0] ^= 1;
}
LIE(short_column)
{
    (void)w;
    s->n_count = 0;
}
LIE(long_column)
{
    (void)w;
    s->n_state = 2;
}
LIE(no_finish_column)
{
    (void)w;
    s->n_finish = 0;
}
LIE(count_without_tokens)
{
    (void)w;
    s->count = 3;
}
LIE(count_overflow)
{
    (void)w;
    s->count = UINT32_MAX;
}
LIE(tokens_without_count)
{
    (void)w;
    s->count = 1;
}
LIE(finish_unknown)
{
    (void)w;
    s->finish = 5;
}
LIE(length_too_early)
{
    (void)w;
    s->finish = SLUICE__V1__FINISH__FINISH_LENGTH;
}
LIE(stop_before_what_was_given)
{
    (void)w;
    s->first = 1;
    s->count = 0;
    s->n_tokens = 0;
    s->finish = SLUICE__V1__FINISH__FINISH_STOP;
}
LIE(state_unknown)
{
    (void)w;
    s->state = 6;
}
LIE(state_99)
{
    (void)w;
    s->state = 99;
}
LIE(reused_column_is_short)
{
    (void)w;
    s->n_reused = 2;
}
LIE(more_is_reused_than_there_is)
{
    (void)w;
    s->n_reused = 1;
    s->reused = 40 + 5;
}
LIE(running_blocks_free)
{
    (void)s;
    w->classes[0].free += w->classes[0].granted;
    w->classes[0].granted = 0;
}
LIE(one_running_block_free)
{
    (void)s;
    w->classes[0].free++;
    w->classes[0].granted--;
}
LIE(running_slot_free)
{
    (void)s;
    w->classes[1].free++;
    w->classes[1].granted--;
}
LIE(running_blocks_cached)
{
    (void)s;
    w->classes[0].cached = w->classes[0].granted;
    w->classes[0].granted = 0;
}
LIE(more_sequences_than_possible)
{
    (void)s;
    w->ledger.has_n_queued = w->ledger.has_n_decode = true;
    w->ledger.n_queued = WORKER_ORPHANS_MAX;
    w->ledger.n_decode = 1;
}
LIE(sequences_overflow)
{
    (void)s;
    w->ledger.has_n_kept = w->ledger.has_n_prefill = true;
    w->ledger.n_kept = UINT32_MAX;
    w->ledger.n_prefill = 2;
}
LIE(more_violations_than_possible)
{
    (void)s;
    w->ledger.has_violations = true;
    w->ledger.violations = (uint64_t)VIOLATIONS_MAX + 1;
}
LIE(blocks_broken)
{
    (void)s;
    w->classes[0].free += 1;
}
LIE(blocks_beyond)
{
    (void)s;
    w->classes[0].free = UINT32_MAX;
}
LIE(slots_negative)
{
    (void)s;
    w->classes[1].free -= 100;
}
LIE(checkpoints_from_nowhere)
{
    (void)s;
    w->classes[2].held = 1;
}
LIE(totals_grew)
{
    (void)s;
    w->classes[0].free += 10;
    w->classes[0].total += 10;
}
LIE(totals_shrank)
{
    (void)s;
    w->classes[1].free -= 1;
    w->classes[1].total -= 1;
}
LIE(pages_appeared)
{
    (void)s;
    fake_pages(w);
    w->own_pages = true;
    w->classes[3].free += 5;
    w->classes[3].total += 5;
}
LIE(pages_held_by_no_class)
{
    (void)s;
    fake_pages(w);
    w->own_pages = true;
    w->classes[3].free--;
    w->classes[3].held++;
}
LIE(blocks_past_their_total)
{
    (void)s;
    fake_pages(w);
    w->own_pages = true;
    w->classes[1].held = w->classes[1].total;
    w->classes[1].free = 0;
}
LIE(slots_without_pages)
{
    (void)s;
    fake_pages(w);
    w->own_pages = true;
    w->shard.pages_per_slot = 1;
    w->classes[3].free -= w->classes[3].free;
    w->classes[3].held = 0;
    w->classes[3].cached = w->classes[3].total - w->classes[3].granted;
}
LIE(grant_not_yet_given)
{
    (void)s;
    w->ledger.grant = 2;
}
LIE(grant_max)
{
    (void)s;
    w->ledger.grant = UINT64_MAX;
}
LIE(grant_went_back)
{
    (void)s;
    w->ledger.grant = 0;
}
LIE(old_snapshot_newer_grant)
{
    (void)s;
    /* An older snapshot cannot include more grants than a newer one.  The
     * newest one settled grant 1, and 2 is not given yet, so the test uses the
     * reverse. */
    w->ledger.snapshot = 0;
    w->ledger.grant = UINT64_MAX / 2;
}

static const struct lie lies[] = {
    {"token past vocab", token_past_vocab, "vocabulary"},
    {"token max", token_max, "vocabulary"},
    {"grant never given", grant_never_given, "never made"},
    {"grant zero", grant_zero, "never made"},
    {"more than max_tokens", more_than_max_tokens, "max_tokens, 10"},
    {"index overflow", index_overflow, "max_tokens, 10"},
    {"other tokens than before", other_tokens_than_before, "differ from those"},
    {"short column", short_column, "differ in length"},
    {"long column", long_column, "differ in length"},
    {"no finish column", no_finish_column, "differ in length"},
    {"count without tokens", count_without_tokens, "add up to 3 tokens"},
    {"count overflow", count_overflow, "add up to 4294967295 tokens"},
    {"tokens without count", tokens_without_count, "add up to 1 tokens"},
    {"finish unknown", finish_unknown, "finish 5"},
    {"length too early", length_too_early, "finish 2"},
    {"stop too early", stop_before_what_was_given, "finish 1"},
    {"state 6", state_unknown, "state 6"},
    {"state 99", state_99, "state 99"},
    {"reused column is short", reused_column_is_short, "differ in length"},
    {"more is reused than there is", more_is_reused_than_there_is,
     "45 positions are reused of 44"},
    {"running blocks free", running_blocks_free,
     "0 blocks held or granted, but 1 sequences that run there need 2"},
    {"one running block free", one_running_block_free,
     "1 blocks held or granted"},
    {"running slot free", running_slot_free, "0 slots held or granted"},
    {"running blocks cached", running_blocks_cached, "0 blocks held or"},
    {"more sequences than possible", more_sequences_than_possible,
     "counts 4097 sequences"},
    {"sequences overflow", sequences_overflow, "counts 4294967297 sequences"},
    {"more violations than possible", more_violations_than_possible,
     "counts 4294967296 violations"},
    {"blocks broken", blocks_broken, "pages do not add up"},
    {"blocks beyond", blocks_beyond, "pages do not add up"},
    {"slots negative", slots_negative, "pages do not add up"},
    {"checkpoints from nowhere", checkpoints_from_nowhere,
     "pages do not add up"},
    {"totals grew", totals_grew, "blocks in total"},
    {"totals shrank", totals_shrank, "slots in total"},
    {"pages appeared", pages_appeared, "pages in total"},
    {"pages held by no class", pages_held_by_no_class,
     "1 are held, but the blocks, slots and checkpoints that are held take 0"},
    {"slots past their total", blocks_past_their_total,
     "slots do not add up: total 8, but 0 are free and 9 held, cached and"},
    {"slots without pages", slots_without_pages,
     "62 are free, but each takes 1 pages and 0 pages are free"},
    {"grant not yet given", grant_not_yet_given, "settles grant 2"},
    {"grant max", grant_max, "settles grant"},
    {"grant went back", grant_went_back, "settled grant 1"},
    {"old snapshot, newer grant", old_snapshot_newer_grant, "settles grant"},
};

static void say(struct fake *w, struct said *s)
{
    Sluice__V1__StepOutputMessage m = SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;
    uint64_t grant[2] = {s->grant, s->grant};
    uint32_t first[2] = {s->first, 0}, count[2] = {s->count, 0};
    uint32_t finish[2] = {s->finish, 0};
    uint32_t st[2] = {s->state, s->state}, reused[2] = {s->reused, 0};

    m.grant = grant;
    m.n_grant = 1;
    m.first_index = first;
    m.n_first_index = s->n_first;
    m.count = count;
    m.n_count = s->n_count;
    m.finish = finish;
    m.n_finish = s->n_finish;
    m.state = st;
    m.n_state = s->n_state;
    m.tokens = s->tokens;
    m.n_tokens = s->n_tokens;
    m.reused = reused;
    m.n_reused = s->n_reused;
    worker_say(w, &m);
}

static void tell(const struct lie *lie)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate(c, 1, 40, 10);
    struct said s = {.grant = 1,
                     .first = 2,
                     .count = 2,
                     .state = 3,
                     .n_first = 1,
                     .n_count = 1,
                     .n_finish = 1,
                     .n_state = 1,
                     .n_tokens = 2};

    rig_run(rig);
    worker_make(w, worker_sequence_of(w, 1), 2, 0);
    worker_step(w);
    rig_run(rig);
    assert_int_equal(x->n_tokens, 2);
    for (uint32_t i = 0; i < 2; i++) {
        s.tokens[i] = fake_token(worker_sequence_of(w, 1)->id, i + 2);
    }
    logged[0] = '\0';
    lie->tell(w, &s);
    say(w, &s);
    rig_run(rig);
    if (!w->gone) {
        fail_msg("\"%s\" was believed", lie->name);
    }
    if (strstr(logged, lie->why) == NULL || strstr(logged, "w1") == NULL) {
        fail_msg("\"%s\" is logged as: %s", lie->name, logged);
    }
    /* The client saw two good tokens and then a status. */
    assert_int_equal(x->n_tokens, 2);
    assert_true(x->in_order && x->ended);
    assert_int_equal(x->status, ST_UNAVAILABLE);
    rig_free(&rig);
}

static void no_lie_is_believed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        tell(&lies[i]);
    }
}

/* The same message without a violation is accepted. */
static void the_truth_is_believed(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate(c, 1, 40, 10);
    struct said s = {.grant = 1,
                     .first = 0,
                     .count = 2,
                     .state = 3,
                     .n_first = 1,
                     .n_count = 1,
                     .n_finish = 1,
                     .n_state = 1,
                     .n_tokens = 2};

    (void)state;
    rig_run(rig);
    say(w, &s);
    rig_run(rig);
    assert_false(w->gone);
    assert_int_equal(x->n_tokens, 2);
    rig_free(&rig);
}

/* A gap is dropped and requested again; only a gap that stays is a violation.
 */
static void gaps(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate(c, 1, 40, 10);
    struct said s = {.grant = 1,
                     .first = 1,
                     .count = 2,
                     .state = 3,
                     .n_first = 1,
                     .n_count = 1,
                     .n_finish = 1,
                     .n_state = 1,
                     .n_tokens = 2};

    (void)state;
    rig_run(rig);
    for (int i = 0; i < GAP_ROWS_MAX; i++) {
        say(w, &s);
        rig_run(rig);
        assert_int_equal(w->last_ack_grant, 1);
        assert_int_equal(w->last_ack_index, 0);
    }
    assert_int_equal(x->n_tokens, 0);
    assert_false(w->gone);
    say(w, &s);
    rig_run(rig);
    assert_true(w->gone);
    assert_int_equal(x->n_tokens, 0);
    rig_free(&rig);
}

/* One bad row in a message drops the good rows before it too. */
static void a_message_is_taken_whole_or_not(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate(c, 1, 40, 10);
    struct record *y = client_generate(c, 2, 40, 10);
    uint64_t grant[2] = {1, 2};
    uint32_t zero[2] = {0, 0}, one[2] = {1, 1}, state3[2] = {3, 3};
    uint32_t tokens[2] = {5, RIG_VOCAB};
    Sluice__V1__StepOutputMessage m = SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;

    (void)state;
    rig_run(rig);
    m.n_grant = m.n_first_index = m.n_count = m.n_finish = m.n_state = 2;
    m.n_tokens = 2;
    m.grant = grant;
    m.first_index = m.finish = zero;
    m.count = one;
    m.state = state3;
    m.tokens = tokens;
    worker_say(w, &m);
    rig_run(rig);
    assert_true(w->gone);
    assert_int_equal(x->n_tokens + y->n_tokens, 0);
    rig_free(&rig);
}

/* The largest numbers that are possible. */
static void limits_are_believed(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate(c, 1, 40, 10);
    struct said s = {.grant = 1,
                     .first = 0,
                     .count = 2,
                     .state = SLUICE__V1__SEQUENCE_STATE__SEQUENCE_FINISHED,
                     .n_first = 1,
                     .n_count = 1,
                     .n_finish = 1,
                     .n_state = 1,
                     .n_tokens = 2};

    (void)state;
    rig_run(rig);
    w->ledger.has_n_queued = w->ledger.has_violations = true;
    w->ledger.n_queued = WORKER_ORPHANS_MAX;
    w->ledger.violations = VIOLATIONS_MAX;
    say(w, &s);
    rig_run(rig);
    assert_false(w->gone);
    assert_int_equal(x->n_tokens, 2);
    /* Violations are never taken back. */
    w->ledger.violations--;
    worker_report(w);
    rig_run(rig);
    assert_true(w->gone);
    rig_free(&rig);
}

static void steps_never_go_back(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);

    (void)state;
    w->step = 6;
    worker_step(w); /* 7 */
    rig_run(rig);
    w->step = 6;
    worker_step(w);
    rig_run(rig);
    assert_false(w->gone);
    w->step = 5;
    worker_step(w);
    rig_run(rig);
    assert_true(w->gone);
    rig_free(&rig);
}

/* The name is in quarantine for a while. */
static void quarantine(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);

    (void)state;
    blocks_broken(w, NULL);
    worker_report(w);
    rig_run(rig);
    assert_true(w->gone);
    w->classes[0].free -= 1;
    fake_reconnect(w);
    assert_false(w->up);
    assert_int_equal(w->refusal, ST_UNAVAILABLE);
    assert_int_equal(w->retry_ms, WORKER_QUARANTINE_US / 1000 + 1);
    rig_advance(rig, WORKER_QUARANTINE_US);
    fake_reconnect(w);
    assert_true(w->up);
    rig_free(&rig);
}

/* Rows of an ended sequence are no violation: they are acknowledged and
 * dropped. */
static void ended_rows_are_forgotten(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");
    struct said s = {.grant = 1,
                     .first = 0,
                     .count = 2,
                     .state = 3,
                     .n_first = 1,
                     .n_count = 1,
                     .n_finish = 1,
                     .n_state = 1,
                     .n_tokens = 2};

    (void)state;
    client_generate(c, 1, 40, 10);
    rig_run(rig);
    client_cancel(c, 1);
    rig_run(rig);
    say(w, &s);
    rig_run(rig);
    assert_false(w->gone);
    assert_int_equal(w->last_ack_grant, 1);
    assert_int_equal(w->last_ack_index, UINT32_MAX);
    rig_free(&rig);
}

/* Ledgers of another session, older ones and duplicates are dropped. */
static void stale_ledgers_move_nothing(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct router_worker_view v;

    (void)state;
    w->ledger.snapshot = 9;
    worker_report(w); /* 10 */
    rig_run(rig);
    w->classes[0].free -= 5;
    w->classes[0].held += 5;
    w->ledger.snapshot = 5;
    worker_report(w);
    rig_run(rig);
    w->ledger.snapshot = 9;
    worker_report(w);
    rig_run(rig);
    w->ledger.session ^= 1;
    w->ledger.snapshot = 20;
    worker_report(w);
    rig_run(rig);
    assert_true(router_worker_view(rig->router, 0, &v));
    assert_int_equal(v.snapshot, 10);
    assert_int_equal(v.free_blocks, 64);
    assert_false(w->gone);
    rig_free(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_lie_is_believed),
        cmocka_unit_test(the_truth_is_believed),
        cmocka_unit_test(gaps),
        cmocka_unit_test(a_message_is_taken_whole_or_not),
        cmocka_unit_test(limits_are_believed),
        cmocka_unit_test(steps_never_go_back),
        cmocka_unit_test(quarantine),
        cmocka_unit_test(ended_rows_are_forgotten),
        cmocka_unit_test(stale_ledgers_move_nothing),
    };

    log_setup(LOG_WARN, sink, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
