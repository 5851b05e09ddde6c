#include "client/load/plan/draw.h"

#include <math.h>

#include "common/base/splitmix.h"

uint64_t draw_mix(uint64_t a, uint64_t b)
{
    return splitmix(splitmix(a + SPLITMIX_STEP) + b * SPLITMIX_STEP + 1);
}

void draw_seed(struct draw *d, uint64_t seed)
{
    for (unsigned i = 0; i < 4; i++) {
        seed += SPLITMIX_STEP;
        d->s[i] = splitmix(seed);
    }
}

static uint64_t turn_left(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

uint64_t draw_u64(struct draw *d)
{
    uint64_t out = turn_left(d->s[1] * 5, 7) * 9;
    uint64_t t = d->s[1] << 17;

    d->s[2] ^= d->s[0];
    d->s[3] ^= d->s[1];
    d->s[1] ^= d->s[2];
    d->s[0] ^= d->s[3];
    d->s[2] ^= t;
    d->s[3] = turn_left(d->s[3], 45);
    return out;
}

/* Rejects the numbers that would make the first remainders more likely. */
uint64_t draw_below(struct draw *d, uint64_t n)
{
    uint64_t least = (UINT64_MAX - n + 1) % n;
    uint64_t x;

    do {
        x = draw_u64(d);
    } while (x < least);
    return x % n;
}

double draw_unit(struct draw *d)
{
    return (double)(draw_u64(d) >> 11) * 0x1p-53;
}

double draw_exp(struct draw *d)
{
    return -log1p(-draw_unit(d));
}

/* Box and Muller; the second number is not kept, so that a draw has no other
 * state than its seed. */
double draw_normal(struct draw *d)
{
    double radius = sqrt(2 * draw_exp(d));

    return radius * cos(6.283185307179586 * draw_unit(d));
}

static double gamma_above_one(struct draw *d, double shape)
{
    double a = shape - 1.0 / 3;
    double c = 1 / sqrt(9 * a);

    for (;;) {
        double x = draw_normal(d);
        double v = 1 + c * x;
        double u = 1 - draw_unit(d);

        v = v * v * v;
        if (v > 0 && log(u) < x * x / 2 + a - a * v + a * log(v)) {
            return a * v;
        }
    }
}

double draw_gamma(struct draw *d, double shape)
{
    double x;

    if (shape >= 1) {
        return gamma_above_one(d, shape) / shape;
    }
    x = gamma_above_one(d, shape + 1);
    return x * pow(1 - draw_unit(d), 1 / shape) / shape;
}
