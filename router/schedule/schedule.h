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
#include "router/placement/trial.h"
#include "router/schedule/costs.h"
#include "router/schedule/length_groups.h"
#include "router/schedule/prefixes.h"

struct routing_record;

/* The grant of an entry at a place: router/schedule/claims.h. */
struct claim {
    struct need need;     /* the grant, */
    struct need expected; /* its probable need there, */
    struct need most;     /* and all that it can need */
    uint32_t n_expected;  /* output tokens that `expected` covers */
    uint32_t block_tokens, window_pages; /* the place's, if it has all layers */
    bool grows;                          /* most takes more pages than need */
};

/* Work of entries that wait: router/schedule/predict.h. */
struct work {
    uint64_t n_prompt, n_output; /* tokens */
    uint64_t cost;               /* turn.cost */
};

/* Among the entries of a tenant, earlier tiers go first: fair.h. */
enum fair_tier { TIER_PRIORITY, TIER_DEFAULT, TIER_FLEX, FAIR_TIERS };

/* When it is the turn of an entry: fair.h. */
struct turn {
    enum fair_tier tier; /* set before the entry is added */
    uint32_t cost;       /* tokens, and */
    uint32_t unit;       /* the time of each on the clock of the queue */
    uint64_t start;      /* on that clock */
    uint64_t number;     /* order of arrival, over all models */
};

/* Tokens that a sequence has to compute. */
struct backlog {
    struct worker *at; /* the place charged with them; NULL: none */
    uint64_t n;
};

/* The place that is kept for the first of a queue: router/schedule/bypass.h. */
struct wait {
    uint64_t place;   /* session of it; 0: none */
    int64_t until_us; /* others may go ahead; 0: it was never first */
    uint64_t elders;  /* grants at the place before it was kept */
};

/* The needs of an entry that goes on from another sequence. */
struct continued {
    uint32_t n_kept; /* tokens that the keeper has of it */
    uint32_t minor;  /* least version of its place; 0: any */
};

struct queue_entry {
    struct list queue; /* in model->waiting */
    struct work work;  /* as it is counted in model_scheduling.waiting */
    struct model *model;
    uint32_t tenant; /* slot of base.tenant_names; set before it is added */
    struct group_ref group; /* likewise: its route */
    struct turn turn;       /* in its queue */
    uint64_t n_tokens; /* prompt + max_tokens; these are set before it is */
    uint32_t n_prompt, n_generated; /* added: tokens to compute at a place */
    bool uncached;                  /* nothing is reused for it */
    bool guaranteed;                /* granted all that it can need */
    struct prefix_prompt *prompt;   /* its request's */
    struct worker *keeper;          /* the only place for it; NULL: any */
    struct continued continued;
    struct backlog computing;      /* routing.h */
    struct routing_record *record; /* the places at its grant; NULL: none */
    bool ran; /* granted before, or resumed by its client */
    struct trial trial;
    struct worker *charged;   /* place charged by headroom.h; NULL: none */
    struct need charge;       /* the charge at that place */
    struct claim claim;       /* its newest grant's */
    struct worker *committed; /* place charged with the claim; NULL: none */
    struct list granted;      /* in charges_of(committed)->granted */
    uint32_t n_made;          /* tokens that it has there, */
    uint32_t n_seen;          /* and had in the forecast */
    bool was_suspended;       /* ever */
    bool begun;               /* counted in lengths_for() */
    uint64_t order;           /* place among the grants at `committed` */
    struct wait wait;         /* as the first of its queue */
    uint64_t quota;           /* tokens charged to its tenant: quota.h */
};

/* Returns the tokens that e may generate. */
static inline uint32_t entry_max_tokens(const struct queue_entry *e)
{
    return (uint32_t)(e->n_tokens - e->n_prompt);
}

/* The pages that a place will need, router/schedule/forecast.h: the change of
 * what its sequences hold at each horizon, in pages times LENGTHS_ONE, and its
 * variance in pages^2 times LENGTHS_ONE. */
#define FORECAST_HORIZONS 30

struct forecast {
    bool made;
    uint64_t n_since; /* tokens that its sequences got since */
    int64_t mean[FORECAST_HORIZONS];
    uint64_t variance[FORECAST_HORIZONS];
    uint64_t greatest;  /* pages by which all can grow together */
    struct need growth; /* by which all are expected to */
};

/* The inputs of the forecast of one sequence. */
struct forecast_key {
    const struct lengths *lengths;
    uint64_t version; /* theirs */
    uint64_t held;
    const void *replica;
    uint32_t n_prompt, n, max_tokens;
    uint32_t block_tokens, pages_per_block, pages_per_slot;
    uint32_t window_tokens, window_pages, chunk_tokens;
};

/* The newest one of a model: equal places ask the same. */
struct forecast_memo {
    struct forecast_key key;
    struct forecast one;
};

