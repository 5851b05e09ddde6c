#include "common/model/costs.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/minmax.h"
#include "common/model/ffn.h"
#include "common/model/layout.h"
#include "common/model/mixer.h"
#include "common/model/sizes.h"
#include "proto/limits.h"

/* With an MTP layer the last stage holds the embedding too; a tied head is
 * it. */
static void set_ends(struct split_model *m, const struct model_config *c,
                     uint64_t embed, uint64_t head, uint64_t norm)
{
    bool twice = c->drafts && !c->tied;

    m->embed_bytes = embed;
    m->head_bytes = head + norm + (twice ? embed : 0);
    m->shared_bytes = c->tied || twice ? embed : 0;
}

/* Multiplied out, so that all programs have the same bits. */
uint64_t costs_step_experts(const struct model_shape *s, uint64_t bytes)
{
    double other = 1 - (double)s->top_k / (double)s->n_experts, none = 1;

    if (s->top_k >= s->n_experts) {
        return bytes;
    }
    for (int i = 0; i < COSTS_STEP_ROWS; i++) {
        none *= other;
    }
    return bytes - (uint64_t)((double)bytes * none);
}

/* Sets what a step reads of a layer whose experts have that many bytes. */
static void set_step(struct split_layer *l, const struct model_config *c,
                     uint64_t experts)
{
    l->step_bytes = l->weight_bytes - experts +
                    (experts > 0 ? costs_step_experts(&c->shape, experts) : 0);
}

void costs_of_shapes(struct split_model *m, const struct model_config *c,
                     const struct kv_format *kv)
{
    uint64_t embed = sizes_embedding(c);
    struct page_sizes p = sizes_page(&c->shape, 0, c->shape.n_layers, 1, kv);

    memset(m, 0, sizeof *m);
    m->n_layers = c->shape.n_layers;
    for (uint32_t i = 0; i < m->n_layers; i++) {
        struct split_layer *l = &m->layers[i];

        l->weight_bytes = sizes_layer(c, i);
        set_step(l, c, sizes_experts(c, i));
        switch (mixer_memory(c->mixers[i])) {
        case MIXER_IN_BLOCKS:
            l->token_bytes = sizes_kv(&c->shape, i, kv);
            break;
        case MIXER_IN_WINDOWS:
            l->window_bytes = sizes_window_kv(&c->shape, kv);
            break;
        case MIXER_IN_SLOT:
            l->slot_bytes = page_slot_bytes(&p.slots[c->mixers[i]]);
            break;
        }
    }
    if (c->drafts) {
        m->mtp.weight_bytes = sizes_mtp(c);
        m->mtp.token_bytes = sizes_kv(&c->shape, m->n_layers, kv);
        set_step(&m->mtp, c, sizes_experts(c, m->n_layers));
    }
    set_ends(m, c, embed, embed, sizes_last_norm(c));
}

uint32_t costs_keep_tokens(uint32_t drafts, uint32_t max_rows)
{
    uint32_t rows = max_rows < COSTS_KEEP_ROWS ? max_rows : COSTS_KEEP_ROWS;

    return drafts > 0 ? (drafts + 1) * rows : 0;
}

uint64_t costs_kept(const struct model_config *c, const struct costs_step *step,
                    uint32_t begin, uint32_t end)
{
    uint64_t sum = 0;

    for (uint32_t i = begin; i < end; i++) {
        sum += sizes_kept(&c->shape, c->mixers[i], step->kept);
    }
    return sum * step->keep_tokens;
}

void costs_add_kept(struct split_model *m, const struct model_config *c,
                    const struct costs_step *step)
{
    for (uint32_t i = 0; i < m->n_layers; i++) {
        m->layers[i].kept_bytes = costs_kept(c, step, i, i + 1);
    }
}

static uint64_t placed(const struct tensor *t)
{
    uint64_t planes = t->format == WEIGHT_AFFINE ? 2 : 1;

    return layout_aligned(t->rows * tensor_row_bytes(t)) +
           planes * layout_aligned(t->rows * tensor_scale_bytes(t));
}

