/* Random requests, compared with a list of all prefixes after each.
 *
 *   prefix_property_test [REQUESTS [SEED]]
 *
 * The model is a flat list of (tenant, tokens) with what the index reported of
 * each node: added, checkpoint, gone.  A match must be what the list gives when
 * it is searched whole.  A mirror applies the events, of which some are lost,
 * and must then be what the list gives, too.  Built once more with hashes of
 * three bits (weak_hash.c), so that almost all nodes collide. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/cache/prefix_bench.h"

#ifdef WEAK_HASH
#define HAS_MIRROR false /* hashes do not name prefixes there */
#else
#define HAS_MIRROR true
#endif

#define NODES   256
#define UNITS   12
#define RUNNING 6
#define EVENTS  8

struct entry {
    bool used;
    uint32_t tenant, n; /* tokens */
    uint32_t tokens[UNITS * PREFIX_UNIT];
    uint32_t parent;
    uint32_t checkpoint; /* SLOT_NONE: none */
};

struct mirror {
    struct prefix_event seen[NODES];
    uint32_t n;
    uint64_t next; /* 0: nothing yet */
};

static struct fixture {
    struct bench b;
    struct entry entries[NODES]; /* by node */
    struct mirror mirror;
    struct request running[RUNNING];
    uint32_t tokens[RUNNING][UNITS * PREFIX_UNIT], tenant[RUNNING];
    uint32_t inserting; /* the request that inserts */
    bool reserved[256]; /* by checkpoint */
    uint64_t n_hits, n_evicted;
} f;

static uint64_t n_requests = 5000, seed = 1;
static uint64_t rng, n_gaps;
static const char *const tenants[] = {"", "a", "b"};

static uint32_t below(uint32_t n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)(rng >> 20) % n;
}

/* ---- the list ---- */

static void node_added(void *self, uint32_t node, uint32_t parent, uint32_t end)
{
    struct entry *e = &f.entries[node];
    uint32_t i = f.inserting;

    (void)self;
    assert_true(node < NODES && !e->used);
    *e = (struct entry){.used = true,
                        .tenant = f.tenant[i],
                        .n = end,
                        .parent = parent,
                        .checkpoint = SLOT_NONE};
    memcpy(e->tokens, f.tokens[i], end * sizeof *e->tokens);
    assert_true(parent == PREFIX_NONE ? end == PREFIX_UNIT
                                      : f.entries[parent].used);
}

static void node_gone(uint32_t node)
{
    assert_true(f.entries[node].used);
    assert_int_equal(f.entries[node].checkpoint, SLOT_NONE);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_false(f.entries[i].used && f.entries[i].parent == node);
    }
    f.entries[node].used = false;
    f.n_evicted++;
}

static void gone(void *self, uint32_t node, uint32_t checkpoint)
{
    (void)self;
    if (node != PREFIX_NONE) {
        node_gone(node);
    }
    if (checkpoint == SLOT_NONE) {
        return;
    }
    f.reserved[checkpoint] = false;
    for (uint32_t i = 0; i < NODES; i++) {
        if (f.entries[i].used && f.entries[i].checkpoint == checkpoint) {
            f.entries[i].checkpoint = SLOT_NONE;
        }
    }
}

static void reserved(void *self, uint32_t checkpoint)
{
    (void)self;
    f.reserved[checkpoint] = true;
}

static bool is_restorable(const struct entry *e)
{
    return e->used && (f.b.o.no_states || e->checkpoint != SLOT_NONE);
}

/* Returns the length of the longest entry, restorable or not, that the tokens
 * begin with and continue after. */
static uint32_t longest(uint32_t tenant, const uint32_t *tokens, uint32_t n,
                        bool restorable)
{
    uint32_t best = 0;

    for (uint32_t i = 0; i < NODES; i++) {
        const struct entry *e = &f.entries[i];

        if (e->used && e->tenant == tenant && e->n < n && e->n > best &&
            (!restorable || is_restorable(e)) &&
            memcmp(e->tokens, tokens, e->n * sizeof *tokens) == 0) {
            best = e->n;
        }
    }
    return best;
}

/* ---- the mirror ---- */

