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
#include "router/requests/choice_state.h"
#include "router/requests/requests.h"

struct requests;
struct detokenizer;
struct logprob_columns;
struct request;
struct stops;

enum removal { REMOVAL_NONE, REMOVAL_UNSENT, REMOVAL_SENT };

struct choice {
    struct request *request;
    uint32_t index; /* of its request, 0..n_choices - 1 */
    enum choice_state state;
    struct queue_entry entry; /* what the scheduler sees of it */
    struct list all;          /* in order of entry.number */
    struct list ready;        /* of its client */

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
    char worker_name[PEER_NAME_MAX + 1];
};

const char *choice_state_name(enum choice_state s);

/* The one way from a state to another. */
void choice_move(struct choice *choice, enum choice_state to);

/* Choice c of request, ENCODING, the last of all; and: free what it holds. */
void choice_init(struct requests *r, struct choice *choice,
                 struct request *request, uint32_t c);
void choice_fini(struct requests *r, struct choice *choice);

/* Room for n generated tokens in all. */
void choice_reserve(struct choice *choice, uint32_t n);

/* Have all ids of its Submit, which it has at a worker, left for that? */
bool choice_may_have_run(const struct choice *choice);

/* Frees what an ended choice no longer needs, and its request if that was the
 * last thing that held it. */
void choice_settle(struct requests *r, struct choice *choice);

/* A stop string ended it, and its worker has yet to let go of it. */
static inline bool choice_is_leaving(const struct choice *choice)
{
    return choice->state == CHOICE_ENDED && choice->worker != NULL &&
           !choice->kept;
}

/* The sequence of a grant, NULL if it is not known (any more). */
struct choice *choice_of_grant(const struct worker *w, uint64_t grant);

#endif
