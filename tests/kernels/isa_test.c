/* Tests that the instruction sets agree to the last bit, and that the lanes'
 * own arithmetic has the accuracy stated in isa.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/isa/isa.h"
#include "kernels/kv_codec.h"
#include "tests/kernels/random_model.h"
#include "tests/kernels/reference.h"
#include "tests/unit/cmocka.h"

#define N 4096

static const char *const names[] = {"avx512", "avx2"};

static void fill(struct dice *d, float *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        p[i] = dice_float(d, -3.0f, 3.0f);
    }
}

static void store(void *out, const float *in, enum dtype t, size_t n)
{
    isa_find("generic")->narrow(out, in, t, n);
}

static void matmul_of(const struct cpu_isa *isa, uint32_t round, float *out)
{
    static const uint32_t ks[] = {1, 15, 16, 17, 64, 100};
    struct dice d = {round};
    static float x[N], w[N], bias[64];
    struct matmul_block b = {
        .x = x,
        .w = w,
        .bias = round % 2 ? bias : NULL,
        .out = out,
        .n_x = 1 + round % 40,
        .n_w = 1 + round % 11,
        .k = ks[round % 6],
        .dtype = (enum dtype)(round % 3),
        .add = round % 5 == 0,
    };
    static float plain[N];

    b.ld_x = b.k;
    b.ld_out = b.n_w + round % 3;
    fill(&d, x, N);
    fill(&d, plain, N);
    fill(&d, bias, 64);
    fill(&d, out, N);
    store(w, plain, b.dtype, N);
    isa->matmul(&b);
}

/* Few rows of x of whole registers: the rows of decoding. */
static void matmul_few_of(const struct cpu_isa *isa, uint32_t round, float *out)
{
    struct dice d = {round};
    static float x[N], plain[N];
    static uint16_t w[N];
    struct matmul_block b = {
        .x = x,
        .w = w,
        .out = out,
        .n_x = 1 + dice_below(&d, 9),
        .n_w = 1 + dice_below(&d, 30),
        .k = 16 * (1 + dice_below(&d, 8)),
        .dtype = DTYPE_BF16,
        .add = round % 5 == 0,
    };

    b.ld_x = b.k + round % 2 * 16;
    b.ld_out = b.n_w + round % 3;
    fill(&d, x, N);
    fill(&d, plain, N);
    fill(&d, out, N);
    store(w, plain, b.dtype, N);
    isa->matmul(&b);
}

/* Compares with sums in double; memory beyond the block must not change. */
static void test_matmul(void **state)
{
    static float out[N], before[N], x[N], plain[N], bias[64];
    static const uint32_t ks[] = {1, 15, 16, 17, 64, 100};

    (void)state;
    for (uint32_t round = 0; round < 300; round++) {
        struct dice d = {round};
        uint32_t n_x = 1 + round % 40, n_w = 1 + round % 11;
        uint32_t k = ks[round % 6], ld = n_w + round % 3;
        enum dtype t = (enum dtype)(round % 3);

        fill(&d, x, N);
        fill(&d, plain, N);
        fill(&d, bias, 64);
        fill(&d, before, N);
        matmul_of(isa_find(NULL), round, out);
        for (uint32_t i = 0; i < n_x * ld; i++) {
            double sum = round % 5 == 0 ? (double)before[i] : 0.0;

            if (i % ld >= n_w) {
                assert_true(out[i] == before[i]);
                continue;
            }
            sum += round % 2 ? (double)bias[i % ld] : 0.0;
            for (uint32_t j = 0; j < k; j++) {
                sum += (double)x[i / ld * k + j] *
                       reference_round((double)plain[i % ld * k + j], t);
            }
            assert_true(fabs((double)out[i] - sum) < 1e-4);
        }
    }
}

