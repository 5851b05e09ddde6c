/* holds.h - Workers that hold their rows: they answer Hello and Submit, and
 * report an idle engine on time, but send no row.
 *
 * One seed in eight, of those with faults, has such workers.  An independent
 * stream draws them, so that other seeds do not change.  A worker with all
 * layers begins to hold at a random message, and goes on until its session
 * ends, or until nothing is left to hold.  Every StepOutput and Report of it
 * then has the pool, the counts and the ticks of the message before, and no
 * rows.
 *
 *   - The router may end a session for a stalled sequence only if its worker
 *     holds.
 *   - Requests end nevertheless: the simulator's other rules see to that. */
#ifndef SIM_HOLDS_H
#define SIM_HOLDS_H

#include "common/wire/frame.h"
#include "common/wire/wire.h"
#include "tests/sim/options.h"
#include "tests/sim/rng.h"

struct sim;

struct holds {
    uint32_t of; /* per 10,000 messages: begins; 0: never */
    struct rng chance;
    struct arena arena; /* the ledger in place of another */
    uint64_t n_stalled; /* the router's count of stalled workers */
    struct held {
        uint64_t session, snapshot; /* in its newest message; 0: none */
        uint64_t latest;            /* in which it last held its rows */
        uint64_t frozen;            /* newest snapshot that was replaced */
        bool on;
        uint32_t bytes; /* packed ledger of that message: */
        uint8_t *ledger;
        uint64_t ticks, step;
    } held[SIM_WORKERS];
};

void holds_draw(struct sim *s);
void holds_fini(struct sim *s);

/* Returns whether the worker of conn holds its rows. */
bool holds_is(const struct sim *s, uint32_t conn);

/* May replace *f, which a worker has sent on conn, by one without rows. */
void holds_replace(struct sim *s, uint32_t conn, struct frame **f);

/* Checks the sessions that the router has just ended, before sessions are
 * compared. */
void holds_router(struct sim *s);

#endif
