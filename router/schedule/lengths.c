#include "router/schedule/lengths.h"

#include <assert.h>
#include <string.h>

/* The weight of one observation.  The sum of all weights approaches
 * LENGTHS_WINDOW units, so that a product of two weights fits in 64 bits. */
#define LENGTHS_UNIT ((uint64_t)1 << 22)
#define LAST         (LENGTHS_BINS - 1)

void lengths_init(struct lengths *l)
{
    memset(l, 0, sizeof *l);
    l->weight[LAST] = LENGTHS_PRIOR * LENGTHS_UNIT;
}

static uint32_t bin_of(uint32_t n, uint32_t max_tokens)
{
    uint64_t share = (uint64_t)n * LENGTHS_BINS + max_tokens - 1;
    uint64_t bin = share / max_tokens;

    assert(n <= max_tokens);
    return bin == 0 ? 0 : (uint32_t)bin - 1;
}

/* Returns the largest length in a bin. */
static uint32_t edge_of(uint32_t bin, uint32_t max_tokens)
{
    return (uint32_t)(((uint64_t)bin + 1) * max_tokens / LENGTHS_BINS);
}

static uint64_t sum_from(const struct lengths *l, uint32_t bin)
{
    uint64_t sum = 0;

    for (uint32_t i = bin; i < LENGTHS_BINS; i++) {
        sum += l->weight[i];
    }
    return sum;
}

static void decay(struct lengths *l)
{
    for (uint32_t i = 0; i < LENGTHS_BINS; i++) {
        l->weight[i] -= l->weight[i] / LENGTHS_WINDOW;
    }
}

void lengths_ended(struct lengths *l, uint32_t n, uint32_t max_tokens)
{
    decay(l);
    l->weight[bin_of(n, max_tokens)] += LENGTHS_UNIT;
    l->n_ends++;
}

void lengths_cut(struct lengths *l, uint32_t n, uint32_t max_tokens)
{
    uint32_t from = bin_of(n, max_tokens);
    uint64_t sum, left = LENGTHS_UNIT;

    if (n == 0) {
        return;
    }
    decay(l);
    sum = sum_from(l, from);
    for (uint32_t i = from; i < LENGTHS_BINS && sum > 0; i++) {
        uint64_t part = LENGTHS_UNIT * l->weight[i] / sum;

        l->weight[i] += part;
        left -= part;
    }
    /* Without a longer one, and of the rounding: no length is known. */
    l->weight[LAST] += left;
    l->n_cut++;
}

/* Returns the bin of the quantile among those from `from` on. */
static uint32_t quantile_from(const struct lengths *l, uint32_t from)
{
    uint64_t sum = sum_from(l, from), below = 0;

    for (uint32_t i = from; i < LAST; i++) {
        below += l->weight[i];
        if (below > 0 && below * 100 >= sum * LENGTHS_PERCENT) {
            return i;
        }
    }
    return LAST;
}

uint32_t lengths_expect(const struct lengths *l, uint32_t n,
                        uint32_t max_tokens)
{
    uint32_t expected;

    if (l == NULL || n >= max_tokens) {
        return max_tokens;
    }
    expected = edge_of(quantile_from(l, bin_of(n + 1, max_tokens)), max_tokens);
    return expected > n ? expected : n + 1;
}

uint32_t lengths_permille(const struct lengths *l)
{
    return l == NULL ? 1000 : edge_of(quantile_from(l, 0), 1000);
}

uint64_t lengths_count(const struct lengths *l)
{
    return l == NULL ? 0 : l->n_ends + l->n_cut;
}
