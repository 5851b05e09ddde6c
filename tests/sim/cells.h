/* cells.h - Counts of events by the state of the request that they hit.
 *
 * A cell is counted when the router receives the frame (cancel, remove), when
 * the router detects the loss (disconnect), or when a worker or the router
 * dies.  All cells exist; those of suspended sequences are rare, and may be
 * empty.  A waiting request counts for the loss of a worker of its model.  A
 * finished request counts for the loss of its worker only while that worker
 * still holds it for the acknowledgement. */
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
    CELL_SUBMITTED, /* on its way to the worker, in one or more parts */
    CELL_QUEUED,    /* queued on the worker */
    CELL_PREFILL,
    CELL_DECODE,
    CELL_SUSPENDED, /* or waits for pages that were taken meanwhile */
    CELL_KEPT,
    CELL_FINISHED,
    CELL_STATES,
    CELL_NONE = CELL_STATES /* not registered at the router yet */
};

enum cell_event {
    CELL_CANCEL,
    CELL_REMOVE,
    CELL_DISCONNECT,
    CELL_WORKER_LOST,
    CELL_ROUTER_LOST,
    CELL_EVENTS
};

/* Events that hit a replica of several stages, while sequences are at its
 * leader in some state from CELL_SUBMITTED on. */
enum stage_event {
    STAGE_LEADER_LOST,
    STAGE_LOST, /* a stage after the leader was lost */
    STAGE_EDGE_CUT,
    STAGE_STANDS, /* an engine stalled for a while */
    STAGE_EVENTS
};

