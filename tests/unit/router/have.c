#include "tests/unit/router/have.h"

#include <string.h>

struct have have_one(const uint32_t *ids, uint32_t count, uint32_t text)
{
    struct have h = {.n = 1, .count = {count}, .text = {text}};

    memcpy(h.tokens, ids, count * sizeof *ids);
    h.n_tokens = count;
    return h;
}

Sluice__V1__GenerateRequest have_nothing(void)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;

    return m;
}

void have_put(Sluice__V1__GenerateRequest *m, struct have *h)
{
    m->has_n = true;
    m->n = h->n;
    m->n_have_count = m->n_have_text = m->n_have_ended = h->n;
    m->have_count = h->count;
    m->have_text = h->text;
    m->have_ended = h->ended;
    m->n_have_tokens = h->n_tokens;
    m->have_tokens = h->tokens;
}