static void rows_of(const struct cpu_isa *isa, uint32_t round, float *out)
{
    struct dice d = {round};
    static float a[N], b[N];
    uint32_t n = 1 + dice_below(&d, 200);

    memset(out, 0, N * sizeof *out);
    fill(&d, a, N);
    fill(&d, b, N);
    isa->rms_norm(out, a, b, n, 1e-6f);
    memcpy(out + 256, a, n * sizeof *a);
    isa->l2_norm(out + 256, n, 1e-6f, 0.125f);
    memcpy(out + 512, a, n * sizeof *a);
    isa->activate(
        &(struct activation_task){.gate = out + 512,
                                  .up = b,
                                  .n = n,
                                  .kind = (enum activation)(round % 3),
                                  .alpha = 1.702f,
                                  .limit = 1.5f});
    memcpy(out + 2304, a, n * sizeof *a);
    isa->soft_cap(out + 2304, 0.5f + (float)(round % 5), n);
    memcpy(out + 2560, a, n * sizeof *a);
    isa->accumulate(out + 2560, b, 0.3f, n);
    memcpy(out + 768, a, n * sizeof *a);
    isa->sigmoid_mul(out + 768, b, n);
    isa->weigh(out + 1024, a, 3.0f, 40.0f / (1.0f + (float)round), n);
    isa->narrow(out + 1280, a, DTYPE_BF16, n);
    isa->narrow(out + 1536, a, DTYPE_F16, n);
    isa->widen(out + 1792, out + 1280, DTYPE_BF16, n);
    isa->widen(out + 2048, out + 1536, DTYPE_F16, n);
}

static void logits_of(const struct cpu_isa *isa, uint32_t round, float *out)
{
    struct dice d = {round};
    static float l[N];
    uint32_t n = 1 + dice_below(&d, round % 2 ? 100 : N);
    double sum;

    memset(out, 0, N * sizeof *out);
    fill(&d, l, N);
    out[0] = isa->highest(l, n);
    sum = isa->exp_sum(l, out[0], n);
    memcpy(out + 2, &sum, sizeof sum);
    for (uint32_t i = 0; i < 64; i++) {
        float bar = dice_float(&d, -3.0f, 3.0f);

        out[64 + i] = (float)isa->above(l, dice_below(&d, n + 1), n, bar);
    }
    l[dice_below(&d, n)] = round % 3 ? INFINITY : NAN;
    out[4] = isnan(isa->highest(l, n)) ? 1.0f : 0.0f;
}

/* Compares with plain loops. */
static void test_logits(void **state)
{
    static float l[N], out[N];

    (void)state;
    for (uint32_t round = 0; round < 300; round++) {
        struct dice d = {round};
        uint32_t n = 1 + dice_below(&d, round % 2 ? 100 : N);
        float top = -INFINITY;
        double sum = 0.0, got;

        fill(&d, l, N);
        for (uint32_t i = 0; i < n; i++) {
            top = l[i] > top ? l[i] : top;
        }
        for (uint32_t i = 0; i < n; i++) {
            sum += exp((double)l[i] - (double)top);
        }
        logits_of(isa_find("generic"), round, out);
        memcpy(&got, out + 2, sizeof got);
        assert_true(out[0] == top && out[4] == 1.0f);
        assert_true(fabs(got - sum) <= 2e-6 * sum);
        for (uint32_t i = 0; i < 64; i++) {
            float bar = dice_float(&d, -3.0f, 3.0f);
            uint32_t at = dice_below(&d, n + 1);

            while (at < n && l[at] <= bar) {
                at++;
            }
            assert_true(out[64 + i] == (float)at);
        }
    }
}

static void conv_of(const struct cpu_isa *isa, uint32_t round, float *out)
{
    struct dice d = {round};
    static float in[N], w[N], tail[N];
    struct conv_task t = {
        .in = in,
        .out = out,
        .w = w,
        .tail = out + 2048,
        .n_tokens = 1 + round % 9,
        .n = 1 + dice_below(&d, 100),
        .k = 1 + round % KERNELS_CONV_MAX,
        .dtype = (enum dtype)(round % 3),
        .hold = round % 5 == 0,
    };

    t.ld = t.n + round % 4;
    t.ld_out = t.n + round % 7;
    t.ld_w = t.n + round % 5;
    fill(&d, in, N);
    fill(&d, w, N);
    fill(&d, tail, N);
    memset(out, 0, N * sizeof *out);
    store(out + 2048, tail, t.dtype, 1024);
    isa->conv(&t);
}