static void apply(struct mirror *m, const struct prefix_event *e)
{
    uint32_t at = 0;

    while (at < m->n && !prefix_hash_same(m->seen[at].hash, e->hash)) {
        at++;
    }
    if (e->n_tokens > 0) {
        assert_true(at == m->n && m->n < NODES);
        m->seen[m->n++] = *e;
    } else {
        assert_true(at < m->n);
        m->seen[at] = m->seen[--m->n];
    }
}

/* Takes one message; it may be lost on its way.  Returns whether more is
 * there. */
static bool take_events(bool lossy)
{
    struct mirror *m = &f.mirror;
    struct prefix_event e[EVENTS];
    uint32_t n, cap = 1 + below(EVENTS);
    bool snapshot, more;
    uint64_t first = prefix_events(f.b.x, e, cap, &n, &snapshot, &more);

    if (lossy && below(3) == 0) {
        return true;
    }
    if (snapshot) {
        m->n = 0;
        m->next = first;
    }
    if (n > 0 && first != m->next) {
        n_gaps++;
        prefix_restart(f.b.x);
        return true;
    }
    for (uint32_t i = 0; i < n; i++) {
        apply(m, &e[i]);
    }
    m->next = first + n;
    return n == cap || more || snapshot;
}

static struct prefix_hash hash_of(const struct entry *e)
{
    struct prefix_key key = {{0}};
    const char *name = tenants[e->tenant];
    struct prefix_hash h = prefix_hash_root(&key, name, strlen(name));

    for (uint32_t i = 0; i < e->n; i += PREFIX_UNIT) {
        h = prefix_hash_next(&key, h, e->tokens + i);
    }
    return h;
}

static void check_mirror(void)
{
    uint32_t n = 0;

    if (!HAS_MIRROR) {
        return;
    }
    /* A loss shows with the next event, so the last one must come. */
    if (below(16) == 0) {
        while (take_events(true) && below(64) > 0) {
        }
        prefix_restart(f.b.x);
    }
    /* The index may change between two parts of a snapshot. */
    if (below(3) > 0) {
        take_events(false);
        return;
    }
    while (take_events(false)) {
    }
    for (uint32_t i = 0; i < NODES; i++) {
        const struct entry *e = &f.entries[i];
        struct prefix_hash h;
        uint32_t at = 0;

        if (!is_restorable(e)) {
            continue;
        }
        n++;
        h = hash_of(e);
        while (at < f.mirror.n &&
               !prefix_hash_same(f.mirror.seen[at].hash, h)) {
            at++;
        }
        assert_true(at < f.mirror.n);
        assert_int_equal(f.mirror.seen[at].n_tokens, e->n);
    }
    assert_int_equal(f.mirror.n, n);
}

/* ---- requests ---- */

/* Few different units, so that prompts branch everywhere. */
static uint32_t make_prompt(uint32_t *tokens)
{
    uint32_t n = 1 + below(UNITS * PREFIX_UNIT - 1);

    for (uint32_t i = 0; i < n; i += PREFIX_UNIT) {
        uint32_t kind = below(3);

        for (uint32_t k = i; k < i + PREFIX_UNIT && k < n; k++) {
            tokens[k] = kind * 1000 + k % PREFIX_UNIT;
        }
    }
    return n;
}

static void begin_request(uint32_t i)
{
    struct request *r = &f.running[i];
    uint32_t n = make_prompt(f.tokens[i]), hit, branch;

    f.tenant[i] = below(3);
    /* Room is made before the search, so the list is asked in between. */
    if (!bench_start(&f.b, r, tenants[f.tenant[i]], f.tokens[i], n)) {
        return;
    }
    hit = longest(f.tenant[i], f.tokens[i], n, true);
    branch = longest(f.tenant[i], f.tokens[i], n, false);
    /* Its reservations may have evicted some of it. */
    assert_true(r->hit.n_tokens >= hit && r->hit.branch >= branch);
    f.n_hits += hit > 0;
}

static void check_match(void)
{
    uint32_t tokens[UNITS * PREFIX_UNIT], n = make_prompt(tokens);
    uint32_t tenant = below(3);
    struct prefix_hit hit = bench_match(&f.b, tenants[tenant], tokens, n);

    assert_int_equal(hit.n_tokens, longest(tenant, tokens, n, true));
    assert_int_equal(hit.branch, longest(tenant, tokens, n, false));
    if (hit.node != PREFIX_NONE) {
        assert_int_equal(f.entries[hit.node].n, hit.n_tokens);
        assert_int_equal(f.entries[hit.node].checkpoint, hit.checkpoint);
        f.n_hits++;
    }
}

