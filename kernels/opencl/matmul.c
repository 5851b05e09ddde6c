#include "kernels/opencl/matmul.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "kernels/opencl/host/memory.h"
#include "kernels/opencl/matmul_choice.h"
#include "kernels/opencl/nv/matmul_nv.h"
#include "kernels/opencl/operators.h"

/* The cases that have a kernel each: generated tokens, at most this many in a
 * tile, or prompt tokens, about this many in a launch.  Kernels of one kind
 * must give the same bits, so NVIDIA's kernels serve all cases of a kind for a
 * matrix, or none. */
static const struct way {
    enum matmul_kind kind;
    uint32_t tokens;
} ways[MATMUL_WAYS] = {
    {MATMUL_DECODE, 1},     {MATMUL_DECODE, 8},     {MATMUL_DECODE, 32},
    {MATMUL_DECODE, 64},    {MATMUL_DECODE, 128},   {MATMUL_PREFILL, 64},
    {MATMUL_PREFILL, 128},  {MATMUL_PREFILL, 256},  {MATMUL_PREFILL, 512},
    {MATMUL_PREFILL, 1024}, {MATMUL_PREFILL, 4096},
};

/* ---- which kernel ---- */

static const struct opencl_variant store[] = {
    {.file = "products+matmul",
     .kernel = "matmul_store",
     .wg = 8,
     .tile_rows = 32,
     .tile_cols = 64},
};
static const struct opencl_variant silu[] = {
    {.file = "products+matmul",
     .kernel = "matmul_silu",
     .wg = 8,
     .tile_rows = 32,
     .tile_cols = 64},
};
static const struct opencl_variant adds[] = {
    {.file = "products+matmul",
     .kernel = "matmul_add",
     .wg = 8,
     .tile_rows = 32,
     .tile_cols = 64},
};

struct table {
    const struct opencl_variant *variants;
    uint32_t n;
};

#define TABLE(of)                              \
    {                                          \
        of, (uint32_t)(sizeof of / sizeof *of) \
    }

static const struct table tables[MATMUL_OPS][MATMUL_KINDS] = {
    [MATMUL_STORE] = {TABLE(store), TABLE(store)},
    [MATMUL_SILU] = {TABLE(silu), TABLE(silu)},
    [MATMUL_ADD] = {TABLE(adds), TABLE(adds)},
};

void opencl_matrix_defines(const struct opencl *c,
                           const struct opencl_tensor *w, char *out,
                           size_t room)
{
    (void)snprintf(out, room,
                   "-DW_DTYPE=%d -DOPERAND_DTYPE=%d -DW_BITS=%u -DW_GROUP=%u "
                   "-DW_FORMAT=%d",
                   (int)w->dtype, (int)opencl_operators(c)->matmul->operand,
                   w->bits, w->group, (int)opencl_tensor_form(w).format);
}

struct matmul_choice *opencl_matmul_choice(const struct opencl_matmul *m,
                                           enum matmul_op op,
                                           const struct opencl_tensor *w)
{
    for (uint32_t i = 0; i < m->n_choices; i++) {
        struct matmul_choice *of = &m->choices[i];

        if (of->op == op && of->w.rows == w->rows && of->w.cols == w->cols &&
            opencl_tensors_alike(&of->w, w)) {
            return of;
        }
    }
    return NULL;
}

/* Returns whether NVIDIA's kernels take the operands of w's products. */
static bool takes_nv(const struct opencl *c, const struct opencl_tensor *w)
{
    return !c->portable && c->device.nvidia >= 80 && w->dtype == DTYPE_BF16 &&
           opencl_operators(c)->matmul->operand == DTYPE_BF16;
}

bool opencl_matmul_fits_nv(const struct opencl *c,
                           const struct opencl_tensor *w)
{
    return takes_nv(c, w) && opencl_tensor_form(w).format < WEIGHT_K4;
}

/* Gets the cut of NVIDIA's kernel for a case; false if there is no such
 * kernel. */
