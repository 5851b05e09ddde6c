/* Tests that a sequence gives the same bits whatever runs beside it.
 *
 * Some sequences of the embedded hybrid model and of random models first run
 * alone, token by token.  Then they run again in batches: with chunked prefill,
 * on other blocks and slots, while neighbours come and go, on other numbers of
 * threads, and recomputed on another pool.  Every token and every bit of every
 * generated token's logits must be the same.
 *
 * On a device other than the cpu (SLUICE_TEST_DEVICE) prompts are cut only at
 * multiples of FORWARD_CUT, as required there, and only the embedded model
 * runs.  SLUICE_TEST_SHORT=1 runs a few sequences, and all variants with one
 * set of programs, for slow compilers. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/pack.h"
#include "tests/golden/runner.h"
#include "tests/kernels/random_model.h"
#include "tests/kernels/test_device.h"
#include "tests/unit/cmocka.h"
#include "worker/model/shard.h"

#define MODEL_DIR "models/tiny-hybrid"
#define SEQS      32
#define FEW       6   /* sequences in the short form */
#define BATCH_MAX 128 /* rows of a batch: each sequence several times */
#define STEPS     6
#define WHOLE     4096 /* a chunk longer than any prompt */
#ifdef __SANITIZE_ADDRESS__
#define EVERY 4 /* takes one variant in five, to save time */
#else
#define EVERY 1
#endif

static const uint32_t lengths[SEQS] = {
    1,   2,  3,  15, 16,  17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129,
    500, 40, 20, 7,  600, 5,  70, 66, 1,  90, 48, 49, 50,  255, 256, 257};
static const uint32_t few[FEW] = {1, 65, 129, 17, 64, 100};

struct expected {
    uint32_t prompt[640], n_prompt;
    uint32_t tokens[STEPS];
    float *logits; /* [STEPS, V] */
};

struct fixture {
    const struct shard_weights *w;
    struct kv_format kv;
    struct expected seqs[SEQS];
    uint32_t n;              /* number of seqs */
    const uint32_t *lengths; /* [n] */
    enum kernels_products products;
};

/* A variant: how a run differs from the first one. */
struct variant {
    uint32_t n_threads, block_tokens, order;
    uint32_t chunk;      /* tokens of a prefill chunk */
    uint32_t max_tokens; /* most tokens per pass */
    const char *isa;
    bool churn;     /* neighbours start and stop during the run */
    uint32_t batch; /* sequences together */
};

static struct kernels_options options(const struct fixture *f,
                                      const struct variant *v)
{
    return (struct kernels_options){
        .device = test_device(),
        .kv = f->kv,
        .block_tokens = v->block_tokens,
        .max_tokens = v->max_tokens,
        .max_logits = test_device_is_cpu() ? 5 : 0,
        .n_threads = v->n_threads,
        .isa = v->isa,
        .products = f->products,
    };
}

static void open_runner(struct runner *r, const struct fixture *f,
                        const struct variant *v)
{
    struct kernels_options o = options(f, v);
    uint32_t blocks = 0;

    for (uint32_t i = 0; i < f->n; i++) {
        blocks += (f->lengths[i] + STEPS + v->block_tokens) / v->block_tokens;
    }
    blocks *= (v->batch + f->n - 1) / f->n;
    runner_open(r, f->w, &o, blocks + 64, v->batch + 2, v->order);
    runner_poison(r);
}

/* Runs each sequence alone: the prompt in one row, then token by token. */
static void record(struct fixture *f, const struct variant *v)
{
    struct runner r;
    size_t vocab = f->w->shape.vocab;

    open_runner(&r, f, v);
    for (uint32_t i = 0; i < f->n; i++) {
        struct expected *x = &f->seqs[i];
        struct run_seq s;

        runner_start(&r, &s, x->prompt, x->n_prompt, STEPS);
        for (uint32_t j = 0; j < STEPS; j++) {
            uint32_t row = runner_add(&r, &s, s.n_ids - s.n_done, true,
                                      x->logits + j * vocab);

            runner_step(&r);
            x->tokens[j] = runner_token(&r, row);
            run_seq_push(&s, x->tokens[j]);
        }
        runner_stop(&r, &s);
    }
    runner_close(&r);
}

/* One sequence in a batch. */
struct member {
    const struct expected *x;
    struct run_seq s;
    uint32_t step, row;
    bool live, asked;
    float *logits;
};

