/* project.c - launches the products that matmul.c has chosen kernels for. */
#include <string.h>

#include "kernels/opencl/host/memory.h"
#include "kernels/opencl/matmul_choice.h"
#include "kernels/opencl/operators.h"

/* A range of rows in a launch. */
struct range {
    uint32_t first, n;
};

static struct range range_of(const struct opencl *c, int kind)
{
    const struct opencl_step *s = &c->step;

    return kind == MATMUL_DECODE
               ? (struct range){0, s->n_gen}
               : (struct range){s->n_gen, s->n_tokens - s->n_gen};
}

/* Sets the arguments first, n_rows, n, k, and launches the grid. */
static void launch_product(struct opencl_call *a, struct range r,
                           const struct opencl_tensor *w, uint32_t n,
                           uint32_t ld_out)
{
    const struct opencl_variant *v = a->kernel->variant;
    const size_t local[2] = {v->wg, 1};
    const size_t global[2] = {opencl_matmul_tiles(v, w) *
                                  (v->shares > 0 ? v->shares : 1) * v->wg,
                              (r.n + v->tile_rows - 1) / v->tile_rows};

    opencl_arg_u32(a, r.first);
    opencl_arg_u32(a, r.n);
    opencl_arg_u32(a, n);
    opencl_arg_u32(a, w->cols);
    if (ld_out > 0) {
        opencl_arg_u32(a, ld_out);
    }
    opencl_launch(a, 2, global, local, opencl_tensor_bytes(w));
}

/* Folds sums of squares before a norm's product with prompt tokens. */
static void fold_squares(struct opencl *c, int kind, struct range r)
{
    const size_t local = 256, global = (size_t)(r.n + 7) / 8 * local;

    if (opencl_operators(c)->matmul->fold && kind == MATMUL_PREFILL) {
        const struct opencl_tensor *ss = &opencl_operators(c)->matmul->norm.ss;
        struct opencl_call a =
            opencl_call(c, opencl_operators(c)->matmul->fold);

        opencl_arg_tensor(&a, ss);
        opencl_arg_u32(&a, r.first);
        opencl_arg_u32(&a, r.n);
        opencl_launch(&a, 1, &global, &local,
                      (uint64_t)r.n * ss->cols * sizeof(float));
    }
}

void opencl_fold_prompt(struct opencl *c)
{
    fold_squares(c, MATMUL_PREFILL, range_of(c, MATMUL_PREFILL));
}

/* Returns w in the form that k reads.  NVIDIA's prefill kernels read bf16, so a
 * quantised matrix is widened here, at each launch. */
static struct opencl_tensor as_taken(struct opencl *c, enum matmul_op op,
                                     const struct opencl_tensor *w, int kind,
                                     const struct opencl_kernel *k, uint32_t n)
{
    const struct matmul_choice *of =
        opencl_matmul_choice(opencl_operators(c)->matmul, op, w);
    struct opencl_tensor wide = opencl_operators(c)->matmul->wide;
    const uint64_t values = (uint64_t)w->rows * w->cols;
    const size_t items =
        opencl_tensor_form(w).format == WEIGHT_AFFINE
            ? values / 8
            : (size_t)w->rows * ((w->cols + WIDEN_COLS - 1) / WIDEN_COLS);
    const size_t local = WIDEN_ITEMS;
    const size_t global = (items + local - 1) / local * local;
    struct opencl_call a;

    if (w->bits == 0 || kind != MATMUL_PREFILL ||
        strncmp(k->variant->file, "nv_", 3) != 0) {
        return *w;
    }
    wide.rows = w->rows;
    wide.cols = w->cols;
    if (n > 0) {
        a = opencl_call(c, of->widen);
        opencl_arg_tensor(&a, &wide);
        opencl_arg_tensor(&a, w);
        opencl_arg_u64(&a, values);
        opencl_arg_u32(&a, w->cols);
        opencl_launch(&a, 1, &global, &local,
                      opencl_tensor_bytes(w) + opencl_tensor_bytes(&wide));
    }
    return wide;
}

static void project_range(struct opencl *c, int kind, struct range r,
                          const struct opencl_operand *norm,
                          const struct opencl_tensor *w,
                          const struct opencl_tensor *bias,
                          const struct opencl_tensor *out)
{
    struct opencl_kernel *k =
        opencl_matmul_kernel(c, MATMUL_STORE, w, kind, r.n);
    const struct opencl_tensor taken =
        as_taken(c, MATMUL_STORE, w, kind, k, r.n);
    struct opencl_call a = opencl_call(c, k);

    opencl_arg_tensor(&a, out);
    opencl_arg_tensor(&a, &norm->next);
    opencl_arg_tensor(&a, &norm->ss);
    opencl_arg_tensor(&a, &taken);
    opencl_arg_tensor(&a, bias);
    launch_product(&a, r, &taken, w->rows, out->cols);
}

void opencl_project(struct opencl *c, const struct opencl_tensor *w,
                    const struct opencl_tensor *bias,
                    const struct opencl_tensor *out)
{
    for (int kind = 0; kind < MATMUL_KINDS; kind++) {
        fold_squares(c, kind, range_of(c, kind));
        project_range(c, kind, range_of(c, kind),
                      &opencl_operators(c)->matmul->norm, w, bias, out);
    }
}

/* Returns the columns of a matrix or vector of float32 from `first` on. */
static struct opencl_tensor behind(const struct opencl_tensor *t,
                                   uint32_t first)
{
    struct opencl_tensor to = *t;

    to.at += first * sizeof(float);
    return to;
}

