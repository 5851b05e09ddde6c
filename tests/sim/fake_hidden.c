#include "tests/sim/fake_hidden.h"

#include <string.h>

#include "tests/sim/rng.h"

#define LANE_BITS 22
#define LANE_MASK ((1u << LANE_BITS) - 1)
#define ONE       0x3f800000u /* 1.0f */
#define TOKEN     ((1u << 18) - 1)
#define TAINTED   (1u << 18)
#define HAS_A     (1u << 19)
#define HAS_S     (1u << 20)
#define AGAIN     (1u << 21)
#define HAS_W     (1u << 21) /* in the last lane of W, past its 64 bits */

enum {
    LANE_TOKEN,
    LANE_WHERE,
    LANE_A,
    LANE_S = 5,
    LANE_W = 8,
    LANE_CHECK = 11
};

static void put_lane(float *x, uint64_t bits)
{
    uint32_t v = ONE | ((uint32_t)bits & LANE_MASK);

    memcpy(x, &v, sizeof(v));
}

static uint32_t lane(const float *x)
{
    uint32_t v;

    memcpy(&v, x, sizeof(v));
    return v & LANE_MASK;
}

static void put_digest(float x[3], uint64_t v)
{
    put_lane(&x[0], v);
    put_lane(&x[1], v >> LANE_BITS);
    put_lane(&x[2], v >> 2 * LANE_BITS);
}

static uint64_t digest(const float x[3])
{
    return (uint64_t)lane(&x[0]) | (uint64_t)lane(&x[1]) << LANE_BITS |
           (uint64_t)lane(&x[2]) << 2 * LANE_BITS;
}

/* Checksum over every bit of the preceding lanes. */
static uint64_t check(const float *x, uint64_t salt, uint32_t layer)
{
    uint64_t sum = salt + layer;

    for (uint32_t i = 0; i < LANE_CHECK; i++) {
        uint32_t v;

        memcpy(&v, &x[i], sizeof(v));
        sum = (sum ^ v) * 0x9fb21c651e98df25u;
    }
    return mix64(sum) >> (64 - LANE_BITS);
}

void fake_hidden_put(float *x, const struct fake_hidden *h, uint64_t salt,
                     uint32_t layer)
{
    put_lane(&x[LANE_TOKEN], (h->token & TOKEN) | (h->tainted ? TAINTED : 0) |
                                 (h->again ? AGAIN : 0) |
                                 (h->has_a ? HAS_A : 0) |
                                 (h->has_s ? HAS_S : 0));
    put_lane(&x[LANE_WHERE], h->where);
    put_digest(&x[LANE_A], h->a);
    put_digest(&x[LANE_S], h->s);
    put_digest(&x[LANE_W], h->w);
    put_lane(&x[LANE_W + 2], h->w >> 2 * LANE_BITS | (h->has_w ? HAS_W : 0));
    put_lane(&x[LANE_CHECK], check(x, salt, layer));
}

bool fake_hidden_get(struct fake_hidden *h, const float *x, uint64_t salt,
                     uint32_t layer)
{
    uint32_t marks = lane(&x[LANE_TOKEN]);
    float right;

    *h = (struct fake_hidden){.token = marks & TOKEN,
                              .where = lane(&x[LANE_WHERE]),
                              .tainted = (marks & TAINTED) != 0,
                              .again = (marks & AGAIN) != 0,
                              .has_a = (marks & HAS_A) != 0,
                              .has_s = (marks & HAS_S) != 0,
                              .a = digest(&x[LANE_A]),
                              .s = digest(&x[LANE_S]),
                              .has_w = (lane(&x[LANE_W + 2]) & HAS_W) != 0,
                              .w = digest(&x[LANE_W])};
    put_lane(&right, check(x, salt, layer));
    return memcmp(&right, &x[LANE_CHECK], sizeof(right)) == 0;
}

uint64_t fake_hidden_join(bool has, uint64_t before, uint64_t own)
{
    return has ? before + (before ^ own) * 0xd6e8feb86659fd93u : own;
}
