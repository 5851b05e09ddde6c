/* Tests the sampler: its generator, its eight steps, its distribution. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/philox.h"
#include "tests/kernels/sampler.h"
#include "tests/unit/cmocka.h"

#define VOCAB 50
#define ROWS  SAMPLER_ROWS

static struct sampling greedy(void)
{
    struct sampling s = sampling_default();

    s.temperature = 0.0f;
    return s;
}

static struct sampler *open_small(void)
{
    return sampler_open(VOCAB, 2, NULL);
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

/* ---- draws, against the reference's weights ---- */

enum { DRAWS = ROWS * 1000 };

static void count_draws(struct sampler *s, const struct sample_row *row,
                        uint32_t *counts)
{
    struct sample_row rows[ROWS];
    struct sample_result out[ROWS];

    for (uint32_t i = 0; i < DRAWS; i++) {
        rows[i % ROWS] = *row;
        rows[i % ROWS].index = i;
        if (i % ROWS == ROWS - 1) {
            sampler_choose(s, rows, ROWS, out);
            for (uint32_t j = 0; j < ROWS; j++) {
                counts[out[j].token]++;
            }
        }
    }
}

/* Compares counts with weights by chi-square; results expected fewer than five
 * times count as one class.  The mean is the number of classes minus one; the
 * bound is six standard deviations above. */
static void check_counts(struct sampler *s, const struct sample_row *row)
{
    uint32_t counts[VOCAB] = {0}, rare = 0;
    double weight[VOCAB], total = 0.0, chi = 0.0, kinds = -1.0, scarce = 0.0;

    assert_false(sampler_weights(s->logits, VOCAB, row, weight));
    count_draws(s, row, counts);
    for (uint32_t i = 0; i < VOCAB; i++) {
        total += weight[i];
    }
    for (uint32_t i = 0; i < VOCAB; i++) {
        double expect = weight[i] / total * DRAWS;

        if (weight[i] == 0.0) {
            assert_int_equal(counts[i], 0);
        } else if (expect < 5.0) {
            rare += counts[i];
            scarce += expect;
        } else {
            chi += (counts[i] - expect) * (counts[i] - expect) / expect;
            kinds += 1.0;
        }
    }
    assert_true(fabs(rare - scarce) <= 6.0 * sqrt(scarce) + 1.0);
    if (chi > kinds + 6.0 * sqrt(2.0 * kinds)) {
        fail_msg("seed %llu: chi-square %g over %g kinds",
                 (unsigned long long)row->sampling->seed, chi, kinds + 1.0);
    }
}

static const uint32_t some_ids[] = {4,  4,  9, 17, 30, 9,  49, 0,
                                    22, 17, 4, 31, 17, 17, 8,  22};
static const uint32_t bias_tokens[] = {0, 9, 17, 33, 49};
static const float biases[] = {1.5f, -100.0f, 0.75f, 2.0f, -0.5f};

static void test_distribution(void **state)
{
    static const struct {
        float temperature, top_p, min_p;
        uint32_t top_k, n_biases, n_prompt;
        float repetition, frequency, presence;
    } cases[] = {
        {1.0f, 1.0f, 0, 0, 0, 0, 1, 0, 0},
        {0.5f, 1.0f, 0, 0, 0, 0, 1, 0, 0},
        {2.0f, 1.0f, 0, 7, 0, 0, 1, 0, 0},
        {1.0f, 0.5f, 0, 0, 0, 0, 1, 0, 0},
        {1.0f, 0.9f, 0, 20, 0, 0, 1, 0, 0},
        {1.0f, 1.0f, 0, VOCAB, 0, 0, 1, 0, 0},
        {1.0f, 0.99f, 0, 2, 0, 0, 1, 0, 0},
        {1.5f, 0.05f, 0, 50, 0, 0, 1, 0, 0},
        {1.0f, 1.0f, 0, 49, 0, 0, 1, 0, 0},
        {100.0f, 1.0f, 0, 0, 0, 0, 1, 0, 0},
        {1.0f, 1.0f, 0.1f, 0, 0, 0, 1, 0, 0},
        {1.0f, 0.8f, 0.3f, 30, 0, 0, 1, 0, 0},
        {0.7f, 1.0f, 1.0f, 0, 0, 0, 1, 0, 0},
        {1.0f, 1.0f, 0, 0, 5, 0, 1, 0, 0},
        {0.8f, 0.9f, 0.05f, 25, 5, 6, 1.3f, 0.2f, 0.4f},
        {1.0f, 1.0f, 0, 0, 0, 16, 1.8f, 2, 2},
        {1.0f, 1.0f, 0, 0, 0, 0, 1, 0.3f, 0},
        {1.0f, 1.0f, 0, 0, 0, 5, 1, 0, 0.9f},
        {1.0f, 1.0f, 0, 0, 0, 5, 1, -0.1f, -0.2f},
        {1.0f, 1.0f, 0, 0, 0, 8, 0.5f, 0, 0},
        {1.0f, 0.95f, 0.02f, 0, 3, 8, 1.1f, 0.5f, 0.5f},
    };
    struct sampler *s = open_small();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sampling how = {.temperature = cases[i].temperature,
                               .top_k = cases[i].top_k,
                               .top_p = cases[i].top_p,
                               .min_p = cases[i].min_p,
                               .repetition_penalty = cases[i].repetition,
                               .frequency_penalty = cases[i].frequency,
                               .presence_penalty = cases[i].presence,
                               .seed = 77 + i,
                               .n_biases = cases[i].n_biases,
                               .bias_tokens = bias_tokens,
                               .biases = biases};
        struct sample_row row = {.sampling = &how,
                                 .ids = some_ids,
                                 .n_ids = 16,
                                 .n_prompt = cases[i].n_prompt};

        check_counts(s, &row);
    }
    sampler_close(s);
}

