/* backend.c - assembles the cpu backend: scratch, the step, the calls. */
#include "kernels/cpu/backend.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/rope.h"

#define ALIGN 64

/* Cuts an area into aligned pieces.  While base is NULL it only counts
 * bytes. */
struct cutter {
    char *base;
    size_t used;
};

static void *cut_piece(struct cutter *k, size_t n, size_t item)
{
    size_t at = k->used;

    /* Pieces begin at cache lines, so two threads never share one. */
    k->used += (n * item + ALIGN - 1) / ALIGN * ALIGN;
    return k->base ? k->base + at : NULL;
}

static float *cut_floats(struct cutter *k, size_t rows, size_t cols)
{
    return cut_piece(k, rows * cols, sizeof(float));
}

/* A gated model projects a gate beside each query: twice the width. */
static void cut_attention(struct cutter *k, struct cpu *c, size_t n)
{
    const struct model_shape *s = &c->w->shape;
    struct cpu_attention_scratch *a = &c->of[CPU_ATTENTION].attention;
    size_t wide = (size_t)s->n_heads * s->head_dim;
    size_t narrow = (size_t)s->n_kv_heads * s->head_dim;

    a->q = cut_floats(k, n, s->attn_gated ? 2 * wide : wide);
    a->k = cut_floats(k, n, narrow);
    a->v = cut_floats(k, n, narrow);
    a->query = cut_floats(k, n, wide);
    a->y = cut_floats(k, n, wide);
    a->gate = cut_floats(k, s->attn_gated ? n : 0, wide);
}

static size_t channels(const struct model_shape *s)
{
    return (size_t)2 * s->n_k_heads * s->k_dim +
           (size_t)s->n_v_heads * s->v_dim;
}

static void cut_delta(struct cutter *k, struct cpu *c, size_t n)
{
    const struct model_shape *s = &c->w->shape;
    struct cpu_delta_scratch *d = &c->of[CPU_DELTA].delta;
    size_t values = (size_t)s->n_v_heads * s->v_dim;

    d->qkv = cut_floats(k, n, channels(s));
    d->u = cut_floats(k, n, channels(s));
    d->z = cut_floats(k, n, values);
    d->b = cut_floats(k, n, s->n_v_heads);
    d->a = cut_floats(k, n, s->n_v_heads);
    d->y = cut_floats(k, n, values);
}

static void cut_mlp(struct cutter *k, struct cpu *c, size_t n)
{
    struct cpu_mlp_scratch *m = &c->of[CPU_MLP].mlp;

    m->gate = cut_floats(k, n, c->w->shape.intermediate);
    m->up = cut_floats(k, n, c->w->shape.intermediate);
}

static bool has_experts(const struct cpu *c)
{
    for (uint32_t i = 0; i < shard_layers(c->w); i++) {
        if (cpu_weights(c, i)->ffn == FFN_EXPERTS) {
            return true;
        }
    }
    return false;
}

static bool needs_y(const struct cpu *c)
{
    for (uint32_t i = 0; i < shard_layers(c->w); i++) {
        const struct layer_weights *l = cpu_weights(c, i);

        if (l->ffn == FFN_EXPERTS || l->mixer_norm || l->ffn_norm) {
            return true;
        }
    }
    return false;
}

static void cut_experts(struct cutter *k, struct cpu *c, size_t n)
{
    const struct model_shape *s = &c->w->shape;
    struct cpu_expert_scratch *e = &c->of[CPU_EXPERTS].experts;
    size_t rows;

    if (!has_experts(c)) {
        return;
    }
    n = n < CPU_EXPERT_TOKENS ? n : CPU_EXPERT_TOKENS;
    rows = n * s->top_k;
    e->shared.gate = cut_floats(k, n, s->shared_dim);
    e->shared.up = cut_floats(k, n, s->shared_dim);
    e->out = cut_floats(k, s->shared_dim > 0 ? n : 0, s->hidden);
    e->share = cut_floats(k, n, 1);
    e->logits = cut_floats(k, n, s->n_experts);
    e->weights = cut_floats(k, n, s->top_k);
    e->chosen = cut_piece(k, rows, sizeof *e->chosen);
    e->row_of = cut_piece(k, rows, sizeof *e->row_of);
    e->token_of = cut_piece(k, rows, sizeof *e->token_of);
    e->begin = cut_piece(k, s->n_experts + 1, sizeof *e->begin);
    e->x = cut_floats(k, rows, s->hidden);
    e->both = cut_floats(k, rows, 2 * (size_t)s->expert_dim);
    e->views = cut_piece(k, s->n_experts, sizeof *e->views);
    e->products = cut_piece(k, s->n_experts + 1, sizeof *e->products);
}

