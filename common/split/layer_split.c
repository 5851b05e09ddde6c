#include "common/split/layer_split.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "common/base/quote.h"
#include "common/split/page_unit.h"

/* The quantity that a pass minimises, per stage and over all stages. */
enum goal {
    LEAST_LACKING, /* bytes past the budget; the maximum */
    FASTEST,       /* time; the maximum */
    WIDEST,        /* sequences, negated; the maximum */
    EVENEST        /* squared time; the sum */
};

/* Workers of one kind are interchangeable and are taken in the order given. */
struct kind {
    uint32_t n, workers[STAGES_MAX];
    uint32_t stride; /* place value of the kind's digit in a state */
};

/* A state counts the workers taken of each kind, as a number with one digit
 * per kind.  Taking one more worker makes the number larger, so ascending
 * order visits every state after its predecessors. */
struct search {
    struct split_table *table;
    const struct split_model *model;
    const struct split_worker *workers;
    const struct split_terms *terms;
    uint32_t n_workers, n_stages, n_kinds, n_states;
    struct kind kinds[STAGES_MAX];
    enum goal goal;
    double slowest;  /* no stage may take longer */
    double lacking;  /* or lack more bytes, if every stage lacks some */
    uint64_t fewest; /* for EVENEST: nor hold fewer sequences */
    uint32_t end;    /* the final state of the best way */
    uint64_t window; /* aligned bytes of a window block in one layer */
};

enum verdict {
    FITS,
    FITS_NOT, /* a stage with more layers may fit */
    TOO_MUCH  /* and so is a stage with more layers */
};

static uint64_t step_bytes(const struct split_layer *l)
{
    return l->step_bytes > 0 ? l->step_bytes : l->weight_bytes;
}

/* Adds the MTP layer to the sums that include the last layer. */
static void add_mtp(struct split_table *t, const struct split_model *m,
                    uint32_t block_tokens)
{
    uint32_t n = m->n_layers;

    t->weights[n] += m->mtp.weight_bytes;
    t->read[n] += step_bytes(&m->mtp);
    t->tokens[n] += m->mtp.token_bytes;
    t->blocks[n] += page_align(m->mtp.token_bytes * block_tokens);
}

static void sum_up(struct split_table *t, const struct split_model *m,
                   uint32_t block_tokens)
{
    t->weights[0] = t->tokens[0] = t->blocks[0] = t->slots[0] = 0;
    t->read[0] = t->kept[0] = t->n_window[0] = 0;
    for (uint32_t i = 0; i < m->n_layers; i++) {
        t->weights[i + 1] = t->weights[i] + m->layers[i].weight_bytes;
        t->read[i + 1] = t->read[i] + step_bytes(&m->layers[i]);
        t->tokens[i + 1] = t->tokens[i] + m->layers[i].token_bytes;
        t->blocks[i + 1] =
            t->blocks[i] + page_align(m->layers[i].token_bytes * block_tokens);
        t->slots[i + 1] = t->slots[i] + page_align(m->layers[i].slot_bytes);
        t->kept[i + 1] = t->kept[i] + m->layers[i].kept_bytes;
        t->n_window[i + 1] = t->n_window[i] + (m->layers[i].window_bytes > 0);
    }
    add_mtp(t, m, block_tokens);
}

struct pool_split_need split_need(const struct split_terms *t,
                                  const struct page_parts *parts)
{
    struct page_unit unit = page_unit_make(parts);

    return (struct pool_split_need){.page_bytes = unit.page_bytes,
                                    .pages_per_slot = unit.pages_per_slot,
                                    .pages_per_block = unit.pages_per_block,
                                    .block_tokens = t->block_tokens,
                                    .context = t->context,
                                    .max_rows = t->max_rows,
                                    .slots = t->slots,
                                    .window_pages = (uint32_t)unit.window_pages,
                                    .window_tokens = t->window_tokens,
                                    .chunk_tokens = t->chunk_tokens};
}

uint64_t split_least(const struct split_terms *t,
                     const struct page_parts *parts)
{
    uint64_t blocks =
        ((uint64_t)t->context + t->block_tokens - 1) / t->block_tokens;
    uint64_t windows = page_window_blocks(t->window_tokens, t->chunk_tokens,
                                          t->block_tokens, t->context);

    return blocks * parts->block_bytes + parts->slot_bytes +
           windows * parts->window_bytes * parts->n_window;
}

