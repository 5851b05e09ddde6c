/* schedule.h - The state of the scheduler, and one entry of its queues.
 *
 * An entry is the part of a choice (router/requests/choice.h) that the
 * scheduler works with.
 *
 * Threading: the core's thread only.  Memory: entries are part of choices; the
 * scheduler owns none. */
#ifndef ROUTER_SCHEDULE_SCHEDULE_H
#define ROUTER_SCHEDULE_SCHEDULE_H

#include "router/fleet/fleet.h"
#include "router/fleet/workers.h"
#include "router/schedule/prefixes.h"
#include "router/schedule/trial.h"

struct routing_record;

/* The grant of an entry at a place: router/schedule/overcommit.h. */
struct claim {
    struct need need;    /* the grant, */
    struct need most;    /* and all that the entry can need there */
    uint32_t n_expected; /* output tokens that need covers */
    uint32_t block_tokens,
        window_pages; /* the place's, if it has all layers */
    bool grows;       /* most takes more pages than need */
};

struct queue_entry {
    struct list queue; /* in model->waiting */
    struct model *model;
    uint64_t number;   /* order of arrival, over all models */
    uint64_t n_tokens; /* prompt + max_tokens; these are set before it is */
    uint32_t n_prompt, n_generated; /* added: tokens to compute at a place */
    bool uncached;                  /* nothing is reused for it */
    struct prefix_prompt *prompt;   /* its request's */
    struct worker *keeper;          /* the only place for it; NULL: any */
    uint32_t n_kept;                /* tokens that the keeper has of it */
    struct worker *computing;       /* routing.h; NULL: no charge */
    uint64_t n_computing;           /* the charge there */
    struct routing_record *record;  /* the places at its grant; NULL: none */
    bool ran; /* granted before, or resumed by its client */
    struct trial trial;
    struct worker *charged;   /* place charged by headroom.h; NULL: none */
    struct need charge;       /* the charge at that place */
    struct claim claim;       /* its newest grant's */
    struct worker *committed; /* place charged with the claim; NULL: none */
};

struct policy_ops;
struct schedule;

struct schedule_events {
    /* Grants e its need at w.  Any status but ST_OK: the link is full and
     * nothing was done. */
    enum status (*grant)(void *above, struct queue_entry *e, struct worker *w);
    /* The keeper of e has no room for it now.  The callee may clear
     * e->keeper. */
    void (*crowded)(void *above, struct queue_entry *e);
};

struct schedule {
    struct router_base *base;
    struct fleet *fleet;
    const struct policy_ops *policy;
    uint32_t n_waiting; /* entries in all queues */
    uint64_t n_runs;    /* runs of all queues */
    struct prefixes prefixes;
    const struct schedule_events *events;
    void *above; /* first argument of the events */
};

#endif
