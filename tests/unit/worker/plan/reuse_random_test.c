/* Random requests that share prefixes, with choices, continuations, ranges,
 * cancellations, failures and lost sessions, in a pool that is too small for
 * all of them.
 *
 * Every token must be the one that the prompt alone gives, whatever was reused,
 * evicted or moved.  The rig audits the pool after each turn and poisons what
 * is free. */
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig.h"
#include "worker/base/metrics.h"

#define OPERATIONS 1200
#define RECORDS    24
#define TOKENS_MAX 70u
#define KEPT       4

/* A sanitizer takes one walk in three, as it is slow; the counts that a test
 * must reach fall with them. */
#ifdef __SANITIZE_ADDRESS__
#define SHORTER 3
#else
#define SHORTER 1
#endif

struct record {
    bool used, stopped; /* stopped: it may end early */
    uint32_t id, choice;
    uint64_t grant, tag;
    bool keep;
    const char *tenant;
    uint32_t ids[RIG_CONTEXT + TOKENS_MAX], n; /* the prompt, then its tokens */
    uint32_t spans[16], n_spans;
    uint32_t max_tokens;
};

struct walk {
    struct rig *r;
    uint64_t seed;
    uint32_t id;
    struct record records[RECORDS];
};

/* Sums over all walks: a walk that does nothing would prove nothing. */
static struct {
    uint32_t accepted, refused, ended, continued, cuts, cancelled, failed, lost;
    uint32_t reused, twins;
    uint64_t from_host, dropped, away;
} all;

static uint32_t below(struct walk *k, uint32_t n)
{
    k->seed = k->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(k->seed >> 33) % n;
}

static struct record *free_record(struct walk *k)
{
    for (uint32_t i = 0; i < RECORDS; i++) {
        if (!k->records[i].used) {
            return &k->records[i];
        }
    }
    return NULL;
}

static struct record *any_record(struct walk *k)
{
    struct record *c = &k->records[below(k, RECORDS)];

    return c->used ? c : NULL;
}

static bool is_kept(const struct walk *k, const struct record *c)
{
    return c->keep && k->r->heard[c->grant].finish != 0 &&
           rig_choice_state(k->r, c->id, c->choice) == KEPT;
}

/* Submits c, whose prompt and spans are set, and expects its tokens. */
static void send(struct walk *k, struct record *c, uint32_t from, bool cache)
{
    struct rig_submit s = {.id = c->id,
                           .choice = c->choice,
                           .n_prompt = c->n,
                           .max_tokens = c->max_tokens,
                           .keep_ms = c->keep ? 300 : 0,
                           .n_first = below(k, 4) == 0 ? 1 : 0,
                           .penalise = c->id % 3 == 0,
                           .prompt = c->ids,
                           .tenant = c->tenant,
                           .no_cache = !cache,
                           .spans = c->spans,
                           .n_spans = c->n_spans,
                           .from = from};
    struct rig_prompt p = {c->ids, c->n, c->spans, c->n_spans, c->choice};
    struct rig_message m;

    rig_message(k->r, &s, &m);
    c->tag = rig_send_submit(k->r, &m);
    c->grant = k->r->grant;
    if (s.n_first > 0 && c->n > 1) {
        rig_part(k->r, c->grant, &m, 1, c->n - 1);
    }
    rig_expect_prompt(k->r, &p, c->max_tokens, c->ids + c->n);
    c->used = true;
    c->stopped = false;
}

/* Few families of prompts, so that prefixes come again; they branch anywhere.
 */
static void submit(struct walk *k)
{
    uint32_t family = below(k, 4), other = below(k, 3);
    uint32_t n = 1 + below(k, below(k, 2) ? 420 : 140);
    uint32_t same = below(k, 2) ? n : below(k, n + 1);
    uint32_t n_choices = 1 + (below(k, 3) == 0 ? below(k, 4) : 0);
    uint32_t max_tokens = 1 + below(k, TOKENS_MAX);
    bool cache = below(k, 8) != 0, tenant = below(k, 4) == 0;

    k->id++;
    for (uint32_t i = 0; i < n_choices; i++) {
        struct record *c = free_record(k);

        if (c == NULL) {
            return;
        }
        *c = (struct record){.id = k->id,
                             .choice = i,
                             .n = n,
                             .max_tokens = max_tokens,
                             .tenant = tenant ? "t" : NULL,
                             .keep = below(k, 2) == 0};
        for (uint32_t j = 0; j < n; j++) {
            c->ids[j] = rig_prompt_id(j < same ? family : 10 + other, j);
        }
        send(k, c, 0, cache);
    }
    rig_turn(k->r);
}