static void delta_of(const struct cpu_isa *isa, uint32_t round, float *out)
{
    struct dice d = {round};
    static float q[N], k[N], v[N], gate[N], block[80 * STATE_COLUMNS];
    struct delta_task t = {
        .state = out,
        .block = block,
        .q = q,
        .k = k,
        .v = v,
        .decay = gate,
        .beta = gate + 64,
        .o = out + 2560,
        .ld_state = 32,
        .ld_qk = 80,
        .ld_v = 40,
        .ld_gate = 1,
        .ld_o = 36,
        .n_tokens = 1 + round % 20,
        .dk = 1 + dice_below(&d, 80),
        .n = 1 + round % STATE_COLUMNS,
    };

    fill(&d, out, N);
    fill(&d, q, N);
    fill(&d, k, N);
    fill(&d, v, N);
    isa->l2_norm(k, N, 1e-6f, 8.0f);
    for (int i = 0; i < 128; i++) {
        gate[i] = dice_float(&d, 0.0f, 1.0f);
    }
    t.hold = round % 3 == 1;
    t.q = round % 3 == 2 ? NULL : q;
    isa->delta(&t);
}

static void attend_of(const struct cpu_isa *isa, uint32_t round, float *out)
{
    static const uint32_t sizes[] = {1, 4, 8, 16, 32, 64};
    static const uint32_t heads[] = {8, 24, 64, 80, 96, 128};
    struct dice d = {round};
    static float kv[2 * 160 * 128], plain[2 * 160 * 128], q[N];
    static float s[ATTEND_QUERIES * ATTEND_SPAN];
    uint32_t last[ATTEND_QUERIES], blocks[160];
    float sinks[ATTEND_QUERIES];
    struct attend_task t = {
        .q = q,
        .y = out,
        .last = last,
        .blocks = blocks,
        .sinks = round % 5 < 2 ? sinks : NULL,
        .window = round % 7 < 4 ? 0 : 1 + dice_below(&d, 100),
        .cap = round % 4 == 1 ? 2.0f : 0.0f,
        .k = (char *)kv,
        .dtype = (enum dtype)(round % 3),
        .n_q = 1 + round % ATTEND_QUERIES,
        .hd = heads[round % 6],
        .block_tokens = sizes[round / 6 % 6],
        .scale = 0.1f,
        .s = s,
    };
    size_t plane = t.hd * t.block_tokens * dtype_bytes(t.dtype);

    t.v = t.k + plane;
    t.stride = 2 * plane;
    fill(&d, plain, sizeof plain / sizeof *plain);
    fill(&d, q, N);
    fill(&d, out, N);
    store(kv, plain, t.dtype, sizeof plain / sizeof *plain);
    for (uint32_t i = 0; i < 160; i++) {
        blocks[i] = (i * 7 + 3) % (160 / t.block_tokens);
    }
    for (uint32_t i = 0; i < t.n_q; i++) {
        last[i] = dice_below(&d, 150 / t.block_tokens * t.block_tokens + 1);
        last[i] = last[i] > 127 ? 127 : last[i];
    }
    fill(&d, sinks, ATTEND_QUERIES);
    isa->attend(&t);
}

/* ---- quantised attention ---- */

#define PLACES   160    /* positions of a quantised cache, in any block */
#define KV_BYTES 327680 /* of a cache; more than the largest head needs */

/* One kv head of a cache with codes and parameters from dice. */
struct quantised_kv {
    struct kv_format f;
    struct kv_block block;
    struct kv_turbo turbo[2];
    char bytes[KV_BYTES];
    float q[ATTEND_QUERIES * 256], s[ATTEND_QUERIES * ATTEND_SPAN];
    uint32_t last[ATTEND_QUERIES], blocks[PLACES];
    struct attend_quantised a;
};

static struct attend_codes codes_in(const struct quantised_kv *kv,
                                    enum kv_half half)
{
    const struct kv_block *b = &kv->block;
    const struct kv_vector *v = half == KV_KEYS ? &b->k : &b->v;

