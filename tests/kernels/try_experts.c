/* try_experts.c - all products between two mixers of a layer with experts, in
 * one launch; see opencl_try.h.
 *
 * The results are compared bit for bit with the six launches of a step without
 * a chain, in their order, repeatedly.  Times are compared too. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/opencl/nv/matmul_nv.h"
#include "tests/kernels/opencl_try.h"

#define POOL     ((size_t)1 << 31) /* elements of bf16 to cut weights from */
#define ROUNDS   5
#define PRODUCTS 4 /* out, gate_up, down, in */
#define ROUTE_WG 128
#define SUM_WG   64
#define NONE     UINT64_MAX

static const struct layer {
    const char *name;
    uint32_t h, out_k, in_n; /* in_n 0: the last layer */
    uint32_t dim, experts, top_k, normed;
    uint32_t shared;              /* SHARED of route.cl */
    uint32_t bits, group, format; /* of a weight; bits 0: bf16 */
} layers[] = {
    {"35B-A3B to deltanet", 2048, 4096, 12352, 512, 256, 8, 1, 2, 0, 0, 0},
    {"35B-A3B to attention", 2048, 4096, 9216, 512, 256, 8, 1, 2, 0, 0, 0},
    {"35B-A3B last", 2048, 4096, 0, 512, 256, 8, 1, 2, 0, 0, 0},
    {"35B-A3B, 8 bits", 2048, 4096, 12352, 512, 256, 8, 1, 2, 8, 64, 1},
    {"35B-A3B, 4 bits", 2048, 4096, 12352, 512, 256, 8, 1, 2, 4, 64, 1},
    {"30B-A3B", 2048, 4096, 5120, 768, 128, 8, 1, 0, 0, 0, 0},
    {"30B-A3B, 4 bits", 2048, 4096, 5120, 768, 128, 8, 1, 0, 4, 64, 1},
    {"few experts", 192, 64, 328, 64, 5, 2, 1, 0, 0, 0, 0},
    {"a shared one", 192, 64, 328, 192, 9, 3, 0, 1, 0, 0, 0},
    {"a gated one", 256, 128, 328, 128, 35, 4, 1, 2, 0, 0, 0},
    {"a gated one, last", 256, 128, 0, 128, 35, 4, 0, 2, 0, 0, 0},
    {"long rows", 640, 64, 328, 320, 6, 2, 1, 2, 0, 0, 0},
    {"one expert", 192, 64, 72, 64, 2, 1, 1, 0, 0, 0, 0},
    {"8 bits", 256, 128, 328, 256, 7, 3, 1, 2, 8, 32, 1},
    {"4 bits", 256, 256, 328, 256, 7, 3, 1, 0, 4, 32, 1},
    {"4 bits, last", 512, 256, 0, 256, 34, 5, 0, 2, 4, 64, 1},
    {"f16 scales", 256, 256, 328, 256, 7, 3, 1, 1, 4, 32, 5},
};

/* Written tensors; and those that only single launches write. */
enum { X, NEXT, SS, IN, WRITTEN };
enum { ROUTE = PRODUCTS, SUM, LAUNCHES };

struct trial {
    struct try *t;
    const struct layer *l;
    struct matmul_nv_product of[PRODUCTS];
    struct matmul_nv_route route;
    uint32_t n, all; /* products; matrices of experts */
    struct try_launch one[LAUNCHES], chain;
    cl_mem y, w[PRODUCTS], router, gamma, posts, written[WRITTEN];
    cl_mem logits, ids, weights, tickets, gated, outputs;
    size_t bytes[WRITTEN];
    uint32_t copies, launched;
};

/* ---- the layer ---- */

static struct trial describe(struct try *t, const struct layer *l)
{
    const uint32_t folded = l->shared > 0;

    return (struct trial){
        .t = t,
        .l = l,
        .of = {{MATMUL_NV_ADD, l->h, l->out_k, l->bits, false},
               {MATMUL_NV_SILU, 2 * l->dim, l->h, l->bits, true},
               {MATMUL_NV_STORE, l->h, l->dim, l->bits, true},
               {MATMUL_NV_STORE, l->in_n, l->h, l->bits, false}},
        .route = {l->experts + (l->shared == 2), l->top_k + folded},
        .n = l->in_n > 0 ? 4 : 3,
        .all = l->experts + folded};
}

/* Returns the size of a product's matrix, in units of 2 bytes.  A group of a
 * quantised matrix has a scale and a bias, or one scale. */
