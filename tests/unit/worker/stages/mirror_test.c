/* The leader's mirror, against the pools of three stages that execute the same
 * messages: one with blocks and slots, one without slots, one without blocks.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "worker/stages/mirror.h"

#define STAGES    3
#define BT        16u
#define CONTEXT   512u
#define SEQUENCES 24
#define NODES     64
#define SAVES     16

struct pool_of_stage {
    struct pool pool;
    struct sequence_table table;
    struct stage_cache cache;
};

struct live {
    uint64_t grant;
    struct sequence *at[STAGES];
    uint32_t n_prompt, n_planned; /* as the leader has them */
    bool spent;                   /* another one took it over */
};

struct world {
    struct mirror mirror;
    struct mirror_stage shapes[STAGES];
    struct pool_of_stage stages[STAGES];
    struct live live[SEQUENCES];
    uint32_t n_live;
    uint64_t grant;
    struct {
        bool used;
        uint32_t parent, end;
    } nodes[NODES];
    bool saves[SAVES];
};

static const struct mirror_stage shapes[STAGES] = {
    {200, 1, 5, 0}, {150, 1, 0, 0}, {60, 0, 3, 0}};

static void stage_new(struct pool_of_stage *g, const struct mirror_stage *m)
{
    struct pool_options o = {.n_pages = m->n_pages,
                             .pages_per = {m->pages_per_block,
                                           m->pages_per_slot,
                                           m->pages_per_slot}};
    struct sequence_limits l = {.capacity = SEQUENCES + 1,
                                .longest = CONTEXT,
                                .values = 1 << 16,
                                .n_rings = 1};

    assert_true(pool_init(&g->pool, &o, false));
    assert_true(sequence_table_init(&g->table, &l, &g->pool));
    assert_true(stage_cache_init(&g->cache, &g->table, BT));
}

static struct world *world_new(void)
{
    struct world *w = calloc(1, sizeof *w);

    assert_non_null(w);
    memcpy(w->shapes, shapes, sizeof shapes);
    mirror_init(&w->mirror, SEQUENCES + 1, CONTEXT, BT);
    assert_true(mirror_begin(&w->mirror, shapes, STAGES));
    for (int i = 0; i < STAGES; i++) {
        stage_new(&w->stages[i], &shapes[i]);
    }
    return w;
}

static void check(struct world *w)
{
    for (uint32_t i = 0; i < STAGES; i++) {
        struct pool_account a = pool_pages(&w->stages[i].pool);

        assert_int_equal(mirror_free(&w->mirror, i), a.free);
        assert_int_equal(a.total, a.free + a.held + a.cached + a.granted);
        assert_int_equal(w->stages[i].pool.violations, 0);
    }
    assert_int_equal(w->mirror.pool.violations, 0);
}

static void world_free(struct world *w)
{
    mirror_end(&w->mirror);
    mirror_fini(&w->mirror);
    for (int i = 0; i < STAGES; i++) {
        struct pool_of_stage *g = &w->stages[i];

        stage_cache_clear(&g->cache);
        while (g->table.all.head != NULL) {
            struct sequence *s = g->table.all.head;

            sequence_release(&g->table, s);
            sequence_free(&g->table, &s);
        }
        assert_int_equal(g->pool.free, g->pool.o.n_pages);
        assert_int_equal(g->pool.violations, 0);
        stage_cache_fini(&g->cache);
        sequence_table_fini(&g->table);
        pool_fini(&g->pool);
    }
    free(w);
}

static struct pool_need need_at(const struct world *w, int i,
                                const struct pool_need *need)
{
    return (struct pool_need){
        {w->shapes[i].pages_per_block > 0 ? need->n[POOL_BLOCKS] : 0,
         w->shapes[i].pages_per_slot > 0 ? need->n[POOL_SLOTS] : 0, 0}};
}

static struct live *open_one(struct world *w, uint32_t n_prompt)
{
    struct pool_need need = {{(n_prompt + 40 + BT - 1) / BT, 1, 0}};
    struct live *x = &w->live[w->n_live];
    struct error e;

