#include "worker/engine/measure.h"

#include <stdlib.h>
#include <time.h>

#include "common/base/monotonic.h"
#include "worker/engine/forward.h"

/* A plan of one generated token, which runs again and again. */
struct layer_trial {
    struct forward *forward;
    struct plan plan;
    struct plan_row row;
    uint32_t token, block, slot;
    struct sampling sampling;
    float *hidden; /* [1, H] zeros */
    struct plan_result result;
};

/* Returns whether the layer is a window layer, and so needs a window block: of
 * one page, because it is alone. */
static bool is_window(const struct shard_weights *w)
{
    return mixer_memory(w->layers[0].kind) == MIXER_IN_WINDOWS;
}

/* Returns whether the layer is linear, and so needs a slot. */
static bool is_linear(const struct shard_weights *w)
{
    return mixer_memory(w->layers[0].kind) == MIXER_IN_SLOT;
}

static void make_plan(struct layer_trial *t, const struct shard_weights *w)
{
    /* A generated token runs the decode kernels, whose speed is that of reading
     * the weights. */
    t->row = (struct plan_row){.kind = ROW_GENERATED,
                               .n_tokens = 1,
                               .n_blocks = 1,
                               .n_window = is_window(w) ? 1 : 0,
                               .slot = 0,
                               .sampling = &t->sampling};
    t->plan = (struct plan){.n_rows = 1,
                            .n_tokens = 1,
                            .n_blocks = 1,
                            .n_zero = is_linear(w) ? 1 : 0,
                            .rows = &t->row,
                            .tokens = &t->token,
                            .blocks = &t->block,
                            .zero_slots = &t->slot,
                            .hidden = w->begin > 0 ? t->hidden : NULL};
}

/* Takes the fastest step, not the mean: interrupts and cold caches only ever
 * add time. */
static enum status measure_fastest(struct layer_trial *t, int64_t *us,
                                   struct error *e)
{
    int64_t began = monotonic_us(), at = began, now;

    *us = INT64_MAX;
    for (int i = 0; i < MEASURE_RUNS || at - began < MEASURE_US; i++) {
        t->plan.step++;
        forward_run(t->forward, &t->plan, &t->result);
        if (t->result.status != ST_OK) {
            *e = t->result.error;
            return t->result.status;
        }
        now = monotonic_us();
        *us = now - at < *us ? now - at : *us;
        at = now;
    }
    *us = *us > 0 ? *us : 1;
    return ST_OK;
}

uint64_t measure_round(double speed)
{
    double step = 1;

    while (step * MEASURE_STEP <= speed) {
        step *= MEASURE_STEP;
    }
    return (uint64_t)step;
}

static enum status run_trial(struct measured *out, struct layer_trial *t,
                             uint64_t layer_bytes, struct error *e)
{
    struct kernels_sizes sizes;
    int64_t us = 1;
    enum status st;

    /* One block, window block or slot, at page 0, is enough for a sequence of
     * one token. */
    forward_sizes(t->forward, &sizes);
    st = forward_alloc(
        t->forward,
        sizes.pages_per_block + sizes.pages_per_slot + sizes.window_pages, e);
    st = st == ST_OK ? measure_fastest(t, &us, e) : st;
    *out = (struct measured){
        .speed = measure_round((double)layer_bytes * 1e6 / (double)us),
        .scratch_bytes = sizes.scratch_bytes,
        .device_bytes = sizes.device_bytes,
        .n_threads = sizes.n_threads};
    return st;
}

enum status measure_layer(struct measured *out, const struct shard_weights *w,
                          uint64_t layer_bytes, const struct kernels_options *o,
                          uint32_t n_plans, struct error *e)
{
    struct layer_trial *t = calloc(1, sizeof *t);
    enum status st;

    if (t != NULL) {
        t->hidden = calloc(w->shape.hidden, sizeof *t->hidden);
    }
    if (t == NULL || t->hidden == NULL) {
        free(t);
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "out of memory to measure the device");
    }
    make_plan(t, w);
    st = forward_new(&t->forward, w, o, e);
    st = st == ST_OK
             ? forward_alloc_hidden(t->forward, n_plans, o->max_tokens, e)
             : st;
    st = st == ST_OK ? run_trial(out, t, layer_bytes, e) : st;
    forward_free(&t->forward);
    free(t->hidden);
    free(t);
    return st;
}
