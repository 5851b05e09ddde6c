#include "kernels/backends/canary_replay.h"

#include <stdlib.h>
#include <string.h>

#include "common/model/mixer.h"
#include "common/model/sizes.h"

/* Outputs of the layer for the generated tokens. */
struct advance {
    float *x;                     /* [n, H] */
    void *parts[MIXER_PARTS_MAX]; /* of the slot after them */
};

static size_t output_bytes(const struct canary_replay *r)
{
    return (size_t)r->n * r->w->shape.hidden * sizeof(float);
}

static struct mixer_slot slot_of(const struct canary_replay *r)
{
    return sizes_slot(&r->w->shape, r->w->layers[r->layer].kind, r->kv_dtype);
}

static bool allocate(const struct canary_replay *r, struct advance *a)
{
    const struct mixer_slot slot = slot_of(r);
    bool all;

    a->x = malloc(output_bytes(r));
    all = a->x != NULL;
    for (uint32_t i = 0; i < MIXER_PARTS_MAX; i++) {
        if (slot.parts[i] > 0) {
            a->parts[i] = malloc(slot.parts[i]);
            all = all && a->parts[i] != NULL;
        }
    }
    return all;
}

static void release(struct advance *a)
{
    free(a->x);
    for (uint32_t i = 0; i < MIXER_PARTS_MAX; i++) {
        free(a->parts[i]);
    }
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
    kernels_mixer(k, r->layer);
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
    kernels_slot_copy(k, r->layer, r->slot, a->parts, false);
    return st;
}

static bool is_same_slot(const struct canary_replay *r, const struct advance *a,
                         const struct advance *b)
{
    const struct mixer_slot slot = slot_of(r);

    for (uint32_t i = 0; i < MIXER_PARTS_MAX; i++) {
        if (slot.parts[i] > 0 &&
            memcmp(a->parts[i], b->parts[i], slot.parts[i]) != 0) {
            return false;
        }
    }
    return true;
}

static enum status compare(const struct canary_replay *r,
                           const struct advance *a, const struct advance *b,
                           struct error *e)
{
    const char *layer = mixer_rows[r->w->layers[r->layer].kind]->a_layer;

    if (memcmp(a->x, b->x, output_bytes(r)) != 0) {
        return error_set(e, ST_DATA_LOSS,
                         "the device computes wrongly: %s gives a row of "
                         "several tokens other bits than single ones",
                         layer);
    }
    if (!is_same_slot(r, a, b)) {
        return error_set(e, ST_DATA_LOSS,
                         "the device computes wrongly: replayed inputs of %s "
                         "give its state other bits",
                         layer);
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