uint64_t split_window(const struct split_layer *layers, uint32_t n_layers,
                      uint32_t block_tokens)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < n_layers; i++) {
        most = layers[i].window_bytes > most ? layers[i].window_bytes : most;
    }
    return page_align(most * block_tokens);
}

static struct page_parts parts_of(const struct search *s, uint32_t begin,
                                  uint32_t end)
{
    const struct split_table *t = s->table;

    return (struct page_parts){.block_bytes = t->blocks[end] - t->blocks[begin],
                               .slot_bytes = t->slots[end] - t->slots[begin],
                               .window_bytes = s->window,
                               .n_window =
                                   t->n_window[end] - t->n_window[begin]};
}

/* Computes everything of a stage but its pool and its share. */
static struct split_stage weigh(const struct search *s, uint32_t worker,
                                uint32_t begin, uint32_t end)
{
    const struct split_table *t = s->table;
    const struct split_model *m = s->model;
    uint64_t layers = t->weights[end] - t->weights[begin];
    bool first = begin == 0, last = end == m->n_layers;
    struct page_parts parts = parts_of(s, begin, end);
    struct split_stage g = {
        .worker = worker,
        .begin = begin,
        .end = end,
        .weight_bytes = layers + (first ? m->embed_bytes : 0) +
                        (last ? m->head_bytes : 0) -
                        (first && last ? m->shared_bytes : 0),
        .scratch_bytes =
            s->workers[worker].scratch_bytes + t->kept[end] - t->kept[begin] +
            (last ? m->head_scratch_bytes : m->hidden_scratch_bytes),
        .step_bytes =
            t->read[end] - t->read[begin] + (last ? m->head_bytes : 0),
        .token_bytes = t->tokens[end] - t->tokens[begin],
        .slot_bytes = parts.slot_bytes,
        .n_window = parts.n_window,
        .need = split_need(s->terms, &parts),
    };

    return g;
}

static double time_of(const struct search *s, const struct split_stage *g)
{
    return (double)g->step_bytes / s->workers[g->worker].speed;
}

/* Returns the bytes of a stage with the smallest pool. */
static uint64_t least_bytes(const struct split_stage *g)
{
    return g->weight_bytes + g->scratch_bytes + pool_split_least(&g->need);
}

static uint64_t past_budget(const struct search *s, const struct split_stage *g,
                            uint64_t bytes)
{
    uint64_t budget = s->workers[g->worker].budget_bytes;

    return bytes > budget ? bytes - budget : 0;
}

static uint64_t lacking(const struct search *s, const struct split_stage *g)
{
    return past_budget(s, g, least_bytes(g));
}

/* Returns the bytes that a stage lacks with these layers or more. */
static uint64_t surely_lacking(const struct search *s,
                               const struct split_stage *g)
{
    struct page_parts parts = parts_of(s, g->begin, g->end);

    return past_budget(s, g,
                       g->weight_bytes + g->scratch_bytes +
                           split_least(s->terms, &parts));
}

/* Called only for stages that fit, so the subtraction cannot underflow. */
static void fill_pool(const struct search *s, struct split_stage *g)
{
    uint64_t budget = s->workers[g->worker].budget_bytes;

    g->pool =
        pool_split_make(&g->need, budget - g->weight_bytes - g->scratch_bytes);
}

/* Computes a stage's part of the quantity that the pass minimises. */
static enum verdict judge(const struct search *s, struct split_stage *g,
                          double *value)
{
    double time = time_of(s, g);
    uint64_t sequences;

    if (s->goal == LEAST_LACKING) {
        *value = (double)lacking(s, g);
        return *value <= s->lacking                        ? FITS
               : (double)surely_lacking(s, g) > s->lacking ? TOO_MUCH
                                                           : FITS_NOT;
    }
    if (time > s->slowest || surely_lacking(s, g) > 0) {
        return TOO_MUCH;
    }
    if (lacking(s, g) > 0) {
        return FITS_NOT;
    }
    /* The pool is computed only in later passes, as it costs most of a
     * stage's time. */
    if (s->goal == FASTEST) {
        *value = time;
        return FITS;
    }
    fill_pool(s, g);
    sequences = split_stage_sequences(g, s->terms->length);
    *value = s->goal == WIDEST ? -(double)sequences : time * time;
    return s->goal == WIDEST || sequences >= s->fewest ? FITS : FITS_NOT;
}

