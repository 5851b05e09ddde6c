#include "worker/model/fingerprint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/quote.h"
#include "worker/model/document.h"

static void hash_u64(XXH3_state_t *h, uint64_t v)
{
    unsigned char b[8];

    for (int i = 0; i < 8; i++) {
        b[i] = (unsigned char)(v >> (8 * i));
    }
    XXH3_128bits_update(h, b, sizeof b);
}

static void hash_real(XXH3_state_t *h, double v)
{
    uint64_t bits;

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

/* Numbers as u64, reals as the bits of a double, in this order. */
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

static bool of_model(const struct model_config *c, const char *key)
{
    if (strncmp(key, "layers.", 7) == 0) {
        return strtoul(key + 7, NULL, 10) < c->shape.n_layers;
    }
    return strcmp(key, "embed_tokens.weight") == 0 ||
           strcmp(key, "norm.weight") == 0 ||
           (!c->tied && strcmp(key, "lm_head.weight") == 0);
}

static enum status hash_bytes(XXH3_state_t *h, int fd, uint64_t offset,
                              uint64_t bytes, struct error *e)
{
    char sample[3 * FINGERPRINT_SAMPLE];
    enum status st = document_pread(fd, sample, (size_t)bytes, offset, e);

    if (st == ST_OK) {
        XXH3_128bits_update(h, sample, (size_t)bytes);
    }
    return st;
}

static enum status hash_tensor(XXH3_state_t *h,
                               const struct checkpoint_tensor *t, int fd,
                               struct error *e)
{
    const char *dtype = safetensors_dtype_name(t->info->dtype);
    const uint64_t n = FINGERPRINT_SAMPLE;
    enum status st;

    XXH3_128bits_update(h, t->key, strlen(t->key) + 1);
    XXH3_128bits_update(h, dtype, strlen(dtype) + 1);
    hash_u64(h, t->info->rank);
    for (uint32_t i = 0; i < t->info->rank; i++) {
        hash_u64(h, t->info->dims[i]);
    }
    hash_u64(h, t->bytes);
    if (t->bytes <= 3 * n) {
        return hash_bytes(h, fd, t->offset, t->bytes, e);
    }
    st = hash_bytes(h, fd, t->offset, n, e);
    if (st == ST_OK) {
        st = hash_bytes(h, fd, t->offset + t->bytes / 2, n, e);
    }
    if (st == ST_OK) {
        st = hash_bytes(h, fd, t->offset + t->bytes - n, n, e);
    }
    return st;
}

enum status fingerprint_make(uint8_t out[FINGERPRINT_BYTES],
                             const struct model_config *c,
                             const struct checkpoint *checkpoint,
                             const int *fds, struct error *e)
{
    XXH3_state_t *h = XXH3_createState();
    XXH128_canonical_t canonical;
    enum status st = ST_OK;

    if (h == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "no memory for a hash");
    }
    XXH3_128bits_reset(h);
    hash_config(h, c);
    for (uint32_t i = 0; st == ST_OK && i < checkpoint->n_tensors; i++) {
        const struct checkpoint_tensor *t = &checkpoint->tensors[i];

        if (of_model(c, t->key)) {
            st = hash_tensor(h, t, fds[t->file], e);
        }
        if (st != ST_OK) {
            (void)error_wrap(e, "tensor %s", quote(t->info->name).text);
        }
    }
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(h));
    memcpy(out, canonical.digest, FINGERPRINT_BYTES);
    XXH3_freeState(h);
    return st;
}
