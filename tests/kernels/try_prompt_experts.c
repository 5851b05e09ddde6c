/* try_prompt_experts.c - products of prompt tokens with their experts; see
 * opencl_try.h.
 *
 * The choice of experts and each product are compared with plain C.  Products
 * are also compared bit for bit with the same tokens in other launches, and in
 * other tiles. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/try_prompt.h"

#define SAMPLES 48

static const struct try_layer layers[] = {
    {"35B-A3B", 2048, 512, 256, 8, 2, 0, 0, 0, 0, 0, 4096},
    {"35B-A3B, 512 tokens", 2048, 512, 256, 8, 2, 0, 0, 0, 0, 0, 512},
    {"35B-A3B, 4 bits", 2048, 512, 256, 8, 2, 0, 0, 4, 64, 1, 4096},
    {"35B-A3B, 8 bits", 2048, 512, 256, 8, 2, 0, 0, 8, 64, 1, 4096},
    {"gpt-oss-20b", 2880, 2880, 32, 4, 0, 1, 2, 4, 32, 3, 4096},
    {"few experts", 192, 64, 5, 2, 0, 0, 0, 0, 0, 0, 173},
    {"a shared one", 256, 192, 9, 3, 1, 0, 0, 0, 0, 0, 70},
    {"a gated one", 128, 128, 35, 4, 2, 1, 0, 0, 0, 0, 65},
    {"one expert", 64, 64, 2, 1, 0, 0, 0, 0, 0, 0, 300},
    {"8 bits", 256, 192, 7, 3, 0, 0, 0, 8, 64, 1, 65},
    {"4 bits", 192, 192, 7, 3, 0, 1, 0, 4, 64, 1, 65},
    {"mxfp4", 192, 320, 7, 3, 0, 1, 2, 4, 32, 3, 65},
};

/* The first is compared with plain C, and the others with it. */
static const struct experts_nv_tile tiles[] = {
    {256, 160, 4},
    {192, 192, 4},
    {64, 96, 3},
};
#define N_TILES (sizeof(tiles) / sizeof(tiles[0]))

/* ---- programs ---- */

static bool build_products(struct try_prompt *r,
                           const struct experts_nv_tile *tile)
{
    bool built = true;

    r->tile = tile;
    for (uint32_t p = 0; p < PRODUCTS; p++) {
        struct matmul_nv m;

        experts_nv_cut(&m, &r->of[p], tile);
        r->one[p] =
            (struct try_launch){try_prompt_build(r, "nv_experts_prefill.cl",
                                                 m.kernel, true, m.defines),
                                2,
                                {(r->of[p].rows + m.rows - 1) / m.rows, 1},
                                {m.items, 1}};
        built = built && r->one[p].kernel;
    }
    return built;
}

/* ---- launches ---- */

uint32_t try_prompt_tiles(const struct try_prompt *r)
{
    const uint32_t n = r->n * r->pairs;

    return n / r->tile->pairs + (n < r->all ? n : r->all);
}

static void set_gate_up(void *arg, uint32_t i)
{
    struct try_prompt *r = arg;
    const uint64_t z = 0;

    (void)i;
    r->one[GATE_UP].groups[1] = try_prompt_tiles(r);
    try_args(r->one[GATE_UP].kernel, "mUmUmUmUmUmUmUmUuu", r->gated, z, r->next,
             z, r->ss, z, r->w[GATE_UP], z, r->bias,
             r->l->alternate ? z : TRY_NONE, r->ids, z, r->order, z, r->tiles,
             z, r->first * r->pairs, r->n * r->pairs);
}

static void set_down(void *arg, uint32_t i)
{
    struct try_prompt *r = arg;
    const uint64_t z = 0;

    (void)i;
    r->one[DOWN].groups[1] = try_prompt_tiles(r);
    try_args(r->one[DOWN].kernel, "mUmUmUmUmUmUmUuu", r->y, z, r->gated, z,
             r->w[DOWN], z, r->bias, r->l->alternate ? z : TRY_NONE, r->ids, z,
             r->order, z, r->tiles, z, r->first * r->pairs, r->n * r->pairs);
}

/* ---- buffers ---- */

static uint64_t cells(const struct try_prompt *r, enum try_product p)
{
    return (uint64_t)r->of[p].rows * r->of[p].cols * r->all;
}

/* Quantised: any codes and, behind them, scales near 1/16, or of affine codes
 * scale and bias. */
