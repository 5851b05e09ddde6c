#include "tests/sim/rng.h"

uint64_t mix64(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

void rng_init(struct rng *r, uint64_t seed, uint64_t stream)
{
    uint64_t x = mix64(seed + 1) ^ mix64(stream * 0xd1342543de82ef95u + 7);

    for (int i = 0; i < 4; i++) {
        x += 0x9e3779b97f4a7c15u;
        r->s[i] = mix64(x);
    }
}

static uint64_t rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

uint64_t rng_u64(struct rng *r)
{
    uint64_t *s = r->s;
    uint64_t result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
    return n ? rng_u64(r) % n : 0;
}

int64_t rng_range(struct rng *r, int64_t lo, int64_t hi)
{
    return lo + (int64_t)rng_below(r, (uint64_t)(hi - lo) + 1);
}

int64_t rng_octave(struct rng *r, int64_t lo, int64_t hi)
{
    unsigned octaves = 0;
    int64_t from, to;

    while (octaves < 62 && (lo << octaves) < hi) {
        octaves++;
    }
    if (octaves == 0) {
        return lo;
    }
    from = lo << rng_below(r, octaves);
    to = from * 2 - 1;
    return rng_range(r, from, to < hi ? to : hi);
}

bool rng_chance(struct rng *r, uint32_t of)
{
    return of && rng_below(r, 10000) < of;
}
