#include "router/replicas/deal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/minmax.h"
#include "router/replicas/deal_every.h"

/* One call of deal_find(), on the heap because the split's table is large. */
struct search {
    const struct deal_task *task;
    struct cover_piece pieces[COVER_PIECES_MAX]; /* [n_pieces] left over */
    uint32_t n_pieces;
    struct split_model model; /* the layers being divided */
    struct split_table table;
    struct split split;
};

/* Shards in whole sets form replicas without any deal (replica.h). */
static void drop_whole_sets(struct search *s)
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

/* Sets s->model to the layers of p as a model of their own.  Embedding and head
 * belong to the stages with the first and the last layer. */
static void set_model(struct search *s, struct cover_piece p)
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

/* Lists the workers that have no layers in this deal yet, with their indices in
 * ids. */
static uint32_t list_free(const struct search *s, const struct deal *d,
                          uint32_t ids[STAGES_MAX],
                          struct split_worker workers[STAGES_MAX])
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->task->n_workers; i++) {
        if (!is_dealt(d, i)) {
            ids[n] = i;
            workers[n++] = s->task->workers[i];
        }
    }
    return n;
}

/* Divides the layers of p among exactly n_stages free workers and appends the
 * result to the deal. */
static enum status deal_part(struct deal *d, struct search *s,
                             struct cover_piece p, uint32_t n_stages,
                             struct error *e)
{
    const struct deal_task *k = s->task;
    struct split_worker workers[STAGES_MAX];
    uint32_t ids[STAGES_MAX], n = list_free(s, d, ids, workers);
    struct split_terms t = {.n_stages = n_stages,
                            .block_tokens = k->block_tokens,
                            .context = k->context,
                            .max_rows = k->max_rows,
                            .length = k->context,
                            .window_tokens = k->window_tokens,
                            .chunk_tokens = k->chunk_tokens,
                            .in_order = k->n_layers > OFFER_ORDER_LAYERS};
    enum status st;

    set_model(s, p);
    st = split_find(&s->split, &s->table, &s->model, workers, n, &t, e);
    if (st != ST_OK) {
        return st;
    }
    for (uint32_t i = 0; i < s->split.n_stages; i++) {
        const struct split_stage *stage = &s->split.stages[i];

        d->workers[d->n] = ids[stage->worker];
        d->given[d->n++] =
            (struct cover_piece){p.begin + stage->begin, p.begin + stage->end};
    }
    return ST_OK;
}

/* Returns a lower bound of the bytes that the layers need however they are cut:
 * weights and one sequence of the whole context, without scratch. */
static uint64_t bytes_of(const struct search *s)
{
    const struct split_model *m = &s->model;
    const struct deal_task *t = s->task;
    const struct split_terms terms = {.block_tokens = t->block_tokens,
                                      .context = t->context,
                                      .window_tokens = t->window_tokens,
                                      .chunk_tokens = t->chunk_tokens};
    struct page_parts parts = {
        .window_bytes = split_window(m->layers, m->n_layers, t->block_tokens)};
    uint64_t bytes = m->embed_bytes + m->head_bytes;

    for (uint32_t i = 0; i < m->n_layers; i++) {
        bytes += m->layers[i].weight_bytes;
        parts.block_bytes += m->layers[i].token_bytes * terms.block_tokens;
        parts.slot_bytes += m->layers[i].slot_bytes;
        parts.n_window += m->layers[i].window_bytes > 0;
    }
    return bytes + split_least(&terms, &parts);
}

static int compare_descending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x < y) - (x > y);
}

/* Returns how many free workers have the bytes in sum, largest budgets first.
 * Fewer cannot hold the layers however they are divided, so the expensive
 * search of layer_split.h starts from there.  Returns one more than there are
 * workers if all together cannot. */
static uint32_t fewest_workers(const struct search *s, const struct deal *d,
                               uint64_t bytes)
{
    struct split_worker workers[STAGES_MAX];
    uint32_t ids[STAGES_MAX], n = list_free(s, d, ids, workers), k = 0;
    uint64_t room[STAGES_MAX], sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t budget = workers[i].budget_bytes;
        uint64_t scratch = workers[i].scratch_bytes;

        room[i] = budget > scratch ? budget - scratch : 0;
    }
    qsort(room, n, sizeof room[0], compare_descending);
    while (k < n && sum < bytes) {
        sum += room[k++];
    }
    return sum < bytes ? n + 1 : k;
}

