#include "kernels/cpu/cpu.h"

/* Weight bytes of a task: few enough to stay in a core's cache while strips of
 * x are multiplied with them. */
#define TASK_BYTES 262144
#define TASK_ROWS  64

/* A few rows of x form one or two strips, so caching gains little: weights
 * stream, and a task's only wait is for its first tile. */
#define STREAM_X     8
#define STREAM_BYTES 2097152

#define TASK_ALIGN 12  /* a whole number of tiles of any height */
#define TICK_X     512 /* most rows of x between ticks */

struct products {
    struct cpu *c;
    const float *x;
    const struct cpu_product *p;
    uint32_t n_x, n, rows; /* rows: rows of W in a task */
};

static uint32_t tasks_of(const struct cpu_product *p, uint32_t rows)
{
    return (p->w->rows + rows - 1) / rows;
}

/* Splits the rows of x as evenly as possible, with a tick after each part. */
static void run_parts(struct cpu *c, struct matmul_block b)
{
    uint32_t parts = (b.n_x + TICK_X - 1) / TICK_X, left = b.n_x;

    for (; parts > 0; parts--) {
        b.n_x = (left + parts - 1) / parts;
        c->isa->matmul(&b);
        cpu_tick(c);
        b.x += b.n_x * b.ld_x;
        b.out += b.n_x * b.ld_out;
        left -= b.n_x;
    }
}

/* Multiplies a few rows of x with the weights as stored.  For many rows it
 * first widens the weights, some rows at a time, since the widening then
 * pays. */
static void run_quantised(struct cpu *c, const struct matmul_block *b,
                          const struct tensor *w, uint32_t first, float *panel)
{
    struct quantised_block q = {quantised_rows(w, first), *b};

    if (b->n_x <= QUANTISED_X) {
        c->isa->matmul_quantised(&q);
        cpu_tick(c);
        return;
    }
    for (uint32_t at = 0; at < b->n_w; at += CPU_PANEL_ROWS) {
        uint32_t left = b->n_w - at;

        q.w = quantised_rows(w, first + at);
        q.b.n_w = left < CPU_PANEL_ROWS ? left : CPU_PANEL_ROWS;
        c->isa->dequantise(panel, &q.w, q.b.n_w);
        q.b.w = panel;
        q.b.dtype = DTYPE_F32;
        q.b.bias = b->bias ? b->bias + at : NULL;
        q.b.out = b->out + at;
        run_parts(c, q.b);
    }
}

static void product_task(void *arg, uint32_t task, uint32_t thread)
{
    const struct products *s = arg;
    const struct cpu_product *p = s->p;

    while (task >= tasks_of(p, s->rows)) {
        task -= tasks_of(p, s->rows);
        p++;
    }
    uint32_t first = task * s->rows;
    uint32_t left = p->w->rows - first;
    struct matmul_block b = {
        .x = s->x,
        .w = (const char *)p->w->data + first * tensor_row_bytes(p->w),
        .bias = p->bias ? p->bias + first : NULL,
        .out = p->out + first,
        .ld_x = p->w->cols,
        .ld_out = p->ld,
        .n_x = s->n_x,
        .n_w = left < s->rows ? left : s->rows,
        .k = p->w->cols,
        .dtype = p->w->dtype,
        .add = p->add,
    };

    if (p->w->bits > 0) {
        run_quantised(s->c, &b, p->w, first, s->c->lanes[thread].panel);
    } else {
        run_parts(s->c, b);
    }
}

/* Returns the rows of W in a task: as many as the cache holds or as stream
 * well, but fewer if that would leave threads idle. */
static uint32_t task_rows(const struct cpu *c, const struct products *s,
                          uint32_t total)
{
    uint32_t row_bytes = s->p->w->cols * 2u + 1;
    uint32_t fit = TASK_BYTES / row_bytes;
    /* Four tasks a thread even out threads of different speed. */
    uint32_t share = total / (c->sizes.n_threads * 4);
    uint32_t rows = fit < TASK_ROWS ? fit : TASK_ROWS;

    if (s->n_x <= STREAM_X) {
        rows = STREAM_BYTES / row_bytes;
    }
    rows = share < rows ? share : rows;
    return rows < TASK_ALIGN ? TASK_ALIGN : rows / TASK_ALIGN * TASK_ALIGN;
}

void cpu_matmul(struct cpu *c, const float *x, uint32_t n_x,
                const struct cpu_product *p, uint32_t n)
{
    struct products s = {.c = c, .x = x, .p = p, .n_x = n_x, .n = n};
    uint32_t total = 0, tasks = 0;

    for (uint32_t i = 0; i < n; i++) {
        total += p[i].w->rows;
    }
    s.rows = task_rows(c, &s, total);
    for (uint32_t i = 0; i < n; i++) {
        tasks += tasks_of(&p[i], s.rows);
    }
    cpu_run(c, product_task, &s, tasks, (size_t)total * p->w->cols * n_x);
}
