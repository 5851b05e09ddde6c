/* sequence.h - The sequences of a worker: each has one prompt and the tokens
 * generated for it.
 *
 * A sequence is composed of parts.  portable.h is what another worker would
 * need to continue it, memory.h what it holds here, plan.h how far its rows
 * are.
 *
 * Threading: the core's.  Memory: that of the table (sequence_table.h). */
#ifndef WORKER_SEQUENCE_SEQUENCE_H
#define WORKER_SEQUENCE_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/timer.h"
#include "worker/sequence/key.h"
#include "worker/sequence/memory.h"
#include "worker/sequence/part_arrival.h"
#include "worker/sequence/part_continuation.h"
#include "worker/sequence/part_drafts.h"
#include "worker/sequence/part_kept.h"
#include "worker/sequence/part_orphan.h"
#include "worker/sequence/part_receipts.h"
#include "worker/sequence/part_report.h"
#include "worker/sequence/part_reuse.h"
#include "worker/sequence/part_stages.h"
#include "worker/sequence/part_suspension.h"
#include "worker/sequence/part_twins.h"
#include "worker/sequence/plan.h"
#include "worker/sequence/portable.h"
#include "worker/sequence/sequence_list.h"
#include "worker/sequence/state.h"

struct sequence {
    /* Identity. */
    struct sequence_key key;
    uint64_t number; /* unique in this process, for plans and logs */
    uint64_t grant;  /* 0: none; its session is over */
    enum sequence_state state;
    enum sequence_finish finish;

    struct sequence_portable portable;
    struct sequence_memory memory;
    struct sequence_plan plan;

    struct sequence_arrival arrival;
    struct sequence_report report;

    /* Parts of features. */
    struct sequence_reuse reuse;
    struct sequence_drafts drafts;
    struct sequence_suspension suspension;
    struct sequence_twins twins;
    struct sequence_continuation continuation;
    struct sequence_kept kept;
    struct sequence_receipts receipts;
    struct sequence_orphan orphan;
    struct sequence_stages stages;

    struct timer keep;   /* end of its call's time while it runs, of the KEPT
                          * lease, or of an orphan's time */
    int64_t deadline_us; /* its call's; INT64_MAX: none */

    struct sequence *key_next, *grant_next; /* hash chains */
    bool in_keys;
    struct sequence_node links[SEQUENCE_LISTS];
};

/* Returns the number of ids that are known: prompt and generated. */
static inline uint32_t sequence_known(const struct sequence *s)
{
    return s->portable.n_prompt + s->portable.n_generated;
}

/* Returns the kind of position `at`, and in *end the end of its run: at most
 * n_prompt, or UINT32_MAX behind the prompt. */
enum row_kind sequence_kind(const struct sequence *s, uint32_t at,
                            uint32_t *end);

/* Returns the end of the first run: positions below it have the bits of a
 * prompt that was computed alone. */
static inline uint32_t sequence_first_run(const struct sequence *s)
{
    return s->portable.n_spans > 0 ? s->portable.spans[0]
                                   : s->portable.n_prompt;
}

#endif
