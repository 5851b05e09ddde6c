/* worker_state.h - what the files of the worker's core share; nobody else
 * includes it.  worker/worker_core.h is the contract.
 *
 *   core.c      made and freed, session up and down, dispatch
 *   recv_*.c    one message each
 *   ending.c    how a sequence ends, and who is told
 *   leave.c     how the worker goes
 *   orphans.c   what outlives its session
 *   step.c      results of plans
 *   assembly.c, edges.c   a replica of several stages
 *   stage*.c    of which this one obeys
 *   leader.c    or leads
 *   report.c    Report and StepOutput
 *   tick.c      the turn */
#ifndef WORKER_WORKER_STATE_H
#define WORKER_WORKER_STATE_H

#include "common/base/timer.h"
#include "common/wire/session.h"
#include "proto/health.pb-c.h"
#include "proto/registry.pb-c.h"
#include "proto/worker.pb-c.h"
#include "worker/cache/ledger.h"
#include "worker/cache/pool.h"
#include "worker/cache/sequence.h"
#include "worker/engine/watch.h"
#include "worker/metrics.h"
#include "worker/sequences/batcher.h"
#include "worker/stages/assembly.h"
#include "worker/stages/stage.h"
#include "worker/worker_core.h"

#define WAITERS_MAX    PEER_CALLS_MAX
#define INDEX_FORGET   UINT32_MAX /* in Acknowledge */
#define GRANT_ANY      UINT64_MAX
#define WORKER_STEP_US 10000 /* while stopping: look again */
#define AUDIT_TEXT     4096

/* A Cancel or RemoveSequence that waits for the memory to be free. */
struct waiter {
    struct waiter *next;
    uint64_t call;
    int64_t since_us;
    int state;  /* proto's, when it came */
    bool first; /* what is freed is freed by it */
    struct pool_need freed;
};

/* Sequences that were cancelled before they came; the oldest goes.  Several of
 * one name may be on their way: each has its grant. */
struct tombstone {
    struct sequence_key key;
    uint64_t grant; /* GRANT_ANY: the Cancel named none */
};

struct tombstones {
    struct tombstone of[TOMBSTONES_MAX];
    uint32_t first, n;
};

/* Columns of StepOutput. */
struct output {
    uint64_t grant[STEP_ROWS_MAX];
    uint32_t first_index[STEP_ROWS_MAX];
    uint32_t count[STEP_ROWS_MAX];
    uint32_t finish[STEP_ROWS_MAX];
    uint32_t state[STEP_ROWS_MAX];
    uint32_t width[STEP_ROWS_MAX];
    uint32_t tokens[STEP_TOKENS_MAX];
    float logprobs[STEP_LOGPROBS_MAX];
    uint32_t top_tokens[STEP_LOGPROBS_MAX];
    uint32_t n_rows, n_tokens, n_logprobs, n_top_tokens;
    bool has_width; /* of some row it is not 0 */
    bool failed;    /* some row has FINISH_FAILED */
};

/* A worker that is about to go. */
struct leave {
    bool wanted, asked, answered;
    uint32_t grace_ms;
    int64_t end_us; /* it goes then, answered or not */
};

/* Columns of a Forward. */
struct forward_columns {
    uint64_t grant[PLAN_ROWS_MAX];
    uint32_t position[PLAN_ROWS_MAX];
    uint32_t count[PLAN_ROWS_MAX];
    uint32_t kind[PLAN_ROWS_MAX];
    uint32_t index[PLAN_ROWS_MAX];
};

/* Of a worker that leads a replica of several stages (leader.h). */
struct leader {
    uint64_t first_step; /* of this assembly: older plans are nobody's */
    uint32_t stage_us[STAGES_MAX]; /* [n_stage_us] of the newest Result */
    uint32_t n_stage_us;           /* 0: none came yet */
    struct forward_columns columns;
};

/* Columns of Live. */
struct live {
    uint8_t ids[LIVE_ROWS_MAX * REQUEST_ID_BYTES];
    uint32_t choice[LIVE_ROWS_MAX];
    uint32_t n_generated[LIVE_ROWS_MAX];
    uint32_t n;
};

