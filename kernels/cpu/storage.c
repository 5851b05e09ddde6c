/* storage.c - the pool's memory: pages of blocks, slots and checkpoints. */
#include "kernels/cpu/cpu.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>

#include "common/model/sizes.h"

size_t cpu_state_floats(const struct cpu *c)
{
    const struct model_shape *s = &c->w->shape;

    return (size_t)s->n_v_heads * s->k_dim * s->v_dim;
}

static uint32_t n_layers(const struct cpu *c)
{
    return shard_layers(c->w);
}

void cpu_lay_out(struct cpu *c)
{
    const struct page_sizes sizes = sizes_page(
        &c->w->shape, c->w->begin, c->w->end, c->block_tokens, &c->kv);
    enum mixer_kind kinds[PAGE_LAYERS_MAX];

    assert(n_layers(c) <= PAGE_LAYERS_MAX);
    for (uint32_t i = 0; i < n_layers(c); i++) {
        kinds[i] = cpu_weights(c, i)->kind;
        if (mixer_memory(kinds[i]) == MIXER_IN_SLOT) {
            c->layers[i].slot = sizes.slots[kinds[i]];
        }
    }
    page_layout_make(&c->pages, kinds, n_layers(c), &sizes);
}

/* ---- the mappings ---- */

static size_t group_bytes(const struct cpu *c, uint32_t group)
{
    return c->n_pages * (size_t)c->pages.groups[group].page_bytes;
}

