/* try_deltanet.h - the data of the Gated DeltaNet's cases, and its reference:
 * the recurrence token by token, in double, from the same float32 inputs as the
 * kernels.
 *
 * Memory outside a row (other slots, tokens past the end) is NaN.  A page of a
 * world is a slot: state, gap, tail, gap.
 *
 * Threading: none.
 * Memory: the caller drops worlds and results; buffers live until the case
 * ends. */
#ifndef TESTS_KERNELS_TRY_DELTANET_H
#define TESTS_KERNELS_TRY_DELTANET_H

#include "tests/kernels/opencl_try.h"

#define DELTA_DIM       128 /* Dk and Dv */
#define DELTA_TAPS      4
#define DELTA_ROWS_MAX  64
#define DELTA_SAVES_MAX 4
#define DELTA_KEPT      24 /* tokens of which a layer keeps inputs */

struct delta_shape {
    const char *name;
    uint32_t hk, hv;
};

static inline uint32_t delta_channels(const struct delta_shape *s)
{
    return (2 * s->hk + s->hv) * DELTA_DIM;
}

static inline uint32_t delta_in_ld(const struct delta_shape *s)
{
    return delta_channels(s) + s->hv * DELTA_DIM + 2 * s->hv;
}

/* Returns inputs of sequence `seed` at position p; weights have seeds below
 * 10. */
float delta_input(uint32_t seed, const struct delta_shape *s, uint32_t p,
                  uint32_t i);

/* Runs n tokens of sequence `seed` from position p: advances state [Hv,
 * DELTA_DIM, DELTA_DIM] and writes y [n, Hv, DELTA_DIM].  tail [DELTA_TAPS - 1,
 * C] bf16 holds the inputs before. */
void delta_reference(const struct delta_shape *s, uint32_t seed, uint32_t p,
                     uint32_t n, const uint16_t *tail, double *state,
                     double *y);

struct delta_row {
    uint32_t position, n;
    uint32_t saves[DELTA_SAVES_MAX]; /* tokens before each, then 0 */
};

struct delta_world {
    const struct delta_shape *s;
    const struct delta_row *rows;
    uint32_t n_rows, n_tokens, n_slots, seed;
    uint32_t first[DELTA_ROWS_MAX], slot[DELTA_ROWS_MAX];
    uint32_t saved[DELTA_ROWS_MAX]; /* page of the row's first save */
    cl_mem meta, y, kept, kept_q, tickets, pages, in, conv, a_log, dt_bias,
        norm;
    float *in_host;    /* [T, in_ld] */
    float *pages_host; /* [n_slots, delta_page_size] */
};

/* The results of a step. */
struct delta_result {
    uint16_t *y;  /* [T, Hv, DELTA_DIM] */
    float *state; /* [rows, Hv, DELTA_DIM, DELTA_DIM] */
    uint16_t *tail;
};

/* Return floats: of a state, of a kept token, of a page; elements of a tail. */
size_t delta_state_size(const struct delta_shape *s);
size_t delta_kept_ld(const struct delta_shape *s);
size_t delta_page_size(const struct delta_shape *s);
size_t delta_tail_size(const struct delta_shape *s);

/* Return where a page's state and tail are on the host. */
float *delta_state_of(const struct delta_world *w, uint32_t page);
uint16_t *delta_tail_of(const struct delta_world *w, uint32_t page);

/* Returns the elements from the pages to the first tail. */
uint64_t delta_tail_at(const struct delta_shape *s);

uint32_t delta_saves(const struct delta_row *r);

/* Makes a world of n rows; row r is sequence seed + r.  Only a checked one has
 * contents on the host. */
void delta_make_world(struct try *t, struct delta_world *w,
                      const struct delta_shape *s, const struct delta_row *rows,
                      uint32_t n, uint32_t seed, bool checked);
void delta_drop_world(struct delta_world *w);

struct delta_result delta_make_result(const struct delta_world *w);
void delta_drop_result(struct delta_result *r);
void delta_read_result(struct try *t, const struct delta_world *w,
                       struct delta_result *r);
void delta_read_page(struct try *t, const struct delta_world *w, uint32_t page,
                     float *state, uint16_t *tail);

/* Compares a page with state and tail of the i-th row of other results. */
void delta_same_page(struct try *t, const struct delta_world *w, uint32_t page,
                     const struct delta_result *want, uint32_t i,
                     const char *what);

/* Compares row r with the reference; `allowed` is its state's error. */
void delta_check_row(struct try *t, const struct delta_world *w, uint32_t r,
                     const struct delta_result *got, const char *what,
                     double allowed);

/* Builds a kernel.  option: the decode kernel's saves, 1, and keeps, 2; few
 * work-groups of the chunks'. */
cl_kernel delta_kernel(struct try *t, const struct delta_shape *s,
                       const char *file, const char *name, int option);

#endif
