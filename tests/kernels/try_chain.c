/* try_chain.c - all products between two mixers in one launch; see
 * opencl_try.h.
 *
 * The results are compared bit for bit with single products, in the order of a
 * step, repeatedly with other weights.  Times are compared too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/opencl/nv/matmul_nv.h"
#include "tests/kernels/opencl_try.h"

#define POOL   ((size_t)1 << 30) /* elements of bf16 to cut weights from */
#define ROUNDS 5
#define N      4  /* out, gate_up, down, in */
#define GROUP  64 /* columns of a group of quantised weights */

static const struct layer {
    const char *name;
    uint32_t h, inner, out_k, in_n; /* in_n 0: the last layer */
    uint32_t bits;                  /* bits of a weight, 4 or 8; 0: bf16 */
} layers[] = {
    {"0.8B to deltanet", 1024, 3584, 2048, 8224, 0},
    {"0.8B to attention", 1024, 3584, 2048, 5120, 0},
    {"0.8B last", 1024, 3584, 2048, 0, 0},
    {"0.8B, 8 bits", 1024, 3584, 2048, 8224, 8},
    {"0.8B, 4 bits", 1024, 3584, 2048, 8224, 4},
    {"9B to deltanet", 4096, 12288, 4096, 12352, 0},
    {"9B to attention", 4096, 12288, 4096, 10240, 0},
    {"9B last", 4096, 12288, 4096, 0, 0},
    {"9B, 8 bits", 4096, 12288, 4096, 12352, 8},
    {"9B, 4 bits", 4096, 12288, 4096, 12352, 4},
    {"27B to deltanet", 5120, 17408, 6144, 16480, 0},
    {"27B to attention", 5120, 17408, 6144, 14336, 0},
    {"27B, 4 bits", 5120, 17408, 6144, 16480, 4},
    {"odd", 192, 320, 64, 328, 0},
    {"odd last", 192, 320, 64, 0, 0},
    {"odd, 8 bits", 256, 128, 384, 328, 8},
    {"odd, 4 bits", 256, 256, 768, 328, 4},
    {"odd last, 4 bits", 256, 256, 768, 0, 4},
    {"tiles", 192, 960, 64, 1544, 0},
    {"tiles, 4 bits", 256, 768, 256, 328, 4},
};

/* Written tensors: x, next, ss, in; and, for single products, gated. */
enum { X, NEXT, SS, IN, WRITTEN };

struct trial {
    struct try *t;
    const struct layer *l;
    struct matmul_nv_product of[N];
    uint32_t n;
    struct try_launch one[N], all;
    cl_mem y, w[N], gamma, gated, posts, written[WRITTEN];
    size_t bytes[WRITTEN];
    uint32_t copies, launched; /* copies in the pool; number of the last
                                * launch */
};

/* Returns the size of a matrix, in units of 2 bytes.  A quantised matrix is
 * followed by a scale and a bias for each group; its weights may be any
 * bits. */
static uint64_t cells(const struct trial *r, uint32_t p)
{
    uint64_t n = (uint64_t)r->of[p].rows * r->of[p].cols;
    return r->l->bits ? n * r->l->bits / 16 + n / GROUP * 2 : n;
}

static uint64_t all_cells(const struct trial *r)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        sum += cells(r, i);
    }
    return sum;
}

/* Returns the start of the i-th matrix of a product; if quantised, in bytes. */
static uint64_t cell(const struct trial *r, uint32_t p, uint32_t i)
{
    return i % r->copies * cells(r, p) * (r->l->bits ? 2 : 1);
}

static cl_kernel build(struct trial *r, const struct matmul_nv *m)
{
    char file[64];
    char bits[48] = "";
    snprintf(file, sizeof(file), "%s.cl", m->file);
    if (r->l->bits) {
        snprintf(bits, sizeof(bits), "-DW_BITS=%u -DW_GROUP=%d", r->l->bits,
                 GROUP);
    }
    const char *const files[] = {"common.cl", "nv.cl", file, NULL};
    return try_kernel(
        r->t, files, m->kernel,
        "-DH=%u -DI=%u -DEPS=1e-6f -DKV_DTYPE=1 -DW_DTYPE=1 -DOPERAND_DTYPE=1 "
        "-DBLOCK_TOKENS=16 -DMETA_ROWS=0 -DMETA_TOKENS=0 %s %s",
        r->l->h, r->l->inner, bits, m->defines);
}

static bool build_all(struct trial *r)
{
    struct matmul_nv m;
    if (!matmul_nv_chain(&m, r->of, r->n, NULL, r->t->units)) {
        printf("%-18s is not cut for %u units\n", r->l->name, r->t->units);
        r->t->n_wrong += r->t->small;
        return false;
    }
    r->all = (struct try_launch){build(r, &m), 1, {r->t->units}, {m.items}};
    bool built = r->all.kernel != NULL;
    for (uint32_t i = 0; i < r->n; i++) {
        if (!matmul_nv_decode(&m, &r->of[i], 1, r->t->local)) {
            return false;
        }
        r->one[i] =
            (struct try_launch){build(r, &m),
                                2,
                                {(r->of[i].rows + m.rows - 1) / m.rows, 1},
                                {m.items, 1}};
        built = built && r->one[i].kernel;
    }
    return built;
}