    if (w->n_live == SEQUENCES || !mirror_fits(&w->mirror, &need, NULL)) {
        return NULL;
    }
    *x = (struct live){.grant = ++w->grant, .n_prompt = n_prompt};
    assert_int_equal(mirror_open(&w->mirror, x->grant, &need, &e), ST_OK);
    for (int i = 0; i < STAGES; i++) {
        struct pool_of_stage *g = &w->stages[i];
        struct pool_need n = need_at(w, i, &need);

        assert_int_equal(pool_grant(&g->pool, &n, &e), ST_OK);
        x->at[i] = sequence_new(&g->table, 0, n.n[POOL_BLOCKS]);
        assert_non_null(x->at[i]);
        x->at[i]->memory.need = n;
    }
    w->n_live++;
    return x;
}

/* Takes what a Forward takes at a stage. */
static void take(struct pool_of_stage *g, struct sequence *s, uint32_t end)
{
    struct error e;

    assert_int_equal(stage_cache_take(&g->cache, s, end, &e), ST_OK);
    if (g->cache.has_states && s->memory.slot == SLOT_NONE) {
        assert_true(pool_take(&g->pool, POOL_SLOTS, 1, &s->memory.slot));
    }
    g->pool.n_moves = 0;
}

static void compute(struct world *w, struct live *x, uint32_t end)
{
    for (int i = 0; i < STAGES; i++) {
        take(&w->stages[i], x->at[i], end);
    }
    x->n_planned = end > x->n_planned ? end : x->n_planned;
}

static void remove_one(struct world *w, uint32_t at)
{
    struct live *x = &w->live[at];

    mirror_remove(&w->mirror, x->grant);
    for (int i = 0; i < STAGES; i++) {
        sequence_release(&w->stages[i].table, x->at[i]);
        sequence_free(&w->stages[i].table, &x->at[i]);
    }
    *x = w->live[--w->n_live];
}

static bool restore(struct world *w, struct live *x, struct stage_restore r,
                    struct live *from)
{
    struct error e, e2;
    enum status st = mirror_restore(&w->mirror, x->grant, &r,
                                    from != NULL ? from->grant : 0, NULL, &e);

    for (int i = 0; i < STAGES; i++) {
        struct stage_copies copies;

        r.from = from != NULL ? from->at[i] : NULL;
        w->stages[i].pool.n_moves = 0;
        assert_int_equal(stage_cache_restore(&w->stages[i].cache, x->at[i], &r,
                                             &copies, &e2),
                         st);
        if (st == ST_OK && r.checkpoint != NAME_NONE &&
            w->shapes[i].pages_per_slot > 0) {
            assert_int_equal(copies.of[copies.n - 1].n,
                             w->shapes[i].pages_per_slot);
        }
    }
    if (st == ST_OK) {
        x->n_planned = r.position;
    }
    return st == ST_OK;
}

/* ---- random messages ---- */

static uint32_t below(uint32_t n)
{
    return (uint32_t)rand() % n;
}

static struct live *any(struct world *w)
{
    struct live *x = w->n_live > 0 ? &w->live[below(w->n_live)] : NULL;

    return x == NULL || x->spent ? NULL : x;
}

static void keep_random(struct world *w, struct live *x)
{
    uint32_t end = PREFIX_UNIT * (1 + below(4)), node = below(NODES);
    uint32_t parent = NAME_NONE;
    enum status st;
    struct error e, e2;

    for (uint32_t i = 0; i < NODES && end > PREFIX_UNIT; i++) {
        if (w->nodes[i].used && w->nodes[i].end == end - PREFIX_UNIT) {
            parent = i;
        }
    }
    if (x->n_planned < end) {
        return;
    }
    st = mirror_keep(&w->mirror, x->grant, node, parent, end, &e);
    for (int i = 0; i < 2; i++) { /* the third has no blocks */
        assert_int_equal(stage_cache_keep(&w->stages[i].cache, x->at[i], node,
                                          parent, end, &e2),
                         st);
        assert_true(st == ST_OK || strcmp(e.text, e2.text) == 0);
    }
    if (st == ST_OK) {
        w->nodes[node].used = true;
        w->nodes[node].parent = parent;
        w->nodes[node].end = end;
    }
}

