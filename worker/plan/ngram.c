#include "worker/plan/ngram.h"

/* Returns how many ids before `end` equal the last ones of all n, at most
 * NGRAM_MAX. */
static uint32_t match(const uint32_t *ids, uint32_t n, uint32_t end)
{
    uint32_t k = 0;

    while (k < NGRAM_MAX && k < end && ids[end - 1 - k] == ids[n - 1 - k]) {
        k++;
    }
    return k;
}

uint32_t ngram_find(const uint32_t *ids, uint32_t n, uint32_t *out,
                    uint32_t most)
{
    uint32_t longest = 0, at = 0;

    if (n <= NGRAM_MIN || n > NGRAM_WINDOW) {
        return 0;
    }
    /* From the end, so that of equal matches the newest counts. */
    for (uint32_t end = n - 1; end >= NGRAM_MIN && longest < NGRAM_MAX; end--) {
        uint32_t k = match(ids, n, end);

        if (k > longest) {
            longest = k;
            at = end;
        }
    }
    if (longest < NGRAM_MIN) {
        return 0;
    }
    for (uint32_t i = 0; i < most; i++) {
        out[i] = at + i < n ? ids[at + i] : out[at + i - n];
    }
    return most;
}
