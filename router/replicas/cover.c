#include "router/replicas/cover.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#define NONE UINT32_MAX

/* A maximum flow over borders, the boundaries between layers. */
struct flow {
    const struct cover_piece *p; /* [n] */
    uint32_t n, n_layers;
    bool used[COVER_PIECES_MAX];          /* the piece carries flow */
    uint32_t by[MODEL_LAYERS_MAX + 1];    /* the piece that led to a border */
    uint32_t queue[MODEL_LAYERS_MAX + 1]; /* borders yet to be visited */
};

/* Returns the other end of piece i as an edge of the residual graph.  A piece
 * that carries flow leads backwards: its path is then rerouted.  Returns NONE
 * if the edge does not start at this border. */
static uint32_t edge_end(const struct flow *f, uint32_t i, uint32_t border)
{
    if (f->used[i]) {
        return f->p[i].end == border ? f->p[i].begin : NONE;
    }
    return f->p[i].begin == border ? f->p[i].end : NONE;
}

/* Finds one more path, breadth first, so that the sets have few stages. Returns
 * false if the flow is at its maximum. */
static bool find_path(struct flow *f)
{
    uint32_t head = 0, tail = 0;

    for (uint32_t b = 0; b <= f->n_layers; b++) {
        f->by[b] = NONE;
    }
    f->queue[tail++] = 0;
    while (head < tail && f->by[f->n_layers] == NONE) {
        uint32_t at = f->queue[head++];

        for (uint32_t i = 0; i < f->n; i++) {
            uint32_t to = edge_end(f, i, at);

            if (to != NONE && to != 0 && f->by[to] == NONE) {
                f->by[to] = i;
                f->queue[tail++] = to;
            }
        }
    }
    return f->by[f->n_layers] != NONE;
}

/* Walks the path back from the last border and flips each piece on it. */
static void augment(struct flow *f)
{
    uint32_t at = f->n_layers;

    while (at != 0) {
        uint32_t i = f->by[at];

        at = f->used[i] ? f->p[i].end : f->p[i].begin;
        f->used[i] = !f->used[i];
    }
}

/* Flow is conserved at each border, so any used piece continues a path; the
 * first one keeps the result independent of the search order. */
static uint32_t next_piece(const struct flow *f, uint32_t border)
{
    for (uint32_t i = 0; i < f->n; i++) {
        if (f->used[i] && f->p[i].begin == border) {
            return i;
        }
    }
    return NONE;
}

/* Moves one path from the flow to *s; s->n counts all its pieces, also those
 * that do not fit in the set.  Returns false if no path is left. */
static bool take_set(struct flow *f, struct cover_set *s)
{
    uint32_t at = 0, n = 0;

    while (at < f->n_layers) {
        uint32_t i = next_piece(f, at);

        if (i == NONE) {
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
    while (find_path(&f)) {
        augment(&f);
    }
    while (take_set(&f, &s)) {
        if (s.n <= COVER_STAGES_MAX) {
            out->sets[out->n++] = s;
        }
    }
}

/* ---- chains ---- */

/* The best chain by dynamic programming over the pieces sorted by begin. */
struct chains {
    const struct cover_piece *p;
    enum cover_goal goal;
    uint32_t order[COVER_PIECES_MAX];  /* pieces sorted by begin */
    uint32_t cost[COVER_PIECES_MAX];   /* cost of the best chain ending in i */
    uint32_t before[COVER_PIECES_MAX]; /* the piece before i in that chain */
};

/* Weight of the first criterion.  A chain has fewer gaps, and fewer layers in
 * gaps, than this, so the second criterion never outweighs the first. */
#define MAJOR (MODEL_LAYERS_MAX + 1)

static uint32_t gap_cost(const struct chains *c, uint32_t begin, uint32_t end)
{
    return begin == end             ? 0
           : c->goal == FEWEST_GAPS ? MAJOR + (end - begin)
                                    : MAJOR * (end - begin) + 1;
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

/* Only pieces before i in the order can end where i begins, or earlier.  A
 * chain may skip pieces, but its pieces never overlap. */
static void extend(struct chains *c, uint32_t i)
{
    c->cost[i] = gap_cost(c, 0, c->p[i].begin);
    c->before[i] = NONE;
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

/* `before` leads from the last piece to the first; the gaps are wanted in order
 * of layers, so the path is collected first. */
static void read_chain(struct cover_chain *out, const struct chains *c,
                       uint32_t last, uint32_t n_layers)
{
    uint32_t path[COVER_PIECES_MAX], n = 0, at = 0;

    for (uint32_t i = last; i != NONE; i = c->before[i]) {
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
                      uint32_t n, uint32_t n_layers, enum cover_goal goal)
{
    struct chains c = {.p = p, .goal = goal};
    uint32_t best = NONE, best_cost = UINT32_MAX;

    assert(n > 0 && n <= COVER_PIECES_MAX && n_layers <= MODEL_LAYERS_MAX);
    sort_by_begin(&c, n);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = c.order[k], cost;

        extend(&c, i);
        cost = c.cost[i] + gap_cost(&c, p[i].end, n_layers);
        if (cost < best_cost) {
            best_cost = cost;
            best = i;
        }
    }
    read_chain(out, &c, best, n_layers);
}
