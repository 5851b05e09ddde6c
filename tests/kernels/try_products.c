/* try_products.c - NVIDIA's matrix products; see opencl_try.h.
 *
 * Each product is cut by kernels/opencl/nv/matmul_nv.h and compared with plain
 * C on some columns.  It is also compared bit for bit with the same tokens in
 * another launch: alone or with others, in other tiles, in the middle of a
 * tile. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/opencl/nv/matmul_nv.h"
#include "tests/kernels/opencl_try.h"

#define POOL    ((size_t)1 << 30) /* elements of bf16 to cut weights from */
#define SAMPLES 24
#define EPS     1e-6
#define GROUP   64 /* columns of a group of quantised weights */

struct product {
    const char *name;
    uint32_t n, k; /* columns of out, and of in */
    uint32_t h;
    enum matmul_nv_op op;
    uint32_t bits; /* bits of a weight, 4 or 8; 0: bf16 */
};

static const struct product shapes[] = {
    {"0.8B attention in", 5120, 1024, 1024, MATMUL_NV_STORE, 0},
    {"0.8B deltanet in", 8224, 1024, 1024, MATMUL_NV_STORE, 0},
    {"0.8B out", 1024, 2048, 1024, MATMUL_NV_ADD, 0},
    {"0.8B gate_up", 3584, 1024, 1024, MATMUL_NV_SILU, 0},
    {"0.8B down", 1024, 3584, 1024, MATMUL_NV_ADD, 0},
    {"0.8B head", 248320, 1024, 1024, MATMUL_NV_STORE, 0},
    {"9B attention in", 10240, 4096, 4096, MATMUL_NV_STORE, 0},
    {"9B deltanet in", 12352, 4096, 4096, MATMUL_NV_STORE, 0},
    {"9B out", 4096, 4096, 4096, MATMUL_NV_ADD, 0},
    {"9B gate_up", 12288, 4096, 4096, MATMUL_NV_SILU, 0},
    {"9B down", 4096, 12288, 4096, MATMUL_NV_ADD, 0},
    {"9B head", 248320, 4096, 4096, MATMUL_NV_STORE, 0},
    {"4B attention in", 10240, 2560, 2560, MATMUL_NV_STORE, 0},
    {"4B deltanet in", 12352, 2560, 2560, MATMUL_NV_STORE, 0},
    {"4B out", 2560, 4096, 2560, MATMUL_NV_ADD, 0},
    {"4B gate_up", 9216, 2560, 2560, MATMUL_NV_SILU, 0},
    {"4B down", 2560, 9216, 2560, MATMUL_NV_ADD, 0},
    {"27B attention in", 14336, 5120, 5120, MATMUL_NV_STORE, 0},
    {"27B deltanet in", 16480, 5120, 5120, MATMUL_NV_STORE, 0},
    {"27B out", 5120, 6144, 5120, MATMUL_NV_ADD, 0},
    {"27B gate_up", 17408, 5120, 5120, MATMUL_NV_SILU, 0},
    {"27B down", 5120, 17408, 5120, MATMUL_NV_ADD, 0},
    {"small in", 200, 576, 576, MATMUL_NV_STORE, 0},
    {"small out", 136, 64, 136, MATMUL_NV_ADD, 0},
    {"small gate_up", 104, 192, 192, MATMUL_NV_SILU, 0},
    {"few long in", 40, 1280, 1280, MATMUL_NV_STORE, 0},
    {"few high in", 4240, 128, 128, MATMUL_NV_STORE, 0},
    {"deep in", 24, 4608, 4608, MATMUL_NV_STORE, 0},
    {"deep out", 136, 4608, 136, MATMUL_NV_ADD, 0},
    {"high in", 25352, 64, 64, MATMUL_NV_STORE, 0},
    {"4 bits in", 24, 4608, 4608, MATMUL_NV_STORE, 4},
    {"4 bits gate_up", 104, 768, 768, MATMUL_NV_SILU, 4},
    {"8 bits out", 136, 384, 136, MATMUL_NV_ADD, 8},
    /* The last chunk is cut off. */
    {"4 bits tail", 136, 192, 192, MATMUL_NV_STORE, 4},
    {"4 bits tail", 104, 576, 576, MATMUL_NV_SILU, 4},
    {"8 bits tail", 136, 320, 136, MATMUL_NV_ADD, 8},
};