static uint32_t taken(const struct kind *k, uint32_t state)
{
    return state / k->stride % (k->n + 1);
}

static uint32_t all_taken(const struct search *s, uint32_t state)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n_kinds; i++) {
        n += taken(&s->kinds[i], state);
    }
    return n;
}

/* Gives the next worker of a kind the layers from begin on, for every number
 * of layers that fits. */
static void give(struct search *s, uint32_t state, uint32_t begin,
                 uint32_t kind, uint32_t n_left)
{
    const struct kind *k = &s->kinds[kind];
    uint32_t worker = k->workers[taken(k, state)], n = s->model->n_layers;
    struct split_step *to = s->table->steps[state + k->stride];
    double before = s->table->steps[state][begin].value, value = 0;

    for (uint32_t end = n_left == 0 ? n : begin + 1; end <= n - n_left; end++) {
        struct split_stage g = weigh(s, worker, begin, end);
        enum verdict v = judge(s, &g, &value);

        /* A stage with more layers is larger and slower still. */
        if (v == TOO_MUCH) {
            return;
        }
        /* Even stages minimise a sum; the other goals minimise a maximum. */
        value = s->goal == EVENEST ? before + value : fmax(before, value);
        if (v == FITS && value < to[end].value) {
            to[end] = (struct split_step){
                .value = value, .from = (uint16_t)begin, .kind = (uint8_t)kind};
        }
    }
}

/* -INFINITY is the neutral element of the maximum, 0 of the sum. */
static void clear(struct search *s)
{
    for (uint32_t i = 0; i < s->n_states; i++) {
        for (uint32_t at = 0; at <= s->model->n_layers; at++) {
            s->table->steps[i][at].value = INFINITY;
        }
    }
    s->table->steps[0][0].value = s->goal == EVENEST ? 0 : -INFINITY;
}

/* Returns the minimum, INFINITY if no way exists. */
static double pass(struct search *s, enum goal goal)
{
    uint32_t n = s->model->n_layers;
    double best = INFINITY;

    s->goal = goal;
    clear(s);
    /* A state's successors have larger numbers, so one ascending pass is
     * enough. */
    for (uint32_t state = 0; state < s->n_states; state++) {
        const struct split_step *here = s->table->steps[state];
        uint32_t used = all_taken(s, state);

        if (used == s->n_stages && here[n].value < best) {
            best = here[n].value;
            s->end = state;
        }
        /* Every stage has a layer, so `used` stages end at layer `used` or
         * later. */
        for (uint32_t at = used; used < s->n_stages && at < n; at++) {
            for (uint32_t k = 0; here[at].value < INFINITY && k < s->n_kinds;
                 k++) {
                if (taken(&s->kinds[k], state) < s->kinds[k].n) {
                    give(s, state, at, k, s->n_stages - used - 1);
                }
            }
        }
    }
    return best;
}

/* Reads the way that the last pass found, from its end back to the start. */
static void read_back(const struct search *s, struct split *out)
{
    uint32_t state = s->end, end = s->model->n_layers;

    out->n_stages = s->n_stages;
    for (uint32_t i = s->n_stages; i-- > 0;) {
        const struct split_step *step = &s->table->steps[state][end];
        const struct kind *k = &s->kinds[step->kind];

        state -= k->stride;
        out->stages[i] = weigh(s, k->workers[taken(k, state)], step->from, end);
        end = step->from;
    }
}

/* Pools are computed once more: read_back() has only the boundaries. */
static void finish(const struct search *s, struct split *out)
{
    double all = 0;

    read_back(s, out);
    for (uint32_t i = 0; i < out->n_stages; i++) {
        fill_pool(s, &out->stages[i]);
        all += time_of(s, &out->stages[i]);
    }
    for (uint32_t i = 0; i < out->n_stages; i++) {
        out->stages[i].step_share = time_of(s, &out->stages[i]) / all;
    }
}

#define AMOUNT 32

static const char *amount(char out[AMOUNT], uint64_t bytes)
{
    bool gib = bytes >= 1u << 30;

    snprintf(out, AMOUNT, "%.2f %s", (double)bytes / (gib ? 1u << 30 : 1 << 20),
             gib ? "GiB" : "MiB");
    return out;
}

/* Searches for the split that lacks least, so that the message names what
 * would help. */
