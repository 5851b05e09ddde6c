/* sampling.h - how the next token is chosen: the parameters of a request, as
 * router, worker and kernels share them.
 *
 * From the logits l [V] that the model gives for the next token:
 *
 *   1 bias         l[t] += bias                  for each (t, bias) given
 *   2 repetition   l[t] = l[t] > 0 ? l[t] / r : l[t] * r
 *                                   for each t of prompt or generated tokens
 *   3 frequency    l[t] -= frequency * (times that t was generated)
 *     presence     l[t] -= presence  if t was generated
 *   4 temperature  under KERNELS_TEMPERATURE_MIN: the best; else
 *                  p[t] = exp((l[t] - max l) / temperature)
 *   5 top_k        the k best are kept
 *   6 top_p        of these the shortest run of the best whose share of the
 *                  kept mass is at least top_p
 *   7 min_p        of these the ones with p[t] >= min_p (the best has p = 1)
 *   8 the draw     by u in [0, 1) from Philox, keyed by (seed, choice, index)
 *
 * Repetition as in Keskar et al., "CTRL", 2019, section 4.1; presence and
 * frequency as in OpenAI's API; min-p as in Nguyen et al., "Turning Up the
 * Heat", 2024.  A logprob is that of the model itself: log softmax of l before
 * step 1, natural logarithm.
 *
 * Generated tokens are those of this choice, whatever worker made them.
 *
 * Threading: none.  Memory: the lists are borrowed unless sampling_own() says
 * where they are.  Limits: below, each tested at it and one past it. */
#ifndef COMMON_SAMPLING_SAMPLING_H
#define COMMON_SAMPLING_SAMPLING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/limit.h"
#include "proto/limits.h"

#define TEMPERATURE_MAX        100.0f
#define REPETITION_PENALTY_MIN 0.01f
#define REPETITION_PENALTY_MAX 100.0f
#define PENALTY_MAX            2.0f /* presence, frequency: -2..2 */
#define LOGIT_BIAS_MAX         100.0f

/* 32-bit values of the lists of one request, at most. */
#define SAMPLING_LISTS (2 * LOGIT_BIASES_MAX + STOP_TOKENS_MAX)

/* Rows of the ranges above, for --limits. */
extern const struct limit_row sampling_limits[];
extern const size_t sampling_limits_n;

/* X(field, kind, default, least, most)
 *
 * One row for each parameter that is a single value.  struct sampling, the
 * default, the check, the message and the comparison are made from these rows,
 * and sluicectl copies an option to each.  The field has the same name in
 * message Sampling (proto/common.proto) and in sluicectl's options.
 *
 * Kinds: FLOAT, least..most; SHARE, a float above least and at most most;
 * COUNT, uint32_t; FLAG. */
#define SAMPLING_VALUES(X)                                                  \
    X(temperature, FLOAT, 1, 0, TEMPERATURE_MAX) /* 0: greedy */            \
    X(top_k, COUNT, 0, 0, UINT32_MAX) /* 0: all; at most the vocabulary */  \
    X(top_p, SHARE, 1, 0, 1)          /* 1: all */                          \
    X(min_p, FLOAT, 0, 0, 1)          /* 0: all */                          \
    X(repetition_penalty, FLOAT, 1, REPETITION_PENALTY_MIN,                 \
      REPETITION_PENALTY_MAX)                                 /* 1: none */ \
    X(presence_penalty, FLOAT, 0, -PENALTY_MAX, PENALTY_MAX)  /* 0: none */ \
    X(frequency_penalty, FLOAT, 0, -PENALTY_MAX, PENALTY_MAX) /* 0: none */ \
    X(ignore_eos, FLAG, false, false, true) /* keep on past end tokens */   \
    X(logprobs, FLAG, false, false, true)   /* of each chosen token */

#define SAMPLING_C_FLOAT float
#define SAMPLING_C_SHARE float
#define SAMPLING_C_COUNT uint32_t
#define SAMPLING_C_FLAG  bool

struct sampling {
#define X(field, kind, unset, least, most) SAMPLING_C_##kind field;
    SAMPLING_VALUES(X)
#undef X
    uint64_t seed;
    uint32_t n_top_logprobs; /* best candidates with each chosen token */
    uint32_t n_biases, n_stop_tokens;
    const uint32_t *bias_tokens; /* [n_biases] ascending */
    const float *biases;         /* [n_biases] */
    const uint32_t *stop_tokens; /* [n_stop_tokens] ascending */
};

struct token_logprob {
    uint32_t token;
    float logprob; /* <= 0 */
};

/* Temperature 1 and nothing else: the plain distribution. */
struct sampling sampling_default(void);

/* Bytes of the lists, and: move them to memory of that size, aligned for
 * uint32_t, which s borrows from then on. */
size_t sampling_bytes(const struct sampling *s);
void sampling_own(struct sampling *s, void *memory);

/* The seed of a request that names none.  Every router draws the same, so a
 * generation that goes on after the death of its router goes on with the very
 * tokens:
 *
 *     XXH3_64(request_id, seed SAMPLING_SEED)   of its 16 bytes */
#define SAMPLING_SEED 0x736c756963650001u /* "sluice", 1 */

uint64_t sampling_seed(const uint8_t request_id[16]);

/* Would both lead to the same tokens and the same logprobs? */
bool sampling_same(const struct sampling *a, const struct sampling *b);

/* Values a token in columns of logprobs, its own and the best; 0: none were
 * asked for. */
static inline uint32_t sampling_width(const struct sampling *s)
{
    return s->logprobs ? 1 + s->n_top_logprobs : 0;
}

/* Do the tokens so far change the next one's logits? */
bool sampling_penalises(const struct sampling *s);

/* Does this token end it, whatever ignore_eos says? */
bool sampling_stops(const struct sampling *s, uint32_t token);

#endif