struct trial {
    struct try *t;
    const struct product *p;
    cl_kernel kernel;
    cl_mem out, next, ss, in, w, gamma, part, tickets;
    uint32_t most; /* most tokens */
    uint32_t parts, copies, first, n_rows;
    size_t out_bytes;
    uint8_t *golden, *got; /* [most, n], as the kernel writes it */
    bool has_golden;
    bool wgmma; /* prefill by wgmma, else mma.sync */
};

static cl_kernel build(struct try *t, const struct matmul_nv *w,
                       const struct product *p)
{
    char file[64], form[64] = "";
    snprintf(file, sizeof(file), "%s.cl", w->file);
    if (p->bits > 0) {
        snprintf(form, sizeof(form), "-DW_BITS=%u -DW_GROUP=%u ", p->bits,
                 GROUP);
    }
    const char *const files[] = {"common.cl", "nv.cl", file, NULL};
    return try_kernel(
        t, files, w->kernel,
        "-DH=%u -DEPS=%gf -DKV_DTYPE=1 -DW_DTYPE=1 -DOPERAND_DTYPE=1 "
        "-DBLOCK_TOKENS=16 -DMETA_ROWS=0 -DMETA_TOKENS=0 %s%s",
        p->h, EPS, form, w->defines);
}

static void set_args(void *arg, uint32_t i)
{
    struct trial *r = arg;
    const struct product *p = r->p;
    uint64_t w_at = (uint64_t)(i % r->copies) * r->parts * p->n * p->k;
    uint64_t none = UINT64_MAX, zero = 0;
    switch (p->op) {
    case MATMUL_NV_STORE:
        try_args(r->kernel, "mUmUmUmUmUuuuuu", r->out, zero, r->in, zero, r->ss,
                 zero, r->w, w_at, r->gamma, none, r->first, r->n_rows, p->n,
                 p->k, p->n);
        break;
    case MATMUL_NV_SILU:
        try_args(r->kernel, "mUmUmUmUuuuu", r->out, zero, r->in, zero, r->ss,
                 zero, r->w, w_at, r->first, r->n_rows, p->n, p->k);
        break;
    case MATMUL_NV_ADD:
        try_args(r->kernel, "mUmUmUmUmUmUmUmUmUuuuu", r->out, zero, r->next,
                 zero, r->ss, zero, r->part, zero, r->tickets, zero, r->in,
                 zero, r->w, w_at, r->gamma, none, r->gamma, zero, r->first,
                 r->n_rows, p->n, p->k);
        break;
    }
}

/* Seeds of the buffers, and their scales. */
enum { SEED_W = 1, SEED_IN, SEED_SS, SEED_GAMMA, SEED_X, SEED_SCALE };

#define W_SCALE 0.05f

static void renew(struct trial *r)
{
    size_t n = (size_t)r->most * r->p->n;
    if (r->p->op == MATMUL_NV_ADD) {
        try_refill(r->t, r->out, TRY_F32, n, SEED_X, 1.0f);
        try_repoison(r->t, r->next, n * 2);
        try_repoison(r->t, r->ss, (size_t)r->most * r->p->h / 8 * 4);
    } else {
        try_repoison(r->t, r->out, r->out_bytes);
    }
}

/* ---- plain C ---- */

static double norm_scale(const struct product *p, uint32_t t)
{
    double sum = 0;
    for (uint32_t i = 0; i < p->h / 8; i++) {
        sum += try_value(SEED_SS, (uint64_t)t * (p->h / 8) + i, 1.0f, TRY_F32) +
               1.0;
    }
    return 1.0 / sqrt(sum / p->h + EPS);
}

/* Scale and bias of a quantised group are a pair of bf16. */
static uint32_t few_bits(const struct product *p, uint64_t i)
{
    float most = p->bits == 4 ? 8.0f : 128.0f;
    return (uint32_t)(try_value(SEED_W, i, most, TRY_F32) + most);
}

static float pair(uint64_t i)
{
    return try_value(SEED_SCALE, i, i % 2 ? W_SCALE : W_SCALE / 16, TRY_BF16);
}

static float weight(const struct product *p, uint64_t i)
{
    if (p->bits == 0) {
        return try_value(SEED_W, i, W_SCALE, TRY_BF16);
    }
    return try_bf16(fmaf((float)few_bits(p, i), pair(i / GROUP * 2),
                         pair(i / GROUP * 2 + 1)));
}