static enum status too_large(struct search *s, struct split *out,
                             struct error *e)
{
    const struct split_stage *worst = &out->stages[0];
    const struct split_worker *w;
    char need[AMOUNT], weights[AMOUNT], scratch[AMOUNT], one[AMOUNT],
        has[AMOUNT], others[64];

    (void)pass(s, LEAST_LACKING);
    read_back(s, out);
    for (uint32_t i = 1; i < out->n_stages; i++) {
        if (lacking(s, &out->stages[i]) > lacking(s, worst)) {
            worst = &out->stages[i];
        }
    }
    w = &s->workers[worst->worker];
    snprintf(others, sizeof others, "; no split over %u stages lacks less",
             s->n_stages);
    return error_set(
        e, ST_RESOURCE_EXHAUSTED,
        "layers %u-%u need %s (weights %s, scratch %s, one sequence of %u "
        "tokens %s), worker %s has %s: %" PRIu64 " bytes are missing%s",
        worst->begin, worst->end, amount(need, least_bytes(worst)),
        amount(weights, worst->weight_bytes),
        amount(scratch, worst->scratch_bytes), s->terms->context,
        amount(one, pool_split_least(&worst->need)), quote(w->name).text,
        amount(has, w->budget_bytes), lacking(s, worst),
        s->n_stages > 1 ? others : "");
}

/* Compared without ==, which a compiler may warn about for a double. */
static bool alike(const struct split_worker *a, const struct split_worker *b)
{
    return a->budget_bytes == b->budget_bytes &&
           a->scratch_bytes == b->scratch_bytes && !(a->speed < b->speed) &&
           !(a->speed > b->speed);
}

/* Assigns every worker to its kind, or all workers to one kind. */
static void sort_kinds(struct search *s, bool one)
{
    s->n_kinds = 0;
    for (uint32_t w = 0; w < s->n_workers; w++) {
        uint32_t k = 0;

        while (k < s->n_kinds && !one &&
               !alike(&s->workers[s->kinds[k].workers[0]], &s->workers[w])) {
            k++;
        }
        if (k == s->n_kinds) {
            s->kinds[s->n_kinds++].n = 0;
        }
        s->kinds[k].workers[s->kinds[k].n++] = w;
    }
    s->n_states = 1;
    for (uint32_t k = 0; k < s->n_kinds; k++) {
        s->kinds[k].stride = s->n_states;
        s->n_states *= s->kinds[k].n + 1;
    }
}

/* Computes a bound for the full search from the order given alone.  It costs
 * almost nothing, and the full search can then skip most worse ways. */
static double quickly(struct search *s, enum goal goal)
{
    sort_kinds(s, true);
    return pass(s, goal);
}

/* Returns whether the search covers every order. */
static bool choose_kinds(struct search *s)
{
    sort_kinds(s, false);
    if (s->n_kinds > 1 && (s->terms->in_order || s->n_states > SPLIT_STATES)) {
        sort_kinds(s, true);
        return false;
    }
    return true;
}

static enum status check_numbers(const struct search *s, struct error *e)
{
    const struct split_terms *t = s->terms;

    if (s->n_workers < 1 || s->n_workers > STAGES_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%u workers, 1 to %d are allowed", s->n_workers,
                         STAGES_MAX);
    }
    if (s->model->n_layers < 1 || s->model->n_layers > MODEL_LAYERS_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%u layers, 1 to %d are allowed", s->model->n_layers,
                         MODEL_LAYERS_MAX);
    }
    if (t->block_tokens < 1 || t->context < 1 || t->max_rows < 1 ||
        t->length < 1) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "block_tokens, context, max_rows and length are at "
                         "least 1");
    }
    return ST_OK;
}

static bool is_bounded(const struct split_layer *l, uint64_t tokens)
{
    return l->weight_bytes <= SHARD_BYTES_MAX &&
           l->step_bytes <= l->weight_bytes &&
           l->slot_bytes <= SHARD_BYTES_MAX &&
           l->kept_bytes <= SHARD_BYTES_MAX &&
           l->token_bytes <= SHARD_BYTES_MAX / tokens &&
           l->window_bytes <= SHARD_BYTES_MAX / tokens;
}