static void *map_bytes(size_t bytes)
{
    void *p;

    /* mmap() rather than malloc(): memory of the pool costs nothing until
     * used. */
    p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
             -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

enum status cpu_alloc(struct kernels *k, uint32_t n_pages, struct error *e)
{
    struct cpu *c = cpu_of(k);

    cpu_release(c);
    c->replays.n_waiting = 0;
    c->n_pages = n_pages;
    for (uint32_t i = 0; i < c->pages.n_groups && n_pages > 0; i++) {
        c->groups[i] = map_bytes(group_bytes(c, i));
        if (c->groups[i] == NULL) {
            cpu_release(c);
            return error_set(
                e, ST_RESOURCE_EXHAUSTED,
                "not enough memory for a pool of %u pages of %llu bytes",
                n_pages, (unsigned long long)c->pages.page_bytes);
        }
    }
    return ST_OK;
}

/* n_pages gives the mapped sizes, so it is cleared last. */
void cpu_release(struct cpu *c)
{
    for (uint32_t i = 0; i < c->pages.n_groups; i++) {
        if (c->groups[i]) {
            munmap(c->groups[i], group_bytes(c, i));
        }
        c->groups[i] = NULL;
    }
    c->n_pages = 0;
}

/* ---- places ---- */

/* Returns byte `at` of a page, in the group of the layer. */
static char *place(const struct cpu *c, uint32_t layer, uint32_t page,
                   uint64_t at)
{
    return c->groups[c->pages.layers[layer].group] +
           page * cpu_stride(c, layer) + at;
}

size_t cpu_stride(const struct cpu *c, uint32_t layer)
{
    return c->pages.groups[c->pages.layers[layer].group].page_bytes;
}

char *cpu_kv(const struct cpu *c, uint32_t layer)
{
    return place(c, layer, 0, c->pages.layers[layer].at[0]);
}

char *cpu_part(const struct cpu *c, uint32_t layer, uint32_t slot,
               uint32_t part)
{
    return c->layers[layer].slot.parts[part] == 0
               ? NULL
               : place(c, layer, slot, c->pages.layers[layer].at[part]);
}

float *cpu_state(const struct cpu *c, uint32_t layer, uint32_t slot)
{
    return (float *)(void *)cpu_part(c, layer, slot, 0);
}

char *cpu_tail(const struct cpu *c, uint32_t layer, uint32_t slot)
{
    return cpu_part(c, layer, slot, 1);
}

/* ---- calls of kernels.h ---- */

static bool is_slot(const struct cpu *c, uint32_t slot)
{
    uint32_t n = c->pages.pages_per_slot;

    return n > 0 && slot % n == 0 && n <= c->n_pages && slot <= c->n_pages - n;
}

static bool in_pool(const struct cpu *c, uint32_t first, uint32_t n)
{
    return n <= c->n_pages && first <= c->n_pages - n;
}

static void move_bytes(char *inside, char *outside, size_t bytes, bool write)
{
    /* A part without bytes is NULL, which memcpy() must not get. */
    if (bytes > 0) {
        memcpy(write ? inside : outside, write ? outside : inside, bytes);
    }
}

/* Leaves the rest of the last page alone: no operator reads it. */
void cpu_zero_slot(struct kernels *k, uint32_t slot)
{
    struct cpu *c = cpu_of(k);

    assert(is_slot(c, slot));
    cpu_settle(c);
    for (uint32_t i = 0; i < n_layers(c); i++) {
        for (uint32_t part = 0; part < MIXER_PARTS_MAX; part++) {
            char *at = cpu_part(c, i, slot, part);

            if (at != NULL) {
                memset(at, 0, c->layers[i].slot.parts[part]);
            }
        }
    }
    cpu_tick(c);
}

void cpu_copy_pages(struct kernels *k, uint32_t from, uint32_t to, uint32_t n)
{
    struct cpu *c = cpu_of(k);

    assert(in_pool(c, from, n) && in_pool(c, to, n));
    assert(n == 0 || from + n <= to || to + n <= from);
    cpu_settle(c);
    for (uint32_t i = 0; i < c->pages.n_groups && n > 0; i++) {
        size_t page = c->pages.groups[i].page_bytes;

        memcpy(c->groups[i] + to * page, c->groups[i] + from * page, n * page);
    }
    cpu_tick(c);
}

void cpu_poison_pages(struct kernels *k, uint32_t first, uint32_t n)
{
    struct cpu *c = cpu_of(k);

    assert(in_pool(c, first, n));
    cpu_settle(c);
    for (uint32_t i = 0; i < c->pages.n_groups && n > 0; i++) {
        size_t page = c->pages.groups[i].page_bytes;

        memset(c->groups[i] + first * page, 0xff, n * page);
    }
    cpu_tick(c);
}

/* Transposes keys from [hd, block_tokens] to [hd] a position, and back. */
static void keys_copy(const struct cpu *c, char *k, char *out, bool write)
{
    size_t item = dtype_bytes(c->kv.dtype), hd = c->w->shape.head_dim;
    size_t row = c->w->shape.n_kv_heads * hd * item;

    for (size_t d = 0; d < hd; d++) {
        for (size_t p = 0; p < c->block_tokens; p++) {
            move_bytes(k + (d * c->block_tokens + p) * item,
                       out + p * row + d * item, item, write);
        }
    }
}

/* Copies k and v of a plain layer. */
static void plain_copy(const struct cpu *c, char *in, char *out, bool write)
{
    const struct model_shape *s = &c->w->shape;
    size_t head = s->head_dim * dtype_bytes(c->kv.dtype);
    size_t plane = head * c->block_tokens, half = plane * s->n_kv_heads;

    for (size_t h = 0; h < s->n_kv_heads; h++) {
        keys_copy(c, in + h * plane, out + h * head, write);
        for (size_t p = 0; p < c->block_tokens; p++) {
            move_bytes(in + half + h * plane + p * head,
                       out + half + (p * s->n_kv_heads + h) * head, head,
                       write);
        }
    }
}

void cpu_block_copy(struct kernels *k, uint32_t layer, uint32_t block, void *kv,
                    bool write)
{
    struct cpu *c = cpu_of(k);
    char *in = cpu_kv(c, layer) + block * cpu_stride(c, layer);

    assert(in_pool(c, block, 1));
    cpu_settle(c);
    if (c->layers[layer].kv.scheme == KV_PLAIN) {
        plain_copy(c, in, kv, write);
    } else {
        move_bytes(in, kv, c->layers[layer].block.bytes, write);
    }
}

void cpu_slot_copy(struct kernels *k, uint32_t layer, uint32_t slot,
                   uint32_t part, void *data, bool write)
{
    struct cpu *c = cpu_of(k);

    assert(is_slot(c, slot) && part < MIXER_PARTS_MAX);
    cpu_settle(c);
    move_bytes(cpu_part(c, layer, slot, part), data,
               c->layers[layer].slot.parts[part], write);
}
