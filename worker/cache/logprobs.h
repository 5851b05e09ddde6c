/* logprobs.h - Logprobs of a sequence's newest tokens: a ring in a slab.
 *
 *     values [window, 1 + 2 n_top] 32-bit: row i % window holds, for the token
 *     with index i, its logprob, n_top ids and n_top logprobs, best first
 *
 * The ring keeps what the router has not acknowledged, and never more than
 * `window` tokens.  A sequence may therefore run only so far ahead of its
 * acknowledgements.  Tokens generated before the sequence came to this worker
 * are not in the ring.
 *
 *   0          first               acked             end        acked + window
 *   |- dropped -|- sent, still here -|- not yet acked -|-- room --|
 *
 * Threading: the core's.  Memory: pages of the slab; no call allocates.
 * Limits: LOGPROB_WINDOW tokens with TOP_LOGPROBS_MAX each: 42 KiB. */
#ifndef WORKER_CACHE_LOGPROBS_H
#define WORKER_CACHE_LOGPROBS_H

#include "common/sampling/sampling.h"
#include "worker/cache/paged.h"

#define LOGPROB_WINDOW     256
#define LOGPROB_VALUES_MAX (1 + 2 * TOP_LOGPROBS_MAX)

struct logprobs {
    struct paged values;
    uint32_t window; /* tokens; 0: the sequence has no logprobs */
    uint32_t n_top;
    uint32_t first, end; /* the ring holds tokens [first, end) */
};

/* Allocates a slab for n rings of any size.  Returns false if memory runs
 * out. */
MUST_CHECK bool logprobs_slab(struct slab *s, uint32_t n);

/* Makes an empty ring for the tokens [next, max_tokens) with n_top others each.
 * Returns false if the slab is full. */
MUST_CHECK bool logprobs_make(struct slab *s, struct logprobs *l,
                              uint32_t n_top, uint32_t next,
                              uint32_t max_tokens);
void logprobs_free(struct slab *s, struct logprobs *l);

/* Returns whether another token fits beside those from `acked` on and the
 * `pending` ones that are being computed. */
bool logprobs_room(const struct logprobs *l, uint32_t acked, uint32_t pending);

/* Stores the logprobs of token `end` and advances it; top [n_top]. */
void logprobs_put(struct slab *s, struct logprobs *l, float logprob,
                  const struct token_logprob *top);

/* Returns whether all tokens from `index` on can be read, now and after
 * `pending` more have come. */
bool logprobs_reach(const struct logprobs *l, uint32_t index, uint32_t pending);

/* Reads tokens [index, index + n), which must be in the ring: logprobs
 * [n, 1 + n_top], the token's own before the best; top [n, n_top] ids. */
void logprobs_get(const struct slab *s, const struct logprobs *l,
                  uint32_t index, uint32_t n, float *logprobs, uint32_t *top);

#endif
