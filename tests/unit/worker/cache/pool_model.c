#include "tests/unit/worker/cache/pool_model.h"

#include <string.h>

#include "tests/unit/cmocka.h"

/* Pages of an extent have different contents. */
static uint64_t page_tag(uint64_t tag, uint32_t i)
{
    return tag + ((uint64_t)i << 48);
}

void model_begin(struct model *m, uint32_t n_pages, uint32_t per, uint32_t cap)
{
    struct pool_options o = {
        .n_pages = n_pages, .pages_per = {1, per, per}, .slot_cap = cap};

    memset(m, 0, sizeof *m);
    m->n_pages = n_pages;
    m->per = per;
    m->cap = cap;
    assert_true(pool_init(&m->pool, &o, true));
    model_plan(m)->n_poison = pool_take_freed(&m->pool, model_plan(m)->poison);
}

void model_end(struct model *m)
{
    pool_fini(&m->pool);
}

/* ---- accounts ---- */

static uint32_t count_extents(const struct model *m, enum extent_use use)
{
    uint32_t n = 0;

    for (uint32_t i = 0; m->per > 0 && i < m->n_pages / m->per; i++) {
        n += m->uses[i] == use;
    }
    return n;
}

static struct pool_need count_granted(const struct model *m)
{
    struct pool_need sum = {{0, 0, 0}};

    for (int i = 0; i < MODEL_SEQUENCES; i++) {
        for (int c = 0; c < POOL_CLASSES; c++) {
            sum.n[c] += m->sequences[i].left.n[c];
        }
    }
    return sum;
}

static uint32_t count_blocks(const struct model *m, bool held)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < m->n_pages; i++) {
        n += held ? m->refs[i] > 0 : m->refs[i] == 0 && m->indexed[i];
    }
    return n;
}

uint32_t model_free(const struct model *m)
{
    struct pool_need granted = count_granted(m);
    uint32_t states = count_extents(m, EXTENT_SLOT) +
                      count_extents(m, EXTENT_CHECKPOINT) +
                      granted.n[POOL_SLOTS];

    return m->n_pages - count_blocks(m, true) - count_blocks(m, false) -
           granted.n[POOL_BLOCKS] - m->per * states;
}

uint32_t model_free_slots(const struct model *m)
{
    uint32_t n, most, used;

    if (m->per == 0) {
        return 0;
    }
    most = m->n_pages / m->per;
    most = m->cap > 0 && m->cap < most ? m->cap : most;
    used = count_extents(m, EXTENT_SLOT) + count_granted(m).n[POOL_SLOTS];
    n = model_free(m) / m->per;
    return n < most - used ? n : most - used;
}

static void check_places(struct model *m)
{
    const struct places *l = &m->pool.places;
    bool taken[MODEL_PAGES] = {false};

    for (uint32_t i = 0; i < m->n_pages; i++) {
        const struct pool_block *b = &m->pool.blocks[i];

        assert_int_equal(b->refs, m->refs[i]);
        assert_int_equal(b->indexed, m->indexed[i]);
        if (b->refs == 0 && !b->indexed) {
            assert_int_equal(b->page, PLACE_NONE);
            continue;
        }
        assert_true(b->page < m->n_pages && !taken[b->page]);
        assert_int_equal(l->owners[b->page], i);
        taken[b->page] = true;
    }
    for (uint32_t i = 0; m->per > 0 && i < m->n_pages / m->per; i++) {
        assert_int_equal(l->extents[i].use, m->uses[i]);
        for (uint32_t k = 0; m->uses[i] != EXTENT_BLOCKS && k < m->per; k++) {
            assert_false(taken[i * m->per + k]);
            taken[i * m->per + k] = true;
        }
    }
    for (uint32_t i = 0; i < m->n_pages; i++) {
        m->dirty[i] = m->dirty[i] || taken[i];
        assert_int_equal(places_is_free(l, i), !taken[i]);
    }
}

void model_check(struct model *m)
{
    const struct pool *p = &m->pool;
    struct pool_need granted = count_granted(m);
    struct pool_account a = pool_pages(p);

    assert_int_equal(a.free, model_free(m));
    assert_int_equal(a.total, a.free + a.held + a.cached + a.granted);
    assert_int_equal(pool_account(p, POOL_SLOTS).free, model_free_slots(m));
    assert_int_equal(p->places.n_free, a.free + granted.n[POOL_BLOCKS] +
                                           m->per * granted.n[POOL_SLOTS]);
    for (int c = 0; c < POOL_CLASSES; c++) {
        assert_int_equal(p->granted.n[c], granted.n[c]);
    }
    assert_int_equal(p->held.n[POOL_BLOCKS], count_blocks(m, true));
    assert_int_equal(p->cached.n[POOL_BLOCKS], count_blocks(m, false));
    assert_int_equal(p->held.n[POOL_SLOTS], count_extents(m, EXTENT_SLOT));
    assert_int_equal(p->cached.n[POOL_CHECKPOINTS],
                     count_extents(m, EXTENT_CHECKPOINT));
    assert_int_equal(p->violations, m->violations);
    check_places(m);
}

/* ---- plans ---- */

struct model_plan *model_plan(struct model *m)
{
    return &m->plans[(m->first + m->n_plans) % (MODEL_DEPTH + 1)];
}

