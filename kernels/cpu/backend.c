/* backend.c - assembles the cpu backend: scratch, the step, the calls. */
#include "kernels/cpu/backend.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/minmax.h"
#include "kernels/cpu/cutter.h"
#include "kernels/cpu/mixer.h"
#include "kernels/rope.h"

static bool needs_y(const struct cpu *c)
{
    if (c->w->shape.stream.residual > 0.0f) {
        return true;
    }
    for (uint32_t i = 0; i < shard_layers(c->w); i++) {
        const struct layer_weights *l = cpu_weights(c, i);

        if (cpu_ffns[l->ffn]->sums || l->mixer_norm || l->ffn_norm) {
            return true;
        }
    }
    return false;
}

/* The parts are never in use at once, so all start at the same place.  Those of
 * kinds that the shard lacks have no bytes. */
static void cut_parts(struct cutter *k, struct cpu *c, size_t n)
{
    size_t begin = k->used, end = begin;

    for (int i = 0; i < MIXER_KINDS + FFN_KINDS; i++) {
        void (*cut)(struct cutter *, struct cpu *, size_t) =
            i < MIXER_KINDS ? cpu_mixers[i]->cut
                            : cpu_ffns[i - MIXER_KINDS]->cut;

        k->used = begin;
        if (cut != NULL) {
            cut(k, c, n);
        }
        end = k->used > end ? k->used : end;
    }
    k->used = end;
}

static bool has_head(const struct shard_weights *w)
{
    return w->head.data != NULL;
}

static void widen(void *arg, const struct tensor *t, uint32_t n)
{
    uint32_t *cols = arg;

    (void)n;
    *cols = t->bits > 0 && t->cols > *cols ? t->cols : *cols;
}

/* Returns the columns of the widest quantised matrix that takes part in a
 * product; 0 if there is none. */
static uint32_t widest(const struct shard_weights *w)
{
    uint32_t cols = 0;

    cpu_matrices(w, widen, &cols);
    return cols;
}

static struct cpu_draft_lane cut_draft_lane(struct cutter *k,
                                            const struct cpu *c)
{
    const struct model_shape *s = &c->w->shape;
    size_t n = c->replays.n_tokens > 0 ? KERNELS_KEEP_MAX : 0;

    return (struct cpu_draft_lane){
        .k = cutter_floats(k, n, s->k_dim),
        .v = cutter_floats(k, n, s->v_dim),
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
        .state = cutter_floats(k, s->k_dim, STATE_COLUMNS),
        .q = cutter_floats(k, ATTEND_QUERIES, s->head_dim),
        .y = cutter_floats(k, ATTEND_QUERIES, s->head_dim),
        .s = cutter_floats(k, ATTEND_QUERIES, ATTEND_SPAN),
        .last = cutter_piece(k, ATTEND_QUERIES, sizeof(uint32_t)),
        .sinks = cutter_floats(k, 1, ATTEND_QUERIES),
        .pair = cutter_floats(k, 2, s->expert_dim),
        .l = cutter_floats(k, 1, vocab),
        .p = cutter_floats(k, 1, vocab),
        .ids = cutter_piece(k, vocab, sizeof(uint32_t)),
        .bucket = cutter_piece(k, vocab > 0 ? CPU_BUCKETS : 0, sizeof(double)),
        .panel = cutter_floats(k, CPU_PANEL_ROWS, widest(c->w)),
    };

    if (lane) {
        *lane = l;
    }
}

static void cut_rope(struct cutter *k, struct cpu_rope *r, size_t n,
                     const struct rope_shape *shape)
{
    size_t half = shape->dim / 2;

    r->freq = cutter_floats(k, 1, half);
    r->cosine = cutter_floats(k, n, half);
    r->sine = cutter_floats(k, n, half);
}

static void cut_layer(struct cutter *k, struct cpu *c, uint32_t layer)
{
    const struct cpu_mixer *m = cpu_mixers[cpu_weights(c, layer)->kind];
    struct cpu_layer *l = k->base ? &c->layers[layer] : NULL;

    if (m->cut_layer != NULL) {
        m->cut_layer(k, c, l);
    }
    if (l != NULL) {
        l->mixer = m;
        l->ffn = cpu_ffns[cpu_weights(c, layer)->ffn];
    }
    if (m->waits) {
        if (l != NULL) {
            c->replays.linear[c->replays.n_linear] = layer;
        }
        c->replays.n_linear++;
    }
}

static void cut_layers(struct cutter *k, struct cpu *c)
{
    uint32_t n = shard_layers(c->w);

    c->layers = cutter_piece(k, n, sizeof *c->layers);
    c->replays.linear = cutter_piece(k, n, sizeof *c->replays.linear);
    c->replays.n_linear = 0;
    for (uint32_t i = 0; i < n; i++) {
        cut_layer(k, c, i);
    }
}