static void add_run(struct record *c, bool generated, uint32_t n)
{
    if (n == 0) {
        return;
    }
    if (c->n_spans > 0 && (c->n_spans - 1) % 2 == (generated ? 1u : 0u)) {
        c->spans[c->n_spans - 1] += n;
    } else {
        c->spans[c->n_spans++] = n;
    }
}

/* Goes on from a kept one, by its memory or only by its ids. */
static void go_on(struct walk *k)
{
    struct record *old = any_record(k), *c = free_record(k);
    uint32_t more = 1 + below(k, 60), n;

    if (old == NULL || c == NULL || !is_kept(k, old) || old->choice > 0 ||
        old->n_spans > 12) {
        return;
    }
    *c = *old;
    if (c->n_spans == 0) {
        add_run(c, false, c->n);
    }
    add_run(c, true, k->r->heard[old->grant].n);
    c->n += k->r->heard[old->grant].n;
    c->max_tokens = 1 + below(k, 30);
    if (c->n + more + c->max_tokens > RIG_CONTEXT) {
        *c = (struct record){.used = false};
        return;
    }
    n = c->n + more;
    add_run(c, false, more);
    for (; c->n < n; c->n++) {
        c->ids[c->n] = rig_prompt_id(20 + below(k, 2), c->n);
    }
    c->id = ++k->id;
    c->choice = 0;
    send(k, c, below(k, 4) ? old->id : 0, true);
    rig_turn(k->r);
    all.continued++;
}

/* Removes the end of a kept one, and continues what is left with other ids. */
static void cut(struct walk *k)
{
    struct record *old = any_record(k), *c = free_record(k);
    uint32_t known, begin, at = 0;
    uint64_t tag;

    if (old == NULL || c == NULL || !is_kept(k, old) || old->choice > 0) {
        return;
    }
    known = old->n + k->r->heard[old->grant].n;
    begin = 1 + below(k, known);
    if (begin > old->n) { /* its ids are those of its own record then */
        begin = old->n;
    }
    tag = rig_remove_range(k->r, old->id, begin, 0);
    rig_turn(k->r);
    if (k->r->ends[tag].status == ST_RESOURCE_EXHAUSTED ||
        k->r->ends[tag].status == ST_FAILED_PRECONDITION) { /* it has an heir */
        return;
    }
    rig_check_ok(k->r, tag);
    assert_in_range(k->r->ends[tag].receipt.position, 0, begin);
    *c = *old;
    old->keep = false; /* its record is longer now */
    c->n_spans = 0;
    for (uint32_t i = 0; i < old->n_spans && at < begin; i++) {
        uint32_t n = at + old->spans[i] < begin ? old->spans[i] : begin - at;

        add_run(c, i % 2 == 1, n);
        at += n;
    }
    add_run(c, false, begin - at + 5);
    c->n = begin + 5;
    for (uint32_t i = begin; i < c->n; i++) {
        c->ids[i] = rig_prompt_id(30, i);
    }
    c->id = ++k->id;
    c->max_tokens = 1 + below(k, 20);
    if (c->n + c->max_tokens > RIG_CONTEXT) {
        *c = (struct record){.used = false};
        rig_remove(k->r, old->id);
        rig_turn(k->r);
        return;
    }
    send(k, c, old->id, true);
    rig_turn(k->r);
    all.cuts++;
}

static void take_away(struct walk *k)
{
    struct record *c = any_record(k);

    if (c != NULL) {
        c->stopped = true;
        rig_cancel_choice(k->r, c->id, c->choice);
        rig_turn(k->r);
        all.cancelled++;
    }
}

static void break_step(struct walk *k)
{
    if (rig_inflight(k->r) == 0) {
        return;
    }
    /* Twice in a row may end any of them. */
    for (uint32_t i = 0; i < RECORDS; i++) {
        k->records[i].stopped = true;
    }
    k->r->fail_next = "a random failure";
    rig_step(k->r);
    all.failed++;
}