static uint64_t placed_chosen(const struct layer_weights *l)
{
    const struct ffn *f = ffn_rows[l->ffn];
    const struct tensor *of[FFN_CHOSEN_MAX];
    uint32_t n = f->chosen != NULL ? f->chosen(l, of) : 0;
    uint64_t sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        sum += placed(of[i]);
    }
    return sum;
}

/* Lays out one layer alone, in a config without drafts. */
static enum status add_files_layer(struct split_model *m, uint32_t i,
                                   const struct model_config *c,
                                   const struct checkpoint *files,
                                   uint64_t ends[2], struct error *e)
{
    struct shard_weights w = {.shape = c->shape, .begin = i, .end = i + 1};
    struct layer_weights layer[2] = {0};
    struct layout_parts parts = {.layers = layer};
    bool last = i + 1 == m->n_layers;
    struct layout l;
    enum status st = layout_make(&l, &w, &parts, c, files, e);

    ends[0] = i == 0 ? placed(&w.embed) : ends[0];
    ends[1] = placed(&w.head); /* 0 except for the last layer */
    m->layers[i].weight_bytes = l.bytes - ends[1] - (i == 0 ? ends[0] : 0) -
                                (last ? sizes_last_norm(c) : 0);
    set_step(&m->layers[i], c, placed_chosen(layer));
    layout_fini(&l);
    return st;
}

/* Sets the MTP layer to what drafts add to the layout of all layers. */
static enum status add_files_mtp(struct split_model *m,
                                 const struct model_config *c,
                                 const struct checkpoint *files,
                                 struct error *e)
{
    uint32_t n = m->n_layers;
    struct shard_weights w = {.shape = c->shape, .end = n};
    struct layout_parts parts = {
        .layers = calloc(n + (size_t)1, sizeof *parts.layers)};
    struct model_config plain = *c;
    struct layout l;
    enum status st;

