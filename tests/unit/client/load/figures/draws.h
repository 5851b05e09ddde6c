/* draws.h - Seeded random numbers for the tests of figures. */
#ifndef TESTS_UNIT_CLIENT_LOAD_FIGURES_DRAWS_H
#define TESTS_UNIT_CLIENT_LOAD_FIGURES_DRAWS_H

#include <math.h>
#include <stdint.h>

struct draws {
    uint64_t state;
};

/* splitmix64 (Vigna). */
static inline uint64_t draw(struct draws *d)
{
    uint64_t z = (d->state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Returns a number in 0..1, without 0. */
static inline double draw_unit(struct draws *d)
{
    return ((double)(draw(d) >> 11) + 1) / 9007199254740993.0;
}

/* Returns a number in 0..n - 1. */
static inline uint64_t draw_below(struct draws *d, uint64_t n)
{
    return draw(d) % n;
}

static inline double draw_normal(struct draws *d)
{
    double radius = sqrt(-2 * log(draw_unit(d)));

    return radius * cos(6.283185307179586 * draw_unit(d));
}

#endif
