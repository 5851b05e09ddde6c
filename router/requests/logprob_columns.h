/* logprob_columns.h - logprobs on their way from a StepOutput's columns to a
 * chunk.
 *
 * Row i of a StepOutput has count[i] tokens of width[i] values each, best
 * first behind the token's own:
 *
 *     logprobs    own best best ..  own best best ..   [count, width]
 *     top_tokens      id   id   ..      id   id   ..   [count, width - 1]
 *
 * A choice keeps those of its unsent tokens, in the three columns of a chunk:
 *
 *     own         [n]
 *     top         [n, n_top]
 *     top_tokens  [n, n_top]
 *
 * Threading: the core's.  Memory: on the heap, 4 + 8 * n_top bytes an unsent
 * token, 164 at most, in columns that double; larger than LOGPROBS_IDLE tokens
 * only while something is unsent.  A reader that takes nothing costs what its
 * choices make until it is cancelled (SLOW_READER_MS).
 * Limits: TOP_LOGPROBS_MAX, STEP_LOGPROBS_MAX. */
#ifndef ROUTER_REQUESTS_LOGPROB_COLUMNS_H
#define ROUTER_REQUESTS_LOGPROB_COLUMNS_H

#include "common/base/status.h"
#include "common/sampling/sampling.h"
#include "proto/inference.pb-c.h"
#include "proto/registry.pb-c.h"

#define LOGPROBS_IDLE 256

/* Are the columns whole, every value a logarithm of a probability, those of
 * the best in order, and every id below vocab?  The other columns are checked.
 * ST_DATA_LOSS: no. */
MUST_CHECK enum status
logprob_columns_check(const Sluice__V1__StepOutputMessage *m, uint32_t vocab,
                      struct error *e);

/* Row i's values a token; 0: it has none. */
static inline uint32_t
logprob_columns_width(const Sluice__V1__StepOutputMessage *m, size_t i)
{
    return m->n_width == 0 ? 0 : m->width[i];
}

struct logprob_columns {
    uint32_t n_top;
    uint32_t begin, n, size; /* tokens; kept: [begin, begin + n) of size */
    float *own;
    float *top;
    uint32_t *top_tokens;
};

struct logprob_columns *logprob_columns_new(uint32_t n_top);
void logprob_columns_free(struct logprob_columns **l);

/* Of n more tokens, those of a row behind its first `skip`: values
 * [skip + n, 1 + n_top], top_tokens [skip + n, n_top]. */
void logprob_columns_add(struct logprob_columns *l, const float *values,
                         const uint32_t *top_tokens, uint32_t skip, uint32_t n);

/* Put those of the first n tokens kept into c, which borrows them; and, when
 * it is sent, drop them. */
void logprob_columns_show(const struct logprob_columns *l, uint32_t n,
                          Sluice__V1__GenerateChunk *c);
void logprob_columns_drop(struct logprob_columns *l, uint32_t n);

#endif
