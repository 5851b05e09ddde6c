/* The MTP layer against the slow plain reference, and what shards with one must
 * have. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backends/backend.h"
#include "tests/kernels/bench.h"
#include "tests/kernels/test_device.h"
#include "tests/unit/cmocka.h"

#define TOKENS 30 /* of a step of the model */
#define DRAFTS 12 /* of a step of the MTP layer */

/* Sanitizers are slow. */
#ifdef __SANITIZE_ADDRESS__
#define ROUNDS 6
#else
#define ROUNDS 16
#endif

static uint32_t rounds(void)
{
    return test_device_is_cpu() ? ROUNDS : 2; /* compilers are slow */
}

static void draw_shape(struct bench *b, struct random_shape *r, uint32_t round)
{
    b->dice.state = round + 900;
    random_shape(r, &b->dice);
    r->shape.n_layers = 2;
    if (round % 2) {
        random_features(r, &b->dice);
    }
    if (r->shape.hidden == 1) {
        r->shape.hidden = 17; /* its norm magnifies any error */
    }
    r->mixers[0] = MIXER_ATTENTION;
    r->mixers[1] = MIXER_DELTANET;
    r->mtp = true;
    r->ffns[2] = round % 4 == 1 ? FFN_EXPERTS : FFN_DENSE;
    b->o = (struct kernels_options){
        .device = test_device(),
        .kv = random_kv_format(round, &r->shape),
        .block_tokens = 16,
        .n_threads = 1 + round % 2,
        .max_tokens = BENCH_SEQS * BENCH_LENGTH,
        .max_logits = DRAFTS,
    };
    b->o.kv.whole = round % 3 == 0 ? 0 : KV_NO_LAYER;
}

/* A 16-bit cache may round a value differently from the reference. */
static double bound(const struct bench *b)
{
    return b->o.kv.scheme != KV_PLAIN || b->o.kv.dtype == DTYPE_F32 ? 2e-5
                                                                    : 4e-3;
}

/* Its KV has the format of quantised layers, whichever layer has not. */
static void layer_matches_the_reference(void **state)
{
    struct bench *b = calloc(1, sizeof *b);

    (void)state;
    assert_non_null(b);
    for (uint32_t round = 0; round < rounds(); round++) {
        struct random_shape r;
        double mixer, ffn;

        draw_shape(b, &r, round);
        bench_open(b, &r);
        mixer = bench_run(b, 2, kernels_mixer, reference_attention);
        bench_restart(b);
        ffn = bench_run(b, 2, kernels_ffn, reference_ffn);
        if (!(mixer < bound(b)) || !(ffn < 2e-5)) {
            fail_msg("round %u: relative errors %g and %g", round, mixer, ffn);
        }
        bench_close(b);
    }
    free(b);
}

/* ---- input, hidden rows and head ---- */

/* One step: x in, and what it must keep. */
struct kept {
    double h[TOKENS][BENCH_HIDDEN];
    uint32_t n;
};

static struct kernel_row row_of(const struct bench *b, uint32_t n)
{
    return (struct kernel_row){.n_tokens = n,
                               .blocks = b->seqs[0].blocks,
                               .window = b->seqs[0].windows[0],
                               .window_stride = BENCH_LENGTH};
}

static void note_hidden(struct bench *b, struct kept *kept, uint32_t n)
{
    const uint32_t h = b->model.w.shape.hidden;
    double x[BENCH_HIDDEN];

    kernels_keep_hidden(b->k);
    kernels_hidden_read(b->k, 0, n, b->out);
    for (uint32_t t = 0; t < n; t++) {
        for (uint32_t i = 0; i < h; i++) {
            x[i] = (double)b->out[t * h + i];
        }
        reference_hidden(&b->seqs[0].ref, x, kept->h[t]);
    }
    kept->n = n;
}

/* Returns the largest difference, relative to the largest value or 1. */
static double distance(const float *a, const double *b, size_t n)
{
    double most = 0.0, top = 1.0;

    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - b[i]);

        top = fmax(top, fabs(b[i]));
        most = d > most || d != d ? d : most;
    }
    return most / top;
}