/* Selects the i-th set of weights. */
static void set_one(struct trial *r, uint32_t p, uint32_t i)
{
    const struct matmul_nv_product *of = &r->of[p];
    uint64_t w = cell(r, p, i), z = 0, none = UINT64_MAX;
    cl_mem in = p == 0 ? r->y : p == 2 ? r->gated : r->written[NEXT];
    cl_kernel k = r->one[p].kernel;
    if (of->op == MATMUL_NV_ADD) {
        /* No part and no tickets: no columns are shared. */
        try_args(k, "mUmUmUmUmUmUmUmUmUuuuu", r->written[X], z,
                 r->written[NEXT], z, r->written[SS], z, r->y, z, r->y, z, in,
                 z, r->w[p], w, r->gamma, none, r->gamma, z, 0u, 1u, of->rows,
                 of->cols);
    } else if (of->op == MATMUL_NV_SILU) {
        try_args(k, "mUmUmUmUuuuu", r->gated, z, in, z, r->written[SS], z,
                 r->w[p], w, 0u, 1u, of->rows / 2, of->cols);
    } else {
        try_args(k, "mUmUmUmUmUuuuuu", r->written[IN], z, in, z, r->written[SS],
                 z, r->w[p], w, r->gamma, none, 0u, 1u, of->rows, of->cols,
                 of->rows);
    }
}

static void set_all(void *arg, uint32_t i)
{
    struct trial *r = arg;
    uint64_t z = 0, none = UINT64_MAX;
    try_args(r->all.kernel, "mUmUmUmUmUmUmUmUmUmUmUmUmUmUu", r->written[X], z,
             r->written[NEXT], z, r->written[SS], z, r->written[IN], z,
             r->posts, z, r->y, z, r->w[0], cell(r, 0, i), r->gamma, none,
             r->gamma, z, r->w[1], cell(r, 1, i), r->w[2], cell(r, 2, i),
             r->gamma, z, r->w[3], cell(r, 3, i), r->gamma, none,
             ++r->launched);
}

/* The single products, as a chain of launches. */
struct single {
    struct trial *r;
    uint32_t p;
};

static void set_single(void *arg, uint32_t i)
{
    struct single *s = arg;
    set_one(s->r, s->p, i);
}

static void make_buffers(struct trial *r)
{
    const struct layer *l = r->l;
    const size_t bytes[WRITTEN] = {l->h * 4, l->h * 2, l->h / 8 * 4,
                                   l->in_n > 0 ? l->in_n * 4 : 4};
    size_t posts = matmul_nv_posts(l->h, l->inner);
    uint64_t *none = calloc(posts, sizeof(*none));
    for (uint32_t i = 0; i < WRITTEN; i++) {
        r->bytes[i] = bytes[i];
        r->written[i] = try_poison(r->t, bytes[i]);
    }
    r->y = try_random(r->t, TRY_BF16, l->out_k, 2, 1.0f);
    r->gamma = try_random(r->t, TRY_F32, l->h, 3, 1.0f);
    r->gated = try_poison(r->t, l->inner * 2);
    r->posts = try_data(r->t, none, posts * sizeof(*none));
    free(none);
    r->copies = r->t->small ? 1 : (uint32_t)(POOL / all_cells(r));
    for (uint32_t i = 0; i < r->n; i++) {
        r->w[i] =
            try_random(r->t, TRY_BF16, r->copies * cells(r, i), 5 + i, 0.05f);
    }
    for (uint32_t i = r->n; i < N; i++) { /* unused */
        r->w[i] = try_poison(r->t, 2);
    }
}

static void read_all(struct trial *r, uint8_t *out[WRITTEN])
{
    for (uint32_t i = 0; i < WRITTEN; i++) {
        try_read(r->t, r->written[i], 0, r->bytes[i], out[i]);
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
        for (uint32_t p = 0; p < r->n; p++) {
            set_one(r, p, n);
            try_run(r->t, &r->one[p]);
        }
        read_all(r, want[n]);
    }
    try_refill(r->t, r->written[X], TRY_F32, r->l->h, 4, 1.0f);
    for (uint32_t n = 0; n < ROUNDS; n++) {
        for (uint32_t i = NEXT; i < WRITTEN; i++) {
            try_repoison(r->t, r->written[i], r->bytes[i]);
        }
        set_all(r, n);
        try_run(r->t, &r->all);
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

static void time_all(struct trial *r)
{
    double us = try_chain(r->t, &r->all, set_all, r), sum = 0;
    double bytes = (double)all_cells(r) * 2;
    for (uint32_t p = 0; p < r->n; p++) {
        struct single s = {r, p};
        sum += try_chain(r->t, &r->one[p], set_single, &s);
    }
    printf("%-18s %8.2f us, %5.0f GB/s %4.0f%%; one by one %8.2f us\n",
           r->l->name, us, bytes / us / 1e3, bytes / us / 10 / r->t->read_gbs,
           sum);
}

static void try_layer(struct try *t, const struct layer *l)
{
    struct trial r = {
        .t = t,
        .l = l,
        .of = {{MATMUL_NV_ADD, l->h, l->out_k, l->bits, false},
               {MATMUL_NV_SILU, 2 * l->inner, l->h, l->bits, false},
               {MATMUL_NV_ADD, l->h, l->inner, l->bits, false},
               {MATMUL_NV_STORE, l->in_n, l->h, l->bits, false}},
        .n = l->in_n > 0 ? 4 : 3};
    if (!build_all(&r) || t->build_only) {
        return;
    }
    make_buffers(&r);
    check(&r);
    if (!t->quiet) {
        time_all(&r);
    }
}

static void chain(struct try *t)
{
    for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++) {
        if (!t->small || layers[i].h < 1024) {
            try_layer(t, &layers[i]);
            try_free_buffers(t);
        }
    }
}

const struct try_case try_layers[] = {{"chain", chain}, {0}};