/* The scheduler's part of a place. */
struct place_charges {
    struct need load;  /* blocks, window blocks and slots of n_load sequences */
    uint32_t n_load;   /* sequences counted by headroom.h */
    uint64_t greatest; /* pages that its sequences need at most */
    uint64_t n_late; /* grants that may have cost a first one time: bypass.h */
    struct list granted;      /* queue_entry.granted */
    uint32_t n_granted;       /* entries of it */
    uint64_t n_ever;          /* entries that were ever in it */
    struct forecast forecast; /* for them */
    uint64_t n_backlog;    /* tokens to compute before the first tokens of the
                            * sequences granted here: routing.h */
    uint64_t n_computed;   /* those that steps have computed since */
    uint32_t n_computing;  /* sequences to which they belong */
    struct costs costs;    /* shown by its steps */
    struct step_cost cost; /* from them; chunk 0: as of its siblings */
    uint64_t reserved;     /* run of the queue in which its room is kept for a
                            * sequence that only this place can continue */
};

static inline struct place_charges *charges_of(const struct worker *w)
{
    return w->parts[PART_SCHEDULE];
}

/* The clock of a queue, and the ends and newest starts of the tiers of its
 * tenants on it: router/schedule/fair.h. */
struct fairness {
    uint64_t clock, latest; /* latest: the largest end */
    uint64_t end[FAIR_TIERS][METRIC_SLOTS];
    uint64_t start[FAIR_TIERS][METRIC_SLOTS];
    uint32_t unit[METRIC_SLOTS];      /* newest turn.unit; 0: none came */
    uint32_t n_waiting[METRIC_SLOTS]; /* entries in the queue */
    uint64_t weights;                 /* sum over the tenants that have any */
};

/* The bytes of a token in texts: overload.h. */
struct text_ratio {
    uint64_t bytes, tokens;
};

/* The newest refusal of a tenant, and its credit: router/schedule/retries.h. */
struct retry_state {
    bool begun;
    enum fair_tier tier;
    uint32_t credit; /* in percent of a retry */
    int64_t until_us, limit_us;
    int64_t probe_us,
        interval_us; /* when the next one is judged; between two */
    uint64_t n_tokens;
};

/* The scheduler's part of a model. */
struct model_scheduling {
    bool begun;      /* lengths and margin have their first values */
    uint32_t margin; /* router/schedule/forecast.h */
    struct length_groups lengths; /* the outputs of the model */
    struct fairness fairness;
    struct forecast_memo memo; /* router/schedule/forecast.h */
    struct costs costs;        /* shown by the steps of all its places */
    struct work waiting;       /* all work in its queue: predict.h */
    bool blocked; /* the last run of its queue left some without room */
    uint64_t n_granted, n_compute; /* tokens of the newest grants, and those of
                                    * them that were to compute */
    struct text_ratio text;        /* overload.h */
    struct retry_state retries[METRIC_SLOTS];
    bool headroom_off; /* logged that options.headroom has no effect */
};

/* Returns the scheduler's part of m, borrowed. */
struct model_scheduling *scheduling_of(const struct model *m);

/* Returns the lengths of all sequences of m, borrowed. */
static inline struct lengths *lengths_of(const struct model *m)
{
    return &scheduling_of(m)->lengths.model;
}

/* Returns the lengths by which e is judged, those of its group, borrowed. */
static inline struct lengths *lengths_for(const struct queue_entry *e)
{
    return length_groups_lengths(&scheduling_of(e->model)->lengths, e->tenant,
                                 &e->group);
}

/* The units of each class that a place has left for entries which go ahead of
 * the first that waits, and cost it no time: router/schedule/bypass.h. */
struct spare {
    uint64_t n_ever; /* place_charges.n_ever when it was measured */
    bool any;        /* there are elders */
    int64_t of[FLEET_CLASSES];
    uint64_t elder[FLEET_CLASSES]; /* the least that one of them can need */
};

/* The first entry of a run that has no room: router/schedule/bypass.h. */
struct reservation {
    const struct queue_entry *entry; /* NULL: none yet */
    struct worker *place;            /* kept for it; NULL: none */
    struct claim claim;              /* its grant there */
    uint32_t at;                     /* horizon from which on it fits */
    bool over;                       /* past its time */
    struct spare spare;              /* at the place, for others past it */
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
    /* e, the first that waits for room in this run of a queue, has none. */
    void (*short_of_room)(void *above, const struct queue_entry *e);
};

struct schedule {
    struct router_base *base;
    struct fleet *fleet;
    const struct policy_ops *policy;
    uint32_t n_waiting;                 /* entries in all queues */
    uint64_t n_runs;                    /* runs of all queues */
    struct reservation first;           /* in this run */
    uint64_t refused_now, refused_most; /* least tokens without room in it */
    struct placement *placement;
    const struct schedule_events *events;
    void *above; /* first argument of the events */
};

#endif
