/* storage.c - the pool's memory: blocks, slots and checkpoints. */
#include "kernels/cpu/cpu.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>

size_t cpu_kv_bytes(const struct cpu *c)
{
    const struct model_shape *s = &c->w->shape;

    return (size_t)2 * s->n_kv_heads * s->head_dim * c->block_tokens *
           dtype_bytes(c->kv_dtype);
}

size_t cpu_state_floats(const struct cpu *c)
{
    const struct model_shape *s = &c->w->shape;

    return (size_t)s->n_v_heads * s->k_dim * s->v_dim;
}

static size_t channels(const struct cpu *c)
{
    const struct model_shape *s = &c->w->shape;

    return (size_t)2 * s->n_k_heads * s->k_dim +
           (size_t)s->n_v_heads * s->v_dim;
}

size_t cpu_tail_bytes(const struct cpu *c)
{
    return (c->w->shape.conv - 1) * channels(c) * dtype_bytes(c->kv_dtype);
}

static uint32_t n_layers(const struct cpu *c)
{
    return c->w->end - c->w->begin;
}

static void *map_pages(size_t bytes)
{
    void *p;

    if (bytes == 0) {
        return NULL;
    }
    /* mmap() rather than malloc(): pages of the pool cost nothing until
     * used. */
    p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
             -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static void unmap_pages(void *p, size_t bytes)
{
    if (p) {
        munmap(p, bytes);
    }
}

static size_t n_states(const struct cpu *c)
{
    return (size_t)c->n_slots + c->n_checkpoints;
}

/* One mapping for each layer and kind: a block or slot then has one stride. */
static bool layer_alloc(struct cpu *c, uint32_t i)
{
    struct cpu_layer *l = &c->layers[i];
    size_t state = n_states(c) * cpu_state_floats(c) * sizeof(float);

    if (cpu_weights(c, i)->kind == MIXER_ATTENTION) {
        l->kv = map_pages(c->n_blocks * cpu_kv_bytes(c));
        return l->kv || c->n_blocks == 0;
    }
    l->state = map_pages(state);
    l->tail = map_pages(n_states(c) * cpu_tail_bytes(c));
    return n_states(c) == 0 ||
           (l->state && (l->tail || cpu_tail_bytes(c) == 0));
}

enum status cpu_alloc(struct kernels *k, uint32_t n_blocks, uint32_t n_slots,
                      uint32_t n_checkpoints, struct error *e)
{
    struct cpu *c = cpu_of(k);

    cpu_release(c);
    c->n_blocks = n_blocks;
    c->n_slots = n_slots;
    c->n_checkpoints = n_checkpoints;
    for (uint32_t i = 0; i < n_layers(c); i++) {
        if (!layer_alloc(c, i)) {
            cpu_release(c);
            return error_set(
                e, ST_RESOURCE_EXHAUSTED,
                "not enough memory for a pool of %u blocks, %u slots "
                "and %u checkpoints",
                n_blocks, n_slots, n_checkpoints);
        }
    }
    return ST_OK;
}

/* The counts give the mapped sizes, so they are cleared last. */
void cpu_release(struct cpu *c)
{
    for (uint32_t i = 0; i < n_layers(c); i++) {
        struct cpu_layer *l = &c->layers[i];

        unmap_pages(l->kv, c->n_blocks * cpu_kv_bytes(c));
        unmap_pages(l->state,
                    n_states(c) * cpu_state_floats(c) * sizeof(float));
        unmap_pages(l->tail, n_states(c) * cpu_tail_bytes(c));
        l->kv = NULL;
        l->state = NULL;
        l->tail = NULL;
    }
    c->n_blocks = 0;
    c->n_slots = 0;
    c->n_checkpoints = 0;
}

static float *state_at(const struct cpu *c, uint32_t layer, size_t slot)
{
    return c->layers[layer].state + slot * cpu_state_floats(c);
}

static char *tail_at(const struct cpu *c, uint32_t layer, size_t slot)
{
    size_t bytes = cpu_tail_bytes(c); /* 0 for a convolution of width 1 */

    return bytes == 0 ? NULL : c->layers[layer].tail + slot * bytes;
}

static bool is_linear(const struct cpu *c, uint32_t layer)
{
    return cpu_weights(c, layer)->kind == MIXER_DELTANET;
}

/* Where K is 1 a tail is NULL with 0 bytes, which memset() must not get. */
static void zero_bytes(char *p, size_t bytes)
{
    if (bytes > 0) {
        memset(p, 0, bytes);
    }
}

static void move_bytes(char *inside, char *outside, size_t bytes, bool write)
{
    if (bytes > 0) {
        memcpy(write ? inside : outside, write ? outside : inside, bytes);
    }
}

void cpu_zero_slot(struct kernels *k, uint32_t slot)
{
    struct cpu *c = cpu_of(k);

    assert(slot < c->n_slots);
    for (uint32_t i = 0; i < n_layers(c); i++) {
        if (is_linear(c, i)) {
            zero_bytes((char *)state_at(c, i, slot),
                       cpu_state_floats(c) * sizeof(float));
            zero_bytes(tail_at(c, i, slot), cpu_tail_bytes(c));
        }
    }
    cpu_tick(c);
}

static void copy_state(struct cpu *c, size_t to, size_t from)
{
    for (uint32_t i = 0; i < n_layers(c); i++) {
        if (is_linear(c, i)) {
            move_bytes((char *)state_at(c, i, to), (char *)state_at(c, i, from),
                       cpu_state_floats(c) * sizeof(float), true);
            move_bytes(tail_at(c, i, to), tail_at(c, i, from),
                       cpu_tail_bytes(c), true);
        }
    }
    cpu_tick(c);
}

void cpu_save_slot(struct kernels *k, uint32_t slot, uint32_t checkpoint)
{
    struct cpu *c = cpu_of(k);

    assert(slot < c->n_slots && checkpoint < c->n_checkpoints);
    copy_state(c, (size_t)c->n_slots + checkpoint, slot);
}

void cpu_load_slot(struct kernels *k, uint32_t checkpoint, uint32_t slot)
{
    struct cpu *c = cpu_of(k);

    assert(slot < c->n_slots && checkpoint < c->n_checkpoints);
    copy_state(c, slot, (size_t)c->n_slots + checkpoint);
}

/* Transposes keys from [hd, block_tokens] to [hd] a position, and back. */
static void keys_copy(const struct cpu *c, char *k, char *out, bool write)
{
    size_t item = dtype_bytes(c->kv_dtype), hd = c->w->shape.head_dim;
    size_t row = c->w->shape.n_kv_heads * hd * item;

    for (size_t d = 0; d < hd; d++) {
        for (size_t p = 0; p < c->block_tokens; p++) {
            move_bytes(k + (d * c->block_tokens + p) * item,
                       out + p * row + d * item, item, write);
        }
    }
}

void cpu_block_copy(struct kernels *k, uint32_t layer, uint32_t block, void *kv,
                    bool write)
{
    struct cpu *c = cpu_of(k);
    const struct model_shape *s = &c->w->shape;
    size_t head = s->head_dim * dtype_bytes(c->kv_dtype);
    size_t plane = head * c->block_tokens, half = plane * s->n_kv_heads;
    char *in = c->layers[layer].kv + block * cpu_kv_bytes(c), *out = kv;

    assert(block < c->n_blocks);
    for (size_t h = 0; h < s->n_kv_heads; h++) {
        keys_copy(c, in + h * plane, out + h * head, write);
        for (size_t p = 0; p < c->block_tokens; p++) {
            move_bytes(in + half + h * plane + p * head,
                       out + half + (p * s->n_kv_heads + h) * head, head,
                       write);
        }
    }
}

void cpu_slot_copy(struct kernels *k, uint32_t layer, uint32_t slot,
                   float *state, void *tail, bool write)
{
    struct cpu *c = cpu_of(k);

    assert(slot < c->n_slots);
    move_bytes((char *)state_at(c, layer, slot), (char *)state,
               cpu_state_floats(c) * sizeof(float), write);
    move_bytes(tail_at(c, layer, slot), tail, cpu_tail_bytes(c), write);
}
