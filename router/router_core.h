/* router_core.h - the router: peers, admission, requests.
 *
 * A pure state machine: told what came and what time it is (router_node_ops),
 * it speaks through node_io and hands text work to a text seam.
 *
 * Threading: one thread.  Memory: bounded by the options and by what clients
 * have admitted.  Limits: below. */
#ifndef ROUTER_ROUTER_CORE_H
#define ROUTER_ROUTER_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/node_io.h"
#include "proto/limits.h"
#include "router/text/text_seam.h"

#define ROUTER_WORKERS_MAX 64
#define ROUTER_MODELS_MAX  64
#define SLOW_READER_MS     30000

struct router_options {
    const char *name;
    uint32_t max_peers;     /* sessions of all kinds */
    uint32_t max_requests;  /* open choices, waiting and running */
    uint32_t max_waiting;   /* in the queue for room; one more is refused */
    int64_t worker_wait_us; /* for the next worker of a model, after the last
                             * has gone, and for the first after the start;
                             * 0: what it had, and comes, fails at once */
    int64_t gather_us;      /* stream.h; 0: chunks never wait */
    bool headroom;          /* what any one worker has fits the others */
    struct text_seam *text; /* borrowed; NULL: ids only */
};

struct router_core;

struct router_core *router_new(const struct router_options *o,
                               struct node_io *io);
void router_free(struct router_core **r);

/* The node is the struct router_core. */
extern const struct node_ops router_node_ops;

/* Goodbye to everybody, clients' calls end UNAVAILABLE; then tick answers
 * NODE_STOP. */
void router_stop(struct router_core *r);

/* A request as the router sees it: one choice of a Generate.
 *
 *   ENCODING --ids--> WAITING --grant--> SUBMITTED --accepted--> PREFILL
 *                        ^                                          | token
 *                        +-------- worker lost (to the head) --- DECODE
 *
 * Every state can go to ENDED; ENDING waits for a worker's receipt. */
enum choice_state {
    CHOICE_ENCODING,
    CHOICE_WAITING,
    CHOICE_SUBMITTED,
    CHOICE_PREFILL,
    CHOICE_DECODE,
    CHOICE_ENDING,
    CHOICE_ENDED,
    CHOICE_STATES
};

/* For auditors: the state of a choice, CHOICE_ENDED if it is not known. */
enum choice_state router_choice_state(const struct router_core *r,
                                      const uint8_t request_id[16],
                                      uint32_t choice);

/* What the router believes of the i-th worker session that is up; false past
 * the last.  granted: needs of grants above `grant`, not yet in a ledger. */
struct router_worker_view {
    struct peer_id id;
    uint64_t session, snapshot, grant, last_grant;
    uint32_t free_blocks, free_slots; /* of the newest ledger, with cached */
    uint32_t granted_blocks, granted_slots;
    uint32_t n_sequences; /* granted, not yet ended and acknowledged */
    bool slow;            /* its oldest plan is out for long */
    uint32_t n_suspects;  /* of them */
    uint32_t n_barren;    /* lives in a row of its lineage */
    uint32_t readmit_ms;  /* nothing is granted before then */
    bool probation;       /* one sequence at a time */
    bool draining;        /* nothing is granted to it */
    bool serves;          /* sequences run there: it has all layers, or leads */
    uint64_t assembly;    /* of the replica that it is a stage of; 0: of none */
    uint32_t stage, n_stages; /* its place there */
};

bool router_worker_view(const struct router_core *r, uint32_t i,
                        struct router_worker_view *out);

struct router_counts {
    uint64_t requests, refused, resumed;                 /* Generate calls */
    uint64_t finished, cancelled, failed, moved, tokens; /* choices */
    uint64_t had_ended; /* choices that a resumed call had the end of */
    uint64_t strikes, ledger_violations, lies, indicted;
    uint64_t adopted, adoptions_lost, disowned;
    uint64_t hung;                 /* workers that were fenced */
    uint32_t n_choices, n_waiting; /* choices, now */
    uint32_t n_early;              /* held for a first worker */
    size_t early_bytes;
};

void router_counts(const struct router_core *r, struct router_counts *out);

#endif
