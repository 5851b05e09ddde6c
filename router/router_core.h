/* router_core.h - The router: peers, admission, requests.
 *
 * The core is a pure state machine.  It is called with each event and the time
 * (router_node_ops), sends through a node_io, and hands text work to a text
 * seam.
 *
 * Threading: one thread; it is called "the core's thread" in the headers below.
 * Memory: bounded by the options and by the requests admitted.  Limits:
 * router/base/router_limits.h and the options. */
#ifndef ROUTER_ROUTER_CORE_H
#define ROUTER_ROUTER_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/metric_page.h"
#include "common/wire/node_io.h"
#include "router/base/metrics.h"
#include "router/base/router_options.h"
#include "router/requests/choice_state.h"

struct router_core;

/* Creates a router on io, which must outlive it, with a copy of o; and frees
 * it, without sending anything. */
struct router_core *router_new(const struct router_options *o,
                               struct node_io *io);
void router_free(struct router_core **r);

/* Events of the node; their `node` argument is the struct router_core. */
extern const struct node_ops router_node_ops;

/* Stops the router: the next tick sends Goodbye to all peers, ends the calls of
 * clients with ST_UNAVAILABLE and returns NODE_STOP. */
void router_stop(struct router_core *r);

/* Returns the state of a choice, for auditors; CHOICE_ENDED if it is
 * unknown. */
enum choice_state router_choice_state(const struct router_core *r,
                                      const uint8_t request_id[16],
                                      uint32_t choice);

/* The scheduler's view of a place. */
struct router_place_view {
    uint64_t n_late; /* grants past the time of the first of a queue that may
                      * have cost it time (bypass.h) */
    bool grows;      /* sequences grow there (claims.h) */
    uint32_t n_rows; /* sequences that predictions count as load, and */
    uint32_t n_generating; /* those that generate */
};

/* The router's view of one worker session, for auditors. granted_*: needs of
 * the grants after `grant`, not yet in a ledger. */
struct router_worker_view {
    struct peer_id id;
    uint64_t session, snapshot, grant, last_grant;
    /* By the newest ledger: pages free and cached, and units of a class that
     * are not held or granted. */
    uint32_t free_blocks, free_slots, free_windows, free_pages;
    uint32_t granted_blocks, granted_slots, granted_windows, granted_pages;
    uint64_t greatest_pages; /* that its sequences need at most */
    struct router_place_view place;
    uint32_t n_suspended; /* by its newest ledger */
    bool grew;            /* a sequence that grows was here */
    uint64_t n_backlog;   /* tokens to compute before first tokens */
    uint32_t n_sequences; /* granted, not yet ended and acknowledged */
    int64_t hung_us;      /* its present limit without progress */
    bool slow;            /* its oldest plan has been in flight for long */
    uint32_t n_suspects;  /* suspects among its sequences */
    uint32_t n_barren;    /* consecutive barren lives of its lineage */
    uint32_t readmit_ms;  /* milliseconds until it may be granted anything */
    bool probation;       /* one sequence at a time */
    bool draining;        /* it gets no grants */
    bool serves;          /* it has all layers, or leads a replica */
    uint64_t assembly;    /* id of its replica; 0: none */
    uint32_t stage, n_stages; /* its stage, and their number */
};

/* Lengths that the router has learned of a model, for auditors. */
struct router_model_view {
    const char *name;   /* valid until the next event */
    uint64_t n_learned; /* ended choices that it learned from */
    uint32_t expected;  /* length that most outputs do not exceed */
    bool ordered;       /* its queue is in the order of fair.h, */
    bool exact;         /* and the work in it is counted (predict.h) */
    bool leases_owed;   /* a kept sequence could give way to its first */
};

/* Fills *out with the view of the i-th model.  Returns false past the last. */
bool router_model_view(const struct router_core *r, uint32_t i,
                       struct router_model_view *out);

/* Returns the ended choices of a tenant of the i-th model from which it
 * learned, for auditors; NULL: of the tenant without a name. */
uint64_t router_tenant_learned(const struct router_core *r, uint32_t i,
                               const char *tenant);

/* The quota of a tenant, as its choices are charged, for auditors. */
struct router_quota_view {
    const char *tenant; /* valid until the next event */
    uint64_t n_charged; /* tokens of its account, */
    uint64_t n_sum;     /* and the sum over its choices, */
    uint64_t n_judged;  /* without those that were resumed */
    uint32_t n_wrong;   /* choices with a charge that have no memory and
                         * do not wait, or with none that do */
};

/* Fills *out with the view of the tenant of slot i.  Returns false if none has
 * it. */
bool router_quota_view(const struct router_core *r, uint32_t i,
                       struct router_quota_view *out);

/* Fills *out with the view of the i-th worker session that is up.  Returns
 * false past the last. */
bool router_worker_view(const struct router_core *r, uint32_t i,
                        struct router_worker_view *out);

/* Returns what the worker of the i-th view can restore, by the tree of its
 * model, for auditors: the sum of prefix_hash_digest() over its prefixes, and
 * *n, their number. */
uint64_t router_prefixes(const struct router_core *r, uint32_t i, uint32_t *n);

/* Returns the state of the choice that has this grant at the worker of this
 * session, for auditors; CHOICE_ENDED if none has. */
enum choice_state router_grant_state(const struct router_core *r,
                                     struct peer_id worker, uint64_t grant);

/* Returns whether the memory of this kept sequence gives way, or has, for
 * auditors: router/requests/leases.h. */
bool router_lapses(const struct router_core *r, const uint8_t id[16],
                   uint32_t choice);

/* Returns for how long a request has waited past --queue-timeout, for auditors;
 * 0: none has. */
int64_t router_late_us(const struct router_core *r);

/* Returns whether layers could be dealt to offers now, for auditors: false when
 * all that is due has run. */
bool router_undealt(const struct router_core *r);

/* The router's view of one session of any role, for auditors. */
struct router_session_view {
    struct peer_id id;
    uint8_t role;               /* BY_* */
    bool busy;                  /* it has an open call */
    const char *name, *lineage; /* valid until the next event */
};

/* Fills *out with the view of the i-th session that is up.  Returns false past
 * the last. */
bool router_session_view(const struct router_core *r, uint32_t i,
                         struct router_session_view *out);

/* Copies the counters and gauges without labels as they are now. */
void router_counts(const struct router_core *r, struct router_metrics *out);

/* Writes one line about workers and sequences for a person, at most cap bytes
 * with its NUL. */
void router_line(const struct router_core *r, char *text, size_t cap);

/* Adds all metrics to a page for Prometheus; logs those that are not 0 under
 * the event `counted`; prints their rows for --list-metrics. */
void router_page(struct router_core *r, struct metric_page *page);
void router_log_metrics(struct router_core *r);
void router_list_metrics(FILE *to);

#endif
