#include "router/schedule/lengths.h"

#include <stdbool.h>
#include <string.h>

#include "common/base/minmax.h"

/* One sequence in the counts, so that halving them loses nothing to speak of.
 */
#define UNIT 256

/* The hazard of the prior: one of so many ends in a bin. */
#define PRIOR_FINE   128
#define PRIOR_OCTAVE 16

/* Returns the bin of a length. */
static uint32_t bin_of(uint32_t n)
{
    uint32_t octave = 0;

    if (n <= LENGTHS_FINE) {
        return n > 0 ? n - 1 : 0;
    }
    if (n > LENGTHS_MOST) {
        return LENGTHS_BINS - 1;
    }
    n--; /* the largest length of an octave is a power of two */
    while (n >> octave >= 2 * LENGTHS_FINE) {
        octave++;
    }
    return LENGTHS_FINE + octave * LENGTHS_OCTAVE +
           (n >> octave) / (LENGTHS_FINE / LENGTHS_OCTAVE) - LENGTHS_OCTAVE;
}

/* Returns the largest length of a bin. */
static uint32_t edge_of(uint32_t bin)
{
    uint32_t octave;

    if (bin < LENGTHS_FINE) {
        return bin + 1;
    }
    bin -= LENGTHS_FINE;
    octave = bin / LENGTHS_OCTAVE;
    return (LENGTHS_FINE +
            (bin % LENGTHS_OCTAVE + 1) * (LENGTHS_FINE / LENGTHS_OCTAVE))
           << octave;
}

/* Returns the share of those that reach a bin which outlive it. */
static uint32_t outlives(const struct lengths *l, uint32_t bin)
{
    uint64_t one_of = bin < LENGTHS_FINE ? PRIOR_FINE : PRIOR_OCTAVE;
    uint64_t reached =
        (l->reached[bin] + (uint64_t)LENGTHS_PRIOR * UNIT) * one_of;
    uint64_t ended = l->ended[bin] * one_of + LENGTHS_PRIOR * UNIT;

    if (l->base != NULL) {
        uint64_t weight = (uint64_t)LENGTHS_BASE * UNIT;
        uint64_t lives =
            (uint64_t)LENGTHS_ONE * (l->reached[bin] - l->ended[bin]) +
            weight * outlives(l->base, bin);

        return (uint32_t)(lives / (l->reached[bin] + weight));
    }
    return (uint32_t)(LENGTHS_ONE - LENGTHS_ONE * ended / reached);
}

/* Each token of any sequence may change the base, and all shares with it: they
 * are made anew when there is a difference to speak of. */
static void refresh(struct lengths *l)
{
    if (l->base == NULL) {
        return;
    }
    refresh(l->base);
    if (l->base->version - l->base_seen >= LENGTHS_LAG) {
        l->base_seen = l->base->version;
        l->stale = 0;
        l->version++;
    }
}

static void settle(struct lengths *l)
{
    refresh(l);
    for (uint32_t b = l->stale; b < LENGTHS_BINS; b++) {
        l->share[b + 1] =
            (uint32_t)((uint64_t)l->share[b] * outlives(l, b) / LENGTHS_ONE);
    }
    l->stale = LENGTHS_BINS;
}

void lengths_init(struct lengths *l, struct lengths *base)
{
    memset(l, 0, sizeof *l);
    l->share[0] = LENGTHS_ONE;
    l->base = base;
    l->version = 1;
}

static void reach(struct lengths *l, uint32_t bin)
{
    for (; l != NULL; l = l->base) {
        l->version++;
        l->reached[bin] += UNIT;
        if (l->reached[bin] >= LENGTHS_WINDOW * UNIT) {
            l->reached[bin] /= 2;
            l->ended[bin] /= 2;
        }
        l->stale = min_u32(l->stale, bin);
    }
}

void lengths_reached(struct lengths *l, uint32_t n_had, uint32_t n)
{
    uint32_t from = bin_of(n_had) + 1, to = bin_of(n);

    for (uint32_t b = from; b <= to; b++) {
        reach(l, b);
    }
}

void lengths_begun(struct lengths *l, uint32_t n)
{
    reach(l, bin_of(n));
}

void lengths_ended(struct lengths *l, uint32_t n)
{
    uint32_t bin = bin_of(n);

    for (; l != NULL; l = l->base) {
        l->version++;
        l->ended[bin] = min_u32(l->ended[bin] + UNIT, l->reached[bin]);
        l->n_ends++;
        l->stale = min_u32(l->stale, bin);
    }
}

void lengths_cut(struct lengths *l)
{
    for (; l != NULL; l = l->base) {
        l->n_cut++;
    }
}

uint32_t lengths_share(struct lengths *l, uint32_t n)
{
    uint32_t bin = bin_of(n), low, high;

    if (l == NULL || n == 0) {
        return LENGTHS_ONE;
    }
    settle(l);
    if (bin < LENGTHS_FINE || n >= LENGTHS_MOST) {
        return l->share[bin + 1];
    }
    low = edge_of(bin - 1);
    high = edge_of(bin);
    return l->share[bin] -
           (uint32_t)((uint64_t)(l->share[bin] - l->share[bin + 1]) *
                      (n - low) / (high - low));
}

static uint32_t find_expected(struct lengths *l, uint32_t n,
                              uint32_t max_tokens)
{
    uint32_t left, least = n + 1, most = max_tokens;

    left = (uint32_t)((uint64_t)lengths_share(l, n) * (100 - LENGTHS_PERCENT) /
                      100);
    while (least < most) {
        uint32_t middle = least + (most - least) / 2;

        if (lengths_share(l, middle) > left) {
            least = middle + 1;
        } else {
            most = middle;
        }
    }
    return least;
}

/* The sum of S over the lengths n .. max_tokens - 1, over S(n). */
uint32_t lengths_mean(struct lengths *l, uint32_t n, uint32_t max_tokens)
{
    uint64_t sum = 0, first, share;
    uint32_t bin = bin_of(n + 1);

    settle(l);
    first = share = lengths_share(l, n);
    if (n >= max_tokens) {
        return 0;
    }
    if (first == 0) {
        return 1;
    }
    for (uint32_t at = n; at < max_tokens; bin++) {
        bool last = bin >= LENGTHS_BINS - 1;
        uint32_t end = last ? max_tokens : min_u32(edge_of(bin), max_tokens);
        uint64_t next = last ? share : l->share[bin + 1];

        sum += (end - at) * share - (share - next) * (end - at - 1) / 2;
        share = next;
        at = end;
    }
    return (uint32_t)max_u64((sum + first / 2) / first, 1);
}

uint32_t lengths_expect(struct lengths *l, uint32_t n, uint32_t max_tokens)
{
    if (l == NULL || n >= max_tokens) {
        return max_tokens;
    }
    refresh(l);
    /* All places of a decision ask the same. */
    if (l->expected.version != l->version || l->expected.n != n ||
        l->expected.max_tokens != max_tokens) {
        l->expected.length = find_expected(l, n, max_tokens);
        l->expected.version = l->version;
        l->expected.n = n;
        l->expected.max_tokens = max_tokens;
    }
    return l->expected.length;
}

uint64_t lengths_count(const struct lengths *l)
{
    return l == NULL ? 0 : l->n_ends + l->n_cut;
}