static void drop_node(struct world *w, uint32_t node)
{
    struct error e;
    enum status st = w->nodes[node].used ? ST_OK : ST_NOT_FOUND;

    assert_int_equal(stage_cache_gone_node(&w->mirror.cache, node, &e), st);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stage_cache_gone_node(&w->stages[i].cache, node, &e),
                         st);
    }
    w->nodes[node].used = false;
    for (uint32_t i = 0; i < NODES && st == ST_OK; i++) {
        if (w->nodes[i].used && w->nodes[i].parent == node) {
            drop_node(w, i);
        }
    }
}

static void save_random(struct world *w, uint32_t name)
{
    static const struct pool_need one = {{0, 0, 1}};
    uint32_t page;
    struct error e;

    if (w->saves[name]) {
        assert_int_equal(
            stage_cache_gone_checkpoint(&w->mirror.cache, name, &e), ST_OK);
        for (int i = 0; i < STAGES; i++) {
            assert_int_equal(
                stage_cache_gone_checkpoint(&w->stages[i].cache, name, &e),
                ST_OK);
        }
        w->saves[name] = false;
        return;
    }
    if (!mirror_fits(&w->mirror, &one, NULL)) {
        return;
    }
    assert_int_equal(stage_cache_save(&w->mirror.cache, name, &page, &e),
                     ST_OK);
    for (int i = 0; i < STAGES; i++) {
        w->stages[i].pool.n_moves = 0;
        assert_int_equal(stage_cache_save(&w->stages[i].cache, name, &page, &e),
                         ST_OK);
    }
    w->saves[name] = true;
}

static void twin_random(struct world *w, struct live *x)
{
    struct error e;
    struct live *t = open_one(w, x->n_prompt);

    if (t == NULL || x->n_planned > x->n_prompt) {
        return;
    }
    compute(w, x, x->n_prompt);
    assert_int_equal(
        mirror_twin(&w->mirror, x->grant, t->grant, x->n_prompt, &e), ST_OK);
    for (int i = 0; i < STAGES; i++) {
        assert_int_equal(stage_cache_twin(&w->stages[i].cache, x->at[i],
                                          t->at[i], x->n_prompt, &e),
                         ST_OK);
    }
    compute(w, t, x->n_prompt);
}

static void restore_random(struct world *w, struct live *x)
{
    uint32_t node = below(NODES), name = below(SAVES);

    if (w->nodes[node].used && w->saves[name] &&
        w->nodes[node].end < x->n_prompt) {
        assert_true(restore(w, x,
                            (struct stage_restore){w->nodes[node].end, node,
                                                   name, NULL, false, 0},
                            NULL));
        compute(w, x, x->n_planned + 1);
    }
}

static void continue_random(struct world *w, struct live *x)
{
    struct live *s;

    if (x->n_planned == 0) {
        return;
    }
    s = open_one(w, x->n_planned + 8);
    if (s != NULL) {
        assert_true(restore(w, s,
                            (struct stage_restore){x->n_planned, NAME_NONE,
                                                   NAME_NONE, NULL, false, 0},
                            x));
        x->spent = true;
    }
}

static void cut_random(struct world *w, struct live *x)
{
    uint32_t name = below(SAVES), at = below(x->n_planned + 1);

    if (w->saves[name] && x->n_planned > 0) {
        assert_true(restore(w, x,
                            (struct stage_restore){at, NAME_NONE,
                                                   at > 0 ? name : NAME_NONE,
                                                   NULL, true, 0},
                            NULL));
        x->spent = true;
    }
}

static void turn(struct world *w)
{
    struct live *x = any(w);

    switch (x == NULL ? below(2) : below(12)) {
    case 0:
        (void)open_one(w, 1 + below(300));
        break;
    case 1:
        save_random(w, below(SAVES));
        break;
    case 2:
        drop_node(w, below(NODES));
        break;
    case 3:
        remove_one(w, below(w->n_live));
        break;
    case 4:
        twin_random(w, x);
        break;
    case 5:
        restore_random(w, x);
        break;
    case 6:
        continue_random(w, x);
        break;
    case 7:
        cut_random(w, x);
        break;
    case 8:
    case 9:
        compute(w, x, 1 + below(x->n_prompt));
        break;
    default:
        keep_random(w, x);
    }
}