static void ask(struct runner *r, struct member *m, const struct variant *v)
{
    uint32_t left = m->s.n_ids - m->s.n_done;
    uint32_t n = left < v->chunk ? left : v->chunk;

    m->asked = n == left;
    m->row = runner_add(r, &m->s, n, m->asked, m->asked ? m->logits : NULL);
}

static void compare(const struct runner *r, struct member *m, size_t vocab)
{
    const float *expect = m->x->logits + m->step * vocab;

    if (!m->asked) {
        return;
    }
    assert_memory_equal(m->logits, expect, vocab * sizeof *expect);
    assert_int_equal(runner_token(r, m->row), m->x->tokens[m->step]);
    run_seq_push(&m->s, m->x->tokens[m->step]);
    m->step++;
}

static void begin(struct runner *r, struct member *m, const struct expected *x,
                  size_t vocab)
{
    m->x = x;
    m->step = 0;
    m->live = true;
    m->logits = realloc(m->logits, vocab * sizeof *m->logits);
    assert_non_null(m->logits);
    runner_start(r, &m->s, x->prompt, x->n_prompt, STEPS);
}

/* Runs sequences [first, first + n) together; past the last, from the first
 * again.  If the variant has churn, neighbours join and are dropped in
 * between. */
static void run_batch(const struct fixture *f, const struct variant *v,
                      struct runner *r, uint32_t first, uint32_t n)
{
    struct member m[BATCH_MAX] = {{0}}, guest = {0};
    size_t vocab = f->w->shape.vocab;
    uint32_t n_live = n;

    for (uint32_t i = 0; i < n; i++) {
        begin(r, &m[i], &f->seqs[(first + i) % f->n], vocab);
    }
    for (uint32_t turn = 0; n_live > 0; turn++) {
        if (v->churn && turn % 3 == 1) {
            begin(r, &guest, &f->seqs[turn % f->n], vocab);
            ask(r, &guest, v);
        }
        for (uint32_t i = 0; i < n; i++) {
            if (m[i].live) {
                ask(r, &m[i], v);
            }
        }
        runner_step(r);
        if (v->churn && turn % 3 == 1) {
            runner_stop(r, &guest.s);
        }
        for (uint32_t i = 0; i < n; i++) {
            if (!m[i].live) {
                continue;
            }
            compare(r, &m[i], vocab);
            if (m[i].step == STEPS) {
                runner_stop(r, &m[i].s);
                m[i].live = false;
                n_live--;
            }
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        free(m[i].logits);
    }
    free(guest.logits);
}

/* Returns how many sequences of a variant's batch begin at sequence i. */
static uint32_t batch_at(const struct fixture *f, const struct variant *v,
                         uint32_t i)
{
    return v->batch > f->n || v->batch < f->n - i ? v->batch : f->n - i;
}

static void run_variant(const struct fixture *f, const struct variant *v)
{
    struct runner r;

    open_runner(&r, f, v);
    for (uint32_t i = 0; i < f->n; i += v->batch) {
        run_batch(f, v, &r, i, batch_at(f, v, i));
    }
    runner_close(&r);
}

/* Prefills the prompts in chunks, all together. */
static void prefill(struct runner *r, struct run_seq *seqs, uint32_t n,
                    const struct variant *v)
{
    uint32_t rows;

    do {
        rows = 0;
        for (uint32_t i = 0; i < n; i++) {
            struct run_seq *s = &seqs[i];
            uint32_t left = s->n_prompt - s->n_done;

            if (left > 0) {
                runner_add(r, s, left < v->chunk ? left : v->chunk, false,
                           NULL);
                rows++;
            }
        }
        if (rows > 0) {
            runner_step(r);
        }
    } while (rows > 0);
}

/* Computes sequences [first, first + n) once more, as after a move: the prompts
 * in chunks, the generated tokens each in one row of their own kind; then
 * continues. */
static void resume_batch(const struct fixture *f, const struct variant *v,
                         struct runner *r, uint32_t first, uint32_t n)
{
    struct run_seq seqs[BATCH_MAX];
    size_t vocab = f->w->shape.vocab;
    float *logits = malloc(n * vocab * sizeof *logits);

