#include "kernels/opencl/pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/sizes.h"
#include "kernels/opencl/host/copies.h"
#include "kernels/opencl/host/formats.h"

static uint32_t n_layers(const struct opencl *c)
{
    return shard_layers(c->w);
}

static size_t channels(const struct opencl *c)
{
    const struct model_shape *s = &c->w->shape;

    return (size_t)2 * s->n_k_heads * s->k_dim +
           (size_t)s->n_v_heads * s->v_dim;
}

size_t opencl_kv_bytes(const struct opencl *c)
{
    const struct kv_format plain = kv_format_plain(c->kv_dtype);

    return opencl_kv_block(c, &plain).bytes;
}

size_t opencl_state_bytes(const struct opencl *c)
{
    const struct model_shape *s = &c->w->shape;

    return (size_t)s->n_v_heads * s->k_dim * s->v_dim * sizeof(float);
}

size_t opencl_tail_bytes(const struct opencl *c)
{
    return (c->w->shape.conv - 1) * channels(c) * dtype_bytes(c->kv_dtype);
}

void opencl_pool_layout(struct opencl *c)
{
    enum mixer_kind kinds[PAGE_LAYERS_MAX];
    const struct page_sizes sizes = sizes_page(
        &c->w->shape, c->w->begin, c->w->end, c->block_tokens, &c->kv);

    assert(n_layers(c) <= PAGE_LAYERS_MAX);
    for (uint32_t i = 0; i < n_layers(c); i++) {
        kinds[i] = c->w->layers[i].kind;
    }
    page_layout_make(&c->cache.pages, kinds, n_layers(c), &sizes);
}

uint32_t opencl_pool_most(const struct opencl *c)
{
    /* As opencl_arena_make() compares. */
    uint64_t largest = c->device.largest / OPENCL_ALIGN * OPENCL_ALIGN;
    uint64_t most = SHARD_CLASS_MAX;

    for (uint32_t i = 0; i < c->cache.pages.n_groups; i++) {
        uint64_t n = largest / c->cache.pages.groups[i].page_bytes;

        most = n < most ? n : most;
    }
    return (uint32_t)most;
}

/* Returns the view of `group` from byte `at` of page 0. */
static struct opencl_tensor view_of(const struct opencl_tensor *group,
                                    uint64_t at, size_t item, enum dtype dtype)
{
    return (struct opencl_tensor){.mem = group->mem,
                                  .at = group->at + at,
                                  .item = item,
                                  .dtype = dtype,
                                  .rows = group->rows,
                                  .cols = (uint32_t)(group->cols / item)};
}

/* Points the layers to their places in the groups, which may be absent. */
static void view_layers(struct opencl *c)
{
    size_t item = dtype_bytes(c->kv_dtype);

    for (uint32_t i = 0; i < n_layers(c); i++) {
        struct opencl_layer *l = &c->model.layers[i];
        const struct page_layer *p = &c->cache.pages.layers[i];
        const struct opencl_tensor *g = &c->cache.groups[p->group];

        if (opencl_is_quantised(c, i)) {
            l->kv = view_of(g, p->at[0], 1, c->kv_dtype);
        } else if (mixer_attends(l->kind)) {
            l->kv = view_of(g, p->at[0], item, c->kv_dtype);
        } else {
            l->state = view_of(g, p->at[0], sizeof(float), DTYPE_F32);
            l->tail = view_of(g, p->at[1], item, c->kv_dtype);
        }
    }
}

enum status opencl_alloc(struct kernels *k, uint32_t n_pages, struct error *e)
{
    struct opencl *c = opencl_of(k);
    enum status st;

    opencl_copies_finish(c);
    opencl_arena_free(&c->cache.arena);
    c->cache.arena = opencl_arena_new("pool");
    for (uint32_t i = 0; i < c->cache.pages.n_groups; i++) {
        opencl_arena_add(c->cache.arena, &c->cache.groups[i], n_pages,
                         c->cache.pages.groups[i].page_bytes, 1);
    }
    st = opencl_arena_make(c, c->cache.arena, e);
    if (st != ST_OK) {
        opencl_arena_free(&c->cache.arena);
    }
    c->cache.n_pages = st == ST_OK ? n_pages : 0;
    view_layers(c);
    c->cache.moved = true;
    return st == ST_OK ? ST_OK
                       : error_wrap(e, "allocate a pool of %u pages", n_pages);
}

/* ---- pages ---- */

static bool has_pages(const struct opencl *c, uint32_t first, uint32_t n)
{
    return first <= c->cache.n_pages && n <= c->cache.n_pages - first;
}

/* Makes the commands that follow wait for copies of n pages. */
static void use_pages(struct opencl *c, uint32_t first, uint32_t n)
{
    opencl_copies_use(c, first, n);
    opencl_copies_order(c);
}