static cl_mem make_weights(struct try_prompt *r, enum try_product p)
{
    const struct try_layer *l = r->l;
    const uint64_t n = cells(r, p), codes = n * l->bits / 8;
    const uint64_t groups = l->bits ? n / l->group : 0;
    const uint64_t at = (codes + 15) / 16 * 16;
    const uint64_t bytes = at + groups * (l->format == 3 ? 1 : 4);
    uint8_t *data;
    cl_mem m;

    if (!l->bits) {
        return try_random(r->t, TRY_BF16, n, SEED_W + p, 0.05f);
    }
    data = calloc(1, bytes);
    try_must(data ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "weights");
    for (uint64_t i = 0; i < codes; i += 4) {
        const uint32_t v =
            (uint32_t)(i / 4) * 2654435761u ^ (uint32_t)(i >> 5) * 40503u;

        memcpy(data + i, &v, codes - i < 4 ? codes - i : 4);
    }
    for (uint64_t i = 0; i < groups; i++) {
        if (l->format == 3) {
            data[at + i] = (uint8_t)(120 + i % 5);
        } else {
            const uint16_t scale = (uint16_t)(0x3a00 + i % 97);
            const uint16_t bias = (uint16_t)(0xbc00 + i % 89);

            memcpy(data + at + i * 4, &scale, 2);
            memcpy(data + at + i * 4 + 2, &bias, 2);
        }
    }
    m = try_data(r->t, data, bytes);
    free(data);
    return m;
}

static cl_mem make_zeros(struct try *t, size_t bytes)
{
    void *none = calloc(1, bytes);
    cl_mem m;

    try_must(none ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "zeros");
    m = try_data(t, none, bytes);
    free(none);
    return m;
}

static void make_buffers(struct try_prompt *r)
{
    const struct try_layer *l = r->l;
    struct try *t = r->t;
    const size_t n = r->most, pairs = n * r->pairs;
    float *ss = calloc(n * (l->h / 8), 4);

    try_must(ss ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "sums");
    for (size_t i = 0; i < n; i++) { /* folded */
        ss[i * (l->h / 8)] =
            (float)l->h * (1.5f + try_value(SEED_SS, i, 1.0f, TRY_F32));
    }
    r->ss = try_data(t, ss, n * (l->h / 8) * 4);
    free(ss);
    r->bytes[GATE_UP] = pairs * l->dim * 2;
    r->bytes[DOWN] = pairs * l->h * 4;
    r->x = try_random(t, TRY_F32, n * l->h, SEED_X, 1.0f);
    r->next = try_random(t, TRY_BF16, n * l->h, SEED_NEXT, 1.0f);
    r->gamma = try_random(t, TRY_F32, l->h, SEED_GAMMA, 1.0f);
    r->router = try_random(t, TRY_BF16, (size_t)r->logit_rows * l->h,
                           SEED_ROUTER, 0.1f);
    r->bias = try_random(
        t, TRY_F32, (size_t)r->all * (2 * l->dim > l->h ? 2 * l->dim : l->h),
        11, 1.0f);
    for (uint32_t p = 0; p < PRODUCTS; p++) {
        r->w[p] = make_weights(r, (enum try_product)p);
        r->golden[p] = malloc(r->bytes[p]);
    }
    r->got = malloc(r->bytes[DOWN] > r->bytes[GATE_UP] ? r->bytes[DOWN]
                                                       : r->bytes[GATE_UP]);
    r->chosen = malloc(pairs * 4);
    try_must(r->golden[0] && r->golden[1] && r->got && r->chosen
                 ? CL_SUCCESS
                 : CL_OUT_OF_HOST_MEMORY,
             "results");
    r->logits = try_poison(t, n * r->logit_rows * 4);
    r->ids = try_poison(t, pairs * 4);
    r->weights = try_poison(t, n * (l->top_k + 1) * 4);
    r->order = try_poison(t, pairs * 4);
    r->counts = make_zeros(t, (2 * r->all + 1) * 4);
    r->tiles = try_poison(t, (pairs / 32 + r->all) * 12);
    r->gated = try_poison(t, r->bytes[GATE_UP]);
    r->y = try_poison(t, r->bytes[DOWN]);
}

/* ---- checks ---- */

static double weight(const struct try_prompt *r, const uint8_t *data,
                     enum try_product p, uint64_t i)
{
    const struct try_layer *l = r->l;
    const uint64_t at = (cells(r, p) * l->bits / 8 + 15) / 16 * 16;
    uint32_t q, bits;
    uint16_t h[2];
    float scale, bias;

