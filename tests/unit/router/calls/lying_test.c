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

enum op { SET_TO, ADD_TO, XOR_TO };

/* A change of a number: of the row, or of the worker's accounts. */
struct change {
    enum op op;
    bool of_row;
    size_t at, bytes; /* the field; 0 bytes: no change */
    uint64_t value;
};

#define CHANGES 4

struct lie {
    const char *name;
    const char *why; /* part of the logged reason */
    struct change changes[CHANGES];
    bool pages;                   /* the worker reports pages as a class */
    void (*tell)(struct fake *w); /* what no change can be; NULL: nothing */
};

static char logged[LOG_LINE];

static void sink(void *arg, enum log_level level, const char *line)
{
    (void)arg, (void)level;
    if (strstr(line, "worker-protocol-violation") != NULL) {
        snprintf(logged, sizeof logged, "%s", line);
    }
}

/* Classes: 0 blocks, 1 slots, 2 checkpoints, 3 pages. */
#define FIELD(op, row, of, field, value)                           \
    {                                                              \
        op, row, offsetof(of, field), sizeof(((of *)NULL)->field), \
            (uint64_t)(value)                                      \
    }
#define ROW(field, value)     FIELD(SET_TO, true, struct said, field, value)
#define ROW_XOR(field, value) FIELD(XOR_TO, true, struct said, field, value)
#define LEDGER(field, value) \
    FIELD(SET_TO, false, struct fake, ledger.field, value)
#define CLASS(i, field, value) \
    FIELD(SET_TO, false, struct fake, classes[i].field, value)
#define CLASS_ADD(i, field, value) \
    FIELD(ADD_TO, false, struct fake, classes[i].field, value)

#define LIE(name_, why_, ...)                                  \
    {                                                          \
        .name = name_, .why = why_, .changes = { __VA_ARGS__ } \
    }
#define LIE_OF_PAGES(name_, why_, ...)                                      \
    {                                                                       \
        .name = name_, .why = why_, .changes = {__VA_ARGS__}, .pages = true \
    }

/* Little-endian numbers of any width. */
static void apply(const struct change *c, struct fake *w, struct said *s)
{
    unsigned char *at = (unsigned char *)(c->of_row ? (void *)s : (void *)w);
    uint64_t v = 0;

    memcpy(&v, at + c->at, c->bytes);
    v = c->op == SET_TO   ? c->value
        : c->op == ADD_TO ? v + c->value
                          : v ^ c->value;
    memcpy(at + c->at, &v, c->bytes);
}

/* Slots need pages, and all pages are cached. */
static void slots_without_pages(struct fake *w)
{
    w->shard.pages_per_slot = 1;
    w->classes[3].free = w->classes[3].held = 0;
    w->classes[3].cached = w->classes[3].total - w->classes[3].granted;
}