/* The parts are never in use at once, so all start at the same place. */
static void cut_parts(struct cutter *k, struct cpu *c, size_t n)
{
    void (*const part[])(struct cutter *, struct cpu *, size_t) = {
        cut_attention, cut_delta, cut_mlp, cut_experts};
    size_t begin = k->used, end = begin;

    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        k->used = begin;
        part[i](k, c, n);
        end = k->used > end ? k->used : end;
    }
    k->used = end;
}

static bool has_head(const struct shard_weights *w)
{
    return w->head.data != NULL;
}

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t wider(uint32_t cols, const struct tensor *t)
{
    return t->bits > 0 ? most(cols, t->cols) : cols;
}

static uint32_t widest_mixer(uint32_t cols, const struct layer_weights *l)
{
    const struct attention_weights *a = &l->mixer.attention;
    const struct deltanet_weights *d = &l->mixer.deltanet;

    if (mixer_attends(l->kind)) {
        cols = wider(wider(cols, &a->q), &a->k);
        return wider(wider(cols, &a->v), &a->o);
    }
    cols = wider(wider(wider(cols, &d->qkv), &d->z), &d->b);
    return wider(wider(cols, &d->a), &d->out);
}

static uint32_t widest_mlp(uint32_t cols, const struct mlp_weights *m)
{
    return wider(wider(wider(cols, &m->gate), &m->up), &m->down);
}

/* Returns the columns of the widest quantised matrix that takes part in a
 * product; 0 if there is none. */
static uint32_t widest(const struct shard_weights *w)
{
    uint32_t cols = wider(0, &w->head);

    cols = w->mtp ? wider(cols, &w->mtp->fc) : cols;

    for (uint32_t i = 0; i < shard_layers(w); i++) {
        const struct layer_weights *l = &w->layers[i];
        const struct expert_weights *e = &l->experts;

        cols = widest_mixer(cols, l);
        if (l->ffn == FFN_DENSE) {
            cols = widest_mlp(cols, &l->mlp);
            continue;
        }
        cols = wider(wider(cols, &e->router), &e->shared_gate);
        cols = wider(wider(cols, &e->gate_up), &e->down);
        cols = widest_mlp(cols, &e->shared);
    }
    return cols;
}

static struct cpu_draft_lane cut_draft_lane(struct cutter *k,
                                            const struct cpu *c)
{
    const struct model_shape *s = &c->w->shape;
    size_t n = c->keep_tokens > 0 ? KERNELS_KEEP_MAX : 0;

    return (struct cpu_draft_lane){
        .k = cut_floats(k, n, s->k_dim),
        .v = cut_floats(k, n, s->v_dim),
    };
}

/* A lane belongs to a thread, so tasks need no locks for their scratch. */
static void cut_lane(struct cutter *k, struct cpu *c, struct cpu_lane *lane)
{
    const struct model_shape *s = &c->w->shape;
    size_t vocab = has_head(c->w) ? s->vocab : 0;
    /* A local copy, since lane is NULL in the pass that only counts. */
    struct cpu_lane l = {
        .draft = cut_draft_lane(k, c),
        .state = cut_floats(k, s->k_dim, STATE_COLUMNS),
        .q = cut_floats(k, ATTEND_QUERIES, s->head_dim),
        .y = cut_floats(k, ATTEND_QUERIES, s->head_dim),
        .s = cut_floats(k, ATTEND_QUERIES, ATTEND_SPAN),
        .last = cut_piece(k, ATTEND_QUERIES, sizeof(uint32_t)),
        .sinks = cut_floats(k, 1, ATTEND_QUERIES),
        .pair = cut_floats(k, 2, s->expert_dim),
        .l = cut_floats(k, 1, vocab),
        .p = cut_floats(k, 1, vocab),
        .ids = cut_piece(k, vocab, sizeof(uint32_t)),
        .bucket = cut_piece(k, vocab > 0 ? CPU_BUCKETS : 0, sizeof(double)),
        .panel = cut_floats(k, CPU_PANEL_ROWS, widest(c->w)),
    };

    if (lane) {
        *lane = l;
    }
}