/* Makes a quantised matrix: the weights, then the pairs. */
static cl_mem make_few_bits(struct try *t, const struct product *p,
                            size_t cells)
{
    size_t bytes = cells * p->bits / 8, n = cells / GROUP * 2;
    uint8_t *data = calloc(1, bytes + n * 2);
    try_must(data ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "weights");
    for (size_t i = 0; i < cells; i++) {
        uint32_t shift = p->bits == 4 && i % 2 ? 4 : 0;
        data[i * p->bits / 8] |= (uint8_t)(few_bits(p, i) << shift);
    }
    for (size_t i = 0; i < n; i++) {
        float v = pair(i);
        memcpy(data + bytes + i * 2, (char *)&v + 2, 2); /* its upper half */
    }
    cl_mem m = try_data(t, data, bytes + n * 2);
    free(data);
    return m;
}

static double dot(const struct product *p, uint32_t t, uint32_t row)
{
    double sum = 0;
    for (uint32_t k = 0; k < p->k; k++) {
        sum +=
            (double)try_value(SEED_IN, (uint64_t)t * p->k + k, 1.0f, TRY_BF16) *
            (double)weight(p, (uint64_t)row * p->k + k);
    }
    return sum;
}

static double wanted(const struct product *p, uint32_t t, uint32_t j)
{
    double v = dot(p, t, j), s = norm_scale(p, t);
    if (p->op == MATMUL_NV_STORE) {
        return s * v;
    }
    if (p->op == MATMUL_NV_ADD) {
        return v +
               (double)try_value(SEED_X, (uint64_t)t * p->n + j, 1.0f, TRY_F32);
    }
    v *= s;
    return v / (1.0 + exp(-v)) * s * dot(p, t, p->n + j);
}

static float got_at(const struct trial *r, uint32_t t, uint32_t j)
{
    size_t i = (size_t)t * r->p->n + j;
    float v;
    if (r->p->op == MATMUL_NV_SILU) {
        uint16_t h;
        memcpy(&h, r->got + i * 2, 2);
        uint32_t b = (uint32_t)h << 16;
        memcpy(&v, &b, 4);
        return v;
    }
    memcpy(&v, r->got + i * 4, 4);
    return v;
}

/* Checks some columns of two tokens.  A sum may be rounded, perhaps toward
 * zero, once per mma, which is at least 8 columns; silu is rounded to bf16. */
static void check_values(struct trial *r, const char *what)
{
    double want[2 * SAMPLES];
    float got[2 * SAMPLES];
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint32_t j = i < 4 ? r->p->n - 1 - i : i * 2654435761u % r->p->n;
        for (uint32_t s = 0; s < 2; s++) {
            uint32_t t = s ? r->first + r->n_rows - 1 : r->first;
            want[2 * i + s] = wanted(r->p, t, j);
            got[2 * i + s] = got_at(r, t, j);
        }
    }
    try_near(r->t, what, got, want, 2 * SAMPLES,
             r->p->op == MATMUL_NV_SILU ? 4e-3 : r->p->k / 8 * 0x1p-24);
}

/* Checks next and ss, which are functions of x. */
static void check_next(struct trial *r, const char *what)
{
    const uint32_t n = r->p->n, t = r->first + r->n_rows - 1;
    uint16_t *next = malloc((size_t)n * 2);
    float *ss = malloc((size_t)n / 8 * 4), *v = malloc((size_t)n * 4);
    double *want = malloc((size_t)n * 8);
    try_must(next && ss && v && want ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY,
             what);
    try_read(r->t, r->next, (size_t)t * n * 2, (size_t)n * 2, next);
    try_read(r->t, r->ss, (size_t)t * n / 8 * 4, (size_t)n / 8 * 4, ss);
    for (uint32_t j = 0; j < n; j++) {
        uint32_t b = (uint32_t)next[j] << 16;
        memcpy(&v[j], &b, 4);
        want[j] = (double)try_bf16(got_at(r, t, j) *
                                   try_value(SEED_GAMMA, j, 1.0f, TRY_F32));
    }
    try_near(r->t, "next", v, want, n, 0);
    for (uint32_t j = 0; j < n / 8; j++) {
        want[j] = 0;
        for (uint32_t i = 0; i < 8; i++) {
            double x = (double)got_at(r, t, 8 * j + i);
            want[j] += x * x;
        }
    }
    try_near(r->t, "sums of squares", ss, want, n / 8, 1e-6);
    free(next);
    free(ss);
    free(v);
    free(want);
}

