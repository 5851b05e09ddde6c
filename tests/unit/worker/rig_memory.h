/* rig_memory.h - The pages of the fake engine.
 *
 * A page has the ids of a block's positions, each with its kind, and the hash
 * of all ids before the block: a table with a wrong block is found when the row
 * is read.  The page of a window block has the same for its table: a row must
 * find all that its window has, in each table.  The pages of a slot each have
 * the hash of the ids that the state has seen, and how many: a slot that was
 * not zeroed, was copied in part or belongs to another sequence is found
 * likewise.  A poisoned page has neither.
 */
#ifndef TESTS_UNIT_WORKER_RIG_MEMORY_H
#define TESTS_UNIT_WORKER_RIG_MEMORY_H

#include "worker/base/engine.h"
#include "worker/base/options.h"

struct rig_memory;

/* counts: *counts is read at each use; then a hash is the sum of the ids. */
struct rig_memory *rig_memory_new(const struct worker_options *o,
                                  const bool *counts);
void rig_memory_free(struct rig_memory *m);

/* Carries out the parts of a plan that come before its rows, and those that
 * come after.  ruin: the plan fails, and what `after` names is undefined. */
void rig_memory_before(struct rig_memory *m, const struct plan *p);
void rig_memory_after(struct rig_memory *m, const struct plan *p, bool ruin);

/* Returns the hash of the ids of the row's positions below row->position, as
 * its blocks and its slot have them. */
uint64_t rig_memory_read(const struct rig_memory *m, const struct plan *p,
                         const struct plan_row *row);
/* Writes the row's i-th id, whose prefix has the hash h, and saves there if the
 * row does.  Returns the hash with it. */
uint64_t rig_memory_write(struct rig_memory *m, const struct plan *p,
                          const struct plan_row *row, uint32_t i, uint32_t id,
                          uint64_t h);
/* Writes the row's i-th id, a refused draft, to its blocks alone. */
void rig_memory_refuse(struct rig_memory *m, const struct plan *p,
                       const struct plan_row *row, uint32_t i, uint32_t id);
/* As rig_memory_write(), for a row that keeps its inputs. */
uint64_t rig_memory_keep(struct rig_memory *m, const struct plan *p,
                         const struct plan_row *row, uint32_t i, uint32_t id,
                         uint64_t h);
/* The MTP layer has computed the first n positions of the row. */
void rig_memory_mtp(struct rig_memory *m, const struct plan *p,
                    const struct plan_row *row, uint32_t n);
/* Returns whether it has computed all positions below the row's. */
bool rig_memory_has_mtp(const struct rig_memory *m, const struct plan *p,
                        const struct plan_row *row);
/* The row fails: its slot and saves are undefined, and its positions have old
 * contents or, if written, new ones. */
void rig_memory_ruin(struct rig_memory *m, const struct plan *p,
                     const struct plan_row *row);
/* The row succeeds behind one that failed: with a state, it writes garbage to
 * its positions too. */
void rig_memory_garble(struct rig_memory *m, const struct plan *p,
                       const struct plan_row *row);
/* Returns whether the slot is at the row's position. */
bool rig_memory_is_at(const struct rig_memory *m, const struct plan_row *row);

/* Returns the hash h of some ids with one more. */
uint64_t rig_memory_mix(const struct rig_memory *m, uint64_t h, uint32_t id,
                        enum row_kind kind);

#endif
