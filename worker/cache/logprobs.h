/* logprobs.h - the logprobs of a sequence's newest tokens: a ring in a slab.
 *
 *     values [window, 1 + 2 n_top] 32-bit: of the token made at index i, in
 *     row i % window, its logprob, n_top ids, n_top logprobs, best first
 *
 * It keeps what the router has not acknowledged and never more than `window`
 * tokens, so a sequence may run only so far ahead of its acknowledgements.
 * What was made before the sequence came here is not in it.
 *
 *   0          first               acked           end      acked + window
 *   |- gone ---|- told, still here -|- to be told --|- room --|
 *
 * Threading: the core's.  Memory: pages of the slab; no call allocates.
 * Limits: LOGPROB_WINDOW tokens of TOP_LOGPROBS_MAX each: 42 KiB. */
#ifndef WORKER_CACHE_LOGPROBS_H
#define WORKER_CACHE_LOGPROBS_H

#include "common/sampling/sampling.h"
#include "worker/cache/paged.h"

#define LOGPROB_WINDOW     256
#define LOGPROB_VALUES_MAX (1 + 2 * TOP_LOGPROBS_MAX)

struct logprobs {
    struct paged values;
    uint32_t window; /* tokens; 0: none will be put */
    uint32_t n_top;
    uint32_t first, end; /* it has those of tokens [first, end) */
};

/* A slab for n rings of whatever size.  False if memory is out. */
MUST_CHECK bool logprobs_slab(struct slab *s, uint32_t n);

/* Empty, for the tokens [next, max_tokens), n_top others with each.  False if
 * the slab is full. */
MUST_CHECK bool logprobs_make(struct slab *s, struct logprobs *l,
                              uint32_t n_top, uint32_t next,
                              uint32_t max_tokens);
void logprobs_free(struct slab *s, struct logprobs *l);

/* Is there room for another token beside those from `acked` on and `pending`
 * that are on their way? */
bool logprobs_room(const struct logprobs *l, uint32_t acked, uint32_t pending);

/* Of token `end`, which moves on; top [n_top]. */
void logprobs_put(struct slab *s, struct logprobs *l, float logprob,
                  const struct token_logprob *top);

/* Can all from `index` on be got, now and when `pending` more have come? */
bool logprobs_reach(const struct logprobs *l, uint32_t index, uint32_t pending);

/* Of tokens [index, index + n), which it has: logprobs [n, 1 + n_top], the
 * token's own before the best; top [n, n_top] ids. */
void logprobs_get(const struct slab *s, const struct logprobs *l,
                  uint32_t index, uint32_t n, float *logprobs, uint32_t *top);

#endif