static void cut_rope(struct cutter *k, struct cpu_rope *r, size_t n,
                     const struct rope_shape *shape)
{
    size_t half = shape->dim / 2;

    r->freq = cut_floats(k, 1, half);
    r->cosine = cut_floats(k, n, half);
    r->sine = cut_floats(k, n, half);
}

static void cut_linear(struct cutter *k, struct cpu *c, struct cpu_layer *l)
{
    const struct model_shape *s = &c->w->shape;
    size_t keys = (size_t)s->n_k_heads * s->k_dim, n = c->keep_tokens;
    float *conv = cut_floats(k, s->conv, channels(s));
    struct cpu_kept kept = {
        .q = cut_piece(k, n * keys, dtype_bytes(c->kv.dtype)),
        .kv = cut_floats(k, n, channels(s) - keys),
        .beta = cut_floats(k, n, s->n_v_heads),
        .decay = cut_floats(k, n, s->n_v_heads),
    };

    if (k->base) {
        l->conv = conv;
        l->kept = kept;
    }
}

static void cut_layers(struct cutter *k, struct cpu *c)
{
    uint32_t n = shard_layers(c->w);

    c->layers = cut_piece(k, n, sizeof *c->layers);
    c->linear = cut_piece(k, n, sizeof *c->linear);
    c->n_linear = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (cpu_weights(c, i)->kind == MIXER_DELTANET) {
            cut_linear(k, c, k->base ? &c->layers[i] : NULL);
            if (k->base) {
                c->linear[c->n_linear] = i;
            }
            c->n_linear++;
        }
    }
}

static void cut_replays(struct cutter *k, struct cpu *c)
{
    const struct model_shape *s = &c->w->shape;
    size_t rows = c->keep_tokens > 0 ? c->sizes.max_rows : 0;
    size_t keys = (size_t)s->n_k_heads * s->k_dim;

    c->waiting = cut_piece(k, rows, sizeof *c->waiting);
    c->early = cut_piece(k, rows, sizeof *c->early);
    c->early_kv =
        cut_floats(k, c->n_linear > 0 ? c->keep_tokens : 0, channels(s) - keys);
}

/* Must cut the same pieces in both passes: the first one sizes the area. */
static void cut_all(struct cutter *k, struct cpu *c)
{
    const struct model_shape *s = &c->w->shape;
    size_t n = c->sizes.max_tokens;
    /* The head norms up to max_logits rows into the same buffer. */
    size_t wide = n > c->sizes.max_logits ? n : c->sizes.max_logits;

    c->x = cut_floats(k, n, s->hidden);
    c->n = cut_floats(k, wide, s->hidden);
    c->y = cut_floats(k, needs_y(c) ? n : 0, s->hidden);
    cut_rope(k, &c->ropes[0], n, &s->rope);
    cut_rope(k, &c->ropes[1], n, &s->window_rope);
    c->logits =
        cut_floats(k, has_head(c->w) ? c->sizes.max_logits : 0, s->vocab);
    c->row_of = cut_piece(k, n, sizeof(uint32_t));
    c->h = cut_floats(k, c->w->mtp ? n : 0, s->hidden);
    c->pair = cut_floats(k, c->w->mtp ? n : 0, 2 * (size_t)s->hidden);
    cut_layers(k, c);
    cut_replays(k, c);
    c->lanes = cut_piece(k, c->sizes.n_threads, sizeof *c->lanes);
    for (uint32_t i = 0; i < c->sizes.n_threads; i++) {
        cut_lane(k, c, k->base ? &c->lanes[i] : NULL);
    }
    cut_parts(k, c, n);
}

/* Transposes [C, K] as stored to [K, C], so that channels fill a register. */
static void turn_conv(struct cpu *c)
{
    size_t n = channels(&c->w->shape), taps = c->w->shape.conv;

    for (uint32_t i = 0; i < shard_layers(c->w); i++) {
        const struct layer_weights *w = cpu_weights(c, i);

        if (w->kind != MIXER_DELTANET) {
            continue;
        }
        for (size_t at = 0; at < n * taps; at++) {
            c->layers[i].conv[at % taps * n + at / taps] =
                w->mixer.deltanet.conv[at];
        }
    }
}

