/* logprob_columns.h - Logprobs, from the columns of a StepOutput to a chunk.
 *
 * Row i of a StepOutput has count[i] tokens with width[i] values each: the
 * token's own, then those of the best tokens in descending order.
 *
 *     logprobs    own best best ..  own best best ..   [count, width]
 *     top_tokens      id   id   ..      id   id   ..   [count, width - 1]
 *
 * A choice keeps the values of its unsent tokens, in the three columns of a
 * chunk:
 *
 *     own         [n]
 *     top         [n, n_top]
 *     top_tokens  [n, n_top]
 *
 * Threading: the core's thread only.  Memory: on the heap, 4 + 8 * n_top bytes
 * per unsent token (at most 164), in columns that double.  Columns for more
 * than LOGPROBS_IDLE tokens exist only while something is unsent.  A client
 * that does not read costs what its choices generate until it is cancelled
 * (SLOW_READER_MS).  Limits: TOP_LOGPROBS_MAX, STEP_LOGPROBS_MAX. */
#ifndef ROUTER_REQUESTS_LOGPROB_COLUMNS_H
#define ROUTER_REQUESTS_LOGPROB_COLUMNS_H

#include "common/base/status.h"
#include "common/sampling/sampling.h"
#include "proto/inference.pb-c.h"
#include "proto/registry.pb-c.h"

#define LOGPROBS_IDLE 256

/* Checks the logprob columns of m: complete, every value a logarithm of a
 * probability, the best in order, and every id below vocab.  The other columns
 * must have been checked.  Returns ST_DATA_LOSS with a sentence in e if a check
 * fails. */
MUST_CHECK enum status
logprob_columns_check(const Sluice__V1__StepOutputMessage *m, uint32_t vocab,
                      struct error *e);

/* Returns the number of values per token in row i; 0: the row has none. */
static inline uint32_t
logprob_columns_width(const Sluice__V1__StepOutputMessage *m, size_t i)
{
    return m->n_width == 0 ? 0 : m->width[i];
}

struct logprob_columns {
    uint32_t n_top;
    uint32_t begin, n, size; /* tokens [begin, begin + n) of size */
    float *own;
    float *top;
    uint32_t *top_tokens;
};

/* Returns empty columns for n_top best tokens, owned by the caller; NULL
 * without memory. */
struct logprob_columns *logprob_columns_new(uint32_t n_top);
void logprob_columns_free(struct logprob_columns **l);

/* Makes room for n more tokens.  Returns false without memory. */
MUST_CHECK bool logprob_columns_reserve(struct logprob_columns *l, uint32_t n);

/* Adds n more tokens of a row, for which there is room, after its first `skip`:
 * values [skip + n, 1 + n_top], top_tokens [skip + n, n_top]. */
void logprob_columns_add(struct logprob_columns *l, const float *values,
                         const uint32_t *top_tokens, uint32_t skip, uint32_t n);

/* Shows the values of the first n tokens in c, which borrows them; and drops
 * them once c is sent. */
void logprob_columns_show(const struct logprob_columns *l, uint32_t n,
                          Sluice__V1__GenerateChunk *c);
void logprob_columns_drop(struct logprob_columns *l, uint32_t n);

#endif
