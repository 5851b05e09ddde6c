/* oracle.h - the fake model: which token follows, as pure arithmetic.
 *
 *     attention  A(n+1) = mix(A(n), token n, position n, kind n)
 *     state      S(n+1) = mix'(S(n), token n, kind n)
 *     choose     token  = mix''(salt, A, S, sampling, index) mod vocab
 *
 * The fake engine reaches A through block tables and S through slots; the
 * auditor folds the same from the prompt.  A model without attention has
 * A = 0, one without linear layers S = 0.  kind (prompt or generated) is
 * part of it: a generated token that is computed again as prompt is a fault. */
#ifndef SIM_ORACLE_H
#define SIM_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/engine.h"

#define ORACLE_EOS_MAX 4

struct fake_model {
    uint64_t salt;
    bool attention, linear;
    uint32_t vocab, context;
    uint32_t eos[ORACLE_EOS_MAX];
    uint32_t n_eos;
};

uint64_t oracle_attend(uint64_t a, uint32_t token, uint32_t position,
                       enum row_kind kind);
uint64_t oracle_advance(uint64_t s, uint32_t token, enum row_kind kind);
uint32_t oracle_choose(const struct fake_model *m, uint64_t a, uint64_t s,
                       const struct sampling *p, uint32_t index);

/* A sequence of the right tokens. */
struct oracle {
    uint64_t a, s;
    uint32_t n; /* tokens fed */
};

void oracle_feed(struct oracle *o, const struct fake_model *m, uint32_t token,
                 enum row_kind kind);
uint32_t oracle_next(const struct oracle *o, const struct fake_model *m,
                     const struct sampling *p, uint32_t index);
bool oracle_is_eos(const struct fake_model *m, uint32_t token);

#endif