static void lose(struct walk *k)
{
    rig_lose(k->r);
    rig_reconnect(k->r);
    for (uint32_t i = 0; i < RECORDS; i++) {
        struct record *c = &k->records[i];

        if (c->used) {
            rig_disown(k->r, c->id, c->choice);
        }
        c->used = false;
    }
    rig_turn(k->r);
    all.lost++;
}

/* ---- checks ---- */

static void check(struct walk *k, struct record *c)
{
    const struct rig_heard *h = &k->r->heard[c->grant];
    const struct rig_end *e = &k->r->ends[c->tag];

    if (!c->used) {
        return;
    }
    if (e->ended && e->status != ST_OK) {
        if (e->status != ST_RESOURCE_EXHAUSTED && e->status != ST_NOT_FOUND &&
            e->status != ST_CANCELLED && e->status != ST_FAILED_PRECONDITION) {
            fail_msg("%s", e->text);
        }
        c->used = false;
        all.refused++;
        return;
    }
    assert_in_range(h->n, 0, c->max_tokens);
    assert_memory_equal(h->tokens, c->ids + c->n, h->n * sizeof *h->tokens);
    if (h->finish == 0) {
        if (c->stopped && rig_choice_state(k->r, c->id, c->choice) == 0) {
            c->used = false;
        }
        return;
    }
    if (!c->stopped) {
        assert_int_equal(h->n, c->max_tokens);
    }
    if (rig_choice_state(k->r, c->id, c->choice) != KEPT) {
        c->used = false;
        all.ended++;
        all.accepted++;
        all.reused += h->reused;
    }
}

static void operate(struct walk *k)
{
    switch (below(k, 24)) {
    case 0:
    case 1:
    case 2:
        submit(k);
        break;
    case 3:
        go_on(k);
        break;
    case 4:
        cut(k);
        break;
    case 5:
        if (below(k, 2) == 0) {
            take_away(k);
        }
        break;
    case 6:
        if (below(k, 4) == 0) {
            break_step(k);
        }
        break;
    case 7:
        if (below(k, 60) == 0) {
            lose(k);
        }
        break;
    case 8:
        if (below(k, 8) == 0) {
            for (uint32_t i = 0; i < RECORDS; i++) {
                k->records[i].stopped = true;
            }
            k->r->refuse_once = true;
        }
        break;
    case 9:
        rig_advance(k->r, 1000 * (int64_t)(1 + below(k, 40)));
        if (below(k, 30) == 0) {
            worker_clear_index(k->r->worker);
        }
        break;
    default:
        rig_step(k->r);
    }
}

static void finish(struct walk *k)
{
    k->r->refuse_once = false;
    rig_turn(k->r);
    rig_run(k->r);
    rig_advance(k->r, 4000000); /* leases and orphans end */
    for (uint32_t i = 0; i < RECORDS; i++) {
        check(k, &k->records[i]);
        if (k->records[i].used) {
            fail_msg("sequence %u/%u never ended", k->records[i].id,
                     k->records[i].choice);
        }
    }
    rig_check_empty(k->r);
}

/* Windows of any size beside the other layers, or alone. */
static void set_windows(struct walk *k, struct worker_options *o)
{
    uint32_t blocks;

    o->window = 1 + below(k, below(k, 3) == 0 ? 400 : 90);
    o->pool.window_pages = 1 + below(k, 3);
    if (below(k, 6) == 0 && o->window > 1) {
        o->pool.pages_per_block = o->pool.pages_per_slot = 0;
    }
    blocks = (o->window + o->chunk_tokens) / o->block_tokens + 3;
    o->pool.n_pages += 3 * blocks * o->pool.window_pages;
}

/* Draws of the case beside the pool. */
enum { PLAIN = 0, WINDOWS = 1, HOST = 2 };

/* A host tier for a few blocks, or for many times the pool. */
static void set_host(struct walk *k, struct worker_options *o)
{
    o->pool.host_pages =
        1 + below(k, below(k, 3) == 0 ? 60 : 4 * o->pool.n_pages);
}