static void equals_every_stage_after_random_messages(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 20; seed++) {
        struct world *w = world_new();

        srand(seed);
        for (int i = 0; i < 4000; i++) {
            turn(w);
            check(w);
        }
        world_free(w);
    }
}

/* ---- single rules ---- */

static void fits_at_the_tightest_stage(void **state)
{
    static const struct mirror_stage two[] = {{100, 1, 4, 0}, {20, 1, 4, 0}};
    struct pool_need need = {{16, 1, 0}}, one = {{1, 0, 0}};
    struct mirror m;
    struct error e;
    uint32_t at = 9;

    (void)state;
    mirror_init(&m, 4, CONTEXT, BT);
    assert_true(mirror_begin(&m, two, 2));
    assert_true(mirror_fits(&m, &need, &at));
    assert_int_equal(at, 9);
    need.n[POOL_BLOCKS] = 17;
    assert_false(mirror_fits(&m, &need, &at));
    assert_int_equal(at, 1);
    need.n[POOL_BLOCKS] = 16;
    assert_int_equal(mirror_open(&m, 1, &need, &e), ST_OK);
    assert_int_equal(mirror_free(&m, 0), 80);
    assert_int_equal(mirror_free(&m, 1), 0);
    assert_false(mirror_fits(&m, &one, NULL));
    mirror_remove(&m, 1);
    mirror_remove(&m, 1);
    assert_true(mirror_fits(&m, &one, NULL));
    assert_int_equal(mirror_open(&m, 2, &need, &e), ST_OK);
    mirror_end(&m);
    assert_true(mirror_begin(&m, two, 2));
    assert_int_equal(mirror_free(&m, 1), 20);
    mirror_fini(&m);
}

static void begins_anew_with_other_stages(void **state)
{
    static const struct mirror_stage one[] = {{10, 0, 5, 0}},
                                     two[] = {{30, 1, 0, 0}};
    struct pool_need need = {{3, 1, 0}};
    struct mirror m;
    struct error e;

    (void)state;
    mirror_init(&m, 4, CONTEXT, BT);
    assert_false(mirror_has(&m, POOL_SLOTS));
    assert_true(mirror_begin(&m, one, 1));
    assert_true(mirror_has(&m, POOL_SLOTS) && !mirror_has(&m, POOL_BLOCKS));
    assert_int_equal(mirror_open(&m, 1, &need, &e), ST_OK);
    assert_int_equal(mirror_free(&m, 0), 5);
    mirror_end(&m);
    assert_true(mirror_begin(&m, two, 1));
    assert_true(!mirror_has(&m, POOL_SLOTS) && mirror_has(&m, POOL_BLOCKS));
    assert_int_equal(mirror_open(&m, 1, &need, &e), ST_OK);
    assert_int_equal(mirror_free(&m, 0), 27);
    mirror_fini(&m);
}

static void tells_what_a_range_freed(void **state)
{
    static const struct mirror_stage one[] = {{50, 1, 5, 0}};
    struct pool_need need = {{10, 1, 0}}, freed;
    struct stage_restore r = {40, NAME_NONE, NAME_NONE, NULL, true, 0};
    struct mirror m;
    struct error e;

    (void)state;
    mirror_init(&m, 4, CONTEXT, BT);
    assert_true(mirror_begin(&m, one, 1));
    assert_int_equal(mirror_open(&m, 1, &need, &e), ST_OK);
    assert_int_equal(mirror_restore(&m, 1, &r, 0, &freed, &e), ST_OK);
    assert_int_equal(freed.n[POOL_BLOCKS], 7);
    assert_int_equal(freed.n[POOL_SLOTS], 0);
    r.position = 0;
    assert_int_equal(mirror_restore(&m, 1, &r, 0, &freed, &e), ST_OK);
    assert_int_equal(freed.n[POOL_BLOCKS], 3);
    assert_int_equal(freed.n[POOL_SLOTS], 1);
    assert_int_equal(mirror_free(&m, 0), 50);
    mirror_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_every_stage_after_random_messages),
        cmocka_unit_test(fits_at_the_tightest_stage),
        cmocka_unit_test(begins_anew_with_other_stages),
        cmocka_unit_test(tells_what_a_range_freed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
