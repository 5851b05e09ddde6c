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
 *     a hit, a range,
 *     a continuation     Restore
 *     the prefix index   Keep, Gone
 *
 * Geometry goes first; until it has come around, no plan is made.  The leader
 * then mirrors the accounts of the later stages (mirror.h), and evicts from its
 * index until a Submit fits at every stage.  Everything that changes these
 * accounts is sent in the order in which the leader decides it: Restore when
 * the plan is made, because the index may evict its node before the Forward.
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
#include "worker/stages/mirror.h"

#define LEADER_NAMES_MAX 2048 /* nodes or checkpoints of a Keep or Gone */

/* The columns of a Forward. */
struct forward_columns {
    uint64_t grant[PLAN_ROWS_MAX];
    uint32_t position[PLAN_ROWS_MAX];
    uint32_t count[PLAN_ROWS_MAX];
    uint32_t kind[PLAN_ROWS_MAX];
    uint32_t index[PLAN_ROWS_MAX];
    uint32_t source[PLAN_ROWS_MAX];
    uint32_t save_row[PLAN_ROWS_MAX * PLAN_SAVES_MAX];
    uint32_t save_position[PLAN_ROWS_MAX * PLAN_SAVES_MAX];
    uint32_t save_checkpoint[PLAN_ROWS_MAX * PLAN_SAVES_MAX];
};

/* Nodes that the index has added, for the next Keep. */
struct leader_added {
    uint32_t *node, *parent, *end; /* [capacity] */
    uint32_t n, capacity;
};

/* Names that the index has let go of, for the next Gone. */
struct leader_gone {
    uint32_t node[LEADER_NAMES_MAX], checkpoint[LEADER_NAMES_MAX];
    uint32_t n_nodes, n_checkpoints;
};

/* The leader's part of a sequence, besides struct sequence. */
struct leader_note {
    struct pool_need need; /* at the later stages */
};

struct leader {
    struct sequences *sequences;
    struct assembly *assembly;
    uint64_t first_step; /* results of older plans are ignored */
    struct forward_columns columns;

    /* Reuse: leader_reuse.c. */
    struct mirror mirror;
    bool asked, known;         /* Geometry was sent, has come back */
    struct leader_note *notes; /* [the table's capacity] */
    struct name_map saves;     /* checkpoints: 0 if the stages have it, else the
                                * step whose Forward will save it */
    struct leader_added added;
    struct leader_gone gone;
    const struct sequence *inserted; /* its units are inserted */
    struct pool_need freed;          /* at the stages, by the newest range */
    const struct pool_need *opening; /* need of the Submit that is opened */
};

/* Makes a leader without an assembly.  Both pointers are borrowed. */
void leader_init(struct leader *l, struct sequences *q, struct assembly *a);
void leader_fini(struct leader *l);

/* `self` is the struct leader. */
extern const struct member_ops leader_member;
extern const struct role_ops leader_role;

/* ---- for the files of this module ---- */

/* Sends a message behind what the index has let go of. */
void leader_send(struct leader *l, enum method m,
                 const ProtobufCMessage *message);
/* Sends what the index has let go of. */
void leader_send_gone(struct leader *l);

/* Begin and end reuse with an assembly.  Returns false if memory runs out. */
MUST_CHECK bool leader_reuse_begin(struct leader *l);
void leader_reuse_over(struct leader *l);

struct leader_note *leader_note(const struct leader *l,
                                const struct sequence *s);

/* Sends Geometry, if it has not been sent: before the first Open. */
void leader_ask_geometry(struct leader *l);

/* Record the messages that are about to be sent. */
void leader_mirror_open(struct leader *l, const struct sequence *s,
                        const Sluice__V1__SubmitRequest *m);
void leader_mirror_twins(struct leader *l, const struct batch *t);
void leader_mirror_remove(struct leader *l, const struct sequence *s);

/* Returns whether the stages save that checkpoint with this step: it was
 * reserved for it and not dropped since. */
bool leader_saves(struct leader *l, uint64_t step, uint32_t checkpoint);

void leader_recv_geometry(struct leader *l, const Sluice__V1__StageGeometry *m);

/* Entries of leader_role. */
enum status leader_make_room(void *self, const Sluice__V1__SubmitRequest *m,
                             uint32_t spare, struct error *e);
void leader_restore(void *self, const struct sequence *s,
                    const struct role_restore *r);
uint32_t leader_freed(const void *self, uint32_t *blocks, uint32_t *slots,
                      uint32_t *windows);
void leader_insert(void *self, const struct sequence *s);
void leader_keep(void *self, const struct sequence *s);

#endif
