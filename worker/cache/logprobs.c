#include "worker/cache/logprobs.h"

#include <assert.h>
#include <string.h>

/* Returns the values in a row of the ring. */
static uint32_t row_width(const struct logprobs *l)
{
    return 1 + 2 * l->n_top;
}

bool logprobs_slab(struct slab *s, uint32_t n)
{
    uint32_t longest = LOGPROB_WINDOW * LOGPROB_VALUES_MAX;

    return slab_init(s, longest, (uint64_t)n * longest, n);
}

bool logprobs_make(struct slab *s, struct logprobs *l, uint32_t n_top,
                   uint32_t next, uint32_t max_tokens)
{
    /* A short sequence gets a short ring. */
    uint32_t left = max_tokens - next;

    assert(n_top <= TOP_LOGPROBS_MAX && next <= max_tokens);
    *l = (struct logprobs){.n_top = n_top, .first = next, .end = next};
    l->window = left < LOGPROB_WINDOW ? left : LOGPROB_WINDOW;
    return paged_make(s, &l->values, l->window * row_width(l));
}

void logprobs_free(struct slab *s, struct logprobs *l)
{
    if (l->window > 0) {
        paged_free(s, &l->values);
    }
    *l = (struct logprobs){.window = 0};
}

/* Pending tokens count too: they will be written whether or not the router
 * acknowledges anything before. */
bool logprobs_room(const struct logprobs *l, uint32_t acked, uint32_t pending)
{
    return l->end + pending - acked < l->window;
}

void logprobs_put(struct slab *s, struct logprobs *l, float logprob,
                  const struct token_logprob *top)
{
    uint32_t row[LOGPROB_VALUES_MAX];

    assert(l->window > 0);
    memcpy(&row[0], &logprob, sizeof row[0]);
    /* Floats are stored as their bits, because the slab holds 32-bit numbers.
     */
    for (uint32_t i = 0; i < l->n_top; i++) {
        row[1 + i] = top[i].token;
        memcpy(&row[1 + l->n_top + i], &top[i].logprob, sizeof row[0]);
    }
    paged_write(s, &l->values, l->end % l->window * row_width(l), row,
                row_width(l));
    l->end++;
    /* The row just written replaced the oldest one. */
    if (l->end - l->first > l->window) {
        l->first = l->end - l->window;
    }
}

bool logprobs_reach(const struct logprobs *l, uint32_t index, uint32_t pending)
{
    return index >= l->first &&
           (index >= l->end || l->end + pending - index <= l->window);
}

void logprobs_get(const struct slab *s, const struct logprobs *l,
                  uint32_t index, uint32_t n, float *logprobs, uint32_t *top)
{
    uint32_t k = l->n_top;

    assert(n == 0 || (index >= l->first && index + n <= l->end));
    for (uint32_t i = index; i < index + n; i++) {
        uint32_t row[LOGPROB_VALUES_MAX];

        paged_read(s, &l->values, i % l->window * row_width(l), row,
                   row_width(l));
        memcpy(logprobs++, &row[0], sizeof row[0]);
        memcpy(logprobs, &row[1 + k], k * sizeof row[0]);
        memcpy(top, &row[1], k * sizeof row[0]);
        logprobs += k;
        top += k;
    }
}