static void end_request(uint32_t i)
{
    struct request *r = &f.running[i];
    size_t n;

    if (r->n == 0) {
        return;
    }
    n = strlen(r->tenant);
    f.inserting = i;
    if (below(8) == 0) {
        bench_failed(&f.b, r);
    }
    while (r->n_saves > 0) {
        uint32_t k = --r->n_saves;
        uint32_t node = prefix_insert(f.b.x, r->tenant, n, &f.b.slab, &r->ids,
                                      &r->blocks, r->at[k]);
        bool fresh = node != PREFIX_NONE && f.reserved[r->saves[k]] &&
                     f.entries[node].checkpoint == SLOT_NONE;

        if (fresh) {
            f.entries[node].checkpoint = r->saves[k];
        }
        prefix_put(f.b.x, node, r->saves[k]);
    }
    if (below(4) > 0) {
        prefix_insert(f.b.x, r->tenant, n, &f.b.slab, &r->ids, &r->blocks,
                      r->n);
    }
    bench_stop(&f.b, r);
    *r = (struct request){.n = 0};
}

static void one_turn(void)
{
    uint32_t i = below(RUNNING), node = below(NODES);
    struct pool_need need = {{below(f.b.o.n_pages), 0, 0}};

    if (f.running[i].n == 0) {
        begin_request(i);
    } else {
        end_request(i);
    }
    if (below(64) == 0) {
        prefix_make_room(f.b.x, &need, PREFIX_NONE);
        assert_true(f.b.o.no_blocks || pool_pages(&f.b.pool).cached == 0 ||
                    pool_pages(&f.b.pool).free >= need.n[POOL_BLOCKS]);
    }
    if (below(64) == 0 && f.entries[node].used) {
        prefix_forget(f.b.x, node);
        assert_false(f.entries[node].used);
    }
    if (below(2048) == 0) {
        prefix_clear(f.b.x);
    }
    check_match();
    check_mirror();
    bench_check(&f.b);
}

static void run(const struct bench_options *o)
{
    struct prefix_watch w = {
        .added = node_added, .reserved = reserved, .gone = gone};

    memset(&f, 0, sizeof f);
    rng = seed * 0x9e3779b97f4a7c15u;
    bench_begin(&f.b, o);
    prefix_set_watch(f.b.x, &w);
    for (uint64_t i = 0; i < n_requests; i++) {
        one_turn();
    }
    for (uint32_t i = 0; i < RUNNING; i++) {
        end_request(i);
    }
    assert_true(f.n_hits > n_requests / 100 && f.n_evicted > 0);
    bench_end(&f.b);
}

static void a_hybrid_is_like_the_list(void **state)
{
    struct bench_options o = {.n_pages = 200,
                              .pages_per_slot = 5,
                              .block_tokens = 32,
                              .n_nodes = 100};

    (void)state;
    run(&o);
    o.tenant_share = 0.25f;
    o.checkpoint_share = 0.2f;
    run(&o);
    o.n_nodes = 20;
    run(&o);
    assert_true(!HAS_MIRROR || n_gaps > 0);
}

static void attention_only_is_like_the_list(void **state)
{
    struct bench_options o = {
        .n_pages = 200, .block_tokens = 16, .n_nodes = 100, .no_states = true};

    (void)state;
    run(&o);
    o.tenant_share = 0.25f;
    run(&o);
}

static void linear_only_is_like_the_list(void **state)
{
    struct bench_options o = {.n_pages = 40,
                              .pages_per_slot = 1,
                              .block_tokens = 16,
                              .n_nodes = 100,
                              .no_blocks = true};

    (void)state;
    run(&o);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hybrid_is_like_the_list),
        cmocka_unit_test(attention_only_is_like_the_list),
        cmocka_unit_test(linear_only_is_like_the_list),
    };

    if (argc > 1) {
        n_requests = strtoull(argv[1], NULL, 10);
    }
    if (argc > 2) {
        seed = strtoull(argv[2], NULL, 10);
    }
    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