/* Bounds every size so that no sum below overflows. */
static enum status check_bytes(const struct search *s, struct error *e)
{
    const struct split_model *m = s->model;
    uint64_t tokens = (uint64_t)s->terms->context + s->terms->block_tokens;
    bool fits = m->embed_bytes <= SHARD_BYTES_MAX &&
                m->head_bytes <= SHARD_BYTES_MAX &&
                m->head_scratch_bytes <= SHARD_BYTES_MAX &&
                m->hidden_scratch_bytes <= SHARD_BYTES_MAX &&
                m->shared_bytes <= m->embed_bytes &&
                m->shared_bytes <= m->head_bytes && is_bounded(&m->mtp, tokens);

    for (uint32_t i = 0; i < m->n_layers; i++) {
        const struct split_layer *l = &m->layers[i];

        fits = fits && is_bounded(l, tokens) && l->weight_bytes > 0 &&
               l->slot_bytes + l->token_bytes + l->window_bytes > 0;
    }
    return fits ? ST_OK
                : error_set(e, ST_INVALID_ARGUMENT,
                            "a layer or an end of the model is larger than "
                            "can be, or nothing");
}

static enum status check_workers(const struct search *s, struct error *e)
{
    for (uint32_t i = 0; i < s->n_workers; i++) {
        const struct split_worker *w = &s->workers[i];

        if (w->budget_bytes > SHARD_BYTES_MAX ||
            w->scratch_bytes > SHARD_BYTES_MAX ||
            !(w->speed >= SPLIT_SPEED_MIN && w->speed <= SPLIT_SPEED_MAX)) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "worker %s: bytes must be at most 1 PiB, speed "
                             "must be %g to %g",
                             quote(w->name).text, SPLIT_SPEED_MIN,
                             SPLIT_SPEED_MAX);
        }
    }
    if (s->n_stages > s->n_workers) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%u stages, and %u workers for them", s->n_stages,
                         s->n_workers);
    }
    if (s->n_stages > s->model->n_layers) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%u stages of a model of %u layers: each needs one at "
                         "least",
                         s->n_stages, s->model->n_layers);
    }
    return ST_OK;
}

enum status split_find(struct split *out, struct split_table *table,
                       const struct split_model *model,
                       const struct split_worker *workers, uint32_t n_workers,
                       const struct split_terms *terms, struct error *e)
{
    struct search s = {
        .table = table,
        .model = model,
        .workers = workers,
        .terms = terms,
        .n_workers = n_workers,
        .n_stages = terms->n_stages > 0 ? terms->n_stages : n_workers,
        .slowest = INFINITY,
        .lacking = INFINITY,
    };
    enum status st = check_numbers(&s, e);

    st = st == ST_OK ? check_bytes(&s, e) : st;
    st = st == ST_OK ? check_workers(&s, e) : st;
    if (st != ST_OK) {
        return st;
    }
    sum_up(table, model, terms->block_tokens);
    s.window =
        split_window(model->layers, model->n_layers, terms->block_tokens);
    s.slowest = quickly(&s, FASTEST);
    out->every_order = choose_kinds(&s);
    s.slowest = pass(&s, FASTEST);
    if (isinf(s.slowest)) {
        s.lacking = quickly(&s, LEAST_LACKING);
        (void)choose_kinds(&s);
        return too_large(&s, out, e);
    }
    s.fewest = (uint64_t)-pass(&s, WIDEST);
    (void)pass(&s, EVENEST);
    finish(&s, out);
    return ST_OK;
}

void split_fold_drafts(struct split_model *m)
{
    struct split_layer *last = &m->layers[m->n_layers - 1];

    last->step_bytes = step_bytes(last) + step_bytes(&m->mtp);
    last->weight_bytes += m->mtp.weight_bytes;
    last->token_bytes += m->mtp.token_bytes;
    m->mtp = (struct split_layer){0};
    for (uint32_t i = 0; i < m->n_layers; i++) {
        struct split_layer *l = &m->layers[i];

        l->step_bytes = step_bytes(l);
        l->weight_bytes += l->kept_bytes;
        l->kept_bytes = 0;
    }
}

uint64_t split_stage_sequences(const struct split_stage *s, uint32_t length)
{
    return pool_split_sequences(&s->need, &s->pool, length);
}

uint64_t split_sequences(const struct split *s, uint32_t length,
                         uint32_t *stage)
{
    uint64_t fit = UINT64_MAX;

    for (uint32_t i = 0; i < s->n_stages; i++) {
        uint64_t n = split_stage_sequences(&s->stages[i], length);

        if (n < fit) {
            fit = n;
            *stage = i;
        }
    }
    return fit;
}
