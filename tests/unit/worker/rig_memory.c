#include "tests/unit/worker/rig_memory.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig_internal.h"

#define RUINED UINT32_MAX /* positions that a state of garbage has seen */

struct rig_page {
    uint64_t before;  /* hash of the ids before the block */
    uint32_t n;       /* positions that are there, from the first on */
    uint32_t table;   /* of window blocks, from 1; 0: none */
    uint64_t state;   /* of a slot */
    uint32_t state_n; /* positions that it has seen */
    uint32_t ids[64]; /* with KIND */
    uint64_t mtp; /* positions that the MTP layer has computed, a bit each */
};

#define KIND ((uint32_t)1 << 31)

/* An input that a row has kept: how the state goes on with it. */
struct rig_kept {
    uint64_t base, with; /* states before the row, and behind the input */
    uint32_t base_n, n;  /* positions before the row; inputs with this one */
};

struct rig_memory {
    const struct worker_options *o;
    const bool *counts;
    struct rig_kept *kept; /* [keep_tokens] */
    struct rig_page *pages;
    struct rig_page *host; /* [host_pages] */
};

uint64_t rig_mix(uint64_t h, uint32_t id)
{
    h = (h ^ id) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}

struct rig_memory *rig_memory_new(const struct worker_options *o,
                                  const bool *counts)
{
    struct rig_memory *m = calloc(1, sizeof *m);

    m->o = o;
    m->counts = counts;
    m->pages = calloc(o->pool.n_pages, sizeof *m->pages);
    for (uint32_t i = 0; i < o->pool.n_pages; i++) {
        m->pages[i].state_n = RUINED;
    }
    m->kept = calloc(o->drafting.keep_tokens + (size_t)1, sizeof *m->kept);
    m->host = calloc(o->pool.host_pages + (size_t)1, sizeof *m->host);
    for (uint32_t i = 0; i < o->pool.host_pages; i++) {
        m->host[i].state_n = RUINED;
    }
    return m;
}

void rig_memory_free(struct rig_memory *m)
{
    free(m->pages);
    free(m->host);
    free(m->kept);
    free(m);
}

static struct rig_page *page_at(const struct rig_memory *m, uint32_t page)
{
    assert_in_range(page, 0, m->o->pool.n_pages - 1);
    return &m->pages[page];
}

/* ---- slots ---- */

static void set_state(struct rig_memory *m, uint32_t slot, uint64_t state,
                      uint32_t n)
{
    assert_int_equal(slot % m->o->pool.pages_per_slot, 0);
    for (uint32_t i = 0; i < m->o->pool.pages_per_slot; i++) {
        struct rig_page *x = page_at(m, slot + i);

        x->n = x->table = 0; /* no block any more */
        x->state = state + i;
        x->state_n = n;
    }
}

static void check_state(const struct rig_memory *m, uint32_t slot,
                        uint64_t state, uint32_t n)
{
    for (uint32_t i = 0; i < m->o->pool.pages_per_slot; i++) {
        const struct rig_page *x = page_at(m, slot + i);

        assert_int_equal(x->state_n, n);
        assert_true(x->state == state + i);
    }
}

bool rig_memory_is_at(const struct rig_memory *m, const struct plan_row *row)
{
    return m->o->pool.pages_per_slot > 0 &&
           page_at(m, row->slot)->state_n == row->position;
}

/* ---- around the rows ---- */

static struct rig_page *host_at(const struct rig_memory *m, uint32_t page)
{
    assert_in_range(page + 1, 1, m->o->pool.host_pages);
    return &m->host[page];
}

static void copy_pages(struct rig_memory *m, const struct plan_copy *c)
{
    uint32_t apart = c->from > c->to ? c->from - c->to : c->to - c->from;

    assert_in_range(c->n, 1, c->kind == COPY_PAGES ? apart : UINT32_MAX);
    for (uint32_t i = 0; i < c->n; i++) {
        const struct rig_page *from = c->kind == COPY_IN
                                          ? host_at(m, c->from + i)
                                          : page_at(m, c->from + i);
        struct rig_page *to =
            c->kind == COPY_OUT ? host_at(m, c->to + i) : page_at(m, c->to + i);

        *to = *from;
    }
}

