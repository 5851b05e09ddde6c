/* runner_windows.h - the window blocks of a runner's sequences.
 *
 * A sequence holds the window blocks that its next row reads or writes.  Blocks
 * behind the window are given back when a row is added, and poisoned if the
 * runner poisons: a read behind the window is then a NaN.  The next sequence
 * takes the page that was given back last.
 *
 * Forks and twins share full blocks; a page is free when nobody holds it.
 *
 * Threading, memory: tests/golden/runner.h. */
#ifndef TESTS_GOLDEN_RUNNER_WINDOWS_H
#define TESTS_GOLDEN_RUNNER_WINDOWS_H

#include "tests/golden/runner.h"

/* Empties the pool of window pages, with room for n; pages are added with
 * windows_add_page(). */
void windows_open(struct runner *r, uint32_t n);
void windows_close(struct runner *r);
void windows_add_page(struct runner *r, uint32_t page);

void windows_start(struct runner *r, struct run_seq *s);
void windows_stop(struct runner *r, struct run_seq *s);

/* Gives back what is behind the window of the next position and takes blocks
 * for positions below `end`. */
void windows_advance(struct runner *r, struct run_seq *s, uint32_t end);

/* Adds the tables of a row that ends at `end` to the plan being made. */
void windows_add_tables(struct runner *r, const struct run_seq *s, uint32_t end,
                        struct plan_row *row);

/* Gives s, a copy of the struct of another sequence, the window of position
 * `at`: shared full blocks, and a new last block if that is partly filled,
 * which is copied before or after the rows of the plan being made. */
void windows_share(struct runner *r, struct run_seq *s,
                   const struct run_seq *of, uint32_t at, bool after);

/* Moves block i, if it is held by s alone, as runner_move_block(). */
void windows_move(struct runner *r, struct run_seq *s, uint32_t i);

/* Gives the old places of moved blocks back. */
void windows_free_moved(struct runner *r);

/* Orders NaN for free pages in the next plan, if the runner poisons. */
void runner_poison_pages(struct runner *r, uint32_t first, uint32_t n);

#endif
