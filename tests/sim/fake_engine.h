/* fake_engine.h - worker/base/engine.h over a model of memory, in virtual
 * time.
 *
 *     block: [block_tokens] cells (token, position, kind), written by rows
 *     slot:  a rolling hash of the tokens fed since it was zeroed
 *
 * A sampled token is oracle_choose() of what is really reached through the
 * row's block table and slot, so stale, shared or unzeroed memory shows as a
 * wrong token.  A block that a sequence names for the first time, and will
 * write from its beginning, is scribbled over first: whoever still counts on
 * what was there reads nonsense.
 *
 * An engine of some layers is a stage: its hidden states are those of
 * tests/sim/fake_hidden.h, and gone when the next result is polled.
 *
 * Some plans take seconds, and tick; in some the engine stands still for a
 * while, or for good.
 *
 * What can be seen of a plan before it runs is checked on submission and
 * fails the run: a block in two tables, a slot of two rows, a table that does
 * not cover, a chained row without its forerunner, a gap in positions, a
 * budget passed, a plan changed while in flight; of a stage hidden states that
 * are missing, another layer's or another position's. */
#ifndef SIM_FAKE_ENGINE_H
#define SIM_FAKE_ENGINE_H

#include <stdint.h>

#include "worker/base/engine.h"

struct sim;
struct fake_engine;

/* Of worker number w (from 0), as its options say. */
struct fake_engine *fake_engine_new(struct sim *s, uint32_t w);
void fake_engine_free(struct fake_engine **e);

struct engine *fake_engine_seam(struct fake_engine *e);

/* Different blocks, slots named by plans that have not been polled. */
uint32_t fake_engine_named_blocks(const struct fake_engine *e);
uint32_t fake_engine_named_slots(const struct fake_engine *e);

/* Rows of these plans. */
uint32_t fake_engine_rows(const struct fake_engine *e);

/* How long nothing has ticked, or did when it last stood still, and how long
 * ago that ended: 0, it stands. */
int64_t fake_engine_stood_us(const struct fake_engine *e, int64_t *ago_us);
/* Did it stand so long at least, then or the time before, no longer ago? */
bool fake_engine_stood_lately(const struct fake_engine *e, int64_t least_us,
                              int64_t ago_us);

#endif
