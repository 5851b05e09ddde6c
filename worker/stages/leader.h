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
 *     accepted drafts    Accept
 *
 * Geometry goes first; until it has come around, no plan is made.  The leader
 * then mirrors the accounts of the later stages (mirror.h), and evicts from its
 * index until a Submit fits at every stage.  Everything that changes these
 * accounts is sent in the order in which the leader decides it: Restore when
 * the plan is made, because the index may evict its node before the Forward.
 *
 * Remove goes out when no plan at the engine names the sequence, so it follows
 * every Forward that does, and returns after their Results.  Until then the
 * sequence is RELEASING and keeps its memory here: the router grants from what
 * is free, so the table has a place for each sequence.
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
#include "worker/stages/keeps.h"
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
    uint32_t drafts[PLAN_ROWS_MAX], keep_at[PLAN_ROWS_MAX];
    uint32_t propose[PLAN_ROWS_MAX], next[PLAN_ROWS_MAX];
    uint32_t ids[PLAN_TOKENS_MAX];
    uint32_t accepted[PLAN_ROWS_MAX]; /* Accept's count */
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
    struct pool_need need;    /* at the later stages */
    uint32_t keep_at, n_kept; /* inputs of its row with drafts, until Accept;
                               * 0: none */
};

/* Drafts: leader_drafts.c.  A region is in use from the plan of its row to
 *
 *     Accept of none, Remove, a refused plan
 *     Accept, if this stage has no slot
 *     the next plan here, which replays before its rows, if it has one
 */
struct leader_drafts {
    struct keeps keeps;
    struct plan_replay ready[KEEPS_MAX]; /* [n_ready] for the next plan */
    struct plan_replay taken[KEEPS_MAX]; /* [n_taken] of the newest plan, */
    uint64_t taken_step;                 /* should it not run */
    uint32_t n_ready, n_taken;
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
    struct leader_drafts drafts;
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

/* Begins without drafts, until Geometry has come. */
void leader_drafts_begin(struct leader *l);
/* Makes drafts from now on if each stage can verify them: m has come. */
void leader_drafts_learn(struct leader *l, const Sluice__V1__StageGeometry *m);
/* Frees the region of s, which is removed at the stages. */
void leader_drafts_remove(struct leader *l, const struct sequence *s);
/* Fills the columns of drafts of a Forward. */
void leader_fill_drafts(struct leader *l, const struct batch *t,
                        Sluice__V1__StageForward *m);
/* Sends Accept for the rows with drafts of t, whose result has come; before all
 * else that follows from it. */
void leader_accept(struct leader *l, const struct batch *t);

/* Fills the result as if the engine had returned it.  Returns false, with the
 * assembly broken, if the message is wrong: leader_result.c. */
MUST_CHECK bool leader_take_result(struct leader *l, const struct plan *p,
                                   const Sluice__V1__StageResult *m);

/* Entries of leader_role. */
void leader_replay(void *self, struct plan *p);
uint32_t leader_keep_room(const void *self, const struct batch *t,
                          const struct sequence *s, uint32_t n);
void leader_keep_inputs(void *self, const struct sequence *s,
                        struct plan_row *row);
void leader_refused(void *self, const struct batch *t);
enum status leader_make_room(void *self, const Sluice__V1__SubmitRequest *m,
                             uint32_t spare, struct error *e);
void leader_restore(void *self, const struct sequence *s,
                    const struct role_restore *r);
uint32_t leader_freed(const void *self, uint32_t *blocks, uint32_t *slots,
                      uint32_t *windows);
void leader_insert(void *self, const struct sequence *s);
void leader_keep(void *self, const struct sequence *s);

#endif
