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

uint64_t oracle_see(uint32_t token, uint32_t position, enum row_kind kind)
{
    return mix64(((uint64_t)token << 32 | (uint64_t)position << 1 | kind) +
                 0x632be59bd9b4e019u);
}

static uint64_t bits(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof(u));
    return u;
}

uint64_t oracle_remember(uint64_t h, uint32_t token, enum row_kind kind)
{
    return h + mix64(((uint64_t)token << 1 | kind) + 0x9e3779b97f4a7c15u);
}

static uint64_t model_hash(const struct oracle *o, const struct fake_model *m)
{
    uint64_t x = mix64(m->salt ^ (m->attention ? o->a : 0));

    x = mix64(x + (m->linear ? o->s : 0));
    return m->window ? mix64(x ^ o->w) : x;
}

static uint64_t mix_lists(uint64_t x, const struct sampling *p)
{
    for (uint32_t i = 0; i < p->n_biases; i++) {
        x = mix64(x ^ ((uint64_t)p->bias_tokens[i] << 32 | bits(p->biases[i])));
    }
    return x;
}

static uint64_t mix_penalties(uint64_t x, const struct oracle *o,
                              const struct sampling *p)
{
    if (!sampling_penalises(p)) {
        return x;
    }
    x = mix64(x + bits(p->repetition_penalty) * 3 +
              bits(p->presence_penalty) * 5 + bits(p->frequency_penalty) * 7);
    return mix64(x ^ o->h);
}

static void feed(struct oracle *o, const struct fake_model *m, uint32_t token,
                 enum row_kind computed, enum row_kind remembered)
{
    computed = m->one_arithmetic ? ROW_PROMPT : computed;
    if (m->attention) {
        o->a = oracle_attend(o->a, token, o->n, computed);
    }
    if (m->linear) {
        o->s = oracle_advance(o->s, token, computed);
    }
    if (m->window) {
        uint64_t *term = &o->seen[o->n % m->window];

        o->w -= o->n < m->window ? 0 : *term;
        *term = oracle_see(token, o->n, computed);
        o->w += *term;
    }
    o->h = oracle_remember(o->h, token, remembered);
    o->n++;
}

void oracle_feed(struct oracle *o, const struct fake_model *m, uint32_t token,
                 enum row_kind kind)
{
    feed(o, m, token, kind, kind);
}

void oracle_feed_continued(struct oracle *o, const struct fake_model *m,
                           uint32_t token)
{
    feed(o, m, token, ROW_GENERATED, ROW_PROMPT);
}

uint32_t oracle_next(const struct oracle *o, const struct fake_model *m,
                     const struct sampling *p, uint32_t choice, uint32_t index)
{
    uint64_t x = mix64(model_hash(o, m) ^ p->seed);

    x = mix64(x + bits(p->temperature) * 3 + bits(p->top_p) * 5 +
              bits(p->min_p) * 7 + p->top_k);
    x = mix_penalties(mix_lists(x, p), o, p);
    choice += p->draw_choice;
    index += p->draw_index;
    x = mix64(x ^ ((uint64_t)choice << 32 | index));
    if (m->loops && x >> 60 < 14) {
        x = mix64(p->seed + index % 3);
    }
    return (uint32_t)(x % m->vocab);
}

/* Descends from the best, and from id to id: 20 ids are fewer than the
 * vocabulary, so all are different. */
float oracle_logprobs(const struct oracle *o, const struct fake_model *m,
                      uint32_t token, uint32_t n_top,
                      struct token_logprob top[TOP_LOGPROBS_MAX])
{
    uint64_t x = mix64(model_hash(o, m) + 1);
    uint32_t id = (uint32_t)(x >> 8) % m->vocab;
    float value = -(float)(x & 255) / 64, own = 1;

    for (uint32_t i = 0; i < TOP_LOGPROBS_MAX; i++) {
        if (i < n_top) {
            top[i] = (struct token_logprob){id, value};
        }
        own = id == token ? value : own;
        x = mix64(x + i);
        value -= (float)(x & 255) / 64;
        id = (id + 1 + (uint32_t)(x >> 8) % 11) % m->vocab;
    }
    return own <= 0 ? own : value - (float)(mix64(x ^ token) & 1023) / 64;
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

bool oracle_ends(const struct fake_model *m, const struct sampling *p,
                 uint32_t token)
{
    return (!p->ignore_eos && oracle_is_eos(m, token)) ||
           sampling_stops(p, token);
}
