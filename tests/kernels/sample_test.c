/* The sampler: its generator, its filters, its distribution. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/philox.h"
#include "tests/kernels/random_model.h"
#include "tests/unit/cmocka.h"

#include "kernels/kernels.h"

#define VOCAB 50
#define ROWS  64

struct bench {
    struct random_model model;
    struct kernels *k;
    float logits[VOCAB];
};

static struct bench *open_bench(void)
{
    struct bench *b = calloc(1, sizeof *b);
    struct kernels_options o = {.device = "cpu",
                                .block_tokens = 32,
                                .n_threads = 2,
                                .max_tokens = 8,
                                .max_logits = ROWS};
    struct dice d = {3};
    struct random_shape r;
    struct error e;

    assert_non_null(b);
    random_shape(&r, &d);
    r.shape.vocab = VOCAB;
    random_model_new(&b->model, &r, &d);
    assert_int_equal(kernels_new(&b->k, &b->model.w, &o, &e), ST_OK);
    for (uint32_t i = 0; i < VOCAB; i++) {
        b->logits[i] = dice_float(&d, -2.0f, 2.0f);
    }
    return b;
}

static void close_bench(struct bench *b)
{
    kernels_free(&b->k);
    random_model_free(&b->model);
    free(b);
}

/* A row with its parameters beside it. */
struct asked {
    float temperature, top_p;
    uint32_t top_k, choice, index;
    uint64_t seed;
};

static struct sampling sampling_of(const struct asked *a)
{
    struct sampling s = sampling_default();

    s.temperature = a->temperature;
    s.top_k = a->top_k;
    s.top_p = a->top_p;
    s.seed = a->seed;
    return s;
}

static enum status choose(struct bench *b, const struct asked *asked,
                          uint32_t n, uint32_t *out, struct error *e)
{
    struct sampling sampling[ROWS];
    struct sample_row rows[ROWS];
    struct sample_result results[ROWS];
    enum status st;

    for (uint32_t i = 0; i < n; i++) {
        sampling[i] = sampling_of(&asked[i]);
        rows[i] = (struct sample_row){.sampling = &sampling[i],
                                      .choice = asked[i].choice,
                                      .index = asked[i].index};
    }
    st = kernels_sample(b->k, rows, n, results, e);
    for (uint32_t i = 0; i < n; i++) {
        out[i] = results[i].token;
    }
    return st;
}

static void draw(struct bench *b, const struct asked *rows, uint32_t n,
                 uint32_t *out)
{
    struct error e;

    for (uint32_t i = 0; i < n; i++) {
        kernels_logits_write(b->k, i, b->logits);
    }
    assert_int_equal(choose(b, rows, n, out, &e), ST_OK);
}

static uint32_t draw_one(struct bench *b, struct asked row)
{
    uint32_t token;

    draw(b, &row, 1, &token);
    return token;
}

static uint32_t greedy(const struct bench *b)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < VOCAB; i++) {
        best = b->logits[i] > b->logits[best] ? i : best;
    }
    return best;
}

/* Known answers of Philox4x32-10 (Random123's kat_vectors). */
static void test_philox(void **state)
{
    struct philox r = philox4x32(0, (struct philox){{0, 0, 0, 0}});

    (void)state;
    assert_int_equal(r.v[0], 0x6627e8d5);
    assert_int_equal(r.v[1], 0xe169c58d);
    assert_int_equal(r.v[2], 0xbc57ac4c);
    assert_int_equal(r.v[3], 0x9b00dbd8);
    r = philox4x32(UINT64_MAX, (struct philox){{UINT32_MAX, UINT32_MAX,
                                                UINT32_MAX, UINT32_MAX}});
    assert_int_equal(r.v[0], 0x408f276d);
    assert_int_equal(r.v[1], 0x41c83b0e);
    assert_int_equal(r.v[2], 0xa20bc7c6);
    assert_int_equal(r.v[3], 0x6d5451fd);
    r = philox4x32(
        0x299f31d0a4093822u,
        (struct philox){{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}});
    assert_int_equal(r.v[0], 0xd16cfe09);
    assert_int_equal(r.v[1], 0x94fdcceb);
    assert_int_equal(r.v[2], 0x5001e420);
    assert_int_equal(r.v[3], 0x24126ea1);
}