void opencl_zero_slot(struct kernels *k, uint32_t slot)
{
    struct opencl *c = opencl_of(k);

    assert(has_pages(c, slot, c->cache.pages.pages_per_slot));
    use_pages(c, slot, c->cache.pages.pages_per_slot);
    for (uint32_t i = 0; i < c->cache.pages.n_groups; i++) {
        const uint64_t bytes = c->cache.pages.groups[i].page_bytes;

        opencl_fill(c, &c->cache.groups[i], slot * bytes,
                    c->cache.pages.pages_per_slot * bytes, 0);
    }
}

/* On the device: a page's bytes never pass through the host. */
void opencl_copy_pages(struct kernels *k, uint32_t from, uint32_t to,
                       uint32_t n)
{
    struct opencl *c = opencl_of(k);

    assert(has_pages(c, from, n) && has_pages(c, to, n));
    assert(from >= to ? from - to >= n : to - from >= n);
    opencl_copies_use(c, from, n);
    use_pages(c, to, n);
    for (uint32_t i = 0; i < c->cache.pages.n_groups; i++) {
        const uint64_t bytes = c->cache.pages.groups[i].page_bytes;

        opencl_move(c, &c->cache.groups[i], to * bytes, from * bytes,
                    n * bytes);
    }
}

void opencl_poison_pages(struct kernels *k, uint32_t first, uint32_t n)
{
    struct opencl *c = opencl_of(k);

    assert(has_pages(c, first, n));
    use_pages(c, first, n);
    for (uint32_t i = 0; i < c->cache.pages.n_groups; i++) {
        const uint64_t bytes = c->cache.pages.groups[i].page_bytes;

        opencl_fill(c, &c->cache.groups[i], first * bytes, n * bytes,
                    UINT32_MAX);
    }
}

/* ---- canonical layouts ---- */

/* One function for both directions, so that they cannot differ in layout. */
static void transfer_bytes(struct opencl *c, const struct opencl_tensor *t,
                           size_t at, void *host, size_t bytes, bool write)
{
    if (write) {
        opencl_upload(c, t, at, host, bytes);
    } else {
        opencl_download(c, t, at, host, bytes);
    }
}

/* Returns the bytes from page 0 to `page`, in the views of a layer. */
static size_t page_at(const struct opencl *c, uint32_t layer, uint32_t page)
{
    return page *
           c->cache.pages.groups[c->cache.pages.layers[layer].group].page_bytes;
}

void opencl_slot_copy(struct kernels *k, uint32_t layer, uint32_t slot,
                      uint32_t part, void *data, bool write)
{
    struct opencl *c = opencl_of(k);
    const struct opencl_layer *l = &c->model.layers[layer];
    const struct mixer_slot bytes =
        sizes_slot(&c->w->shape, l->kind, c->kv_dtype);

    assert(has_pages(c, slot, c->cache.pages.pages_per_slot));
    assert(part < MIXER_PARTS_MAX);
    use_pages(c, slot, c->cache.pages.pages_per_slot);
    transfer_bytes(c, part == 0 ? &l->state : &l->tail, page_at(c, layer, slot),
                   data, bytes.parts[part], write);
    opencl_settle(c);
}

/* Transposes [nkv, block_tokens, hd] in `in` to and from [block_tokens, nkv,
 * hd] in `out`. */
static void transpose_block(const struct opencl *c, char *in, char *out,
                            bool write)
{
    const struct model_shape *s = &c->w->shape;
    size_t head = s->head_dim * dtype_bytes(c->kv_dtype);

    for (size_t h = 0; h < s->n_kv_heads; h++) {
        for (size_t p = 0; p < c->block_tokens; p++) {
            char *inside = in + (h * c->block_tokens + p) * head;
            char *outside = out + (p * s->n_kv_heads + h) * head;

            memcpy(write ? inside : outside, write ? outside : inside, head);
        }
    }
}

static void copy_plain(struct opencl *c, uint32_t layer, uint32_t block,
                       char *out, bool write)
{
    const struct opencl_layer *l = &c->model.layers[layer];
    size_t bytes = opencl_kv_bytes(c), half = bytes / 2;
    char *in = c->cache.block;

    if (write) {
        transpose_block(c, in, out, true);
        transpose_block(c, in + half, out + half, true);
    }
    transfer_bytes(c, &l->kv, page_at(c, layer, block), in, bytes, write);
    opencl_settle(c);
    if (!write) {
        transpose_block(c, in, out, false);
        transpose_block(c, in + half, out + half, false);
    }
}

void opencl_block_copy(struct kernels *k, uint32_t layer, uint32_t block,
                       void *kv, bool write)
{
    struct opencl *c = opencl_of(k);
    const struct kv_format f = opencl_kv_format(c, layer);

    assert(has_pages(c, block, 1));
    use_pages(c, block, 1);
    if (f.scheme == KV_PLAIN) {
        copy_plain(c, layer, block, kv, write);
        return;
    }
    /* The bytes are canonical as they are. */
    transfer_bytes(c, &c->model.layers[layer].kv, page_at(c, layer, block), kv,
                   opencl_kv_block(c, &f).bytes, write);
    opencl_settle(c);
}
