/* requests.h - a request as the router sees it: one sequence, which is one
 * choice of a client's generation (router/generation.h).
 *
 * States: enum request_state in router/core.h; the table of successors is in
 * requests.c.  Beside the state a request may still owe its client tokens
 * (n_sent < n_generated, or the last chunk) after it ENDED, and its worker may
 * still hold it: because it is kept, or because a stop string was found in its
 * tokens and the worker's receipt has not come.  It lives as long as its
 * generation.
 *
 * Threading: the core's.  Memory: inside its generation; tokens grow by
 * doubling up to max_tokens and are freed when it owes nothing more, and so
 * is what its text, stop strings and logprobs take (stops.h,
 * logprob_columns.h).  Limits: options.max_requests. */
#ifndef ROUTER_REQUESTS_H
#define ROUTER_REQUESTS_H

#include "proto/inference.pb-c.h"
#include "router/pending.h"
#include "router/trial.h"
#include "router/workers.h"

struct detokenizer;
struct generation;
struct logprob_columns;
struct stops;

enum removal { REMOVAL_NONE, REMOVAL_UNSENT, REMOVAL_SENT };

struct request {
    struct generation *generation;
    uint32_t choice;
    enum request_state state;
    uint64_t number;   /* counts arrivals, then choices: the queue's order */
    struct list all;   /* in order of number */
    struct list queue; /* of its model */
    struct list ready; /* of its client */

    uint32_t *tokens; /* [tokens_size] generated */
    uint32_t tokens_size, n_generated, n_sent;
    uint32_t n_had;  /* of n_generated: its client came with them (resume.h) */
    uint32_t n_told; /* tokens of which text was made */
    uint32_t n_skip; /* bytes of text, from the first on, that it has too */
    bool last_sent, kept;
    struct detokenizer *detok;        /* NULL: no text is wanted, or made */
    struct stops *stops;              /* NULL: it has no stop strings */
    struct logprob_columns *logprobs; /* NULL: not asked for */

    /* Of the grant it has; worker is NULL if it has none. */
    struct worker *worker;
    struct table_node by_grant;
    struct list running, parts, removals;
    uint64_t grant;
    struct need need;           /* of a stage that has all kinds: place.h */
    struct need held;           /* at all its stages, also once they are left */
    bool counted;               /* in the load of its worker, headroom.h */
    uint32_t n_ids, n_ids_sent; /* of its Submit and parts */
    uint64_t n_before;          /* envelopes of the lane, the last part's too */
    uint32_t n_gaps;            /* rows in a run that could not be used */
    enum removal removal;
    bool remove;   /* by RemoveSequence, not Cancel */
    bool moving;   /* and goes on elsewhere, if it is still open then */
    bool adopting; /* its Submit asks for what lives there */
    Sluice__V1__CancelReason reason;
    struct event lease; /* of a kept sequence */

    /* How it ended, and how it went. */
    Sluice__V1__Finish finish;
    int64_t granted_us, first_us, ended_us;
    int64_t ready_us; /* it has had something to give since */
    uint32_t n_moves, n_idle_moves, n_refusals;
    struct trial trial;
    char worker_name[PEER_NAME_MAX + 1];
};

const char *request_state_name(enum request_state s);

/* The one way from a state to another. */
void request_move(struct request *q, enum request_state to);

/* Choice c of g, ENCODING, the last of all; and: free what it holds. */
void request_init(struct router_core *r, struct request *q,
                  struct generation *g, uint32_t c);
void request_fini(struct router_core *r, struct request *q);

/* Room for n generated tokens in all. */
void request_reserve(struct request *q, uint32_t n);

/* Its client has its last chunk already: it ends in silence. */
void request_had(struct router_core *r, struct request *q);

/* Its generation's prompt is there and good: the last of the queue. */
void request_enqueue(struct router_core *r, struct request *q);

/* Put it back among the waiting by its number: before all that came later. */
void request_requeue(struct router_core *r, struct request *q);

/* It got a place. */
void request_granted(struct router_core *r, struct request *q, struct worker *w,
                     const struct need *need);

/* The worker knows no more of it: out of all its lists. */
void request_ungrant(struct router_core *r, struct request *q);

/* It ends with a last chunk, after what is unsent.  Its generation may be
 * gone after it. */
void request_finish(struct router_core *r, struct request *q,
                    Sluice__V1__Finish finish);

/* It ends by a status and a sentence, at once; so do the call and, cancelled,
 * the other choices.  Its generation may be gone after it. */
void request_fail(struct router_core *r, struct request *q,
                  const struct error *e, uint32_t retry_after_ms);

/* Its call is refused, or the router stops: it ends in whatever state it is,
 * without a word.  Its generation stays. */
void request_refuse(struct router_core *r, struct request *q);
void request_abandon(struct router_core *r, struct request *q);

/* Free what it no longer needs, and its generation if that was the last. */
void request_settle(struct router_core *r, struct request *q);

/* The worker of it is lost: to the head of the queue, or it ends. */
void request_displaced(struct router_core *r, struct request *q,
                       const char *why);

/* The worker of it has let go of it, as it was told: the same, and nobody is
 * to blame. */
void request_moved(struct router_core *r, struct request *q);

/* Workers of m came, went or drain: end what waits and can no longer run
 * anywhere. */
void requests_recheck(struct router_core *r, struct model *m);

/* m comes back with other weights: end what has tokens of the old ones, or
 * all, if the ids themselves may mean something else. */
void requests_estranged(struct router_core *r, struct model *m, bool all);

/* A stop string ended it, and its worker has yet to let go of it. */
static inline bool request_is_leaving(const struct request *q)
{
    return q->state == REQUEST_ENDED && q->worker != NULL && !q->kept;
}

#endif
