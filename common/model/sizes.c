#include "common/model/sizes.h"

#include <assert.h>

#include "common/model/layout.h"
#include "common/model/weight_format.h"

/* Weights tensor by tensor, as layout.c places them. */
struct tally {
    enum dtype dtype;
    struct quantisation quant;
    uint64_t parameters, bytes;
};

/* Use of a matrix: checkpoints quantise some and leave others. */
enum purpose { OF_LAYER, OF_EXPERTS, OF_NARROW, OF_ROUTER, OF_ENDS };

/* Aligned as layout.c aligns, so that the sum is the shard's memory exactly. */
static void add(struct tally *t, uint64_t bytes)
{
    bytes += LAYOUT_ALIGN - 1;
    t->bytes += bytes - bytes % LAYOUT_ALIGN;
}

/* Returns how the checkpoints of a quantisation store a matrix: affine ones
 * quantise all but routers (quantise_list.h), FP8 those of layers but for
 * narrow ones, MXFP4 the experts. */
static struct tensor stored(const struct tally *t, uint64_t rows, uint32_t cols,
                            enum purpose of)
{
    const struct quantisation *q = &t->quant;
    struct tensor m = {.format = WEIGHT_PLAIN,
                       .dtype = t->dtype,
                       .rows = (uint32_t)rows,
                       .cols = cols};

    if (q->format == WEIGHT_AFFINE && of != OF_ROUTER && cols % q->group == 0) {
        m.bits = q->bits;
        m.group = q->group;
    } else if ((q->format == WEIGHT_FP8 &&
                (of == OF_LAYER || of == OF_EXPERTS)) ||
               (q->format == WEIGHT_MXFP4 && of == OF_EXPERTS &&
                cols % weight_format_group(WEIGHT_MXFP4) == 0)) {
        m.bits = weight_format_bits(q->format);
        m.group = weight_format_group(q->format);
    }
    m.format = m.bits > 0 ? q->format : WEIGHT_PLAIN;
    return m;
}

/* Codes, scales and biases are separate planes, each aligned. */
static void matrix(struct tally *t, uint64_t rows, uint32_t cols,
                   enum purpose of)
{
    struct tensor m = stored(t, rows, cols, of);

    t->parameters += rows * cols;
    add(t, rows * tensor_row_bytes(&m));
    add(t, rows * tensor_scale_bytes(&m));
    add(t, m.format == WEIGHT_AFFINE ? rows * tensor_scale_bytes(&m) : 0);
}

/* Vectors become float32 in memory, whatever the file has. */
static void vector(struct tally *t, uint64_t n)
{
    t->parameters += n;
    add(t, n * sizeof(float));
}

static uint32_t channels_of(const struct model_shape *s)
{
    return 2 * s->n_k_heads * s->k_dim + s->n_v_heads * s->v_dim;
}

/* The tensors in the order of struct attention_weights: q, k, v, o, biases,
 * norms, sinks. */
static void attention(struct tally *t, const struct model_config *c)
{
    const struct model_shape *s = &c->shape;
    uint64_t q = (uint64_t)s->n_heads * s->head_dim;
    /* A gated layer projects query and gate with one matrix. */
    uint64_t rows = s->attn_gated ? 2 * q : q;
    uint64_t kv = (uint64_t)s->n_kv_heads * s->head_dim;

    matrix(t, rows, s->hidden, OF_LAYER);
    matrix(t, kv, s->hidden, OF_LAYER);
    matrix(t, kv, s->hidden, OF_LAYER);
    matrix(t, s->hidden, (uint32_t)q, OF_LAYER);
    if (c->qkv_bias) {
        vector(t, rows);
        vector(t, kv);
        vector(t, kv);
    }
    if (c->o_bias) {
        vector(t, s->hidden);
    }
    if (c->qk_norm) {
        vector(t, s->head_dim);
        vector(t, s->head_dim);
    }
    if (c->sinks) {
        vector(t, s->n_heads);
    }
}

