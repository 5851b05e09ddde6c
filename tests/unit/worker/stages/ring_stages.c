#include "tests/unit/worker/stages/ring_stages.h"

#include <stdlib.h>

#include "tests/unit/cmocka.h"
#include "worker/sequence/windows.h"

struct one_stage {
    struct mirror_stage shape;
    struct pool pool;
    struct sequence_table table;
    struct stage_cache cache;
};

struct ring_stages {
    struct one_stage stages[STAGES_MAX];
    uint32_t n;
};

static void make(struct one_stage *x, const struct worker_options *o,
                 const struct mirror_stage *shape)
{
    struct pool_options p = {
        .n_pages = shape->n_pages,
        .pages_per = {shape->pages_per_block, shape->pages_per_slot,
                      shape->pages_per_slot, shape->window_pages > 0}};
    struct sequence_limits l = {.capacity = 256,
                                .longest = o->context,
                                .values = 256 * 64,
                                .n_rings = 1,
                                .windows = windows_rules(o)};

    x->shape = *shape;
    l.windows.pages = shape->window_pages;
    assert_true(pool_init(&x->pool, &p, false));
    assert_true(sequence_table_init(&x->table, &l, &x->pool));
    assert_true(stage_cache_init(&x->cache, &x->table, o->block_tokens));
}

struct ring_stages *ring_stages_new(const struct worker_options *o,
                                    const struct mirror_stage *shapes,
                                    uint32_t n)
{
    struct ring_stages *g = calloc(1, sizeof *g);
    struct mirror_stage usual = {o->pool.n_pages, o->pool.pages_per_block,
                                 o->pool.pages_per_slot, o->pool.window_pages};

    assert_non_null(g);
    g->n = n;
    for (uint32_t i = 0; i < n; i++) {
        make(&g->stages[i], o, shapes != NULL ? &shapes[i] : &usual);
    }
    return g;
}

static void forget(struct one_stage *x, struct sequence *s)
{
    sequence_release(&x->table, s);
    sequence_set_grant(&x->table, s, 0);
    sequence_free(&x->table, &s);
}

void ring_stages_clear(struct ring_stages *g)
{
    for (uint32_t i = 0; i < g->n; i++) {
        struct one_stage *x = &g->stages[i];

        stage_cache_clear(&x->cache);
        while (x->table.all.head != NULL) {
            forget(x, x->table.all.head);
        }
        assert_int_equal(x->pool.free, x->pool.o.n_pages);
        assert_int_equal(x->pool.violations, 0);
    }
}

void ring_stages_free(struct ring_stages *g)
{
    ring_stages_clear(g);
    for (uint32_t i = 0; i < g->n; i++) {
        stage_cache_fini(&g->stages[i].cache);
        sequence_table_fini(&g->stages[i].table);
        pool_fini(&g->stages[i].pool);
    }
    free(g);
}

const struct mirror_stage *ring_stages_shape(const struct ring_stages *g,
                                             uint32_t stage)
{
    return &g->stages[stage].shape;
}

struct pool_account ring_stages_pages(const struct ring_stages *g,
                                      uint32_t stage)
{
    return pool_pages(&g->stages[stage].pool);
}

static void fits(enum status st, const struct error *e)
{
    if (st != ST_OK) {
        fail_msg("a stage: %s", e->text);
    }
}

static struct sequence *find(struct one_stage *x, uint64_t grant)
{
    struct sequence *s = sequence_by_grant(&x->table, grant);

    assert_non_null(s);
    return s;
}

/* ---- messages ---- */

void ring_stages_open(struct ring_stages *g, const Sluice__V1__StageOpen *m)
{
    struct error e;

    for (uint32_t i = 0; i < g->n; i++) {
        struct one_stage *x = &g->stages[i];
        struct pool_need need = {
            {m->stages->blocks[i], m->stages->slots[i],
             m->stages->checkpoints[i],
             m->stages->n_windows > 0 ? m->stages->windows[i] : 0}};
        uint32_t windows =
            windows_blocks(&x->table.windows, m->n_prompt + m->max_tokens);
        struct sequence *s;

        fits(pool_grant(&x->pool, &need, &e), &e);
        s = sequence_new(&x->table, 0, need.n[POOL_BLOCKS]);
        assert_non_null(s);
        assert_true(windows_make(&x->table, s, windows));
        s->memory.need = need;
        sequence_set_grant(&x->table, s, m->grant);
    }
}

