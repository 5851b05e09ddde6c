/* request.h - a client's Generate: its prompt, its parameters, its call,
 * and its choices, each of them one sequence (router/requests/choice.h).
 *
 *     Generate{n} --> encode the prompt, once --> n choices wait, run and end
 *                 <-- chunks of each choice, in turn; End after the last
 *
 * What the choices share is here once: 64 of a long prompt hold one copy of
 * it.  A choice is admitted, granted, moved, cancelled and kept by itself.
 * All of them end with the call: if it is given up, its deadline passes, its
 * client goes or does not read, or one of them fails.
 *
 * It is freed, with its choices, when all have ENDED, no worker holds one, the
 * call is closed and nobody waits for a receipt.  Till then it counts n_choices
 * against options.max_requests, and its request_id is taken.
 *
 * Threading: the core's.  Memory: one block on the heap, the prompt, the lists
 * of the sampling and the stop strings' machine beside it.  Limits:
 * CHOICES_MAX. */
#ifndef ROUTER_REQUESTS_REQUEST_H
#define ROUTER_REQUESTS_REQUEST_H

#include "common/sampling/sampling.h"
#include "router/requests/choice.h"

struct stop_strings;

struct request {
    struct table_node by_id, by_tag; /* by_tag: a text job is out */
    uint8_t id[16];
    struct model *model;
    struct pending call; /* the client's Generate */
    struct list waiters; /* struct waiter, of removal.h */

    uint32_t *prompt; /* [n_prompt] */
    uint32_t n_prompt, max_tokens;
    struct sampling sampling;
    void *sampling_lists;              /* what it borrows */
    struct stop_strings *stop_strings; /* NULL: none */
    bool wants_text;
    bool held; /* its choices are walked: not to be freed */
    bool resumed;
    uint32_t n_had_ended; /* of its choices, when it was resumed */
    uint32_t keep_ms;
    int64_t deadline_us; /* of the call, NODE_IDLE: none */
    int64_t arrived_us;
    int64_t served_us; /* its last chunk was made */

    uint32_t n_open;   /* choices that have not ENDED */
    uint32_t n_unsent; /* choices whose last chunk was not made */
    uint32_t n_choices;
    struct choice choices[]; /* [n_choices] */
};

/* By request_id; NULL: there is none. */
struct request *request_find(const struct router_core *r, const uint8_t *id,
                             size_t n);

/* A new one, n choices in ENCODING.  m is taken over.  The caller has checked
 * n and the limits. */
struct request *request_new(struct router_core *r, const uint8_t id[16],
                            struct model *m, uint32_t n);

/* Its prompt is there: check it, and put the choices that nobody cancelled
 * meanwhile into the queue.  If the prompt is wrong, nothing can ever hold
 * it, or the queue has no room for all of them, the call is refused. */
void request_enqueue(struct router_core *r, struct request *request);

/* The call is refused before any choice was in the queue. */
void request_refuse(struct router_core *r, struct request *request,
                    const struct error *e, uint32_t retry_after_ms);

/* The call is closed: cancel what is open of its choices, forget what they
 * owe.  request may be gone after it. */
void request_cancel(struct router_core *r, struct request *request,
                    Sluice__V1__CancelReason reason);

/* The call is closed and another of its id wants to begin: remove what is
 * kept.  request may be gone after it. */
void request_release(struct router_core *r, struct request *request);

/* The router itself stops: free every one.  Receipts that somebody waits for
 * end by a status, the calls with their sessions: a client that can resume
 * sees that it is not the generation that failed. */
void requests_abandon(struct router_core *r, const struct error *e);

/* Free it if nothing of it is left to do. */
void request_settle(struct router_core *r, struct request *request);

/* Tokens of a choice's whole length, generated ones included. */
static inline uint64_t request_tokens(const struct request *request)
{
    return (uint64_t)request->n_prompt + request->max_tokens;
}

#endif