/* Runs the kernel before store and silu of prompts; folding twice changes
 * nothing. */
static void fold(struct trial *r)
{
    static const char *const files[] = {"common.cl", "nv.cl", "nv_norm_fold.cl",
                                        NULL};
    struct try_launch l = {NULL, 1, {(r->most + 7) / 8}, {256}};
    l.kernel = try_kernel(r->t, files, "norm_fold",
                          "-DH=%u -DEPS=%gf -DKV_DTYPE=1 -DMETA_ROWS=0 "
                          "-DMETA_TOKENS=0 -DBLOCK_TOKENS=16",
                          r->p->h, EPS);
    if (l.kernel && !r->t->build_only) {
        try_args(l.kernel, "mUuu", r->ss, (uint64_t)0, 0u, r->most);
        try_run(r->t, &l);
    }
}

static void check(struct trial *r, const struct try_launch *l, const char *what)
{
    size_t row = r->out_bytes / r->most;
    renew(r);
    set_args(r, 0);
    try_run(r->t, l);
    try_read(r->t, r->out, 0, r->out_bytes, r->got);
    if (!r->has_golden) {
        memcpy(r->golden, r->got, r->out_bytes);
        r->has_golden = true;
    }
    check_values(r, what);
    if (r->p->op == MATMUL_NV_ADD) {
        check_next(r, what);
    }
    try_same(r->t, what, r->got + r->first * row, r->golden + r->first * row,
             r->n_rows * row);
}

/* A way to compute n_rows tokens from `first`; `again` is not timed. */
struct turn {
    uint32_t tokens; /* tokens that the kernel is made for */
    uint32_t first, n_rows;
    bool prefill, again;
};

static void try_turn(struct trial *r, const struct turn *u)
{
    const struct product *p = r->p;
    struct matmul_nv w;
    char what[320];
    const struct matmul_nv_product of = {
        .op = p->op, .rows = p->n * r->parts, .cols = p->k, .bits = p->bits};
    const uint32_t local = r->t->local;
    if (!(u->prefill ? matmul_nv_prefill(&w, &of, u->tokens, r->wgmma, local)
                     : matmul_nv_decode(&w, &of, u->tokens, local))) {
        printf("%-18s is not cut for %u bytes of local memory\n", p->name,
               local);
        return;
    }
    snprintf(what, sizeof(what), "%-18s %4u tokens%s", p->name, u->n_rows,
             u->prefill ? "" : " decoded");
    r->kernel = build(r->t, &w, p);
    if (!r->kernel || r->t->build_only) {
        return;
    }
    struct try_launch l = {
        r->kernel,
        2,
        {(p->n * r->parts + w.rows - 1) / w.rows * (w.shares ? w.shares : 1),
         (u->n_rows + w.tokens - 1) / w.tokens},
        {w.items, 1}};
    r->first = u->first;
    r->n_rows = u->n_rows;
    check(r, &l, what);
    if (!r->t->quiet && !u->again) {
        double us = try_chain(r->t, &l, set_args, r);
        double cells = (double)r->parts * p->n * p->k;
        printf("%s %8.2f us %5.0f GB/s %4.0f%% %5.0f TFLOP/s  %s\n", what, us,
               cells * 2 / us / 1e3, cells * 2 / us / 10 / r->t->read_gbs,
               cells * 2 * u->n_rows / us / 1e6,
               r->t->verbose ? w.defines : "");
    }
}

static void make_buffers(struct trial *r)
{
    struct try *t = r->t;
    const struct product *p = r->p;
    size_t cells = (size_t)r->most * p->n, n = (size_t)r->most * p->h / 8;
    float *ss = malloc(n * 4);
    r->golden = malloc(r->out_bytes);
    r->got = malloc(r->out_bytes);
    try_must(r->golden && r->got && ss ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY,
             "buffers");
    r->out = try_poison(t, r->out_bytes);
    r->next = try_poison(t, cells * 2);
    r->in = try_random(t, TRY_BF16, (size_t)r->most * p->k, SEED_IN, 1);
    if (p->op == MATMUL_NV_ADD) {
        uint32_t zeros[4096] = {0};

        r->part = try_poison(t, cells * 8 * 4);
        r->tickets = try_data(t, zeros, sizeof zeros);
    }
    r->gamma = try_random(t, TRY_F32, p->n, SEED_GAMMA, 1);
    for (size_t i = 0; i < n; i++) { /* sums of squares: not negative */
        ss[i] = 1.0f + try_value(SEED_SS, i, 1.0f, TRY_F32);
    }
    r->ss = try_data(t, ss, n * 4);
    free(ss);
}

