/* leader.h - The stage that leads a replica: it sends work around the ring and
 * takes back the results.
 *
 * A leader makes all decisions that a worker with the whole model makes.  It
 * passes its sequences and plans to the other stages in one ordered stream
 * (worker/stages/assembly.h), and receives their results:
 *
 *     Submit             Open; a void Open if the Submit was refused
 *     SubmitPart         OpenPart, if the sampling has penalties
 *     the engine's plan  Forward --> Result: tokens, or why its rows failed
 *     a release          Remove  --> Remove: what each stage has freed
 *
 * Remove goes out when no plan at the engine names the sequence, so it follows
 * every Forward that does, and returns after their Results.  Until then the
 * sequence is RELEASING, although its memory here is free as soon as its plans
 * have returned.
 *
 * Messages are accepted only in an assembly that is up, and are checked:
 * Results come in the order of Forwards, columns are as long and as wide as the
 * rows request, ids are in the vocabulary, Removes were sent before.  A wrong
 * message breaks the assembly (assembly_break()).
 *
 * Threading, memory: the core's. */
#ifndef WORKER_STAGES_LEADER_H
#define WORKER_STAGES_LEADER_H

#include "worker/sequences/sequences.h"
#include "worker/stages/assembly.h"

/* The columns of a Forward. */
struct forward_columns {
    uint64_t grant[PLAN_ROWS_MAX];
    uint32_t position[PLAN_ROWS_MAX];
    uint32_t count[PLAN_ROWS_MAX];
    uint32_t kind[PLAN_ROWS_MAX];
    uint32_t index[PLAN_ROWS_MAX];
};

struct leader {
    struct sequences *sequences;
    struct assembly *assembly;
    uint64_t first_step; /* results of older plans are ignored */
    struct forward_columns columns;
};

/* Makes a leader without an assembly.  Both pointers are borrowed. */
void leader_init(struct leader *l, struct sequences *q, struct assembly *a);

/* `self` is the struct leader. */
extern const struct member_ops leader_member;
extern const struct role_ops leader_role;

#endif