/* Counts of n draws against the weights, by chi-square: its mean is the
 * number of kinds less one; the bound is six deviations above. */
static void check_counts(struct bench *b, struct asked row,
                         const double *weight)
{
    enum { DRAWS = 64 * 1000 };
    struct asked rows[ROWS];
    uint32_t out[ROWS], counts[VOCAB] = {0};
    double total = 0.0, chi = 0.0, kinds = -1.0;

    for (uint32_t i = 0; i < VOCAB; i++) {
        total += weight[i];
    }
    for (uint32_t i = 0; i < DRAWS; i++) {
        rows[i % ROWS] = row;
        rows[i % ROWS].index = i;
        if (i % ROWS == ROWS - 1) {
            draw(b, rows, ROWS, out);
            for (uint32_t j = 0; j < ROWS; j++) {
                counts[out[j]]++;
            }
        }
    }
    for (uint32_t i = 0; i < VOCAB; i++) {
        double expect = weight[i] / total * DRAWS;

        if (weight[i] == 0.0) {
            assert_int_equal(counts[i], 0);
            continue;
        }
        chi += (counts[i] - expect) * (counts[i] - expect) / expect;
        kinds += 1.0;
    }
    if (chi > kinds + 6.0 * sqrt(2.0 * kinds)) {
        fail_msg("seed %llu: chi-square %g over %g kinds",
                 (unsigned long long)row.seed, chi, kinds + 1.0);
    }
}

static uint32_t rank(const struct bench *b, uint32_t id)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < VOCAB; i++) {
        n += b->logits[i] > b->logits[id] ||
             (b->logits[i] == b->logits[id] && i < id);
    }
    return n;
}

static void weigh(const struct bench *b, double t, uint32_t k, double p,
                  double *weight)
{
    double kept = 0.0, before[VOCAB];

    for (uint32_t i = 0; i < VOCAB; i++) {
        weight[i] = rank(b, i) < k ? exp((double)b->logits[i] / t) : 0.0;
        kept += weight[i];
    }
    for (uint32_t i = 0; i < VOCAB; i++) {
        before[i] = 0.0;
        for (uint32_t j = 0; j < VOCAB; j++) {
            before[i] += rank(b, j) < rank(b, i) ? weight[j] : 0.0;
        }
    }
    for (uint32_t i = 0; i < VOCAB; i++) {
        weight[i] = before[i] < p * kept ? weight[i] : 0.0;
    }
}

static void test_distribution(void **state)
{
    static const struct {
        float t, p;
        uint32_t k;
    } cases[] = {{1.0f, 1.0f, 0},  {0.5f, 1.0f, 0},   {2.0f, 1.0f, 7},
                 {1.0f, 0.5f, 0},  {1.0f, 0.9f, 20},  {1.0f, 1.0f, 5000},
                 {1.0f, 0.99f, 2}, {1.5f, 0.05f, 50}, {1.0f, 1.0f, 49}};
    struct bench *b = open_bench();
    double weight[VOCAB];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct asked row = {.temperature = cases[i].t,
                            .top_k = cases[i].k,
                            .top_p = cases[i].p,
                            .seed = 77 + i};

        weigh(b, (double)cases[i].t, cases[i].k ? cases[i].k : VOCAB,
              (double)cases[i].p, weight);
        check_counts(b, row, weight);
    }
    close_bench(b);
}