/* Compares some logits, whose norm is that of the MTP layer. */
static double compare_head(struct bench *b, uint32_t n)
{
    const struct model_shape *s = &b->model.w.shape;
    const uint32_t at[] = {n - 1, 0};
    float logits[BENCH_VOCAB];
    double x[BENCH_HIDDEN], expect[BENCH_VOCAB], most = 0.0;

    kernels_head(b->k, at, 2);
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t j = 0; j < s->hidden; j++) {
            x[j] = (double)b->out[at[i] * s->hidden + j];
        }
        reference_head(&b->seqs[0].ref, x, expect);
        kernels_logits_read(b->k, i, logits);
        most = fmax(most, distance(logits, expect, s->vocab));
    }
    return most;
}

/* Drafts from rows of the last step, in any order, and keeps its own. */
static double draft(struct bench *b, struct kept *kept)
{
    const struct model_shape *s = &b->model.w.shape;
    struct kernel_row row = row_of(b, DRAFTS);
    const struct kernel_step step = {&row, 1, DRAFTS};
    uint32_t ids[DRAFTS], from[DRAFTS];
    double x[BENCH_HIDDEN], most = 0.0;

    for (uint32_t t = 0; t < DRAFTS; t++) {
        ids[t] = dice_below(&b->dice, s->vocab);
        from[t] = dice_below(&b->dice, kept->n);
    }
    kernels_begin(b->k, &step);
    kernels_draft_input(b->k, ids, from);
    kernels_hidden_read(b->k, 0, DRAFTS, b->out);
    for (uint32_t t = 0; t < DRAFTS; t++) {
        reference_draft_input(&b->seqs[0].ref, ids[t], kept->h[from[t]], x);
        most = fmax(most, distance(b->out + t * s->hidden, x, s->hidden));
    }
    b->seqs[0].ref.drafting = true;
    note_hidden(b, kept, DRAFTS);
    most = fmax(most, compare_head(b, DRAFTS));
    assert_int_equal(kernels_end(b->k, NULL), ST_OK);
    return most;
}

static double draft_twice(struct bench *b)
{
    struct kernel_row row = row_of(b, TOKENS);
    const struct kernel_step step = {&row, 1, TOKENS};
    struct kept *kept = calloc(1, sizeof *kept);
    double most = 0.0;

    assert_non_null(kept);
    for (uint32_t i = 0; i < TOKENS * b->model.w.shape.hidden; i++) {
        b->x[i] = dice_float(&b->dice, -2.0f, 2.0f);
    }
    /* A step of the model, after one of the MTP layer too: then x has the
     * model's norm again. */
    for (uint32_t i = 0; i < 2; i++) {
        b->seqs[0].ref.drafting = false;
        kernels_begin(b->k, &step);
        kernels_hidden_write(b->k, 0, TOKENS, b->x);
        note_hidden(b, kept, TOKENS);
        assert_int_equal(kernels_end(b->k, NULL), ST_OK);
        most = fmax(most, draft(b, kept));
        most = fmax(most, draft(b, kept));
    }
    free(kept);
    return most;
}

static void input_and_head_match_the_reference(void **state)
{
    struct bench *b = calloc(1, sizeof *b);

    (void)state;
    assert_non_null(b);
    for (uint32_t round = 0; round < rounds() + WEIGHT_FORMATS; round++) {
        struct random_shape r;
        double most;

        draw_shape(b, &r, round);
        if (round >= rounds()) {
            random_format(&r, (enum weight_format)(round - rounds()));
        }
        bench_open(b, &r);
        most = draft_twice(b);
        if (!(most < 1e-4)) {
            fail_msg("round %u: relative error %g", round, most);
        }
        bench_close(b);
    }
    free(b);
}

/* ---- shards ---- */

