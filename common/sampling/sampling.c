#include "common/sampling/sampling.h"

#include <string.h>

#include <xxhash.h>

const struct limit_row sampling_limits[] = {
    LIMIT_ROW(TEMPERATURE_MAX, "", "temperature, from 0"),
    LIMIT_ROW(REPETITION_PENALTY_MAX, "", "repetition_penalty, from 0.01"),
    LIMIT_ROW(PENALTY_MAX, "", "presence_penalty, frequency_penalty, + or -"),
    LIMIT_ROW(LOGIT_BIAS_MAX, "", "a logit bias, + or -"),
};

const size_t sampling_limits_n =
    sizeof sampling_limits / sizeof sampling_limits[0];

struct sampling sampling_default(void)
{
    return (struct sampling){
#define X(field, kind, unset, least, most) .field = (unset),
        SAMPLING_VALUES(X)
#undef X
    };
}

uint64_t sampling_seed(const uint8_t request_id[16])
{
    return XXH3_64bits_withSeed(request_id, 16, SAMPLING_SEED);
}

/* ---- lists ---- */

size_t sampling_bytes(const struct sampling *s)
{
    return s->n_biases * (sizeof *s->bias_tokens + sizeof *s->biases) +
           s->n_stop_tokens * sizeof *s->stop_tokens;
}

/* Guards n = 0: a list that is absent may be NULL, and memcpy() from NULL is
 * undefined. */
static void *move(void *to, const void *from, size_t n)
{
    if (n > 0) {
        memcpy(to, from, n);
    }
    return (char *)to + n;
}

void sampling_own(struct sampling *s, void *memory)
{
    void *biases = move(memory, s->bias_tokens, s->n_biases * 4);
    void *stops = move(biases, s->biases, s->n_biases * 4);

    (void)move(stops, s->stop_tokens, s->n_stop_tokens * 4);
    s->bias_tokens = memory;
    s->biases = biases;
    s->stop_tokens = stops;
}

static bool equal(const void *a, const void *b, size_t n)
{
    return n == 0 || memcmp(a, b, n) == 0;
}

bool sampling_same(const struct sampling *a, const struct sampling *b)
{
#define X(field, kind, unset, least, most) a->field == b->field &&
    return SAMPLING_VALUES(X) a->seed == b->seed &&
#undef X
           a->n_top_logprobs == b->n_top_logprobs &&
           a->n_biases == b->n_biases && a->n_stop_tokens == b->n_stop_tokens &&
           equal(a->bias_tokens, b->bias_tokens, a->n_biases * 4) &&
           equal(a->biases, b->biases, a->n_biases * 4) &&
           equal(a->stop_tokens, b->stop_tokens, a->n_stop_tokens * 4);
}

/* The worker sends a sequence's history to the engine only if a penalty uses
 * it. */
bool sampling_penalises(const struct sampling *s)
{
    return s->repetition_penalty != 1 || s->presence_penalty != 0 ||
           s->frequency_penalty != 0;
}

bool sampling_stops(const struct sampling *s, uint32_t token)
{
    for (uint32_t i = 0; i < s->n_stop_tokens; i++) {
        if (s->stop_tokens[i] == token) {
            return true;
        }
    }
    return false;
}