    return (struct attend_codes){
        .codes = kv->bytes + (half == KV_KEYS ? b->k_codes : b->v_codes),
        .params = kv->bytes + (half == KV_KEYS ? b->k_params : b->v_params),
        .bits = v->bits,
        .code_bytes = v->code_bytes,
        .centroids =
            kv->f.scheme == KV_TURBOQUANT ? kv->turbo[half].centroids : NULL,
    };
}

/* Fills the cache by encoding random vectors. */
static void fill_kv(struct quantised_kv *kv, struct dice *d, uint32_t n_blocks)
{
    const struct kv_block *b = &kv->block;
    float x[256];

    memset(kv->bytes, 0xff, sizeof kv->bytes);
    assert_true(n_blocks * b->bytes <= sizeof kv->bytes);
    for (uint32_t i = 0; i < n_blocks * kv->a.t.block_tokens; i++) {
        char *block = kv->bytes + i / kv->a.t.block_tokens * b->bytes;
        uint32_t at = i % kv->a.t.block_tokens;

        fill(d, x, 256);
        kv_encode(&kv->f, &b->k, &kv->turbo[KV_KEYS], x, kv->a.t.hd,
                  block + b->k_codes + at * b->k.code_bytes,
                  block + b->k_params + at * b->k.param_bytes);
        fill(d, x, 256);
        kv_encode(&kv->f, &b->v, &kv->turbo[KV_VALUES], x, kv->a.t.hd,
                  block + b->v_codes + at * b->v.code_bytes,
                  block + b->v_params + at * b->v.param_bytes);
    }
}

static void quantised_kv(struct quantised_kv *kv, uint32_t round)
{
    static const uint32_t sizes[] = {1, 4, 8, 16, 32, 64};
    static const uint32_t heads[] = {16, 64, 96, 128, 256};
    struct model_shape shape = {.head_dim = heads[round % 5]};
    struct dice d = {round};
    struct attend_task *t = &kv->a.t;

    kv->f = random_kv_format(3 + round % (RANDOM_KV_FORMATS - 3), &shape);
    *t = (struct attend_task){
        .q = kv->q,
        .last = kv->last,
        .blocks = kv->blocks,
        .dtype = kv->f.dtype,
        .n_q = 1 + round % ATTEND_QUERIES,
        .hd = shape.head_dim,
        .block_tokens = sizes[round / 5 % 6],
        .scale = 0.1f,
        .s = kv->s,
    };
    kv_block_make(&kv->block, &kv->f, 1, t->hd, t->block_tokens);
    t->stride = kv->block.bytes;
    if (kv->f.scheme == KV_TURBOQUANT) {
        kv_turbo_make(&kv->turbo[KV_KEYS], t->hd, kv->f.k_bits, KV_KEYS);
        kv_turbo_make(&kv->turbo[KV_VALUES], t->hd, kv->f.v_bits, KV_VALUES);
    }
    fill_kv(kv, &d, PLACES / t->block_tokens);
    fill(&d, kv->q, sizeof kv->q / sizeof *kv->q);
    for (uint32_t i = 0; i < PLACES; i++) {
        kv->blocks[i] = (i * 7 + 3) % (PLACES / t->block_tokens);
    }
    for (uint32_t i = 0; i < t->n_q; i++) {
        kv->last[i] = dice_below(&d, 127);
    }
    kv->a.group = kv->f.group;
    kv->a.k = codes_in(kv, KV_KEYS);
    kv->a.v = codes_in(kv, KV_VALUES);
}

static void attend_quantised_of(const struct cpu_isa *isa, uint32_t round,
                                float *out)
{
    static struct quantised_kv kv;
    static float y[ATTEND_QUERIES * 256];

    quantised_kv(&kv, round);
    memset(y, 0, sizeof y);
    kv.a.t.y = y;
    kv.a.t.sinks = round % 5 < 2 ? kv.q : NULL;
    kv.a.t.cap = round % 4 == 1 ? 2.0f : 0.0f;
    isa->attend_quantised(&kv.a);
    memcpy(out, y + round % 2 * N, N * sizeof *out);
}