static bool cut_nv(const struct opencl *c, const struct matmul_choice *of,
                   const struct way *way, struct matmul_nv *out)
{
    static const enum matmul_nv_op ops[] = {[MATMUL_STORE] = MATMUL_NV_STORE,
                                            [MATMUL_SILU] = MATMUL_NV_SILU,
                                            [MATMUL_ADD] = MATMUL_NV_ADD};
    const bool decode = way->kind == MATMUL_DECODE;
    const struct matmul_nv_product p = {ops[of->op], of->w.rows, of->w.cols,
                                        decode ? of->w.bits : 0, false};
    const uint32_t local = matmul_nv_local(c->device.nvidia);

    if ((decode && !opencl_matmul_fits_nv(c, &of->w)) ||
        (!decode && !opencl_operators(c)->matmul->fold) ||
        !takes_nv(c, &of->w) ||
        !matmul_nv_fits_group(p.op, p.rows, p.cols, decode ? of->w.group : 0)) {
        return false;
    }
    return decode
               ? matmul_nv_decode(out, &p, way->tokens, local)
               : matmul_nv_prefill(out, &p, way->tokens,
                                   opencl_operators(c)->matmul->wgmma, local);
}

/* Chooses NVIDIA's kernel for a case; false if there is none, or if the
 * compiler rejects it. */
static bool choose_nv(struct opencl *c, struct matmul_choice *of, size_t way,
                      const char *defines)
{
    const struct opencl_shape shape = {of->w.rows, of->w.cols, of->w.dtype};
    struct matmul_nv nv;
    char all[sizeof nv.defines + OPENCL_MATRIX_DEFINES];
    struct error e;

    if (!cut_nv(c, of, &ways[way], &nv)) {
        return false;
    }
    of->nv[way] = (struct opencl_variant){.file = nv.file,
                                          .kernel = nv.kernel,
                                          .wg = nv.items,
                                          .tile_rows = nv.tokens,
                                          .tile_cols = nv.rows,
                                          .shares = nv.shares};
    (void)snprintf(all, sizeof all, "%s %s", defines, nv.defines);
    if (opencl_choose(c, &of->kernel[way], &of->nv[way], 1, &shape, all, &e) !=
        ST_OK) {
        log_warn("kernel-refused", "kernel=%s text=\"%s\"", nv.file, e.text);
        if (ways[way].kind == MATMUL_PREFILL) {
            opencl_operators(c)->matmul->wgmma = false;
        }
        return false;
    }
    return true;
}

/* Chooses NVIDIA's kernels for all cases of a kind or, if any is missing, for
 * none. */
static void choose_all_nv(struct opencl *c, struct matmul_choice *of,
                          enum matmul_kind kind, const char *defines)
{
    bool all = true;

    for (size_t way = 0; way < MATMUL_WAYS && all; way++) {
        all = ways[way].kind != kind || choose_nv(c, of, way, defines);
    }
    for (size_t way = 0; way < MATMUL_WAYS && !all; way++) {
        if (ways[way].kind == kind) {
            of->kernel[way] = NULL;
        }
    }
}

static bool fits_nv(const struct opencl *c, const struct opencl_shape *s)
{
    (void)s;
    return c->device.nvidia >= 80;
}

/* Chooses the kernel that folds a row's sums of squares for NVIDIA's prefill
 * kernels. */
static void choose_fold(struct opencl *c)
{
    static const struct opencl_variant fold = {.file = "nv_norm_fold",
                                               .kernel = "norm_fold",
                                               .fits = fits_nv,
                                               .wg = 256,
                                               .tile_rows = 8};
    struct error e;

    if (opencl_choose(c, &opencl_operators(c)->matmul->fold, &fold, 1, NULL,
                      NULL, &e) != ST_OK) {
        opencl_operators(c)->matmul->fold = NULL;
    }
}

/* Chooses the kernel that widens quantised matrices for NVIDIA's prefill
 * kernels: one kernel for each form, found through the matrix. */