void model_carry(struct model *m)
{
    struct model_plan *p = model_plan(m);
    static struct plan_copy moves[PLAN_COPIES_MAX];
    uint32_t n = pool_take_moves(&m->pool, moves);

    assert_true(p->n_before + n < MODEL_COPIES);
    memcpy(p->before + p->n_before, moves, n * sizeof *moves);
    memcpy(p->moves + p->n_moves, moves, n * sizeof *moves);
    p->n_before += n;
    p->n_moves += n;
    m->n_moves += n;
}

void model_copy(struct model *m, uint32_t from, uint32_t to, uint32_t n)
{
    struct model_plan *p = model_plan(m);

    model_carry(m);
    p->before[p->n_before++] =
        (struct plan_copy){.from = from, .to = to, .n = n};
}

static void add_read(struct model_plan *p, uint32_t page, uint64_t tag)
{
    p->reads[p->n_reads++] = (struct model_page){page, tag};
}

static void add_write(struct model_plan *p, uint32_t page, uint64_t tag)
{
    p->writes[p->n_writes++] = (struct model_page){page, tag};
}

static void read_all(const struct model *m, struct model_plan *p)
{
    for (uint32_t i = 0; i < m->n_pages; i++) {
        if (m->tags[i] != 0 && (m->refs[i] > 0 || m->indexed[i])) {
            add_read(p, pool_page(&m->pool, i), m->tags[i]);
        }
    }
    for (uint32_t i = 0; m->per > 0 && i < m->n_pages / m->per; i++) {
        for (uint32_t k = 0; k < m->per && m->uses[i] != EXTENT_BLOCKS; k++) {
            if (m->states[i] != 0) {
                add_read(p, i * m->per + k, page_tag(m->states[i], k));
            }
        }
    }
}

/* Rows write blocks that one table has and no index, and slots. */
static void write_some(struct model *m, struct model_plan *p, uint64_t pick)
{
    for (uint32_t i = 0; i < m->n_pages; i++) {
        if (m->refs[i] == 1 && !m->indexed[i] && pick >> i % 61 & 1) {
            m->tags[i] = ++m->next_tag;
            add_write(p, pool_page(&m->pool, i), m->tags[i]);
        }
    }
    for (uint32_t i = 0; m->per > 0 && i < m->n_pages / m->per; i++) {
        if (m->uses[i] == EXTENT_SLOT && pick >> (i + 7) % 61 & 1) {
            m->states[i] = ++m->next_tag;
            for (uint32_t k = 0; k < m->per; k++) {
                add_write(p, i * m->per + k, page_tag(m->states[i], k));
            }
        }
    }
}

/* Returns whether a recorded move still reads the page. */
static bool leaves(const struct pool *p, uint32_t page)
{
    for (uint32_t i = 0; i < p->n_moves; i++) {
        if (page - p->moves[i].from < p->moves[i].n) {
            return true;
        }
    }
    return false;
}

static void begin_plan(struct model *m)
{
    static struct plan_copy freed[PLAN_COPIES_MAX];
    struct model_plan *p = model_plan(m);

    memset(p, 0, sizeof *p);
    p->n_poison = pool_take_freed(&m->pool, freed);
    assert_true(p->n_poison <= MODEL_COPIES);
    memcpy(p->poison, freed, p->n_poison * sizeof *freed);
    for (uint32_t i = 0; i < p->n_poison; i++) {
        memset(m->dirty + freed[i].from, 0, freed[i].n);
    }
    for (uint32_t i = 0; i < m->n_pages; i++) {
        assert_true(!m->dirty[i] || !places_is_free(&m->pool.places, i) ||
                    leaves(&m->pool, i));
    }
}

void model_refuse(struct model *m)
{
    struct model_plan *p = model_plan(m);

    pool_untake_moves(&m->pool, p->moves, p->n_moves);
    for (uint32_t i = 0; i < p->n_restored; i++) {
        m->states[p->restored[i]] = 0;
    }
    begin_plan(m);
}

void model_submit(struct model *m, uint64_t pick)
{
    struct model_plan *p = model_plan(m);

    model_carry(m);
    read_all(m, p);
    write_some(m, p, pick);
    if (m->n_plans == MODEL_DEPTH) {
        model_run(m);
    }
    m->n_plans++;
    begin_plan(m);
}

void model_run(struct model *m)
{
    const struct model_plan *p = &m->plans[m->first];
    uint64_t *memory = m->memory;

    if (m->n_plans == 0) {
        return;
    }
    for (uint32_t i = 0; i < p->n_poison; i++) {
        for (uint32_t k = 0; k < p->poison[i].n; k++) {
            memory[p->poison[i].from + k] = MODEL_POISON;
        }
    }
    for (uint32_t i = 0; i < p->n_before; i++) {
        const struct plan_copy *c = &p->before[i];

        assert_true(c->from + c->n <= c->to || c->to + c->n <= c->from);
        memcpy(memory + c->to, memory + c->from, c->n * sizeof *memory);
    }
    for (uint32_t i = 0; i < p->n_reads; i++) {
        assert_int_equal(memory[p->reads[i].page], p->reads[i].tag);
    }
    for (uint32_t i = 0; i < p->n_writes; i++) {
        memory[p->writes[i].page] = p->writes[i].tag;
    }
    m->n_reads += p->n_reads;
    m->first = (m->first + 1) % (MODEL_DEPTH + 1);
    m->n_plans--;
}