/* ---- tokens, one by one ---- */

struct lists {
    uint32_t ids[300], bias_tokens[LOGIT_BIASES_MAX];
    float biases[LOGIT_BIASES_MAX];
};

static float pick(struct dice *d, const float *of, uint32_t n)
{
    return of[dice_below(d, n)];
}

/* Ascending distinct ids, each with a bias. */
static void roll_biases(struct dice *d, uint32_t vocab, struct lists *l,
                        struct sampling *s)
{
    uint32_t most = vocab < LOGIT_BIASES_MAX ? vocab : LOGIT_BIASES_MAX;
    uint32_t n = dice_below(d, 2) ? most : dice_below(d, most + 1);

    for (uint32_t i = 0; i < n; i++) {
        l->bias_tokens[i] = (uint32_t)((uint64_t)i * vocab / n);
        l->biases[i] = dice_below(d, 4) == 0
                           ? LOGIT_BIAS_MAX * (dice_below(d, 2) ? 1.0f : -1.0f)
                           : dice_float(d, -3.0f, 3.0f);
    }
    s->n_biases = n;
    s->bias_tokens = l->bias_tokens;
    s->biases = l->biases;
}

/* Any mixture of parameters, each often at a limit. */
static void roll(struct dice *d, uint32_t vocab, struct lists *l,
                 struct sampling *s, struct sample_row *row)
{
    static const float ts[] = {0, 0.3f, 1, 2, TEMPERATURE_MAX};
    static const float top_ps[] = {1, 1, 1e-6f, 0.1f, 0.5f, 0.9f, 0.99f};
    static const float min_ps[] = {0, 0, 0, 1, 0.01f, 0.1f, 0.5f};
    static const float repetitions[] = {
        1, 1, REPETITION_PENALTY_MIN, REPETITION_PENALTY_MAX, 1.1f, 0.7f};
    static const float penalties[] = {0, 0, -PENALTY_MAX, PENALTY_MAX, 0.3f};
    const uint32_t top_ks[] = {0, 0, 1, 2, 5, vocab - 1, vocab};

    *s = sampling_default();
    s->temperature = pick(d, ts, 5);
    s->top_k = dice_pick(d, top_ks, 7);
    s->top_p = pick(d, top_ps, 7);
    s->min_p = pick(d, min_ps, 7);
    s->repetition_penalty = pick(d, repetitions, 6);
    s->frequency_penalty = pick(d, penalties, 5);
    s->presence_penalty = pick(d, penalties, 5);
    s->seed = (uint64_t)dice_u32(d) << 32 | dice_u32(d);
    if (dice_below(d, 3) == 0) {
        roll_biases(d, vocab, l, s);
    }
    *row = (struct sample_row){.sampling = s,
                               .choice = dice_below(d, CHOICES_MAX),
                               .index = dice_below(d, 1000),
                               .ids = l->ids,
                               .n_ids = dice_below(d, 300)};
    for (uint32_t i = 0; i < row->n_ids; i++) {
        l->ids[i] = dice_below(d, dice_below(d, 2) ? vocab : (vocab + 9) / 10);
    }
    row->n_prompt = dice_below(d, row->n_ids + 1);
}