void opencl_project_in(struct opencl *c, const struct opencl_tensor *w,
                       const struct opencl_tensor rest[OPENCL_REST_MAX],
                       const struct opencl_tensor *bias,
                       const struct opencl_tensor *out)
{
    uint32_t first = w->rows;

    opencl_project(c, w, bias, out);
    for (int i = 0; i < OPENCL_REST_MAX && rest[i].mem; i++) {
        const struct opencl_tensor to = behind(out, first);
        const struct opencl_tensor of = behind(bias, first);

        opencl_project(c, &rest[i], &of, &to);
        first += rest[i].rows;
    }
}

void opencl_project_rows(struct opencl *c, const struct opencl_operand *norm,
                         uint32_t n, const struct opencl_tensor *w,
                         const struct opencl_tensor *out)
{
    const struct opencl_tensor absent = {0};

    project_range(c, MATMUL_DECODE, (struct range){0, n}, norm, w, &absent,
                  out);
}

void opencl_project_silu(struct opencl *c, const struct opencl_tensor *w,
                         const struct opencl_tensor *out)
{
    for (int kind = 0; kind < MATMUL_KINDS; kind++) {
        const struct range r = range_of(c, kind);
        struct opencl_kernel *k =
            opencl_matmul_kernel(c, MATMUL_SILU, w, kind, r.n);
        const struct opencl_tensor taken =
            as_taken(c, MATMUL_SILU, w, kind, k, r.n);
        struct opencl_call a = opencl_call(c, k);

        fold_squares(c, kind, r);
        opencl_arg_tensor(&a, out);
        opencl_arg_tensor(&a, &opencl_operators(c)->matmul->norm.next);
        opencl_arg_tensor(&a, &opencl_operators(c)->matmul->norm.ss);
        opencl_arg_tensor(&a, &taken);
        launch_product(&a, r, &taken, w->rows / 2, 0);
    }
}

/* The product to add, what it is added to, and the norm behind it. */
struct addend {
    const struct opencl_tensor *in, *w, *bias, *gamma;
    const struct opencl_tensor *x, *ss;
};

static void add_range(struct opencl *c, struct opencl_kernel *k, struct range r,
                      const struct addend *of)
{
    const struct opencl_matmul *m = opencl_operators(c)->matmul;
    struct opencl_call a = opencl_call(c, k);

    opencl_arg_tensor(&a, of->x);
    opencl_arg_tensor(&a, &m->norm.next);
    opencl_arg_tensor(&a, of->ss);
    opencl_arg_tensor(&a, &m->part);
    opencl_arg_tensor(&a, &m->tickets);
    opencl_arg_tensor(&a, of->in);
    opencl_arg_tensor(&a, of->w);
    opencl_arg_tensor(&a, of->bias);
    opencl_arg_tensor(&a, of->gamma);
    launch_product(&a, r, of->w, of->w->rows, 0);
}

/* Launches in pieces if work-groups share tiles, which have room for
 * SHARED_TOKENS tokens. */
static void add_product(struct opencl *c, struct opencl_kernel *k,
                        struct range r, const struct addend *of)
{
    const uint32_t most = k->variant->shares > 0 ? SHARED_TOKENS : r.n;

    while (r.n > 0) {
        const uint32_t n = r.n < most ? r.n : most;

        add_range(c, k, (struct range){r.first, n}, of);
        r.first += n;
        r.n -= n;
    }
}

/* Once is enough: the kernels leave their tickets, and readers y, at 0. */
static void zero_scratch(struct opencl *c)
{
    struct opencl_matmul *m = opencl_operators(c)->matmul;

    if (m->zeroed) {
        return;
    }
    opencl_zero(c, &m->tickets, 0, m->tickets.cols * m->tickets.item);
    if (m->y.mem) {
        opencl_zero(c, &m->y, 0, (size_t)m->y.rows * m->y.cols * m->y.item);
    }
    m->zeroed = true;
}

static void add_tokens(struct opencl *c, const struct addend *of)
{
    zero_scratch(c);
    for (int kind = 0; kind < MATMUL_KINDS; kind++) {
        const struct range r = range_of(c, kind);
        struct opencl_kernel *k =
            opencl_matmul_kernel(c, MATMUL_ADD, of->w, kind, r.n);
        const struct opencl_tensor taken =
            as_taken(c, MATMUL_ADD, of->w, kind, k, r.n);
        struct addend with = *of;

        with.w = &taken;
        add_product(c, k, r, &with);
    }
}

void opencl_project_add(struct opencl *c, const struct opencl_tensor *in,
                        const struct opencl_tensor *w,
                        const struct opencl_tensor *bias,
                        const struct opencl_tensor *gamma)
{
    add_tokens(c, &(struct addend){in, w, bias, gamma, &c->x,
                                   &opencl_operators(c)->matmul->norm.ss});
}

/* Returns any norm: the operand that a product makes of y has no reader. */
static const struct opencl_tensor *any_norm(const struct opencl *c)
{
    const struct opencl_layer *l = &c->model.layers[0];

    return l->input_norm.mem != NULL ? &l->input_norm : &l->mixer_norm;
}

void opencl_project_y(struct opencl *c, const struct opencl_tensor *in,
                      const struct opencl_tensor *w,
                      const struct opencl_tensor *bias)
{
    const struct opencl_matmul *m = opencl_operators(c)->matmul;

    add_tokens(c, &(struct addend){in, w, bias, any_norm(c), &m->y, &m->y_ss});
}
