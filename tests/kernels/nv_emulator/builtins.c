/* builtins.c - functions of OpenCL C; see emulator.h.
 *
 * They are overloaded, so clang calls them by names that encode their types. */
#include <math.h>
#include <stdint.h>

#define NAMED(type, name, parameters, symbol) \
    type name parameters __asm__(symbol);     \
    type name parameters

NAMED(float, nv_exp, (float x), "_Z3expf")
{
    return expf(x);
}

NAMED(float, nv_log1p, (float x), "_Z5log1pf")
{
    return log1pf(x);
}

NAMED(float, nv_fma, (float a, float b, float c), "_Z3fmafff")
{
    return fmaf(a, b, c);
}

NAMED(float, nv_sqrt, (float x), "_Z4sqrtf")
{
    return sqrtf(x);
}

NAMED(float, nv_fmax, (float a, float b), "_Z4fmaxff")
{
    return fmaxf(a, b);
}

NAMED(int32_t, nv_isnan, (float x), "_Z5isnanf")
{
    return x != x;
}

NAMED(uint32_t, nv_min, (uint32_t a, uint32_t b), "_Z3minjj")
{
    return a < b ? a : b;
}

NAMED(uint32_t, nv_max, (uint32_t a, uint32_t b), "_Z3maxjj")
{
    return a > b ? a : b;
}

NAMED(uint32_t, nv_atomic_inc, (volatile uint32_t * p),
      "_Z10atomic_incPU8CLglobalVj")
{
    return (*p)++;
}