/* Plain, peaked, with many equals, and far apart. */
static void roll_logits(struct dice *d, float *l, uint32_t vocab)
{
    static const float spans[] = {2, 20, 4, 10000};
    uint32_t kind = dice_below(d, 4);

    for (uint32_t i = 0; i < vocab; i++) {
        l[i] = dice_float(d, -spans[kind], spans[kind]);
        l[i] = kind == 2 ? rintf(l[i]) : l[i];
    }
}

/* Every token equals the reference's, except for draws near a border. */
static void test_tokens(void **state)
{
    static const uint32_t vocabs[] = {1, 2, 7, 50, 64, 777, 1100};
    enum { EACH = 600 };
    uint32_t n = 0, n_near = 0;
    double weight[1100];
    struct lists lists;

    (void)state;
    for (size_t v = 0; v < sizeof vocabs / sizeof *vocabs; v++) {
        struct sampler *s = sampler_open(vocabs[v], 2, NULL);
        struct dice d = {v};

        for (uint32_t i = 0; i < EACH; i++) {
            struct sampling how;
            struct sample_row row;
            uint32_t token, expect;
            bool near;

            roll_logits(&d, s->logits, vocabs[v]);
            roll(&d, vocabs[v], &lists, &how, &row);
            token = sampler_token(s, &row);
            near = sampler_weights(s->logits, vocabs[v], &row, weight);
            expect = sampler_draw(weight, vocabs[v], &row, &near);
            n++;
            n_near += near;
            if (!near && token != expect) {
                fail_msg("V %u, case %u: token %u, expected %u", vocabs[v], i,
                         token, expect);
            }
        }
        sampler_close(s);
    }
    print_message("%u of %u cases left out: near a border\n", n_near, n);
    assert_true(n_near * 10 < n);
}

/* Six ways to request greedy sampling. */
static void test_greedy(void **state)
{
    struct sampler *s = open_small();
    struct sampling how = greedy();
    struct sample_row row = {.sampling = &how};
    uint32_t best = sampler_token(s, &row);

    (void)state;
    for (uint32_t i = 0; i < VOCAB; i++) {
        assert_true(s->logits[i] <= s->logits[best]);
    }
    for (uint32_t i = 0; i < 200; i++) {
        row.index = i;
        how = greedy();
        how.seed = i;
        assert_int_equal(sampler_token(s, &row), best);
        how.temperature = 5.0f;
        how.top_k = 1;
        assert_int_equal(sampler_token(s, &row), best);
        how.top_k = 0;
        how.top_p = FLT_MIN;
        assert_int_equal(sampler_token(s, &row), best);
        how.top_p = 1.0f;
        how.min_p = 1.0f;
        assert_int_equal(sampler_token(s, &row), best);
        how.min_p = 0.0f;
        how.temperature = 1e-4f;
        assert_int_equal(sampler_token(s, &row), best);
        how.temperature = nextafterf(KERNELS_TEMPERATURE_MIN, 0.0f);
        assert_int_equal(sampler_token(s, &row), best);
    }
    sampler_close(s);
}

static void set_all(struct sampler *s, float l)
{
    for (uint32_t i = 0; i < s->vocab; i++) {
        s->logits[i] = l;
    }
}

/* At the lowest temperature a draw is random; below it, greedy. */
static void test_coldest(void **state)
{
    struct sampler *s = open_small();
    struct sampling how = sampling_default();
    struct sample_row row = {.sampling = &how};
    uint32_t second = 0;

    (void)state;
    set_all(s, -1.0f);
    s->logits[7] = 1.0f;
    s->logits[3] = nextafterf(1.0f, 0.0f); /* weighs e^-0.006 of the best one's
                                            * weight */
    for (row.index = 0; row.index < 200; row.index++) {
        uint32_t token;

        how.temperature = KERNELS_TEMPERATURE_MIN;
        token = sampler_token(s, &row);
        assert_true(token == 3 || token == 7);
        second += token == 3;
        how.temperature = nextafterf(KERNELS_TEMPERATURE_MIN, 0.0f);
        assert_int_equal(sampler_token(s, &row), 7);
    }
    assert_true(second > 50 && second < 150);
    sampler_close(s);
}

/* Returns which of the first 64 ids are ever drawn, as bits. */
static uint64_t seen(struct sampler *s, struct sample_row row)
{
    uint64_t bits = 0;

    for (row.index = 0; row.index < 300; row.index++) {
        bits |= 1ull << sampler_token(s, &row);
    }
    return bits;
}

/* Equals rank by id, also at the edges of top_k, top_p and min_p; the sign of
 * zero is ignored. */
