/* suspend.h - Sequences that outgrow their grants, and those that make room.
 *
 * A sequence that `grows` was granted what it is expected to use.  When it has
 * used that up, it is granted one block at a time: free pages, then cached
 * ones. If there are none, the growing sequence that loses least is suspended:
 *
 *     QUEUED, PREFILL, DECODE
 *         | chosen: it gets no more rows (the list `leaving`)
 *         v its plans have returned
 *     SUSPENDED: holds no page of the pool; its grant is given back
 *         |   by swap       its slot and blocks are copied to host pages
 *         |   by recompute  nothing is kept but its ids
 *         v all before it in the line are back, and what it needs is free
 *     QUEUED (recompute), PREFILL, DECODE (swap)
 *
 * - The loss is the time to copy its pages out and in, or to compute its
 *   positions again, whichever is less, at the rates measured so far.
 * - The last victim is spared while there is another one.  A sequence that was
 *   granted its whole need is never a victim.
 * - A block that the index has and another table names is not copied: it is
 *   found again in the index, or else the sequence is computed again.
 * - Copies out go with the next plan, before anything can write their pages.
 *   Copies in go with the sequence's first row.
 * - While sequences wait here, a Submit waits too.  One with a whole need
 *   suspends others and goes first; a growing one waits behind all that have
 *   run, because nothing is wasted by that.
 * - Sequences come back with the blocks that they are expected to use, and one
 *   block is left for each sequence that grows meanwhile.
 *
 * Tokens never change: a swap brings back the same bits, and positions are
 * computed again as the rows that they were.  Every ending takes its usual
 * path.
 *
 * Without a growing sequence nothing of this happens.
 *
 * Threading, memory: the core's.  Limits: a swap has at most SWAP_PAGES_MAX
 * pages, less those of a slot; larger sequences are computed again. */
#ifndef WORKER_SEQUENCES_SUSPEND_H
#define WORKER_SEQUENCES_SUSPEND_H

#include "proto/worker.pb-c.h"
#include "worker/plan/batch.h"

struct sequences;

struct suspend {
    struct sequence_list leaving; /* victims that plans in flight name */
    struct sequence_list line;    /* SUSPENDED: whole needs, then those that
                                   * have run, then others; each by arrival */
    uint64_t last;                /* the number of the last victim */
    /* Measured; a plan with copies is compared with those without. */
    double page_us, token_us, step_us;
};

void suspend_init(struct sequences *q);

/* Grants more to sequences that need it, suspends and resumes.  Called before
 * each plan. */
void suspend_turn(struct sequences *q);

/* Checks a Submit that grows.  Returns ST_INVALID_ARGUMENT if the most that it
 * can use does not fit into the pool, or this worker is a stage. */
MUST_CHECK enum status suspend_check(const struct sequences *q,
                                     const Sluice__V1__SubmitRequest *m,
                                     struct error *e);

/* Returns whether the Submit of s may take free pages at once: no sequence
 * waits for pages. */
bool suspend_is_idle(const struct sequences *q);

/* Reads from a Submit the need of s, which it makes. */
void suspend_open(struct sequences *q, struct sequence *s,
                  const Sluice__V1__SubmitRequest *m);

/* Lets s wait for its need, which is not free.  Returns false if nothing here
 * grows, and e is as it was, or, with a sentence in e, if the pool is too
 * small. */
MUST_CHECK bool suspend_admit(const struct sequences *q, struct sequence *s,
                              const struct pool_need *need, struct error *e);

/* Puts s, which waits and whose ids have all come, into the line.  Returns the
 * kept sequence that s continues, for the caller to release, or NULL: it may
 * hold the very pages that s waits for, and the accepted Submit has ended it
 * for the router.  s is computed as any other. */
MUST_CHECK struct sequence *suspend_enter(struct sequences *q,
                                          struct sequence *s);

/* Copies what s has to the host tier, but for what it leaves to the index, with
 * the next plan; s keeps its pages until the caller gives them back.  Returns
 * false, with nothing changed, if the tier or the plan has no room. */
MUST_CHECK bool suspend_store(struct sequences *q, struct sequence *s);

/* Measures a plan that succeeded. */
void suspend_learn(struct sequences *q, const struct batch *t);

/* The engine refused the plan of that step, and its copies with it. */
void suspend_lost(struct sequences *q, uint64_t step);

#endif
