#include "kernels/backends/canary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/model/ffn.h"
#include "common/model/half.h"
#include "common/model/mixer.h"
#include "kernels/backends/backend.h"
#include "kernels/backends/canary_replay.h"

#define ROWS   3 /* a prompt row, then two generated ones */
#define TOKENS (CANARY_TOKENS + ROWS - 1)
/* At most: each but the first adds a kind of one of its parts, and the MTP
 * layer is the last. */
#define LAYERS (MIXER_KINDS + FFN_KINDS)
#define HEADS  2
#define SLOT   0 /* its blocks follow its pages */

/* One backend's results. */
struct trace {
    float *mid, *out; /* [LAYERS, TOKENS, H] after a mixer, after a layer */
    float *in;        /* [TOKENS, H] of the MTP layer */
    float *logits;    /* [HEADS * ROWS, V] of the last token of each row, of the
                       * model and then of the MTP layer */
};

/* The blocks of a window layer begin where a window does not see the first
 * position.  All blocks before the rows are one page. */
struct windows {
    uint32_t base;          /* position of the first token */
    uint32_t first, stride; /* as in struct kernel_row */
    uint32_t *table;        /* [window_pages, stride] */
    uint32_t filled;        /* the page before the rows */
    void *kv;               /* a block of a layer there */
};

struct canary {
    const struct shard_weights *w;
    const struct kernels_options *o;
    struct kernels_sizes sizes;
    uint32_t layers[LAYERS], n_layers; /* the first of each kind */
    uint32_t n_prompt, n_rows, n_tokens;
    uint32_t blocks[TOKENS], ids[TOKENS];
    struct windows windows;
    uint32_t n_pages; /* used at most */
    float *in;        /* [TOKENS, H] of the first layer */
    struct trace device, again, cpu;
    double bound, worst; /* difference, as a share of the largest value */
};

static bool has_head(const struct canary *c)
{
    return c->w->head.data != NULL;
}

static const struct layer_weights *layer_of(const struct canary *c, uint32_t i)
{
    return &c->w->layers[c->layers[i]];
}

static bool drafts(const struct canary *c)
{
    return c->w->mtp != NULL && c->sizes.drafts;
}

static bool is_mtp(const struct canary *c, uint32_t i)
{
    return c->layers[i] == c->w->end - c->w->begin;
}

static bool is_window(const struct canary *c, uint32_t i)
{
    return mixer_memory(layer_of(c, i)->kind) == MIXER_IN_WINDOWS;
}

/* ---- layers and rows ---- */

static void choose(struct canary *c, uint32_t layer)
{
    for (uint32_t i = 0; i < c->n_layers; i++) {
        if (c->layers[i] == layer) {
            return;
        }
    }
    c->layers[c->n_layers++] = layer;
}

