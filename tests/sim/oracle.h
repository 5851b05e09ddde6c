/* oracle.h - The fake model: the next token, as pure arithmetic.
 *
 *     attention  A(n+1) = mix(A(n), token n, position n, kind n)
 *     state      S(n+1) = mix'(S(n), token n, kind n)
 *     history    H(n+1) = H(n) + mix"(token n, kind n)   a multiset of ids
 *     choose     token  = mix'''(salt, A, S, H if there are penalties,
 *                         sampling, lists, choice, index) mod vocab
 *     logprobs   from salt, A and S only, because they are the model's
 *
 * The fake engine reads A through block tables, S through slots and H through
 * the plan's history.  The auditor computes the same values from the prompt.  A
 * model without attention has A = 0, a model without linear layers S = 0.  kind
 * (prompt or generated) is an input: a generated token that is computed again
 * as prompt is a fault. */
#ifndef SIM_ORACLE_H
#define SIM_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/engine.h"

#define ORACLE_EOS_MAX 4

struct fake_model {
    uint64_t salt;
    bool attention, linear;
    uint32_t vocab, context; /* vocab >= 256 */
    uint32_t eos[ORACLE_EOS_MAX];
    uint32_t n_eos;
};

uint64_t oracle_attend(uint64_t a, uint32_t token, uint32_t position,
                       enum row_kind kind);
uint64_t oracle_advance(uint64_t s, uint32_t token, enum row_kind kind);
uint64_t oracle_remember(uint64_t h, uint32_t token, enum row_kind kind);

/* State of a sequence that consists of the right tokens. */
struct oracle {
    uint64_t a, s, h;
    uint32_t n; /* tokens fed */
};

void oracle_feed(struct oracle *o, const struct fake_model *m, uint32_t token,
                 enum row_kind kind);

/* Returns the token of this choice and index. */
uint32_t oracle_next(const struct oracle *o, const struct fake_model *m,
                     const struct sampling *p, uint32_t choice, uint32_t index);

/* Returns the logprob of that token; stores the best n_top, best first. */
float oracle_logprobs(const struct oracle *o, const struct fake_model *m,
                      uint32_t token, uint32_t n_top,
                      struct token_logprob top[TOP_LOGPROBS_MAX]);

bool oracle_is_eos(const struct fake_model *m, uint32_t token);

/* Returns whether this token ends a sequence. */
bool oracle_ends(const struct fake_model *m, const struct sampling *p,
                 uint32_t token);

#endif
