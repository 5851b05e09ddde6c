#include "router/replicas/deal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "router/replicas/deal_every.h"

/* Too much for a stack. */
struct search {
    const struct deal_task *task;
    struct cover_piece pieces[COVER_PIECES_MAX]; /* [n_pieces] left over */
    uint32_t n_pieces;
    struct split_model model; /* of the layers that are looked at */
    struct split_table table;
    struct split split;
};

/* Without those that make whole sets. */
static void leave_sets(struct search *s)
{
    const struct deal_task *t = s->task;
    bool used[COVER_PIECES_MAX] = {false};
    struct cover c;

    cover_find(&c, t->pieces, t->n_pieces, t->n_layers);
    for (uint32_t i = 0; i < c.n; i++) {
        for (uint32_t k = 0; k < c.sets[i].n; k++) {
            used[c.sets[i].pieces[k]] = true;
        }
    }
    for (uint32_t i = 0; i < t->n_pieces; i++) {
        if (!used[i]) {
            s->pieces[s->n_pieces++] = t->pieces[i];
        }
    }
}

/* Layers of p as a model of their own. */
static void take_part(struct search *s, struct cover_piece p)
{
    const struct deal_task *t = s->task;
    struct split_model *m = &s->model;

    *m = (struct split_model){.n_layers = p.end - p.begin};
    memcpy(m->layers, t->layers + p.begin, m->n_layers * sizeof m->layers[0]);
    m->embed_bytes = p.begin == 0 ? t->embed_bytes : 0;
    m->head_bytes = p.end == t->n_layers ? t->head_bytes : 0;
}

static bool is_dealt(const struct deal *d, uint32_t worker)
{
    for (uint32_t i = 0; i < d->n; i++) {
        if (d->workers[i] == worker) {
            return true;
        }
    }
    return false;
}

/* The workers that have got nothing yet, in who by number. */
static uint32_t hands(const struct search *s, const struct deal *d,
                      uint32_t who[STAGES_MAX],
                      struct split_worker as[STAGES_MAX])
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->task->n_workers; i++) {
        if (!is_dealt(d, i)) {
            who[n] = i;
            as[n++] = s->task->workers[i];
        }
    }
    return n;
}

static enum status deal_out(struct deal *d, struct search *s,
                            struct cover_piece p, uint32_t n_stages,
                            struct error *e)
{
    const struct deal_task *k = s->task;
    struct split_worker as[STAGES_MAX];
    uint32_t who[STAGES_MAX], n = hands(s, d, who, as);
    struct split_terms t = {.n_stages = n_stages,
                            .block_tokens = k->block_tokens,
                            .context = k->context,
                            .max_rows = k->max_rows,
                            .length = k->context,
                            .in_order = k->n_layers > OFFER_ORDER_LAYERS};
    enum status st;

    take_part(s, p);
    st = split_find(&s->split, &s->table, &s->model, as, n, &t, e);
    if (st != ST_OK) {
        return st;
    }
    for (uint32_t i = 0; i < s->split.n_stages; i++) {
        const struct split_stage *request = &s->split.stages[i];

        d->workers[d->n] = who[request->worker];
        d->given[d->n++] = (struct cover_piece){p.begin + request->begin,
                                                p.begin + request->end};
    }
    return ST_OK;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* What the layers take, wherever they are cut: with one sequence of the whole
 * context, and without scratch. */
static uint64_t bytes_of(const struct search *s)
{
    const struct split_model *m = &s->model;
    struct pool_split_need pool = {.block_tokens = s->task->block_tokens,
                                   .context = s->task->context,
                                   .max_rows = s->task->max_rows};
    uint64_t bytes = m->embed_bytes + m->head_bytes;

    for (uint32_t i = 0; i < m->n_layers; i++) {
        bytes += m->layers[i].weight_bytes;
        pool.slot_bytes += m->layers[i].slot_bytes;
        pool.block_bytes += m->layers[i].token_bytes * pool.block_tokens;
    }
    return bytes + pool_split_sequence(&pool, pool.context);
}

static int most_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x < y) - (x > y);
}

/* Fewer of the free ones cannot hold so much, however it is divided; one more
 * than there are: nor can all.  So the search, which takes longer, is asked
 * only what may be. */
