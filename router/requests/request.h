/* request.h - A request: a client's Generate call with its prompt, parameters
 * and choices, each of them one sequence (router/requests/choice.h).
 *
 *     Generate{n} --> encode the prompt, once --> n choices wait, run and end
 *                 <-- chunks of each choice, in turn; End after the last
 *
 * Data that the choices share is stored here once: 64 choices of a long prompt
 * hold one copy of it.  Each choice is admitted, granted, moved, cancelled and
 * kept separately.  All of them end with the call: if the client gives it up,
 * disconnects or does not read, if its deadline passes, or if one choice fails.
 *
 * A request is freed, with its choices, when all have ENDED, no worker holds
 * one, the call is closed and no caller waits for a receipt.  Until then it
 * counts n_choices against options.max_requests, and its request_id is taken.
 *
 * Threading: the core's thread only.  Memory: one heap block, and beside it the
 * prompt, the lists of the sampling parameters and the automaton of the stop
 * strings.  Limits: CHOICES_MAX choices. */
#ifndef ROUTER_REQUESTS_REQUEST_H
#define ROUTER_REQUESTS_REQUEST_H

#include "common/base/log.h"
#include "common/sampling/sampling.h"
#include "router/requests/choice.h"
#include "router/schedule/overload.h"

struct stop_strings;

struct request_prompt {
    uint32_t *ids; /* [n] */
    uint32_t n;
    struct prefix_prompt prefix;
    uint32_t *spans; /* [n_spans] runs of the prompt; NULL: all is prompt */
    uint32_t n_spans;
    bool computed;     /* a choice has had its first token here */
    uint64_t recorded; /* its number in a recording; 0: none */
    /* Continuing a kept sequence (continuation.h): */
    struct choice *continues; /* claimed and still kept; NULL: none */
    uint32_t *before;         /* [n_before] ids of it, until the prompt is
                               * known; NULL: none */
    uint32_t n_before;
    bool draws_open; /* the first grant decides whether its draws go on from
                      * those of the kept sequence */
};

/* The tenant of a request, and the memory that it may reuse. */
struct request_scope {
    uint32_t tenant;                       /* slot of base.tenants */
    char tenant_name[TENANT_NAME_MAX + 1]; /* [n_tenant], then NUL */
    uint8_t salt[CACHE_SALT_MAX];
    uint32_t n_tenant, n_salt;      /* bytes of both; 0: none */
    char client[PEER_NAME_MAX + 1]; /* name of the peer that called */
    uint32_t route;                 /* slot of base.route_names */
    enum fair_tier tier;
    bool guaranteed; /* never suspended */
    bool uncached;   /* nothing is reused for it, or kept of it */
};

/* Its time in the queue: overdue.h. */
struct request_wait {
    struct list node; /* in requests.waits */
    int64_t until_us;
};

struct request {
    struct table_node by_id, by_tag; /* by_tag: while its text job runs */
    uint8_t id[16];
    struct model *model;
    struct pending call; /* the Generate call of the client */
    struct list waiters; /* struct waiter of removal.c */

    struct request_prompt prompt;
    struct request_scope scope;
    uint32_t max_tokens;
    struct sampling sampling;
    void *sampling_lists;              /* owned lists that sampling refers to */
    struct stop_strings *stop_strings; /* NULL: none */
    bool wants_text;
    bool special_text; /* special tokens are part of the text */
    bool held;         /* its choices are being walked: do not free */
    bool resumed;
    bool logged;              /* its end is in the log */
    uint32_t n_resumed_ended; /* choices that had ended when it was resumed */
    bool has_drafts;          /* false: the worker chooses */
    uint32_t drafts;          /* in a step, at most DRAFTS_MAX */
    uint32_t keep_ms;
    int64_t deadline_us; /* deadline of the call; NODE_IDLE: none */
    struct request_wait wait;
    int64_t arrived_us;
    int64_t served_us; /* when its last chunk was made */

    size_t bytes;      /* counted in request_memory.h */
    uint32_t n_open;   /* choices that have not ENDED */
    uint32_t n_unsent; /* choices whose last chunk is not made yet */
    uint32_t n_choices;
    struct choice choices[]; /* [n_choices] */
};

/* Finds the request of an id of n bytes; NULL: there is none. */
struct request *request_find(const struct requests *r, const uint8_t *id,
                             size_t n);

/* Creates a request with n choices in ENCODING and adds it to the table.  Takes
 * over the reference to m.  The caller has checked n and the limits.  Returns
 * NULL without memory; the reference is then still the caller's. */
struct request *request_new(struct requests *r, const uint8_t id[16],
                            struct model *m, uint32_t n);

/* Frees request with its choices, all of which have ENDED. request_settle()
 * frees it only if nothing is left to do for it; call it when one of the
 * reasons to keep it goes away. */
void request_free(struct requests *r, struct request *request);
void request_settle(struct requests *r, struct request *request);

/* Ends the time that request may wait: a choice of it has its first grant, or
 * all have ended. */
static inline void request_granted(struct request *request)
{
    request->wait.until_us = 0;
    list_remove(&request->wait.node);
}

/* Returns the tokens of the whole length of a choice: prompt and max_tokens. */
static inline uint64_t request_tokens(const struct request *request)
{
    return (uint64_t)request->prompt.n + request->max_tokens;
}

/* Returns the name of its tenant; empty: none. */
static inline ProtobufCBinaryData request_tenant(const struct request *request)
{
    return (ProtobufCBinaryData){
        request->scope.n_tenant,
        (uint8_t *)(uintptr_t)request->scope.tenant_name};
}

/* Returns the name of its tenant for people. */
static inline const char *request_tenant_name(const struct request *request)
{
    return request->scope.n_tenant > 0 ? request->scope.tenant_name
                                       : TENANT_DEFAULT;
}

/* Returns the demand of one choice on a pool. */
static inline struct demand request_demand(const struct request *request)
{
    return (struct demand){request->model, request->prompt.n,
                           request->max_tokens};
}

/* Returns it as one that comes now. */
static inline struct arrival request_arrival(const struct request *request)
{
    return (struct arrival){request_demand(request),   request->scope.tenant,
                            request->scope.route,      request->scope.tier,
                            request->scope.guaranteed, request->deadline_us};
}

/* Returns the milliseconds after which to retry a failure for want of a worker
 * or of room; 0: never.  A resumed request may retry even if the pool is too
 * small: that pool may only be the first that a restarted router sees. */
uint32_t request_retry_ms(const struct request *request, const struct error *e);

#endif