static void walk(uint64_t seed, int draws)
{
    struct worker_options o;
    struct worker_metrics m;
    struct walk *k = calloc(1, sizeof *k);

    assert_non_null(k);
    k->seed = seed;
    rig_defaults(&o);
    o.reuse = true;
    o.one_arithmetic = below(k, 2) == 0;
    o.pool.pages_per_slot = below(k, 6) == 0 ? 0 : 1 + below(k, 7);
    o.pool.pages_per_block =
        o.pool.pages_per_slot > 0 && below(k, 8) == 0 ? 0 : 1;
    o.block_tokens = 8u << below(k, 3);
    o.pool.n_pages = 70 + below(k, 160) + 6 * o.pool.pages_per_slot;
    o.pool.slot_cap = 3 + below(k, 8);
    o.engine_depth = 1 + below(k, 2);
    o.max_rows = 1 + below(k, 8);
    o.chunk_tokens = 1 + below(k, 140);
    o.step_tokens = 1 + below(k, 300);
    o.pool.checkpoint_share = 0.1f + (float)below(k, 6) / 10.0f;
    o.pool.tenant_share = 0.2f + (float)below(k, 8) / 10.0f;
    if (draws & WINDOWS) {
        set_windows(k, &o);
    }
    rig_draw_drafts(&o, seed);
    if (draws & HOST) {
        set_host(k, &o);
    }
    k->r = rig_new(&o);
    k->r->drafts = (enum rig_drafts)(seed / 2 % 4);
    for (int i = 0; i < OPERATIONS; i++) {
        operate(k);
        for (uint32_t j = 0; j < RECORDS; j++) {
            check(k, &k->records[j]);
        }
    }
    finish(k);
    worker_counts(k->r->worker, &m);
    all.twins += k->r->n_twins;
    all.from_host += m.reused_host_tokens;
    all.dropped += m.cached_dropped;
    all.away += m.kept_out;
    rig_free(&k->r);
    free(k);
}

static uint64_t only; /* only this seed; 0: all */

static void tokens_never_depend_on_what_is_reused(void **state)
{
    (void)state;
    if (only != 0) {
        walk(only, PLAIN);
        return;
    }
    for (uint64_t seed = 1; seed <= 40 / SHORTER; seed++) {
        walk(seed * 104729, PLAIN);
    }
    assert_true(all.accepted > 1000 / SHORTER && all.refused > 100 / SHORTER);
    assert_true(all.continued > 100 / SHORTER && all.cuts > 20 / SHORTER &&
                all.cancelled > 100 / SHORTER);
    assert_true(all.failed > 50 / SHORTER && all.lost > 5 / SHORTER);
    assert_true(all.reused > 20000 / SHORTER && all.twins > 50 / SHORTER);
}

static void nor_with_windows(void **state)
{
    (void)state;
    memset(&all, 0, sizeof all);
    if (only != 0) {
        walk(only, WINDOWS);
        return;
    }
    for (uint64_t seed = 1; seed <= 40 / SHORTER; seed++) {
        walk(seed * 7919, WINDOWS);
    }
    assert_true(all.accepted > 1000 / SHORTER && all.refused > 100 / SHORTER);
    assert_true(all.continued > 100 / SHORTER && all.cuts > 20 / SHORTER &&
                all.cancelled > 100 / SHORTER);
    assert_true(all.failed > 50 / SHORTER && all.lost > 5 / SHORTER);
    assert_true(all.reused > 10000 / SHORTER && all.twins > 50 / SHORTER);
}

static void nor_with_a_host_tier(void **state)
{
    (void)state;
    memset(&all, 0, sizeof all);
    if (only != 0) {
        walk(only, HOST);
        walk(only, HOST | WINDOWS);
        return;
    }
    for (uint64_t seed = 1; seed <= 50 / SHORTER; seed++) {
        walk(seed * 15485863, seed % 3 == 0 ? HOST | WINDOWS : HOST);
    }
    assert_true(all.accepted > 1000 / SHORTER && all.refused > 100 / SHORTER);
    assert_true(all.continued > 100 / SHORTER && all.cuts > 20 / SHORTER &&
                all.cancelled > 100 / SHORTER);
    assert_true(all.failed > 50 / SHORTER && all.lost > 5 / SHORTER);
    assert_true(all.from_host > 4000 / SHORTER && all.dropped > 700 / SHORTER &&
                all.away > 20 / SHORTER);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_never_depend_on_what_is_reused),
        cmocka_unit_test(nor_with_windows),
        cmocka_unit_test(nor_with_a_host_tier),
    };

    log_setup(LOG_OFF, NULL, NULL);
    only = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
