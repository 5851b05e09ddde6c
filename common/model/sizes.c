#include "common/model/sizes.h"

#include <assert.h>

#include "common/model/ffn.h"
#include "common/model/mixer.h"
#include "common/model/tally.h"

/* Adds a layer with n of its experts. */
static void layer(struct tally *t, const struct model_config *c, uint32_t i,
                  uint32_t n)
{
    const struct mixer *m = mixer_rows[c->mixers[i]];

    if (m->tally != NULL) {
        m->tally(t, c);
    }
    for (int k = 0; k < (c->output_norms && !c->bare_inputs ? 4 : 2); k++) {
        tally_vector(t, c->shape.hidden);
    }
    ffn_rows[c->ffns[i]]->tally(t, c, n);
}

/* Adds the MTP layer: fc, its layer and the norms of both inputs and of the
 * output. */
static void mtp(struct tally *t, const struct model_config *c)
{
    uint32_t hidden = c->shape.hidden;

    tally_matrix(t, hidden, 2 * hidden,
                 TALLY_ROUTER); /* as plain as a router */
    for (int i = 0; i < 3; i++) {
        tally_vector(t, hidden);
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
        tally_matrix(t, s->vocab, s->hidden, TALLY_ENDS);
    }
    if (end == s->n_layers) {
        tally_vector(t, s->hidden);
        /* A tied head is the embedding; a last stage without it needs its own
         * copy. */
        if (!c->tied || !embeds) {
            tally_matrix(t, s->vocab, s->hidden, TALLY_ENDS);
        }
    }
}

enum status sizes_check_slots(const struct model_config *c, uint32_t slots,
                              struct error *e)
{
    return slots == 0 || config_count(c, MIXER_IN_SLOT, 0, c->shape.n_layers)
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
    const struct ffn *f = ffn_rows[c->ffns[i]];
    struct tally t = {.dtype = c->shape.dtype, .quant = c->quant};

    if (f->tally_chosen != NULL) {
        f->tally_chosen(&t, c);
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

    tally_matrix(&t, c->shape.vocab, c->shape.hidden, TALLY_ENDS);
    return t.bytes;
}

uint64_t sizes_last_norm(const struct model_config *c)
{
    struct tally t = {.dtype = c->shape.dtype, .quant = c->quant};

    tally_vector(&t, c->shape.hidden);
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

/* Returns one token's keys and values in a layer with such memory.  A shape has
 * sizes of at most one kind with blocks; of the others they are 0. */
static uint64_t widest_kv(const struct model_shape *s, enum mixer_memory memory,
                          const struct kv_format *f)
{
    uint64_t most = 0;

    for (int kind = 0; kind < MIXER_KINDS; kind++) {
        if (mixer_memory((enum mixer_kind)kind) == memory) {
            uint64_t kv = mixer_rows[kind]->kv(s, f);

            most = kv > most ? kv : most;
        }
    }
    return most;
}

uint64_t sizes_kv(const struct model_shape *s, uint32_t layer,
                  const struct kv_format *kv)
{
    struct kv_format f = kv_format_of_layer(kv, layer);

    return widest_kv(s, MIXER_IN_BLOCKS, &f);
}

uint64_t sizes_window_kv(const struct model_shape *s,
                         const struct kv_format *kv)
{
    struct kv_format f = kv_format_plain(kv->dtype);

    return widest_kv(s, MIXER_IN_WINDOWS, &f);
}

struct mixer_slot sizes_slot(const struct model_shape *s, enum mixer_kind kind,
                             enum dtype dtype)
{
    struct mixer_slot slot = {{0}};

    if (mixer_memory(kind) == MIXER_IN_SLOT) {
        mixer_rows[kind]->slot(s, dtype, &slot);
    }
    return slot;
}

uint64_t sizes_state(const struct model_shape *s, enum mixer_kind kind,
                     enum dtype dtype)
{
    struct mixer_slot slot = sizes_slot(s, kind, dtype);
    uint64_t sum = 0;

    for (uint32_t i = 0; i < MIXER_PARTS_MAX; i++) {
        sum += slot.parts[i];
    }
    return sum;
}

uint64_t sizes_kept(const struct model_shape *s, enum mixer_kind kind,
                    enum dtype dtype)
{
    const struct mixer *m = mixer_rows[kind];

    return m->kept != NULL ? m->kept(s, dtype) : 0;
}

struct page_sizes sizes_page(const struct model_shape *s, uint32_t begin,
                             uint32_t end, uint32_t block_tokens,
                             const struct kv_format *kv)
{
    /* Any layer but the whole one. */
    uint32_t other = kv->whole == 0 ? 1 : 0;
    struct page_sizes p = {.kv_bytes = block_tokens * sizes_kv(s, other, kv),
                           .window_bytes =
                               block_tokens * sizes_window_kv(s, kv)};

    if (kv->scheme != KV_PLAIN && kv->whole >= begin && kv->whole < end) {
        p.whole = 1 + kv->whole - begin;
        p.whole_bytes = block_tokens * sizes_kv(s, kv->whole, kv);
    }
    for (int kind = 0; kind < MIXER_KINDS; kind++) {
        p.slots[kind] = sizes_slot(s, (enum mixer_kind)kind, kv->dtype);
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
        if (mixer_memory(c->mixers[i]) == MIXER_IN_BLOCKS) {
            sum += sizes_kv(&c->shape, i, kv);
        }
    }
    return sum;
}

static void add_slots(struct sizes *z, const struct model_config *c,
                      uint32_t begin, uint32_t end, enum dtype dtype)
{
    for (uint32_t i = begin; i < end; i++) {
        z->slot_bytes += sizes_state(&c->shape, c->mixers[i], dtype);
        z->kept_bytes += sizes_kept(&c->shape, c->mixers[i], dtype);
    }
}

struct sizes sizes_of(const struct model_config *c, uint32_t begin,
                      uint32_t end, uint32_t block_tokens,
                      const struct kv_format *kv)
{
    const struct model_shape *s = &c->shape;
    struct tally t = weights(c, begin, end);
    struct sizes z = {
        .n_attention = config_count(c, MIXER_IN_BLOCKS, begin, end) +
                       config_drafts_at(c, end),
        .n_linear = config_count(c, MIXER_IN_SLOT, begin, end),
        .n_window = config_count(c, MIXER_IN_WINDOWS, begin, end),
        .parameters = t.parameters,
        .weight_bytes = t.bytes,
    };
    struct page_sizes p;

    assert(begin < end && end <= s->n_layers);
    assert(block_tokens >= 1 && block_tokens <= SIZES_BLOCK_TOKENS_MAX);
    z.token_bytes = token_bytes(c, begin, end, kv);
    z.block_bytes = z.token_bytes * block_tokens;
    z.window_bytes = z.n_window * block_tokens * sizes_window_kv(s, kv);
    add_slots(&z, c, begin, end, kv->dtype);
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