/* The tensors: qkv, z, b, a, out, conv, a_log, dt_bias, norm. */
static void deltanet(struct tally *t, const struct model_shape *s)
{
    uint32_t values = s->n_v_heads * s->v_dim;

    matrix(t, channels_of(s), s->hidden, OF_LAYER);
    matrix(t, values, s->hidden, OF_LAYER);
    matrix(t, s->n_v_heads, s->hidden, OF_NARROW);
    matrix(t, s->n_v_heads, s->hidden, OF_NARROW);
    matrix(t, s->hidden, values, OF_LAYER);
    vector(t, (uint64_t)channels_of(s) * s->conv);
    vector(t, s->n_v_heads);
    vector(t, s->n_v_heads);
    vector(t, s->v_dim);
}

static void mlp(struct tally *t, uint32_t hidden, uint32_t rows)
{
    matrix(t, rows, hidden, OF_LAYER);
    matrix(t, rows, hidden, OF_LAYER);
    matrix(t, hidden, rows, OF_LAYER);
}

/* The matrices of n experts, as in struct expert_weights. */
static void experts(struct tally *t, const struct model_shape *s, uint64_t n)
{
    matrix(t, 2 * n * s->expert_dim, s->hidden, OF_EXPERTS);
    matrix(t, n * s->hidden, s->expert_dim, OF_EXPERTS);
}

/* Router, n experts and the shared one with its gate. */
static void mixture(struct tally *t, const struct model_config *c, uint64_t n)
{
    const struct model_shape *s = &c->shape;

    matrix(t, s->n_experts, s->hidden, OF_ROUTER);
    experts(t, s, n);
    if (c->expert_bias) {
        vector(t, s->n_experts);
        vector(t, 2 * n * s->expert_dim);
        vector(t, n * s->hidden);
    }
    if (s->shared_dim > 0) {
        mlp(t, s->hidden, s->shared_dim);
    }
    if (c->shared_gate) {
        matrix(t, 1, s->hidden, OF_ROUTER);
    }
}

/* Adds a layer with n of its experts. */
static void layer(struct tally *t, const struct model_config *c, uint32_t i,
                  uint32_t n)
{
    const struct model_shape *s = &c->shape;

    if (mixer_attends(c->mixers[i])) {
        attention(t, c);
    } else {
        deltanet(t, s);
    }
    for (int k = 0; k < (c->output_norms ? 4 : 2); k++) {
        vector(t, s->hidden);
    }
    if (c->ffns[i] == FFN_EXPERTS) {
        mixture(t, c, n);
    } else {
        mlp(t, s->hidden, s->intermediate);
    }
}

/* Adds the MTP layer: fc, its layer and the norms of both inputs and of the
 * output. */
static void mtp(struct tally *t, const struct model_config *c)
{
    uint32_t hidden = c->shape.hidden;

    matrix(t, hidden, 2 * hidden, OF_ROUTER); /* as plain as a router */
    for (int i = 0; i < 3; i++) {
        vector(t, hidden);
    }
    layer(t, c, c->shape.n_layers, c->shape.n_experts);
}

/* Adds the embedding, the last norm and the head, as far as layers [begin, end)
 * have them. */
static void ends(struct tally *t, const struct model_config *c, uint32_t begin,
                 uint32_t end)
{
    const struct model_shape *s = &c->shape;
    bool embeds = begin == 0 || config_drafts_at(c, end);

    if (embeds) {
        matrix(t, s->vocab, s->hidden, OF_ENDS);
    }
    if (end == s->n_layers) {
        vector(t, s->hidden);
        /* A tied head is the embedding; a last stage without it needs its own
         * copy. */
        if (!c->tied || !embeds) {
            matrix(t, s->vocab, s->hidden, OF_ENDS);
        }
    }
}

enum status sizes_check_slots(const struct model_config *c, uint32_t slots,
                              struct error *e)
{
    return slots == 0 || config_count(c, MIXER_DELTANET, 0, c->shape.n_layers)
               ? ST_OK
               : error_set(e, ST_INVALID_ARGUMENT,
                           "--slots %u: the model has no linear layers, so its "
                           "sequences need no slots; omit the option",
                           slots);
}

