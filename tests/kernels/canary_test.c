/* The bound of a device's arithmetic, for each format of the KV cache. */
#include "kernels/backends/canary.h"

#include <math.h>
#include <string.h>

#include "kernels/backends/backend.h"
#include "tests/kernels/random_model.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"

static const struct kv_format plain = {.dtype = DTYPE_BF16};
static const struct kv_format affine8 = {DTYPE_BF16, KV_AFFINE, 8,
                                         8,          64,        KV_NO_LAYER};
static const struct kv_format affine4 = {DTYPE_BF16, KV_AFFINE, 4,
                                         4,          64,        KV_NO_LAYER};
static const struct kv_format turbo = {DTYPE_BF16, KV_TURBOQUANT, 3, 4,
                                       0,          KV_NO_LAYER};

static void a_coarser_codec_has_a_wider_bound(void **state)
{
    (void)state;
    assert_true(canary_bound(&plain) == CANARY_BOUND);
    assert_true(fabs(canary_bound(&affine8) - 0.03196) < 1e-5);
    assert_true(fabs(canary_bound(&affine4) - 0.06333) < 1e-5);
    assert_true(fabs(canary_bound(&turbo) - 0.155) < 1e-9);
}

/* Runs the canary on a backend whose cache is `made`, and expects it to be
 * `expected`. */
static enum status run(const struct kv_format *made,
                       const struct kv_format *expected, struct error *e)
{
    struct shard *shard = fixture_shard_all(TINY_HYBRID);
    struct kernels_options o = {.device = "cpu",
                                .kv = *made,
                                .block_tokens = 32,
                                .max_tokens = CANARY_TOKENS,
                                .max_rows = 1,
                                .max_logits = 1,
                                .n_threads = 1};
    struct kernels *k;
    enum status st;

    assert_int_equal(backend_new(&k, shard_weights(shard), &o, e), ST_OK);
    assert_int_equal(kernels_alloc(k, 256, e), ST_OK);
    o.kv = *expected;
    st = canary_run(k, shard_weights(shard), &o, e);
    kernels_free(&k);
    shard_free(&shard);
    return st;
}

static void the_cpu_agrees_with_itself(void **state)
{
    static const struct kv_format *const formats[] = {&plain, &affine8,
                                                      &affine4, &turbo};
    struct error e;

    (void)state;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        assert_int_equal(run(formats[i], formats[i], &e), ST_OK);
    }
}

/* The error of 4 bits is past the bound of a plain cache and of 8 bits. */
static void a_coarser_cache_than_stated_is_found(void **state)
{
    struct error e;

    (void)state;
    assert_int_equal(run(&affine4, &plain, &e), ST_DATA_LOSS);
    assert_non_null(strstr(e.text, "at most 0.03 is allowed"));
    assert_int_equal(run(&affine4, &affine8, &e), ST_DATA_LOSS);
}

/* ---- windows, experts and drafts ---- */

/* A model of each kind of layer, and what the canary takes it for. */
struct pair {
    struct random_model made;
    struct shard_weights w;
    struct layer_weights layers[4];
    struct mtp_weights mtp;
};

static void make_pair(struct pair *p, uint32_t window)
{
    struct random_shape r;
    struct dice d = {5};

    random_shape(&r, &d);
    r.shape.n_layers = 3;
    random_features(&r, &d);
    r.shape.hidden = 64;
    r.shape.n_experts = 8, r.shape.top_k = 2, r.shape.expert_dim = 32;
    r.shape.window = window;
    r.sinks = r.expert_bias = r.mtp = true;
    for (uint32_t i = 0; i < 3; i++) {
        r.mixers[i] = i == 0   ? MIXER_DELTANET
                      : i == 1 ? MIXER_WINDOW
                               : MIXER_ATTENTION;
        r.ffns[i] = i == 2 ? FFN_EXPERTS : FFN_DENSE;
    }
    random_model_new(&p->made, &r, &d);
    memcpy(p->layers, p->made.layers, sizeof p->layers);
    p->w = p->made.w;
    p->w.layers = p->layers;
    p->mtp = p->made.mtp;
    p->w.mtp = &p->mtp;
}

static const struct kernels_ops *ops; /* the cpu's */

static void replay_nothing(struct kernels *k, const struct kernel_replay *r,
                           uint32_t n)
{
    (void)k, (void)r, (void)n;
}

static void replay_one_less(struct kernels *k, const struct kernel_replay *r,
                            uint32_t n)
{
    struct kernel_replay less = *r;

    less.n_tokens--;
    ops->replay(k, &less, n);
}

/* Advances the slot all the same. */
static void begin_without_keep(struct kernels *k,
                               const struct kernel_step *step)
{
    static struct kernel_row row;
    static struct kernel_step one;

    row = step->rows[0];
    row.keep = false;
    one = (struct kernel_step){&row, 1, step->n_tokens};
    ops->begin(k, &one);
}

static uint32_t window_of_begin;

/* As a device that copies the blocks that the row's tokens see. */
static void begin_within_windows(struct kernels *k,
                                 const struct kernel_step *step)
{
    const struct kernel_row *r = &step->rows[0];
    uint32_t low =
        r->position >= window_of_begin ? r->position - window_of_begin + 1 : 0;

    if (r->window != NULL) {
        assert_true(r->window_first <= low / 8);
        assert_true((r->position + r->n_tokens - 1) / 8 <
                    r->window_first + r->window_stride);
    }
    ops->begin(k, step);
}