static void cut_replays(struct cutter *k, struct cpu *c)
{
    const struct model_shape *s = &c->w->shape;
    size_t rows = c->replays.n_tokens > 0 ? c->sizes.max_rows : 0;
    size_t rest =
        (size_t)s->n_k_heads * s->k_dim + (size_t)s->n_v_heads * s->v_dim;

    c->replays.waiting = cutter_piece(k, rows, sizeof *c->replays.waiting);
    c->replays.early = cutter_piece(k, rows, sizeof *c->replays.early);
    c->replays.early_kv = cutter_floats(
        k, c->replays.n_linear > 0 ? c->replays.n_tokens : 0, rest);
}

/* Must cut the same pieces in both passes: the first one sizes the area. */
static void cut_all(struct cutter *k, struct cpu *c)
{
    const struct model_shape *s = &c->w->shape;
    size_t n = c->sizes.max_tokens;
    /* The head norms up to max_logits rows into the same buffer. */
    size_t wide = n > c->sizes.max_logits ? n : c->sizes.max_logits;

    c->x = cutter_floats(k, n, s->hidden);
    c->n = cutter_floats(k, wide, s->hidden);
    c->y = cutter_floats(k, needs_y(c) ? n : 0, s->hidden);
    cut_rope(k, &c->ropes[0], n, &s->rope);
    cut_rope(k, &c->ropes[1], n, &s->window_rope);
    c->logits =
        cutter_floats(k, has_head(c->w) ? c->sizes.max_logits : 0, s->vocab);
    c->row_of = cutter_piece(k, n, sizeof(uint32_t));
    c->mtp.h = cutter_floats(k, c->w->mtp ? n : 0, s->hidden);
    c->mtp.pair = cutter_floats(k, c->w->mtp ? n : 0, 2 * (size_t)s->hidden);
    cut_layers(k, c);
    cut_replays(k, c);
    cpu_int8_cut(k, c, wide, widest(c->w));
    c->lanes = cutter_piece(k, c->sizes.n_threads, sizeof *c->lanes);
    for (uint32_t i = 0; i < c->sizes.n_threads; i++) {
        cut_lane(k, c, k->base ? &c->lanes[i] : NULL);
    }
    cut_parts(k, c, n);
}

/* Makes what layers keep in another form than their weights. */
static void load_layers(struct cpu *c)
{
    for (uint32_t i = 0; i < shard_layers(c->w); i++) {
        if (c->layers[i].mixer->load != NULL) {
            c->layers[i].mixer->load(c, i);
        }
    }
}

static void set_formats(struct cpu *c)
{
    const struct model_shape *s = &c->w->shape;

    for (uint32_t i = 0; i < shard_layers(c->w); i++) {
        struct cpu_layer *l = &c->layers[i];

        l->kv = mixer_memory(cpu_weights(c, i)->kind) == MIXER_IN_WINDOWS
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

static void cpu_mixer(struct kernels *k, uint32_t layer)
{
    struct cpu *c = cpu_of(k);

    cpu_match_replays(c);
    cpu_norm(c, c->n, c->x, c->step->n_tokens,
             cpu_weights(c, layer)->input_norm);
    c->layers[layer].mixer->run(c, layer);
    cpu_tick(c);
}

static void cpu_ffn(struct kernels *k, uint32_t layer)
{
    struct cpu *c = cpu_of(k);
    const struct layer_weights *w = cpu_weights(c, layer);

    cpu_norm(c, c->n, c->x, c->step->n_tokens, w->post_norm);
    c->layers[layer].ffn->run(c, w);
    cpu_tick(c);
}

static void cpu_begin(struct kernels *k, const struct kernel_step *step)
{
    struct cpu *c = cpu_of(k);

    assert(step->n_tokens <= c->sizes.max_tokens);
    assert(step->n_rows <= c->sizes.max_rows);
    c->step = step;
    c->mtp.steps = false;
    c->replays.matched = false;
    for (uint32_t i = 0; i < step->n_rows; i++) {
        const struct kernel_row *r = &step->rows[i];

        assert(!r->keep || (r->generated && r->n_saves == 0 &&
                            r->n_tokens <= KERNELS_KEEP_MAX &&
                            r->n_tokens <= c->replays.n_tokens &&
                            r->keep_at <= c->replays.n_tokens - r->n_tokens));
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
    .mixer = cpu_mixer,
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
    c->scratch = aligned_alloc(CUTTER_ALIGN, count.used);
    if (c->scratch == NULL) {
        return false;
    }
    memset(c->scratch, 0, count.used);
    cut_all(&(struct cutter){c->scratch, 0}, c);
    load_layers(c);
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

bool cpu_has_isa(const char *name)
{
    return isa_find(name) != NULL;
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
    c->int8.on = o->products == PRODUCTS_INT8;
    c->block_tokens = o->block_tokens;
    c->replays.n_tokens = o->keep_tokens;
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
