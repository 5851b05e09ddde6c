/* sampling.h - Parameters that decide how the next token is chosen.
 *
 * Router, worker, client and kernels share these parameters.  From the logits
 * l [V] that the model gives for the next token:
 *
 *     1 bias         l[t] += bias                 for each (t, bias) given
 *     2 repetition   l[t] = l[t] > 0 ? l[t] / r : l[t] * r
 *                    for each t of prompt or generated tokens
 *     3 frequency    l[t] -= frequency * (times that t was generated)
 *       presence     l[t] -= presence  if t was generated
 *     4 temperature  below KERNELS_TEMPERATURE_MIN: the best; else
 *                    p[t] = exp((l[t] - max l) / temperature)
 *     5 top_k        the k best are kept
 *     6 top_p        of these, the shortest run of the best whose share of
 *                    the kept mass is at least top_p
 *     7 min_p        of these, the tokens with p[t] >= min_p; the best has
 *                    p = 1
 *     8 draw         u in [0, 1) from Philox, keyed by
 *                    (seed, draw_choice + choice, draw_index + index)
 *
 * Sources: repetition, Keskar et al., "CTRL", 2019, section 4.1; presence and
 * frequency, OpenAI's API; min-p, Nguyen et al., "Turning Up the Heat", 2024.
 * A logprob is the model's own: log softmax of l before step 1, natural
 * logarithm.
 *
 * Generated tokens are all tokens of this choice, from whichever worker.  Those
 * of a kept sequence that it continues are prompt.
 *
 * Threading: none.  Memory: the lists are borrowed; sampling_own() moves them
 * to the caller's memory.  Limits: below and in proto/limits.h. */
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
#define PENALTY_MAX            2.0f /* presence and frequency are -2..2 */
#define LOGIT_BIAS_MAX         100.0f

/* 32-bit values in the lists of one request, at most. */
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
#define SAMPLING_VALUES(X)                                                     \
    X(temperature, FLOAT, 1, 0, TEMPERATURE_MAX) /* 0: greedy */               \
    X(top_k, COUNT, 0, 0, UINT32_MAX) /* 0: all; at most the vocabulary */     \
    X(top_p, SHARE, 1, 0, 1)          /* 1: all */                             \
    X(min_p, FLOAT, 0, 0, 1)          /* 0: all */                             \
    X(repetition_penalty, FLOAT, 1, REPETITION_PENALTY_MIN,                    \
      REPETITION_PENALTY_MAX)                                 /* 1: none */    \
    X(presence_penalty, FLOAT, 0, -PENALTY_MAX, PENALTY_MAX)  /* 0: none */    \
    X(frequency_penalty, FLOAT, 0, -PENALTY_MAX, PENALTY_MAX) /* 0: none */    \
    X(ignore_eos, FLAG, false, false, true) /* keep on past end tokens */      \
    X(logprobs, FLAG, false, false, true)   /* logprob of each chosen token */ \
    X(draw_index, COUNT, 0, 0, UINT32_MAX)  /* tokens generated before, and */ \
    X(draw_choice, COUNT, 0, 0, UINT32_MAX) /* the choice that did */

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

/* Returns the defaults: temperature 1, no other change to the distribution. */
struct sampling sampling_default(void);

/* Returns the bytes of the lists. */
size_t sampling_bytes(const struct sampling *s);
/* Moves the lists to memory of sampling_bytes(), aligned for uint32_t.  s
 * borrows from memory from then on. */
void sampling_own(struct sampling *s, void *memory);

/* Derives the seed of a request that sets none.  Every router derives the
 * same seed, so a request that resumes at another router continues with the
 * same tokens:
 *
 *     XXH3_64(request_id, seed SAMPLING_SEED)   of its 16 bytes */
#define SAMPLING_SEED 0x736c756963650001u /* "sluice", 1 */

uint64_t sampling_seed(const uint8_t request_id[16]);

/* Returns whether both lead to the same tokens and the same logprobs. */
bool sampling_same(const struct sampling *a, const struct sampling *b);

/* Returns the values per token in columns of logprobs: the token's own and
 * the best candidates.  0: no logprobs were requested. */
static inline uint32_t sampling_width(const struct sampling *s)
{
    return s->logprobs ? 1 + s->n_top_logprobs : 0;
}

/* Returns whether its draws go on from those of another sequence. */
static inline bool sampling_goes_on(const struct sampling *s)
{
    return s->draw_index != 0 || s->draw_choice != 0;
}

/* Returns whether earlier tokens change the logits of the next token. */
bool sampling_penalises(const struct sampling *s);

/* Returns whether this token is one of the request's stop tokens; ignore_eos
 * has no effect on them. */
bool sampling_stops(const struct sampling *s, uint32_t token);

#endif
