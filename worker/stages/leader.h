/* leader.h - the stage that leads: what goes round the ring, and what comes
 * back.
 *
 * A leader decides all that a worker of the whole model decides.  What it does
 * with its own sequences and plans it tells the other stages in one ordered
 * stream (worker/stages/assembly.h sends it), and takes back what they made of
 * it:
 *
 *     Submit             Open, of a refused one void
 *     SubmitPart         OpenPart, if the last stage penalises
 *     the engine's plan  Forward --> Result: tokens, or why its rows failed
 *     a release          Remove  --> Remove: what each stage has freed
 *
 * Remove goes out when no plan that names the sequence is with the engine any
 * more, so every Forward that names it is before it; it comes back after their
 * Results.  Until then the sequence is RELEASING, though its own memory is free
 * as soon as its plans are back.  Nothing is adopted: one that is submitted
 * again starts anew, under a grant of its own at every stage.
 *
 * What comes is of an assembly that is up, and is checked: Results in the
 * order of Forwards, columns as long as the rows say and as wide as was asked
 * for, ids of the vocabulary, Removes that were sent.  What is wrong breaks
 * the assembly (assembly_break()).
 *
 * Threading, memory: the core's. */
#ifndef WORKER_STAGES_LEADER_H
#define WORKER_STAGES_LEADER_H

#include "common/base/status.h"
#include "proto/stage.pb-c.h"
#include "proto/worker.pb-c.h"

struct batch;
struct sequence;
struct worker_core;

/* ---- for assembly.c ---- */

/* The assembly is up: nothing is under way yet. */
void leader_begin(struct worker_core *w);
/* It is over.  What is under way past this stage never comes back; the caller
 * drops all sequences next. */
void leader_over(struct worker_core *w);

void leader_recv_result(struct worker_core *w,
                        const Sluice__V1__StageResult *m);
void leader_recv_remove(struct worker_core *w,
                        const Sluice__V1__StageRemove *m);

/* ---- for the core; no-ops of a worker that leads nothing ---- */

/* May this Submit come here: with grants of the other stages to a leader,
 * without to a worker of all layers? */
MUST_CHECK enum status leader_check(const struct worker_core *w,
                                    const Sluice__V1__SubmitRequest *m,
                                    struct error *e);

/* The Submit has become s; or it was refused. */
void leader_open(struct worker_core *w, struct sequence *s,
                 const Sluice__V1__SubmitRequest *m);
void leader_void(struct worker_core *w, const Sluice__V1__SubmitRequest *m);

/* More ids of s, from `offset` on. */
void leader_ids(struct worker_core *w, const struct sequence *s,
                uint32_t offset, const uint32_t *ids, size_t n);

/* s is RELEASING: tell the others, now or when no plan here names it. */
void leader_remove(struct worker_core *w, struct sequence *s);

/* Of a leader: w->result is of this plan, the oldest here. */
void leader_pass(struct worker_core *w, const struct batch *t);

#endif