static uint64_t cells(const struct trial *r, uint32_t p)
{
    const uint64_t n = (uint64_t)r->of[p].rows * r->of[p].cols *
                       (r->of[p].expert ? r->all : 1);

    return r->l->bits ? n * r->l->bits / 16 +
                            n / r->l->group * (r->l->format == 1 ? 2 : 1)
                      : n;
}

/* Returns the start of the i-th matrix of a product; if quantised, in bytes. */
static uint64_t cell(const struct trial *r, uint32_t p, uint32_t i)
{
    return i % r->copies * cells(r, p) * (r->l->bits ? 2 : 1);
}

static uint64_t all_cells(const struct trial *r)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < r->n; i++) {
        sum += cells(r, i);
    }
    return sum;
}

/* ---- programs ---- */

/* The matrices of a program: the router, a matrix, or those of experts. */
enum weights { ROUTER, MATRIX, EXPERTS };

static cl_kernel build(struct trial *r, const char *const files[5],
                       const char *kernel, enum weights of, const char *defines)
{
    const struct layer *l = r->l;
    char bits[64] = "", experts[192] = "";

    if (of != MATRIX) {
        snprintf(experts, sizeof(experts),
                 "-DN_EXPERTS=%u -DTOP_K=%u -DTOP_K_NORMED=%u -DEXPERT_DIM=%u "
                 "-DALTERNATE=0 -DSHARED=%u -DPAIRS=%u -DN_ALL=%u",
                 l->experts, l->top_k, l->normed, l->dim, l->shared,
                 r->route.pairs, r->all);
    }
    if (of != ROUTER && l->bits) {
        snprintf(bits, sizeof(bits), "-DW_FORMAT=%u -DW_BITS=%u -DW_GROUP=%u",
                 l->format, l->bits, l->group);
    }
    return try_kernel(
        r->t, files, kernel,
        "-DH=%u -DI=0 -DEPS=1e-6f -DKV_DTYPE=1 -DW_DTYPE=1 -DOPERAND_DTYPE=1 "
        "-DBLOCK_TOKENS=16 -DMETA_ROWS=0 -DMETA_TOKENS=0 %s %s %s",
        l->h, experts, bits, defines);
}

static bool build_single(struct trial *r, uint32_t p)
{
    static const char *const files[] = {"common.cl", "nv.cl",
                                        "nv_matmul_decode.cl", NULL, NULL};
    const struct matmul_nv_product *of = &r->of[p];
    struct matmul_nv m;

    if (!matmul_nv_decode(&m, of, 1, r->t->local)) {
        return false;
    }
    r->one[p] = (struct try_launch){
        build(r, files, m.kernel, of->expert ? EXPERTS : MATRIX, m.defines),
        2,
        {(of->rows + m.rows - 1) / m.rows, of->expert ? r->route.pairs : 1},
        {m.items, 1}};
    return r->one[p].kernel != NULL;
}

static bool build_all(struct trial *r)
{
    static const char *const route[] = {"common.cl", "nv.cl", "nv_route.cl",
                                        NULL, NULL};
    static const char *const sum[] = {"common.cl", "route.cl", NULL, NULL,
                                      NULL};
    static const char *const chain[] = {"common.cl", "nv.cl",
                                        "nv_chain_decode.cl",
                                        "nv_chain_experts.cl", NULL};
    struct matmul_nv m;
    bool built;

    if (!matmul_nv_chain(&m, r->of, r->n, &r->route, r->t->units)) {
        printf("%-20s is not cut for %u units\n", r->l->name, r->t->units);
        r->t->n_wrong += r->t->small;
        return false;
    }
    r->chain =
        (struct try_launch){build(r, chain, m.kernel, EXPERTS, m.defines),
                            1,
                            {r->t->units},
                            {m.items}};
    r->one[ROUTE] = (struct try_launch){
        build(r, route, "experts_route", ROUTER, "-DWG=128 -DTILE_ROWS=1"),
        2,
        {(r->route.logits + 7) / 8, 1},
        {ROUTE_WG, 1}};
    r->one[SUM] =
        (struct try_launch){build(r, sum, "experts_sum", ROUTER, "-DWG=64"),
                            2,
                            {(r->l->h / 8 + SUM_WG - 1) / SUM_WG, 1},
                            {SUM_WG, 1}};
    built = r->chain.kernel && r->one[ROUTE].kernel && r->one[SUM].kernel;
    for (uint32_t i = 0; i < r->n; i++) {
        built = build_single(r, i) && built;
    }
    return built;
}

/* ---- launches ---- */

