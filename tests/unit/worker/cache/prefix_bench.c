#include "tests/unit/worker/cache/prefix_bench.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

#define LONGEST 65536

void bench_begin(struct bench *b, const struct bench_options *o)
{
    struct pool_options p = {.n_pages = o->n_pages};
    struct prefix_options x = {
        .block_tokens = o->block_tokens,
        .n_nodes = o->n_nodes,
        .has_blocks = !o->no_blocks,
        .has_states = !o->no_states,
        .checkpoint_share = o->checkpoint_share > 0 ? o->checkpoint_share : 1,
        .tenant_share = o->tenant_share > 0 ? o->tenant_share : 1,
        .on = !o->off};

    p.pages_per[POOL_BLOCKS] = !o->no_blocks;
    p.pages_per[POOL_SLOTS] = o->no_states ? 0 : o->pages_per_slot;
    p.pages_per[POOL_CHECKPOINTS] = p.pages_per[POOL_SLOTS];
    b->o = *o;
    assert_true(pool_init(&b->pool, &p, false));
    assert_true(host_init(&b->host, o->host_pages));
    x.host = o->host_pages > 0 ? &b->host : NULL;
    assert_true(prefix_init(&b->x, &x, &b->pool));
    assert_true(slab_init(&b->slab, LONGEST, (uint64_t)1 << 22, 4096));
}

void bench_end(struct bench *b)
{
    bench_check(b);
    prefix_clear(b->x);
    assert_int_equal(b->host.n_used, 0);
    assert_int_equal(b->host.violations, 0);
    prefix_free(&b->x);
    host_fini(&b->host);
    slab_fini(&b->slab);
    pool_fini(&b->pool);
}

/* A scope as prefix_scope() writes it. */
struct scope {
    char text[512];
    size_t n;
};

static struct scope scope_of(const char *tenant)
{
    struct scope s = {.n = strlen(tenant)};
    char *salt;

    assert_true(s.n < sizeof s.text);
    memcpy(s.text, tenant, s.n);
    salt = memchr(s.text, '|', s.n);
    if (salt != NULL) {
        *salt = '\0';
    }
    return s;
}

static void set_ids(struct bench *b, struct paged *ids, const uint32_t *tokens,
                    uint32_t n)
{
    assert_true(paged_make(&b->slab, ids, n));
    paged_write(&b->slab, ids, 0, tokens, n);
}

static void add_block(struct bench *b, struct request *r, uint32_t block)
{
    paged_write(&b->slab, &r->blocks, r->n_blocks++, &block, 1);
}

/* Shares the blocks of the hit, and takes the others. */
static void take_blocks(struct bench *b, struct request *r, uint32_t n)
{
    uint32_t *path = malloc((n + 1) * sizeof *path);
    uint32_t n_shared =
        b->o.no_blocks ? 0 : r->hit.n_tokens / b->o.block_tokens;

    assert_non_null(path);
    /* Blocks in the host tier may find no room in the quota. */
    if (n_shared > 0 && !prefix_share(b->x, r->hit.node, path)) {
        r->hit.n_tokens = n_shared = 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (i >= n_shared) {
            assert_true(pool_take(&b->pool, POOL_BLOCKS, 1, &path[i]));
        }
        add_block(b, r, path[i]);
    }
    free(path);
}

uint32_t bench_plan(struct bench *b, enum copy_kind kind)
{
    static struct plan_copy moves[PLAN_COPIES_MAX];
    uint32_t n = pool_take_moves(&b->pool, moves), pages = 0;

    for (uint32_t i = 0; i < n; i++) {
        pages += moves[i].kind == kind ? moves[i].n : 0;
    }
    pool_end_plan(&b->pool);
    return pages;
}

static void reserve(struct bench *b, struct request *r)
{
    uint32_t at[BENCH_SAVES];
    uint32_t n = prefix_wants(b->x, &r->hit, r->n, at, BENCH_SAVES);

    /* The end of the prompt comes first if room is short. */
    for (uint32_t i = n; i-- > 0;) {
        if (prefix_reserve(b->x, &r->saves[r->n_saves])) {
            r->at[r->n_saves++] = at[i];
        }
        (void)bench_plan(b, COPY_PAGES);
    }
}

