#include "kernels/backends/canary_replay.h"

#include <stdlib.h>
#include <string.h>

/* Outputs of the layer for the generated tokens. */
struct advance {
    float *x;     /* [n, H] */
    float *state; /* the slot after them, [Hv, Dk, Dv] */
    char *tail;   /* [K-1, C] */
};

static size_t output_bytes(const struct canary_replay *r)
{
    return (size_t)r->n * r->w->shape.hidden * sizeof(float);
}

static size_t state_bytes(const struct canary_replay *r)
{
    const struct model_shape *s = &r->w->shape;

    return (size_t)s->n_v_heads * s->k_dim * s->v_dim * sizeof(float);
}

/* May be 0. */
static size_t tail_bytes(const struct canary_replay *r)
{
    const struct model_shape *s = &r->w->shape;
    size_t channels =
        (size_t)2 * s->n_k_heads * s->k_dim + (size_t)s->n_v_heads * s->v_dim;

    return (s->conv - 1) * channels * dtype_bytes(r->kv_dtype);
}

static bool allocate(const struct canary_replay *r, struct advance *a)
{
    a->x = malloc(output_bytes(r));
    a->state = malloc(state_bytes(r));
    a->tail = malloc(tail_bytes(r) + 1);
    return a->x != NULL && a->state != NULL && a->tail != NULL;
}

static void release(struct advance *a)
{
    free(a->x);
    free(a->state);
    free(a->tail);
}

/* Runs n tokens from `position` on as one row. */
static enum status run_row(const struct canary_replay *r, struct kernels *k,
                           uint32_t position, uint32_t n, bool keep,
                           struct advance *a, struct error *e)
{
    const struct kernel_row row = {
        .n_tokens = n,
        .position = position,
        .blocks = r->blocks,
        .slot = r->slot,
        .generated = position >= r->n_prompt,
        .keep = keep,
    };
    const struct kernel_step step = {&row, 1, n};
    size_t h = r->w->shape.hidden;

    kernels_begin(k, &step);
    kernels_hidden_write(k, 0, n, r->in + position * h);
    kernels_deltanet(k, r->layer);
    if (row.generated) {
        kernels_hidden_read(k, 0, n, a->x + (position - r->n_prompt) * h);
    }
    return kernels_end(k, e);
}

static enum status run(const struct canary_replay *r, struct kernels *k,
                       bool keep, struct advance *a, struct error *e)
{
    const struct kernel_replay replay = {r->slot, 0, r->n};
    uint32_t n = keep ? r->n : 1;
    enum status st;

    kernels_zero_slot(k, r->slot);
    st = run_row(r, k, 0, r->n_prompt, false, a, e);
    for (uint32_t i = 0; i < r->n && st == ST_OK; i += n) {
        st = run_row(r, k, r->n_prompt + i, n, keep, a, e);
    }
    if (keep) {
        kernels_replay(k, &replay, 1);
    }
    kernels_slot_copy(k, r->layer, r->slot, a->state, a->tail, false);
    return st;
}

static enum status compare(const struct canary_replay *r,
                           const struct advance *a, const struct advance *b,
                           struct error *e)
{
    if (memcmp(a->x, b->x, output_bytes(r)) != 0) {
        return error_set(e, ST_DATA_LOSS,
                         "the device computes wrongly: a linear layer gives a "
                         "row of several tokens other bits than single ones");
    }
    if (memcmp(a->state, b->state, state_bytes(r)) != 0 ||
        memcmp(a->tail, b->tail, tail_bytes(r)) != 0) {
        return error_set(e, ST_DATA_LOSS,
                         "the device computes wrongly: replayed inputs of a "
                         "linear layer give its state other bits");
    }
    return ST_OK;
}

enum status canary_replay_check(const struct canary_replay *r,
                                struct kernels *k, struct error *e)
{
    struct advance plain = {0}, kept = {0};
    enum status st = ST_OK;

    if (!allocate(r, &plain) || !allocate(r, &kept)) {
        st = error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    st = st == ST_OK ? run(r, k, false, &plain, e) : st;
    st = st == ST_OK ? run(r, k, true, &kept, e) : st;
    st = st == ST_OK ? compare(r, &plain, &kept, e) : st;
    release(&plain);
    release(&kept);
    return st;
}