    assert_non_null(logits);
    for (uint32_t i = 0; i < n; i++) {
        const struct expected *x = &f->seqs[(first + i) % f->n];

        runner_start(r, &seqs[i], x->prompt, x->n_prompt, STEPS);
    }
    prefill(r, seqs, n, v);
    for (uint32_t i = 0; i < n; i++) {
        const struct expected *x = &f->seqs[(first + i) % f->n];

        for (uint32_t j = 0; j + 1 < STEPS; j++) {
            run_seq_push(&seqs[i], x->tokens[j]);
        }
        runner_add(r, &seqs[i], STEPS - 1, true, logits + i * vocab);
    }
    runner_step(r);
    for (uint32_t i = 0; i < n; i++) {
        const struct expected *x = &f->seqs[(first + i) % f->n];

        assert_memory_equal(logits + i * vocab, x->logits + (STEPS - 1) * vocab,
                            vocab * sizeof *logits);
        runner_stop(r, &seqs[i]);
    }
    free(logits);
}

static void resume(const struct fixture *f, const struct variant *v)
{
    struct runner r;

    open_runner(&r, f, v);
    for (uint32_t i = 0; i < f->n; i += v->batch) {
        resume_batch(f, v, &r, i, batch_at(f, v, i));
    }
    runner_close(&r);
}

static bool is_short(void)
{
    const char *text = getenv("SLUICE_TEST_SHORT");

    return text != NULL && strcmp(text, "1") == 0;
}

/* Plain formats take all sequences; quantised ones, which are many, a few. */
static bool takes_all(const struct kv_format *kv)
{
    return kv->scheme == KV_PLAIN && !is_short();
}

static void open_fixture(struct fixture *f, const struct shard_weights *w,
                         const struct kv_format *kv, bool all)
{
    struct dice d = {42};

    f->w = w;
    f->kv = *kv;
    f->n = all ? SEQS : FEW;
    f->lengths = all ? lengths : few;
    for (uint32_t i = 0; i < f->n; i++) {
        struct expected *x = &f->seqs[i];

        x->n_prompt = f->lengths[i] + STEPS < w->shape.context
                          ? f->lengths[i]
                          : w->shape.context - STEPS;
        for (uint32_t j = 0; j < x->n_prompt; j++) {
            x->prompt[j] = dice_below(&d, w->shape.vocab);
        }
        x->logits = calloc((size_t)STEPS * w->shape.vocab, sizeof(float));
        assert_non_null(x->logits);
    }
}

static void close_fixture(struct fixture *f)
{
    for (uint32_t i = 0; i < f->n; i++) {
        free(f->seqs[i].logits);
    }
}

#define COUNT(of) (sizeof(of) / sizeof *(of))

/* Checks all allowed ways to cut a prompt on a device. */
static void check_cuts(struct fixture *f)
{
    static const struct variant base = {1, 32, 0, WHOLE, 512, NULL, false, 1};
    static const struct variant runs[] = {
        {1, 32, 1, 64, 512, NULL, true, 7},
        {1, 32, 2, 128, 512, NULL, false, 2},
        {1, 32, 3, WHOLE, 100, NULL, true, 32},
        {1, 32, 4, 512, 512, NULL, true, 32},
        {1, 64, 5, 64, 640, NULL, true, 128},
        {1, 16, 6, 128, 640, NULL, false, 128},
    };

    record(f, &base);
    for (size_t i = 0; i < (is_short() ? 2 : COUNT(runs)); i++) {
        run_variant(f, &runs[i]);
    }
    resume(f, &runs[0]);
    if (!is_short()) {
        resume(f, &runs[4]);
    }
}

/* Checks every `step`th variant, from the first-th on.  The weights of `packs`
 * are packed after the first run. */
static void check_ways(struct fixture *f, size_t first, size_t step,
                       struct shard_weights *packs)
{
    static const struct variant base = {1, 32, 0, WHOLE, 640, NULL, false, 1};
    static const struct variant runs[] = {
        {2, 32, 1, WHOLE, 640, NULL, false, 1},
        {2, 32, 2, 1, 640, NULL, false, 32},
        {1, 16, 3, 16, 640, NULL, true, 7},
        {2, 64, 4, 64, 640, NULL, true, 32},
        {1, 8, 5, 500, 640, NULL, false, 2},
        {2, 32, 6, WHOLE, 100, NULL, true, 32},
        {2, 1, 7, 33, 7, NULL, true, 7},
        {2, 32, 8, 64, 640, "avx2", true, 32},
    };