static enum status choose_widen(struct opencl *c, struct matmul_choice *of,
                                const char *defines, struct error *e)
{
    static const struct opencl_variant widen = {
        .file = "dequantise", .kernel = "dequantise", .wg = WIDEN_ITEMS};

    if (of->w.bits == 0 || c->portable || c->device.nvidia < 80) {
        return ST_OK;
    }
    return opencl_choose(c, &of->widen, &widen, 1, NULL, defines, e);
}

/* Chooses the kernels for op with a matrix of w's shape, once. */
static enum status choose_kernels(struct opencl *c, enum matmul_op op,
                                  const struct opencl_tensor *w,
                                  struct error *e)
{
    struct opencl_matmul *m = opencl_operators(c)->matmul;
    const struct opencl_shape shape = {w->rows, w->cols, w->dtype};
    struct matmul_choice *of;
    char defines[OPENCL_MATRIX_DEFINES];
    enum status st;

    if (!w->mem || opencl_matmul_choice(m, op, w)) {
        return ST_OK;
    }
    if (m->n_choices == MATMUL_CHOICES) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the shard stores matrices in more than %d forms",
                         MATMUL_CHOICES);
    }
    /* The choice counts only when all its kernels have been chosen. */
    of = &m->choices[m->n_choices];
    *of = (struct matmul_choice){.op = op, .w = *w};
    opencl_matrix_defines(c, w, defines, sizeof defines);
    st = choose_widen(c, of, defines, e);
    for (int kind = 0; kind < MATMUL_KINDS && st == ST_OK; kind++) {
        choose_all_nv(c, of, (enum matmul_kind)kind, defines);
    }
    for (size_t way = 0; way < MATMUL_WAYS && st == ST_OK; way++) {
        const struct table *t = &tables[op][ways[way].kind];

        if (!of->kernel[way]) {
            st = opencl_choose(c, &of->kernel[way], t->variants, t->n, &shape,
                               defines, e);
        }
    }
    if (st == ST_OK) {
        m->n_choices++;
    }
    return st;
}

struct opencl_kernel *opencl_matmul_kernel(const struct opencl *c,
                                           enum matmul_op op,
                                           const struct opencl_tensor *w,
                                           int kind, uint32_t n)
{
    const struct matmul_choice *of =
        opencl_matmul_choice(opencl_operators(c)->matmul, op, w);
    struct opencl_kernel *k = NULL;

    for (size_t way = 0; way < MATMUL_WAYS; way++) {
        if ((int)ways[way].kind == kind) {
            k = of->kernel[way];
            if (n <= ways[way].tokens) {
                break;
            }
        }
    }
    return k;
}

bool opencl_matmul_decodes_nv(const struct opencl *c,
                              const struct opencl_tensor *w)
{
    bool all = true;

    for (int op = 0; op < MATMUL_OPS; op++) {
        const struct matmul_choice *of = opencl_matmul_choice(
            opencl_operators(c)->matmul, (enum matmul_op)op, w);

        for (size_t way = 0; of && way < MATMUL_WAYS; way++) {
            all = all && (ways[way].kind != MATMUL_DECODE ||
                          of->kernel[way]->variant == &of->nv[way]);
        }
    }
    return all;
}

/* A product of a layer that takes an operand.  Those of experts have kernels of
 * their own. */
struct product {
    enum matmul_op op;
    const struct opencl_tensor *w;
};

#define PRODUCTS_MAX (6 + 2 * OPENCL_REST_MAX)

/* Lists the products of a layer, and returns their number. */
static uint32_t list_products(const struct opencl_layer *l,
                              struct product out[PRODUCTS_MAX])
{
    const struct product all[] = {
        {MATMUL_STORE, &l->attention.in}, {MATMUL_ADD, &l->attention.o},
        {MATMUL_STORE, &l->deltanet.in},  {MATMUL_ADD, &l->deltanet.out},
        {MATMUL_SILU, &l->gate_up},       {MATMUL_ADD, &l->down}};
    uint32_t n = 0;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        out[n] = all[i];
        n += all[i].w->mem != NULL;
    }
    for (int i = 0; i < 2 * OPENCL_REST_MAX; i++) {
        const struct opencl_tensor *rest =
            i < OPENCL_REST_MAX ? &l->attention.rest[i]
                                : &l->deltanet.rest[i - OPENCL_REST_MAX];

        if (rest->mem) {
            out[n++] = (struct product){MATMUL_STORE, rest};
        }
    }
    return n;
}

