#include "common/model/maker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/quote.h"
#include "common/model/layout_types.h"

/* ---- tensors ---- */

/* Tensors that stay unused are reported at the end. */
void maker_use(struct maker *m, const struct checkpoint_tensor *t)
{
    m->used[t - m->checkpoint->tensors] = true;
    m->layout->n_tensors++;
}

const struct checkpoint_tensor *maker_find(struct maker *m, const char *key)
{
    const struct checkpoint_tensor *t =
        m->status == ST_OK ? checkpoint_find(m->checkpoint, key) : NULL;

    if (t == NULL) {
        MAKER_FAULT(m, ST_NOT_FOUND, "tensor \"%s\" is missing", key);
        return NULL;
    }
    maker_use(m, t);
    return t;
}

const struct checkpoint_tensor *maker_find_in_layer(struct maker *m,
                                                    const char *name)
{
    char key[MAKER_KEY_MAX];

    snprintf(key, sizeof key, "%slayers.%u.%s", m->root, m->layer, name);
    return maker_find(m, key);
}

bool maker_has(const struct maker *m, const char *name)
{
    char key[MAKER_KEY_MAX];

    snprintf(key, sizeof key, "%slayers.%u.%s", m->root, m->layer, name);
    return checkpoint_find(m->checkpoint, key) != NULL;
}

const struct checkpoint_tensor *maker_beside(const struct maker *m,
                                             const struct checkpoint_tensor *t,
                                             const char *end, const char *other)
{
    size_t n = strlen(t->key), tail = strlen(end);
    char key[MAKER_KEY_MAX];

    if (n < tail || strcmp(t->key + n - tail, end) != 0) {
        return NULL;
    }
    snprintf(key, sizeof key, "%.*s%s", (int)(n - tail), t->key, other);
    return checkpoint_find(m->checkpoint, key);
}

/* Names the cause: U32 words alone are a common sight, an MLX checkpoint whose
 * config.json lost its quantization. */
static const char *dtype_hint(const struct maker *m, enum safetensors_dtype t)
{
    bool affine =
        m->config->quant.format == WEIGHT_AFFINE && m->config->quant.bits > 0;
    bool fp8 = m->config->quant.format == WEIGHT_FP8;

    if (t == SAFETENSORS_U32) {
        return affine ? ", or U32 beside scales and biases"
                      : ", and config.json has no quantization";
    }
    if (t == SAFETENSORS_F8_E4M3) {
        return fp8 ? ", or F8_E4M3 for matrices beside weight_scale_inv"
                   : ", and config.json has no quantization_config of fp8";
    }
    return "";
}

bool maker_dtype(struct maker *m, const struct checkpoint_tensor *t,
                 enum dtype *out)
{
    switch ((int)t->info->dtype) {
    case SAFETENSORS_F32:
        *out = DTYPE_F32;
        return true;
    case SAFETENSORS_BF16:
        *out = DTYPE_BF16;
        return true;
    case SAFETENSORS_F16:
        *out = DTYPE_F16;
        return true;
    default:
        MAKER_FAULT(m, ST_INVALID_ARGUMENT,
                    "%s: tensor %s is %s; F32, BF16 and F16 are supported%s",
                    quote(m->checkpoint->files[t->file].name).text,
                    quote(t->info->name).text, checkpoint_dtype_name(t),
                    dtype_hint(m, t->info->dtype));
        return false;
    }
}

bool maker_is(const struct checkpoint_tensor *t, uint32_t n,
              const uint64_t *dims)
{
    bool same = t->info->rank == n;

    for (uint32_t i = 0; same && i < n; i++) {
        same = t->info->dims[i] == dims[i];
    }
    return same;
}

struct shape_text {
    char text[SAFETENSORS_RANK_MAX * 22 + 3];
};

static struct shape_text shape_text(uint32_t n, const uint64_t *dims)
{
    struct shape_text s;
    size_t at = 0;

    for (uint32_t i = 0; i < n; i++) {
        at += (size_t)snprintf(s.text + at, sizeof s.text - at, "%s%llu",
                               i > 0 ? ", " : "[", (unsigned long long)dims[i]);
    }
    snprintf(s.text + at, sizeof s.text - at, "%s", n > 0 ? "]" : "[]");
    return s;
}

