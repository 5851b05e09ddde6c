/* pack.h - Eight rows of a quantised matrix, interleaved for integer products.
 *
 * A group is eight rows, from a multiple of eight on.  Its bytes are those of
 * its rows in another order, so a matrix is packed in place.  A lane is four
 * bytes; lane r of a vector of 32 bytes is row r's.  Byte j of a lane:
 *
 *     8 bits  vector k / 4: code k + j, of q8 and affine minus 128, signed
 *     4 bits  vector k / 8: code k + j, and in the upper half code k + 4 + j
 *     6 bits  three vectors for 16 columns: the lower four bits of codes as
 *             above, in two; then the upper two bits of codes j, 4 + j, 8 + j
 *             and 12 + j, the first in the lowest bits
 *
 * Scales and biases: those of a block of columns, one of each row in order.
 * For 256 columns of k4: d [8], m [8] f16; then s and b [4, 8, 2], those of
 * two groups together.  The same of k6: d [8] f16; then s [8, 8, 2].
 *
 * Threading: pure functions.  Memory: the caller's. */
#ifndef KERNELS_ISA_PACK_H
#define KERNELS_ISA_PACK_H

#include "kernels/isa/quantised.h"

#define PACK_ROWS 8

/* Returns whether the format has integer products: all but fp8. */
static inline bool pack_fits(enum weight_format f)
{
    return f != WEIGHT_PLAIN && f != WEIGHT_FP8;
}

/* Returns whether the rows from `first` on are packed.  Rows past the last
 * whole group stay as stored. */
static inline bool pack_holds(const struct tensor *t, uint32_t first)
{
    return t->packed && first / PACK_ROWS < t->rows / PACK_ROWS;
}

/* Returns the bytes of a group with its scales and biases, at most 10 k + 512.
 */
size_t pack_bytes(const struct quantised *w);

/* Packs n <= 8 rows as stored to `to` [pack_bytes()]; missing rows are 0. */
struct quantised pack_group(const struct quantised *w, uint32_t n, void *to);

/* Writes row `row` of a packed group as stored to `to`, a row's data, scales
 * and biases [pack_bytes() / 8]. */
struct quantised pack_row(const struct quantised *group, uint32_t row,
                          void *to);

/* Packs n_groups groups of t in place, from group `first` on, with scratch
 * [pack_bytes()]. */
void pack_in_place(const struct tensor *t, uint32_t first, uint32_t n_groups,
                   void *scratch);

#endif