    if (!l->bits) {
        return (double)try_value(SEED_W + p, i, 0.05f, TRY_BF16);
    }
    q = l->bits == 8 ? data[i] : data[i / 2] >> i % 2 * 4 & 15;
    if (l->format == 3) {
        static const float levels[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

        return (double)((q & 8 ? -1.0f : 1.0f) * levels[q & 7]) *
               exp2((double)data[at + i / l->group] - 127);
    }
    memcpy(h, data + at + i / l->group * 4, 4);
    bits = (uint32_t)h[0] << 16;
    memcpy(&scale, &bits, 4);
    bits = (uint32_t)h[1] << 16;
    memcpy(&bias, &bits, 4);
    return (double)try_bf16(fmaf((float)q, scale, bias));
}

static double of_bf16(const uint8_t *data, size_t i)
{
    uint16_t h;
    uint32_t bits;
    float f;

    memcpy(&h, data + i * 2, 2);
    bits = (uint32_t)h << 16;
    memcpy(&f, &bits, 4);
    return (double)f;
}

static double bias_of(const struct try_prompt *r, size_t i)
{
    return r->l->alternate ? (double)try_value(11, i, 1.0f, TRY_F32) : 0.0;
}

static double activated(const struct try_layer *l, double g, double u)
{
    if (l->activation == 2) {
        g = g > 7 ? 7 : g;
        u = u > 7 ? 7 : u < -7 ? -7 : u;
        return g / (1 + exp(-1.702 * g)) * (u + 1);
    }
    return g / (1 + exp(-g)) * u;
}

static double wanted(const struct try_prompt *r, const uint8_t *w,
                     enum try_product p, uint32_t pair, uint32_t j)
{
    const struct try_layer *l = r->l;
    const uint32_t t = pair / r->pairs, e = r->chosen[pair];
    const uint32_t k = r->of[p].cols;
    double sum[2] = {0, 0};

