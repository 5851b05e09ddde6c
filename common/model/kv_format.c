#include "common/model/kv_format.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const dtype_names[] = {
    [DTYPE_F32] = "f32", [DTYPE_BF16] = "bf16", [DTYPE_F16] = "f16"};

static enum status choose_dtype(struct kv_format *f,
                                const struct model_config *c, const char *text,
                                struct error *e)
{
    if (text == NULL || strcmp(text, "auto") == 0) {
        f->dtype = c->shape.dtype == DTYPE_BF16 ? DTYPE_BF16 : DTYPE_F32;
        return ST_OK;
    }
    for (size_t i = 0; i < sizeof dtype_names / sizeof dtype_names[0]; i++) {
        if (strcmp(text, dtype_names[i]) == 0) {
            f->dtype = (enum dtype)i;
            return ST_OK;
        }
    }
    return error_set(e, ST_INVALID_ARGUMENT,
                     "--kv-dtype %s: give auto, f32, f16 or bf16", text);
}

static enum status choose_scheme(struct kv_format *f,
                                 const struct kv_request *r, struct error *e)
{
    if (r->scheme == NULL) {
        f->scheme = r->bits == 0.0              ? KV_PLAIN
                    : floor(r->bits) == r->bits ? KV_AFFINE
                                                : KV_TURBOQUANT;
    } else if (strcmp(r->scheme, "affine") == 0) {
        f->scheme = KV_AFFINE;
    } else if (strcmp(r->scheme, "turboquant") == 0) {
        f->scheme = KV_TURBOQUANT;
    } else {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--kv-scheme %s: give affine or turboquant",
                         r->scheme);
    }
    return ST_OK;
}

/* Names the largest group that divides the head size. */
static enum status group_refused(uint32_t group, uint32_t head_dim,
                                 struct error *e)
{
    for (uint32_t g = KV_GROUP_MAX; g >= KV_GROUP_MIN; g /= 2) {
        if (head_dim % g == 0) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "--kv-group %u does not divide the head size %u; "
                             "give --kv-group %u",
                             group, head_dim, g);
        }
    }
    return error_set(e, ST_INVALID_ARGUMENT,
                     "--kv-scheme affine: the head size %u is no multiple of "
                     "%d, the smallest group; omit --kv-bits",
                     head_dim, KV_GROUP_MIN);
}

static enum status choose_affine(struct kv_format *f,
                                 const struct model_config *c,
                                 const struct kv_request *r, struct error *e)
{
    double bits = r->bits == 0.0 ? KV_BITS : r->bits;

    f->group = r->group > 0 ? r->group : KV_GROUP;
    if (bits != 8.0 && bits != 4.0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--kv-bits %g: affine values have 4 or 8 bits; give "
                         "4 or 8, or --kv-scheme turboquant for %d to %d",
                         bits, KV_TURBO_BITS_MIN, KV_TURBO_BITS_MAX);
    }
    if (f->group != KV_GROUP_MIN && f->group != KV_GROUP_MAX &&
        f->group != KV_GROUP) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--kv-group %u: give %d, %d or %d", f->group,
                         KV_GROUP_MIN, KV_GROUP, KV_GROUP_MAX);
    }
    if (c->shape.head_dim % f->group != 0) {
        return group_refused(f->group, c->shape.head_dim, e);
    }
    f->k_bits = f->v_bits = (uint32_t)bits;
    return ST_OK;
}

static enum status choose_turboquant(struct kv_format *f,
                                     const struct model_config *c,
                                     const struct kv_request *r,
                                     struct error *e)
{
    double bits = r->bits == 0.0 ? KV_TURBO_BITS : r->bits;
    uint32_t d = c->shape.head_dim;

    /* Written so that a bits value that is no number is refused. */
    if (!(bits >= KV_TURBO_BITS_MIN && bits <= KV_TURBO_BITS_MAX) ||
        floor(2 * bits) != 2 * bits) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--kv-bits %g: turboquant values have %d to %d bits "
                         "in steps of 0.5",
                         bits, KV_TURBO_BITS_MIN, KV_TURBO_BITS_MAX);
    }
    if (r->group > 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--kv-group %u: turboquant has no groups; omit the "
                         "option",
                         r->group);
    }
    if (d < KV_TURBO_DIM_MIN || (d & (d - 1)) != 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--kv-scheme turboquant: the head size %u is not %d "
                         "or a larger power of two; give --kv-scheme affine "
                         "--kv-bits 4",
                         d, KV_TURBO_DIM_MIN);
    }
    f->k_bits = (uint32_t)floor(bits);
    f->v_bits = (uint32_t)ceil(bits);
    return ST_OK;
}