enum status sizes_check_pages(uint64_t pages_per_slot, uint32_t block_tokens,
                              struct error *e)
{
    return pages_per_slot <= SIZES_SLOT_PAGES_MAX
               ? ST_OK
               : error_set(e, ST_INVALID_ARGUMENT,
                           "--block-tokens %u: a slot takes %llu pages, at "
                           "most %d are allowed; give larger blocks",
                           block_tokens, (unsigned long long)pages_per_slot,
                           SIZES_SLOT_PAGES_MAX);
}

uint64_t sizes_layer(const struct model_config *c, uint32_t i)
{
    struct tally t = {.dtype = c->shape.dtype, .quant = c->quant};

    layer(&t, c, i, c->shape.n_experts);
    return t.bytes;
}

uint64_t sizes_experts(const struct model_config *c, uint32_t i)
{
    struct tally t = {.dtype = c->shape.dtype, .quant = c->quant};

    if (c->ffns[i] == FFN_EXPERTS) {
        experts(&t, &c->shape, c->shape.n_experts);
    }
    return t.bytes;
}

uint64_t sizes_mtp(const struct model_config *c)
{
    struct tally t = {.dtype = c->shape.dtype, .quant = c->quant};

    if (c->drafts) {
        mtp(&t, c);
    }
    return t.bytes;
}

uint64_t sizes_active(const struct model_config *c)
{
    struct tally t = {.dtype = c->shape.dtype, .quant = c->quant};

    for (uint32_t i = 0; i < c->shape.n_layers; i++) {
        layer(&t, c, i, c->shape.top_k);
    }
    ends(&t, c, 0, c->shape.n_layers);
    return t.parameters;
}

uint64_t sizes_embedding(const struct model_config *c)
{
    struct tally t = {.dtype = c->shape.dtype, .quant = c->quant};

    matrix(&t, c->shape.vocab, c->shape.hidden, OF_ENDS);
    return t.bytes;
}

uint64_t sizes_last_norm(const struct model_config *c)
{
    struct tally t = {.dtype = c->shape.dtype, .quant = c->quant};

    vector(&t, c->shape.hidden);
    return t.bytes;
}

static struct tally weights(const struct model_config *c, uint32_t begin,
                            uint32_t end)
{
    struct tally t = {.dtype = c->shape.dtype, .quant = c->quant};

    for (uint32_t i = begin; i < end; i++) {
        layer(&t, c, i, c->shape.n_experts);
    }
    ends(&t, c, begin, end);
    if (config_drafts_at(c, end)) {
        mtp(&t, c);
    }
    return t;
}

uint64_t sizes_kv(const struct model_shape *s, uint32_t layer,
                  const struct kv_format *kv)
{
    struct kv_format f = kv_format_of_layer(kv, layer);
    struct kv_block b;

    kv_block_make(&b, &f, s->n_kv_heads, s->head_dim, 1);
    return b.bytes;
}

uint64_t sizes_window_kv(const struct model_shape *s,
                         const struct kv_format *kv)
{
    struct kv_format f = kv_format_plain(kv->dtype);
    struct kv_block b;

    kv_block_make(&b, &f, s->n_kv_heads, s->head_dim, 1);
    return s->window > 0 ? b.bytes : 0;
}

uint64_t sizes_state(const struct model_shape *s, uint32_t channels,
                     enum dtype tail_dtype)
{
    uint64_t state = (uint64_t)s->n_v_heads * s->k_dim * s->v_dim;
    uint64_t tail = (uint64_t)(s->conv - 1) * channels;

    /* The state accumulates over the whole sequence, so it stays float32. */
    return state * sizeof(float) + tail * dtype_bytes(tail_dtype);
}

uint64_t sizes_kept(const struct model_shape *s, enum dtype dtype)
{
    uint64_t keys = (uint64_t)s->n_k_heads * s->k_dim;
    uint64_t values = (uint64_t)s->n_v_heads * s->v_dim;
    uint64_t gates = 2 * (uint64_t)s->n_v_heads;

    return keys * dtype_bytes(dtype) + (keys + values + gates) * sizeof(float);
}