static void set_product(struct trial *r, uint32_t p, uint32_t i)
{
    const uint64_t w = cell(r, p, i), z = 0;
    const cl_kernel k = r->one[p].kernel;

    if (p == 0) {
        /* No part and no tickets: no columns are shared. */
        try_args(k, "mUmUmUmUmUmUmUmUmUuuuu", r->written[X], z,
                 r->written[NEXT], z, r->written[SS], z, r->y, z, r->y, z, r->y,
                 z, r->w[p], w, r->gamma, NONE, r->gamma, z, 0u, 1u, r->l->h,
                 r->l->out_k);
    } else if (p == 1) {
        try_args(k, "mUmUmUmUmUmUmUmUuu", r->gated, z, r->written[NEXT], z,
                 r->written[SS], z, r->w[p], w, r->gamma, NONE, r->ids, z,
                 r->ids, z, r->ids, z, 0u, r->route.pairs);
    } else if (p == 2) {
        try_args(k, "mUmUmUmUmUmUmUuu", r->outputs, z, r->gated, z, r->w[p], w,
                 r->gamma, NONE, r->ids, z, r->ids, z, r->ids, z, 0u,
                 r->route.pairs);
    } else {
        try_args(k, "mUmUmUmUmUuuuuu", r->written[IN], z, r->written[NEXT], z,
                 r->written[SS], z, r->w[p], w, r->gamma, NONE, 0u, 1u,
                 r->l->in_n, r->l->h, r->l->in_n);
    }
}

static void set_one(struct trial *r, uint32_t launch, uint32_t i)
{
    const uint64_t z = 0;

    if (launch == ROUTE) {
        try_args(r->one[launch].kernel, "mUmUmUmUmUmUmUmUmUu", r->ids, z,
                 r->weights, z, r->logits, z, r->tickets, z, r->written[X], z,
                 r->written[SS], z, r->gamma, z, r->router, z, r->gamma, NONE,
                 1u);
    } else if (launch == SUM) {
        try_args(r->one[launch].kernel, "mUmUmUmUmUmUmUu", r->written[X], z,
                 r->written[NEXT], z, r->written[SS], z, r->outputs, z,
                 r->weights, z, r->gamma, NONE, r->gamma, z, 1u);
    } else {
        set_product(r, launch, i);
    }
}

static void set_chain(void *arg, uint32_t i)
{
    struct trial *r = arg;
    const uint64_t z = 0;

    try_args(r->chain.kernel, "mUmUmUmUmUmUmUmUmUmUmUmUmUmUmUu", r->written[X],
             z, r->written[NEXT], z, r->written[SS], z, r->written[IN], z,
             r->posts, z, r->y, z, r->w[0], cell(r, 0, i), r->gamma, NONE,
             r->gamma, z, r->router, z, r->w[1], cell(r, 1, i), r->w[2],
             cell(r, 2, i), r->gamma, z, r->w[3], cell(r, 3, i), r->gamma, NONE,
             ++r->launched);
}

/* ---- buffers ---- */

static cl_mem zeros(struct try *t, size_t bytes)
{
    void *none = calloc(1, bytes);
    cl_mem m = try_data(t, none, bytes);

    free(none);
    return m;
}

static void make_buffers(struct trial *r)
{
    const struct layer *l = r->l;
    struct try *t = r->t;
    const size_t pairs = r->route.pairs;
    const size_t bytes[WRITTEN] = {l->h * 4, l->h * 2, l->h / 8 * 4,
                                   l->in_n > 0 ? l->in_n * 4 : 4};

    for (uint32_t i = 0; i < WRITTEN; i++) {
        r->bytes[i] = bytes[i];
        r->written[i] = try_poison(t, bytes[i]);
    }
    r->y = try_random(t, TRY_BF16, l->out_k, 2, 1.0f);
    r->gamma = try_random(t, TRY_F32, l->h, 3, 1.0f);
    r->router =
        try_random(t, TRY_BF16, (size_t)r->route.logits * l->h, 9, 0.1f);
    r->logits = try_poison(t, r->route.logits * 4);
    r->ids = try_poison(t, pairs * 4);
    r->weights = try_poison(t, (l->top_k + 1) * 4);
    r->tickets = zeros(t, 4);
    r->gated = try_poison(t, pairs * l->dim * 2);
    r->outputs = try_poison(t, pairs * l->h * 4);
    r->posts = zeros(t, matmul_nv_expert_posts(l->h, l->dim, &r->route) * 8);
    r->copies = t->small ? 1 : (uint32_t)(POOL / all_cells(r));
    for (uint32_t i = 0; i < r->n; i++) {
        r->w[i] =
            try_random(t, TRY_BF16, r->copies * cells(r, i), 5 + i, 0.05f);
    }
    if (r->n < PRODUCTS) { /* unused */
        r->w[3] = try_poison(t, 2);
    }
}

