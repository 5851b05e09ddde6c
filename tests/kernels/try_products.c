/* try_products.c - matrix products; see opencl_try.h.
 *
 * Every way of computing a product that the table `ways` has for a number of
 * tokens is compared with plain C on some columns, and, bit for bit, with the
 * first way that fits the matrix: whatever the tile, and whether a token comes
 * alone or with others. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/opencl_try.h"

#define POOL        ((size_t)1 << 30) /* elements of bf16 to cut weights from */
#define LOCAL_MOST  ((size_t)227 << 10)
#define TOKENS_MOST 32
#define SAMPLES     24
#define EPS         1e-6

enum epilogue { STORE, SILU, ADD };

static const char *const kernel_names[] = {"matmul_store", "matmul_silu",
                                           "matmul_add"};

struct product {
    const char *name;
    uint32_t n, k; /* of out, and of in */
    uint32_t h;
    enum epilogue epilogue;
};

static const struct product shapes[] = {
    {"0.8B attention in", 5120, 1024, 1024, STORE},
    {"0.8B deltanet in", 8224, 1024, 1024, STORE},
    {"0.8B out", 1024, 2048, 1024, ADD},
    {"0.8B gate_up", 3584, 1024, 1024, SILU},
    {"0.8B down", 1024, 3584, 1024, ADD},
    {"0.8B head", 248320, 1024, 1024, STORE},
    {"9B attention in", 10240, 4096, 4096, STORE},
    {"9B deltanet in", 12352, 4096, 4096, STORE},
    {"9B out", 4096, 4096, 4096, ADD},
    {"9B gate_up", 12288, 4096, 4096, SILU},
    {"9B down", 4096, 12288, 4096, ADD},
    {"9B head", 248320, 4096, 4096, STORE},
};

/* Of nv_matmul_decode.cl. */
struct way {
    uint32_t tokens, blocks, groups, depth, item, resident;
    uint32_t per_unit; /* work-groups */
};

static const struct way ways[] = {
    {32, 8, 1, 4, 32, 0, 1}, {32, 4, 1, 5, 32, 0, 1}, {32, 4, 1, 3, 32, 0, 2},
    {32, 2, 1, 6, 32, 1, 1}, {32, 4, 1, 4, 32, 1, 1}, {32, 2, 2, 4, 32, 1, 1},
    {32, 2, 1, 4, 32, 0, 2}, {32, 6, 1, 4, 32, 0, 1}, {8, 1, 1, 6, 64, 1, 2},
    {8, 1, 2, 7, 64, 1, 1},  {8, 2, 1, 6, 64, 1, 1},  {8, 2, 2, 4, 64, 1, 1},
    {8, 2, 1, 4, 64, 0, 2},  {8, 4, 1, 5, 64, 0, 1},  {8, 1, 1, 6, 64, 0, 2},
    {8, 4, 1, 5, 32, 0, 2},  {1, 1, 1, 10, 64, 1, 1}, {1, 1, 1, 8, 64, 1, 2},
    {1, 1, 1, 6, 64, 1, 4},  {1, 1, 2, 10, 64, 1, 1}, {1, 2, 1, 5, 64, 1, 2},
    {1, 2, 2, 5, 64, 1, 1},  {1, 4, 1, 5, 64, 1, 1},
};

struct trial {
    struct try *t;
    const struct product *p;
    cl_kernel kernel;
    cl_mem out, next, ss, in, w, gamma;
    uint32_t parts, copies, first, n_rows;
    size_t out_bytes;
    uint8_t *golden, *got; /* [TOKENS_MOST, n], as the kernel writes it */
    bool has_golden;
};

static size_t local_bytes(const struct way *w, const struct product *p)
{
    size_t wg = w->groups * 256, parts = p->epilogue == SILU ? 2 : 1;
    size_t octets = (w->tokens + 7) / 8;
    size_t fetched = w->blocks + (w->resident ? 0 : octets);
    size_t ring = (size_t)w->depth * (w->item / 32) * fetched * wg * 16;
    size_t held =
        w->resident ? p->k / 32 * octets * (w->tokens == 1 ? 4 : 32) * 16 : 16;
    size_t sums = (size_t)2 * w->groups * 8 * w->tokens * parts * 8 * 4;
    return ring + held + sums + 1024;
}

static bool fits(const struct way *w, const struct product *p)
{
    uint32_t parts = p->epilogue == SILU ? 2 : 1;
    uint32_t cols = w->groups * w->blocks * 8 / parts;
    return w->blocks % parts == 0 &&
           local_bytes(w, p) * w->per_unit <= LOCAL_MOST && cols <= p->n;
}