struct page_sizes sizes_page(const struct model_shape *s, uint32_t begin,
                             uint32_t end, uint32_t block_tokens,
                             const struct kv_format *kv)
{
    uint64_t state =
        (uint64_t)s->n_v_heads * s->k_dim * s->v_dim * sizeof(float);
    /* Any layer but the whole one. */
    uint32_t other = kv->whole == 0 ? 1 : 0;
    struct page_sizes p = {.kv_bytes = block_tokens * sizes_kv(s, other, kv),
                           .window_bytes =
                               block_tokens * sizes_window_kv(s, kv)};

    if (kv->scheme != KV_PLAIN && kv->whole >= begin && kv->whole < end) {
        p.whole = 1 + kv->whole - begin;
        p.whole_bytes = block_tokens * sizes_kv(s, kv->whole, kv);
    }
    if (state > 0) {
        p.state_bytes = state;
        p.tail_bytes = sizes_state(s, channels_of(s), kv->dtype) - state;
    }
    return p;
}

/* The MTP layer's kind is in c->mixers, behind the last layer's. */
static void set_pages(struct sizes *z, const struct model_config *c,
                      uint32_t begin, uint32_t end, const struct page_sizes *p)
{
    struct page_layout l;

    page_layout_make(&l, c->mixers + begin,
                     end - begin + config_drafts_at(c, end), p);
    z->page_bytes = l.page_bytes;
    z->pages_per_block = l.pages_per_block;
    z->pages_per_slot = l.pages_per_slot;
    z->window_pages = l.window_pages;
}

static uint64_t token_bytes(const struct model_config *c, uint32_t begin,
                            uint32_t end, const struct kv_format *kv)
{
    uint64_t sum = 0;

    for (uint32_t i = begin; i < end + config_drafts_at(c, end); i++) {
        sum += c->mixers[i] == MIXER_ATTENTION ? sizes_kv(&c->shape, i, kv) : 0;
    }
    return sum;
}

struct sizes sizes_of(const struct model_config *c, uint32_t begin,
                      uint32_t end, uint32_t block_tokens,
                      const struct kv_format *kv)
{
    const struct model_shape *s = &c->shape;
    struct tally t = weights(c, begin, end);
    struct sizes z = {
        .n_attention = config_count(c, MIXER_ATTENTION, begin, end) +
                       config_drafts_at(c, end),
        .n_linear = config_count(c, MIXER_DELTANET, begin, end),
        .n_window = config_count(c, MIXER_WINDOW, begin, end),
        .parameters = t.parameters,
        .weight_bytes = t.bytes,
    };
    struct page_sizes p;

    assert(begin < end && end <= s->n_layers);
    assert(block_tokens >= 1 && block_tokens <= SIZES_BLOCK_TOKENS_MAX);
    z.token_bytes = token_bytes(c, begin, end, kv);
    z.block_bytes = z.token_bytes * block_tokens;
    z.window_bytes = z.n_window * block_tokens * sizes_window_kv(s, kv);
    if (z.n_linear > 0) {
        z.slot_bytes = z.n_linear * sizes_state(s, channels_of(s), kv->dtype);
        z.kept_bytes = z.n_linear * sizes_kept(s, kv->dtype);
    }
    z.checkpoint_bytes = z.slot_bytes;
    p = sizes_page(s, begin, end, block_tokens, kv);
    set_pages(&z, c, begin, end, &p);
    return z;
}

uint32_t sizes_window_blocks(uint32_t window, uint32_t chunk_tokens,
                             uint32_t block_tokens, uint32_t n_tokens)
{
    uint64_t all = ((uint64_t)n_tokens + block_tokens - 1) / block_tokens;
    uint64_t most =
        ((uint64_t)window + chunk_tokens + block_tokens - 1) / block_tokens + 1;

    return (uint32_t)(window == 0 ? 0 : all < most ? all : most);
}

uint64_t sizes_sequence(const struct sizes *s, const struct model_shape *shape,
                        uint32_t block_tokens, uint32_t chunk_tokens,
                        uint32_t n_tokens)
{
    uint64_t blocks = ((uint64_t)n_tokens + block_tokens - 1) / block_tokens;
    uint64_t windows =
        sizes_window_blocks(s->n_window > 0 ? shape->window : 0, chunk_tokens,
                            block_tokens, n_tokens);

    return blocks * s->block_bytes + windows * s->window_bytes + s->slot_bytes;
}
