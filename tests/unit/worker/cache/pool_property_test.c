/* Random operations of the pool, compared with a simple model after each.
 *
 *   pool_property_test [OPERATIONS [SEED]]
 *
 * The default takes a few seconds; tests/nightly runs 10,000,000. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/cache/pool_model.h"

static uint64_t n_operations = 1000000, seed = 1;
static uint64_t rng, n_reads, n_moves;

typedef void op_fn(struct model *m);

static uint64_t next(void)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return rng;
}

static uint32_t below(uint32_t n)
{
    return n > 0 ? (uint32_t)(next() >> 20) % n : 0;
}

/* ---- picks: each returns false if there is none ---- */

static struct model_sequence *any(struct model *m, bool used)
{
    uint32_t at = below(MODEL_SEQUENCES);

    for (uint32_t i = 0; i < MODEL_SEQUENCES; i++) {
        struct model_sequence *s = &m->sequences[(at + i) % MODEL_SEQUENCES];

        if (s->used == used) {
            return s;
        }
    }
    return NULL;
}

static bool pick_block(const struct model *m, bool held, bool indexed,
                       uint32_t *block)
{
    uint32_t at = below(m->n_pages);

    for (uint32_t i = 0; i < m->n_pages; i++) {
        *block = (at + i) % m->n_pages;
        if ((m->refs[*block] > 0) == held && m->indexed[*block] == indexed) {
            return true;
        }
    }
    return false;
}

static bool pick_extent(const struct model *m, enum extent_use use,
                        uint32_t *extent)
{
    uint32_t n = m->per > 0 ? m->n_pages / m->per : 0, at = below(n);

    for (uint32_t i = 0; i < n; i++) {
        *extent = (at + i) % n;
        if (m->uses[*extent] == use) {
            return true;
        }
    }
    return false;
}

/* ---- operations ---- */

static void op_grant(struct model *m)
{
    struct model_sequence *s = any(m, false);
    struct pool_need need = {
        {below(below(4) ? 9 : MODEL_TABLE), m->per > 0 && below(6) == 0, 0}};
    uint32_t pages = need.n[POOL_BLOCKS] + m->per * need.n[POOL_SLOTS];
    bool fits =
        pages <= model_free(m) && need.n[POOL_SLOTS] <= model_free_slots(m);

    if (s == NULL) {
        return;
    }
    assert_int_equal(pool_grant(&m->pool, &need, NULL) == ST_OK, fits);
    if (fits) {
        *s = (struct model_sequence){
            .used = true, .slot = SLOT_NONE, .left = need};
    }
}

static void op_take_slot(struct model *m)
{
    struct model_sequence *s = any(m, true);

    if (s == NULL || s->left.n[POOL_SLOTS] == 0) {
        return;
    }
    assert_true(pool_take(&m->pool, POOL_SLOTS, 1, &s->slot));
    assert_int_equal(m->uses[s->slot / m->per], EXTENT_BLOCKS);
    s->left.n[POOL_SLOTS]--;
    m->uses[s->slot / m->per] = EXTENT_SLOT;
    m->states[s->slot / m->per] = 0;
}

/* Shares what is held or cached, from a grant or without one. */
static void op_share(struct model *m)
{
    struct model_sequence *s = any(m, true);
    bool from_grant = below(4) > 0;
    uint32_t block;

    if (s == NULL || s->n_blocks == MODEL_TABLE ||
        !pick_block(m, below(2), below(2), &block) ||
        (m->refs[block] == 0 && !m->indexed[block]) ||
        (from_grant && s->left.n[POOL_BLOCKS] == 0) ||
        (!from_grant && s->n_blocks + s->left.n[POOL_BLOCKS] == MODEL_TABLE)) {
        return;
    }
    pool_share(&m->pool, block, from_grant);
    s->left.n[POOL_BLOCKS] -= from_grant;
    s->blocks[s->n_blocks++] = block;
    m->refs[block]++;
}

static void op_index(struct model *m)
{
    uint32_t block;

    if (pick_block(m, true, false, &block)) {
        pool_index(&m->pool, block);
        m->indexed[block] = true;
    }
}

