/* Tests logprobs: values and order, and that batch, threads and instruction set
 * do not change them. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/sampler.h"
#include "tests/unit/cmocka.h"

#define VOCAB_MAX 5003
#define ROWS      SAMPLER_ROWS

static struct sampling asking(uint32_t n_top)
{
    struct sampling s = sampling_default();

    s.logprobs = true;
    s.n_top_logprobs = n_top;
    return s;
}

static void check_value(float logprob, double expect)
{
    assert_true(logprob <= 0.0f);
    assert_true(fabs((double)logprob - expect) <=
                1e-5 * fmax(1.0, fabs(expect)));
}

/* Checks one answer: values, and ids in order of rank. */
static void check_answer(const struct sampler *s, uint32_t n_top,
                         const struct sample_result *r)
{
    uint32_t n = n_top < s->vocab ? n_top : s->vocab;
    static double expect[VOCAB_MAX];
    static bool listed[VOCAB_MAX];

    sampler_logprobs(s->logits, s->vocab, expect);
    check_value(r->logprob, expect[r->token]);
    memset(listed, 0, sizeof listed);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t id = r->top[i].token, best = s->vocab;

        for (uint32_t j = 0; j < s->vocab; j++) {
            if (!listed[j] &&
                (best == s->vocab || s->logits[j] > s->logits[best])) {
                best = j;
            }
        }
        assert_int_equal(id, best);
        listed[id] = true;
        check_value(r->top[i].logprob, expect[id]);
        assert_true(id != r->token || r->top[i].logprob == r->logprob);
    }
    for (uint32_t i = n; i < n_top; i++) {
        assert_int_equal(r->top[i].token, 0);
        assert_true(r->top[i].logprob == -FLT_MAX);
    }
}

static void check_all(struct sampler *s)
{
    static const uint32_t n_tops[] = {0, 1, 2, 19, TOP_LOGPROBS_MAX};

    for (size_t i = 0; i < sizeof n_tops / sizeof *n_tops; i++) {
        struct sampling how = asking(n_tops[i]);
        struct sample_row row = {.sampling = &how};
        struct sample_result r;

        for (row.index = 0; row.index < 8; row.index++) {
            how.temperature = (float)row.index;
            sampler_choose(s, &row, 1, &r);
            check_answer(s, n_tops[i], &r);
        }
    }
}

/* Uniform, peaked, far apart; many equals; all equal; one with all the mass;
 * ascending and descending; the largest finite values. */
static void shape(struct sampler *s, uint32_t kind, struct dice *d)
{
    for (uint32_t i = 0; i < s->vocab; i++) {
        const float kinds[] = {dice_float(d, -2, 2),
                               dice_float(d, -20, 20),
                               dice_float(d, -1e4f, 1e4f),
                               (float)dice_below(d, 4),
                               -7.0f,
                               i == s->vocab / 2 ? 1e4f : -1e4f,
                               (float)i * 0.01f,
                               (float)i * -0.01f,
                               i % 3 == 0 ? -0.0f : 0.0f,
                               i == s->vocab / 2 ? FLT_MAX : -FLT_MAX,
                               i == 0 ? 17.0f : dice_float(d, 0, 0.01f)};

        s->logits[i] = kinds[kind];
    }
}

enum { KINDS = 11 };

static void test_values(void **state)
{
    static const uint32_t vocabs[] = {1,  2,  7,   19,  20,  21,  63,
                                      64, 65, 255, 256, 257, 777, VOCAB_MAX};
    struct dice d = {9};

    (void)state;
    for (size_t v = 0; v < sizeof vocabs / sizeof *vocabs; v++) {
        struct sampler *s = sampler_open(vocabs[v], 2, NULL);

        for (uint32_t kind = 0; kind < KINDS; kind++) {
            shape(s, kind, &d);
            if (kind != 9 || vocabs[v] == 1) {
                check_all(s);
            }
        }
        sampler_close(s);
    }
}

/* Logprobs below the range of float become the lowest float. */
static void test_floor(void **state)
{
    struct sampler *s = sampler_open(50, 1, NULL);
    struct sampling how = asking(2);
    struct sample_row row = {.sampling = &how};
    struct sample_result r;
    struct dice d = {1};

    (void)state;
    shape(s, 9, &d);
    sampler_choose(s, &row, 1, &r);
    assert_int_equal(r.token, 25);
    assert_true(r.logprob == 0.0f);
    assert_int_equal(r.top[1].token, 0);
    assert_true(r.top[1].logprob == -FLT_MAX);
    sampler_close(s);
}

