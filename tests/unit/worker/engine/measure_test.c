/* The measurements of a layer for a worker without layers. */
#include "worker/engine/measure.h"

#include <stdlib.h>

#include "tests/kernels/random_model.h"
#include "tests/unit/cmocka.h"
#include "worker/engine/forward.h"

#define LAYERS 3
#define BYTES  1000000

static struct shard_weights make(struct random_model *m, uint32_t layer,
                                 enum mixer_kind kind)
{
    struct shard_weights part;
    struct dice d = {11};
    struct random_shape r;

    random_shape(&r, &d);
    r.shape.n_layers = LAYERS;
    r.shape.vocab = 100;
    for (uint32_t i = 0; i < LAYERS; i++) {
        r.mixers[i] = kind;
    }
    random_model_new(m, &r, &d);
    part = m->w;
    part.begin = layer;
    part.end = layer + 1;
    part.layers += layer;
    return part;
}

/* The first layer embeds, the second reads hidden states; both have a read
 * bandwidth, and the scratch of a worker with the same options. */
static void measures(uint32_t layer, enum mixer_kind kind)
{
    struct kernels_options o = {.device = "cpu",
                                .block_tokens = 4,
                                .max_tokens = 8,
                                .max_rows = 4,
                                .n_threads = 1};
    struct random_model m;
    struct shard_weights w = make(&m, layer, kind);
    struct measured got;
    struct kernels_sizes sizes;
    struct forward *f;
    struct error e;

    if (measure_layer(&got, &w, BYTES, &o, 2, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    assert_true(got.speed >= 1);
    assert_int_equal(got.speed, measure_round((double)got.speed + 1));
    assert_int_equal(got.device_bytes, 0);
    assert_int_equal(got.n_threads, 1);
    assert_int_equal(forward_new(&f, &w, &o, &e), ST_OK);
    assert_int_equal(forward_alloc_hidden(f, 2, 8, &e), ST_OK);
    forward_sizes(f, &sizes);
    assert_int_equal(got.scratch_bytes, sizes.scratch_bytes);
    forward_free(&f);
    random_model_free(&m);
}

static void measures_either_kind_anywhere(void **state)
{
    (void)state;
    measures(0, MIXER_ATTENTION);
    measures(1, MIXER_ATTENTION);
    measures(0, MIXER_DELTANET);
    measures(1, MIXER_DELTANET);
}

static void says_what_is_wrong(void **state)
{
    struct kernels_options o = {.device = "cpu", .block_tokens = 3};
    struct random_model m;
    struct shard_weights w = make(&m, 0, MIXER_ATTENTION);
    struct measured got;
    struct error e;

    (void)state;
    assert_int_equal(measure_layer(&got, &w, BYTES, &o, 2, &e),
                     ST_INVALID_ARGUMENT);
    random_model_free(&m);
}

/* Values that differ by noise are rounded to the same value; twice the speed
 * is not. */
static void rounds_noise_away(void **state)
{
    (void)state;
    assert_int_equal(measure_round(0), 1);
    assert_int_equal(measure_round(1), 1);
    for (double s = 1e6; s < 1e13; s *= 1.7) {
        double r = (double)measure_round(s);

        assert_true(r <= s && r * MEASURE_STEP > s * (1 - 1e-6));
        assert_true(measure_round(2 * s) > measure_round(s));
        assert_int_equal(measure_round(r * 1.01 + 1), measure_round(r + 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measures_either_kind_anywhere),
        cmocka_unit_test(says_what_is_wrong),
        cmocka_unit_test(rounds_noise_away),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
