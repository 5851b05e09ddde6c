#include "kernels/backends/canary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "kernels/backends/backend.h"

#define ROWS   3 /* a prompt row, then two generated ones */
#define BLOCKS (CANARY_TOKENS + ROWS)
#define SLOT   0 /* its blocks follow its pages */
#define KINDS  6 /* a mixer and a feed-forward */

/* One backend's results: x after each layer, and between its mixer and experts,
 * and the logits, of the last token of each row. */
struct trace {
    float *x;      /* [ROWS, KINDS, 2, H] */
    float *logits; /* [ROWS, V] */
    float *step;   /* [CANARY_TOKENS, H] */
};

struct canary {
    const struct shard_weights *w;
    uint32_t layers[KINDS], n_layers; /* the first layer of each kind */
    uint32_t n_prompt, n_rows;
    uint32_t blocks[BLOCKS], ids[BLOCKS];
    uint32_t *windows; /* [window_pages, n_blocks] */
    uint32_t n_blocks; /* of all tokens */
    uint32_t n_pages;  /* used at most */
    struct trace device, again, cpu;
    double bound, worst; /* difference, as a share of the largest value */
};

/* Returns where x of a row is in a trace: after layer c->layers[i], or before
 * its experts. */
static size_t place_of(const struct canary *c, uint32_t row, uint32_t i,
                       bool before)
{
    return ((row * KINDS + i) * 2 + before) * (size_t)c->w->shape.hidden;
}

static bool has_head(const struct canary *c)
{
    return c->w->head.data != NULL;
}

/* Finds the first layer with that mixer and feed-forward, if there is one. */
static void choose_layer(struct canary *c, enum mixer_kind kind,
                         enum ffn_kind ffn)
{
    for (uint32_t i = 0; i < c->w->end - c->w->begin; i++) {
        const struct layer_weights *l = &c->w->layers[i];

        if (l->kind == kind && l->ffn == ffn) {
            c->layers[c->n_layers++] = i;
            return;
        }
    }
}

/* One layer of each kind covers all kernels, which layers of a kind share. */
static void choose_layers(struct canary *c)
{
    static const enum mixer_kind mixers[] = {MIXER_ATTENTION, MIXER_DELTANET,
                                             MIXER_WINDOW};

    for (int i = 0; i < KINDS; i++) {
        choose_layer(c, mixers[i / 2], i % 2 == 0 ? FFN_DENSE : FFN_EXPERTS);
    }
}

/* Takes as many tokens as fit in the model's context. */
static void choose_rows(struct canary *c)
{
    uint32_t most = c->w->shape.context;

    c->n_rows = most > ROWS ? ROWS : 1;
    c->n_prompt = most - (c->n_rows - 1);
    if (c->n_prompt > CANARY_TOKENS) {
        c->n_prompt = CANARY_TOKENS;
    }
    for (uint32_t i = 0; i < BLOCKS; i++) {
        /* A multiplicative hash spreads the ids over the vocabulary. */
        c->ids[i] = (uint32_t)((i * 2654435761u) % c->w->shape.vocab);
    }
}

/* Gives the slot, the blocks and the window blocks the first pages. */
static bool choose_pages(struct canary *c, const struct kernels_sizes *s,
                         uint32_t block_tokens)
{
    uint32_t n_tokens = c->n_prompt + c->n_rows - 1;

    c->n_blocks = (n_tokens + block_tokens - 1) / block_tokens;
    c->n_pages = s->pages_per_slot;
    for (uint32_t i = 0; i < c->n_blocks; i++) {
        c->blocks[i] = c->n_pages + i;
    }
    c->n_pages += s->pages_per_block * c->n_blocks;
    c->windows =
        calloc((size_t)s->window_pages * c->n_blocks + 1, sizeof *c->windows);
    for (uint32_t i = 0; c->windows && i < s->window_pages * c->n_blocks; i++) {
        c->windows[i] = c->n_pages++;
    }
    return c->windows != NULL;
}

static bool allocate_trace(const struct canary *c, struct trace *s)
{
    size_t h = c->w->shape.hidden, v = c->w->shape.vocab;

    s->x = calloc(ROWS * KINDS * 2 * h, sizeof *s->x);
    s->logits = calloc(ROWS * v, sizeof *s->logits);
    s->step = calloc(CANARY_TOKENS * h, sizeof *s->step);
    return s->x != NULL && s->logits != NULL && s->step != NULL;
}

static void free_trace(struct trace *s)
{
    free(s->x);
    free(s->logits);
    free(s->step);
}