static void set_formats(struct cpu *c)
{
    const struct model_shape *s = &c->w->shape;

    for (uint32_t i = 0; i < shard_layers(c->w); i++) {
        struct cpu_layer *l = &c->layers[i];

        l->kv = cpu_weights(c, i)->kind == MIXER_WINDOW
                    ? kv_format_plain(c->kv.dtype)
                    : kv_format_of_layer(&c->kv, c->w->begin + i);
        kv_block_make(&l->block, &l->kv, s->n_kv_heads, s->head_dim,
                      c->block_tokens);
    }
    if (c->kv.scheme == KV_TURBOQUANT && s->n_kv_heads > 0) {
        kv_turbo_make(&c->turbo[KV_KEYS], s->head_dim, c->kv.k_bits, KV_KEYS);
        kv_turbo_make(&c->turbo[KV_VALUES], s->head_dim, c->kv.v_bits,
                      KV_VALUES);
    }
}

static void set_sizes(struct cpu *c)
{
    set_formats(c);
    cpu_lay_out(c);
    c->sizes.page_bytes = c->pages.page_bytes;
    c->sizes.pages_per_block = c->pages.pages_per_block;
    c->sizes.pages_per_slot = c->pages.pages_per_slot;
    c->sizes.window_pages = c->pages.window_pages;
    c->sizes.one_arithmetic = true;
    c->sizes.drafts = true;
}

static void cpu_sizes(const struct kernels *k, struct kernels_sizes *out)
{
    *out = ((const struct cpu *)(const void *)k)->sizes;
}

static uint64_t cpu_progress(const struct kernels *k)
{
    const struct cpu *c = (const struct cpu *)(const void *)k;

    return atomic_load_explicit(&c->ticks, memory_order_relaxed);
}

static void cpu_free(struct kernels *k)
{
    struct cpu *c = cpu_of(k);

    threads_free(&c->threads);
    /* cpu_release() reads the layers, which are in scratch. */
    if (c->scratch) {
        cpu_release(c);
        cpu_release_host(c);
    }
    free(c->scratch);
    free(c);
}

/* Computes the angles of token t at position p: per token once, not once per
 * layer and head. */
static void set_angles(struct cpu *c, uint32_t t, uint32_t p)
{
    const struct model_shape *s = &c->w->shape;
    const struct rope_shape *shapes[] = {&s->rope, &s->window_rope};
    const bool used[] = {c->sizes.pages_per_block > 0,
                         c->sizes.window_pages > 0};

    for (uint32_t i = 0; i < 2; i++) {
        uint32_t half = shapes[i]->dim / 2;
        struct cpu_rope *r = &c->ropes[i];

        if (used[i]) {
            rope_angles(r->freq, half, p, rope_scale(shapes[i]),
                        r->cosine + (size_t)t * half,
                        r->sine + (size_t)t * half);
        }
    }
}

static void cpu_begin(struct kernels *k, const struct kernel_step *step)
{
    struct cpu *c = cpu_of(k);

    assert(step->n_tokens <= c->sizes.max_tokens);
    assert(step->n_rows <= c->sizes.max_rows);
    c->step = step;
    c->drafting = false;
    c->matched = false;
    for (uint32_t i = 0; i < step->n_rows; i++) {
        const struct kernel_row *r = &step->rows[i];

        assert(!r->keep || (r->generated && r->n_saves == 0 &&
                            r->n_tokens <= KERNELS_KEEP_MAX &&
                            r->n_tokens <= c->keep_tokens &&
                            r->keep_at <= c->keep_tokens - r->n_tokens));
        for (uint32_t t = r->first; t < r->first + r->n_tokens; t++) {
            c->row_of[t] = i;
            set_angles(c, t, r->position + t - r->first);
        }
    }
}

static enum status cpu_end(struct kernels *k, struct error *e)
{
    struct cpu *c = cpu_of(k);

    (void)e;
    /* All work was done in the operators, but perhaps some replays: nothing can
     * fail here. */
    cpu_end_replays(c);
    c->step = NULL;
    return ST_OK;
}

static void cpu_hidden_read(struct kernels *k, uint32_t first, uint32_t n,
                            float *out)
{
    const struct cpu *c = cpu_of(k);
    size_t h = c->w->shape.hidden;

    memcpy(out, c->x + first * h, n * h * sizeof *out);
}

static void cpu_hidden_write(struct kernels *k, uint32_t first, uint32_t n,
                             const float *in)
{
    struct cpu *c = cpu_of(k);
    size_t h = c->w->shape.hidden;

    memcpy(c->x + first * h, in, n * h * sizeof *in);
}

