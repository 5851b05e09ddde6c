/* leader.h - the stage that leads: what comes back to it around the ring.
 *
 * A leader decides all that a worker of the whole model decides; its Submits
 * become Opens, its plans Forwards, its releases Removes (worker/assembly.h
 * sends them), and what the last stage made of them comes here.  Messages are
 * those of an assembly that is up; what is wrong with one breaks it
 * (assembly_break()).
 *
 * Threading, memory: the core's. */
#ifndef WORKER_LEADER_H
#define WORKER_LEADER_H

#include "proto/stage.pb-c.h"

struct worker_core;

/* The assembly is up: nothing is under way yet. */
void leader_begin(struct worker_core *w);
/* It is over.  What is under way past this stage never comes back; the caller
 * drops all sequences next. */
void leader_over(struct worker_core *w);

void leader_recv_result(struct worker_core *w,
                        const Sluice__V1__StageResult *m);
void leader_recv_remove(struct worker_core *w,
                        const Sluice__V1__StageRemove *m);

#endif