bool bench_start(struct bench *b, struct request *r, const char *tenant,
                 const uint32_t *tokens, uint32_t n)
{
    uint32_t bt = b->o.block_tokens;
    struct scope x = scope_of(tenant);
    struct pool_need need = {
        {b->o.no_blocks ? 0 : (n + bt - 1) / bt, !b->o.no_states, 0}};

    *r = (struct request){.tenant = tenant, .slot = SLOT_NONE};
    prefix_make_room(b->x, &need, PREFIX_NONE);
    if (pool_grant(&b->pool, &need, NULL) != ST_OK) {
        return false;
    }
    r->n = n;
    set_ids(b, &r->ids, tokens, n);
    assert_true(paged_make(&b->slab, &r->blocks, need.n[POOL_BLOCKS]));
    r->hit = prefix_match(b->x, x.text, x.n, &b->slab, &r->ids, n);
    take_blocks(b, r, need.n[POOL_BLOCKS]);
    if (!b->o.no_states) {
        assert_true(pool_take(&b->pool, POOL_SLOTS, 1, &r->slot));
        (void)bench_plan(b, COPY_PAGES);
        reserve(b, r);
    }
    return true;
}

void bench_computed(struct bench *b, struct request *r)
{
    struct scope x = scope_of(r->tenant);

    for (uint32_t i = 0; i < r->n_saves; i++) {
        prefix_put(b->x,
                   prefix_insert(b->x, x.text, x.n, &b->slab, &r->ids,
                                 &r->blocks, r->at[i]),
                   r->saves[i]);
    }
    r->n_saves = 0;
    prefix_insert(b->x, x.text, x.n, &b->slab, &r->ids, &r->blocks, r->n);
}

void bench_failed(struct bench *b, struct request *r)
{
    while (r->n_saves > 0) {
        prefix_drop(b->x, r->saves[--r->n_saves]);
    }
}

void bench_stop(struct bench *b, struct request *r)
{
    bench_failed(b, r);
    for (uint32_t i = 0; i < r->n_blocks; i++) {
        pool_release(&b->pool, POOL_BLOCKS, paged_get(&b->slab, &r->blocks, i));
    }
    if (r->slot != SLOT_NONE) {
        pool_release(&b->pool, POOL_SLOTS, r->slot);
    }
    paged_free(&b->slab, &r->ids);
    paged_free(&b->slab, &r->blocks);
}

uint32_t bench_run(struct bench *b, const char *tenant, const uint32_t *tokens,
                   uint32_t n)
{
    struct request r;

    if (!bench_start(b, &r, tenant, tokens, n)) {
        return 0;
    }
    bench_computed(b, &r);
    bench_stop(b, &r);
    return r.hit.n_tokens;
}

struct prefix_hit bench_match(struct bench *b, const char *tenant,
                              const uint32_t *tokens, uint32_t n)
{
    struct scope x = scope_of(tenant);
    struct prefix_hit hit;
    struct paged ids;

    set_ids(b, &ids, tokens, n);
    hit = prefix_match(b->x, x.text, x.n, &b->slab, &ids, n);
    paged_free(&b->slab, &ids);
    return hit;
}

struct count {
    uint32_t n[POOL_CLASSES];
    const struct pool *pool;
};

static void count_one(void *ctx, enum pool_class c, uint32_t number)
{
    struct count *count = ctx;

    count->n[c]++;
    if (c == POOL_BLOCKS) {
        assert_true(count->pool->blocks[number].indexed);
    }
}

static void count_chain(void *ctx, uint32_t first, uint32_t n)
{
    assert_true(host_mark(ctx, first, n));
}

/* Each used page of the host tier is in one copy of the index. */
static void check_host(struct bench *b)
{
    host_mark_begin(&b->host);
    prefix_walk_host(b->x, count_chain, &b->host);
    assert_int_equal(host_unmarked(&b->host, false), 0);
    assert_int_equal(b->host.n_used, prefix_host_pages(b->x));
}

void bench_check(struct bench *b)
{
    struct count count = {.pool = &b->pool};
    struct pool_account a = pool_pages(&b->pool);
    uint32_t n_indexed = 0;

    check_host(b);
    prefix_walk(b->x, count_one, &count);
    for (uint32_t i = 0; !b->o.no_blocks && i < b->o.n_pages; i++) {
        n_indexed += b->pool.blocks[i].indexed;
    }
    assert_int_equal(count.n[POOL_BLOCKS], n_indexed);
    assert_int_equal(count.n[POOL_CHECKPOINTS],
                     b->pool.cached.n[POOL_CHECKPOINTS]);
    assert_int_equal(a.total, a.free + a.held + a.cached + a.granted);
    assert_int_equal(a.free + a.granted, b->pool.places.n_free);
    assert_int_equal(b->pool.violations, 0);
}

void bench_text(uint32_t *tokens, uint32_t n, uint32_t what)
{
    uint64_t v = what;

    for (uint32_t i = 0; i < n; i++) {
        v = v * 6364136223846793005u + 1442695040888963407u;
        tokens[i] = (uint32_t)(v >> 44);
    }
}
