#include "worker/model/fingerprint.h"

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
        /* Tensors without a digest are not part of the model. */
        if (digests[i].known) {
            hash_tensor(h, &checkpoint->tensors[i], &digests[i]);
        }
    }
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(h));
    memcpy(out, canonical.digest, FINGERPRINT_BYTES);
    XXH3_freeState(h);
    return ST_OK;
}