static void try_product(struct try *t, const struct product *p,
                        const struct turn *turns, uint32_t n, uint32_t most,
                        bool wgmma)
{
    struct trial r = {.t = t, .p = p, .most = most, .wgmma = wgmma};
    r.parts = p->op == MATMUL_NV_SILU ? 2 : 1;
    size_t cells = (size_t)r.parts * p->n * p->k;
    r.copies = t->small || p->bits ? 1 : (uint32_t)(POOL / cells);
    r.out_bytes = (size_t)most * p->n * (p->op == MATMUL_NV_SILU ? 2 : 4);
    if (!t->build_only) {
        r.w = p->bits > 0
                  ? make_few_bits(t, p, cells)
                  : try_random(t, TRY_BF16, r.copies * cells, SEED_W, W_SCALE);
        make_buffers(&r);
    }
    if (turns->prefill && p->op != MATMUL_NV_ADD) {
        fold(&r);
    }
    for (uint32_t i = 0; i < n; i++) {
        try_turn(&r, &turns[i]);
    }
    free(r.golden);
    free(r.got);
}

static void try_shapes(struct try *t, const char *model,
                       const struct turn *turns, uint32_t n, uint32_t most,
                       bool wgmma)
{
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const struct product *p = &shapes[i];
        if (strncmp(p->name, model, strlen(model)) != 0 ||
            (turns->prefill && strstr(p->name, "head"))) {
            continue;
        }
        try_product(t, p, turns, n, most, wgmma);
        try_free_buffers(t);
    }
}

#define N_OF(a) (uint32_t)(sizeof(a) / sizeof(a[0]))

/* The first turn has all tokens; the others are compared with it. */
static const struct turn decode_turns[] = {
    {32, 0, 128, false, true},  {128, 0, 128, false, false},
    {128, 0, 64, false, false}, {128, 0, 96, false, false},
    {64, 0, 64, false, false},  {32, 0, 32, false, false},
    {8, 0, 8, false, false},    {1, 0, 1, false, false},
    {1, 5, 1, false, true},     {8, 3, 7, false, true},
    {32, 1, 29, false, true},   {8, 100, 8, false, true},
};

/* These end with the last token, or begin with the first. */
#define SMALL_DECODED 137
static const struct turn small_decode_turns[] = {
    {32, 0, 137, false, true},  {128, 0, 137, false, true},
    {64, 1, 136, false, true},  {64, 75, 62, false, true},
    {8, 128, 9, false, true},   {1, 135, 2, false, true},
    {32, 104, 33, false, true}, {32, 106, 31, false, true},
    {8, 129, 8, false, true},   {8, 130, 7, false, true},
    {1, 136, 1, false, true},
};

static void decode_small(struct try *t)
{
    const struct turn *turns = small_decode_turns;
    if (t->small) {
        try_shapes(t, "small", turns, N_OF(small_decode_turns), SMALL_DECODED,
                   false);
        try_shapes(t, "deep", turns, N_OF(small_decode_turns), SMALL_DECODED,
                   false);
        try_shapes(t, "high", turns, 5, SMALL_DECODED, false);
    } else {
        try_shapes(t, "0.8B", decode_turns, N_OF(decode_turns), 128, false);
    }
}

/* For products of many tokens: compares every bit. */
static void dequantise(struct try *t, uint32_t bits)
{
    static const char *const files[] = {"common.cl", "dequantise.cl", NULL};
    enum { CELLS = 3 * 192, ITEMS = 64 };
    const struct product p = {.bits = bits};
    uint16_t got[CELLS];
    float as_float[CELLS];
    double want[CELLS];
    struct try_launch l = {NULL, 1, {(CELLS / 8 + ITEMS - 1) / ITEMS}, {ITEMS}};
    l.kernel = try_kernel(t, files, "dequantise",
                          "-DH=64 -DEPS=%gf -DKV_DTYPE=1 -DW_DTYPE=1 "
                          "-DW_BITS=%u -DW_GROUP=%u -DMETA_ROWS=0 "
                          "-DMETA_TOKENS=0 -DBLOCK_TOKENS=16",
                          EPS, bits, GROUP);
    if (!l.kernel || t->build_only) {
        return;
    }
    cl_mem out = try_poison(t, sizeof(got));
    cl_mem w = make_few_bits(t, &p, CELLS);
    try_args(l.kernel, "mUmUUu", out, (uint64_t)0, w, (uint64_t)0,
             (uint64_t)CELLS, 192u);
    try_run(t, &l);
    try_read(t, out, 0, sizeof(got), got);
    for (uint32_t i = 0; i < CELLS; i++) {
        uint32_t b = (uint32_t)got[i] << 16;
        memcpy(&as_float[i], &b, 4);
        want[i] = (double)weight(&p, i);
    }
    try_near(t, "dequantise", as_float, want, CELLS, 0);
}