/* Both shapes are printed: the reader has to decide which of the two files is
 * wrong. */
void maker_shape_fault(struct maker *m, const struct checkpoint_tensor *t,
                       uint32_t n, const uint64_t *dims)
{
    MAKER_FAULT(m, ST_INVALID_ARGUMENT,
                "%s: tensor %s is %s, the configuration needs %s",
                quote(m->checkpoint->files[t->file].name).text,
                quote(t->info->name).text,
                shape_text(t->info->rank, t->info->dims).text,
                shape_text(n, dims).text);
}

/* ---- places ---- */

uint64_t maker_reserve(struct maker *m, uint64_t bytes)
{
    uint64_t place = m->layout->bytes;

    m->layout->bytes += layout_aligned(bytes);
    return place;
}

uint64_t maker_reserve_scratch(struct maker *m, uint64_t bytes)
{
    uint64_t place = m->layout->scratch_bytes;

    m->layout->scratch_bytes += layout_aligned(bytes);
    return place;
}

/* Returns a list with room for one more of n elements, or NULL after a fault.
 */
static void *more(struct maker *m, void *list, uint32_t n, uint32_t *room,
                  size_t bytes)
{
    void *grown;

    if (m->status != ST_OK || n < *room) {
        return m->status == ST_OK ? list : NULL;
    }
    grown = realloc(list, ((size_t)*room * 2 + 64) * bytes);
    if (grown == NULL) {
        MAKER_FAULT(m, ST_RESOURCE_EXHAUSTED, "no memory for a layout");
        return NULL;
    }
    *room = *room * 2 + 64;
    return grown;
}

void maker_add_slice(struct maker *m, const struct slice *s)
{
    struct layout *l = m->layout;
    struct slice *list = more(m, l->slices, l->n, &l->room, sizeof *list);

    if (list != NULL) {
        l->slices = list;
        l->slices[l->n++] = *s;
        l->file_bytes += s->bytes;
    }
}

void maker_add_spread(struct maker *m, const struct spread *s)
{
    struct layout *l = m->layout;
    struct spread *list =
        more(m, l->spreads, l->n_spreads, &l->spread_room, sizeof *list);

    if (list != NULL) {
        l->spreads = list;
        l->spreads[l->n_spreads++] = *s;
    }
}

void maker_add_anchor(struct maker *m, const struct anchor *a)
{
    struct layout *l = m->layout;
    struct anchor *list =
        more(m, l->anchors, l->n_anchors, &l->anchor_room, sizeof *list);

    if (list != NULL) {
        l->anchors = list;
        l->anchors[l->n_anchors++] = *a;
    }
}

/* ---- vectors ---- */

/* Vectors are widened: they are small, and kernels add and multiply them in
 * float32. */
void maker_elements(struct maker *m, const float **out,
                    const struct checkpoint_tensor *t, uint32_t n, float add)
{
    struct slice s = {
        .source = t, .widen = true, .add = add, .guess = m->guess && add != 0};

    if (t == NULL || !maker_dtype(m, t, &s.dtype)) {
        return;
    }
    if (t->form != NULL) {
        maker_elements_gguf(m, out, t, n);
        return;
    }
    s.bytes = (uint64_t)n * dtype_bytes(s.dtype);
    s.place = maker_reserve(m, (uint64_t)n * sizeof **out);
    maker_add_slice(m, &s);
    maker_add_anchor(m, &(struct anchor){.place = s.place, .vector = out});
}

void maker_vector_of(struct maker *m, const float **out,
                     const struct checkpoint_tensor *t, uint32_t n, float add)
{
    const uint64_t dims[] = {n};

    if (t != NULL && !maker_is(t, 1, dims)) {
        maker_shape_fault(m, t, 1, dims);
        return;
    }
    maker_elements(m, out, t, n, add);
}

void maker_vector(struct maker *m, const float **out, const char *name,
                  uint32_t n)
{
    maker_vector_of(m, out, maker_find_in_layer(m, name), n, 0);
}

/* Norms inside an attention layer are shifted too; only a Gated DeltaNet's
 * own norm is not. */
void maker_norm(struct maker *m, const float **out, const char *name,
                uint32_t n)
{
    maker_vector_of(m, out, maker_find_in_layer(m, name), n, m->shift);
}
