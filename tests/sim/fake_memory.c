/* fake_memory.c - The pages of the fake engine. */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/fake_engine_internal.h"

static const struct cell no_cell = {0x0badu, UINT32_MAX};

/* ---- contents ---- */

static void empty_cells(struct fake_engine *e, uint32_t page)
{
    struct cell *c = fake_cell(e, page, 0);

    for (uint32_t i = 0; i < e->draw->block_tokens; i++) {
        c[i] = no_cell;
    }
}

void fake_memory_spoil(struct fake_engine *e, uint32_t first, uint32_t n,
                       enum page_kind kind)
{
    for (uint32_t i = first; i < first + n; i++) {
        e->pages[i].kind = kind;
        e->pages[i].mtp = 0;
    }
}

static bool has_cells(const struct page *p)
{
    return p->kind == PAGE_CELLS || p->kind == PAGE_WINDOW;
}

void fake_memory_copy(struct fake_engine *e, const struct plan_copy *c)
{
    uint32_t bt = e->draw->block_tokens;
    uint32_t source = fake_copy_from(e, c), target = fake_copy_to(e, c);

    for (uint32_t i = 0; i < c->n; i++) {
        const struct page *from = &e->pages[source + i];
        struct page *to = &e->pages[target + i];

        if (c->kind != COPY_PAGES && from->kind == PAGE_POISON) {
            fake_engine_wrong(e, NULL, "swap of a poisoned page");
        }
        to->request = from->request;
        to->kind = from->kind;
        to->part = from->part;
        to->n = from->n;
        to->hash = from->hash;
        to->mtp = from->mtp;
        for (uint32_t k = 0; k < bt && has_cells(from); k++) {
            *fake_cell(e, target + i, k) = *fake_cell(e, source + i, k);
        }
    }
}

void fake_memory_write(struct fake_engine *e, uint32_t page, struct cell c,
                       uint32_t request)
{
    struct cell *to;

    e->pages[page].request = request;
    if (e->pages[page].kind != PAGE_CELLS) {
        e->pages[page].kind = PAGE_CELLS;
        e->pages[page].mtp = 0;
        empty_cells(e, page);
    }
    to = fake_cell(e, page, c.where >> 1);
    if (to->token != c.token || to->where != c.where) {
        e->pages[page].mtp &=
            ~((uint64_t)1 << (c.where >> 1) % e->draw->block_tokens);
    }
    *to = c;
}

/* A sequence of a failed step may read a fresh page that the step did not
 * write. */
static void check_poison(struct fake_engine *e, const struct plan_row *r,
                         uint32_t page)
{
    if (e->pages[page].kind == PAGE_POISON &&
        !fake_engine_track(e, r->sequence)->tainted) {
        fake_engine_wrong(e, r, "row reads a poisoned page");
    }
}

const struct cell *fake_memory_read(struct fake_engine *e,
                                    const struct plan_row *r, uint32_t page)
{
    check_poison(e, r, page);
    if (e->pages[page].kind != PAGE_CELLS) {
        empty_cells(e, page);
    }
    return fake_cell(e, page, 0);
}

void fake_memory_write_window(struct fake_engine *e, uint32_t page,
                              uint32_t table, struct cell c, uint32_t request)
{
    struct page *p = &e->pages[page];

    p->request = request;
    if (p->kind != PAGE_WINDOW || p->part != table) {
        p->kind = PAGE_WINDOW;
        p->part = table;
        empty_cells(e, page);
    }
    *fake_cell(e, page, c.where >> 1) = c;
}

const struct cell *fake_memory_read_window(struct fake_engine *e,
                                           const struct plan_row *r,
                                           uint32_t page, uint32_t table)
{
    struct page *p = &e->pages[page];

    check_poison(e, r, page);
    if (p->kind != PAGE_WINDOW || p->part != table) {
        empty_cells(e, page);
    }
    return fake_cell(e, page, 0);
}

void fake_memory_put_state(struct fake_engine *e, uint32_t slot,
                           struct slot_state s, uint32_t request)
{
    for (uint32_t i = 0; i < e->per_slot; i++) {
        struct page *p = &e->pages[slot + i];

        p->kind = PAGE_STATE;
        p->part = i;
        p->hash = s.hash;
        p->n = s.n;
        p->request = request;
    }
}

