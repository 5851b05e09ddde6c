#include "common/model/sizes.h"

#include <assert.h>

#include "common/model/layout.h"

/* Weights tensor by tensor, as layout.c places them. */
struct tally {
    enum dtype dtype;
    struct quantisation quant;
    uint64_t parameters, bytes;
};

/* Aligned as layout.c aligns, so that the sum is the shard's memory exactly. */
static void add(struct tally *t, uint64_t bytes)
{
    bytes += LAYOUT_ALIGN - 1;
    t->bytes += bytes - bytes % LAYOUT_ALIGN;
}

static void matrix(struct tally *t, uint64_t rows, uint64_t cols)
{
    const struct quantisation *q = &t->quant;

    t->parameters += rows * cols;
    /* Words, scales and biases are separate planes, each aligned. */
    if (q->bits > 0 && cols % q->group == 0) {
        add(t, rows * cols * q->bits / 8);
        add(t, rows * (cols / q->group) * dtype_bytes(t->dtype));
        add(t, rows * (cols / q->group) * dtype_bytes(t->dtype));
    } else {
        add(t, rows * cols * dtype_bytes(t->dtype));
    }
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
 * norms. */
static void attention(struct tally *t, const struct model_config *c)
{
    const struct model_shape *s = &c->shape;
    uint64_t q = (uint64_t)s->n_heads * s->head_dim;
    /* A gated layer projects query and gate with one matrix. */
    uint64_t rows = s->attn_gated ? 2 * q : q;
    uint64_t kv = (uint64_t)s->n_kv_heads * s->head_dim;

    matrix(t, rows, s->hidden);
    matrix(t, kv, s->hidden);
    matrix(t, kv, s->hidden);
    matrix(t, s->hidden, q);
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
}

/* The tensors: qkv, z, b, a, out, conv, a_log, dt_bias, norm. */
static void deltanet(struct tally *t, const struct model_shape *s)
{
    uint64_t values = (uint64_t)s->n_v_heads * s->v_dim;

    matrix(t, channels_of(s), s->hidden);
    matrix(t, values, s->hidden);
    matrix(t, s->n_v_heads, s->hidden);
    matrix(t, s->n_v_heads, s->hidden);
    matrix(t, s->hidden, values);
    vector(t, (uint64_t)channels_of(s) * s->conv);
    vector(t, s->n_v_heads);
    vector(t, s->n_v_heads);
    vector(t, s->v_dim);
}

static void layer(struct tally *t, const struct model_config *c, uint32_t i)
{
    const struct model_shape *s = &c->shape;

    if (c->mixers[i] == MIXER_ATTENTION) {
        attention(t, c);
    } else {
        deltanet(t, s);
    }
    vector(t, s->hidden);
    vector(t, s->hidden);
    matrix(t, s->intermediate, s->hidden);
    matrix(t, s->intermediate, s->hidden);
    matrix(t, s->hidden, s->intermediate);
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

    layer(&t, c, i);
    return t.bytes;
}

uint64_t sizes_embedding(const struct model_config *c)
{
    struct tally t = {.dtype = c->shape.dtype, .quant = c->quant};

    matrix(&t, c->shape.vocab, c->shape.hidden);
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
    const struct model_shape *s = &c->shape;
    struct tally t = {.dtype = s->dtype, .quant = c->quant};

    for (uint32_t i = begin; i < end; i++) {
        layer(&t, c, i);
    }
    if (begin == 0) {
        matrix(&t, s->vocab, s->hidden);
    }
    if (end == s->n_layers) {
        vector(&t, s->hidden);
        /* A tied head is the embedding; a last stage without the first layer
         * needs its own copy. */
        if (!c->tied || begin > 0) {
            matrix(&t, s->vocab, s->hidden);
        }
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

uint64_t sizes_state(const struct model_shape *s, uint32_t channels,
                     enum dtype tail_dtype)
{
    uint64_t state = (uint64_t)s->n_v_heads * s->k_dim * s->v_dim;
    uint64_t tail = (uint64_t)(s->conv - 1) * channels;

    /* The state accumulates over the whole sequence, so it stays float32. */
    return state * sizeof(float) + tail * dtype_bytes(tail_dtype);
}

struct page_sizes sizes_page(const struct model_shape *s, uint32_t begin,
                             uint32_t end, uint32_t block_tokens,
                             const struct kv_format *kv)
{
    uint64_t state =
        (uint64_t)s->n_v_heads * s->k_dim * s->v_dim * sizeof(float);
    /* Any layer but the whole one. */
    uint32_t other = kv->whole == 0 ? 1 : 0;
    struct page_sizes p = {.kv_bytes = block_tokens * sizes_kv(s, other, kv)};

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

static void set_pages(struct sizes *z, const struct model_config *c,
                      uint32_t begin, uint32_t end, const struct page_sizes *p)
{
    struct page_layout l;

    page_layout_make(&l, c->mixers + begin, end - begin, p);
    z->page_bytes = l.page_bytes;
    z->pages_per_block = l.pages_per_block;
    z->pages_per_slot = l.pages_per_slot;
}

static uint64_t token_bytes(const struct model_config *c, uint32_t begin,
                            uint32_t end, const struct kv_format *kv)
{
    uint64_t sum = 0;

    for (uint32_t i = begin; i < end; i++) {
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
        .n_attention = config_count(c, MIXER_ATTENTION, begin, end),
        .n_linear = config_count(c, MIXER_DELTANET, begin, end),
        .parameters = t.parameters,
        .weight_bytes = t.bytes,
    };
    struct page_sizes p;

    assert(begin < end && end <= s->n_layers);
    assert(block_tokens >= 1 && block_tokens <= SIZES_BLOCK_TOKENS_MAX);
    z.token_bytes = token_bytes(c, begin, end, kv);
    z.block_bytes = z.token_bytes * block_tokens;
    if (z.n_linear > 0) {
        z.slot_bytes = z.n_linear * sizes_state(s, channels_of(s), kv->dtype);
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
    uint64_t windows = sizes_window_blocks(shape->window, chunk_tokens,
                                           block_tokens, n_tokens);

    return blocks * s->block_bytes + windows * s->window_bytes + s->slot_bytes;
}
