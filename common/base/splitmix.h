/* splitmix.h - SplitMix64 of Steele, Lea and Flood (2014).
 *
 * Threading: none.  Memory: none. */
#ifndef COMMON_BASE_SPLITMIX_H
#define COMMON_BASE_SPLITMIX_H

#include <stdint.h>

#define SPLITMIX_STEP UINT64_C(0x9e3779b97f4a7c15)

/* Returns the number of a state: states that differ in one bit give numbers
 * that differ in half of theirs. */
static inline uint64_t splitmix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Returns a hash of x, of which every bit depends on every bit of x. */
static inline uint64_t splitmix_of(uint64_t x)
{
    return splitmix(x + SPLITMIX_STEP);
}

/* Takes a step, and returns the number of the new state. */
static inline uint64_t splitmix_next(uint64_t *state)
{
    return splitmix(*state += SPLITMIX_STEP);
}

#endif