/* Widens the key or value at a position in double. */
static void read_position(const struct quantised_kv *kv, enum kv_half half,
                          uint32_t p, double *out)
{
    const struct attend_task *t = &kv->a.t;
    const struct attend_codes *c = half == KV_KEYS ? &kv->a.k : &kv->a.v;
    const struct kv_vector *v = half == KV_KEYS ? &kv->block.k : &kv->block.v;
    size_t at = kv->blocks[p / t->block_tokens] * t->stride;
    float x[256];

    p %= t->block_tokens;
    kv_decode(&kv->f, v, &kv->turbo[half], c->codes + at + p * v->code_bytes,
              c->params + at + p * v->param_bytes, t->hd, x);
    for (uint32_t i = 0; i < t->hd; i++) {
        out[i] = (double)x[i];
    }
}

/* Computes y [hd] of query i in double. */
static void attend_in_double(const struct quantised_kv *kv, uint32_t i,
                             double *y)
{
    const struct attend_task *t = &kv->a.t;
    double x[256], total = 0.0;

    memset(y, 0, t->hd * sizeof *y);
    for (uint32_t p = 0; p <= kv->last[i]; p++) {
        double weight = 0.0;

        read_position(kv, KV_KEYS, p, x);
        for (uint32_t d = 0; d < t->hd; d++) {
            weight += (double)kv->q[i * t->hd + d] * x[d];
        }
        weight = exp((double)t->scale * weight);
        total += weight;
        read_position(kv, KV_VALUES, p, x);
        for (uint32_t d = 0; d < t->hd; d++) {
            y[d] += weight * x[d];
        }
    }
    for (uint32_t d = 0; d < t->hd; d++) {
        y[d] /= total;
    }
}

static void quantised_attention_matches_sums_in_double(void **state)
{
    static struct quantised_kv kv;
    static float y[ATTEND_QUERIES * 256];
    double want[256];

    (void)state;
    for (uint32_t round = 0; round < 130; round++) {
        quantised_kv(&kv, round);
        kv.a.t.y = y;
        isa_find(NULL)->attend_quantised(&kv.a);
        for (uint32_t i = 0; i < kv.a.t.n_q; i++) {
            attend_in_double(&kv, i, want);
            for (uint32_t d = 0; d < kv.a.t.hd; d++) {
                double off = (double)y[i * kv.a.t.hd + d] - want[d];

                assert_true(fabs(off) < 2e-5);
            }
        }
    }
}

typedef void (*case_fn)(const struct cpu_isa *isa, uint32_t round, float *out);

static void compare(case_fn run, uint32_t rounds)
{
    static float expect[N], out[N];

    for (uint32_t round = 0; round < rounds; round++) {
        run(isa_find("generic"), round, expect);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            const struct cpu_isa *isa = isa_find(names[i]);

            if (isa) {
                run(isa, round, out);
                assert_memory_equal(out, expect, sizeof out);
            }
        }
    }
}

static void test_same_bits(void **state)
{
    (void)state;
    compare(matmul_of, 300);
    compare(matmul_few_of, 400);
    compare(rows_of, 300);
    compare(logits_of, 300);
    compare(conv_of, 300);
    compare(delta_of, 200);
    compare(attend_of, 216);
    compare(attend_quantised_of, 195);
}

/* exp by weigh(): within 2 ulp, 1 at 0, 0 far below, NaN kept. */
static void test_exp(void **state)
{
    const struct cpu_isa *isa = isa_find(NULL);
    float in[16], out[16];

    (void)state;
    for (int i = 0; i < 40000; i++) {
        double exact;

        in[0] = -87.0f + 0.004375f * (float)i;
        isa->weigh(out, in, 0.0f, 1.0f, 1);
        exact = exp((double)in[0]);
        assert_true(fabs((double)out[0] - exact) <= exact * 0x1p-22);
    }
    in[0] = 0.0f;
    in[1] = -88.0f;
    in[2] = -INFINITY;
    in[3] = NAN;
    isa->weigh(out, in, 0.0f, 1.0f, 4);
    assert_true(out[0] == 1.0f && out[1] == 0.0f && out[2] == 0.0f);
    assert_true(isnan(out[3]));
}