/* Logprobs are those of the model's own logits, however the token is chosen. */
static void test_raw(void **state)
{
    static const uint32_t ids[] = {5, 6, 7, 7, 7};
    static const float bias = 100.0f;
    struct sampler *s = sampler_open(50, 1, NULL);
    struct sampling how = asking(TOP_LOGPROBS_MAX);
    struct sample_row row = {
        .sampling = &how, .ids = ids, .n_ids = 5, .n_prompt = 2};
    struct sample_result r;

    (void)state;
    how.n_biases = 1;
    how.biases = &bias;
    how.repetition_penalty = 1.5f;
    how.frequency_penalty = how.presence_penalty = 2.0f;
    for (uint32_t i = 0; i < 50; i++) {
        how.bias_tokens = &i;
        how.temperature = (float)(i % 3);
        how.top_p = i % 2 ? 0.5f : 1.0f;
        sampler_choose(s, &row, 1, &r);
        assert_int_equal(r.token, i);
        check_answer(s, TOP_LOGPROBS_MAX, &r);
    }
    sampler_close(s);
}

/* ---- one answer ---- */

struct asked {
    struct sampling how;
    struct sample_row row;
    uint32_t bias_tokens[2], ids[40];
    float biases[2];
};

static void ask(struct asked *a, uint32_t i, uint32_t vocab, struct dice *d)
{
    static const float temperatures[] = {0, 0.3f, 1, 7};

    a->how = asking(i % 3 ? i % 21 : 0);
    a->how.logprobs = i % 3;
    a->how.temperature = temperatures[i % 4];
    a->how.top_k = i % 5 == 1 ? 40 : 0;
    a->how.top_p = i % 7 < 3 ? 0.9f : 1.0f;
    a->how.min_p = i % 4 == 2 ? 0.05f : 0.0f;
    a->how.seed = i;
    a->how.repetition_penalty = i % 6 == 5 ? 1.2f : 1.0f;
    a->how.frequency_penalty = i % 6 > 3 ? 0.3f : 0.0f;
    a->how.n_biases = i % 8 == 3 ? 2 : 0;
    a->how.bias_tokens = a->bias_tokens;
    a->how.biases = a->biases;
    a->bias_tokens[0] = 1;
    a->bias_tokens[1] = vocab - 1;
    a->biases[0] = a->biases[1] = dice_float(d, -5, 5);
    for (uint32_t j = 0; j < 40; j++) {
        a->ids[j] = dice_below(d, vocab);
    }
    a->row = (struct sample_row){.sampling = &a->how,
                                 .index = i,
                                 .ids = a->ids,
                                 .n_ids = 40,
                                 .n_prompt = i % 41};
}

static void check_same(const struct sample_row *row,
                       const struct sample_result *a,
                       const struct sample_result *b)
{
    assert_int_equal(a->token, b->token);
    if (row->sampling->logprobs) {
        assert_memory_equal(&a->logprob, &b->logprob, sizeof a->logprob);
        assert_memory_equal(a->top, b->top,
                            row->sampling->n_top_logprobs * sizeof *a->top);
    }
}

/* Compares all rows at once, in either order, with each row alone. */
static void check_batches(struct sampler *s, const struct sample_row *rows,
                          const struct sample_result *expect)
{
    struct sample_row turned[ROWS];
    struct sample_result out[ROWS];

    sampler_choose(s, rows, ROWS, out);
    for (uint32_t i = 0; i < ROWS; i++) {
        check_same(&rows[i], &out[i], &expect[i]);
        turned[ROWS - 1 - i] = rows[i];
    }
    sampler_choose(s, turned, ROWS, out);
    for (uint32_t i = 0; i < ROWS; i++) {
        check_same(&rows[i], &out[ROWS - 1 - i], &expect[i]);
    }
}

static void test_same_bits(void **state)
{
    static const char *const isas[] = {"generic", "avx2", "avx512"};
    static const uint32_t threads[] = {1, 2, 5};
    static struct asked asked[ROWS];
    static struct sample_row rows[ROWS];
    static struct sample_result expect[ROWS];
    struct sampler *one = sampler_open(VOCAB_MAX, 1, "generic");
    struct dice d = {4};

    (void)state;
    for (uint32_t i = 0; i < VOCAB_MAX; i++) {
        one->logits[i] = dice_float(&d, -9, 9);
    }
    for (uint32_t i = 0; i < ROWS; i++) {
        ask(&asked[i], i, VOCAB_MAX, &d);
        rows[i] = asked[i].row;
        sampler_choose(one, &rows[i], 1, &expect[i]);
    }
    for (size_t i = 0; i < 9; i++) {
        struct sampler *s =
            sampler_open(VOCAB_MAX, threads[i % 3], isas[i / 3]);

        if (s) {
            memcpy(s->logits, one->logits, VOCAB_MAX * sizeof *s->logits);
            check_batches(s, rows, expect);
            sampler_close(s);
        }
    }
    sampler_close(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_floor),
        cmocka_unit_test(test_raw),
        cmocka_unit_test(test_same_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
