#include "router/replicas/deal_every.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define SETS     (1u << DEAL_EVERY_WORKERS) /* of workers */
#define WITH     SETS                       /* ... and a shard at least */
#define STATES   (2 * SETS)
#define NOWHERE  UINT16_MAX
#define NO_STATE UINT32_MAX

/* The step that led to a state first. */
struct step {
    uint16_t state, border; /* NOWHERE: none did */
};

struct every {
    const struct deal_task *t;
    const struct cover_piece *pieces; /* [n_pieces] */
    uint32_t n_pieces, n_workers;
    struct split_layer
        before[DEAL_EVERY_LAYERS + 1]; /* sums of layers [0, i) */
    struct step steps[STATES][DEAL_EVERY_LAYERS + 1];
};

static bool is_reached(const struct every *v, uint32_t state, uint32_t border)
{
    return v->steps[state][border].border != NOWHERE;
}

static void reach(struct every *v, uint32_t state, uint32_t border,
                  uint32_t from_state, uint32_t from)
{
    if (!is_reached(v, state, border)) {
        v->steps[state][border] =
            (struct step){(uint16_t)from_state, (uint16_t)from};
    }
}

/* As common/split/layer_split.h has it: weights, scratch, one sequence of the
 * whole context. */
static bool fits(const struct every *v, uint32_t worker, uint32_t begin,
                 uint32_t end)
{
    const struct deal_task *t = v->t;
    const struct split_worker *w = &t->workers[worker];
    const struct split_layer *a = &v->before[begin], *b = &v->before[end];
    struct pool_split_need pool = {
        .block_tokens = t->block_tokens,
        .context = t->context,
        .max_rows = t->max_rows,
        .block_bytes = (b->token_bytes - a->token_bytes) * t->block_tokens,
        .slot_bytes = b->slot_bytes - a->slot_bytes};

    return w->scratch_bytes + (b->weight_bytes - a->weight_bytes) +
               (begin == 0 ? t->embed_bytes : 0) +
               (end == t->n_layers ? t->head_bytes : 0) +
               pool_split_sequence(&pool, pool.context) <=
           w->budget_bytes;
}

static void go_on(struct every *v, uint32_t state, uint32_t at)
{
    uint32_t n_layers = v->t->n_layers;

    for (uint32_t i = 0; i < v->n_pieces; i++) {
        if (v->pieces[i].begin == at) {
            reach(v, state | WITH, v->pieces[i].end, state, at);
        }
    }
    for (uint32_t w = 0; w < v->n_workers; w++) {
        uint32_t with = state | 1u << w, to = at + 1;

        if (with == state) {
            continue;
        }
        for (; to < n_layers && fits(v, w, at, to); to++) {
            reach(v, with, to, state, at);
        }
        if (fits(v, w, at, n_layers)) {
            reach(v, with, n_layers, state, at);
        }
    }
}

static void search(struct every *v)
{
    memset(v->steps, 0xff, sizeof v->steps);
    v->steps[0][0] = (struct step){0, 0};
    for (uint32_t at = 0; at < v->t->n_layers; at++) {
        for (uint32_t state = 0; state < STATES; state++) {
            if (is_reached(v, state, at)) {
                go_on(v, state, at);
            }
        }
    }
}

static uint32_t n_in(uint32_t set)
{
    uint32_t n = 0;

    for (; set != 0; set &= set - 1) {
        n++;
    }
    return n;
}

/* With a shard, and as few workers as can be, but one. */
static uint32_t best_end(const struct every *v)
{
    uint32_t best = NO_STATE;

    for (uint32_t state = WITH + 1; state < STATES; state++) {
        if (is_reached(v, state, v->t->n_layers) &&
            (best == NO_STATE || n_in(state) < n_in(best))) {
            best = state;
        }
    }
    return best;
}

/* Which worker is in a set that was not in the one before?  NO_STATE: none,
 * it was a shard's step. */
static uint32_t newcomer(uint32_t state, uint32_t before)
{
    for (uint32_t w = 0; w < DEAL_EVERY_WORKERS; w++) {
        if ((state & ~before) >> w & 1) {
            return w;
        }
    }
    return NO_STATE;
}

/* From the last layer to the first.  False: it has too many stages. */
static bool read_back(struct deal *out, const struct every *v, uint32_t state)
{
    uint32_t border = v->t->n_layers, n_stages = 0;

    out->n = 0;
    while (border > 0) {
        const struct step *s = &v->steps[state][border];
        uint32_t w = newcomer(state, s->state);

        if (++n_stages > STAGES_MAX) {
            out->n = 0;
            return false;
        }
        if (w != NO_STATE) {
            out->workers[out->n] = w;
            out->given[out->n++] = (struct cover_piece){s->border, border};
        }
        border = s->border;
        state = s->state;
    }
    return true;
}

static void sum_layers(struct every *v)
{
    v->before[0] = (struct split_layer){0};
    for (uint32_t i = 0; i < v->t->n_layers; i++) {
        const struct split_layer *l = &v->t->layers[i], *b = &v->before[i];

        v->before[i + 1] = (struct split_layer){
            b->weight_bytes + l->weight_bytes, b->token_bytes + l->token_bytes,
            b->slot_bytes + l->slot_bytes};
    }
}

bool deal_every(struct deal *out, const struct deal_task *t,
                const struct cover_piece *pieces, uint32_t n)
{
    struct every *v;
    uint32_t end;
    bool found;

    out->n = 0;
    if (n == 0 || t->n_workers == 0 || t->n_layers > DEAL_EVERY_LAYERS) {
        return false;
    }
    v = malloc(sizeof *v);
    assert(v != NULL);
    v->t = t;
    v->pieces = pieces;
    v->n_pieces = n;
    v->n_workers =
        t->n_workers < DEAL_EVERY_WORKERS ? t->n_workers : DEAL_EVERY_WORKERS;
    sum_layers(v);
    search(v);
    end = best_end(v);
    found = end != NO_STATE && read_back(out, v, end);
    free(v);
    return found;
}
