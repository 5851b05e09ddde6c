#include "router/replicas/deal_every.h"

#include <stdlib.h>
#include <string.h>

#include "common/split/page_unit.h"

#define WORKER_SETS (1u << DEAL_EVERY_WORKERS) /* bits of a state */
#define SHARD_USED  WORKER_SETS /* bit: at least one shard is used */
#define STATES      (2 * WORKER_SETS)
#define NOWHERE     UINT16_MAX
#define NO_STATE    UINT32_MAX

/* The state and border from which a (state, border) was reached first.  Border
 * NOWHERE: not reached. */
struct step {
    uint16_t state, border;
};

/* Bytes of some layers: weights, a block, a slot; and the window layers. */
struct sums {
    uint64_t weights, blocks, slots;
    uint32_t n_window;
};

/* One call of deal_every(). */
struct every {
    const struct deal_task *t;
    const struct cover_piece *pieces; /* [n_pieces] */
    uint32_t n_pieces, n_workers;
    uint64_t window; /* bytes of a window block in one layer */
    struct sums before[DEAL_EVERY_LAYERS + 1]; /* over layers [0, i) */
    struct step steps[STATES][DEAL_EVERY_LAYERS + 1];
};

static bool is_reached(const struct every *v, uint32_t state, uint32_t border)
{
    return v->steps[state][border].border != NOWHERE;
}

static void mark_reached(struct every *v, uint32_t state, uint32_t border,
                         uint32_t from_state, uint32_t from)
{
    if (!is_reached(v, state, border)) {
        v->steps[state][border] =
            (struct step){(uint16_t)from_state, (uint16_t)from};
    }
}

enum room {
    FITS,
    FITS_NOT, /* more layers may fit */
    TOO_MUCH  /* and so are more layers */
};

/* Returns whether a worker can hold the layers, by the rule of
 * common/split/layer_split.h: weights, scratch, and one sequence of the whole
 * context.  The sums make this O(1): it is called for each pair of borders. */
static enum room room_for(const struct every *v, uint32_t worker,
                          uint32_t begin, uint32_t end)
{
    const struct deal_task *t = v->t;
    const struct split_worker *w = &t->workers[worker];
    const struct sums *a = &v->before[begin], *b = &v->before[end];
    const struct split_terms terms = {.block_tokens = t->block_tokens,
                                      .context = t->context,
                                      .max_rows = t->max_rows,
                                      .window_tokens = t->window_tokens,
                                      .chunk_tokens = t->chunk_tokens};
    const struct page_parts parts = {.block_bytes = b->blocks - a->blocks,
                                     .slot_bytes = b->slots - a->slots,
                                     .window_bytes = v->window,
                                     .n_window = b->n_window - a->n_window};
    struct pool_split_need need = split_need(&terms, &parts);
    uint64_t fixed = w->scratch_bytes + (b->weights - a->weights) +
                     (begin == 0 ? t->embed_bytes : 0) +
                     (end == t->n_layers ? t->head_bytes : 0);

    if (fixed + pool_split_least(&need) <= w->budget_bytes) {
        return FITS;
    }
    return fixed + split_least(&terms, &parts) > w->budget_bytes ? TOO_MUCH
                                                                 : FITS_NOT;
}

/* Follows all edges from a state at a border.  More layers need more bytes, so
 * the loop ends at the first border that is too much for a worker. */
static void extend(struct every *v, uint32_t state, uint32_t at)
{
    uint32_t n_layers = v->t->n_layers;

    for (uint32_t i = 0; i < v->n_pieces; i++) {
        if (v->pieces[i].begin == at) {
            mark_reached(v, state | SHARD_USED, v->pieces[i].end, state, at);
        }
    }
    for (uint32_t w = 0; w < v->n_workers; w++) {
        uint32_t with = state | 1u << w, to = at + 1;

        if (with == state) {
            continue;
        }
        for (enum room r = FITS; to < n_layers && r != TOO_MUCH; to++) {
            r = room_for(v, w, at, to);
            if (r == FITS) {
                mark_reached(v, with, to, state, at);
            }
        }
        if (room_for(v, w, at, n_layers) == FITS) {
            mark_reached(v, with, n_layers, state, at);
        }
    }
}

static void search(struct every *v)
{
    /* All edges lead to a later border, so one pass visits all states. */
    memset(v->steps, 0xff, sizeof v->steps); /* NOWHERE */
    v->steps[0][0] = (struct step){0, 0};
    for (uint32_t at = 0; at < v->t->n_layers; at++) {
        for (uint32_t state = 0; state < STATES; state++) {
            if (is_reached(v, state, at)) {
                extend(v, state, at);
            }
        }
    }
}

static uint32_t count_workers(uint32_t set)
{
    uint32_t n = 0;

    for (; set != 0; set &= set - 1) {
        n++;
    }
    return n;
}

/* Returns the state at the last layer with the fewest workers, at least one,
 * and with a shard.  Replicas of workers alone are step 4 of deal.h, which
 * balances them. */
static uint32_t best_end(const struct every *v)
{
    uint32_t best = NO_STATE;

    for (uint32_t state = SHARD_USED + 1; state < STATES; state++) {
        if (is_reached(v, state, v->t->n_layers) &&
            (best == NO_STATE || count_workers(state) < count_workers(best))) {
            best = state;
        }
    }
    return best;
}

/* Returns the worker that a step has added, or NO_STATE if it used a shard. */
static uint32_t added_worker(uint32_t state, uint32_t before)
{
    for (uint32_t w = 0; w < DEAL_EVERY_WORKERS; w++) {
        if ((state & ~before) >> w & 1) {
            return w;
        }
    }
    return NO_STATE;
}

/* Reads the stages from the last layer back to the first.  Returns false if
 * there are more than STAGES_MAX. */
static bool read_back(struct deal *out, const struct every *v, uint32_t state)
{
    uint32_t border = v->t->n_layers, n_stages = 0;

    out->n = 0;
    while (border > 0) {
        const struct step *s = &v->steps[state][border];
        uint32_t w = added_worker(state, s->state);

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
    v->window = split_window(v->t->layers, v->t->n_layers, v->t->block_tokens);
    v->before[0] = (struct sums){0};
    for (uint32_t i = 0; i < v->t->n_layers; i++) {
        const struct split_layer *l = &v->t->layers[i];
        const struct sums *b = &v->before[i];

        v->before[i + 1] = (struct sums){
            b->weights + l->weight_bytes,
            b->blocks + page_align(l->token_bytes * v->t->block_tokens),
            b->slots + page_align(l->slot_bytes),
            b->n_window + (l->window_bytes > 0)};
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
    if (v == NULL) {
        return false;
    }
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
