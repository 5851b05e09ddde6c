/* plan.h - The part of a sequence that follows its rows through plans.
 *
 *     0             n_computed       n_planned
 *     |--computed---|---in flight----|
 *
 *     n_planned is the next position to compute.  While sampled tokens are
 *     being computed, it exceeds the known ids by pending - 1.  A row with
 *     drafts may sample one token more than it has drafts; its result lowers
 *     n_planned by those that were refused.
 *
 * Threading: the core's. */
#ifndef WORKER_SEQUENCE_PLAN_H
#define WORKER_SEQUENCE_PLAN_H

#include <stdint.h>

/* Whether it is computed again after a failed step:
 * worker/sequences/recompute.h. */
enum sequence_recompute {
    RECOMPUTE_NONE,
    RECOMPUTE_WAITS,
    RECOMPUTE_ALONE,
    RECOMPUTE_STATES
};

/* Reasons for positions that are computed twice. */
enum sequence_waste {
    WASTE_SUSPENDED, /* its memory was given to others */
    WASTE_FAILED,    /* its step failed */
    WASTE_MOVED,     /* another worker had computed them */
    SEQUENCE_WASTES
};

struct sequence_plan {
    uint32_t n_planned;  /* positions computed or in flight, drafts included */
    uint32_t n_computed; /* positions restored, or whose results have come */
    uint32_t pending;    /* tokens being sampled by plans in flight, at most */
    uint32_t inflight;   /* plans in flight that name it */
    uint64_t last_step;  /* the newest of these plans, */
    uint32_t last_row;   /* and the row there */
    enum sequence_recompute recompute;
    uint64_t anew_step; /* the newest plan with which it began anew; 0: none */

    uint32_t lost; /* first positions that were computed before, and are not
                    * there when its next row begins */
    enum sequence_waste waste; /* why */
};

struct sequence;

/* Changes the state, unless it is that already; checked against the table of
 * successors, and logged. */
void recompute_move(struct sequence *s, enum sequence_recompute to);

#endif
