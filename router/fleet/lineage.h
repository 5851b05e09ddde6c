/* lineage.h - Exponential backoff for workers that crash after each restart.
 *
 * A lineage identifies a worker across restarts (WorkerShard.lineage; by
 * default the worker's name).  A life is one run of the worker's process
 * (WorkerShard.life; by default one session).  A life is one of:
 *
 *     barren   the worker died before it generated LIFE_TOKENS tokens, and
 *              none of its sequences ended well
 *     neutral  the worker left with a Goodbye; or it died while a suspect was
 *              on trial, and the suspect is charged (router/placement/trial.h),
 *              because one death is blamed on one cause only
 *     good     any other life; it resets the lineage's count to 0
 *
 * After n consecutive barren lives:
 *
 *     n < 2   the next life is admitted without restrictions
 *     n >= 2  PROBATION: the next life receives no sequence until
 *             min(2^(n-2) s, READMIT_US_MAX), plus up to an eighth of that at
 *             random, have passed since its Hello.  Then it receives one
 *             sequence at a time, until it has generated TRIAL_TOKENS tokens
 *             or a sequence has ended well.
 *
 * A worker that crashes on its own therefore costs at most one sequence per
 * delay.  While all workers of a model are on probation, the model's queue
 * waits; only their own deadlines end the calls in it.
 *
 * A broken session was not a death if the same life sends Hello again.  The
 * router then takes the death back, unless the worker had hung.
 *
 * Threading: the core's.  Memory: a table in struct fleet; no call allocates.
 * Limits: LINEAGES_MAX entries; a new one replaces the one with the oldest
 * death.  An entry expires LINEAGE_QUIET_US after its last death. */
#ifndef ROUTER_FLEET_LINEAGE_H
#define ROUTER_FLEET_LINEAGE_H

#include "proto/registry.pb-c.h"
#include "router/fleet/peers.h"

struct fleet;

/* Whether a life receives sequences.
 *
 *     OPEN --barren lineage--> DELAYED --delay is over--> PROBATION
 *      ^                          |                           |
 *      +----- tokens enough, or a sequence ended well --------+
 *
 * DELAYED: none until `readmit`.  PROBATION: one at a time. */
enum life_state { LIFE_OPEN, LIFE_DELAYED, LIFE_PROBATION, LIFE_STATES };

/* The current life of a worker. */
struct life {
    char lineage[PEER_NAME_MAX + 1];
    uint64_t hash;     /* hash of lineage, not 0 */
    uint64_t number;   /* WorkerShard.life; 0: not given */
    uint32_t n_barren; /* barren lives before this one; 0 once good */
    bool good;         /* the lineage's count was reset */
    enum life_state state;
    struct event readmit; /* end of the readmission delay */
};

/* Starts the life of a new worker from its Hello, and puts w on probation if
 * its lineage requires that.  The peer's lineage is set. */
void lineage_begin(struct fleet *fleet, struct worker *w,
                   const Sluice__V1__WorkerShard *s);

/* Returns true if w is on probation, or waits for it. */
bool lineage_probation(const struct worker *w);

/* Returns true if w receives no sequence until the end of a delay. */
bool lineage_delayed(const struct worker *w);

/* Returns true if the lineage of w lets it receive a sequence now.  n_running
 * is the number of sequences at the place that w is a stage of. */
bool lineage_open(const struct worker *w, uint32_t n_running);

/* Records that the place of w has generated n_tokens tokens in its life so
 * far.  May end the probation and make the life good. */
void lineage_made(struct fleet *fleet, struct worker *w, uint64_t n_tokens);

/* Records that a sequence at the place of w ended well.  Ends the probation
 * and makes the life good. */
void lineage_ended_well(struct fleet *fleet, struct worker *w);

/* Ends the life of w, whose session is over, and counts a death (w->death) in
 * its lineage.  charged: a suspect on trial is blamed for the death, so the
 * life is not barren. */
void lineage_end(struct fleet *fleet, struct worker *w, bool charged);

/* Returns the rest of the readmission delay in ms, rounded up; 0 if there is
 * none. */
uint32_t lineage_readmit_ms(const struct fleet *fleet, const struct worker *w);

#endif