static void test_ties(void **state)
{
    struct sampler *s = open_small();
    struct sampling how = greedy();
    struct sample_row row = {.sampling = &how};

    (void)state;
    set_all(s, -1.0f);
    for (uint32_t i = 3; i < VOCAB; i += 10) {
        s->logits[i] = i == 3 ? -0.0f : 0.0f;
    }
    assert_int_equal(sampler_token(s, &row), 3);
    how.temperature = 1.0f;
    how.top_k = 2;
    assert_true(seen(s, row) == (1ull << 3 | 1ull << 13));
    how.top_k = 5;
    how.top_p = 0.2f; /* one of five equals has a fifth of the mass */
    assert_true((seen(s, row) & ~(1ull << 3 | 1ull << 13)) == 0);
    how.top_k = 4;
    how.top_p = 0.7f;
    assert_true(seen(s, row) == (1ull << 3 | 1ull << 13 | 1ull << 23));
    how.top_k = 0;
    how.top_p = 1.0f;
    how.min_p = 1.0f;
    assert_true(seen(s, row) == (1ull << 3 | 1ull << 13 | 1ull << 23 |
                                 1ull << 33 | 1ull << 43));
    sampler_close(s);
}

/* The same key draws the same token in any batch and place; another key draws
 * independently. */
static void test_key(void **state)
{
    struct sampler *s = open_small();
    struct sampling how[ROWS];
    struct sample_row rows[ROWS];
    struct sample_result out[ROWS];
    uint32_t differ[3] = {0};

    (void)state;
    for (uint32_t i = 0; i < ROWS; i++) {
        how[i] = sampling_default();
        how[i].seed = 1000 + i / 8;
        rows[i] = (struct sample_row){
            .sampling = &how[i], .choice = i % 2, .index = i % 8 / 2};
    }
    sampler_choose(s, rows, ROWS, out);
    for (uint32_t i = 0; i < ROWS; i++) {
        struct sample_row other = rows[i];
        uint32_t alone = sampler_token(s, &rows[i]);

        assert_int_equal(alone, out[i].token);
        how[i].seed ^= 1ull << 40;
        differ[0] += sampler_token(s, &other) != alone;
        how[i].seed ^= 1ull << 40;
        other.choice += 2;
        differ[1] += sampler_token(s, &other) != alone;
        other = rows[i];
        other.index += 4;
        differ[2] += sampler_token(s, &other) != alone;
    }
    for (int i = 0; i < 3; i++) {
        assert_true(differ[i] > ROWS / 2);
    }
    sampler_close(s);
}

/* ---- bias and penalties ---- */

/* Tokens 0 and 1 have logits a and b, all others less; the ids are all token 0.
 * Which one ranks first? */
struct duel {
    float a, b, bias, repetition, frequency, presence;
    uint32_t n_prompt, n_generated, best;
};

static void test_penalties(void **state)
{
    static const struct duel duels[] = {
        /* repetition: once, for prompt or generated ids, by sign */
        {4, 1.5f, 0, 2, 0, 0, 3, 0, 0},
        {4, 2.5f, 0, 2, 0, 0, 1, 0, 1},
        {4, 2.5f, 0, 2, 0, 0, 0, 1, 1},
        {4, 1.5f, 0, 2, 0, 0, 5, 5, 0},
        {-1, -1.5f, 0, 2, 0, 0, 1, 0, 1},
        {-1, -2.5f, 0, 2, 0, 0, 2, 2, 0},
        {-3, -2, 0, 0.5f, 0, 0, 1, 1, 0},
        {0, -0.1f, 0, 100, 0, 0, 1, 1, 0},
        {4, 2, 0, 2, 0, 0, 1, 0, 0}, /* now equal: the lower id */
        /* frequency: each time the id was generated, never for the prompt */
        {3, 1.6f, 0, 1, 0.5f, 0, 0, 2, 0},
        {3, 1.6f, 0, 1, 0.5f, 0, 0, 3, 1},
        {3, 1.6f, 0, 1, 0.5f, 0, 9, 2, 0},
        {3, 2.9f, 0, 1, 2, 0, 9, 0, 0},
        {3, 3.1f, 0, 1, -0.5f, 0, 9, 1, 0},
        /* presence: once if the id was generated */
        {3, 1.5f, 0, 1, 0, 1, 0, 9, 0},
        {3, 2.5f, 0, 1, 0, 1, 0, 1, 1},
        {3, 2.5f, 0, 1, 0, 1, 9, 0, 0},
        {3, 4.5f, 0, 1, 0, -2, 1, 3, 0},
        /* both; repetition before them; bias before all */
        {3, 1.4f, 0, 1, 0.5f, 1, 0, 1, 0},
        {3, 1.6f, 0, 1, 0.5f, 1, 0, 1, 1},
        {4, 0.9f, 0, 2, 0, 1, 0, 2, 0},
        {4, 1.2f, 0, 2, 0, 1, 0, 2, 1},
        {-1, 0.3f, 2, 2, 0, 0, 1, 0, 0},
        {1, 0, -100, 1, 0, 0, 0, 0, 1},
        {-50, 49, 100, 1, 0, 0, 0, 0, 0},
        {5, 4, 0, 1, 0, 0, 9, 9, 0},
    };
    static const uint32_t ids[20] = {0}, zero = 0;
    struct sampler *s = open_small();

    (void)state;
    for (size_t i = 0; i < sizeof duels / sizeof *duels; i++) {
        const struct duel *d = &duels[i];
        struct sampling how = greedy();
        struct sample_row row = {.sampling = &how,
                                 .ids = ids,
                                 .n_ids = d->n_prompt + d->n_generated,
                                 .n_prompt = d->n_prompt};

        set_all(s, -1000.0f);
        s->logits[0] = d->a;
        s->logits[1] = d->b;
        how.n_biases = d->bias != 0.0f;
        how.bias_tokens = &zero;
        how.biases = &d->bias;
        how.repetition_penalty = d->repetition;
        how.frequency_penalty = d->frequency;
        how.presence_penalty = d->presence;
        if (sampler_token(s, &row) != d->best) {
            fail_msg("duel %zu: token %u is not the best", i, d->best);
        }
    }
    sampler_close(s);
}

