#include "tests/sim/oracle.h"

#include <string.h>

#include "tests/sim/rng.h"

uint64_t oracle_attend(uint64_t a, uint32_t token, uint32_t position,
                       enum row_kind kind)
{
    uint64_t x = (uint64_t)token << 32 | (uint64_t)position << 1 | kind;

    return (a ^ x) * 0x9fb21c651e98df25u + 0x2545f4914f6cdd1du;
}

uint64_t oracle_advance(uint64_t s, uint32_t token, enum row_kind kind)
{
    return (s ^ (((uint64_t)token << 1 | kind) + 0x51ed27)) *
               0xd6e8feb86659fd93u +
           0x1b873593;
}

static uint64_t bits(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof(u));
    return u;
}

uint32_t oracle_choose(const struct fake_model *m, uint64_t a, uint64_t s,
                       const struct sampling *p, uint32_t index)
{
    uint64_t x = mix64(m->salt ^ (m->attention ? a : 0));

    x = mix64(x + (m->linear ? s : 0));
    x = mix64(x ^ p->seed);
    x = mix64(x + bits(p->temperature) * 3 + bits(p->top_p) * 5 + p->top_k);
    x = mix64(x ^ index);
    return (uint32_t)(x % m->vocab);
}

void oracle_feed(struct oracle *o, const struct fake_model *m, uint32_t token,
                 enum row_kind kind)
{
    if (m->attention) {
        o->a = oracle_attend(o->a, token, o->n, kind);
    }
    if (m->linear) {
        o->s = oracle_advance(o->s, token, kind);
    }
    o->n++;
}

uint32_t oracle_next(const struct oracle *o, const struct fake_model *m,
                     const struct sampling *p, uint32_t index)
{
    return oracle_choose(m, o->a, o->s, p, index);
}

bool oracle_is_eos(const struct fake_model *m, uint32_t token)
{
    for (uint32_t i = 0; i < m->n_eos; i++) {
        if (m->eos[i] == token) {
            return true;
        }
    }
    return false;
}