/* Runs the canary on a cpu backend with some other operators. */
static enum status run_changed(const struct pair *p,
                               const struct kernels_ops *changes,
                               struct error *e)
{
    const struct kernels_options o = {.device = "cpu",
                                      .kv = {.dtype = DTYPE_F16},
                                      .block_tokens = 8,
                                      .max_tokens = CANARY_TOKENS,
                                      .max_rows = 1,
                                      .max_logits = 1,
                                      .keep_tokens = 2,
                                      .n_threads = 1};
    struct kernels_ops all;
    struct kernels *k;
    enum status st;

    assert_int_equal(backend_new(&k, &p->made.w, &o, e), ST_OK);
    ops = k->ops;
    all = *k->ops;
    all.replay = changes->replay ? changes->replay : ops->replay;
    all.begin = changes->begin ? changes->begin : ops->begin;
    k->ops = &all;
    assert_int_equal(kernels_alloc(k, 64, e), ST_OK);
    kernels_poison_pages(k, 0, 64);
    st = canary_run(k, &p->w, &o, e);
    kernels_free(&k);
    return st;
}

static enum status run_pair(const struct pair *p, struct error *e)
{
    return run_changed(p, &(struct kernels_ops){0}, e);
}

/* Windows that end inside a block, and one that is as long as the context. */
static void every_kind_of_layer_agrees_with_itself(void **state)
{
    static struct pair p;
    struct error e;

    (void)state;
    for (uint32_t window = 1; window <= 256; window += 15) {
        make_pair(&p, window);
        if (run_pair(&p, &e) != ST_OK) {
            fail_msg("window %u: %s", window, e.text);
        }
        random_model_free(&p.made);
    }
}

static void rows_have_the_window_blocks_that_they_see(void **state)
{
    static struct pair p;
    struct error e;

    (void)state;
    for (uint32_t window = 1; window <= 256; window += 51) {
        make_pair(&p, window);
        window_of_begin = window;
        assert_int_equal(
            run_changed(
                &p, &(struct kernels_ops){.begin = begin_within_windows}, &e),
            ST_OK);
        random_model_free(&p.made);
    }
}

static void expect_found(const struct pair *p, const char *where)
{
    struct error e;

    assert_int_equal(run_pair(p, &e), ST_DATA_LOSS);
    if (strstr(e.text, where) == NULL) {
        fail_msg("%s", e.text);
    }
}

/* One part of each kind of layer differs from the device's. */
static void a_device_with_other_arithmetic_is_found(void **state)
{
    static struct pair p;
    static float other[4096];

    (void)state;
    for (size_t i = 0; i < 4096; i++) {
        other[i] = (float)(i % 7);
    }
    make_pair(&p, 17);
    p.w.shape.window = 3;
    expect_found(&p, "a window layer");
    p.w.shape.window = 17;
    p.layers[1].mixer.attention.sinks = other;
    expect_found(&p, "a window layer");
    p.layers[1] = p.made.layers[1];
    p.layers[2].mixer.attention.sinks = other;
    expect_found(&p, "an attention layer");
    p.layers[2] = p.made.layers[2];
    p.layers[2].experts.router_bias = other;
    expect_found(&p, "a layer with experts");
    p.layers[2] = p.made.layers[2];
    p.layers[2].experts.down_bias = other;
    expect_found(&p, "a layer with experts");
    p.layers[2] = p.made.layers[2];
    p.layers[0].ffn_norm = other;
    expect_found(&p, "an MLP");
    p.layers[0] = p.made.layers[0];
    p.mtp.hidden_norm = other;
    expect_found(&p, "the input of the MTP layer");
    p.mtp = p.made.mtp;
    p.layers[3].input_norm = other;
    expect_found(&p, "an attention layer");
    p.layers[3] = p.made.layers[3];
    p.mtp.norm = other;
    expect_found(&p, "the head");
    random_model_free(&p.made);
}

/* Drafts on such a device would change what a sequence becomes. */
static void a_device_that_replays_wrongly_is_found(void **state)
{
    static const struct kernels_ops changes[] = {
        {.replay = replay_nothing},
        {.replay = replay_one_less},
        {.begin = begin_without_keep},
    };
    static struct pair p;
    struct error e;

    (void)state;
    make_pair(&p, 17);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        assert_int_equal(run_changed(&p, &changes[i], &e), ST_DATA_LOSS);
        assert_non_null(strstr(e.text, "replayed inputs"));
    }
    random_model_free(&p.made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_coarser_codec_has_a_wider_bound),
        cmocka_unit_test(the_cpu_agrees_with_itself),
        cmocka_unit_test(a_coarser_cache_than_stated_is_found),
        cmocka_unit_test(every_kind_of_layer_agrees_with_itself),
        cmocka_unit_test(rows_have_the_window_blocks_that_they_see),
        cmocka_unit_test(a_device_with_other_arithmetic_is_found),
        cmocka_unit_test(a_device_that_replays_wrongly_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