/* Returns the last attention layer if there are more than two. */
static uint32_t whole_layer(const struct model_config *c)
{
    uint32_t n = 0, last = 0;

    for (uint32_t i = 0; i < c->shape.n_layers; i++) {
        if (mixer_memory(c->mixers[i]) == MIXER_IN_BLOCKS) {
            n++;
            last = i;
        }
    }
    return n > 2 ? last : KV_NO_LAYER;
}

static bool has_attention(const struct model_config *c)
{
    for (uint32_t i = 0; i < c->shape.n_layers; i++) {
        if (mixer_memory(c->mixers[i]) == MIXER_IN_BLOCKS) {
            return true;
        }
    }
    return false;
}

static enum status choose_values(struct kv_format *f,
                                 const struct model_config *c,
                                 const struct kv_request *r, struct error *e)
{
    if (f->scheme == KV_PLAIN) {
        return r->group == 0
                   ? ST_OK
                   : error_set(e, ST_INVALID_ARGUMENT,
                               "--kv-group %u: a cache without --kv-bits has "
                               "no groups; give --kv-bits 8 or 4, or omit the "
                               "option",
                               r->group);
    }
    if (!has_attention(c)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--kv-bits: the model has no attention layers, and "
                         "its recurrent states are not quantised; omit the "
                         "option");
    }
    f->whole = whole_layer(c);
    return f->scheme == KV_AFFINE ? choose_affine(f, c, r, e)
                                  : choose_turboquant(f, c, r, e);
}

enum status kv_format_choose(struct kv_format *f, const struct model_config *c,
                             const struct kv_request *r, struct error *e)
{
    enum status st;

    *f = (struct kv_format){.whole = KV_NO_LAYER};
    st = choose_dtype(f, c, r->dtype, e);
    if (st == ST_OK) {
        st = choose_scheme(f, r, e);
    }
    return st == ST_OK ? choose_values(f, c, r, e) : st;
}

struct kv_format kv_format_plain(enum dtype dtype)
{
    return (struct kv_format){.dtype = dtype, .whole = KV_NO_LAYER};
}

struct kv_format kv_format_of_layer(const struct kv_format *f, uint32_t layer)
{
    struct kv_format of = *f;

    if (f->scheme == KV_PLAIN || layer == f->whole) {
        return kv_format_plain(f->dtype);
    }
    of.whole = KV_NO_LAYER;
    return of;
}

bool kv_format_same(const struct kv_format *a, const struct kv_format *b)
{
    if (a->dtype != b->dtype || a->scheme != b->scheme) {
        return false;
    }
    return a->scheme == KV_PLAIN ||
           (a->k_bits == b->k_bits && a->v_bits == b->v_bits &&
            a->whole == b->whole &&
            (a->scheme != KV_AFFINE || a->group == b->group));
}

const char *kv_format_name(const struct kv_format *f, char out[KV_NAME_MAX])
{
    const char *dtype = dtype_names[f->dtype];

    if (f->scheme == KV_PLAIN) {
        snprintf(out, KV_NAME_MAX, "%s", dtype);
    } else if (f->scheme == KV_AFFINE) {
        snprintf(out, KV_NAME_MAX, "affine%u/%u+%s", f->k_bits, f->group,
                 dtype);
    } else {
        snprintf(out, KV_NAME_MAX, "turboquant%g+%s",
                 (f->k_bits + f->v_bits) / 2.0, dtype);
    }
    return out;
}

static struct kv_vector vector_of(const struct kv_format *f, uint32_t bits,
                                  uint32_t head_dim)
{
    uint32_t dtype = (uint32_t)dtype_bytes(f->dtype);

    if (f->scheme == KV_PLAIN) {
        return (struct kv_vector){.bits = 8 * dtype,
                                  .code_bytes = head_dim * dtype};
    }
    return (struct kv_vector){
        .bits = bits,
        .code_bytes = (head_dim * bits + 31) / 32 * 4,
        .param_bytes =
            f->scheme == KV_AFFINE ? head_dim / f->group * 2 * dtype : 2};
}

void kv_block_make(struct kv_block *b, const struct kv_format *f,
                   uint32_t n_kv_heads, uint32_t head_dim,
                   uint32_t block_tokens)
{
    uint64_t n = (uint64_t)n_kv_heads * block_tokens;

    *b = (struct kv_block){.k = vector_of(f, f->k_bits, head_dim),
                           .v = vector_of(f, f->v_bits, head_dim)};
    b->v_codes = n * b->k.code_bytes;
    b->k_params = b->v_codes + n * b->v.code_bytes;
    b->v_params = b->k_params + n * b->k.param_bytes;
    b->bytes = b->v_params + n * b->v.param_bytes;
}