/* Gives a gap to as few free workers as can hold it, n_most at most.  The
 * error set first stays if no number of workers is worth a search. */
static enum status fill_gap(struct deal *d, struct search *s,
                            struct cover_piece gap, uint32_t n_most,
                            struct error *e)
{
    uint32_t n_left = s->task->n_workers - d->n, n;
    enum status st;

    set_model(s, gap);
    n = fewest_workers(s, d, bytes_of(s));
    st = n_left == 0 ? error_set(e, ST_NOT_FOUND, "no worker is free")
                     : error_set(e, ST_RESOURCE_EXHAUSTED,
                                 "layers %" PRIu32 "-%" PRIu32
                                 " do not fit in the memory of %" PRIu32
                                 " free workers; add memory or workers, or "
                                 "lower the context",
                                 gap.begin, gap.end, n_left);
    n_most = min_u32(n_most, min_u32(n_left, gap.end - gap.begin));
    for (; st != ST_OK && n <= n_most; n++) {
        st = deal_part(d, s, gap, n, e);
    }
    return st;
}

/* Sorts the gaps by the bytes they need, most first.  Otherwise a small gap
 * could take the only worker that can hold a large one. */
static void sort_hardest_first(struct search *s, struct cover_chain *c)
{
    uint64_t bytes[COVER_STAGES_MAX];

    for (uint32_t i = 0; i < c->n_gaps; i++) {
        struct cover_piece gap = c->gaps[i];
        uint32_t at = i;
        uint64_t b;

        set_model(s, gap);
        b = bytes_of(s);
        for (; at > 0 && bytes[at - 1] < b; at--) {
            bytes[at] = bytes[at - 1];
            c->gaps[at] = c->gaps[at - 1];
        }
        bytes[at] = b;
        c->gaps[at] = gap;
    }
}

/* Fills all gaps of a chain, or returns an error. */
static enum status fill_chain(struct deal *d, struct search *s,
                              struct cover_chain *c, struct error *e)
{
    enum status st = ST_OK;

    d->n = 0;
    if (c->n_pieces + c->n_gaps > STAGES_MAX) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "the replica would have %" PRIu32
                         " stages, but at most %d are possible",
                         c->n_pieces + c->n_gaps, STAGES_MAX);
    }
    sort_hardest_first(s, c);
    for (uint32_t i = 0; st == ST_OK && i < c->n_gaps; i++) {
        /* Each later gap needs one stage at least. */
        uint32_t later = c->n_gaps - i - 1;

        st = fill_gap(d, s, c->gaps[i], STAGES_MAX - c->n_pieces - later - d->n,
                      e);
    }
    return st;
}

/* The chain with the fewest missing layers is preferred, because more layers
 * are then used as they are.  The one with fewer gaps wins only if it needs
 * fewer workers, or if the first cannot be filled. */
static enum status fill_gaps(struct deal *d, struct search *s, struct error *e)
{
    uint32_t n_layers = s->task->n_layers;
    struct cover_chain by_layers, by_gaps;
    struct deal other;
    struct error e_gaps;
    enum status st;

    cover_chain_find(&by_layers, s->pieces, s->n_pieces, n_layers,
                     FEWEST_LAYERS);
    cover_chain_find(&by_gaps, s->pieces, s->n_pieces, n_layers, FEWEST_GAPS);
    st = fill_chain(d, s, &by_layers, e);
    if (by_gaps.n_gaps < by_layers.n_gaps &&
        fill_chain(&other, s, &by_gaps, &e_gaps) == ST_OK &&
        (st != ST_OK || other.n < d->n)) {
        *d = other;
        st = ST_OK;
    }
    if (st != ST_OK) {
        d->n = 0;
    }
    return st;
}

static enum status find_deal(struct deal *d, struct search *s, struct error *e)
{
    const struct deal_task *t = s->task;
    enum status st = error_set(e, ST_NOT_FOUND, "no worker is free");

    drop_whole_sets(s);
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
        st = deal_part(d, s, (struct cover_piece){0, t->n_layers}, t->n_stages,
                       e);
    }
    return st;
}

enum status deal_find(struct deal *out, const struct deal_task *t,
                      struct error *e)
{
    struct search *s = malloc(sizeof *s);
    enum status st;

    assert(t->n_workers <= STAGES_MAX);
    out->n = 0;
    if (s == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    s->task = t;
    s->n_pieces = 0;
    out->n = 0;
    st = find_deal(out, s, e);
    free(s);
    return st;
}
