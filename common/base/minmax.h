/* minmax.h - The lesser and the greater of two values, and the like, by type.
 *
 * One function for each type, no macro: an argument is evaluated once, and a
 * conversion that could lose a value is an error of the compiler.
 *
 * Threading: none.  Memory: none. */
#ifndef COMMON_BASE_MINMAX_H
#define COMMON_BASE_MINMAX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns whether [first, first + n) is within [0, all). */
static inline bool in_range_u32(uint32_t first, uint32_t n, uint32_t all)
{
    return n <= all && first <= all - n;
}

/* Compares two uint32_t, for qsort(): ascending. */
static inline int ascending_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static inline uint32_t ceil_div_u32(uint32_t a, uint32_t b)
{
    return a / b + (a % b != 0);
}

#endif
