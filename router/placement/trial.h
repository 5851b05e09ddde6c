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
#ifndef ROUTER_PLACEMENT_TRIAL_H
#define ROUTER_PLACEMENT_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "router/fleet/models.h"

struct placement;
struct worker;

#define TRIAL_DEATHS_ALL (TRIAL_DEATHS + TRIAL_MERCY_MAX)
/* Deaths kept per model: at least TRIAL_DEATHS_ALL of a sequence on trial and
 * TRIAL_MERCY_MAX beside it. */
#define TRIAL_RING 16

/* The newest deaths of a model's workers, as a ring. */
struct deaths {
    int64_t at_us[TRIAL_RING]; /* INT64_MIN: taken back */
    uint64_t life[TRIAL_RING]; /* WorkerShard.life of the worker that died */
    uint64_t n;                /* the next death goes to n % TRIAL_RING */
};

/* Returns the room's part of a model. */
static inline struct deaths *deaths_of(const struct model *m)
{
    return m->parts[PART_PLACEMENT];
}

/* The states of the picture above.  ASIDE: a suspect, found alive at a place
 * with another on trial.  INDICTED: its newest death reached the limit. */
enum trial_state {
    TRIAL_FREE,
    TRIAL_SUSPECT,
    TRIAL_ASIDE,
    TRIAL_TRIED,
    TRIAL_INDICTED,
    TRIAL_STATES
};

/* The trial of one sequence. */
struct trial {
    enum trial_state state;
    struct model *model; /* the sequence's */
    uint32_t n_at_grant; /* tokens generated when granted at its place */
    uint32_t n_deaths;   /* deaths while on trial */
    uint32_t aboard;     /* bit i: it ran at death i of the ring */
    /* Lives of the workers that died: of the death that made it a suspect, and
     * of n_deaths. lineage: of the newest; 0: none. */
    uint64_t lives[TRIAL_DEATHS_ALL + 1], lineage;
    struct worker *at; /* place of its trial; NULL: not on trial */
};

static inline bool trial_suspected(const struct trial *t)
{
    return t->state != TRIAL_FREE;
}

/* Returns true if the rules of trials allow to grant a sequence of n_tokens
 * tokens at w. */
bool trial_allows(const struct placement *x, const struct worker *w,
                  const struct trial *t, uint64_t n_tokens);

/* Returns true if such a sequence waits for its trial and not for room.
 * Sequences behind it in the queue may then go first. */
bool trial_waits(const struct placement *x, const struct trial *t,
                 uint64_t n_tokens);

/* Starts to count the tokens of t, granted at w with n_generated tokens so far.
 * A suspect is on trial from here. */
void trial_granted(struct worker *w, struct trial *t, uint32_t n_generated);

/* Clears a suspect that has n_generated tokens now, if these suffice; clears it
 * at its end; ends its trial when it has left its place. */
void trial_made(struct placement *x, struct trial *t, uint32_t n_generated);
void trial_ended(struct placement *x, struct trial *t);
void trial_left(struct placement *x, struct trial *t);

/* Returns true if t, with n_generated tokens now, generated enough at its place
 * to be no suspect. */
bool trial_proven(const struct trial *t, uint32_t n_generated);

/* Records the death of w in the ring of its model.  Returns the number of its
 * bit in trial.aboard. */
uint32_t trial_remember(struct placement *x, struct worker *w);

/* Counts the death of w, where t ran. t becomes a suspect; with tried (it was
 * on trial there) it has one death more. */
void trial_count(struct placement *x, const struct worker *w, struct trial *t,
                 bool tried);

/* Returns true if t was on trial at enough deaths to be ended. */
bool trial_indicted(const struct trial *t);

/* Removes the deaths for which t is indicted from the ring: they are no mercy
 * for other sequences. */
void trial_explain(const struct trial *t);

/* Takes back the death of w: t waits and is found alive at w, which is about to
 * get it.  If another sequence is on trial at w, t keeps its other deaths but
 * is not tried, since only one can be on trial at a place. */
void trial_found(struct placement *x, const struct worker *w, struct trial *t);

/* Undoes the death of the worker of this life, which has not died after all: in
 * the trial t, and in the rings of all models. */
void trial_absolve(struct placement *x, struct trial *t, uint64_t life);
void trial_forget(struct placement *x, uint64_t life);

#endif