    for (uint32_t part = 0; part < (p == GATE_UP ? 2 : 1); part++) {
        const uint64_t row =
            (uint64_t)e * r->of[p].rows +
            (l->alternate && p == GATE_UP ? 2 * j + part : part * l->dim + j);

        for (uint32_t i = 0; i < k; i++) {
            const double a =
                p == GATE_UP
                    ? (double)try_value(SEED_NEXT, (uint64_t)t * k + i, 1.0f,
                                        TRY_BF16)
                    : of_bf16(r->golden[GATE_UP], (size_t)pair * k + i);

            sum[part] += a * weight(r, w, p, row * k + i);
        }
        sum[part] = (p == GATE_UP ? try_prompt_scale(t) : 1.0) * sum[part] +
                    bias_of(r, row);
    }
    return p == GATE_UP ? activated(l, sum[0], sum[1]) : sum[0];
}

static void check_values(struct try_prompt *r, enum try_product p)
{
    const struct try_layer *l = r->l;
    const uint32_t cols = p == GATE_UP ? l->dim : l->h;
    const uint64_t bytes = cells(r, p) * l->bits / 8 + 16 +
                           (l->bits ? cells(r, p) / l->group * 4 : 0);
    uint8_t *w = l->bits ? calloc(1, bytes) : NULL;
    double want[SAMPLES];
    float got[SAMPLES];

    if (w) {
        const uint64_t at = (cells(r, p) * l->bits / 8 + 15) / 16 * 16;

        try_read(r->t, r->w[p], 0,
                 at + cells(r, p) / l->group * (l->format == 3 ? 1 : 4), w);
    }
    for (uint32_t i = 0; i < SAMPLES; i++) {
        const uint32_t pair = i < 2 ? r->most * r->pairs - 1 - i
                                    : i * 2654435761u % (r->most * r->pairs);
        const uint32_t j = i < 4 ? cols - 1 - i : i * 40503u % cols;
        const size_t at = (size_t)pair * cols + j;

        want[i] = wanted(r, w, p, pair, j);
        if (p == GATE_UP) {
            got[i] = (float)of_bf16(r->golden[p], at);
        } else {
            memcpy(&got[i], r->golden[p] + at * 4, 4);
        }
    }
    try_near(r->t, p == GATE_UP ? "gate_up" : "down", got, want, SAMPLES,
             p == GATE_UP ? 4e-3 : (r->of[p].cols / 8 + 1) * 0x1p-24);
    free(w);
}

/* Runs a range of tokens from their choice on, and compares its outputs. */
static void check_range(struct try_prompt *r, uint32_t first, uint32_t n,
                        bool is_first)
{
    cl_mem of[PRODUCTS] = {r->gated, r->y};

    r->first = first;
    r->n = n;
    try_prompt_group(r);
    try_repoison(r->t, r->gated, r->bytes[GATE_UP]);
    try_repoison(r->t, r->y, r->bytes[DOWN]);
    set_gate_up(r, 0);
    try_run(r->t, &r->one[GATE_UP]);
    set_down(r, 0);
    try_run(r->t, &r->one[DOWN]);
    for (uint32_t p = 0; p < PRODUCTS; p++) {
        const size_t row = r->bytes[p] / r->most;
        char what[64];

        try_read(r->t, of[p], 0, r->bytes[p], is_first ? r->golden[p] : r->got);
        if (is_first) {
            check_values(r, (enum try_product)p);
            continue;
        }
        snprintf(what, sizeof(what), "%s %s %u+%u tile %u x %u", r->l->name,
                 p == GATE_UP ? "gate_up" : "down", first, n, r->tile->rows,
                 r->tile->pairs);
        try_same(r->t, what, r->got + first * row, r->golden[p] + first * row,
                 n * row);
    }
}

/* ---- times ---- */

static void time_product(struct try_prompt *r, enum try_product p)
{
    const double us =
        try_chain(r->t, &r->one[p], p == GATE_UP ? set_gate_up : set_down, r);
    const double ops = 2.0 * r->of[p].rows * r->of[p].cols * r->n * r->pairs;

    printf("%-20s %-8s tile %3u x %3u x %u %9.1f us %5.0f TFLOP/s\n",
           r->l->name, p == GATE_UP ? "gate_up" : "down", r->tile->rows,
           r->tile->pairs, r->tile->stages, us, ops / us / 1e6);
}

static void try_tiles(struct try_prompt *r)
{
    for (size_t i = 0; i < N_TILES; i++) {
        const bool fits = experts_nv_bytes(&tiles[i]) <= r->t->local;

        if (!fits || !build_products(r, &tiles[i]) || r->t->build_only) {
            continue;
        }
        check_range(r, 0, r->most, i == 0);
        if (!r->t->quiet) {
            time_product(r, GATE_UP);
            time_product(r, DOWN);
        }
        check_range(r, 1, 1, false);
        check_range(r, r->most / 3, r->most / 2, false);
    }
}

static void free_trial(struct try_prompt *r)
{
    for (uint32_t p = 0; p < PRODUCTS; p++) {
        free(r->golden[p]);
    }
    free(r->got);
    free(r->chosen);
}

static void try_layer(struct try *t, const struct try_layer *l)
{
    const uint32_t folded = l->shared > 0;
    struct try_prompt r = {
        .t = t,
        .l = l,
        .pairs = l->top_k + folded,
        .all = l->experts + folded,
        .logit_rows = l->experts + (l->shared == 2),
        .most = l->tokens,
        .n = l->tokens,
        .tile = tiles,
        .of = {{MATMUL_NV_SILU, 2 * l->dim, l->h, l->bits, true},
               {MATMUL_NV_STORE, l->h, l->dim, l->bits, true}}};

    if (!try_prompt_route(&r)) {
        return;
    }
    if (!t->build_only) {
        make_buffers(&r);
        try_prompt_choice(&r);
    }
    try_tiles(&r);
    if (!t->build_only) {
        try_prompt_alone(&r);
        check_range(&r, 0, r.most, false);
        try_prompt_sum(&r);
        if (!t->quiet) {
            try_prompt_times(&r);
        }
    }
    free_trial(&r);
}

static void try_named(struct try *t, const char *name)
{
    for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++) {
        const bool small = layers[i].h < 1024;

        if (t->nvidia == 90 && t->small == small &&
            (small || strcmp(layers[i].name, name) == 0)) {
            try_layer(t, &layers[i]);
            try_free(t);
        }
    }
}

static void of_bf16_weights(struct try *t)
{
    try_named(t, "35B-A3B");
}

static void of_few_tokens(struct try *t)
{
    if (!t->small) {
        try_named(t, "35B-A3B, 512 tokens");
    }
}

static void of_4_bits(struct try *t)
{
    if (!t->small) {
        try_named(t, "35B-A3B, 4 bits");
    }
}

static void of_8_bits(struct try *t)
{
    if (!t->small) {
        try_named(t, "35B-A3B, 8 bits");
    }
}

static void of_mxfp4(struct try *t)
{
    if (!t->small) {
        try_named(t, "gpt-oss-20b");
    }
}

const struct try_case try_prompt_experts[] = {
    {"prompt_experts_bf16", of_bf16_weights},
    {"prompt_experts_512", of_few_tokens},
    {"prompt_experts_4", of_4_bits},
    {"prompt_experts_8", of_8_bits},
    {"prompt_experts_mxfp4", of_mxfp4},
    {0},
};