/* ---- damage ---- */

/* Rows 1 and 2 of four are damaged: they report it, and the others have the
 * tokens and logprobs that they have without them. */
static void check_broken(struct sampler *s, const struct sample_row *rows,
                         const struct sample_result *whole)
{
    struct sample_result out[4];
    struct error e;

    memset(out, 0xff, sizeof out);
    assert_int_equal(kernels_sample(s->k, rows, 4, out, &e), ST_OK);
    for (uint32_t i = 0; i < 4; i++) {
        if (i == 1 || i == 2) {
            assert_int_equal(out[i].status, ST_DATA_LOSS);
            continue;
        }
        assert_int_equal(out[i].status, ST_OK);
        assert_int_equal(out[i].token, whole[i].token);
        assert_true(!rows[i].sampling->logprobs ||
                    out[i].logprob == whole[i].logprob);
    }
}

/* At any place of a register, and in the remainder. */
static void test_not_finite(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    static const uint32_t places[] = {0, 15, 16, 47, 48, VOCAB - 1};
    struct sampler *s = open_small();
    struct sampling how = greedy();
    struct sample_row rows[4] = {{.sampling = &how},
                                 {.sampling = &how},
                                 {.sampling = &how},
                                 {.sampling = &how}};
    struct sample_result whole[4];

    (void)state;
    for (uint32_t i = 0; i < 18; i++) {
        float *place = &s->logits[places[i / 3]], kept = *place;

        how.logprobs = i % 2;
        how.presence_penalty = i % 5 == 0;
        sampler_choose(s, rows, 4, whole);
        kernels_logits_write(s->k, 0, s->logits);
        kernels_logits_write(s->k, 3, s->logits);
        *place = bad[i % 3];
        kernels_logits_write(s->k, 1, s->logits);
        kernels_logits_write(s->k, 2, s->logits);
        *place = kept;
        check_broken(s, rows, whole);
    }
    sampler_close(s);
}

/* Finite before adjustment and not after; and the largest finite values. */
static void test_overflow(void **state)
{
    static const uint32_t ids[] = {3};
    struct sampler *s = open_small();
    struct sampling how = sampling_default();
    struct sample_row row = {.sampling = &how, .ids = ids, .n_ids = 1};
    struct sample_result out;

    (void)state;
    s->logits[3] = -FLT_MAX;
    s->logits[4] = FLT_MAX;
    assert_int_equal(sampler_token(s, &row), 4);
    how.top_p = 0.5f;
    how.top_k = 2;
    assert_int_equal(sampler_token(s, &row), 4);
    how.repetition_penalty = 2.0f;
    sampler_choose(s, &row, 1, &out);
    assert_int_equal(out.status, ST_DATA_LOSS);
    how.repetition_penalty = 0.5f;
    assert_int_equal(sampler_token(s, &row), 4);
    sampler_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox),     cmocka_unit_test(test_distribution),
        cmocka_unit_test(test_tokens),     cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_coldest),    cmocka_unit_test(test_ties),
        cmocka_unit_test(test_key),        cmocka_unit_test(test_penalties),
        cmocka_unit_test(test_not_finite), cmocka_unit_test(test_overflow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