    if (parts.layers == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    st = layout_make(&l, &w, &parts, c, files, e);
    m->mtp.weight_bytes = l.bytes;
    layout_fini(&l);
    if (st == ST_OK) {
        plain.drafts = false;
        st = layout_of_model(&l, &plain, files, e);
        m->mtp.weight_bytes -= l.bytes;
        set_step(&m->mtp, c, placed_chosen(&parts.layers[n]));
        layout_fini(&l);
    }
    free(parts.layers);
    return st;
}

enum status costs_of_files(struct split_model *m, const struct model_config *c,
                           const struct checkpoint *files, struct error *e)
{
    struct model_config plain = *c;
    uint64_t ends[2] = {0}; /* embedding, head */
    enum status st = ST_OK;

    plain.drafts = false;
    for (uint32_t i = 0; i < m->n_layers && st == ST_OK; i++) {
        st = add_files_layer(m, i, &plain, files, ends, e);
    }
    if (st == ST_OK && c->drafts) {
        st = add_files_mtp(m, c, files, e);
    }
    set_ends(m, c, ends[0], c->tied ? ends[0] : ends[1], sizes_last_norm(c));
    return st;
}

/* ---- scratch ---- */

/* Kept in step with kernels/, which tests compare: see costs_test.c. */
#define PANEL_ROWS    12    /* rows that a CPU thread dequantises at a time */
#define LANE_BYTES    41984 /* of a CPU thread's attention and sampling */
#define LAYER_BYTES   16384 /* per layer: descriptions, alignment */
#define PINNED_BYTES  (20u << 20) /* transfers to and from a device */
#define DEVICE_BYTES  (1u << 20)  /* small tables of a device, alignment */
#define LIST_WORDS    (68u << 10) /* biases, and ids of penalties */
#define SHARED_TOKENS 128         /* rows of products whose tiles are shared */
#define SHARES        8           /* work-groups that share a tile */
#define STATE_COLUMNS 32  /* of a state that a CPU thread runs at a time */
#define REPLAY_TOKENS 9   /* kept inputs that a CPU thread replays at a time */
#define REPLAY_BYTES  24  /* of a row whose replay waits */
#define EXPERT_TOKENS 512 /* tokens whose experts a CPU runs together */
#define EXPERT_BYTES  256 /* tables of one expert */
#define INT8_BYTES    32  /* of an integer product */
#define ROW_INTS      8   /* a step's ints per row, and per token */
#define TOKEN_INTS    3

/* Returns the rows of the widest gate of an MLP, a shared expert's too. */
static uint64_t mlp_width(const struct model_shape *s)
{
    return max_u64(s->intermediate, s->shared_dim);
}

/* Returns the columns of the widest matrix. */
static uint64_t widest_columns(const struct model_shape *s)
{
    uint64_t wide = max_u64(max_u64(s->hidden, mlp_width(s)), s->expert_dim);

    for (int i = 0; i < MIXER_KINDS; i++) {
        uint64_t (*of)(const struct model_shape *) =
            mixer_rows[i]->costs.columns;

        wide = of != NULL ? max_u64(wide, of(s)) : wide;
    }
    return wide;
}

/* Returns what a CPU thread uses to replay inputs, in floats: a few tokens of
 * one head. */
static uint64_t cpu_replay(const struct model_shape *s)
{
    return REPLAY_TOKENS * ((uint64_t)s->k_dim + (uint64_t)s->v_dim) +
           2 * 16; /* alignment */
}

/* Returns what replays use that wait for the next step, in bytes: a table of
 * the rows, and keys and values of one layer. */
static uint64_t cpu_waiting(const struct model_config *c,
                            const struct costs_step *step)
{
    const struct model_shape *s = &c->shape;
    uint64_t keys = (uint64_t)s->n_k_heads * s->k_dim;
    uint64_t values = (uint64_t)s->n_v_heads * s->v_dim;
    uint64_t kept = (keys + values) * step->keep_tokens;

    return step->keep_tokens > 0 ? step->rows * (uint64_t)REPLAY_BYTES +
                                       kept * sizeof(float) + 3 * 64
                                 : 0;
}

/* Returns whether the output of a mixer or feed-forward is kept apart from x:
 * to be normed or scaled, or to add up experts. */
static bool keeps_outputs(const struct model_config *c)
{
    return c->output_norms || c->shape.stream.residual > 0 ||
           c->shape.n_experts > 0;
}

/* Returns what experts use on the CPU, in bytes: of each token the logits, the
 * choice and the shared expert, of each pair of a token and an expert its input
 * and both products, and tables. */
static uint64_t cpu_experts(const struct model_shape *s, uint64_t tokens)
{
    uint64_t n = tokens < EXPERT_TOKENS ? tokens : EXPERT_TOKENS;
    uint64_t token = s->n_experts + 2 * (uint64_t)s->shared_dim + 1 +
                     (s->shared_dim > 0 ? s->hidden : 0);
    uint64_t pair = (uint64_t)s->hidden + 2 * (uint64_t)s->expert_dim + 4;

    return n * (token + s->top_k * pair) * sizeof(float) +
           (s->n_experts + UINT64_C(4)) * EXPERT_BYTES;
}

/* Returns the bytes of the widest operator on the CPU: mixers, MLP and experts
 * use the same memory in turn. */
static uint64_t cpu_widest(const struct model_config *c, uint64_t tokens)
{
    const struct model_shape *s = &c->shape;
    uint64_t widest = 2 * (uint64_t)s->intermediate * tokens * sizeof(float);

    for (int i = 0; i < MIXER_KINDS; i++) {
        const struct mixer_costs *m = &mixer_rows[i]->costs;

        widest = m->cpu != NULL ? max_u64(widest, m->cpu(s, tokens)) : widest;
    }
    return max_u64(widest, s->n_experts > 0 ? cpu_experts(s, tokens) : 0);
}

static uint64_t cpu_layers(const struct model_config *c)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < c->shape.n_layers; i++) {
        const struct mixer_costs *m = &mixer_rows[c->mixers[i]]->costs;

        sum += m->cpu_layer != NULL ? m->cpu_layer(&c->shape) : 0;
    }
    return sum;
}

