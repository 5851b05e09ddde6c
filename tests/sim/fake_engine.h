/* fake_engine.h - worker/base/engine.h over a model of memory, in virtual
 * time.
 *
 * The memory has n_pages pages.  A page has one of these contents:
 *
 *     cells    a block: [block_tokens] cells (token, position, kind), written
 *              by rows
 *     state    one part of a slot or checkpoint: a rolling hash of the tokens
 *              fed since it was zeroed, and their number
 *     garbage  whatever a failed step left
 *     poison   freed since the last plan
 *
 * A cell written into a page with a state destroys the state, and the other way
 * round.  A state needs all of its parts.  Copies copy pages, whatever they
 * contain.
 *
 * A sampled token is oracle_choose() of the contents that the row's block table
 * and slot reach.  Stale, moved, shared or unzeroed memory therefore produces a
 * wrong token.  A row that continues from a damaged state writes damaged cells.
 *
 * An engine with some of the layers is a stage.  Its hidden states are those of
 * tests/sim/fake_hidden.h, and are cleared when the next result is polled.
 *
 * Some plans take seconds, and tick.  In some plans, the engine stalls for a
 * while, or for good.  Some plans fail, and some are refused.
 *
 * Submission checks each plan before it runs, and fails the run for:
 *
 * - a page with two uses: two rows that write it, a slot in two rows, a target
 *   of a copy or of a save that something else in the plan has
 * - a page of a sequence in flight that another one overwrites, unless a copy
 *   has moved its contents, or the row writes what is there already
 * - a table that does not cover the row, or has a page twice
 * - a chained row without its predecessor
 * - a twin without its source, or without a state
 * - a save at a position that the row does not reach, or off the unit
 * - a gap in positions
 * - an exceeded budget
 * - a plan changed while in flight
 * - in a stage: hidden states that are missing, or of another layer or position
 *
 * Running it fails the run for a row that reads poison, or cells or a state of
 * other positions. */
#ifndef SIM_FAKE_ENGINE_H
#define SIM_FAKE_ENGINE_H

#include <stdint.h>

#include "worker/base/engine.h"

struct sim;
struct fake_engine;

/* Creates the engine of worker number w (from 0), as its options define. */
struct fake_engine *fake_engine_new(struct sim *s, uint32_t w);
void fake_engine_free(struct fake_engine **e);

struct engine *fake_engine_seam(struct fake_engine *e);

/* Returns the number of different pages named by plans that have not been
 * polled: blocks and slots of rows, targets of saves and copies.  Without pages
 * whose contents a later plan moves. */
uint32_t fake_engine_named(const struct fake_engine *e);

/* Returns the number of rows in these plans. */
uint32_t fake_engine_rows(const struct fake_engine *e);

/* Returns the length of the current or most recent stall, in which nothing
 * ticks.  *ago_us: time since its end, 0 if the engine is stalled. */
int64_t fake_engine_stood_us(const struct fake_engine *e, int64_t *ago_us);
/* Returns whether the last or the previous stall was at least this long, and
 * ended no longer ago than the limit. */
bool fake_engine_stood_lately(const struct fake_engine *e, int64_t least_us,
                              int64_t ago_us);

#endif