static void op_unindex(struct model *m)
{
    uint32_t block;

    if (pick_block(m, below(2), true, &block)) {
        pool_unindex(&m->pool, block);
        m->indexed[block] = false;
    }
}

/* A row's save copies the slot into the checkpoint. */
static void op_save(struct model *m)
{
    bool fits = m->per > 0 && model_free(m) >= m->per;
    uint32_t page;

    assert_int_equal(pool_cache(&m->pool, &page), fits);
    if (fits) {
        assert_int_equal(m->uses[page / m->per], EXTENT_BLOCKS);
        m->uses[page / m->per] = EXTENT_CHECKPOINT;
        m->states[page / m->per] = 0;
    }
}

static void op_uncache(struct model *m)
{
    uint32_t extent;

    if (pick_extent(m, EXTENT_CHECKPOINT, &extent)) {
        pool_uncache(&m->pool, extent * m->per);
        m->uses[extent] = EXTENT_BLOCKS;
    }
}

/* A copy from a state to another one: a restore, or a save. */
static void op_restore(struct model *m)
{
    struct model_plan *p = model_plan(m);
    bool save = below(2);
    uint32_t from, to;

    if (!pick_extent(m, save ? EXTENT_SLOT : EXTENT_CHECKPOINT, &from) ||
        !pick_extent(m, save ? EXTENT_CHECKPOINT : EXTENT_SLOT, &to) ||
        p->n_restored == MODEL_PAGES || p->n_before > MODEL_COPIES / 2) {
        return;
    }
    model_copy(m, from * m->per, to * m->per, m->per);
    m->states[to] = m->states[from];
    p->restored[p->n_restored++] = to;
}

static void drop_one(struct model *m, struct model_sequence *s, uint32_t at)
{
    uint32_t block = s->blocks[at];

    s->blocks[at] = s->blocks[--s->n_blocks];
    pool_release(&m->pool, POOL_BLOCKS, block);
    m->refs[block]--;
}

static void op_hole(struct model *m)
{
    struct model_sequence *s = any(m, true);

    if (s != NULL && s->n_blocks > 0) {
        drop_one(m, s, below(s->n_blocks));
    }
}

static void take_blocks(struct model *m, struct model_sequence *s, uint32_t n)
{
    uint32_t *end = s->blocks + s->n_blocks;

    assert_true(pool_take(&m->pool, POOL_BLOCKS, n, end));
    s->left.n[POOL_BLOCKS] -= n;
    s->n_blocks += n;
    for (uint32_t i = 0; i < n; i++) {
        assert_true(end[i] < m->n_pages && m->refs[end[i]] == 0 &&
                    !m->indexed[end[i]]);
        m->refs[end[i]] = 1;
        m->tags[end[i]] = 0;
    }
}

static void op_take(struct model *m)
{
    struct model_sequence *s = any(m, true);

    if (s != NULL) {
        take_blocks(m, s, below(s->left.n[POOL_BLOCKS] + 1));
    }
}

/* Fills the pool with blocks, then drops some of them anywhere: no extent is
 * free, but pages are. */
static void op_scatter(struct model *m)
{
    uint32_t n = model_free(m), keep = 1 + below(5);
    struct model_sequence *s = any(m, false);
    struct pool_need need = {{n < MODEL_TABLE ? n : MODEL_TABLE, 0, 0}};

    if (s == NULL) {
        return;
    }
    assert_int_equal(pool_grant(&m->pool, &need, NULL), ST_OK);
    *s = (struct model_sequence){.used = true, .slot = SLOT_NONE, .left = need};
    take_blocks(m, s, need.n[POOL_BLOCKS]);
    for (uint32_t i = s->n_blocks; i-- > 0;) {
        if (below(keep + 1) == 0) {
            drop_one(m, s, i);
        }
    }
}

static void drop_blocks(struct model *m, struct model_sequence *s, uint32_t to)
{
    while (s->n_blocks > to) {
        uint32_t block = s->blocks[--s->n_blocks];

        pool_release(&m->pool, POOL_BLOCKS, block);
        m->refs[block]--;
    }
}

static void op_range(struct model *m)
{
    struct model_sequence *s = any(m, true);

    if (s != NULL) {
        drop_blocks(m, s, below(s->n_blocks + 1));
    }
}

