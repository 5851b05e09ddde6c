/* trial.h - Trials: which sequence makes workers die.
 *
 *            a death, fewer than TRIAL_TOKENS tokens from there
 *   free ------------------------------------------------------> suspect
 *     ^                                                           |   ^
 *     |                       granted, as the only suspect there  |   | death,
 *     |                                                           v   | charged
 *     +---- TRIAL_TOKENS tokens, or its end ---------------- on trial
 *                                                              |
 *            TRIAL_DEATHS deaths plus mercy: ABORTED <---------+
 *
 * Tokens count since the sequence was granted at that place.  A sequence that
 * crashes its worker at one position generates none at its second worker,
 * however many it has.  A sequence whose ids have not all been sent cannot have
 * run and is no suspect.
 *
 * Free sequences run beside the one on trial.  If the worker dies, the sequence
 * on trial is charged, and those beside it become suspects as after any death.
 * One death on trial may be chance and indicts no sequence.
 *
 * Mercy: where workers die for another reason, a death is weak evidence against
 * the sequence on trial.  Each death of its model's workers in the last
 * TRIAL_WINDOW_US in which the sequence did not take part adds one to the
 * deaths that it takes to indict it, up to TRIAL_MERCY_MAX.  Deaths for which
 * another sequence has been indicted do not count.
 *
 * A worker is in doubt if its lineage died last with this suspect, or if it is
 * on probation (router/fleet/lineage.h).  A suspect does not go to a worker in
 * doubt while another worker that could hold it is up: otherwise a worker that
 * crashes for its own reasons would get an innocent sequence indicted.  Every
 * stage of a replica counts: a place is in doubt if any of its stages is.
 *
 * A reported death may turn out to be none: the worker reconnects as the same
 * life.  The router then takes back that death, with its effects on sequences
 * that are still suspects.  Later deaths of other workers still count.  A
 * sequence that is then found alive at its worker stays a suspect, and is on
 * trial there.
 *
 * Threading: the core's thread only.  Memory: part of choices and workers; no
 * call allocates.  Limits: TRIAL_* in router/base/router_limits.h. */
#ifndef ROUTER_SCHEDULE_TRIAL_H
#define ROUTER_SCHEDULE_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "router/fleet/models.h"

struct queue_entry;
struct schedule;
struct worker;

/* The trial state of one sequence. */
struct trial {
    uint32_t n_at_grant; /* tokens generated when granted at its place */
    uint32_t n_deaths;   /* deaths while on trial */
    uint32_t aboard;     /* bit i: it ran at death i of the ring */
    bool suspect;
    bool aside;    /* found alive at a place with another on trial */
    bool indicted; /* the newest death reached the limit */
    /* Lives of the workers that died: of the death that made it a suspect, and
     * of n_deaths. lineage: of the newest; 0: none. */
    uint64_t lives[TRIAL_DEATHS_ALL + 1], lineage;
    struct worker *at; /* place of its trial; NULL: not on trial */
};

/* Returns true if the rules of trials allow to grant e at w. */
bool trial_allows(const struct schedule *s, const struct worker *w,
                  const struct queue_entry *e);

/* Returns true if e waits for its trial and not for room.  Entries behind it in
 * the queue may then go first. */
bool trial_waits(const struct schedule *s, const struct queue_entry *e);

/* Starts to count the tokens of e, granted at w with n_generated tokens so far.
 * A suspect is on trial from here. */
void trial_granted(struct worker *w, struct queue_entry *e,
                   uint32_t n_generated);

/* Clears a suspect e that has n_generated tokens now, if these suffice; clears
 * e at its end; ends the trial of e, which has left its place. */
void trial_made(struct schedule *s, struct queue_entry *e,
                uint32_t n_generated);
void trial_ended(struct schedule *s, struct queue_entry *e);
void trial_left(struct schedule *s, struct queue_entry *e);

/* Returns true if e, with n_generated tokens now, generated enough at its place
 * to be no suspect. */
bool trial_proven(const struct queue_entry *e, uint32_t n_generated);

/* Records the death of w in the ring of its model.  Returns the number of its
 * bit in trial.aboard. */
uint32_t trial_remember(struct schedule *s, struct worker *w);

/* Counts the death of w, where e ran. e becomes a suspect; with tried (it was
 * on trial there) it has one death more. */
void trial_count(struct schedule *s, const struct worker *w,
                 struct queue_entry *e, bool tried);

/* Returns true if e was on trial at enough deaths to be ended. */
bool trial_indicted(const struct queue_entry *e);

/* Removes the deaths for which e is indicted from the ring: they are no mercy
 * for other sequences. */
void trial_explain(const struct queue_entry *e);

/* Takes back the death of w: e waits and is found alive at w, which is about to
 * get it.  If another sequence is on trial at w, e keeps its other deaths but
 * is not tried, since only one can be on trial at a place. */
void trial_found(struct schedule *s, const struct worker *w,
                 struct queue_entry *e);

/* Undoes the death of the worker of this life, which has not died after all: in
 * the trial of e, and in the rings of all models. */
void trial_absolve(struct schedule *s, struct queue_entry *e, uint64_t life);
void trial_forget(struct schedule *s, uint64_t life);

#endif