/* Other events that are counted. */
enum deed {
    DEED_STOP_BORDER,       /* a stop string begins with a token */
    DEED_STOP_ACROSS,       /* ... within or before one */
    DEED_STOP_FIRST,        /* ... ends in the first token */
    DEED_STOP_AT_LENGTH,    /* ... in the last that was allowed */
    DEED_STOP_BEFORE_END,   /* the next token would have been an end token */
    DEED_STOP_BROKEN,       /* ... ends with the last half character */
    DEED_STOP_MOVED,        /* the sequence had moved before */
    DEED_STOP_LOST,         /* worker lost before it freed the sequence */
    DEED_CHAINED_PENALTIES, /* penalties include a token in flight */
    DEED_MOVED_PENALTIES,
    DEED_MOVED_LOGPROBS,
    DEED_MOVED_TEXT,
    DEED_FOUND_LOGPROBS, /* Submit of a sequence that the worker has already */
    DEED_WINDOW_FULL,    /* a row waits until logprobs are acknowledged */
    DEED_STOP_TOKEN,
    DEED_STOP_TOKEN_NO_EOS, /* with ignore_eos */
    DEED_CHOICES_APART,     /* choices of one request on two workers */
    DEED_CHOICE_CANCELLED,  /* while another runs */
    DEED_ADOPTED_RUNNING,   /* adopted by the next session */
    DEED_ADOPTED_FINISHED,  /* sequence had ended before its adoption */
    DEED_ADOPTED_LOGPROBS,
    DEED_ADOPTED_PENALTIES,
    DEED_ADOPTION_LOST, /* sequence was gone from the worker */
    DEED_DISOWNED,
    DEED_ORPHAN_EXPIRED,
    DEED_RESUMED_PREFILL, /* session ended during prefill */
    DEED_RESUMED_DECODE,  /* ... in decode */
    DEED_RESUMED_ENDED,   /* ... after the end of one of its choices */
    DEED_RESUMED_STOP,    /* ... with text that may begin a stop string */
    DEED_RESUMED_LOGPROBS,
    DEED_RESUMED_TWICE,
    DEED_LONG_STEP,   /* a step of seconds that completed */
    DEED_SLOW,        /* worker receives no grants because its plan is old */
    DEED_STOOD,       /* engine stalled, and continued in time */
    DEED_FENCED,      /* ... for too long */
    DEED_ENGINE_DEAD, /* ... so long that its worker ends */
    DEED_HALF_OPEN,   /* silent connection closed by its peer */
    DEED_POISONED,    /* worker killed by a sequence that it ran */
    DEED_CRASHED,     /* ... crashed by itself, as its options define */
    DEED_ON_TRIAL,
    DEED_INDICTED,      /* poison that is not tried again */
    DEED_UNLUCKY,       /* same for a request that is not poison */
    DEED_PROBATION,     /* probation of a worker registered before */
    DEED_DRAIN_ENDED,   /* sequence ended on its draining worker */
    DEED_DRAIN_MOVED,   /* ... or moved */
    DEED_UNDRAINED,     /* undrained while draining */
    DEED_LEFT,          /* worker left with no sequences remaining */
    DEED_SPARE_LOSS,    /* worker lost while the other kept room reserved */
    DEED_ABSENT_SERVED, /* request had no open worker, then one opened */
    DEED_NAMESAKE,      /* refused worker has the name of a registered one */
    DEED_STRANGER,      /* ... and no worker of its model is registered */
    DEED_EVICTED,       /* idle session made room for a stranger */
    DEED_EVICTED_STRANGER,
    DEED_THROTTLED,    /* Hello of a stranger dropped */
    DEED_ROW_DAMAGED,  /* a row without finite logits beside others */
    DEED_STEP_DAMAGED, /* a step fails because of one of several rows */
    DEED_FAILED_ALONE, /* ... and again with that row alone */
    DEED_AGAIN,        /* a sequence begins anew after a failed step */
    DEED_AGAIN_ENDED,  /* ... and ends before it has a token */
    DEED_CUT_OFF,      /* a chained row whose predecessor has no token */
    DEED_FORGED,       /* false message of a worker */
    DEED_HELD,         /* worker that sends no rows any more */
    DEED_STALLED,      /* ... and the router ends its session */
    DEED_PLAN_REFUSED,
    DEED_SAVED,          /* checkpoint inside a row */
    DEED_FAILED_SAVES,   /* step that failed while it saved some */
    DEED_MOVED_BLOCK,    /* block moved for a slot */
    DEED_SWAP_OUT,       /* page copied to the host tier */
    DEED_SWAP_IN,        /* ... and back */
    DEED_HIT,            /* sequence that did not compute all of its prompt */
    DEED_HIT_PARTIAL,    /* ... but more than its last unit */
    DEED_LATE_SIBLING,   /* ... is a later choice of its request */
    DEED_WINDOW_MOVED,   /* row without the first window blocks */
    DEED_WINDOW_OUT,     /* window page copied to the host tier */
    DEED_TWIN,           /* row that samples from another one's logits */
    DEED_TWIN_CANCELLED, /* choice cancelled while others wait for its prompt */
    DEED_CONTINUED,      /* sequence that goes on from kept memory */
    DEED_CONTINUED_MOVED, /* ... and later moved to another worker */
    DEED_RANGE,           /* range of kept memory removed */
    DEED_RANGE_BACK,      /* ... and some before it */
    DEED_RANGE_NOTHING,   /* ... with nothing left before it */
    DEED_SAVED_BRANCH,    /* checkpoint where an earlier prompt branched off */
    DEED_AT_QUOTA,        /* a tenant evicted its own for what it added */
    DEED_INDEX_GAP,      /* events of an index lost, and a snapshot requested */
    DEED_INDEX_SNAPSHOT, /* ... and received */
    DEED_EVICTED_BLOCK,
    DEED_EVICTED_CHECKPOINT,
    DEED_CACHED_OUT,        /* pages of an index that went to the host tier */
    DEED_CACHED_BACK,       /* prompt tokens that only the host tier had */
    DEED_CACHED_DROPPED,    /* pages that left an index there */
    DEED_GREW,              /* sequence granted less than it may need */
    DEED_SUSPENDED,         /* ticks of workers with suspended sequences */
    DEED_RESUMED_RECOMPUTE, /* suspended sequence computed again */
    DEED_DRAFT_ACCEPTED,    /* draft that became a token */
    DEED_DRAFT_REFUSED,
    DEED_DRAFT_NGRAM,     /* ... accepted, of a worker without MTP layer */
    DEED_DRAFT_STOP,      /* ... right, but it ends the sequence */
    DEED_DRAFT_LENGTH,    /* the last token comes with accepted drafts */
    DEED_DRAFT_LOGPROBS,  /* accepted with logprobs */
    DEED_DRAFT_PENALTIES, /* ... with penalties */
    DEED_DRAFT_DAMAGED,   /* damage behind an accepted draft */
    DEED_DRAFT_FAILED,    /* row with drafts in a step that failed */
    DEED_DRAFT_ASKED,     /* request that names its drafts */
    DEED_ASSEMBLED,       /* worker is in a complete assembly */
    DEED_ASSEMBLED_AGAIN,
    DEED_EDGE_REFUSED,    /* stage names another assembly */
    DEED_FORMING_STRUCK,  /* fault during formation of an assembly */
    DEED_RING_FULL,       /* as many microbatches in flight as stages */
    DEED_OPEN_VOID,       /* a struck Submit passes around the ring */
    DEED_OPEN_IDS,        /* ids for the penalties of the last stage */
    DEED_STAGE_FAILED,    /* a step that failed at a stage passes on */
    DEED_AGAIN_STAGED,    /* ... at a later stage */
    DEED_STAGE_RECEIPT,   /* receipt that lists all stages */
    DEED_RESTORED_STAGED, /* hit at a later stage */
    DEED_RESTORED_LAST,   /* ... at the last */
    DEED_DRAFT_STAGED,    /* draft accepted at the last stage */
    DEED_GARBAGE,         /* garbage message between stages */
    DEED_GIVEN,           /* worker without layers is assigned some */
    DEED_GAP_FILLED,      /* ... next to leftover shards */
    DEED_ASSIGN_REFUSED,  /* ... and cannot hold them */
    DEED_OFFER_KILLED,    /* worker dies or is stopped while it waits */
    DEED_LOAD_KILLED,     /* ... while it loads its layers */
    DEED_LOAD_FAILED,
    DEED_LOAD_LATE,  /* load takes longer than the router's limit */
    DEED_WEB_STREAM, /* whole response, streamed */
    DEED_WEB_WHOLE,  /* ... in one body */
    DEED_WEB_CHAT,
    DEED_WEB_PROMPTS, /* ... to several prompts */
    DEED_WEB_ECHO,
    DEED_WEB_PADDED,    /* ... to a body that a thread parses */
    DEED_WEB_REFUSED,   /* request refused by its status */
    DEED_WEB_FAILED,    /* stream that ends with an error */
    DEED_WEB_PIPELINED, /* requests sent without waiting */
    DEED_WEB_MALFORMED,
    DEED_WEB_HALF,          /* half a request */
    DEED_WEB_LATE,          /* ... answered by 408 */
    DEED_WEB_STALLED,       /* reader given up by the server */
    DEED_WEB_KILLED,        /* gateway killed or stopped */
    DEED_WEB_CUT,           /* response cut by the end of its gateway */
    DEED_WEB_RESUMED,       /* gateway resumed a call */
    DEED_WEB_LEFT_SENDING,  /* client left while it sent */
    DEED_WEB_LEFT_ENCODING, /* ... while the prompt was encoded */
    DEED_WEB_LEFT_WAITING,
    DEED_WEB_LEFT_PREFILL,
    DEED_WEB_LEFT_DECODE,
    DEED_WEB_LEFT_LAST, /* ... after the last token */
    DEED_KEY_NAME,      /* a key tries the name of another key's client */
    DEED_KEY_LINEAGE,   /* ... name and lineage of another key's worker */
    DEED_KEY_ROLE,      /* a key tries a role that it does not have */
    DEED_KEY_NONE,      /* a connection without a key among keys */
    DEED_KEY_STAGE,     /* another worker's key tries to join an assembly */
    DEED_KEY_STAGE_UP,  /* ... that is up */
    DEED_KEY_REMOVED,   /* a worker's key is removed while sequences run */
    DEED_KEY_REMOVED_CLIENT, /* ... that of a client with open requests */
    DEED_KEY_REFUSED,        /* a connection with a removed key */
    DEED_KEY_RESTORED,       /* a removed key is trusted again */
    DEED_KEY_ROTATED,        /* ... replaced by another key of the name */
    DEED_KEY_NEXT,           /* an edge to a stage with such a key */
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

/* Returns the current state of a choice, from router and workers. */
enum cell_state cells_state(const struct sim *s, uint32_t number,
                            uint32_t choice);

/* Returns the state of a choice at this worker, CELL_NONE if it is not there.
 */
enum cell_state cells_at_worker(const struct sim *s, uint32_t node,
                                const struct sim_choice *c);

/* Returns the state of a choice at the router, CHOICE_ENDED if the router has
 * no such choice. */
enum choice_state cells_at_router(const struct sim *s,
                                  const struct sim_request *request,
                                  uint32_t choice);

/* Counts an event for a choice, or for CHOICE_ALL. */
void cells_hit(struct sim *s, uint32_t number, uint32_t choice,
               enum cell_event what);

/* Counts a disconnect of this node, when the router detects it. */
void cells_disconnect(struct sim *s, uint32_t node);

/* Counts the death of a node, before its core is freed. */
void cells_killed(struct sim *s, uint32_t node);

/* Returns whether this event can occur in this state. */
bool cell_exists(enum cell_state state, enum cell_event event);

#endif