static void op_end(struct model *m)
{
    struct model_sequence *s = any(m, true);

    if (s == NULL) {
        return;
    }
    drop_blocks(m, s, 0);
    if (s->slot != SLOT_NONE) {
        pool_release(&m->pool, POOL_SLOTS, s->slot);
        m->uses[s->slot / m->per] = EXTENT_BLOCKS;
    }
    pool_ungrant(&m->pool, &s->left);
    *s = (struct model_sequence){.slot = SLOT_NONE};
}

static void op_submit(struct model *m)
{
    model_submit(m, next());
}

/* The refusal comes when newer moves may have been recorded. */
static void op_refuse(struct model *m)
{
    static op_fn *const newer[] = {op_save, op_scatter, op_hole, op_end,
                                   op_take_slot};

    if (below(4) > 0) {
        return;
    }
    model_carry(m);
    for (uint32_t i = below(6); i > 0; i--) {
        newer[below(5)](m);
    }
    model_refuse(m);
}

static void op_run(struct model *m)
{
    model_run(m);
}

/* Operations that change nothing but the count. */
static void op_illegal(struct model *m)
{
    struct pool_need much = {{m->n_pages + 1, 0, 0}};
    uint32_t block, extent;

    switch (below(6)) {
    case 0:
        pool_release(&m->pool, POOL_BLOCKS, m->n_pages + below(9));
        break;
    case 1:
        if (!pick_block(m, false, below(2), &block)) {
            return;
        }
        pool_release(&m->pool, POOL_BLOCKS, block);
        break;
    case 2:
        if (!pick_block(m, false, false, &block)) {
            return;
        }
        pool_share(&m->pool, block, false);
        break;
    case 3:
        if (!pick_extent(m, EXTENT_BLOCKS, &extent)) {
            return;
        }
        pool_release(&m->pool, POOL_SLOTS, extent * m->per);
        break;
    case 4:
        if (!pick_extent(m, EXTENT_SLOT, &extent)) {
            return;
        }
        pool_uncache(&m->pool, extent * m->per);
        break;
    default:
        pool_ungrant(&m->pool, &much);
    }
    m->violations++;
}

static op_fn *const operations[] = {
    op_grant,     op_grant,   op_grant,   op_take,   op_take,      op_take,
    op_scatter,   op_scatter, op_share,   op_share,  op_index,     op_unindex,
    op_unindex,   op_hole,    op_hole,    op_hole,   op_take_slot, op_take_slot,
    op_take_slot, op_save,    op_save,    op_save,   op_uncache,   op_uncache,
    op_restore,   op_restore, op_restore, op_range,  op_end,       op_end,
    op_end,       op_submit,  op_submit,  op_submit, op_submit,    op_run,
    op_illegal,   op_refuse,
};

static void run(uint32_t n_pages, uint32_t per, uint32_t cap, uint64_t n)
{
    static struct model m;
    const uint32_t n_ops = sizeof operations / sizeof *operations;

    model_begin(&m, n_pages, per, cap);
    for (uint64_t i = 0; i < n; i++) {
        operations[below(n_ops)](&m);
        model_check(&m);
    }
    while (m.n_plans > 0) {
        model_run(&m);
    }
    n_reads += m.n_reads;
    n_moves += m.n_moves;
    model_end(&m);
}

static void differs_from_no_model(void **state)
{
    (void)state;
    rng = seed * 0x9e3779b97f4a7c15u;
    for (uint64_t left = n_operations; left > 0;) {
        uint64_t n = left < 20000 ? left : 20000;
        uint32_t per = below(8), pages = 1 + below(MODEL_PAGES);

        run(pages, per, below(2) ? 1 + below(8) : 0, n);
        left -= n;
    }
    /* A test that compares and moves nothing would pass, too. */
    assert_true(n_reads > n_operations && n_moves > n_operations / 500);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differs_from_no_model),
    };

    if (argc > 1) {
        n_operations = strtoull(argv[1], NULL, 10);
    }
    if (argc > 2) {
        seed = strtoull(argv[2], NULL, 10);
    }
    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
