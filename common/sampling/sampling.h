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

struct sampling {
    float temperature;                         /* 0: greedy */
    uint32_t top_k;                            /* 0: all */
    float top_p;                               /* (0, 1]; 1: all */
    float min_p;                               /* [0, 1]; 0: all */
    float repetition_penalty;                  /* 1: none */
    float presence_penalty, frequency_penalty; /* 0: none */
    uint64_t seed;
    bool ignore_eos;         /* the model's end tokens do not end it */
    bool logprobs;           /* of each token chosen, */
    uint32_t n_top_logprobs; /* and of the best so many */
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