static const struct lie lies[] = {
    /* About a row. */
    LIE("token past vocab", "vocabulary", ROW(tokens[1], RIG_VOCAB)),
    LIE("token max", "vocabulary", ROW(tokens[0], UINT32_MAX)),
    LIE("grant never given", "never made", ROW(grant, 3)),
    LIE("grant zero", "never made", ROW(grant, 0)),
    LIE("more than max_tokens", "max_tokens, 10", ROW(count, 9),
        ROW(n_tokens, 9)),
    LIE("index overflow", "max_tokens, 10", ROW(first, UINT32_MAX)),
    LIE("other tokens than before", "differ from those", ROW(first, 0),
        ROW_XOR(tokens[0], 1)),
    LIE("short column", "differ in length", ROW(n_count, 0)),
    LIE("long column", "differ in length", ROW(n_state, 2)),
    LIE("no finish column", "differ in length", ROW(n_finish, 0)),
    LIE("count without tokens", "add up to 3 tokens", ROW(count, 3)),
    LIE("count overflow", "add up to 4294967295 tokens",
        ROW(count, UINT32_MAX)),
    LIE("tokens without count", "add up to 1 tokens", ROW(count, 1)),
    LIE("finish unknown", "finish 5", ROW(finish, 5)),
    LIE("length too early", "finish 2",
        ROW(finish, SLUICE__V1__FINISH__FINISH_LENGTH)),
    LIE("stop too early", "finish 1", ROW(first, 1), ROW(count, 0),
        ROW(n_tokens, 0), ROW(finish, SLUICE__V1__FINISH__FINISH_STOP)),
    LIE("state 6", "state 6", ROW(state, 6)),
    LIE("state 99", "state 99", ROW(state, 99)),
    LIE("reused column is short", "differ in length", ROW(n_reused, 2)),
    LIE("more is reused than there is", "45 positions are reused of 44",
        ROW(n_reused, 1), ROW(reused, 40 + 5)),
    /* About the memory of a running sequence: 2 blocks and a slot. */
    LIE("running blocks free",
        "0 blocks held or granted, but 1 sequences that run there need 2",
        CLASS_ADD(0, free, 2), CLASS(0, granted, 0)),
    LIE("one running block free", "1 blocks held or granted",
        CLASS_ADD(0, free, 1), CLASS_ADD(0, granted, -1)),
    LIE("running slot free", "0 slots held or granted", CLASS_ADD(1, free, 1),
        CLASS_ADD(1, granted, -1)),
    LIE("running blocks cached", "0 blocks held or", CLASS(0, cached, 2),
        CLASS(0, granted, 0)),
    /* About counts. */
    LIE("more sequences than possible", "counts 4097 sequences",
        LEDGER(has_n_queued, 1), LEDGER(has_n_decode, 1),
        LEDGER(n_queued, WORKER_ORPHANS_MAX), LEDGER(n_decode, 1)),
    LIE("sequences overflow", "counts 4294967297 sequences",
        LEDGER(has_n_kept, 1), LEDGER(has_n_prefill, 1),
        LEDGER(n_kept, UINT32_MAX), LEDGER(n_prefill, 2)),
    LIE("more violations than possible", "counts 4294967296 violations",
        LEDGER(has_violations, 1),
        LEDGER(violations, (uint64_t)VIOLATIONS_MAX + 1)),
    /* About totals. */
    LIE("blocks broken", "pages do not add up", CLASS_ADD(0, free, 1)),
    LIE("blocks beyond", "pages do not add up", CLASS(0, free, UINT32_MAX)),
    LIE("slots negative", "pages do not add up", CLASS_ADD(1, free, -100)),
    LIE("checkpoints from nowhere", "pages do not add up", CLASS(2, held, 1)),
    LIE("totals grew", "blocks in total", CLASS_ADD(0, free, 10),
        CLASS_ADD(0, total, 10)),
    LIE("totals shrank", "slots in total", CLASS_ADD(1, free, -1),
        CLASS_ADD(1, total, -1)),
    LIE_OF_PAGES("pages appeared", "pages in total", CLASS_ADD(3, free, 5),
                 CLASS_ADD(3, total, 5)),
    LIE_OF_PAGES("pages held by no class",
                 "1 are held, but the blocks, slots and checkpoints that are "
                 "held take 0",
                 CLASS_ADD(3, free, -1), CLASS_ADD(3, held, 1)),
    LIE_OF_PAGES(
        "slots past their total",
        "slots do not add up: total 8, but 0 are free and 9 held, cached and",
        CLASS(1, held, 8), CLASS(1, free, 0)),
    {.name = "slots without pages",
     .why = "62 are free, but each takes 1 pages and 0 pages are free",
     .pages = true,
     .tell = slots_without_pages},
    /* About grants.  An older snapshot cannot include more grants than a newer
     * one: the newest one settled grant 1, and 2 is not given yet. */
    LIE("grant not yet given", "settles grant 2", LEDGER(grant, 2)),
    LIE("grant max", "settles grant", LEDGER(grant, UINT64_MAX)),
    LIE("grant went back", "settled grant 1", LEDGER(grant, 0)),
    LIE("old snapshot, newer grant", "settles grant", LEDGER(snapshot, 0),
        LEDGER(grant, UINT64_MAX / 2)),
};

/* Returns two good tokens of grant 1, from index `first` on. */
static struct said said_from(uint32_t first)
{
    return (struct said){.grant = 1,
                         .first = first,
                         .count = 2,
                         .state = 3,
                         .n_first = 1,
                         .n_count = 1,
                         .n_finish = 1,
                         .n_state = 1,
                         .n_tokens = 2};
}

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
    struct said s = said_from(2);

    rig_run(rig);
    worker_make(w, worker_sequence_of(w, 1), 2, 0);
    worker_step(w);
    rig_run(rig);
    assert_int_equal(x->n_tokens, 2);
    for (uint32_t i = 0; i < 2; i++) {
        s.tokens[i] = fake_token(worker_sequence_of(w, 1)->id, i + 2);
    }
    logged[0] = '\0';
    if (lie->pages) {
        fake_pages(w);
        w->own_pages = true;
    }
    for (size_t i = 0; i < CHANGES; i++) {
        apply(&lie->changes[i], w, &s);
    }
    if (lie->tell != NULL) {
        lie->tell(w);
    }
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
    struct said s = said_from(0);

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
    struct said s = said_from(1);

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
    struct said s = said_from(0);

    (void)state;
    rig_run(rig);
    s.state = SLUICE__V1__SEQUENCE_STATE__SEQUENCE_FINISHED;
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
    w->classes[0].free += 1;
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
    struct said s = said_from(0);

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
