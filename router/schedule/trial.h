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
#ifndef ROUTER_SCHEDULE_TRIAL_H
#define ROUTER_SCHEDULE_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "router/fleet/models.h"

struct queue_entry;
struct schedule;
struct worker;

/* Of a sequence. */
struct trial {
    uint32_t n_at_grant; /* generated before, where it is now */
    uint32_t n_deaths;   /* while on trial */
    uint32_t aboard;     /* bit i: it ran where death i of the ring was */
    bool suspect;
    bool aside;    /* it was found alive beside the one on trial */
    bool indicted; /* the newest death was one too many */
    /* Lives of the workers of the death that made it a suspect, and of
     * n_deaths; and the lineage of the newest, 0: none. */
    uint64_t lives[TRIAL_DEATHS_ALL + 1], lineage;
    struct worker *at; /* where it is on trial, NULL: nowhere */
};

/* May w be granted e, as far as trials go? */
bool trial_allows(const struct schedule *s, const struct worker *w,
                  const struct queue_entry *e);

/* Does e wait for its trial, and not for room?  Then what is behind it in the
 * queue may go first. */
bool trial_waits(const struct schedule *s, const struct queue_entry *e);

/* e, with n_generated tokens, is granted at w. */
void trial_granted(struct worker *w, struct queue_entry *e,
                   uint32_t n_generated);

/* e has n_generated tokens now; it has ended; it has left its place. */
void trial_made(struct schedule *s, struct queue_entry *e,
                uint32_t n_generated);
void trial_ended(struct schedule *s, struct queue_entry *e);
void trial_left(struct schedule *s, struct queue_entry *e);

/* Has e made tokens enough at its place to be no suspect? */
bool trial_proven(const struct queue_entry *e, uint32_t n_generated);

/* Takes w's death into the ring of its model: its bit in trial.aboard. */
uint32_t trial_remember(struct schedule *s, struct worker *w);

/* e ran at w, which died: it is a suspect, or, if it was on trial there
 * (tried), has one death more. */
void trial_count(struct schedule *s, const struct worker *w,
                 struct queue_entry *e, bool tried);

/* Has e been on trial at as many deaths as end it? */
bool trial_indicted(const struct queue_entry *e);

/* The deaths that e is blamed for say nothing in favour of others. */
void trial_explain(const struct queue_entry *e);

/* e waits, and is found alive at w, which is to have it: the death of w was
 * none.  Where another is on trial e keeps its other deaths, but is not tried:
 * two cannot be. */
void trial_found(struct schedule *s, const struct worker *w,
                 struct queue_entry *e);

/* The worker of this life has not died after all: takes its death back, of
 * one entry; of the rings of all models. */
void trial_absolve(struct schedule *s, struct queue_entry *e, uint64_t life);
void trial_forget(struct schedule *s, uint64_t life);

#endif
