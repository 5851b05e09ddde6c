#include "kernels/opencl/host/formats.h"

struct kv_format opencl_kv_format(const struct opencl *c, uint32_t layer)
{
    return kv_format_of_layer(&c->kv, c->w->begin + layer);
}

bool opencl_is_quantised(const struct opencl *c, uint32_t layer)
{
    return c->w->layers[layer].kind == MIXER_ATTENTION &&
           opencl_kv_format(c, layer).scheme != KV_PLAIN;
}

struct kv_block opencl_kv_block(const struct opencl *c,
                                const struct kv_format *f)
{
    struct kv_block b;

    kv_block_make(&b, f, c->w->shape.n_kv_heads, c->w->shape.head_dim,
                  c->block_tokens);
    return b;
}

uint64_t opencl_context_bytes(const struct opencl *c, uint32_t layer,
                              uint32_t first, uint32_t end)
{
    const struct kv_format f = opencl_kv_format(c, layer);
    uint64_t n = 0;

    for (uint32_t i = first; i < end; i++) {
        n += c->step.rows[i].position + c->step.rows[i].n_tokens;
    }
    return n * opencl_kv_block(c, &f).bytes / c->block_tokens;
}
