#include "kernels/opencl/kv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/kv_codec.h"
#include "kernels/opencl/host/formats.h"
#include "kernels/opencl/pool.h"

/* A text under construction; full: it did not fit. */
struct text {
    char *out;
    size_t n;
    bool full;
};

__attribute__((format(printf, 2, 3))) static void append(struct text *t,
                                                         const char *fmt, ...)
{
    const size_t room = OPENCL_KV_DEFINES_MAX - t->n;
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(t->out + t->n, room, fmt, args);
    va_end(args);
    t->full = t->full || n < 0 || (size_t)n >= room;
    t->n += t->full ? 0 : (size_t)n;
}

/* Floats are written as their bits, which no compiler rounds. */
static void append_float(struct text *t, const char *before, float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    append(t, "%s0x%xu", before, (unsigned)bits);
}

static void append_book(struct text *t, char half, const struct kv_turbo *turbo)
{
    append(t, " -D%c_BOOK=", half);
    for (uint32_t i = 0; i < 1u << turbo->bits; i++) {
        append_float(t, i > 0 ? "," : "", turbo->centroids[i]);
    }
    append(t, " -D%c_SIGNS=", half);
    for (uint32_t i = 0; i < turbo->d; i += 32) {
        uint32_t word = 0;

        for (uint32_t j = 0; j < 32 && i + j < turbo->d; j++) {
            word |= (uint32_t)(turbo->signs[i + j] < 0.0f) << j;
        }
        append(t, "%s0x%xu", i > 0 ? "," : "", (unsigned)word);
    }
}

static void append_turbo(struct text *t, const struct opencl *c)
{
    const uint32_t hd = c->w->shape.head_dim;
    struct kv_turbo turbo;

    kv_turbo_make(&turbo, hd, c->kv.k_bits, KV_KEYS);
    append_book(t, 'K', &turbo);
    kv_turbo_make(&turbo, hd, c->kv.v_bits, KV_VALUES);
    append_book(t, 'V', &turbo);
    append_float(t, " -DUNIT=", turbo.unit);
}

enum status opencl_kv_defines(const struct opencl *c,
                              char out[OPENCL_KV_DEFINES_MAX], struct error *e)
{
    const struct kv_block b = opencl_kv_block(c, &c->kv);
    struct text t = {.out = out};

    append(&t, "-DKV_SCHEME=%d -DK_BITS=%u -DV_BITS=%u", (int)c->kv.scheme,
           b.k.bits, b.v.bits);
    append(&t, " -DK_BYTES=%u -DV_BYTES=%u -DK_PARAM=%u -DV_PARAM=%u",
           b.k.code_bytes, b.v.code_bytes, b.k.param_bytes, b.v.param_bytes);
    append(&t, " -DV_CODES=%llu -DK_PARAMS=%llu -DV_PARAMS=%llu",
           (unsigned long long)b.v_codes, (unsigned long long)b.k_params,
           (unsigned long long)b.v_params);
    if (c->kv.scheme == KV_AFFINE) {
        append(&t, " -DKV_GROUP=%u", c->kv.group);
    } else {
        append_turbo(&t, c);
    }
    return t.full ? error_set(e, ST_INTERNAL,
                              "the KV cache has too many "
                              "defines")
                  : ST_OK;
}
