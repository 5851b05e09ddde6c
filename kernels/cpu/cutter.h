/* cutter.h - Cuts an area into aligned pieces.
 *
 * The first pass, in which base is NULL, only counts bytes; the second hands
 * out pieces.  Both must cut the same pieces.
 *
 * Threading: none.  Memory: borrows the area. */
#ifndef KERNELS_CPU_CUTTER_H
#define KERNELS_CPU_CUTTER_H

#include <stddef.h>

#define CUTTER_ALIGN 64

struct cutter {
    char *base;
    size_t used;
};

/* Returns a piece for n items.  Pieces begin at cache lines, so two threads
 * never share one. */
static inline void *cutter_piece(struct cutter *k, size_t n, size_t item)
{
    size_t at = k->used;

    k->used += (n * item + CUTTER_ALIGN - 1) / CUTTER_ALIGN * CUTTER_ALIGN;
    return k->base ? k->base + at : NULL;
}

static inline float *cutter_floats(struct cutter *k, size_t rows, size_t cols)
{
    return cutter_piece(k, rows * cols, sizeof(float));
}

#endif
