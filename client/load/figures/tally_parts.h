/* tally_parts.h - Parts of a tally that change their width as it grows.
 *
 * For tally.c and report_read().  Threading: none.  Memory: in the tally. */
#ifndef CLIENT_LOAD_FIGURES_TALLY_PARTS_H
#define CLIENT_LOAD_FIGURES_TALLY_PARTS_H

#include "client/load/figures/tally.h"

#define TALLY_ROW_US 1000000 /* width of a row at first */

/* ---- rows ---- */

/* Returns the row of a time since the start; doubles the width of rows until
 * there is one.  Rows returned before are then gone. */
struct tally_row *tally_row(struct tally *t, int64_t at_us);
void tally_rows_merge(struct tally *to, const struct tally *from);
void tally_rows_fini(struct tally *t);

/* ---- batches ---- */

/* Returns the batch of the next request, and counts the request. */
struct tally_batch *tally_batch(struct tally *t);
void tally_batches_merge(struct tally *to, const struct tally *from);
void tally_batches_fini(struct tally *t);

/* ---- reasons ---- */

/* Counts n requests with this reason. */
void tally_why(struct tally *t, const struct tally_why *why, uint64_t n);

#endif
