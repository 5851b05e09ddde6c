/* choice.h - a request as the router sees it: one sequence, which is one
 * choice of a client's generation (router/requests/request.h).
 *
 * States: enum choice_state in router/router_core.h; the table of successors is
 * in requests.c.  Beside the state a request may still owe its client tokens
 * (n_sent < n_generated, or the last chunk) after it ENDED, and its worker may
 * still hold it: because it is kept, or because a stop string was found in its
 * tokens and the worker's receipt has not come.  It lives as long as its
 * generation.
 *
 * Threading: the core's.  Memory: inside its generation; tokens grow by
 * doubling up to max_tokens and are freed when it owes nothing more, and so
 * is what its text, stop strings and logprobs take (stops.h,
 * logprob_columns.h).  Limits: options.max_requests. */
#ifndef ROUTER_REQUESTS_CHOICE_H
#define ROUTER_REQUESTS_CHOICE_H

#include "proto/inference.pb-c.h"
#include "router/fleet/pending.h"
#include "router/fleet/workers.h"
#include "router/requests/trial.h"

struct detokenizer;
struct request;
struct logprob_columns;
struct stops;

enum removal { REMOVAL_NONE, REMOVAL_UNSENT, REMOVAL_SENT };

struct choice {
    struct request *request;
    uint32_t index; /* of its request, 0..n_choices - 1 */
    enum choice_state state;
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

const char *choice_state_name(enum choice_state s);

/* The one way from a state to another. */
void choice_move(struct choice *choice, enum choice_state to);

/* Choice c of request, ENCODING, the last of all; and: free what it holds. */
void choice_init(struct router_core *r, struct choice *choice,
                 struct request *request, uint32_t c);
void choice_fini(struct router_core *r, struct choice *choice);

/* Room for n generated tokens in all. */
void choice_reserve(struct choice *choice, uint32_t n);

/* Its client has its last chunk already: it ends in silence. */
void choice_had(struct router_core *r, struct choice *choice);

/* Its generation's prompt is there and good: the last of the queue. */
void choice_enqueue(struct router_core *r, struct choice *choice);

/* Put it back among the waiting by its number: before all that came later. */
void choice_requeue(struct router_core *r, struct choice *choice);

/* It got a place. */
void choice_granted(struct router_core *r, struct choice *choice,
                    struct worker *w, const struct need *need);

/* The worker knows no more of it: out of all its lists. */
void choice_ungrant(struct router_core *r, struct choice *choice);

/* It ends with a last chunk, after what is unsent.  Its generation may be
 * gone after it. */
void choice_finish(struct router_core *r, struct choice *choice,
                   Sluice__V1__Finish finish);

/* It ends by a status and a sentence, at once; so do the call and, cancelled,
 * the other choices.  Its generation may be gone after it. */
void choice_fail(struct router_core *r, struct choice *choice,
                 const struct error *e, uint32_t retry_after_ms);

/* Its call is refused, or the router stops: it ends in whatever state it is,
 * without a word.  Its generation stays. */
void choice_refuse(struct router_core *r, struct choice *choice);
void choice_abandon(struct router_core *r, struct choice *choice);

/* Free what it no longer needs, and its generation if that was the last. */
void choice_settle(struct router_core *r, struct choice *choice);

/* The worker of it is lost: to the head of the queue, or it ends. */
void choice_displaced(struct router_core *r, struct choice *choice,
                      const char *why);

/* The worker of it has let go of it, as it was told: the same, and nobody is
 * to blame. */
void choice_moved(struct router_core *r, struct choice *choice);

/* Workers of m came, went or drain: end what waits and can no longer run
 * anywhere. */
void choices_recheck(struct router_core *r, struct model *m);

/* m comes back with other weights: end what has tokens of the old ones, or
 * all, if the ids themselves may mean something else. */
void choices_estranged(struct router_core *r, struct model *m, bool all);

/* A stop string ended it, and its worker has yet to let go of it. */
static inline bool choice_is_leaving(const struct choice *choice)
{
    return choice->state == CHOICE_ENDED && choice->worker != NULL &&
           !choice->kept;
}

#endif