static void ruin_pages(struct rig_memory *m, uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct rig_page *x = page_at(m, first + i);

        memset(x, 0xff, sizeof *x);
        x->n = x->table = 0;
    }
}

/* A slot that is not as it was before the row, or whose row has kept other
 * inputs, gets garbage.  Its sequence may be gone: whoever has the pages now
 * writes them first. */
static void replay(struct rig_memory *m, const struct plan_replay *r)
{
    const struct rig_kept *k;

    assert_in_range(r->n_tokens, 1, m->o->drafting.keep_tokens);
    assert_in_range(r->keep_at, 0, m->o->drafting.keep_tokens - r->n_tokens);
    k = &m->kept[r->keep_at + r->n_tokens - 1];
    if (k->n == r->n_tokens && page_at(m, r->slot)->state_n == k->base_n &&
        page_at(m, r->slot)->state == k->base) {
        set_state(m, r->slot, k->with, k->base_n + k->n);
    } else {
        ruin_pages(m, r->slot, m->o->pool.pages_per_slot);
    }
}

void rig_memory_before(struct rig_memory *m, const struct plan *p)
{
    assert_in_range(p->n_before, 0, PLAN_COPIES_MAX);
    assert_in_range(p->n_poison, 0, PLAN_COPIES_MAX);
    for (uint32_t i = 0; i < p->n_poison; i++) {
        ruin_pages(m, p->poison[i].from, p->poison[i].n);
    }
    for (uint32_t i = 0; i < p->n_replays; i++) {
        replay(m, &p->replays[i]);
    }
    for (uint32_t i = 0; i < p->n_before; i++) {
        copy_pages(m, &p->before[i]);
    }
    for (uint32_t i = 0; i < p->n_zero; i++) {
        set_state(m, p->zero_slots[i], 0, 0);
    }
}

void rig_memory_after(struct rig_memory *m, const struct plan *p, bool ruin)
{
    for (uint32_t i = 0; i < p->n_after; i++) {
        if (ruin) {
            ruin_pages(m, p->after[i].to, p->after[i].n);
        } else {
            copy_pages(m, &p->after[i]);
        }
    }
}

/* ---- rows ---- */

uint64_t rig_memory_mix(const struct rig_memory *m, uint64_t h, uint32_t id,
                        enum row_kind kind)
{
    bool differs = kind == ROW_GENERATED && !m->o->one_arithmetic;

    if (*m->counts) {
        return h + id;
    }
    return rig_mix(h, differs ? id | KIND : id);
}

/* Reads positions [0, end) of the row's table. */
static uint64_t read_blocks(const struct rig_memory *m, const struct plan *p,
                            const struct plan_row *row, uint32_t end)
{
    uint32_t bt = m->o->block_tokens;
    uint64_t h = 0;

    for (uint32_t at = 0; at < end; at++) {
        const struct rig_page *x;

        assert_in_range(at / bt, 0, row->n_blocks - 1);
        x = page_at(m, p->blocks[row->block + at / bt]);
        assert_true(at % bt < x->n);
        assert_true(at % bt != 0 || x->before == h);
        h = rig_memory_mix(m, h, x->ids[at % bt] & ~KIND,
                           x->ids[at % bt] & KIND ? ROW_GENERATED : ROW_PROMPT);
    }
    return h;
}

/* Returns the page of a position in a table of window blocks. */
static struct rig_page *window_at(const struct rig_memory *m,
                                  const struct plan *p,
                                  const struct plan_row *row, uint32_t table,
                                  uint32_t at)
{
    uint32_t block = at / m->o->block_tokens;

    assert_in_range(block, row->window_first,
                    row->window_first + row->n_window - 1);
    return page_at(m, p->blocks[row->window + table * row->n_window + block -
                                row->window_first]);
}

/* Reads the window of the row's first position.  Returns the hash of all ids
 * before it. */
