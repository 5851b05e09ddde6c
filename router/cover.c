#include "router/cover.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#define NOWHERE UINT32_MAX

struct flow {
    const struct cover_piece *p; /* [n] */
    uint32_t n, n_layers;
    bool used[COVER_PIECES_MAX];
    uint32_t by[SHARD_LAYERS_MAX + 1];    /* the piece that led to a border */
    uint32_t queue[SHARD_LAYERS_MAX + 1]; /* of borders */
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

    assert(n <= COVER_PIECES_MAX && n_layers <= SHARD_LAYERS_MAX);
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
