/* state_machine.h - A table of states and the one way to move between them.
 *
 *     static const struct sm_row rows[X_STATES] = {
 *         [X_IDLE] = {"idle", SM_TO(X_BUSY)},
 *         [X_BUSY] = {"busy", SM_TO(X_IDLE) | SM_TO(X_DONE)},
 *         [X_DONE] = {"done", 0},
 *     };
 *
 * A move that the table does not allow is a bug of ours, never of a peer, so
 * it fails an assertion.
 *
 * Threading: none.  Memory: the rows are static. */
#ifndef COMMON_BASE_STATE_MACHINE_H
#define COMMON_BASE_STATE_MACHINE_H

#include <assert.h>
#include <stdint.h>

#include "common/base/log.h"

#define SM_TO(state) (1u << (state))

struct sm_row {
    const char *name;
    uint32_t next; /* set of states that may follow */
};

/* Checks and logs one move.  who names the machine, id the instance. */
static inline void sm_check(const struct sm_row *rows, unsigned from,
                            unsigned to, const char *who, const char *id)
{
    log_debug("move", "%s=%s from=%s to=%s", who, id, rows[from].name,
              rows[to].name);
    assert((rows[from].next & SM_TO(to)) != 0);
}

#endif