static void cpu_logits_read(struct kernels *k, uint32_t i, float *out)
{
    const struct cpu *c = cpu_of(k);
    size_t v = c->w->shape.vocab;

    memcpy(out, c->logits + i * v, v * sizeof *out);
}

static void cpu_logits_write(struct kernels *k, uint32_t i, const float *in)
{
    struct cpu *c = cpu_of(k);
    size_t v = c->w->shape.vocab;

    memcpy(c->logits + i * v, in, v * sizeof *in);
}

static const struct kernels_ops cpu_ops = {
    .name = "cpu",
    .free = cpu_free,
    .sizes = cpu_sizes,
    .alloc = cpu_alloc,
    .zero_slot = cpu_zero_slot,
    .copy_pages = cpu_copy_pages,
    .alloc_host = cpu_alloc_host,
    .page_out = cpu_page_out,
    .page_in = cpu_page_in,
    .poison_pages = cpu_poison_pages,
    .begin = cpu_begin,
    .end = cpu_end,
    .replay = cpu_replay,
    .embed = cpu_embed,
    .draft_input = cpu_draft_input,
    .keep_hidden = cpu_keep_hidden,
    .attention = cpu_attention,
    .deltanet = cpu_deltanet,
    .ffn = cpu_ffn,
    .head = cpu_head,
    .sample = cpu_sample,
    .hidden_read = cpu_hidden_read,
    .hidden_write = cpu_hidden_write,
    .logits_read = cpu_logits_read,
    .logits_write = cpu_logits_write,
    .block_copy = cpu_block_copy,
    .slot_copy = cpu_slot_copy,
    .progress = cpu_progress,
};

/* Touches all scratch here, so that no step takes a page fault. */
static bool set_up(struct cpu *c, bool pin)
{
    struct cutter count = {NULL, 0};

    /* The first pass counts; the second, after the allocation, hands out. */
    cut_all(&count, c);
    c->sizes.scratch_bytes = count.used;
    c->scratch = aligned_alloc(ALIGN, count.used);
    if (c->scratch == NULL) {
        return false;
    }
    memset(c->scratch, 0, count.used);
    cut_all(&(struct cutter){c->scratch, 0}, c);
    turn_conv(c);
    set_sizes(c);
    rope_frequencies(&c->w->shape.rope, c->ropes[0].freq);
    rope_frequencies(&c->w->shape.window_rope, c->ropes[1].freq);
    c->threads = threads_new(c->sizes.n_threads, pin);
    return c->threads != NULL;
}

static uint32_t or_default(uint32_t value, uint32_t other)
{
    return value > 0 ? value : other;
}

enum status cpu_new(struct kernels **out, const struct shard_weights *w,
                    const struct kernels_options *o, struct error *e)
{
    const struct cpu_isa *isa = isa_find(o->isa);
    struct cpu *c;

    *out = NULL;
    if (isa == NULL) {
        return error_set(e, ST_UNIMPLEMENTED,
                         "this processor or build has no %s kernels", o->isa);
    }
    /* With fewer threads, which CPUs stay free would be left to chance. */
    if (o->pin && o->n_threads > 0 && o->n_threads != threads_default()) {
        return error_set(
            e, ST_INVALID_ARGUMENT,
            "%u threads cannot be pinned: pinning needs one thread "
            "for each of the %u CPUs the process may run on",
            o->n_threads, threads_default());
    }
    c = calloc(1, sizeof *c);
    if (c == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    c->base.ops = &cpu_ops;
    c->w = w;
    c->isa = isa;
    c->kv = o->kv;
    c->block_tokens = o->block_tokens;
    c->keep_tokens = o->keep_tokens;
    c->sizes.max_tokens = or_default(o->max_tokens, KERNELS_STEP_TOKENS);
    c->sizes.max_rows = or_default(o->max_rows, KERNELS_STEP_ROWS);
    c->sizes.max_logits = or_default(o->max_logits, KERNELS_LOGIT_ROWS);
    c->sizes.n_threads = or_default(o->n_threads, threads_default());
    c->sizes.isa = isa->name;
    if (!set_up(c, o->pin)) {
        cpu_free(&c->base);
        return error_set(
            e, ST_RESOURCE_EXHAUSTED,
            "not enough memory for scratch, or the system refused a "
            "thread");
    }
    *out = &c->base;
    return ST_OK;
}
