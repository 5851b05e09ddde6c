/* philox.h - the counter-based random generator of the sampler.
 *
 * Philox4x32-10 by Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As
 * Easy as 1, 2, 3" (SC 2011), with the paper's constants.  Every draw is a
 * function of (key, counter) alone, so there is no state and every backend
 * draws the same.
 *
 * Threading: no state. */
#ifndef KERNELS_PHILOX_H
#define KERNELS_PHILOX_H

#include <stdint.h>

struct philox {
    uint32_t v[4];
};

static inline struct philox philox_round(struct philox c, uint32_t k0,
                                         uint32_t k1)
{
    uint64_t a = (uint64_t)0xD2511F53u * c.v[0];
    uint64_t b = (uint64_t)0xCD9E8D57u * c.v[2];

    return (struct philox){{(uint32_t)(b >> 32) ^ c.v[1] ^ k0, (uint32_t)b,
                            (uint32_t)(a >> 32) ^ c.v[3] ^ k1, (uint32_t)a}};
}

static inline struct philox philox4x32(uint64_t key, struct philox counter)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

    for (int i = 0; i < 10; i++) {
        counter = philox_round(counter, k0, k1);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return counter;
}

/* Returns a uniform value in [0, 1) with 53 random bits. */
static inline double philox_uniform(uint64_t seed, uint32_t choice,
                                    uint32_t index)
{
    struct philox r = philox4x32(seed, (struct philox){{index, choice, 0, 0}});
    uint64_t bits = (uint64_t)r.v[0] << 32 | r.v[1];

    return (double)(bits >> 11) * 0x1p-53;
}

#endif
