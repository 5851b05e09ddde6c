/* router_options.h - Options of the router's core, and its public limits.
 *
 * Threading: constant after router_new().  Memory: the caller's; the core
 * copies the struct and the name, and borrows text. */
#ifndef ROUTER_BASE_ROUTER_OPTIONS_H
#define ROUTER_BASE_ROUTER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/limits.h"
#include "router/record/record.h"
#include "router/text/text_seam.h"

#define ROUTER_WORKERS_MAX 64
#define ROUTER_MODELS_MAX  64
#define SLOW_READER_MS     30000

#define SUSPENSIONS_MOST 500000

/* Whether a grant covers the greatest need, or the need of now. */
enum admission_mode { ADMISSION_STRICT, ADMISSION_EXPECTED };

/* The share of a tenant in each queue, against 1 of others. */
#define TENANT_WEIGHT_MAX 1000

/* Retries of a tenant, of a hundred admitted requests. */
#define RETRY_BUDGET_MAX 100

/* Tokens that the sequences of a tenant may occupy. */
#define TENANT_QUOTA_MAX 1000000000

struct named_number {
    const char *name;
    uint32_t number; /* from 1 */
};

struct router_options {
    const char *name;
    uint32_t max_peers;       /* sessions of clients */
    uint32_t max_admins;      /* sessions of administrators */
    uint32_t max_requests;    /* open choices, waiting and running */
    uint32_t max_waiting;     /* choices of a model queued for room; more are
                               * refused */
    uint32_t kept;            /* kept sequences of a tenant that hold memory
                               * (leases.h); 0: any number */
    uint32_t tenant_quota;    /* tokens of a tenant's sequences that wait, run
                               * or are kept (quota.h); 0: any number */
    uint32_t retry_budget;    /* early retries of a tenant that are judged, of
                               * a hundred admitted requests (retries.h); 0:
                               * all are */
    int64_t queue_timeout_us; /* how long a request without a deadline may wait
                               * for its first grant (overdue.h); 0: for ever */
    int64_t worker_wait_us;   /* how long requests wait for a worker of their
                               * model, after the last one left and after the
                               * router's start; 0: they fail at once */
    /* liveness.h: silence after which a worker gets no sequences, and after
     * which its session ends; time without progress that ends it.  0: the
     * defaults of router_limits.h. */
    int64_t silent_us, lost_us, hung_us;
    int64_t gather_us; /* minimum interval between chunk frames to one
                        * client (stream.h); 0: chunks never wait */
    bool headroom;     /* keep room to absorb the loss of any one worker
                        * (headroom.h) */
    enum admission_mode admission; /* claims.h */
    uint32_t suspensions; /* share of sequences that may be suspended, in
                           * millionths, 0..SUSPENSIONS_MOST (forecast.h) */
    size_t memory_bytes;  /* that open requests may hold; 0: no limit */
    const struct named_number *weights; /* [n_weights] of tenants, borrowed */
    uint32_t n_weights;
    const struct named_number *places; /* [n_places] that models are to have,
                                        * borrowed; of others: the most so far
                                        */
    uint32_t n_places;
    bool mixed_arithmetic;     /* workers of a model may have several ids
                                * (models.h) */
    bool keyed;                /* refuse connections without an identity */
    struct text_seam *text;    /* borrowed; NULL: token ids only */
    struct recorder *recorder; /* borrowed; NULL: nothing is recorded */
};

#endif