static void take(struct one_stage *x, struct sequence *s, uint32_t begin,
                 uint32_t end)
{
    struct error e;

    x->pool.n_moves = 0;
    fits(stage_cache_take(&x->cache, s, end, &e), &e);
    assert_true(windows_move(&x->table, s, begin, end));
    if (x->cache.has_states && s->memory.slot == SLOT_NONE) {
        assert_true(pool_take(&x->pool, POOL_SLOTS, 1, &s->memory.slot));
    }
    x->pool.n_moves = 0;
}

static void forward(struct one_stage *x, const Sluice__V1__StageForward *m)
{
    struct error e;

    for (size_t i = 0, twin = 0; i < m->n_grant; i++) {
        uint32_t end = m->position[i] + m->count[i];
        struct sequence *s = find(x, m->grant[i]);

        if (m->count[i] == 0) {
            fits(stage_cache_twin(&x->cache,
                                  find(x, m->grant[m->source[twin++]]), s, end,
                                  &e),
                 &e);
        }
        take(x, s, m->position[i], end);
    }
    for (size_t i = 0; i < m->n_save_row; i++) {
        uint32_t page;

        fits(stage_cache_save(&x->cache, m->save_checkpoint[i], &page, &e), &e);
        x->pool.n_moves = 0;
    }
}

void ring_stages_forward(struct ring_stages *g,
                         const Sluice__V1__StageForward *m)
{
    for (uint32_t i = 0; i < g->n; i++) {
        forward(&g->stages[i], m);
    }
}

void ring_stages_restore(struct ring_stages *g,
                         const Sluice__V1__StageRestore *m)
{
    for (uint32_t i = 0; i < g->n; i++) {
        struct one_stage *x = &g->stages[i];
        struct stage_restore r = {
            .position = m->position,
            .node = m->has_node ? m->node : NAME_NONE,
            .checkpoint = m->has_checkpoint ? m->checkpoint : NAME_NONE,
            .from = m->has_from ? find(x, m->from) : NULL,
            .cut = m->cut};
        struct stage_copies copies;
        struct error e;

        x->pool.n_moves = 0;
        assert_true(m->has_node || m->has_from || !x->cache.has_blocks ||
                    (uint64_t)find(x, m->grant)->memory.n_blocks *
                            x->cache.block_tokens >=
                        m->position);
        fits(stage_cache_restore(&x->cache, find(x, m->grant), &r, &copies, &e),
             &e);
        assert_true(windows_reach(&x->table, find(x, m->grant), m->position));
        x->pool.n_moves = 0;
    }
}

void ring_stages_keep(struct ring_stages *g, const Sluice__V1__StageKeep *m)
{
    struct error e;

    for (uint32_t i = 0; i < g->n; i++) {
        struct one_stage *x = &g->stages[i];

        for (size_t k = 0; k < m->n_node; k++) {
            fits(stage_cache_keep(&x->cache, find(x, m->grant), m->node[k],
                                  m->parent[k], m->end[k], &e),
                 &e);
        }
    }
}

void ring_stages_gone(struct ring_stages *g, const Sluice__V1__StageGone *m)
{
    struct error e;

    for (uint32_t i = 0; i < g->n; i++) {
        struct stage_cache *c = &g->stages[i].cache;

        for (size_t k = 0; k < m->n_node; k++) {
            fits(stage_cache_gone_node(c, m->node[k], &e), &e);
        }
        for (size_t k = 0; k < m->n_checkpoint; k++) {
            fits(stage_cache_gone_checkpoint(c, m->checkpoint[k], &e), &e);
        }
    }
}

void ring_stages_remove(struct ring_stages *g, uint64_t grant)
{
    for (uint32_t i = 0; i < g->n; i++) {
        forget(&g->stages[i], find(&g->stages[i], grant));
    }
}