struct worker_core {
    struct worker_options o; /* its strings are ours */
    struct node_io *io;
    uint64_t life; /* says that a new session is no new life */
    struct engine *engine;
    struct arena arena;
    struct session session;
    struct timers timers;

    struct pool pool;
    struct sequence_table table;
    struct ledger ledger;
    struct batcher batcher;
    struct watch watch;
    struct leader leader;
    struct tombstones tombstones;
    struct waiter waiters[WAITERS_MAX];
    struct waiter *free_waiters;
    uint32_t fresh_waiters;

    struct sequence_list out; /* with something to say */
    int64_t reported_us;      /* when the newest ledger went out */
    bool changed;             /* since then */
    bool stepped;             /* a result came in this turn */
    uint64_t step;            /* of the newest result */
    uint32_t device_us, n_prompt_tokens;
    uint64_t n_results;       /* of the engine's plans */
    char failure[ERROR_TEXT]; /* of the newest failed plan */
    struct live live;
    struct worker_metrics metrics; /* but the pool's violations */

    struct assembly assembly;
    struct stage stage; /* of a shard without layer 0 */

    const char *broken; /* why the session must end: in the next tick */
    struct leave leave;
    bool stopping;
    bool failed;  /* the engine is dead */
    bool lost;    /* because its device is */
    bool away;    /* said that the router is */
    bool refused; /* said that it refused us */

    struct ledger_message hello_ledger;
    Sluice__V1__WorkerShard hello_shard;

    /* Last: large, and filled before they are read. */
    struct output output;
    struct plan_result result;
};

/* ---- core.c ---- */

/* The peer of the session; NULL when it is not up or about to end. */
struct peer *worker_peer(struct worker_core *w);

/* The session is beyond repair: Goodbye in the next tick.  why: a literal. */
void worker_break(struct worker_core *w, const char *why);

/* Answer Health/Check. */
void worker_health(struct peer *p, uint64_t call);

/* ---- recv_*.c: one message each.  p is the session's peer. ---- */

void worker_recv_submit(struct worker_core *w, struct peer *p, uint64_t call,
                        const Sluice__V1__SubmitRequest *m);
void worker_recv_submit_part(struct worker_core *w, struct peer *p,
                             const Sluice__V1__SubmitPartMessage *m);
void worker_recv_acknowledge(struct worker_core *w,
                             const Sluice__V1__AcknowledgeMessage *m);
void worker_recv_cancel(struct worker_core *w, struct peer *p, uint64_t call,
                        const Sluice__V1__CancelRequest *m);
void worker_recv_remove(struct worker_core *w, struct peer *p, uint64_t call,
                        const Sluice__V1__RemoveRequest *m);
void worker_recv_disown(struct worker_core *w,
                        const Sluice__V1__DisownMessage *m);
void worker_recv_audit(struct worker_core *w, struct peer *p, uint64_t call);

/* ---- recv_submit.c: shared with recv_submit_part.c and orphans.c ---- */

/* Are all ids below the vocabulary?  e says which is not. */
MUST_CHECK enum status submit_check_ids(const struct worker_core *w,
                                        const uint32_t *ids, size_t n,
                                        uint32_t offset, struct error *e);
/* Is that what a sequence of n_ids needs of this shard?  e says what not. */
MUST_CHECK enum status submit_check_need(const struct worker_core *w,
                                         const struct pool_need *need,
                                         uint32_t n_ids, struct error *e);
/* All ids are here: answer the Submit, join the line. */
void submit_complete(struct worker_core *w, struct peer *p, struct sequence *s);
/* Are lengths and sampling of s those of the Submit?  Ids are not looked at. */
bool submit_is_same(const struct sequence *s,
                    const Sluice__V1__SubmitRequest *m);
/* Can what the router lacks of s, from index `have` on, still be told? */
bool submit_can_tell(const struct sequence *s, uint32_t have);
/* s goes on under the grant of the Submit, told from its have_index on. */
void submit_regrant(struct worker_core *w, struct sequence *s,
                    const Sluice__V1__SubmitRequest *m);

/* ---- ending.c ---- */

/* s ends.  Afterwards s may be gone: do not touch it. */
void worker_end(struct worker_core *w, struct sequence *s,
                enum sequence_finish finish);