/* Returns what integer products use: rows of x of the widest matrix, and a
 * description of each product. */
static uint64_t cpu_int8(const struct model_config *c, uint64_t tokens,
                         uint64_t wide)
{
    uint64_t row = (wide + wide / 32 * 8 + 63) / 64 * 64;

    return c->quant.format != WEIGHT_PLAIN
               ? tokens * row + (c->shape.n_experts + UINT64_C(10)) * INT8_BYTES
               : 0;
}

/* Returns x, its norm and an output, the rotary angles, a few words, and the
 * widest operator, all float32.  The head norms its rows into the same
 * memory. */
static uint64_t cpu_scratch(const struct model_config *c,
                            const struct costs_step *step)
{
    const struct model_shape *s = &c->shape;
    uint64_t tokens = max_u64(step->tokens, step->logits);
    uint64_t token = (keeps_outputs(c) ? 3 : 2) * (uint64_t)s->hidden +
                     s->rope.dim + s->window_rope.dim + 2;
    uint64_t wide =
        max_u64(widest_columns(s), c->drafts ? 2 * (uint64_t)s->hidden : 0);
    uint64_t panels = c->quant.format != WEIGHT_PLAIN ? PANEL_ROWS * wide : 0;
    uint64_t lane = panels + 66 * (uint64_t)s->head_dim +
                    2 * (uint64_t)s->expert_dim +
                    (uint64_t)STATE_COLUMNS * s->k_dim +
                    (step->keep_tokens > 0 ? cpu_replay(s) : 0);

    return token * tokens * sizeof(float) + cpu_widest(c, tokens) +
           cpu_layers(c) + cpu_waiting(c, step) +
           (step->int8 ? cpu_int8(c, tokens, wide) : 0) +
           step->threads * (LANE_BYTES + lane * sizeof(float));
}

/* Returns what experts use on a device, in floats; the shared one works in
 * memory of its own. */
static uint64_t opencl_experts(const struct model_shape *s, uint64_t tokens)
{
    uint64_t pairs = tokens * s->top_k;

    return tokens * (s->n_experts + UINT64_C(4)) +
           pairs * (s->hidden + (uint64_t)s->expert_dim + 4) +
           4 * (pairs / 16 + s->n_experts);
}

/* Returns what mixers and MLP use in turn on a device, in floats. */
static uint64_t opencl_area(const struct model_config *c,
                            const struct costs_step *step)
{
    const struct model_shape *s = &c->shape;
    uint64_t experts = s->n_experts > 0 ? opencl_experts(s, step->tokens) : 0;
    uint64_t area = mlp_width(s) * step->tokens + experts;

    for (int i = 0; i < MIXER_KINDS; i++) {
        const struct mixer_costs *m = &mixer_rows[i]->costs;

        area = m->opencl != NULL ? max_u64(area, m->opencl(s, step->tokens))
                                 : area;
    }
    return area;
}

/* Returns what the head uses of that memory, in floats: per row of logits the
 * adjusted ones, the counts of ids, the operand of the product, and the best
 * of each part. */
static uint64_t opencl_head_area(const struct model_config *c,
                                 const struct costs_step *step)
{
    uint64_t vocab = c->shape.vocab, hidden = c->shape.hidden;

    return step->logits * (2 * vocab + vocab / 512 + hidden + hidden / 4 + 64);
}

/* Returns the rows of the widest fused matrix; its columns are the hidden
 * size. */
static uint64_t widest_rows(const struct model_shape *s)
{
    uint64_t rows = 2 * mlp_width(s);

    for (int i = 0; i < MIXER_KINDS; i++) {
        uint64_t (*of)(const struct model_shape *) = mixer_rows[i]->costs.rows;

        rows = of != NULL ? max_u64(rows, of(s)) : rows;
    }
    return rows;
}