/* A shard without the embedding gets fixed pseudo-random values as its input
 * x. */
static void write_hidden(const struct canary *c, struct kernels *k,
                         struct trace *s, uint32_t first, uint32_t n)
{
    size_t h = c->w->shape.hidden;

    for (size_t i = 0; i < n * h; i++) {
        uint32_t bits = (uint32_t)(first * h + i) * 2654435761u;

        s->step[i] = (float)(int32_t)bits * 0x1p-31f;
    }
    kernels_hidden_write(k, 0, n, s->step);
}

static uint32_t first_of(const struct canary *c, uint32_t row)
{
    return row == 0 ? 0 : c->n_prompt + row - 1;
}

/* Runs layer c->layers[i] for n tokens.  Experts get an input that is the same
 * on all backends, or a rounding before them could change the choice of the
 * router, and with it the whole output. */
static void trace_layer(const struct canary *c, struct kernels *k,
                        struct trace *s, uint32_t row, uint32_t i, uint32_t n)
{
    const struct layer_weights *l = &c->w->layers[c->layers[i]];

    if (mixer_attends(l->kind)) {
        kernels_attention(k, c->layers[i]);
    } else {
        kernels_deltanet(k, c->layers[i]);
    }
    if (l->ffn == FFN_EXPERTS) {
        kernels_hidden_read(k, n - 1, 1, s->x + place_of(c, row, i, true));
        write_hidden(c, k, s, first_of(c, row), n);
    }
    kernels_ffn(k, c->layers[i]);
    kernels_hidden_read(k, n - 1, 1, s->x + place_of(c, row, i, false));
}

static enum status trace_row(const struct canary *c, struct kernels *k,
                             struct trace *s, uint32_t row, struct error *e)
{
    uint32_t first = first_of(c, row);
    struct kernel_row r = {.n_tokens = row == 0 ? c->n_prompt : 1,
                           .position = first,
                           .blocks = c->blocks,
                           .window = c->windows,
                           .window_stride = c->n_blocks,
                           .slot = SLOT,
                           .generated = row > 0};
    struct kernel_step step = {&r, 1, r.n_tokens};
    uint32_t last = r.n_tokens - 1;

    kernels_begin(k, &step);
    if (c->w->embed.data != NULL) {
        kernels_embed(k, c->ids + first);
    } else {
        write_hidden(c, k, s, first, r.n_tokens);
    }
    for (uint32_t i = 0; i < c->n_layers; i++) {
        trace_layer(c, k, s, row, i, r.n_tokens);
    }
    if (has_head(c)) {
        kernels_head(k, &last, 1);
        kernels_logits_read(k, 0, s->logits + row * c->w->shape.vocab);
    }
    return kernels_end(k, e);
}

static enum status trace_rows(const struct canary *c, struct kernels *k,
                              struct trace *s, struct error *e)
{
    struct kernels_sizes sizes;
    enum status st = ST_OK;

    kernels_sizes(k, &sizes);
    /* Both runs must start from the same state, or their bits would differ. */
    if (sizes.pages_per_slot > 0) {
        kernels_zero_slot(k, SLOT);
    }
    for (uint32_t row = 0; row < c->n_rows && st == ST_OK; row++) {
        st = trace_row(c, k, s, row, e);
    }
    return st;
}

static enum status trace_cpu(struct canary *c, const struct kernels_options *o,
                             struct error *e)
{
    /* The same cache layout and dtypes as the device, with minimal scratch. */
    struct kernels_options on_cpu = {.device = "cpu",
                                     .kv = o->kv,
                                     .block_tokens = o->block_tokens,
                                     .max_tokens = CANARY_TOKENS,
                                     .max_rows = 1,
                                     .max_logits = 1,
                                     .n_threads = o->n_threads};
    struct kernels *k;
    enum status st = backend_new(&k, c->w, &on_cpu, e);

    if (st == ST_OK) {
        st = kernels_alloc(k, c->n_pages, e);
    }
    if (st == ST_OK) {
        st = trace_rows(c, k, &c->cpu, e);
    }
    kernels_free(&k);
    return st;
}

/* ---- comparison ---- */

/* A step as a share of the largest value: of a group's range, which is at most
 * twice that value, or the widest gap of a codebook, which is at its ends and
 * less than 4 / codes of the last centroid. */
double canary_bound(const struct kv_format *kv)
{
    double codes = (double)(UINT64_C(1) << kv->k_bits);

    switch (kv->scheme) {
    case KV_AFFINE:
        return CANARY_BOUND + 0.25 * 2 / (codes - 1);
    case KV_TURBOQUANT:
        return CANARY_BOUND + 0.25 * 4 / codes;
    default:
        return CANARY_BOUND;
    }
}

