/* portable.h - The part of a sequence that another worker would need to
 * continue it.
 *
 * Positions of prompt ++ generated ids:
 *
 *     0          n_prompt            n_prompt + n_generated (known)
 *     |--prompt--|----generated------|
 *                     ^ n_prompt + acked: the router has the ids before it
 *
 * Nothing here depends on the pool, on plans, or on other sequences.
 *
 * Threading: the core's.  Memory: ids and logprobs are in the slabs of the
 * table (sequence.h), the lists of `sampling` in its own memory. */
#ifndef WORKER_SEQUENCE_PORTABLE_H
#define WORKER_SEQUENCE_PORTABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/sampling/sampling.h"
#include "common/wire/prefix_hash.h"
#include "worker/base/options.h"
#include "worker/cache/logprobs.h"
#include "worker/cache/paged.h"

struct sequence_portable {
    /* The request. */
    uint32_t n_prompt, max_tokens, keep_ms;
    struct sampling sampling; /* its lists point into the table's memory */

    /* Ids: the prompt, then the generated tokens. */
    struct paged tokens;
    uint32_t n_generated;
    struct logprobs logprobs; /* the newest tokens', if requested */
    uint32_t acked;           /* next index that the router expects */

    uint32_t n_spans; /* 0: all prompt positions were computed as prompt */
    uint32_t spans[SPANS_MAX]; /* [n_spans] alternating runs of prompt and
                                * generated positions, beginning with prompt;
                                * their sum is n_prompt */

    /* Reuse (worker/cache/prefix.h). */
    bool cache; /* it reuses, and may be reused */
    uint8_t n_scope;
    uint8_t scope[PREFIX_SCOPE_MAX]; /* [n_scope] tenant and salt */
};

#endif