static cl_kernel build(struct try *t, const struct way *w,
                       const struct product *p)
{
    static const char *const files[] = {"common.cl", "nv.cl",
                                        "nv_matmul_decode.cl", NULL};
    return try_kernel(
        t, files, kernel_names[p->epilogue],
        "-DH=%u -DEPS=%gf -DKV_DTYPE=1 -DW_DTYPE=1 -DOPERAND_DTYPE=1 "
        "-DBLOCK_TOKENS=16 -DMETA_ROWS=0 -DMETA_TOKENS=0 -DN=%u -DK=%u "
        "-DEPILOGUE=%d -DTOKENS=%u -DBLOCKS=%u -DGROUPS=%u -DDEPTH=%u "
        "-DITEM=%u -DRESIDENT=%u",
        p->h, EPS, p->n, p->k, p->epilogue, w->tokens, w->blocks, w->groups,
        w->depth, w->item, w->resident);
}

static void set_args(void *arg, uint32_t i)
{
    struct trial *r = arg;
    const struct product *p = r->p;
    uint64_t w_at = (uint64_t)(i % r->copies) * r->parts * p->n * p->k;
    uint64_t none = UINT64_MAX, zero = 0;
    switch (p->epilogue) {
    case STORE:
        try_args(r->kernel, "mUmUmUmUmUuuuuu", r->out, zero, r->in, zero, r->ss,
                 zero, r->w, w_at, r->gamma, none, r->first, r->n_rows, p->n,
                 p->k, p->n);
        break;
    case SILU:
        try_args(r->kernel, "mUmUmUmUuuuu", r->out, zero, r->in, zero, r->ss,
                 zero, r->w, w_at, r->first, r->n_rows, p->n, p->k);
        break;
    case ADD:
        try_args(r->kernel, "mUmUmUmUmUmUmUuuuu", r->out, zero, r->next, zero,
                 r->ss, zero, r->in, zero, r->w, w_at, r->gamma, none, r->gamma,
                 zero, r->first, r->n_rows, p->n, p->k);
        break;
    }
}

/* Seeds of the buffers, and what they are scaled by. */
enum { SEED_W = 1, SEED_IN, SEED_SS, SEED_GAMMA, SEED_X };

#define W_SCALE 0.05f