static enum status compare_values(struct canary *c, const float *a,
                                  const float *b, size_t n, const char *what,
                                  struct error *e)
{
    double top = 0.0, most = 0.0;

    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);

        top = fabs((double)b[i]) > top ? fabs((double)b[i]) : top;
        /* A NaN compares false with everything, so it is kept explicitly. */
        most = d > most || d != d ? d : most;
    }
    most = top > 0 ? most / top : most;
    c->worst = most > c->worst || most != most ? most : c->worst;
    if (most <= c->bound) {
        return ST_OK;
    }
    return error_set(
        e, ST_DATA_LOSS,
        "the device computes wrongly: %s differs from the cpu's by "
        "%.3g of its largest value; at most %.3g is allowed",
        what, most, c->bound);
}

static enum status judge_layer(struct canary *c, uint32_t row, uint32_t i,
                               struct error *e)
{
    static const char *const names[][2] = {
        [MIXER_ATTENTION] = {"an attention layer",
                             "an attention layer's mixer"},
        [MIXER_DELTANET] = {"a linear layer", "a linear layer's mixer"},
        [MIXER_WINDOW] = {"a window layer", "a window layer's mixer"}};
    const struct layer_weights *l = &c->w->layers[c->layers[i]];
    bool experts = l->ffn == FFN_EXPERTS;
    size_t h = c->w->shape.hidden, at = place_of(c, row, i, false);
    enum status st =
        compare_values(c, c->device.x + at, c->cpu.x + at, h,
                       experts ? "a layer with experts" : names[l->kind][0], e);

    at = place_of(c, row, i, true);
    return st != ST_OK || !experts
               ? st
               : compare_values(c, c->device.x + at, c->cpu.x + at, h,
                                names[l->kind][1], e);
}

static enum status judge_traces(struct canary *c, struct error *e)
{
    size_t n = ROWS * KINDS * 2 * (size_t)c->w->shape.hidden;
    size_t v = c->w->shape.vocab;
    enum status st = ST_OK;

    /* Different bits in two equal runs point to a race or to faulty memory. */
    if (memcmp(c->device.x, c->again.x, n * sizeof *c->cpu.x) != 0 ||
        memcmp(c->device.logits, c->again.logits,
               ROWS * v * sizeof *c->cpu.logits) != 0) {
        return error_set(e, ST_DATA_LOSS,
                         "the device computes wrongly: the same step gave "
                         "different bits the second time");
    }
    for (uint32_t row = 0; row < c->n_rows && st == ST_OK; row++) {
        for (uint32_t i = 0; i < c->n_layers && st == ST_OK; i++) {
            st = judge_layer(c, row, i, e);
        }
        if (st == ST_OK && has_head(c)) {
            st = compare_values(c, c->device.logits + row * v,
                                c->cpu.logits + row * v, v, "the head", e);
        }
    }
    return st;
}

static enum status run_traces(struct canary *c, struct kernels *k,
                              const struct kernels_options *o, struct error *e)
{
    enum status st;

    if (!allocate_trace(c, &c->device) || !allocate_trace(c, &c->again) ||
        !allocate_trace(c, &c->cpu)) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    st = trace_rows(c, k, &c->device, e);
    st = st == ST_OK ? trace_rows(c, k, &c->again, e) : st;
    st = st == ST_OK ? trace_cpu(c, o, e) : st;
    st = st == ST_OK ? judge_traces(c, e) : st;
    if (st == ST_OK) {
        log_info("canary", "device=%s worst=%.2e allowed=%.2e", o->device,
                 c->worst, c->bound);
    }
    return st;
}

enum status canary_run(struct kernels *k, const struct shard_weights *w,
                       const struct kernels_options *o, struct error *e)
{
    struct canary *c = calloc(1, sizeof *c);
    struct kernels_sizes sizes;
    enum status st;

    if (c == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    kernels_sizes(k, &sizes);
    c->w = w;
    c->bound = canary_bound(&o->kv);
    choose_layers(c);
    choose_rows(c);
    st = choose_pages(c, &sizes, o->block_tokens)
             ? run_traces(c, k, o, e)
             : error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    free(c->windows);
    free_trace(&c->device);
    free_trace(&c->again);
    free_trace(&c->cpu);
    free(c);
    return st == ST_OK ? ST_OK : error_wrap(e, "try device %s", o->device);
}
