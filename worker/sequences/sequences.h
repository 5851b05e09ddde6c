/* sequences.h - The state of the room: all sequences of a worker and what they
 * share.
 *
 *   submit.h      a Submit becomes a sequence, or takes over one that is here
 *   step.h        plans to the engine, results into the sequences
 *   reuse.h       prefixes that are restored and kept
 *   suspend.h     sequences that make room for others
 *   kept.h        kept sequences in the host tier
 *   twins.h       choices of one request
 *   continue.h    kept sequences that others go on from
 *   take_over.h   their memory, which changes hands
 *   ranges.h      ranges that are removed from kept sequences
 *   publish.h     the index, as the router sees it
 *   ending.h      how a sequence ends
 *   receipts.h    answers to Cancel and RemoveSequence
 *   orphans.h     sequences that outlive their session
 *   deadline.h    sequences whose call has a deadline
 *   report.h      Report and StepOutput
 *
 * Threading: the core's.  Memory: sequences_init() allocates; no other call
 * does. */
#ifndef WORKER_SEQUENCES_SEQUENCES_H
#define WORKER_SEQUENCES_SEQUENCES_H

#include "common/base/timer.h"
#include "common/split/layer_split.h"
#include "worker/base/base.h"
#include "worker/cache/pool.h"
#include "worker/plan/batcher.h"
#include "worker/plan/reuse.h"
#include "worker/plan/role.h"
#include "worker/sequence/ledger.h"
#include "worker/sequence/sequence_table.h"
#include "worker/sequences/publish.h"
#include "worker/sequences/suspend.h"
#include "worker/sequences/tombstones.h"

#define WAITERS_MAX PEER_CALLS_MAX

struct receipt_waiters {
    struct receipt_waiter memory[WAITERS_MAX];
    struct receipt_waiter *free;
    uint32_t n_fresh; /* entries of memory that were ever used */
};

/* The columns of a Live. */
struct live_columns {
    uint8_t ids[LIVE_ROWS_MAX * REQUEST_ID_BYTES];
    uint32_t choice[LIVE_ROWS_MAX];
    uint32_t n_generated[LIVE_ROWS_MAX], grows[LIVE_ROWS_MAX];
    uint32_t n;
};

/* The columns of a StepOutput. */
struct output_columns {
    uint64_t grant[STEP_ROWS_MAX];
    uint32_t first_index[STEP_ROWS_MAX];
    uint32_t count[STEP_ROWS_MAX];
    uint32_t finish[STEP_ROWS_MAX];
    uint32_t state[STEP_ROWS_MAX];
    uint32_t width[STEP_ROWS_MAX];
    uint32_t reused[STEP_ROWS_MAX];
    uint32_t tokens[STEP_TOKENS_MAX];
    float logprobs[STEP_LOGPROBS_MAX];
    uint32_t top_tokens[STEP_LOGPROBS_MAX];
    uint32_t n_rows, n_tokens, n_logprobs, n_top_tokens;
    bool has_width;      /* some row has a width other than 0 */
    bool has_reused;     /* some row has reused other than 0 */
    const char *failure; /* why rows with FINISH_FAILED failed; NULL: none has
                          */
};

/* Contents of the next Report or StepOutput, and when it is due. */
struct report {
    int64_t sent_us; /* when the newest ledger went out */
    bool changed;    /* something changed since then */
    bool stepped;    /* a result came in this turn */
    uint64_t step;   /* the newest result's */
    uint32_t device_us, n_prompt_tokens;
    uint32_t stage_us[STAGES_MAX]; /* [n_stage_us] of the newest Result */
    uint32_t n_stage_us; /* 0: no Result has come, or the worker is alone */
};

struct sequences {
    struct worker_base *base;
    struct role role;
    struct pool pool;
    struct host host;
    struct sequence_table table;
    struct ledger ledger;
    struct reuse reuse;
    struct publish publish;
    struct batcher batcher;
    struct suspend suspend;
    struct timers timers; /* ends of calls, of leases and of orphans */
    struct tombstones tombstones;
    struct receipt_waiters waiters;
    struct sequence_list out; /* sequences with rows to send */
    struct report report;
    uint64_t n_results; /* results of the engine's plans */
    struct live_columns live;

    /* Last, because they are large and sequences_init() leaves them unset. */
    struct output_columns output;
    struct plan_result result; /* the result that is being processed */
};

/* Makes everything but the role, which the core sets next.  n_batches: plans
 * and microbatches under way at once.  Returns false if memory runs out; the
 * caller then calls sequences_fini(). */
MUST_CHECK bool sequences_init(struct sequences *q, struct worker_base *b,
                               uint32_t n_batches);
void sequences_fini(struct sequences *q);

#endif