/* A plan that named s is back; if it was the last one that a release waited
 * for, s is released and may be gone. */
void worker_plan_back(struct worker_core *w, struct sequence *s);

/* A KEPT sequence's memory goes.  Afterwards s may be gone. */
void worker_let_go(struct worker_core *w, struct sequence *s);

/* The router needs nothing more of s, which has ended: forget it as soon as
 * it holds nothing.  Afterwards s may be gone. */
void worker_forget(struct worker_core *w, struct sequence *s);

/* The Remove of s is back, with what the stages after this one have freed.
 * Afterwards s may be gone. */
void worker_removed(struct worker_core *w, struct sequence *s,
                    const Sluice__V1__StageRemove *m);

/* Cancel or RemoveSequence of the whole sequence; grant: of the Submit that
 * is meant, or GRANT_ANY. */
void worker_remove(struct worker_core *w, struct peer *p, uint64_t call,
                   const struct sequence_key *key, uint64_t grant);

/* It has something to say in StepOutput, if it has a grant to say it under. */
void worker_tell(struct worker_core *w, struct sequence *s);

/* s goes with its session, or with its assembly.  Out of every table at once,
 * so that the next one starts clean; what a plan in flight names is freed when
 * the plan returns. Afterwards s may be gone. */
void worker_drop(struct worker_core *w, struct sequence *s);
void worker_drop_tombstones(struct worker_core *w);

/* The worker stops: all of them go. */
void worker_drop_all(struct worker_core *w);

/* Keys from a SequenceRef; false with e set if it is none. */
MUST_CHECK bool worker_key(const Sluice__V1__SequenceRef *ref,
                           struct sequence_key *out, struct error *e);

/* Take the tombstone of this Submit away, if there is one. */
bool tombstone_take(struct tombstones *t, const struct sequence_key *key,
                    uint64_t grant);
void tombstone_add(struct tombstones *t, const struct sequence_key *key,
                   uint64_t grant);

/* ---- leave.c ---- */

/* Is it time to go?  Then worker_stop() was called. */
bool leave_tick(struct worker_core *w, int64_t now_us);
/* Tell the router, once, if the worker leaves. */
void leave_ask(struct worker_core *w);
/* What it said.  reply: NULL if it was no. */
void leave_answered(struct worker_core *w, enum status status,
                    const Sluice__V1__DrainReply *reply, const struct error *e);
int64_t leave_due(const struct worker_core *w);

/* ---- step.c ---- */

/* Take in every result that is ready. */
void step_results(struct worker_core *w);
/* Hand the engine as many plans as it takes. */
void step_plans(struct worker_core *w);
/* w->result is of this plan: check it, count it.  A result that breaks the
 * engine's contract has failed from here, whatever it said. */
void step_note(struct worker_core *w, const struct batch *t);
/* The two checks that it is made of: what the engine answered, and what was
 * chosen for rows that sample. */
void step_check_answer(struct worker_core *w, const struct plan *p);
void step_check_choices(struct worker_core *w, const struct plan *p);
/* w->result, checked, is what came round of this plan of a leader's: its rows
 * have it. */
void step_round(struct worker_core *w, const struct batch *t);
/* w->result says that the device is lost: the worker stops. */
void step_device_lost(struct worker_core *w, const struct plan *p);
/* w->result becomes that of a plan which the engine did not take. */
void step_refused(struct worker_core *w, const struct plan *p);
/* Plans that the engine has; the oldest of them, NULL if none, and since when
 * it has that, 0 if none. */
uint32_t step_planned(const struct worker_core *w);
const struct batch *step_oldest(const struct worker_core *w);
uint64_t step_age_us(const struct worker_core *w, int64_t now_us);
/* Work done so far: the engine's ticks, and one for each result, as a plan
 * that fails at once has no tick. */
uint64_t step_ticks(const struct worker_core *w);
/* Does a sequence with these ids need another token?  FINISH_NONE if so. */
enum sequence_finish step_finish(const struct worker_core *w,
                                 const struct sequence *s);

/* ---- report.c ---- */

/* Send what is due at now_us; returns when next. */
int64_t report_send(struct worker_core *w, int64_t now_us);

#endif
