/* int8.c - integer products: rows of x as int8, and packed weights. */
#include "kernels/isa/int8.h"

#include <assert.h>
#include <stdlib.h>

#include "kernels/cpu/cutter.h"
#include "kernels/cpu/mixer.h"

#define X_ROWS   512 /* most rows of x between ticks */
#define X_BLOCK  32  /* least columns of a block: rows then take most bytes */
#define PRODUCTS 8   /* most products of one call, but for experts */

void cpu_int8_cut(struct cutter *k, struct cpu *c, size_t rows, uint32_t cols)
{
    struct cpu_int8 *i = &c->int8;
    bool any = i->on && cols > 0;

    i->most = any ? c->w->shape.n_experts + PRODUCTS : 0;
    i->of = cutter_piece(k, i->most, sizeof *i->of);
    i->bytes = any ? rows * int8_row_bytes(cols, X_BLOCK) : 0;
    i->rows = cutter_piece(k, i->bytes, 1);
}

/* ---- rows of x ---- */

struct rows_job {
    struct cpu *c;
    const struct cpu_product *p;
};

static bool is_integer(const struct cpu *c, const struct cpu_product *p)
{
    return c->int8.on && p->w->bits > 0 && !p->whole && pack_fits(p->w->format);
}

/* Returns whether product b has the rows of x of a. */
static bool shares(const struct cpu_product *a, const struct int8_x *of_a,
                   const struct cpu_product *b, uint32_t block)
{
    return a->x == b->x && a->ld_x == b->ld_x && a->n_x == b->n_x &&
           a->w->cols == b->w->cols && of_a->block == block;
}

/* Returns whether product i brings rows of its own. */
static bool brings(const struct cpu *c, uint32_t i)
{
    const struct int8_x *x = c->int8.of;

    for (uint32_t j = i; x[i].rows != NULL && j-- > 0;) {
        if (x[j].rows != NULL) {
            return x[j].rows != x[i].rows;
        }
    }
    return x[i].rows != NULL;
}

static void rows_task(void *arg, uint32_t row, uint32_t thread)
{
    const struct rows_job *j = arg;
    const struct int8_x *x = j->c->int8.of;
    uint32_t i = 0;

    (void)thread;
    for (; !brings(j->c, i) || row >= j->p[i].n_x; i++) {
        row -= brings(j->c, i) ? j->p[i].n_x : 0;
    }
    char *to = j->c->int8.rows + (x[i].rows - j->c->int8.rows);

    j->c->isa->int8->quantise(to + row * x[i].row_bytes,
                              j->p[i].x + row * j->p[i].ld_x, x[i].k,
                              x[i].block);
}

/* Places the rows of product i behind `used` bytes; returns whether they
 * fit. */
static bool place(struct cpu *c, const struct cpu_product *p, uint32_t i,
                  const struct cpu_product *last, size_t *used)
{
    const struct tensor *w = p[i].w;
    uint32_t block = int8_block_of(w->format, w->group);
    struct int8_x *x = &c->int8.of[i];

    if (last != NULL && shares(last, &c->int8.of[last - p], &p[i], block)) {
        *x = c->int8.of[last - p];
        return true;
    }
    x->k = w->cols;
    x->block = block;
    x->row_bytes = int8_row_bytes(w->cols, block);
    x->rows = c->int8.rows + *used;
    *used += p[i].n_x * x->row_bytes;
    return *used <= c->int8.bytes;
}

uint32_t cpu_int8_rows(struct cpu *c, const struct cpu_product *p, uint32_t n)
{
    struct rows_job j = {c, p};
    const struct cpu_product *last = NULL;
    uint32_t rows = 0, i = 0;
    size_t used = 0, work = 0;

    if (c->int8.most == 0) {
        return n;
    }
    for (; i < n && i < c->int8.most; i++) {
        c->int8.of[i].rows = NULL;
        if (!is_integer(c, &p[i])) {
            continue;
        }
        if (!place(c, p, i, last, &used)) {
            break;
        }
        last = &p[i];
        rows += brings(c, i) ? p[i].n_x : 0;
        work += brings(c, i) ? (size_t)p[i].n_x * p[i].w->cols : 0;
    }
    /* The area holds the rows of any one product. */
    assert(i > 0);
    if (rows > 0) {
        cpu_run(c, rows_task, &j, rows, work);
    }
    return i;
}

/* ---- products ---- */

/* Runs a product over all rows of x, with a tick after each part. */
static void run(struct cpu *c, struct int8_product q)
{
    for (uint32_t left = q.n_x; left > 0; left -= q.n_x) {
        q.n_x = left < X_ROWS ? left : X_ROWS;
        c->isa->int8->product(&q);
        cpu_tick(c);
        q.x.rows += q.n_x * q.x.row_bytes;
        q.out += q.n_x * q.ld_out;
    }
}

void cpu_int8_product(struct cpu *c, const struct cpu_product *p, uint32_t i,
                      uint32_t first, uint32_t n_w, void *panel)
{
    const struct tensor *w = p[i].w;
    const uint32_t end = first + n_w, whole = w->rows / PACK_ROWS * PACK_ROWS;

    for (uint32_t at = first, n; at < end; at += n) {
        struct int8_product q = {.w = quantised_rows(w, at),
                                 .x = c->int8.of[i],
                                 .bias = p[i].bias ? p[i].bias + at : NULL,
                                 .out = p[i].out + at,
                                 .ld_out = p[i].ld,
                                 .n_x = p[i].n_x,
                                 .add = p[i].add};

        if (pack_holds(w, at)) {
            n = (end < whole ? end : whole) - at;
        } else {
            n = end - at < PACK_ROWS ? end - at : PACK_ROWS;
            q.w = pack_group(&q.w, n, panel);
        }
        q.n_w = n;
        run(c, q);
    }
}

/* ---- packed weights ---- */

struct quantised cpu_stored_row(const struct tensor *t, uint32_t row,
                                void *panel)
{
    struct quantised group;

    if (!pack_holds(t, row)) {
        return quantised_rows(t, row);
    }
    group = quantised_rows(t, row / PACK_ROWS * PACK_ROWS);
    return pack_row(&group, row % PACK_ROWS, panel);
}
