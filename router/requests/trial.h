/* trial.h - which sequence a worker died of.
 *
 *             a death, fewer than TRIAL_TOKENS tokens from there
 *     free  -----------------------------------------------------> suspect
 *      ^                                                        |       ^
 *      |                      granted, the only one of its kind |       |
 * death, |                                                        v       |
 * charged
 *      +---- TRIAL_TOKENS tokens, or its end ------------------ on trial
 *                                                               |
 *            TRIAL_DEATHS of them, and mercy: ABORTED <---------+
 *
 * The tokens that count are those since it was granted there: a sequence that
 * dies at one position makes none at its second worker, however many it has.
 * One whose ids have not all left cannot have run and is no suspect.
 *
 * Free sequences run beside the one on trial; if the worker dies, that one is
 * charged and those beside it become suspects as after any death.  One death
 * on trial may be chance and does not indict.
 *
 * Mercy.  Where workers die of something else, a death says little of the one
 * on trial: each death of its model's workers in the last TRIAL_WINDOW_US that
 * it had no part in takes one more to indict it, TRIAL_MERCY_MAX at most; not
 * those that another has been indicted for.
 *
 * A suspect does not go where there is doubt already, to a lineage that died
 * with it last or one on probation (router/fleet/lineage.h), as long as another
 * worker that could hold it is up: a worker that dies of itself would have an
 * innocent one indicted.  Of a replica every stage counts: the
 * worker that died is in doubt, and so is whatever it is a stage of.
 *
 * A death that was none (the worker comes back as the life that it was) is
 * taken back, with what it made of sequences that still are suspects.  The
 * deaths of other workers since still count: one that is then found alive
 * where it was stays a suspect, and is on trial there.
 *
 * Threading: the core's.  Memory: inside requests and workers.  Limits:
 * below. */
#ifndef ROUTER_REQUESTS_TRIAL_H
#define ROUTER_REQUESTS_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "router/router_limits.h"

struct model;
struct choice;
struct router_core;
struct worker;

#define TRIAL_DEATHS_ALL (TRIAL_DEATHS + TRIAL_MERCY_MAX)
/* Deaths remembered: those of one on trial, as many as it may get, and as many
 * more as there is mercy. */
#define TRIAL_RING 16

/* The newest deaths of a model's workers. */
struct deaths {
    int64_t at_us[TRIAL_RING]; /* INT64_MIN: none, or taken back */
    uint64_t life[TRIAL_RING];
    uint64_t n; /* the next one is at n % TRIAL_RING */
};

/* Of a sequence. */
struct trial {
    uint32_t n_at_grant; /* generated before, where it is now */
    uint32_t n_deaths;   /* while on trial */
    uint32_t aboard;     /* bit i: it ran where death i of the ring was */
    bool suspect;
    bool aside;    /* it was found alive beside the one on trial */
    bool indicted; /* the newest death was one too many */
    /* Of the workers of the death that made it one, and of n_deaths; and the
     * lineage of the newest, 0: none. */
    uint64_t lives[TRIAL_DEATHS_ALL + 1], lineage;
};

void deaths_init(struct deaths *d);

/* May w be granted choice, as far as trials go? */
bool trial_allows(const struct router_core *r, const struct worker *w,
                  const struct choice *choice);

/* Does choice wait for its trial, and not for room?  It steps aside then: what
 * is behind it in the queue may go first. */
bool trial_waits(const struct router_core *r, const struct choice *choice);

/* It got a place; it made tokens; it has ended; it has left its place. */
void trial_granted(struct worker *w, struct choice *choice);
void trial_made(struct router_core *r, struct choice *choice);
void trial_ended(struct router_core *r, struct choice *choice);
void trial_left(struct router_core *r, struct choice *choice);

/* w has died: sort the sequences of its place, itself or the leader of its
 * replica, into free ones and suspects.  Before they are displaced.  True: one
 * was on trial and is charged. */
bool trial_death(struct router_core *r, struct worker *w);

/* Is it to end, with how many deaths; and: end it so.  Its generation may be
 * gone after it. */
bool trial_indicted(const struct choice *choice);
void trial_indict(struct router_core *r, struct choice *choice,
                  const char *why);

/* It waits, and is found alive at w, which is to have it: the death of w was
 * none.  Where another is on trial it keeps its other deaths, but is not
 * tried: two cannot be. */
void trial_found(struct router_core *r, const struct worker *w,
                 struct choice *choice);

/* The worker of this life has not died: absolve whom its death charged. */
void trial_alive(struct router_core *r, uint64_t life);

#endif
