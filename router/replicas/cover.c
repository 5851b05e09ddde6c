#include "router/replicas/cover.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#define NOWHERE UINT32_MAX

struct flow {
    const struct cover_piece *p; /* [n] */
    uint32_t n, n_layers;
    bool used[COVER_PIECES_MAX];
    uint32_t by[MODEL_LAYERS_MAX + 1];    /* the piece that led to a border */
    uint32_t queue[MODEL_LAYERS_MAX + 1]; /* of borders */
};

/* Where piece i leads from a border: on, or back, if a path has it, which
 * then goes another way.  NOWHERE: it does not touch the border. */
static uint32_t leads(const struct flow *f, uint32_t i, uint32_t border)
{
    if (f->used[i]) {
        return f->p[i].end == border ? f->p[i].begin : NOWHERE;
    }
    return f->p[i].begin == border ? f->p[i].end : NOWHERE;
}

/* Is there one path more?  Breadth first, so it has the fewest pieces. */
static bool reach(struct flow *f)
{
    uint32_t head = 0, tail = 0;

    for (uint32_t b = 0; b <= f->n_layers; b++) {
        f->by[b] = NOWHERE;
    }
    f->queue[tail++] = 0;
    while (head < tail && f->by[f->n_layers] == NOWHERE) {
        uint32_t at = f->queue[head++];

        for (uint32_t i = 0; i < f->n; i++) {
            uint32_t to = leads(f, i, at);

            if (to != NOWHERE && to != 0 && f->by[to] == NOWHERE) {
                f->by[to] = i;
                f->queue[tail++] = to;
            }
        }
    }
    return f->by[f->n_layers] != NOWHERE;
}

static void take(struct flow *f)
{
    uint32_t at = f->n_layers;

    while (at != 0) {
        uint32_t i = f->by[at];

        at = f->used[i] ? f->p[i].end : f->p[i].begin;
        f->used[i] = !f->used[i];
    }
}

/* The first of the used pieces that begins at a border. */
static uint32_t next_piece(const struct flow *f, uint32_t border)
{
    for (uint32_t i = 0; i < f->n; i++) {
        if (f->used[i] && f->p[i].begin == border) {
            return i;
        }
    }
    return NOWHERE;
}

/* One path out of the flow.  False: none is left. */
static bool follow(struct flow *f, struct cover_set *s)
{
    uint32_t at = 0, n = 0;

    while (at < f->n_layers) {
        uint32_t i = next_piece(f, at);

        if (i == NOWHERE) {
            return false;
        }
        f->used[i] = false;
        if (n < COVER_STAGES_MAX) {
            s->pieces[n] = i;
        }
        n++;
        at = f->p[i].end;
    }
    s->n = n;
    return true;
}

void cover_find(struct cover *out, const struct cover_piece *p, uint32_t n,
                uint32_t n_layers)
{
    struct flow f = {.p = p, .n = n, .n_layers = n_layers};
    struct cover_set s;

    assert(n <= COVER_PIECES_MAX && n_layers <= MODEL_LAYERS_MAX);
    out->n = 0;
    while (reach(&f)) {
        take(&f);
    }
    while (follow(&f, &s)) {
        if (s.n <= COVER_STAGES_MAX) {
            out->sets[out->n++] = s;
        }
    }
}

/* ---- chains ---- */

struct chains {
    const struct cover_piece *p;
    enum cover_wish wish;
    uint32_t order[COVER_PIECES_MAX];  /* of pieces, by begin */
    uint32_t cost[COVER_PIECES_MAX];   /* of the best chain that ends in i */
    uint32_t before[COVER_PIECES_MAX]; /* the piece before i in it */
};

/* There are fewer of the one than MUCH, whatever there is of the other. */
#define MUCH (MODEL_LAYERS_MAX + 1)

static uint32_t gap_cost(const struct chains *c, uint32_t begin, uint32_t end)
{
    return begin == end             ? 0
           : c->wish == FEWEST_GAPS ? MUCH + (end - begin)
                                    : MUCH * (end - begin) + 1;
}

static void sort_by_begin(struct chains *c, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i;

        for (; at > 0 && c->p[c->order[at - 1]].begin > c->p[i].begin; at--) {
            c->order[at] = c->order[at - 1];
        }
        c->order[at] = i;
    }
}

static void extend(struct chains *c, uint32_t i)
{
    c->cost[i] = gap_cost(c, 0, c->p[i].begin);
    c->before[i] = NOWHERE;
    for (uint32_t k = 0; c->order[k] != i; k++) {
        uint32_t j = c->order[k], cost;

        if (c->p[j].end > c->p[i].begin) {
            continue;
        }
        cost = c->cost[j] + gap_cost(c, c->p[j].end, c->p[i].begin);
        if (cost < c->cost[i]) {
            c->cost[i] = cost;
            c->before[i] = j;
        }
    }
}

static void add_gap(struct cover_chain *out, uint32_t begin, uint32_t end)
{
    if (begin < end) {
        if (out->n_gaps < COVER_STAGES_MAX) {
            out->gaps[out->n_gaps] = (struct cover_piece){begin, end};
        }
        out->n_gaps++;
    }
}

/* From the last piece of a chain to its first, then forward again. */
static void read_chain(struct cover_chain *out, const struct chains *c,
                       uint32_t last, uint32_t n_layers)
{
    uint32_t path[COVER_PIECES_MAX], n = 0, at = 0;

    for (uint32_t i = last; i != NOWHERE; i = c->before[i]) {
        path[n++] = i;
    }
    *out = (struct cover_chain){.n_pieces = n};
    while (n > 0) {
        const struct cover_piece *p = &c->p[path[--n]];

        add_gap(out, at, p->begin);
        at = p->end;
    }
    add_gap(out, at, n_layers);
}

void cover_chain_find(struct cover_chain *out, const struct cover_piece *p,
                      uint32_t n, uint32_t n_layers, enum cover_wish wish)
{
    struct chains c = {.p = p, .wish = wish};
    uint32_t best = NOWHERE, least = UINT32_MAX;

    assert(n > 0 && n <= COVER_PIECES_MAX && n_layers <= MODEL_LAYERS_MAX);
    sort_by_begin(&c, n);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = c.order[k], cost;

        extend(&c, i);
        cost = c.cost[i] + gap_cost(&c, p[i].end, n_layers);
        if (cost < least) {
            least = cost;
            best = i;
        }
    }
    read_chain(out, &c, best, n_layers);
}
