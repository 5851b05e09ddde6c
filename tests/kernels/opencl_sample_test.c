/* Tests the opencl backend's sampler against the cpu's: the same rows and
 * logits must give the same tokens, and logprobs within float32's accuracy.
 *
 * The two may differ if a draw falls within 1e-5 of a border, or if the
 * reference cannot decide an edge between kept and not kept.  Such rows are
 * counted, and must be few. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backends/backend.h"
#include "tests/kernels/sampler.h"
#include "tests/kernels/test_device.h"
#include "tests/unit/cmocka.h"

#define VOCAB  4100 /* one part of a scan, and some more */
#define ROUNDS 12
#define IDS    200
#define LP     4e-6

struct pair {
    struct random_model model;
    struct kernels *cpu, *device;
    struct dice dice;
    float logits[SAMPLER_ROWS][VOCAB];
    struct sampling sampling[SAMPLER_ROWS];
    struct sample_row rows[SAMPLER_ROWS];
    uint32_t ids[SAMPLER_ROWS][IDS], bias_tokens[SAMPLER_ROWS][4];
    float biases[SAMPLER_ROWS][4];
    struct sample_result expect[SAMPLER_ROWS], got[SAMPLER_ROWS];
    double weight[VOCAB];
};

static struct kernels *open_kernels(const struct pair *p, const char *device)
{
    struct kernels_options o = {.device = device,
                                .block_tokens = 32,
                                .max_tokens = 8,
                                .max_logits = SAMPLER_ROWS};
    struct kernels *k;
    struct error e;

    if (backend_new(&k, &p->model.w, &o, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return k;
}

static int set_up(void **state)
{
    struct pair *p = calloc(1, sizeof *p);
    struct random_shape r = {.shape = {.n_layers = 1,
                                       .hidden = 8,
                                       .intermediate = 8,
                                       .vocab = VOCAB,
                                       .context = 256,
                                       .norm_eps = 1e-6f,
                                       .n_heads = 1,
                                       .n_kv_heads = 1,
                                       .head_dim = 2},
                             .mixers = {MIXER_ATTENTION}};

    assert_non_null(p);
    p->dice.state = 5;
    random_model_new(&p->model, &r, &p->dice);
    p->cpu = open_kernels(p, "cpu");
    p->device = open_kernels(p, test_device_or("0"));
    *state = p;
    return 0;
}

static int tear_down(void **state)
{
    struct pair *p = *state;

    kernels_free(&p->cpu);
    kernels_free(&p->device);
    random_model_free(&p->model);
    free(p);
    return 0;
}

/* Draws logits of all sorts: spread, peaked, with many equals. */
static void random_logits(struct pair *p, float *l)
{
    uint32_t kind = dice_below(&p->dice, 3);
    float width = kind == 0 ? 2.0f : 12.0f;

    for (uint32_t i = 0; i < VOCAB; i++) {
        l[i] = dice_float(&p->dice, -width, width);
        if (kind == 2) {
            l[i] = (float)(int)l[i];
        }
    }
}

static float one_of(struct dice *d, float a, float b, float c)
{
    const float of[] = {a, b, c};

    return of[dice_below(d, 3)];
}

static void random_row(struct pair *p, uint32_t i)
{
    struct dice *d = &p->dice;
    struct sampling *s = &p->sampling[i];

    *s = sampling_default();
    s->temperature = one_of(d, 0.0f, 0.7f, 1.5f);
    s->top_k = dice_below(d, 2) ? dice_below(d, 100) : 0;
    s->top_p = one_of(d, 1.0f, 0.9f, 0.5f);
    s->min_p = one_of(d, 0.0f, 0.0f, 0.05f);
    s->repetition_penalty = one_of(d, 1.0f, 1.0f, 1.3f);
    s->presence_penalty = one_of(d, 0.0f, 0.0f, 0.5f);
    s->frequency_penalty = one_of(d, 0.0f, 0.0f, 0.25f);
    s->seed = (uint64_t)dice_u32(d) << 32 | dice_u32(d);
    s->logprobs = dice_below(d, 2);
    s->n_top_logprobs = dice_below(d, TOP_LOGPROBS_MAX + 1);
    s->n_biases = dice_below(d, 2) ? 4 : 0;
    s->bias_tokens = p->bias_tokens[i];
    s->biases = p->biases[i];
    for (uint32_t j = 0; j < 4; j++) {
        p->bias_tokens[i][j] = j * 1000 + dice_below(d, 1000);
        p->biases[i][j] = dice_float(d, -10.0f, 10.0f);
    }
    for (uint32_t j = 0; j < IDS; j++) {
        p->ids[i][j] = dice_below(d, j % 2 ? 20 : VOCAB);
    }
    p->rows[i] = (struct sample_row){s,   dice_below(d, 3),      i, p->ids[i],
                                     IDS, dice_below(d, IDS + 1)};
    random_logits(p, p->logits[i]);
}

static enum status sample(struct pair *p, struct kernels *k, uint32_t n,
                          struct sample_result *out, struct error *e)
{
    for (uint32_t i = 0; i < n; i++) {
        kernels_logits_write(k, i, p->logits[i]);
    }
    return kernels_sample(k, p->rows, n, out, e);
}

static void compare_logprobs(const struct sample_result *a,
                             const struct sample_result *b, uint32_t n_top)
{
    assert_true(fabs((double)a->logprob - (double)b->logprob) < LP);
    for (uint32_t j = 0; j < n_top; j++) {
        assert_int_equal(a->top[j].token, b->top[j].token);
        assert_true(
            fabs((double)a->top[j].logprob - (double)b->top[j].logprob) < LP);
    }
}

/* Returns whether the two may differ. */
static bool near(struct pair *p, uint32_t i)
{
    bool close = sampler_weights(p->logits[i], VOCAB, &p->rows[i], p->weight);
    bool border = false;

    (void)sampler_draw(p->weight, VOCAB, &p->rows[i], &border);
    return close || border;
}

static void test_like_cpu(void **state)
{
    struct pair *p = *state;
    uint32_t differ = 0;
    struct error e;

    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < SAMPLER_ROWS; i++) {
            random_row(p, i);
        }
        assert_int_equal(sample(p, p->cpu, SAMPLER_ROWS, p->expect, &e), ST_OK);
        if (sample(p, p->device, SAMPLER_ROWS, p->got, &e) != ST_OK) {
            fail_msg("%s", e.text);
        }
        for (uint32_t i = 0; i < SAMPLER_ROWS; i++) {
            if (p->got[i].token != p->expect[i].token) {
                assert_true(near(p, i));
                differ++;
            } else if (p->sampling[i].logprobs) {
                compare_logprobs(&p->got[i], &p->expect[i],
                                 p->sampling[i].n_top_logprobs);
            }
        }
    }
    print_message("%u of %u rows differ, near a border\n", differ,
                  ROUNDS * SAMPLER_ROWS);
    assert_true(differ < ROUNDS * SAMPLER_ROWS / 100);
}