/* One layer of each kind covers all kernels, which layers of a kind share. */
static void choose_layers(struct canary *c)
{
    uint32_t mixers = 0, ffns = 0;

    for (uint32_t i = 0; i < c->w->end - c->w->begin; i++) {
        const struct layer_weights *l = &c->w->layers[i];

        if (!(mixers >> l->kind & 1) || !(ffns >> l->ffn & 1)) {
            choose(c, i);
        }
        mixers |= 1u << l->kind;
        ffns |= 1u << l->ffn;
    }
    if (drafts(c)) {
        choose(c, c->w->end - c->w->begin);
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
    c->n_tokens = c->n_prompt + c->n_rows - 1;
    for (uint32_t i = 0; i < c->n_tokens; i++) {
        /* A multiplicative hash spreads the ids over the vocabulary. */
        c->ids[i] = (uint32_t)((i * 2654435761u) % c->w->shape.vocab);
    }
}

/* Returns a fixed pseudo-random value in [-1, 1). */
static float noise(size_t i)
{
    uint32_t bits = (uint32_t)i * 2654435761u;

    return (float)(int32_t)bits * 0x1p-31f;
}

static void *make_block(const struct canary *c)
{
    const struct model_shape *s = &c->w->shape;
    enum dtype t = c->o->kv.dtype;
    size_t n = (size_t)2 * c->o->block_tokens * s->n_kv_heads * s->head_dim;
    char *kv = calloc(n, dtype_bytes(t));

    for (size_t i = 0; kv != NULL && i < n; i++) {
        float f = noise(i);
        uint16_t h = t == DTYPE_F16 ? half_to_f16(f) : half_to_bf16(f);

        memcpy(kv + i * dtype_bytes(t), t == DTYPE_F32 ? (void *)&f : &h,
               dtype_bytes(t));
    }
    return kv;
}

/* Places n blocks for each table from `page` on, and the filled page behind
 * them.  Returns false if memory is short. */
static bool place_windows(struct canary *c, uint32_t page, uint32_t n)
{
    struct windows *w = &c->windows;
    uint32_t size = c->o->block_tokens, tables = c->sizes.window_pages;
    uint32_t window = c->w->shape.window, before;

    w->base = (window / size + 1) * size;
    if (w->base > c->w->shape.context - c->n_tokens) {
        w->base = 0;
    }
    w->first = w->base > 0 ? (w->base + 1 - window) / size : 0;
    before = w->base / size - w->first;
    w->stride = before + n;
    w->filled = page + tables * n;
    w->table = calloc((size_t)tables * w->stride, sizeof *w->table);
    w->kv = make_block(c);
    if (w->table == NULL || w->kv == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < tables * w->stride; i++) {
        uint32_t table = i / w->stride, at = i % w->stride;

        w->table[i] = at < before ? w->filled : page + table * n + at - before;
    }
    return true;
}

static bool place_blocks(struct canary *c)
{
    uint32_t size = c->o->block_tokens, page = c->sizes.pages_per_slot;
    uint32_t n = (c->n_tokens + size - 1) / size;

    for (uint32_t i = 0; i < n; i++) {
        c->blocks[i] = page + i;
    }
    page += c->sizes.pages_per_block * n;
    c->n_pages = page + c->sizes.window_pages * n + 1;
    return c->sizes.window_pages == 0 || place_windows(c, page, n);
}

/* ---- memory ---- */

static bool allocate_trace(const struct canary *c, struct trace *s)
{
    size_t h = c->w->shape.hidden, v = c->w->shape.vocab;

    s->mid = calloc(LAYERS * TOKENS * h, sizeof *s->mid);
    s->out = calloc(LAYERS * TOKENS * h, sizeof *s->out);
    s->in = calloc(TOKENS * h, sizeof *s->in);
    s->logits = calloc(HEADS * ROWS * v, sizeof *s->logits);
    return s->mid != NULL && s->out != NULL && s->in != NULL &&
           s->logits != NULL;
}

static void free_trace(struct trace *s)
{
    free(s->mid);
    free(s->out);
    free(s->in);
    free(s->logits);
}

/* ---- traces ---- */

/* A run on one backend.  A run in parts reads x between mixer and feed-forward,
 * which may be fused otherwise.  The operators of a run with `given` start from
 * the results there, so that a small difference of one operator never reaches
 * the next: of two experts with almost equal logits it may choose another. */
struct run {
    struct kernels *k;
    bool parts;
    const struct trace *given; /* or NULL */
    struct trace *to;
};

static uint32_t first_of(const struct canary *c, uint32_t row)
{
    return row == 0 ? 0 : c->n_prompt + row - 1;
}

static struct kernel_row row_of(const struct canary *c, uint32_t row,
                                bool window)
{
    uint32_t base = window ? c->windows.base : 0;

    return (struct kernel_row){
        .n_tokens = row == 0 ? c->n_prompt : 1,
        .position = first_of(c, row) + base,
        .blocks = c->blocks,
        .window = window ? c->windows.table : NULL,
        .window_first = c->windows.first,
        .window_stride = c->windows.stride,
        .slot = SLOT,
        .generated = row > 0,
    };
}

/* Embeds all tokens.  A shard without the embedding gets fixed pseudo-random
 * values. */
static enum status trace_input(const struct canary *c, struct kernels *k,
                               float *in, struct error *e)
{
    size_t h = c->w->shape.hidden;
    enum status st = ST_OK;

    for (size_t i = 0; c->w->embed.data == NULL && i < c->n_tokens * h; i++) {
        in[i] = noise(i);
    }
    for (uint32_t row = 0; row < c->n_rows && st == ST_OK; row++) {
        const struct kernel_row r = row_of(c, row, false);
        const struct kernel_step step = {&r, 1, r.n_tokens};
        uint32_t first = first_of(c, row);

        if (c->w->embed.data == NULL) {
            break;
        }
        kernels_begin(k, &step);
        kernels_embed(k, c->ids + first);
        kernels_hidden_read(k, 0, r.n_tokens, in + first * h);
        st = kernels_end(k, e);
    }
    return st;
}

/* Makes the hidden rows from which the MTP layer of a row drafts. */
static enum status keep_hidden(const struct canary *c, const struct run *r,
                               uint32_t row, const float *in, struct error *e)
{
    const struct kernel_row at = row_of(c, row, false);
    const struct kernel_step step = {&at, 1, at.n_tokens};

    kernels_begin(r->k, &step);
    kernels_hidden_write(r->k, 0, at.n_tokens, in);
    kernels_keep_hidden(r->k);
    return kernels_end(r->k, e);
}

/* Gives layer i its input: the MTP layer one of its own, of any tokens. */
static void write_input(const struct canary *c, const struct run *r,
                        uint32_t row, uint32_t i, const float *in)
{
    uint32_t n = row == 0 ? c->n_prompt : 1, first = first_of(c, row);
    size_t at = first * (size_t)c->w->shape.hidden;
    uint32_t from[TOKENS];

    if (!is_mtp(c, i)) {
        kernels_hidden_write(r->k, 0, n, in);
        return;
    }
    for (uint32_t t = 0; t < n; t++) {
        from[t] = n - 1 - t;
    }
    kernels_draft_input(r->k, c->ids + first, from);
    if (r->parts) {
        kernels_hidden_read(r->k, 0, n, r->to->in + at);
    }
    if (r->given) {
        kernels_hidden_write(r->k, 0, n, r->given->in + at);
    }
}

/* Computes the logits of a row's last token behind the last layer, and behind
 * the MTP layer. */
static void run_head(const struct canary *c, const struct run *r, uint32_t row,
                     uint32_t i, uint32_t token)
{
    uint32_t last = c->n_layers - (drafts(c) ? 2 : 1);
    uint32_t at = row + (is_mtp(c, i) ? ROWS : 0);

    if (has_head(c) && i >= last) {
        kernels_head(r->k, &token, 1);
        kernels_logits_read(r->k, 0,
                            r->to->logits + (size_t)at * c->w->shape.vocab);
    }
}

/* Runs a row through layer i, and through the head if it is the last. */
static enum status trace_layer(const struct canary *c, const struct run *r,
                               uint32_t row, uint32_t i, struct error *e)
{
    const struct kernel_row at = row_of(c, row, is_window(c, i));
    const struct kernel_step step = {&at, 1, at.n_tokens};
    const struct trace *from = r->given ? r->given : r->to;
    size_t h = c->w->shape.hidden, token = first_of(c, row) * h;
    size_t here = i * TOKENS * h + token;
    uint32_t n = at.n_tokens;
    const float *in = i == 0 ? c->in + token : from->out + here - TOKENS * h;
    enum status st = is_mtp(c, i) ? keep_hidden(c, r, row, in, e) : ST_OK;

    if (st != ST_OK) {
        return st;
    }
    kernels_begin(r->k, &step);
    write_input(c, r, row, i, in);
    kernels_mixer(r->k, c->layers[i]);
    if (r->parts) {
        kernels_hidden_read(r->k, 0, n, r->to->mid + here);
    }
    if (r->given) {
        kernels_hidden_write(r->k, 0, n, from->mid + here);
    }
    kernels_ffn(r->k, c->layers[i]);
    kernels_hidden_read(r->k, 0, n, r->to->out + here);
    if (r->given) {
        kernels_hidden_write(r->k, 0, n, from->out + here);
    }
    run_head(c, r, row, i, n - 1);
    return kernels_end(r->k, e);
}

static enum status trace_rows(const struct canary *c, const struct run *r,
                              struct error *e)
{
    enum status st = ST_OK;

    /* All runs must start from the same state, or their bits would differ. */
    if (c->sizes.pages_per_slot > 0) {
        kernels_zero_slot(r->k, SLOT);
    }
    for (uint32_t i = 0; i < c->n_layers && c->windows.base > 0; i++) {
        if (is_window(c, i)) {
            kernels_block_copy(r->k, c->layers[i], c->windows.filled,
                               c->windows.kv, true);
        }
    }
    for (uint32_t row = 0; row < c->n_rows && st == ST_OK; row++) {
        for (uint32_t i = 0; i < c->n_layers && st == ST_OK; i++) {
            st = trace_layer(c, r, row, i, e);
        }
    }
    return st;
}

static enum status trace_cpu(struct canary *c, float *in, struct error *e)
{
    /* The same cache layout and dtypes as the device, with minimal scratch. */
    struct kernels_options on_cpu = {.device = "cpu",
                                     .kv = c->o->kv,
                                     .block_tokens = c->o->block_tokens,
                                     .max_tokens = CANARY_TOKENS,
                                     .max_rows = 1,
                                     .max_logits = 1,
                                     .n_threads = c->o->n_threads};
    struct run r = {.parts = true, .given = &c->again, .to = &c->cpu};
    enum status st = backend_new(&r.k, c->w, &on_cpu, e);

    if (st == ST_OK) {
        st = kernels_alloc(r.k, c->n_pages, e);
    }
    if (st == ST_OK) {
        st = trace_input(c, r.k, in, e);
    }
    if (st == ST_OK) {
        st = trace_rows(c, &r, e);
    }
    kernels_free(&r.k);
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

/* Different bits in two equal runs point to a race or to faulty memory; a fused
 * kernel must give the bits of its parts. */
static enum status judge_bits(const struct canary *c, struct error *e)
{
    size_t n = LAYERS * TOKENS * (size_t)c->w->shape.hidden;
    size_t logits = HEADS * ROWS * (size_t)c->w->shape.vocab;

    if (memcmp(c->device.out, c->again.out, n * sizeof *c->cpu.out) != 0 ||
        memcmp(c->device.logits, c->again.logits,
               logits * sizeof *c->cpu.logits) != 0) {
        return error_set(e, ST_DATA_LOSS,
                         "the device computes wrongly: the same step gave "
                         "different bits the second time");
    }
    return ST_OK;
}

static enum status compare_tokens(struct canary *c, const float *a,
                                  const float *b, const char *what,
                                  struct error *e)
{
    size_t h = c->w->shape.hidden;
    enum status st = ST_OK;

    for (uint32_t t = 0; t < c->n_tokens && st == ST_OK; t++) {
        st = compare_values(c, a + t * h, b + t * h, h, what, e);
    }
    return st;
}

static enum status judge_layer(struct canary *c, uint32_t i, struct error *e)
{
    const struct layer_weights *l = layer_of(c, i);
    size_t at = (size_t)i * TOKENS * c->w->shape.hidden;
    enum status st = ST_OK;

    if (is_mtp(c, i)) {
        st = compare_tokens(c, c->again.in, c->cpu.in,
                            "the input of the MTP layer", e);
    }
    if (st == ST_OK) {
        st = compare_tokens(c, c->again.mid + at, c->cpu.mid + at,
                            mixer_rows[l->kind]->a_layer, e);
    }
    if (st == ST_OK) {
        st = compare_tokens(c, c->again.out + at, c->cpu.out + at,
                            ffn_rows[l->ffn]->a_ffn, e);
    }
    return st;
}

/* Compares all with the CPU's results; in: its embedding. */
static enum status judge_traces(struct canary *c, const float *in,
                                struct error *e)
{
    size_t v = c->w->shape.vocab;
    enum status st = judge_bits(c, e);

    if (st == ST_OK) {
        st = compare_tokens(c, c->in, in, "the embedding", e);
    }
    for (uint32_t i = 0; i < c->n_layers && st == ST_OK; i++) {
        st = judge_layer(c, i, e);
    }
    for (uint32_t row = 0; row < HEADS * ROWS && st == ST_OK; row++) {
        if (has_head(c) && row % ROWS < c->n_rows) {
            st = compare_values(c, c->again.logits + row * v,
                                c->cpu.logits + row * v, v, "the head", e);
        }
    }
    return st;
}

/* Compares kept inputs with the device's own rows, in each linear layer. */
static enum status check_replays(const struct canary *c, struct kernels *k,
                                 struct error *e)
{
    struct canary_replay r = {
        .w = c->w,
        .kv_dtype = c->o->kv.dtype,
        .in = c->in,
        .blocks = c->blocks,
        .slot = SLOT,
        .n_prompt = c->n_prompt,
        .n = c->n_rows - 1,
    };
    bool keeps = c->sizes.drafts && r.n > 0 && c->o->keep_tokens >= r.n;
    enum status st = ST_OK;

    for (uint32_t i = 0; keeps && i < c->n_layers && st == ST_OK; i++) {
        if (mixer_memory(layer_of(c, i)->kind) == MIXER_IN_SLOT) {
            r.layer = c->layers[i];
            st = canary_replay_check(&r, k, e);
        }
    }
    return st;
}

static enum status run_traces(struct canary *c, struct kernels *k,
                              struct error *e)
{
    struct run fused = {.k = k, .to = &c->device};
    struct run parts = {.k = k, .parts = true, .to = &c->again};
    float *in = calloc((size_t)TOKENS * c->w->shape.hidden, sizeof *in);
    enum status st;

    c->in = calloc((size_t)TOKENS * c->w->shape.hidden, sizeof *c->in);
    if (in == NULL || c->in == NULL || !place_blocks(c) ||
        !allocate_trace(c, &c->device) || !allocate_trace(c, &c->again) ||
        !allocate_trace(c, &c->cpu)) {
        free(in);
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    st = trace_input(c, k, c->in, e);
    st = st == ST_OK ? trace_rows(c, &fused, e) : st;
    st = st == ST_OK ? trace_rows(c, &parts, e) : st;
    st = st == ST_OK ? trace_cpu(c, in, e) : st;
    st = st == ST_OK ? judge_traces(c, in, e) : st;
    st = st == ST_OK ? check_replays(c, k, e) : st;
    free(in);
    if (st == ST_OK) {
        log_info("canary", "device=%s worst=%.2e allowed=%.2e", c->o->device,
                 c->worst, c->bound);
    }
    return st;
}

enum status canary_run(struct kernels *k, const struct shard_weights *w,
                       const struct kernels_options *o, struct error *e)
{
    struct canary *c = calloc(1, sizeof *c);
    enum status st;

    if (c == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    kernels_sizes(k, &c->sizes);
    c->w = w;
    c->o = o;
    c->bound = canary_bound(&o->kv);
    choose_layers(c);
    choose_rows(c);
    st = run_traces(c, k, e);
    free_trace(&c->device);
    free_trace(&c->again);
    free_trace(&c->cpu);
    free(c->windows.table);
    free(c->windows.kv);
    free(c->in);
    free(c);
    return st == ST_OK ? ST_OK : error_wrap(e, "try device %s", o->device);
}
