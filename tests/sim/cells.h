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

#include "router/router_core.h"

struct sim;
struct sim_request;
struct sim_choice;

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

/* What befalls a replica of several stages, with sequences that are at its
 * leader in some state from CELL_SUBMITTED on. */
enum stage_event {
    STAGE_LEADER_LOST,
    STAGE_LOST, /* a later one */
    STAGE_EDGE_CUT,
    STAGE_STANDS, /* an engine, for a while */
    STAGE_EVENTS
};

/* What has happened beside. */
enum deed {
    DEED_STOP_BORDER,       /* a stop string begins with a token */
    DEED_STOP_ACROSS,       /* ... within or before one */
    DEED_STOP_FIRST,        /* ... ends in the first token */
    DEED_STOP_AT_LENGTH,    /* ... in the last that was allowed */
    DEED_STOP_BEFORE_END,   /* an end token would have come next */
    DEED_STOP_BROKEN,       /* it ends with half a character, the last */
    DEED_STOP_MOVED,        /* it had moved before */
    DEED_STOP_LOST,         /* its worker is lost before it has let go */
    DEED_CHAINED_PENALTIES, /* a token in flight is looked at */
    DEED_MOVED_PENALTIES,
    DEED_MOVED_LOGPROBS,
    DEED_MOVED_TEXT,
    DEED_FOUND_LOGPROBS, /* a Submit of what the worker has already */
    DEED_WINDOW_FULL,    /* a row waits until logprobs are acknowledged */
    DEED_STOP_TOKEN,
    DEED_STOP_TOKEN_NO_EOS, /* with ignore_eos */
    DEED_CHOICES_APART,     /* at two workers at once */
    DEED_CHOICE_CANCELLED,  /* while another runs */
    DEED_ADOPTED_RUNNING,   /* by the next session */
    DEED_ADOPTED_FINISHED,  /* it had ended by then */
    DEED_ADOPTED_LOGPROBS,
    DEED_ADOPTED_PENALTIES,
    DEED_ADOPTION_LOST, /* it lived there no more */
    DEED_DISOWNED,
    DEED_ORPHAN_EXPIRED,
    DEED_RESUMED_PREFILL, /* its session ended while it was in prefill */
    DEED_RESUMED_DECODE,  /* ... in decode */
    DEED_RESUMED_ENDED,   /* ... after the end of one of its choices */
    DEED_RESUMED_STOP,    /* ... with text that may begin a stop string */
    DEED_RESUMED_LOGPROBS,
    DEED_RESUMED_TWICE,
    DEED_LONG_STEP,   /* a step of seconds, to its end */
    DEED_SLOW,        /* a worker gets nothing new as its plan is old */
    DEED_STOOD,       /* an engine stands, and goes on in time */
    DEED_FENCED,      /* ... for too long */
    DEED_ENGINE_DEAD, /* ... so long that its worker ends */
    DEED_HALF_OPEN,   /* a silent connection is given up by its peer */
    DEED_POISONED,    /* a worker is killed by what it runs */
    DEED_CRASHED,     /* ... dies by itself, as its life before */
    DEED_ON_TRIAL,
    DEED_INDICTED,      /* poison that is not tried again */
    DEED_UNLUCKY,       /* the same, for no fault of its own */
    DEED_PROBATION,     /* of a worker that the router knows */
    DEED_DRAIN_ENDED,   /* a sequence ended at the worker it drains */
    DEED_DRAIN_MOVED,   /* ... or moved */
    DEED_UNDRAINED,     /* while it drained */
    DEED_LEFT,          /* a worker has gone, and left nothing */
    DEED_SPARE_LOSS,    /* a worker is lost, the other keeps room for it */
    DEED_ABSENT_SERVED, /* no worker was open for it, then one was */
    DEED_NAMESAKE,      /* one is refused by the name of a worker */
    DEED_STRANGER,      /* ... where nobody else of its model is */
    DEED_ASSEMBLED,     /* a worker is in an assembly that stands */
    DEED_ASSEMBLED_AGAIN,
    DEED_EDGE_REFUSED,   /* a stage speaks of another assembly */
    DEED_FORMING_STRUCK, /* something befalls one that does not stand yet */
    DEED_RING_FULL,      /* as many microbatches as stages are under way */
    DEED_OPEN_VOID,      /* a Submit that was struck goes round */
    DEED_OPEN_IDS,       /* ids, for the penalties of the last stage */
    DEED_STAGE_FAILED,   /* a step that failed at a stage goes round */
    DEED_STAGE_RECEIPT,  /* of all stages */
    DEED_GARBAGE,        /* a stage says to the next what cannot be */
    DEED_GIVEN,          /* a worker that has none is given layers */
    DEED_GAP_FILLED,     /* ... beside shards that are left over */
    DEED_ASSIGN_REFUSED, /* ... and cannot hold them */
    DEED_OFFER_KILLED,   /* it dies, or is stopped, while it waits */
    DEED_LOAD_KILLED,    /* ... while it loads them */
    DEED_LOAD_FAILED,
    DEED_LOAD_LATE, /* for longer than the router expects it */
    DEEDS
};

struct cells {
    uint64_t hits[CELL_STATES][CELL_EVENTS];
    uint64_t stage_hits[CELL_STATES][STAGE_EVENTS];
    uint64_t deeds[DEEDS];
};

extern const char *const deed_names[DEEDS];

extern const char *const cell_state_names[CELL_STATES];
extern const char *const cell_event_names[CELL_EVENTS];

/* Where a choice stands now, as router and workers know it. */
enum cell_state cells_state(const struct sim *s, uint32_t request,
                            uint32_t choice);

/* Where it stands at this worker; CELL_NONE: not there. */
enum cell_state cells_at_worker(const struct sim *s, uint32_t node,
                                const struct sim_choice *c);

/* Its state at the router; CHOICE_ENDED where it is not known. */
enum choice_state cells_at_router(const struct sim *s,
                                  const struct sim_request *g, uint32_t choice);

/* Of a choice, or of CHOICE_ALL. */
void cells_hit(struct sim *s, uint32_t request, uint32_t choice,
               enum cell_event what);

/* The router hears that a connection of this node is over. */
void cells_disconnect(struct sim *s, uint32_t node);

/* Before the node's core is freed. */
void cells_killed(struct sim *s, uint32_t node);

/* Can this happen at all? */
bool cell_exists(enum cell_state state, enum cell_event event);

#endif