/* tanh by soft_cap(): within 4 ulp, its sign, NaN kept. */
static void test_tanh(void **state)
{
    const struct cpu_isa *isa = isa_find(NULL);
    float x[3];

    (void)state;
    for (int i = -20000; i < 20000; i++) {
        float in = 0.001f * (float)i;
        double exact = tanh((double)in);

        x[0] = in;
        isa->soft_cap(x, 1.0f, 1);
        assert_true(fabs((double)x[0] - exact) <= fabs(exact) * 0x1p-21);
    }
    x[0] = INFINITY;
    x[1] = -INFINITY;
    x[2] = NAN;
    isa->soft_cap(x, 3.0f, 3);
    assert_true(x[0] == 3.0f && x[1] == -3.0f && isnan(x[2]));
}

/* In double; past its limits the clamped one is flat. */
static void test_activations(void **state)
{
    const struct cpu_isa *isa = isa_find(NULL);
    struct dice d = {9};
    float gate[3], up[3], in;

    (void)state;
    for (int i = 0; i < 3000; i++) {
        double g, u, root = sqrt(2.0 / acos(-1.0));
        struct activation_task t = {gate,   up,  1, (enum activation)(i % 3),
                                    1.702f, 2.0f};

        in = gate[0] = dice_float(&d, -9.0f, 9.0f);
        up[0] = dice_float(&d, -9.0f, 9.0f);
        g = (double)in;
        u = (double)up[0];
        if (t.kind == ACTIVATION_SILU) {
            g = g / (1.0 + exp(-g)) * u;
        } else if (t.kind == ACTIVATION_GELU) {
            g = 0.5 * g * (1.0 + tanh(root * (g + 0.044715 * g * g * g))) * u;
        } else {
            g = fmin(g, 2.0);
            g = g / (1.0 + exp(-1.702 * g)) * (fmax(fmin(u, 2.0), -2.0) + 1.0);
        }
        isa->activate(&t);
        assert_true(fabs((double)gate[0] - g) <= 1e-5);
    }
    for (int kind = 0; kind < 3; kind++) {
        struct activation_task t = {gate,   up,  3, (enum activation)kind,
                                    1.702f, 2.0f};

        gate[0] = gate[1] = up[0] = up[2] = 1.0f;
        gate[2] = up[1] = NAN;
        isa->activate(&t);
        assert_true(!isnan(gate[0]) && isnan(gate[1]) && isnan(gate[2]));
    }
}

static void check_rounding(float f, enum dtype t)
{
    uint16_t stored;
    float back;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct cpu_isa *isa = isa_find(names[i]);

        if (isa) {
            isa->narrow(&stored, &f, t, 1);
            isa->widen(&back, &stored, t, 1);
            assert_true((double)back == reference_round((double)f, t));
        }
    }
    isa_find("generic")->narrow(&stored, &f, t, 1);
    isa_find("generic")->widen(&back, &stored, t, 1);
    assert_true((double)back == reference_round((double)f, t));
}

/* Rounding to nearest even, every exponent, around halves, subnormals. */
static void test_rounding(void **state)
{
    struct dice d = {5};

    (void)state;
    for (int i = 0; i < 60000; i++) {
        uint32_t bits = dice_u32(&d);
        float f;

        if (i % 3 == 0) { /* half way between two bf16, and next to it */
            bits = (bits & 0xffff0000u) + 0x8000u + (uint32_t)(i % 9 / 3) - 1;
        } else if (i % 3 == 1) { /* the same for f16 */
            bits = (bits & 0xffffe000u) + 0x1000u + (uint32_t)(i % 9 / 3) - 1;
            bits = (bits & 0x87ffffffu) | 0x38000000u;
        }
        memcpy(&f, &bits, 4);
        if (!isnan(f) && fabsf(f) < 1e38f) {
            check_rounding(f, DTYPE_BF16);
            check_rounding(f, DTYPE_F16);
        }
    }
    check_rounding(6e-8f, DTYPE_F16);
    check_rounding(3e-5f, DTYPE_F16);
    check_rounding(65519.0f, DTYPE_F16);
    check_rounding(65520.0f, DTYPE_F16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_logits),
        cmocka_unit_test(quantised_attention_matches_sums_in_double),
        cmocka_unit_test(test_exp),
        cmocka_unit_test(test_tanh),
        cmocka_unit_test(test_activations),
        cmocka_unit_test(test_rounding),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