static void renew(struct trial *r)
{
    size_t n = (size_t)TOKENS_MOST * r->p->n;
    if (r->p->epilogue == ADD) {
        try_refill(r->t, r->out, TRY_F32, n, SEED_X, 1.0f);
        try_repoison(r->t, r->next, n * 2);
        try_repoison(r->t, r->ss, (size_t)TOKENS_MOST * r->p->h / 8 * 4);
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

static double dot(const struct product *p, uint32_t t, uint32_t row)
{
    double sum = 0;
    for (uint32_t k = 0; k < p->k; k++) {
        sum +=
            (double)try_value(SEED_IN, (uint64_t)t * p->k + k, 1.0f, TRY_BF16) *
            (double)try_value(SEED_W, (uint64_t)row * p->k + k, W_SCALE,
                              TRY_BF16);
    }
    return sum;
}

static double wanted(const struct product *p, uint32_t t, uint32_t j)
{
    double v = dot(p, t, j), s = norm_scale(p, t);
    if (p->epilogue == STORE) {
        return s * v;
    }
    if (p->epilogue == ADD) {
        return v + (double)try_value(SEED_X, (uint64_t)t * p->n + j, 1.0f,
                                     TRY_F32);
    }
    v *= s;
    return v / (1.0 + exp(-v)) * s * dot(p, t, p->n + j);
}

static float got_at(const struct trial *r, uint32_t t, uint32_t j)
{
    size_t i = (size_t)t * r->p->n + j;
    float v;
    if (r->p->epilogue == SILU) {
        uint16_t h;
        memcpy(&h, r->got + i * 2, 2);
        uint32_t b = (uint32_t)h << 16;
        memcpy(&v, &b, 4);
        return v;
    }
    memcpy(&v, r->got + i * 4, 4);
    return v;
}

/* Some columns of two tokens: float32 sums of K terms; for silu also the
 * rounding to bf16. */
static void check_values(struct trial *r, const char *what)
{
    double want[2 * SAMPLES];
    float got[2 * SAMPLES];
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint32_t j =
            i < 4 ? r->p->n - 1 - i : i * 2654435761u % r->p->n;
        for (uint32_t s = 0; s < 2; s++) {
            uint32_t t = s ? r->first + r->n_rows - 1 : r->first;
            want[2 * i + s] = wanted(r->p, t, j);
            got[2 * i + s] = got_at(r, t, j);
        }
    }
    try_near(r->t, what, got, want, 2 * SAMPLES,
             r->p->epilogue == SILU ? 4e-3 : 1e-5);
}

/* next and ss are functions of x. */
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
        want[j] = (double)try_bf16(
            got_at(r, t, j) * try_value(SEED_GAMMA, j, 1.0f, TRY_F32));
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

static void check(struct trial *r, const struct try_launch *l, const char *what)
{
    size_t row = r->out_bytes / TOKENS_MOST;
    renew(r);
    set_args(r, 0);
    try_run(r->t, l);
    try_read(r->t, r->out, 0, r->out_bytes, r->got);
    if (!r->has_golden) {
        memcpy(r->golden, r->got, r->out_bytes);
        r->has_golden = true;
    }
    check_values(r, what);
    if (r->p->epilogue == ADD) {
        check_next(r, what);
    }
    try_same(r->t, what, r->got + r->first * row, r->golden + r->first * row,
             r->n_rows * row);
}

static void try_way(struct trial *r, const struct way *w)
{
    const struct product *p = r->p;
    char what[160];
    snprintf(what, sizeof(what), "%-18s %2u tokens, %u %u %2u %u %u x%u",
             p->name, w->tokens, w->blocks, w->groups, w->depth, w->item,
             w->resident, w->per_unit);
    r->kernel = build(r->t, w, p);
    if (!r->kernel || r->t->build_only) {
        return;
    }
    size_t cols = w->groups * w->blocks * 8 / r->parts;
    size_t tiles = (p->n + cols - 1) / cols;
    size_t groups = (size_t)r->t->units * w->per_unit;
    struct try_launch l = {
        r->kernel, 2, {tiles < groups ? tiles : groups, 1}, {w->groups * 256, 1}};
    r->first = 0;
    r->n_rows = w->tokens;
    check(r, &l, what);
    r->first = w->tokens == 1 ? 5 : 1;
    r->n_rows = w->tokens == 1 ? 1 : w->tokens - 2;
    check(r, &l, what);
    r->first = 0;
    r->n_rows = w->tokens;
    if (!r->t->quiet) {
        set_args(r, 0);
        double alone = try_alone(r->t, &l);
        double chain = try_chain(r->t, &l, set_args, r);
        double bytes = (double)r->parts * p->n * p->k * 2;
        printf("%s: alone %6.2f us, chain %6.2f us, %5.0f GB/s, %.2f\n", what,
               alone, chain, bytes / chain / 1e3,
               bytes / chain / 1e3 / r->t->read_gbs);
    }
}

static void try_product(struct try *t, const struct product *p, cl_mem pool)
{
    struct trial r = {.t = t, .p = p, .w = pool};
    size_t cells = (size_t)TOKENS_MOST * p->n;
    r.parts = p->epilogue == SILU ? 2 : 1;
    r.copies = (uint32_t)(POOL / ((size_t)r.parts * p->n * p->k));
    r.out_bytes = cells * (p->epilogue == SILU ? 2 : 4);
    if (!t->build_only) {
        r.golden = malloc(r.out_bytes);
        r.got = malloc(r.out_bytes);
        try_must(r.golden && r.got ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "");
        r.out = try_poison(t, cells * 4);
        r.next = try_poison(t, cells * 2);
        r.in = try_random(t, TRY_BF16, (size_t)TOKENS_MOST * p->k, SEED_IN, 1);
        r.gamma = try_random(t, TRY_F32, p->n, SEED_GAMMA, 1);
        /* Around 1, as sums of squares are not negative. */
        size_t n = (size_t)TOKENS_MOST * p->h / 8;
        float *ss = malloc(n * 4);
        try_must(ss ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "");
        for (size_t i = 0; i < n; i++) {
            ss[i] = 1.0f + try_value(SEED_SS, i, 1.0f, TRY_F32);
        }
        r.ss = try_data(t, ss, n * 4);
        free(ss);
    }
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        if (fits(&ways[i], p)) {
            try_way(&r, &ways[i]);
        }
    }
    free(r.golden);
    free(r.got);
}

static void decode(struct try *t, uint32_t from, uint32_t to)
{
    cl_mem pool = NULL;
    if (!t->build_only) {
        pool = try_random(t, TRY_BF16, POOL, SEED_W, W_SCALE);
    }
    for (uint32_t i = from; i < to; i++) {
        try_product(t, &shapes[i], pool);
    }
}

static void decode_0(struct try *t)
{
    decode(t, 0, 0+1);
}

static void decode_1(struct try *t)
{
    decode(t, 1, 1+1);
}

static void decode_2(struct try *t)
{
    decode(t, 2, 2+1);
}

static void decode_3(struct try *t)
{
    decode(t, 3, 3+1);
}

static void decode_4(struct try *t)
{
    decode(t, 4, 4+1);
}

static void decode_5(struct try *t)
{
    decode(t, 5, 5+1);
}

static void decode_6(struct try *t)
{
    decode(t, 6, 6+1);
}

static void decode_7(struct try *t)
{
    decode(t, 7, 7+1);
}

static void decode_8(struct try *t)
{
    decode(t, 8, 8+1);
}

static void decode_9(struct try *t)
{
    decode(t, 9, 9+1);
}

static void decode_10(struct try *t)
{
    decode(t, 10, 10+1);
}

static void decode_11(struct try *t)
{
    decode(t, 11, 11+1);
}

const struct try_case try_products[] = {
    {"decode_00", decode_0},
    {"decode_01", decode_1},
    {"decode_02", decode_2},
    {"decode_03", decode_3},
    {"decode_04", decode_4},
    {"decode_05", decode_5},
    {"decode_06", decode_6},
    {"decode_07", decode_7},
    {"decode_08", decode_8},
    {"decode_09", decode_9},
    {"decode_10", decode_10},
    {"decode_11", decode_11},
    {0},
};