    record(f, &base);
    if (packs != NULL) {
        assert_int_equal(cpu_pack(packs, 2, &(struct error){0}), ST_OK);
    }
    for (size_t i = first; i < COUNT(runs); i += step) {
        run_variant(f, &runs[i]);
    }
    resume(f, &runs[3 + first % 2]);
}

static void test_hybrid(const struct kv_request *kv, size_t first, size_t step)
{
    static struct fixture f;
    static struct model_config c;
    struct shard *shard = NULL;
    struct kv_format format;
    struct error e;

    assert_int_equal(config_load(&c, MODEL_DIR, &e), ST_OK);
    assert_int_equal(
        shard_load(&shard, &c, MODEL_DIR, 0, c.shape.n_layers, NULL, &e),
        ST_OK);
    assert_int_equal(kv_format_choose(&format, &c, kv, &e), ST_OK);
    open_fixture(&f, shard_weights(shard), &format, takes_all(&format));
    if (test_device_is_cpu()) {
        check_ways(&f, first, step, NULL);
    } else {
        check_cuts(&f);
    }
    close_fixture(&f);
    shard_free(&shard);
}

static void test_hybrid_f32(void **state)
{
    (void)state;
    test_hybrid(&(struct kv_request){.dtype = "f32"}, 0, EVERY);
}

static void test_hybrid_bf16(void **state)
{
    (void)state;
    test_hybrid(&(struct kv_request){.dtype = "bf16"}, 1, 3 * EVERY);
}

static void test_hybrid_8_bits(void **state)
{
    (void)state;
    test_hybrid(&(struct kv_request){.bits = 8, .group = 32}, 3, 4 * EVERY);
}

static void test_hybrid_turboquant(void **state)
{
    (void)state;
    test_hybrid(&(struct kv_request){.bits = 3.5}, 2, 5 * EVERY);
}

static uint32_t last_attention(const struct shard_weights *w)
{
    uint32_t i = w->end - w->begin;

    while (i > 0 && mixer_memory(w->layers[i - 1].kind) != MIXER_IN_BLOCKS) {
        i--;
    }
    return i > 0 ? w->begin + i - 1 : KV_NO_LAYER;
}

/* Odd sizes, every format. */
static void test_random(void **state)
{
    static struct fixture f;

    (void)state;
    for (uint32_t i = 0; i < RANDOM_KV_FORMATS; i++) {
        struct dice d = {900 + i};
        struct random_shape r;
        struct random_model m;
        struct kv_format kv;

        random_shape(&r, &d);
        kv = random_kv_format(i, &r.shape);
        random_model_new(&m, &r, &d);
        /* Some models have a layer that stays plain. */
        kv.whole = i % 3 == 0 ? last_attention(&m.w) : KV_NO_LAYER;
        open_fixture(&f, &m.w, &kv, takes_all(&kv));
        check_ways(&f, i % 2 + i / 6, i < 6 ? 2 : 4, NULL);
        close_fixture(&f);
        random_model_free(&m);
    }
}

/* Windows, sinks, caps, experts and every format of weights.  Batches give an
 * expert one row or many. */
static void check_features(enum kernels_products products)
{
    static struct fixture f;

    for (uint32_t i = 0; i < WEIGHT_FORMATS; i++) {
        struct dice d = {950 + i};
        struct random_shape r;
        struct random_model m;
        struct kv_format kv;

        random_shape(&r, &d);
        random_features(&r, &d);
        r.mixers[0] = i % 2 ? MIXER_WINDOW : MIXER_ATTENTION;
        r.ffns[0] = FFN_EXPERTS;
        random_format(&r, (enum weight_format)i);
        kv = random_kv_format(i < 4 ? 1 : 2 * i, &r.shape);
        random_model_new(&m, &r, &d);
        open_fixture(&f, &m.w, &kv, false);
        f.products = products;
        check_ways(&f, i, 3, products == PRODUCTS_INT8 ? &m.w : NULL);
        close_fixture(&f);
        random_model_free(&m);
    }
}

static void test_features(void **state)
{
    (void)state;
    check_features(PRODUCTS_FLOAT);
}

/* Weights as stored in the first run, packed in the others. */
static void test_int8(void **state)
{
    (void)state;
    check_features(PRODUCTS_INT8);
}

int main(void)
{
    const struct CMUnitTest of_device[] = {
        cmocka_unit_test(test_hybrid_bf16),
        cmocka_unit_test(test_hybrid_8_bits),
        cmocka_unit_test(test_hybrid_turboquant),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hybrid_f32),
        cmocka_unit_test(test_hybrid_bf16),
        cmocka_unit_test(test_hybrid_8_bits),
        cmocka_unit_test(test_hybrid_turboquant),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_features),
        cmocka_unit_test(test_int8),
    };

    return test_device_is_cpu() ? cmocka_run_group_tests(tests, NULL, NULL)
                                : cmocka_run_group_tests(of_device, NULL, NULL);
}