static uint64_t read_window(const struct rig_memory *m, const struct plan *p,
                            const struct plan_row *row, uint32_t table)
{
    uint32_t bt = m->o->block_tokens, end = row->position, at;
    uint64_t h = 0;

    at = end < m->o->window ? 0 : end - m->o->window + 1;
    for (at -= at % bt; at < end; at++) {
        const struct rig_page *x = window_at(m, p, row, table, at);
        bool first = at % bt == 0;

        assert_int_equal(x->table, table + 1);
        assert_true(at % bt < x->n);
        h = first && h == 0 ? x->before : h;
        assert_true(!first || x->before == h);
        h = rig_memory_mix(m, h, x->ids[at % bt] & ~KIND,
                           x->ids[at % bt] & KIND ? ROW_GENERATED : ROW_PROMPT);
    }
    return h;
}

/* Returns h, which is that of all ids before the row, if it is known. */
static uint64_t read_windows(const struct rig_memory *m, const struct plan *p,
                             const struct plan_row *row, bool known, uint64_t h)
{
    for (uint32_t i = 0; m->o->window > 1 && i < m->o->pool.window_pages; i++) {
        uint64_t seen = read_window(m, p, row, i);

        assert_true(!known || seen == h);
        h = seen;
        known = true;
    }
    return h;
}

uint64_t rig_memory_read(const struct rig_memory *m, const struct plan *p,
                         const struct plan_row *row)
{
    bool has_blocks = m->o->pool.pages_per_block > 0;
    bool has_slots = m->o->pool.pages_per_slot > 0;
    uint64_t h = has_blocks ? read_blocks(m, p, row, row->position) : 0;

    if (has_slots && !has_blocks) {
        h = page_at(m, row->slot)->state;
    }
    if (has_slots) {
        check_state(m, row->slot, h, row->position);
    } else {
        assert_int_equal(row->slot, SLOT_NONE);
    }
    return read_windows(m, p, row, has_blocks || has_slots, h);
}

static void write_block(struct rig_memory *m, struct rig_page *x, uint32_t at,
                        uint32_t id, uint64_t h)
{
    at %= m->o->block_tokens;
    if (at == 0 && (x->n == 0 || x->before != h)) {
        x->before = h;
        x->n = 0;
    }
    assert_in_range(at, 0, x->n);
    /* What is written again has the same bits, so that others that share the
     * block see no change. */
    if (at < x->n && x->ids[at] != id) {
        x->n = at;
    }
    /* What is written again leaves the MTP layer's. */
    if (at >= x->n || x->ids[at] != id) {
        x->mtp &= ~((uint64_t)1 << at);
    }
    x->ids[at] = id;
    x->n = at + 1 > x->n ? at + 1 : x->n;
    x->state_n = RUINED;
}

static void save(struct rig_memory *m, const struct plan *p,
                 const struct plan_row *row, uint32_t end, uint64_t h)
{
    for (uint32_t i = 0; i < row->n_saves; i++) {
        const struct plan_save *s = &p->saves[row->save + i];

        if (s->position == end) {
            set_state(m, s->page, h, end);
        }
    }
}

/* Writes the id to the row's blocks and window blocks. */
static void write_blocks(struct rig_memory *m, const struct plan *p,
                         const struct plan_row *row, uint32_t i, uint32_t id,
                         uint64_t h)
{
    uint32_t at = row->position + i, bt = m->o->block_tokens;
    bool differs = row->kind == ROW_GENERATED && !m->o->one_arithmetic;

    if (m->o->pool.pages_per_block > 0) {
        assert_in_range(at / bt, 0, row->n_blocks - 1);
        struct rig_page *x = page_at(m, p->blocks[row->block + at / bt]);

        x->n = x->table == 0 ? x->n : 0;
        x->table = 0;
        write_block(m, x, at, differs ? id | KIND : id, h);
    }
    for (uint32_t k = 0; k < m->o->pool.window_pages; k++) {
        struct rig_page *x = window_at(m, p, row, k, at);

        x->n = x->table == k + 1 ? x->n : 0;
        write_block(m, x, at, differs ? id | KIND : id, h);
        x->table = k + 1;
    }
}

void rig_memory_refuse(struct rig_memory *m, const struct plan *p,
                       const struct plan_row *row, uint32_t i, uint32_t id)
{
    write_blocks(m, p, row, i, id, 0);
}

