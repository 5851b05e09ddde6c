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
#include "router/schedule/admission.h"

struct requests;
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
struct request *request_find(const struct requests *r, const uint8_t *id,
                             size_t n);

/* A new one, n choices in ENCODING.  m is taken over.  The caller has checked
 * n and the limits. */
struct request *request_new(struct requests *r, const uint8_t id[16],
                            struct model *m, uint32_t n);

/* Frees it, with its choices, all of which have ENDED.  And: only if nothing
 * of it is left to do. */
void request_free(struct requests *r, struct request *request);
void request_settle(struct requests *r, struct request *request);

/* Tokens of a choice's whole length, generated ones included. */
static inline uint64_t request_tokens(const struct request *request)
{
    return (uint64_t)request->n_prompt + request->max_tokens;
}

/* What it asks of a pool. */
static inline struct demand request_demand(const struct request *request)
{
    return (struct demand){request->model, request->n_prompt,
                           request->max_tokens};
}

/* When to come back after a failure for want of a worker or of room, in ms;
 * 0: never.  To a request that is resumed even a pool that is too small may be
 * the first of a router that has just begun. */
uint32_t request_retry_ms(const struct request *request, const struct error *e);

#endif
