/* cells.h - which things have happened to requests in which state.
 *
 * A cell is counted when the router takes the frame (cancel, remove), hears
 * of the loss (disconnect), or when a worker or the router dies.  All cells
 * exist: a request that waits meets the loss of a worker of its model; a
 * finished one counts for the loss of its worker only while that still holds
 * it for the acknowledgement. */
#ifndef SIM_CELLS_H
#define SIM_CELLS_H

#include <stdbool.h>
#include <stdint.h>

struct sim;

enum cell_state {
    CELL_ENCODING,
    CELL_WAITING,
    CELL_SUBMITTED, /* on its way to the worker, or its parts are */
    CELL_QUEUED,    /* at the worker */
    CELL_PREFILL,
    CELL_DECODE,
    CELL_KEPT,
    CELL_FINISHED,
    CELL_STATES,
    CELL_NONE = CELL_STATES /* not known to the router yet */
};

enum cell_event {
    CELL_CANCEL,
    CELL_REMOVE,
    CELL_DISCONNECT,
    CELL_WORKER_LOST,
    CELL_ROUTER_LOST,
    CELL_EVENTS
};

struct cells {
    uint64_t hits[CELL_STATES][CELL_EVENTS];
};

extern const char *const cell_state_names[CELL_STATES];
extern const char *const cell_event_names[CELL_EVENTS];

/* Where a generation stands now, as router and workers know it. */
enum cell_state cells_state(const struct sim *s, uint32_t generation);

void cells_hit(struct sim *s, uint32_t generation, enum cell_event what);

/* The router hears that a connection of this node is over. */
void cells_disconnect(struct sim *s, uint32_t node);

/* Before the node's core is freed. */
void cells_killed(struct sim *s, uint32_t node);

/* Can this happen at all? */
bool cell_exists(enum cell_state state, enum cell_event event);

#endif
