#include "worker/model/fingerprint.h"

#include <stdbool.h>
#include <string.h>
#include <xxhash.h>

static void hash_u64(XXH3_state_t *h, uint64_t v)
{
    unsigned char b[8];

    /* Byte by byte, so that the value does not depend on the machine. */
    for (int i = 0; i < 8; i++) {
        b[i] = (unsigned char)(v >> (8 * i));
    }
    XXH3_128bits_update(h, b, sizeof b);
}

static void hash_real(XXH3_state_t *h, double v)
{
    uint64_t bits;

    /* The bits, because a decimal form could round. */
    memcpy(&bits, &v, sizeof bits);
    hash_u64(h, bits);
}

static void hash_rope(XXH3_state_t *h, const struct rope_shape *r)
{
    hash_u64(h, r->kind);
    hash_u64(h, r->dim);
    hash_u64(h, r->original);
    hash_real(h, r->theta);
    hash_real(h, r->factor);
    hash_real(h, r->low_freq);
    hash_real(h, r->high_freq);
}

/* Returns whether the model has more than dense layers, full attention and
 * Gated DeltaNets, or computes them differently. */
static bool has_more(const struct model_config *c)
{
    const struct model_shape *s = &c->shape;

    return s->n_experts > 0 || s->window > 0 || c->sinks || c->output_norms ||
           s->activation.kind != ACTIVATION_SILU || s->rope.kind == ROPE_YARN ||
           s->attn_scale != 0 || s->attn_cap != 0 || s->stream.embed != 0 ||
           s->stream.cap != 0;
}

static void hash_yarn(XXH3_state_t *h, const struct rope_shape *r)
{
    hash_real(h, r->beta_fast);
    hash_real(h, r->beta_slow);
    hash_real(h, r->attention);
    hash_u64(h, r->truncate);
}

/* Models without any of these keep the fingerprint that they had before these
 * were supported. */
static void hash_more(XXH3_state_t *h, const struct model_config *c)
{
    const struct model_shape *s = &c->shape;
    const uint64_t numbers[] = {
        s->window,       s->activation.kind,   s->n_experts,
        s->top_k,        s->expert_dim,        s->shared_dim,
        s->top_k_normed, s->gate_up_alternate, c->sinks,
        c->output_norms, c->expert_bias,       c->shared_gate,
    };
    const float reals[] = {s->attn_scale,       s->attn_cap,
                           s->activation.alpha, s->activation.limit,
                           s->stream.embed,     s->stream.cap};

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        hash_u64(h, numbers[i]);
    }
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        hash_real(h, (double)reals[i]);
    }
    hash_yarn(h, &s->rope);
    hash_rope(h, &s->window_rope);
    hash_yarn(h, &s->window_rope);
    for (uint32_t i = 0; i < s->n_layers; i++) {
        hash_u64(h, c->ffns[i]);
    }
}

/* Details of later families, each with its name, so that models without it keep
 * their fingerprint. */
static void hash_detail(XXH3_state_t *h, const char *name, double v)
{
    if (v != 0) {
        XXH3_128bits_update(h, name, strlen(name) + 1);
        hash_real(h, v);
    }
}

static void hash_details(XXH3_state_t *h, const struct model_config *c)
{
    const struct stream_shape *s = &c->shape.stream;
    const struct attention_shape *a = &c->shape.attention;

    hash_detail(h, "residual", (double)s->residual);
    hash_detail(h, "logits", (double)s->logits);
    hash_detail(h, "late norm", a->late_norm);
    hash_detail(h, "whole norm", a->whole_norm);
    hash_detail(h, "query beta", a->query_beta);
    hash_detail(h, "query original", a->query_original);
    hash_detail(h, "bare inputs", c->bare_inputs);
}

/* Hashes numbers as u64 and reals as the bits of a double.  The order is part
 * of the fingerprint and never changes. */
static void hash_config(XXH3_state_t *h, const struct model_config *c)
{
    const struct model_shape *s = &c->shape;
    const uint64_t numbers[] = {
        s->n_layers,   s->hidden,    s->intermediate, s->vocab,
        s->dtype,      s->n_heads,   s->n_kv_heads,   s->head_dim,
        s->attn_gated, s->n_k_heads, s->n_v_heads,    s->k_dim,
        s->v_dim,      s->conv,      c->tied,         c->qkv_bias,
        c->o_bias,     c->qk_norm,
    };

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        hash_u64(h, numbers[i]);
    }
    hash_real(h, (double)s->norm_eps);
    hash_rope(h, &s->rope);
    for (uint32_t i = 0; i < s->n_layers; i++) {
        hash_u64(h, c->mixers[i]);
    }
    if (has_more(c)) {
        hash_more(h, c);
    }
    hash_details(h, c);
}

static void hash_tensor(XXH3_state_t *h, const struct checkpoint_tensor *t,
                        const struct load_digest *digest)
{
    const char *dtype = checkpoint_dtype_name(t);

    /* The terminating 0 is hashed too, so that no key is a prefix of another.
     */
    XXH3_128bits_update(h, t->key, strlen(t->key) + 1);
    XXH3_128bits_update(h, dtype, strlen(dtype) + 1);
    hash_u64(h, t->info->rank);
    for (uint32_t i = 0; i < t->info->rank; i++) {
        hash_u64(h, t->info->dims[i]);
    }
    hash_u64(h, t->bytes);
    XXH3_128bits_update(h, digest->bytes, sizeof digest->bytes);
}

enum status fingerprint_make(uint8_t out[FINGERPRINT_BYTES],
                             const struct model_config *c,
                             const struct checkpoint *checkpoint,
                             const struct load_digest *digests, struct error *e)
{
    XXH3_state_t *h = XXH3_createState();
    XXH128_canonical_t canonical;

    if (h == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    XXH3_128bits_reset(h);
    hash_config(h, c);
    for (uint32_t i = 0; i < checkpoint->n_tensors; i++) {
        /* Tensors without a digest are not part of the model.  Nor is the MTP
         * layer: a model with drafts has the tokens of one without. */
        if (digests[i].known &&
            !checkpoint_is_mtp(checkpoint->tensors[i].key)) {
            hash_tensor(h, &checkpoint->tensors[i], &digests[i]);
        }
    }
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(h));
    memcpy(out, canonical.digest, FINGERPRINT_BYTES);
    XXH3_freeState(h);
    return ST_OK;
}