uint64_t rig_memory_keep(struct rig_memory *m, const struct plan *p,
                         const struct plan_row *row, uint32_t i, uint32_t id,
                         uint64_t h)
{
    uint64_t with = rig_memory_mix(m, h, id, row->kind);
    struct rig_kept *k;

    assert_in_range(row->keep_at, 0,
                    m->o->drafting.keep_tokens - row->n_tokens);
    k = &m->kept[row->keep_at];
    if (i == 0) {
        check_state(m, row->slot, h, row->position);
        k->base = h;
    }
    write_blocks(m, p, row, i, id, h);
    k[i] = (struct rig_kept){k->base, with, row->position, i + 1};
    return with;
}

static struct rig_page *block_at(const struct rig_memory *m,
                                 const struct plan *p,
                                 const struct plan_row *row, uint32_t at)
{
    assert_in_range(at / m->o->block_tokens, 0, row->n_blocks - 1);
    return page_at(m, p->blocks[row->block + at / m->o->block_tokens]);
}

void rig_memory_mtp(struct rig_memory *m, const struct plan *p,
                    const struct plan_row *row, uint32_t n)
{
    for (uint32_t at = row->position;
         m->o->pool.pages_per_block > 0 && at < row->position + n; at++) {
        block_at(m, p, row, at)->mtp |= (uint64_t)1 << at % m->o->block_tokens;
    }
}

bool rig_memory_has_mtp(const struct rig_memory *m, const struct plan *p,
                        const struct plan_row *row)
{
    bool all = true;

    for (uint32_t at = 0; m->o->pool.pages_per_block > 0 && at < row->position;
         at++) {
        all = all && (block_at(m, p, row, at)->mtp >> at % m->o->block_tokens &
                      1) != 0;
    }
    return all;
}

uint64_t rig_memory_write(struct rig_memory *m, const struct plan *p,
                          const struct plan_row *row, uint32_t i, uint32_t id,
                          uint64_t h)
{
    uint32_t at = row->position + i;
    uint64_t with = rig_memory_mix(m, h, id, row->kind);

    write_blocks(m, p, row, i, id, h);
    if (m->o->pool.pages_per_slot > 0) {
        check_state(m, row->slot, h, at);
        set_state(m, row->slot, with, at + 1);
        save(m, p, row, at + 1, with);
    }
    return with;
}

void rig_memory_ruin(struct rig_memory *m, const struct plan *p,
                     const struct plan_row *row)
{
    if (m->o->pool.pages_per_slot == 0) {
        return;
    }
    if (row->n_tokens > 0) {
        ruin_pages(m, row->slot, m->o->pool.pages_per_slot);
    }
    for (uint32_t i = 0; row->keep && i < row->n_tokens; i++) {
        m->kept[row->keep_at + i].n = 0;
    }
    for (uint32_t i = 0; i < row->n_saves; i++) {
        ruin_pages(m, p->saves[row->save + i].page, m->o->pool.pages_per_slot);
    }
}

static void garble_windows(struct rig_memory *m, const struct plan *p,
                           const struct plan_row *row)
{
    uint32_t bt = m->o->block_tokens;

    for (uint32_t k = 0; k < m->o->pool.window_pages; k++) {
        for (uint32_t i = 0; m->o->pool.pages_per_slot > 0 && i < row->n_tokens;
             i++) {
            uint32_t at = row->position + i;
            struct rig_page *x = window_at(m, p, row, k, at);

            x->ids[at % bt] = UINT32_MAX;
            x->before += at % bt == 0;
        }
    }
}

void rig_memory_garble(struct rig_memory *m, const struct plan *p,
                       const struct plan_row *row)
{
    uint32_t bt = m->o->block_tokens;

    rig_memory_ruin(m, p, row);
    for (uint32_t i = 0; i < row->n_tokens && m->o->pool.pages_per_slot > 0 &&
                         m->o->pool.pages_per_block > 0;
         i++) {
        uint32_t at = row->position + i;
        uint32_t page = p->blocks[row->block + at / bt];

        page_at(m, page)->ids[at % bt] = UINT32_MAX;
        page_at(m, page)->before += at % bt == 0;
    }
    garble_windows(m, p, row);
}
