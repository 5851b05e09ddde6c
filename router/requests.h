/* requests.h - a generation, from the call to its last token delivered.
 *
 * States: enum request_state in router/core.h; the table of successors is in
 * requests.c.  Beside the state a request may still owe its client tokens
 * (n_sent < n_generated, or the last chunk) after it ENDED, and may be kept
 * at its worker; it is freed when neither is so and nobody names it.
 *
 * Threading: the core's.  Memory: on the heap; ids grow by doubling up to
 * n_prompt + max_tokens.  Limits: options.max_requests. */
#ifndef ROUTER_REQUESTS_H
#define ROUTER_REQUESTS_H

#include "common/sampling.h"
#include "proto/inference.pb-c.h"
#include "router/pending.h"
#include "router/workers.h"

struct detokenizer;

enum removal { REMOVAL_NONE, REMOVAL_UNSENT, REMOVAL_SENT };

struct request {
    struct table_node by_id, by_tag; /* by_tag: a text job is out */
    struct list all;                 /* in order of number */
    struct list queue;               /* of its model */
    struct list ready;               /* of its client */
    struct list waiters;             /* struct waiter: for the receipt */
    uint8_t id[16];
    uint64_t number; /* counts arrivals: the order of the queue */
    enum request_state state;
    struct model *model;
    struct pending call; /* the client's Generate */

    uint32_t *ids; /* [ids_size] prompt, then generated */
    uint32_t ids_size, n_prompt, n_generated, n_sent, max_tokens;
    struct sampling sampling;
    void *sampling_lists; /* what it borrows */
    bool has_seed;
    uint32_t keep_ms;
    bool wants_text, parse_special, last_sent, kept;
    struct detokenizer *detok; /* NULL: no text is wanted, or made */

    /* Of the grant it has; worker is NULL if it has none. */
    struct worker *worker;
    struct table_node by_grant;
    struct list running, parts, removals;
    uint64_t grant;
    struct need need;
    uint32_t n_ids, n_ids_sent; /* of its Submit and parts */
    uint32_t n_gaps;            /* rows in a run that could not be used */
    enum removal removal;
    bool remove; /* by RemoveSequence, not Cancel */
    Sluice__V1__CancelReason reason;
    struct event lease; /* of a kept sequence */

    /* How it ended, and how it went. */
    Sluice__V1__Finish finish;
    int64_t deadline_us; /* of the call, NODE_IDLE: none */
    int64_t arrived_us, granted_us, first_us, ended_us, progress_us;
    uint32_t n_moves, n_idle_moves, n_refusals;
    char worker_name[PEER_NAME_MAX + 1];
};

const char *request_state_name(enum request_state s);

/* The one way from a state to another. */
void request_move(struct request *q, enum request_state to);

/* By request_id; NULL: not open. */
struct request *request_find(const struct router_core *r, const uint8_t *id,
                             size_t n);

/* A new one in ENCODING, in the table and nowhere else.  m is taken over. */
struct request *request_new(struct router_core *r, const uint8_t id[16],
                            struct model *m);

/* Room for n ids in all. */
void request_reserve(struct request *q, uint32_t n);

/* The ids of its prompt are there: check them, take its place in the queue.
 * If they are wrong or nothing can ever hold it, it ends at once. */
void request_enqueue(struct router_core *r, struct request *q);

/* Put it back among the waiting by its number: before all that came later. */
void request_requeue(struct router_core *r, struct request *q);

/* It got a place. */
void request_granted(struct router_core *r, struct request *q, struct worker *w,
                     const struct need *need);

/* The worker knows no more of it: out of all its lists. */
void request_ungrant(struct router_core *r, struct request *q);

/* It ends with a last chunk, after what is unsent; or by a status and a
 * sentence, at once. */
void request_finish(struct router_core *r, struct request *q,
                    Sluice__V1__Finish finish);
void request_fail(struct router_core *r, struct request *q,
                  const struct error *e, uint32_t retry_after_ms);

/* End it in whatever state it is, by a status, and forget it: the router
 * itself stops. */
void request_abandon(struct router_core *r, struct request *q,
                     const struct error *e);

/* Free it if it has ended and owes nothing. */
void request_settle(struct router_core *r, struct request *q);

/* The worker of it is lost: to the head of the queue, or it ends. */
void request_displaced(struct router_core *r, struct request *q,
                       const char *why);

/* A worker of m is gone: end what waits and can no longer run anywhere. */
void requests_recheck(struct router_core *r, struct model *m);

/* A call is refused: counted, and answered. */
void request_refuse(struct router_core *r, struct request *q,
                    const struct error *e, uint32_t retry_after_ms);

/* Tokens of its whole length, generated ones included. */
static inline uint64_t request_tokens(const struct request *q)
{
    return (uint64_t)q->n_prompt + q->max_tokens;
}

#endif