/* Returns what is kept for one operator alone, in floats: x, its norm with sums
 * of squares, tickets; the step's tables on both sides; the lists of
 * samplers. */
static uint64_t opencl_kept(const struct model_config *c,
                            const struct costs_step *step)
{
    const struct model_shape *s = &c->shape;
    uint64_t blocks =
        (step->context + step->block_tokens - 1) / (uint64_t)step->block_tokens;
    /* A page has at least one window layer. */
    uint64_t windows =
        (uint64_t)config_count(c, MIXER_IN_WINDOWS, 0, s->n_layers) *
        sizes_window_blocks(s->window, step->tokens, step->block_tokens,
                            step->context);
    uint64_t tables = step->rows * (ROW_INTS + blocks + windows) +
                      step->tokens * TOKEN_INTS + step->logits;
    uint64_t token = 2 * (uint64_t)s->hidden + s->hidden / 8 + s->n_heads + 1 +
                     (keeps_outputs(c) ? s->hidden + s->hidden / 8 : 0);
    /* Only products that add to x share their tiles. */
    uint64_t parts = (uint64_t)SHARED_TOKENS * SHARES * s->hidden;

    return token * step->tokens + (uint64_t)s->n_k_heads * step->rows +
           2 * tables + parts + LIST_WORDS + step->context;
}

/* A quantised matrix is widened to 16 bits before a product of many rows. */
static uint64_t opencl_scratch(const struct model_config *c,
                               const struct costs_step *step)
{
    const struct model_shape *s = &c->shape;
    bool quantised = c->quant.format != WEIGHT_PLAIN && !c->quant.experts_only;
    uint64_t wide = quantised ? widest_rows(s) * s->hidden * 2 : 0;

    return PINNED_BYTES + DEVICE_BYTES + s->n_layers * (uint64_t)LAYER_BYTES +
           (opencl_kept(c, step) + opencl_area(c, step)) * sizeof(float) + wide;
}

uint64_t costs_scratch(const struct model_config *c,
                       const struct costs_step *step)
{
    return step->opencl ? opencl_scratch(c, step) : cpu_scratch(c, step);
}

/* Returns what the MTP layer uses: the hidden states h [T, H], its inputs [T,
 * 2H], and the ids and rows that they are made of. */
static uint64_t draft_floats(const struct model_config *c,
                             const struct costs_step *step)
{
    return step->tokens * (3 * (uint64_t)c->shape.hidden + TOKEN_INTS);
}

/* Logits; on the CPU for each thread one row's logits, probabilities and
 * order; on a device what the sampler needs past the memory of the mixers. */
uint64_t costs_head_scratch(const struct model_config *c,
                            const struct costs_step *step)
{
    uint64_t area = opencl_area(c, step), head = opencl_head_area(c, step);
    uint64_t drafts = c->drafts ? draft_floats(c, step) : 0;
    uint64_t rows =
        step->logits + (step->opencl ? 0 : 3 * (uint64_t)step->threads);
    uint64_t more = step->opencl && head > area ? head - area : 0;

    return (rows * (c->shape.vocab + (uint64_t)16) + more + drafts) *
           sizeof(float);
}

uint64_t costs_hidden_scratch(const struct model_config *c,
                              const struct costs_step *step)
{
    return (uint64_t)step->plans * step->tokens * c->shape.hidden *
           sizeof(float);
}

uint32_t costs_stage_tokens(const struct model_config *c, uint32_t tokens)
{
    uint64_t fit = FRAME_TENSOR_MAX / (c->shape.hidden * sizeof(float));

    return fit < tokens ? (uint32_t)fit : tokens;
}

uint64_t costs_stage_scratch(const struct model_config *c,
                             const struct costs_step *step, uint32_t begin,
                             uint32_t end)
{
    return costs_scratch(c, step) + costs_kept(c, step, begin, end) +
           (end == c->shape.n_layers ? costs_head_scratch(c, step)
                                     : costs_hidden_scratch(c, step));
}
