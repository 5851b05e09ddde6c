#include "kernels/cpu/cpu.h"

/* Weight bytes of a task: few enough to stay in a core's cache while strips of
 * x are multiplied with them. */
#define TASK_BYTES 262144
#define TASK_ROWS  64

/* A few rows of x form one or two strips, so caching gains little: weights
 * stream, and a task's only wait is for its first tile. */
#define STREAM_X     8
#define STREAM_BYTES 2097152

/* A whole number of tiles of any height; 24 is one of packed groups, too. */
#define TASK_ALIGN  12
#define TASK_PACKED 24
#define TICK_X      512 /* most rows of x between ticks */

struct products {
    struct cpu *c;
    const struct cpu_product *p;
    uint32_t share; /* most rows of W in a task, so that no thread is idle */
};

/* Returns the rows of W in a task: as many as the cache holds or as stream
 * well. */
static uint32_t task_rows(const struct products *s, const struct cpu_product *p)
{
    uint32_t row_bytes = p->w->cols * 2u + 1;
    uint32_t fit = TASK_BYTES / row_bytes;
    uint32_t rows = fit < TASK_ROWS ? fit : TASK_ROWS;
    uint32_t align = s->c->int8.on ? TASK_PACKED : TASK_ALIGN;

    if (p->n_x <= STREAM_X) {
        rows = STREAM_BYTES / row_bytes;
    }
    rows = s->share < rows ? s->share : rows;
    return rows < align ? align : rows / align * align;
}

static uint32_t tasks_of(const struct products *s, const struct cpu_product *p)
{
    uint32_t rows = task_rows(s, p);

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
    struct quantised_block q = {quantised_rows(w, first), *b, panel};

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

/* Returns whether product i has integer products: rows of x as int8. */
static bool is_integer(const struct products *s, uint32_t i)
{
    return s->c->int8.most > 0 && s->c->int8.of[i].rows != NULL;
}

static void product_task(void *arg, uint32_t task, uint32_t thread)
{
    const struct products *s = arg;
    const struct cpu_product *p = s->p;
    uint32_t n;

    for (; task >= (n = tasks_of(s, p)); p++) {
        task -= n;
    }
    uint32_t rows = task_rows(s, p), first = task * rows;
    uint32_t left = p->w->rows - first, i = (uint32_t)(p - s->p);

    if (is_integer(s, i)) {
        cpu_int8_product(s->c, s->p, i, first, left < rows ? left : rows,
                         s->c->lanes[thread].panel);
        return;
    }
    struct matmul_block b = {
        .x = p->x,
        .w = (const char *)p->w->data + first * tensor_row_bytes(p->w),
        .bias = p->bias ? p->bias + first : NULL,
        .out = p->out + first,
        .ld_x = p->ld_x,
        .ld_out = p->ld,
        .n_x = p->n_x,
        .n_w = left < rows ? left : rows,
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

static void run_products(struct cpu *c, const struct cpu_product *p, uint32_t n)
{
    struct products s = {.c = c, .p = p};
    uint32_t total = 0, tasks = 0;
    size_t work = 0;

    for (uint32_t i = 0; i < n; i++) {
        total += p[i].w->rows;
        work += (size_t)p[i].w->rows * p[i].w->cols * p[i].n_x;
    }
    /* Four tasks a thread even out threads of different speed. */
    s.share = total / (c->sizes.n_threads * 4);
    for (uint32_t i = 0; i < n; i++) {
        tasks += tasks_of(&s, &p[i]);
    }
    cpu_run(c, product_task, &s, tasks, work);
}

void cpu_matmul(struct cpu *c, const struct cpu_product *p, uint32_t n)
{
    for (uint32_t done; n > 0; p += done, n -= done) {
        done = cpu_int8_rows(c, p, n);
        run_products(c, p, done);
    }
}