/* A row gives the same result alone and among others, at any place. */
static void test_alone(void **state)
{
    struct pair *p = *state;
    struct sample_result alone;
    struct error e;

    for (uint32_t i = 0; i < SAMPLER_ROWS; i++) {
        random_row(p, i);
    }
    assert_int_equal(sample(p, p->device, SAMPLER_ROWS, p->got, &e), ST_OK);
    for (uint32_t i = 1; i < SAMPLER_ROWS; i += 9) {
        p->rows[0] = p->rows[i];
        memcpy(p->logits[0], p->logits[i], sizeof p->logits[0]);
        assert_int_equal(sample(p, p->device, 1, &alone, &e), ST_OK);
        assert_int_equal(alone.token, p->got[i].token);
        if (p->sampling[i].logprobs) {
            assert_memory_equal(alone.top, p->got[i].top,
                                p->sampling[i].n_top_logprobs *
                                    sizeof *alone.top);
        }
    }
}

/* A top_p below any token's mass still keeps the best, also below 2^-64, the
 * device's smallest step. */
static void test_least_top_p(void **state)
{
    static const float least[] = {FLT_TRUE_MIN, FLT_MIN,    1e-20f,
                                  5e-20f,       0x1p-64f,   0x1.8p-64f,
                                  1e-19f,       FLT_EPSILON};
    const uint32_t n = sizeof least / sizeof *least;
    struct pair *p = *state;
    struct error e;

    for (uint32_t i = 0; i < 3 * n; i++) {
        random_row(p, i);
        p->sampling[i].temperature = 1.0f;
        p->sampling[i].top_p = least[i % n];
        p->sampling[i].top_k = i / n == 1 ? 50 : 0;
        p->sampling[i].min_p = i / n == 2 ? 0.05f : 0.0f;
        p->rows[i].index = i;
    }
    assert_int_equal(sample(p, p->cpu, 3 * n, p->expect, &e), ST_OK);
    assert_int_equal(sample(p, p->device, 3 * n, p->got, &e), ST_OK);
    for (uint32_t i = 0; i < 3 * n; i++) {
        assert_int_equal(p->got[i].token, p->expect[i].token);
    }
}

/* Row 7 reports its damage; the others keep every bit. */
static void test_not_finite(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    struct pair *p = *state;
    struct error e;

    for (uint32_t i = 0; i < 9; i++) {
        for (uint32_t j = 0; j < SAMPLER_ROWS; j++) {
            random_row(p, j);
        }
        assert_int_equal(sample(p, p->device, 10, p->expect, &e), ST_OK);
        p->logits[7][i < 3 ? 0 : i < 6 ? VOCAB - 1 : 2048] = bad[i % 3];
        assert_int_equal(sample(p, p->device, 10, p->got, &e), ST_OK);
        for (uint32_t j = 0; j < 10; j++) {
            const struct sampling *s = &p->sampling[j];

            assert_int_equal(p->got[j].status, j == 7 ? ST_DATA_LOSS : ST_OK);
            if (j == 7) {
                continue;
            }
            assert_int_equal(p->got[j].token, p->expect[j].token);
            if (s->logprobs) {
                assert_true(p->got[j].logprob == p->expect[j].logprob);
                assert_memory_equal(p->got[j].top, p->expect[j].top,
                                    s->n_top_logprobs * sizeof *p->got[j].top);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_like_cpu),
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_least_top_p),
        cmocka_unit_test(test_not_finite),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