struct slot_state fake_memory_state(struct fake_engine *e,
                                    const struct plan_row *r, uint32_t slot)
{
    const struct page *first = &e->pages[slot];
    struct slot_state s = {first->hash, first->n, true};

    for (uint32_t i = 0; i < e->per_slot; i++) {
        const struct page *p = &e->pages[slot + i];

        check_poison(e, r, slot + i);
        s.whole = s.whole && p->kind == PAGE_STATE && p->part == i &&
                  p->hash == s.hash && p->n == s.n;
    }
    return s;
}

/* Returns whether the request goes on from the other one's memory, directly or
 * through others. */
static bool continues(const struct sim *s, uint32_t request, uint32_t other)
{
    const struct sim_request *q = &s->requests[request];

    while (q->continues && q->number != other) {
        q = &s->requests[q->from];
    }
    return q->number == other;
}

/* Returns whether a request that lets others reuse its prompt took over the
 * other one's memory: the prompt has all of its ids. */
static bool is_passed_on(const struct sim *s, uint32_t other)
{
    for (uint32_t i = other + 1; i < s->n_requests; i++) {
        if (!s->requests[i].no_cache && s->requests[i].continues &&
            continues(s, i, other)) {
            return true;
        }
    }
    return false;
}

void fake_memory_check_owner(struct fake_engine *e, const struct plan_row *r,
                             uint32_t page)
{
    const struct sim *s = e->sim;
    const struct tracked *t = fake_engine_track(e, r->sequence);
    uint32_t reader = t->request, writer = e->pages[page].request;

    /* A row behind a failed step may read what the step did not write; its
     * tokens reach nobody. */
    if (t->tainted || reader == NO_REQUEST || writer == NO_REQUEST ||
        reader == writer || continues(s, reader, writer)) {
        return;
    }
    if (s->requests[reader].tenant != s->requests[writer].tenant) {
        fake_engine_wrong(e, r, "row reads a page of another tenant");
    } else if (memcmp(s->requests[reader].id, s->requests[writer].id,
                      sizeof(s->requests[reader].id)) == 0) {
        return; /* the same id, sent again */
    } else if (s->requests[reader].no_cache || s->options.pools.no_reuse ||
               (s->requests[writer].no_cache && !is_passed_on(s, writer))) {
        sim_log(s, "page %u: request %u reads what request %u wrote", page,
                reader, writer);
        fake_engine_wrong(e, r, "row reads a page that is not to be reused");
    }
}

/* ---- plans that name pages ---- */

static void grow(struct flown *f)
{
    f->cap_named = f->cap_named ? f->cap_named * 2 : 64;
    f->named = realloc(f->named, f->cap_named * sizeof(*f->named));
    if (!f->named) {
        abort();
    }
}

void fake_memory_name(struct fake_engine *e, struct flown *f, uint32_t page,
                      uint64_t sequence)
{
    struct page *p = &e->pages[page];

    p->mixed = p->plans > 0 && (p->mixed || p->sequence != sequence);
    p->sequence = sequence;
    e->n_named += p->plans++ == 0;
    if (f->n_named == f->cap_named) {
        grow(f);
    }
    f->named[f->n_named++] = (struct named){page, p->epoch};
}

void fake_memory_moved(struct fake_engine *e, uint32_t page)
{
    struct page *p = &e->pages[page];

    e->n_named -= p->plans > 0;
    p->plans = 0;
    p->epoch++;
}

void fake_memory_let_go(struct fake_engine *e, struct flown *f)
{
    for (uint32_t i = 0; i < f->n_named; i++) {
        struct page *p = &e->pages[f->named[i].page];

        if (p->epoch == f->named[i].epoch) {
            e->n_named -= --p->plans == 0;
        }
    }
    f->n_named = 0;
}

bool fake_memory_is_others(const struct fake_engine *e, uint32_t page,
                           uint64_t sequence)
{
    const struct page *p = &e->pages[page];

    return !fake_engine_takes_hidden(e) && p->plans > 0 &&
           (p->mixed || p->sequence != sequence);
}
