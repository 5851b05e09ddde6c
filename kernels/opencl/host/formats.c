#include "kernels/opencl/host/formats.h"

struct kv_format opencl_kv_format(const struct opencl *c, uint32_t layer)
{
    /* Windows are never quantised. */
    return mixer_memory(c->w->layers[layer].kind) == MIXER_IN_WINDOWS
               ? kv_format_plain(c->kv_dtype)
               : kv_format_of_layer(&c->kv, c->w->begin + layer);
}

bool opencl_is_quantised(const struct opencl *c, uint32_t layer)
{
    return mixer_memory(c->w->layers[layer].kind) == MIXER_IN_BLOCKS &&
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
    const bool is_window =
        mixer_memory(c->w->layers[layer].kind) == MIXER_IN_WINDOWS;
    uint64_t n = 0;

    for (uint32_t i = first; i < end; i++) {
        const struct kernel_row *r = &c->step.rows[i];
        const uint32_t most = c->w->shape.window + r->n_tokens - 1;
        const uint32_t context = r->position + r->n_tokens;

        n += is_window && most < context ? most : context;
    }
    return n * opencl_kv_block(c, &f).bytes / c->block_tokens;
}