/* Greedy by four ways of asking. */
static void test_greedy(void **state)
{
    struct bench *b = open_bench();
    uint32_t best = greedy(b);

    (void)state;
    for (uint32_t i = 0; i < 200; i++) {
        struct asked r = {.top_p = 1.0f, .seed = i, .index = i};

        assert_int_equal(draw_one(b, r), best);
        r.temperature = 5.0f;
        r.top_k = 1;
        assert_int_equal(draw_one(b, r), best);
        r.top_k = 0;
        r.top_p = 1e-6f;
        assert_int_equal(draw_one(b, r), best);
        r.top_p = 1.0f;
        r.temperature = 1e-4f;
        assert_int_equal(draw_one(b, r), best);
    }
    close_bench(b);
}

/* Equals rank by id, also at the edge of top_k and top_p. */
static void test_ties(void **state)
{
    struct bench *b = open_bench();
    struct asked r = {.top_p = 1.0f};
    uint32_t seen = 0;

    (void)state;
    for (uint32_t i = 0; i < VOCAB; i++) {
        b->logits[i] = i % 10 == 3 ? 1.0f : -1.0f;
    }
    assert_int_equal(draw_one(b, r), 3);
    r.temperature = 1.0f;
    r.top_k = 2;
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t token;

        r.index = i;
        token = draw_one(b, r);
        assert_true(token == 3 || token == 13);
        seen |= token == 3 ? 1 : 2;
    }
    assert_int_equal(seen, 3);
    r.top_k = 5;
    r.top_p = 0.2f; /* one of five equals has a fifth of the mass */
    for (uint32_t i = 0; i < 100; i++) {
        r.index = i;
        assert_true(draw_one(b, r) <= 13);
    }
    close_bench(b);
}

/* The same key draws the same token in any batch and place; any other key is
 * another draw. */
static void test_key(void **state)
{
    struct bench *b = open_bench();
    struct asked rows[ROWS];
    uint32_t out[ROWS], alone, differ[3] = {0};

    (void)state;
    for (uint32_t i = 0; i < ROWS; i++) {
        rows[i] = (struct asked){.temperature = 1.0f,
                                 .top_p = 1.0f,
                                 .seed = 1000 + i / 8,
                                 .choice = i % 2,
                                 .index = i % 8 / 2};
    }
    draw(b, rows, ROWS, out);
    for (uint32_t i = 0; i < ROWS; i++) {
        struct asked other = rows[i];

        alone = draw_one(b, rows[i]);
        assert_int_equal(alone, out[i]);
        other.seed ^= 1ull << 40;
        differ[0] += draw_one(b, other) != alone;
        other = rows[i];
        other.choice += 2;
        differ[1] += draw_one(b, other) != alone;
        other = rows[i];
        other.index += 4;
        differ[2] += draw_one(b, other) != alone;
    }
    for (int i = 0; i < 3; i++) {
        assert_true(differ[i] > ROWS / 2);
    }
    close_bench(b);
}

static void test_not_finite(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    struct bench *b = open_bench();

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct asked rows[3] = {
            {.top_p = 1.0f}, {.top_p = 1.0f}, {.top_p = 1.0f}};
        uint32_t out[3];
        struct error e;
        float kept = b->logits[VOCAB - 1];

        kernels_logits_write(b->k, 0, b->logits);
        kernels_logits_write(b->k, 2, b->logits);
        b->logits[VOCAB - 1] = bad[i];
        kernels_logits_write(b->k, 1, b->logits);
        b->logits[VOCAB - 1] = kept;
        assert_int_equal(choose(b, rows, 3, out, &e), ST_INTERNAL);
        assert_non_null(strstr(e.text, "row 1"));
        assert_non_null(strstr(e.text, "not finite"));
    }
    close_bench(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox), cmocka_unit_test(test_distribution),
        cmocka_unit_test(test_greedy), cmocka_unit_test(test_ties),
        cmocka_unit_test(test_key),    cmocka_unit_test(test_not_finite),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