static uint32_t fewest_for(const struct search *s, const struct deal *d,
                           uint64_t bytes)
{
    struct split_worker as[STAGES_MAX];
    uint32_t who[STAGES_MAX], n = hands(s, d, who, as), k = 0;
    uint64_t room[STAGES_MAX], sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t budget = as[i].budget_bytes, scratch = as[i].scratch_bytes;

        room[i] = budget > scratch ? budget - scratch : 0;
    }
    qsort(room, n, sizeof room[0], most_first);
    while (k < n && sum < bytes) {
        sum += room[k++];
    }
    return sum < bytes ? n + 1 : k;
}

/* By as few as can hold it.  NOT_FOUND: nobody is left to try with. */
static enum status fill_gap(struct deal *d, struct search *s,
                            struct cover_piece gap, uint32_t n_most,
                            struct error *e)
{
    uint32_t n_left = s->task->n_workers - d->n, n;
    enum status st;

    take_part(s, gap);
    n = fewest_for(s, d, bytes_of(s));
    st = n_left == 0 ? error_set(e, ST_NOT_FOUND, "no worker is left")
                     : error_set(e, ST_RESOURCE_EXHAUSTED,
                                 "layers %" PRIu32 "-%" PRIu32
                                 " are more than %" PRIu32 " workers can hold",
                                 gap.begin, gap.end, n_left);
    n_most = least(n_most, least(n_left, gap.end - gap.begin));
    for (; st != ST_OK && n <= n_most; n++) {
        st = deal_out(d, s, gap, n, e);
    }
    return st;
}

/* Who can hold the one that takes most can hold the others as well: filled
 * first, it finds him free. */
static void hardest_first(struct search *s, struct cover_chain *c)
{
    uint64_t bytes[COVER_STAGES_MAX];

    for (uint32_t i = 0; i < c->n_gaps; i++) {
        struct cover_piece gap = c->gaps[i];
        uint32_t at = i;
        uint64_t b;

        take_part(s, gap);
        b = bytes_of(s);
        for (; at > 0 && bytes[at - 1] < b; at--) {
            bytes[at] = bytes[at - 1];
            c->gaps[at] = c->gaps[at - 1];
        }
        bytes[at] = b;
        c->gaps[at] = gap;
    }
}

/* Every gap of a chain, or none. */
static enum status fill_chain(struct deal *d, struct search *s,
                              struct cover_chain *c, struct error *e)
{
    enum status st = ST_OK;

    d->n = 0;
    if (c->n_pieces + c->n_gaps > STAGES_MAX) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "a replica has %d stages at most", STAGES_MAX);
    }
    hardest_first(s, c);
    for (uint32_t i = 0; st == ST_OK && i < c->n_gaps; i++) {
        uint32_t later = c->n_gaps - i - 1;

        st = fill_gap(d, s, c->gaps[i], STAGES_MAX - c->n_pieces - later - d->n,
                      e);
    }
    return st;
}

/* By as few offers as can be. */
static enum status fill_gaps(struct deal *d, struct search *s, struct error *e)
{
    uint32_t n_layers = s->task->n_layers;
    struct cover_chain small, few;
    struct deal other;
    struct error why;
    enum status st;

    cover_chain_find(&small, s->pieces, s->n_pieces, n_layers, FEWEST_LAYERS);
    cover_chain_find(&few, s->pieces, s->n_pieces, n_layers, FEWEST_GAPS);
    st = fill_chain(d, s, &small, e);
    if (few.n_gaps < small.n_gaps &&
        fill_chain(&other, s, &few, &why) == ST_OK &&
        (st != ST_OK || other.n < d->n)) {
        *d = other;
        st = ST_OK;
    }
    if (st != ST_OK) {
        d->n = 0;
    }
    return st;
}

static enum status find(struct deal *d, struct search *s, struct error *e)
{
    const struct deal_task *t = s->task;
    enum status st = error_set(e, ST_NOT_FOUND, "no worker is left");

    leave_sets(s);
    if (s->n_pieces > 0 && t->no_gaps) {
        return st;
    }
    if (s->n_pieces > 0) {
        st = fill_gaps(d, s, e);
        if (st != ST_OK && deal_every(d, t, s->pieces, s->n_pieces)) {
            return ST_OK;
        }
    }
    if (st != ST_OK && t->n_workers >= t->n_stages) {
        st = deal_out(d, s, (struct cover_piece){0, t->n_layers}, t->n_stages,
                      e);
    }
    return st;
}

enum status deal_find(struct deal *out, const struct deal_task *t,
                      struct error *e)
{
    struct search *s = malloc(sizeof *s);
    enum status st;

    assert(s != NULL && t->n_workers <= STAGES_MAX);
    s->task = t;
    s->n_pieces = 0;
    out->n = 0;
    st = find(out, s, e);
    free(s);
    return st;
}
