/* fake_engine.h - worker/base/engine.h over a model of memory, in virtual
 * time.
 *
 *     block: [block_tokens] cells (token, position, kind), written by rows
 *     slot:  a rolling hash of the tokens fed since it was zeroed
 *
 * A sampled token is oracle_choose() of the contents that the row's block table
 * and slot reach.  Stale, shared or unzeroed memory therefore produces a wrong
 * token.  When a sequence names a block for the first time and will write it
 * from its beginning, the engine first overwrites the block with garbage.  A
 * sequence that still depends on the old contents then reads garbage.
 *
 * An engine with some of the layers is a stage.  Its hidden states are those of
 * tests/sim/fake_hidden.h, and are cleared when the next result is polled.
 *
 * Some plans take seconds, and tick.  In some plans, the engine stalls for a
 * while, or for good.
 *
 * Submission checks each plan before it runs, and fails the run for:
 *
 * - a block in two tables, or a slot in two rows
 * - a table that does not cover the row
 * - a chained row without its predecessor
 * - a gap in positions
 * - an exceeded budget
 * - a plan changed while in flight
 * - in a stage: hidden states that are missing, or of another layer or position
 */
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

/* Return the number of different blocks and slots named by plans that have not
 * been polled. */
uint32_t fake_engine_named_blocks(const struct fake_engine *e);
uint32_t fake_engine_named_slots(const struct fake_engine *e);

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