static void decode_bits(struct try *t)
{
    const struct turn *turns = small_decode_turns;
    try_shapes(t, "4 bits", turns, N_OF(small_decode_turns), SMALL_DECODED,
               false);
    try_shapes(t, "8 bits", turns, N_OF(small_decode_turns), SMALL_DECODED,
               false);
    dequantise(t, 4);
    dequantise(t, 8);
}

static void decode_large(struct try *t)
{
    if (!t->small) {
        try_shapes(t, "9B", decode_turns, N_OF(decode_turns), 128, false);
    }
}

static void decode_other(struct try *t)
{
    if (!t->small) {
        try_shapes(t, "4B", decode_turns, N_OF(decode_turns), 128, false);
        try_shapes(t, "27B", decode_turns, N_OF(decode_turns), 128, false);
    }
}

static const struct turn prefill_turns[] = {
    {4096, 0, 4096, true, false}, {512, 0, 512, true, false},
    {512, 100, 512, true, true},  {64, 1000, 64, true, true},
    {128, 4000, 96, true, true},  {1, 77, 1, true, true},
    {512, 77, 1, true, true},     {2048, 2048, 2048, true, false},
};

/* Few tokens, in tiles made for them or for more. */
static const struct turn few_turns[] = {
    {512, 0, 128, true, true},  {256, 0, 64, true, false},
    {64, 0, 64, true, false},   {64, 16, 48, true, false},
    {64, 100, 16, true, false}, {256, 0, 128, true, false},
    {128, 0, 128, true, false}, {128, 31, 97, true, true},
};

/* Rounds of two stages, more than the ring has, and a wider tile. */
static const struct turn small_few_turns[] = {
    {8448, 0, 129, true, true},
    {64, 64, 65, true, true},
    {64, 1, 63, true, true},
    {128, 2, 127, true, true},
};

/* For each tile: the best one for this many tokens and 129 to 256 rows. */
#define SMALL_PROMPT 193
static const struct turn small_prefill_turns[] = {
    {25344, 0, 193, true, true},  {25344, 1, 192, true, true},
    {16896, 64, 129, true, true}, {8448, 65, 128, true, true},
    {8448, 66, 127, true, true},  {64, 128, 65, true, true},
    {64, 129, 64, true, true},    {64, 130, 63, true, true},
    {64, 192, 1, true, true},
};

static void try_prefill(struct try *t, const char *model, bool wgmma)
{
    if (!t->small) {
        try_shapes(t, model, prefill_turns, N_OF(prefill_turns), 4096, wgmma);
    } else if (strcmp(model, "9B") != 0) {
        try_shapes(t, "small", small_prefill_turns, N_OF(small_prefill_turns),
                   SMALL_PROMPT, wgmma);
    }
}

static void prefill_small(struct try *t)
{
    try_prefill(t, "0.8B", t->nvidia == 90);
}

static void prefill_large(struct try *t)
{
    try_prefill(t, "9B", t->nvidia == 90);
}

static void prefill_few(struct try *t)
{
    if (!t->small) {
        try_shapes(t, "9B", few_turns, N_OF(few_turns), 128, t->nvidia == 90);
    } else {
        try_shapes(t, "few", small_few_turns, N_OF(small_few_turns), 129,
                   t->nvidia == 90);
    }
}

static void prefill_sync(struct try *t)
{
    try_prefill(t, "0.8B", false);
    try_prefill(t, "9B", false);
}

const struct try_case try_products[] = {
    {"decode_small", decode_small},
    {"decode_large", decode_large},
    {"decode_other", decode_other},
    {"prefill_small", prefill_small},
    {"prefill_large", prefill_large},
    {"few", prefill_few},
    {"sync", prefill_sync},
    {"bits", decode_bits},
    {0},
};
