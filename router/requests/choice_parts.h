/* choice_parts.h - The parts of a choice (choice.h), of one noun each.
 *
 *     choice_output    its tokens, and what its client has of them
 *     choice_text      the same as text
 *     choice_grant     its place at a worker
 *     choice_submit    the Submit of the grant
 *     choice_removal   the Cancel or Remove of the grant
 *     choice_row       its row in the newest StepOutput
 *     choice_progress  what its place had done when it last made progress
 *     choice_kept      what a kept sequence has besides
 *     choice_figures   times and counts for logs and the last chunk
 *
 * States decide what may happen next; choice_parts.c has the tables of allowed
 * moves.
 *
 * Threading: the core's thread only.  Memory: part of a choice.  tokens grows
 * by doubling up to max_tokens. */
#ifndef ROUTER_REQUESTS_CHOICE_PARTS_H
#define ROUTER_REQUESTS_CHOICE_PARTS_H

#include "common/base/list.h"
#include "common/base/table.h"
#include "proto/inference.pb-c.h"
#include "router/fleet/workers.h"

struct choice;
struct detokenizer;
struct logprob_columns;
struct range;
struct request;
struct stops;

/* CLOSED: the last chunk is made, or its client has it already. */
enum choice_output_state { OUTPUT_OPEN, OUTPUT_CLOSED, OUTPUT_STATES };

struct choice_output {
    enum choice_output_state state;
    struct list ready; /* in the ready list of its client */
    int64_t ready_us;  /* has had output for its client since then */
    uint32_t *tokens;  /* [size] generated ids */
    uint32_t size, n_generated, n_sent;
    uint32_t n_client_has;            /* tokens that its client resumed with */
    struct logprob_columns *logprobs; /* NULL: not requested */
};

struct choice_text {
    struct detokenizer *detok; /* NULL: no text is wanted or possible */
    struct stops *stops;       /* NULL: no stop strings */
    uint32_t n_detokenized;    /* tokens already converted to text */
    uint32_t skip_bytes;       /* leading bytes of text that the client has */
};

/* The memory of a choice at its worker.
 *
 *     NONE --granted--> RUNS <--its rows--> SUSPENDED
 *      ^                 | |                 |  |
 *      |                 | +--its end--> KEPT   |
 *      +-----------------+----------------+-----+--> RELEASED
 *
 * SUSPENDED: by its newest row.  RELEASED: it has ended, and `held` has the
 * units of its receipt, because it grew past its grant. */
enum choice_grant_state {
    GRANT_NONE,
    GRANT_RUNS,
    GRANT_SUSPENDED,
    GRANT_KEPT,
    GRANT_RELEASED,
    GRANT_STATES
};

/* The grant that it has; worker is NULL in NONE and RELEASED. */
struct choice_grant {
    enum choice_grant_state state;
    struct worker *worker;
    uint64_t number;
    struct table_node by_number; /* in the grants of worker */
    struct list running;         /* in the running list of worker */
    struct need need;  /* the most it may hold, at a stage with all kinds of
                        * layers (place.h); entry.claim has its grant */
    struct need held;  /* sum over all stages; kept after the grant ends */
    uint32_t n_gaps;   /* consecutive rows that start past n_generated */
    uint32_t n_reused; /* positions restored at its last worker */
    char worker_name[PEER_NAME_MAX + 1]; /* the newest grant's */
};

/* The Submit that its worker has not answered: NONE, one that brings ids, one
 * that adopts an orphan, or one that continues a kept sequence. */
enum choice_submit_state {
    SUBMIT_NONE,
    SUBMIT_IDS,
    SUBMIT_ADOPTS,
    SUBMIT_CONTINUES,
    SUBMIT_STATES
};

struct choice_submit {
    enum choice_submit_state state;
    struct list parts;          /* in the list of worker with unsent ids */
    uint32_t n_ids, n_ids_sent; /* ids in its Submit and parts */
    uint64_t n_before;          /* envelopes in the lane up to its last part */
};

/* The Cancel or Remove of its grant.
 *
 *     NONE --> ENDS_UNSENT --> ENDS_SENT
 *      |                                    the grant is over: NONE
 *      +-----> MOVES_UNSENT --> MOVES_SENT
 *
 * UNSENT: the link has no room.  MOVES: the choice continues elsewhere if it is
 * still open when the receipt comes. */
enum choice_removal_state {
    REMOVAL_NONE,
    REMOVAL_ENDS_UNSENT,
    REMOVAL_ENDS_SENT,
    REMOVAL_MOVES_UNSENT,
    REMOVAL_MOVES_SENT,
    REMOVAL_STATES
};

struct choice_removal {
    enum choice_removal_state state;
    bool remove;        /* by RemoveSequence, not Cancel */
    struct list unsent; /* in the list of worker with unsent removals */
    int64_t asked_us;   /* when its worker got the Cancel or Remove */
    Sluice__V1__CancelReason reason;
};

/* Marks of held_check.h. */
struct choice_row {
    uint64_t at;        /* the output of its worker that had the row */
    bool holds, tokens; /* the row shows it running, and has tokens */
};

/* At its last progress (progress.h), as counted by its place. */
struct choice_progress {
    int64_t since_us, idle_us;
    uint64_t step, work;
    uint64_t own_work; /* its part of the work of its place */
};

/* The lease of a kept sequence: leases.h. */
enum lease_state {
    LEASE_NONE,
    LEASE_HELD,
    LEASE_LAPSING,
    LEASE_LAPSED,
    LEASE_OVER,
    LEASE_STATES
};

struct choice_kept {
    enum lease_state state;
    struct event lease;           /* its end */
    struct list leases;           /* in requests.leases */
    struct request *continued_by; /* has claimed it; NULL: none */
    struct range *range;          /* removal under way (ranges.h) */
    uint32_t n_ids;               /* ids left after a range; 0: all */
    uint32_t n_state;             /* position of its state, if so */
};

struct choice_figures {
    int64_t granted_us, first_us, ended_us; /* 0: not yet */
    uint32_t n_moves, n_idle_moves, n_refusals;
};

/* Move a part of choice to another state and log the move.  They assert that
 * the move is allowed. */
void choice_output_move(struct choice *choice, enum choice_output_state to);
void choice_grant_move(struct choice *choice, enum choice_grant_state to);
void choice_submit_move(struct choice *choice, enum choice_submit_state to);
void choice_removal_move(struct choice *choice, enum choice_removal_state to);

/* Ends the states of the grant of choice, which has just lost its worker. */
void choice_parts_ungrant(struct choice *choice);

#endif