static enum status choose_each(struct opencl *c, struct error *e)
{
    enum status st = ST_OK;

    for (uint32_t i = 0; i < shard_layers(c->w) && st == ST_OK; i++) {
        struct product of[PRODUCTS_MAX];
        const uint32_t n = list_products(&c->model.layers[i], of);

        for (uint32_t j = 0; j < n && st == ST_OK; j++) {
            st = choose_kernels(c, of[j].op, of[j].w, e);
        }
    }
    if (st == ST_OK) {
        st = choose_kernels(c, MATMUL_ADD, &c->model.mtp.fc, e);
    }
    return st == ST_OK ? choose_kernels(c, MATMUL_STORE, &c->model.head, e)
                       : st;
}

/* Nothing guarantees that wgmma rounds as mma.sync does, and a token's bits
 * must not depend on the number of tokens.  So if the compiler rejects one
 * wgmma kernel, none is used, and the choice starts again. */
static enum status choose_all(struct opencl *c, struct error *e)
{
    struct opencl_matmul *m = opencl_operators(c)->matmul;
    enum status st;
    bool wgmma;

    m->wgmma = c->device.nvidia == 90;
    do {
        wgmma = m->wgmma;
        m->n_choices = 0;
        st = choose_each(c, e);
    } while (st == ST_OK && m->wgmma != wgmma);
    return st;
}

/* ---- operands ---- */

/* The properties common to all matrices that take an operand. */
struct common {
    bool bf16;  /* plain ones, scales and biases are */
    bool coded; /* one has a format other than plain and affine */
};

static void add_form(struct common *to, const struct opencl_tensor *w)
{
    if (w->mem) {
        to->bf16 = to->bf16 && w->dtype == DTYPE_BF16;
        to->coded = to->coded || w->format > WEIGHT_AFFINE;
    }
}

/* Other plain matrices beside codes are small, or few.  The router takes no
 * operand.  The MTP layer does not count: without it the model's bits are the
 * same. */
static enum dtype operand_of(const struct opencl *c)
{
    struct common all = {.bf16 = true};

    add_form(&all, &c->model.head);
    for (uint32_t i = 0; i < c->w->end - c->w->begin; i++) {
        struct product of[PRODUCTS_MAX];
        const uint32_t n = list_products(&c->model.layers[i], of);

        for (uint32_t j = 0; j < n; j++) {
            add_form(&all, of[j].w);
        }
        add_form(&all, &c->model.layers[i].experts.gate_up);
        add_form(&all, &c->model.layers[i].experts.down);
    }
    return all.bf16 || all.coded ? DTYPE_BF16 : DTYPE_F32;
}

/* Returns whether an output is not added to x as it is. */
static bool needs_y(const struct opencl *c)
{
    bool any = false;

    for (uint32_t i = 0; i < shard_layers(c->w); i++) {
        const struct opencl_layer *l = &c->model.layers[i];

        any = any || opencl_adds_apart(c, &l->mixer_norm) ||
              opencl_adds_apart(c, &l->ffn_norm) ||
              (l->experts.router.mem && l->gate_up.mem);
    }
    return any;
}

void opencl_operand_scratch(struct opencl *c, struct opencl_operand *out,
                            size_t rows)
{
    const size_t h = c->w->shape.hidden;
    const enum opencl_part part = out == &opencl_operators(c)->matmul->norm
                                      ? OPENCL_KEEP
                                      : OPENCL_IN_HEAD;

    opencl_scratch(c, part, &out->next, rows, h,
                   dtype_bytes(opencl_operators(c)->matmul->operand));
    opencl_scratch(c, part, &out->ss, rows, (h + NORM_PART - 1) / NORM_PART,
                   sizeof(float));
}