/* Runs one token through the MTP layer; reads its x [H]. */
static void run_token(const struct shard_weights *w, float *x)
{
    const struct kernels_options o = {.device = test_device(),
                                      .block_tokens = 16,
                                      .max_tokens = 4,
                                      .n_threads = 1};
    const uint32_t blocks[] = {0}, id = 1, from = 0, layer = w->end - w->begin;
    const struct kernel_row row = {
        .n_tokens = 1, .blocks = blocks, .generated = true};
    const struct kernel_step step = {&row, 1, 1};
    struct error e = {0};
    struct kernels *k;

    assert_int_equal(backend_new(&k, w, &o, &e), ST_OK);
    assert_int_equal(kernels_alloc(k, 64, &e), ST_OK);
    kernels_begin(k, &step);
    for (uint32_t i = 0; i < w->shape.hidden; i++) {
        x[i] = 0.25f * (float)(i % 7) - 0.5f;
    }
    kernels_hidden_write(k, 0, 1, x);
    kernels_keep_hidden(k);
    assert_int_equal(kernels_end(k, &e), ST_OK);
    kernels_begin(k, &step);
    kernels_draft_input(k, &id, &from);
    kernels_mixer(k, layer);
    kernels_ffn(k, layer);
    kernels_hidden_read(k, 0, 1, x);
    assert_int_equal(kernels_end(k, &e), ST_OK);
    kernels_free(&k);
}

static void draw_model(struct random_model *m)
{
    struct dice d = {5};
    struct random_shape r;

    random_shape(&r, &d);
    r.shape.n_layers = 3;
    for (uint32_t i = 0; i < 3; i++) {
        r.mixers[i] = MIXER_DELTANET;
    }
    r.mtp = true;
    random_model_new(m, &r, &d);
}

/* The shard has no attention layer but the MTP layer. */
static void last_shard_drafts_as_the_whole_model(void **state)
{
    struct random_model m;
    float whole[BENCH_HIDDEN], part[BENCH_HIDDEN];

    (void)state;
    draw_model(&m);
    run_token(&m.w, whole);
    m.w.begin = 2;
    m.w.layers += 2;
    run_token(&m.w, part);
    assert_memory_equal(whole, part, m.w.shape.hidden * sizeof *whole);
    random_model_free(&m);
}

static void expect(const struct shard_weights *w, uint32_t keep_tokens,
                   enum status code)
{
    const struct kernels_options o = {.device = "cpu",
                                      .block_tokens = 16,
                                      .keep_tokens = keep_tokens,
                                      .max_tokens = 1,
                                      .max_rows = 1,
                                      .max_logits = 1,
                                      .n_threads = 1};
    struct error e = {0};
    struct kernels *k;

    assert_int_equal(backend_new(&k, w, &o, &e), code);
    assert_true(code == ST_OK || strlen(e.text) > 10);
    kernels_free(&k);
}

static void shards_without_what_the_layer_needs_are_refused(void **state)
{
    struct random_model m;
    struct shard_weights w;

    (void)state;
    draw_model(&m);
    expect(&m.w, 0, ST_OK);
    w = m.w;
    w.end = 2; /* not the last layer */
    expect(&w, 0, ST_INVALID_ARGUMENT);
    w = m.w;
    w.embed.data = NULL;
    expect(&w, 0, ST_INVALID_ARGUMENT);
    w = m.w;
    w.layers++; /* behind the last is no full attention */
    m.layers[4].kind = MIXER_WINDOW;
    expect(&w, 0, ST_INVALID_ARGUMENT);
    m.mtp.fc.cols++;
    expect(&m.w, 0, ST_INVALID_ARGUMENT);
    m.mtp.fc.cols--;
    m.mtp.fc.rows--;
    expect(&m.w, 0, ST_INVALID_ARGUMENT);
    m.mtp.fc.rows++;
    expect(&m.w, 0, ST_OK);
    random_model_free(&m);
}

static void kept_tokens_have_a_limit(void **state)
{
    struct random_model m;

    (void)state;
    draw_model(&m);
    expect(&m.w, KERNELS_KEEP_TOKENS_MAX, ST_OK);
    expect(&m.w, KERNELS_KEEP_TOKENS_MAX + 1, ST_INVALID_ARGUMENT);
    random_model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer_matches_the_reference),
        cmocka_unit_test(input_and_head_match_the_reference),
        cmocka_unit_test(last_shard_drafts_as_the_whole_model),
        cmocka_unit_test(shards_without_what_the_layer_needs_are_refused),
        cmocka_unit_test(kept_tokens_have_a_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