/* ---- checks ---- */

static void read_all(struct trial *r, uint8_t *out[WRITTEN])
{
    for (uint32_t i = 0; i < WRITTEN; i++) {
        try_read(r->t, r->written[i], 0, r->bytes[i], out[i]);
    }
}

/* Runs the launches of a step without a chain. */
static void run_single(struct trial *r, uint32_t i)
{
    static const uint32_t order[] = {0, ROUTE, 1, 2, SUM, 3};

    for (uint32_t n = 0; n < sizeof(order) / sizeof(order[0]); n++) {
        if (order[n] != 3 || r->n == PRODUCTS) {
            set_one(r, order[n], i);
            try_run(r->t, &r->one[order[n]]);
        }
    }
}

/* Counts values of x that comparing bits would make worthless. */
static void check_finite(struct trial *r, const uint8_t *x)
{
    for (uint32_t i = 0; i < r->l->h; i++) {
        float v;

        memcpy(&v, x + i * sizeof(v), sizeof(v));
        if (!isfinite(v)) {
            printf("%s: x[%u] is %g\n", r->l->name, i, (double)v);
            r->t->n_wrong++;
            return;
        }
    }
}

/* x carries over from round to round. */
static void check(struct trial *r)
{
    static const char *const names[WRITTEN] = {"x", "next", "ss", "in"};
    uint8_t *want[ROUNDS][WRITTEN], *got[WRITTEN];

    for (uint32_t i = 0; i < WRITTEN; i++) {
        for (uint32_t n = 0; n < ROUNDS; n++) {
            want[n][i] = malloc(r->bytes[i]);
        }
        got[i] = malloc(r->bytes[i]);
    }
    try_refill(r->t, r->written[X], TRY_F32, r->l->h, 4, 1.0f);
    for (uint32_t n = 0; n < ROUNDS; n++) {
        run_single(r, n);
        read_all(r, want[n]);
        check_finite(r, want[n][X]);
    }
    try_refill(r->t, r->written[X], TRY_F32, r->l->h, 4, 1.0f);
    for (uint32_t n = 0; n < ROUNDS; n++) {
        for (uint32_t i = NEXT; i < WRITTEN; i++) {
            try_repoison(r->t, r->written[i], r->bytes[i]);
        }
        set_chain(r, n);
        try_run(r->t, &r->chain);
        read_all(r, got);
        for (uint32_t i = 0; i < WRITTEN; i++) {
            try_same(r->t, names[i], got[i], want[n][i], r->bytes[i]);
        }
    }
    for (uint32_t i = 0; i < WRITTEN; i++) {
        for (uint32_t n = 0; n < ROUNDS; n++) {
            free(want[n][i]);
        }
        free(got[i]);
    }
}

/* ---- times ---- */

struct single {
    struct trial *r;
    uint32_t launch;
};

static void set_single(void *arg, uint32_t i)
{
    struct single *s = arg;

    set_one(s->r, s->launch, i);
}

/* Returns the bytes that a step reads: experts' of its pairs. */
static double bytes_of(const struct trial *r)
{
    double bytes = (double)r->route.logits * r->l->h * 2;

    for (uint32_t i = 0; i < r->n; i++) {
        bytes += (double)cells(r, i) * 2 *
                 (r->of[i].expert ? (double)r->route.pairs / r->all : 1.0);
    }
    return bytes;
}

static void time_all(struct trial *r)
{
    const double bytes = bytes_of(r);
    double us = try_chain(r->t, &r->chain, set_chain, r), sum = 0;

    for (uint32_t i = 0; i < LAUNCHES; i++) {
        struct single s = {r, i};

        if (i != 3 || r->n == PRODUCTS) {
            sum += try_chain(r->t, &r->one[i], set_single, &s);
        }
    }
    printf("%-20s %8.2f us, %5.0f GB/s %4.0f%%; one by one %8.2f us\n",
           r->l->name, us, bytes / us / 1e3, bytes / us / 10 / r->t->read_gbs,
           sum);
}

static void try_layer(struct try *t, const struct layer *l)
{
    struct trial r = describe(t, l);

    if (!build_all(&r) || t->build_only) {
        return;
    }
    make_buffers(&r);
    check(&r);
    if (!t->quiet) {
        time_all(&r);
    }
}

static void chain_experts(struct try *t)
{
    for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++) {
        if (!t->small || layers[i].h < 1024) {
            try_layer(t, &layers[i]);
            try_free(t);
        }
    }
}

const struct try_case try_experts[] = {{"chain_experts", chain_experts}, {0}};