size_t opencl_matmul_tiles(const struct opencl_variant *v,
                           const struct opencl_tensor *w)
{
    return (w->rows + v->tile_cols - 1) / v->tile_cols;
}

/* Requests room for any quantised matrix of the prefill products, as bf16. */
static void wide_scratch(struct opencl *c)
{
    const struct opencl_tensor *fc = &c->model.mtp.fc;
    size_t most = fc->bits > 0 ? (size_t)fc->rows * fc->cols : 0;

    for (uint32_t i = 0; i < shard_layers(c->w); i++) {
        struct product of[PRODUCTS_MAX];
        const uint32_t n_products = list_products(&c->model.layers[i], of);

        for (uint32_t j = 0; j < n_products; j++) {
            const struct opencl_tensor *w = of[j].w;
            size_t n = (size_t)w->rows * w->cols;

            most = w->bits > 0 && n > most ? n : most;
        }
    }
    if (!c->portable && c->device.nvidia >= 80) {
        opencl_scratch(c, OPENCL_KEEP, &opencl_operators(c)->matmul->wide, 1,
                       most, dtype_bytes(DTYPE_BF16));
    }
}

/* Requests room for work-groups that share tiles, for the kernel that needs
 * most. */
static void share_scratch(struct opencl *c)
{
    size_t parts = 0, tickets = 0;

    for (uint32_t i = 0; i < opencl_operators(c)->matmul->n_choices; i++) {
        const struct matmul_choice *of =
            &opencl_operators(c)->matmul->choices[i];

        for (size_t way = 0; way < MATMUL_WAYS; way++) {
            const struct opencl_variant *v = of->kernel[way]->variant;
            const size_t n = (size_t)v->shares * SHARED_TOKENS * of->w.rows;
            const size_t tiles = (SHARED_TOKENS + v->tile_rows - 1) /
                                 v->tile_rows * opencl_matmul_tiles(v, &of->w);

            parts = n > parts ? n : parts;
            tickets = v->shares > 0 && tiles > tickets ? tiles : tickets;
        }
    }
    opencl_scratch(c, OPENCL_KEEP, &opencl_operators(c)->matmul->part, 1, parts,
                   sizeof(float));
    opencl_scratch(c, OPENCL_KEEP, &opencl_operators(c)->matmul->tickets, 1,
                   tickets, sizeof(uint32_t));
}

enum status opencl_matmul_setup(struct opencl *c, struct error *e)
{
    struct opencl_matmul *m = calloc(1, sizeof *m);
    enum status st;

    opencl_operators(c)->matmul = m;
    if (m) {
        m->choices = calloc(MATMUL_CHOICES, sizeof *m->choices);
    }
    if (!m || !m->choices) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "not enough memory for kernels");
    }
    /* One dtype for all operands, since kernels pass them on to each other. */
    m->operand = operand_of(c);
    opencl_operand_scratch(c, &m->norm, c->sizes.max_tokens);
    if (needs_y(c)) {
        const size_t h = c->w->shape.hidden, n = c->sizes.max_tokens;

        opencl_scratch(c, OPENCL_KEEP, &m->y, n, h, sizeof(float));
        opencl_scratch(c, OPENCL_KEEP, &m->y_ss, n,
                       (h + NORM_PART - 1) / NORM_PART, sizeof(float));
    }
    wide_scratch(c);
    choose_fold(c);
    /* Tickets are sized by the chosen kernels, so share_scratch() comes
     * later. */
    st = choose_all(c, e);
    if (st == ST_OK) {
        share_scratch(c);
    }
    return st;
}

void opencl_matmul_free(struct opencl *c)
{
    if (opencl_operators(c)->matmul) {
        free(opencl_operators(c)->matmul->choices);
        free(opencl_operators(c)->matmul);
        opencl_operators(c)->matmul = NULL;
    }
}
