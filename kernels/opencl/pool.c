#include "kernels/opencl/pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static uint32_t n_layers(const struct opencl *c)
{
    return c->w->end - c->w->begin;
}

static size_t channels(const struct opencl *c)
{
    const struct model_shape *s = &c->w->shape;

    return (size_t)2 * s->n_k_heads * s->k_dim +
           (size_t)s->n_v_heads * s->v_dim;
}

size_t opencl_kv_bytes(const struct opencl *c)
{
    const struct model_shape *s = &c->w->shape;

    return (size_t)2 * s->n_kv_heads * s->head_dim * c->block_tokens *
           dtype_bytes(c->kv_dtype);
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

/* Requests the pool's storage for one layer of the shard. */
static void request_layer(struct opencl *c, struct opencl_layer *l)
{
    /* A checkpoint is a slot behind the others, so copies stay in one
     * tensor. */
    size_t states = (size_t)c->n_slots + c->n_checkpoints;
    size_t item = dtype_bytes(c->kv_dtype);

    if (l->kind == MIXER_ATTENTION) {
        opencl_arena_add(c->pool, &l->kv, c->n_blocks,
                         opencl_kv_bytes(c) / item, item);
    } else {
        opencl_arena_add(c->pool, &l->state, states,
                         opencl_state_bytes(c) / sizeof(float), sizeof(float));
        opencl_arena_add(c->pool, &l->tail, states, opencl_tail_bytes(c) / item,
                         item);
        l->tail.dtype = c->kv_dtype;
    }
    l->kv.dtype = c->kv_dtype;
}

enum status opencl_alloc(struct kernels *k, uint32_t n_blocks, uint32_t n_slots,
                         uint32_t n_checkpoints, struct error *e)
{
    struct opencl *c = opencl_of(k);
    enum status st;

    opencl_arena_free(&c->pool);
    c->n_blocks = n_blocks;
    c->n_slots = n_slots;
    c->n_checkpoints = n_checkpoints;
    c->pool = opencl_arena_new("pool");
    for (uint32_t i = 0; i < n_layers(c); i++) {
        request_layer(c, &c->layers[i]);
    }
    st = opencl_arena_make(c, c->pool, e);
    if (st == ST_OK) {
        return ST_OK;
    }
    opencl_arena_free(&c->pool);
    c->n_blocks = c->n_slots = c->n_checkpoints = 0;
    return error_wrap(
        e, "allocate a pool of %u blocks, %u slots and %u checkpoints",
        n_blocks, n_slots, n_checkpoints);
}

/* ---- slots ---- */

void opencl_zero_slot(struct kernels *k, uint32_t slot)
{
    struct opencl *c = opencl_of(k);
    size_t state = opencl_state_bytes(c), tail = opencl_tail_bytes(c);

    assert(slot < c->n_slots);
    for (uint32_t i = 0; i < n_layers(c); i++) {
        const struct opencl_layer *l = &c->layers[i];

        if (l->kind == MIXER_DELTANET) {
            opencl_zero(c, &l->state, slot * state, state);
            opencl_zero(c, &l->tail, slot * tail, tail);
        }
    }
}

/* On the device: a slot's bytes never pass through the host. */
static void copy_slot(struct opencl *c, size_t to, size_t from)
{
    size_t state = opencl_state_bytes(c), tail = opencl_tail_bytes(c);

    for (uint32_t i = 0; i < n_layers(c); i++) {
        const struct opencl_layer *l = &c->layers[i];

        if (l->kind == MIXER_DELTANET) {
            opencl_move(c, &l->state, to * state, from * state, state);
            opencl_move(c, &l->tail, to * tail, from * tail, tail);
        }
    }
}

void opencl_save_slot(struct kernels *k, uint32_t slot, uint32_t checkpoint)
{
    struct opencl *c = opencl_of(k);

    assert(slot < c->n_slots && checkpoint < c->n_checkpoints);
    copy_slot(c, (size_t)c->n_slots + checkpoint, slot);
}

void opencl_load_slot(struct kernels *k, uint32_t checkpoint, uint32_t slot)
{
    struct opencl *c = opencl_of(k);

    assert(slot < c->n_slots && checkpoint < c->n_checkpoints);
    copy_slot(c, slot, (size_t)c->n_slots + checkpoint);
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

void opencl_slot_copy(struct kernels *k, uint32_t layer, uint32_t slot,
                      float *state, void *tail, bool write)
{
    struct opencl *c = opencl_of(k);
    const struct opencl_layer *l = &c->layers[layer];

    assert(slot < c->n_slots);
    transfer_bytes(c, &l->state, slot * opencl_state_bytes(c), state,
                   opencl_state_bytes(c), write);
    transfer_bytes(c, &l->tail, slot * opencl_tail_bytes(c), tail,
                   opencl_tail_bytes(c), write);
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

void opencl_block_copy(struct kernels *k, uint32_t layer, uint32_t block,
                       void *kv, bool write)
{
    struct opencl *c = opencl_of(k);
    const struct opencl_layer *l = &c->layers[layer];
    size_t bytes = opencl_kv_bytes(c), half = bytes / 2;
    char *in = c->block, *out = kv;

    assert(block < c->n_blocks);
    if (write) {
        transpose_block(c, in, out, true);
        transpose_block(c, in + half, out + half, true);
    }
    transfer_bytes(c, &l->kv, block * bytes, in, bytes, write);
    opencl_settle(c);
    if (!write) {
        transpose_block(c, in, out, false);
        transpose_block(c, in + half, out + half, false);
    }
}
