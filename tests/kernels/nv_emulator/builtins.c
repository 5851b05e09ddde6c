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

/* ---- vectors ---- */

typedef float float4 __attribute__((ext_vector_type(4)));
typedef float float8 __attribute__((ext_vector_type(8)));
typedef float float4 __attribute__((ext_vector_type(4)));
typedef float float16 __attribute__((ext_vector_type(16)));
typedef uint16_t ushort16 __attribute__((ext_vector_type(16)));
typedef uint32_t uint16 __attribute__((ext_vector_type(16)));

/* Loads n elements, each checked. */
#define LOAD(name, vector, element, n, symbol)                      \
    NAMED(vector, name, (uint64_t at, const element *from), symbol) \
    {                                                               \
        vector v;                                                   \
                                                                    \
        for (int i = 0; i < (n); i++) {                             \
            v[i] = from[at * (n) + (uint64_t)i];                    \
        }                                                           \
        return v;                                                   \
    }
LOAD(nv_load8, float8, float, 8, "_Z6vload8mPU9CLprivateKf")
LOAD(nv_load16, float16, float, 16, "_Z7vload16mPU8CLglobalKf")
LOAD(nv_load16_private, float16, float, 16, "_Z7vload16mPU9CLprivateKf")
LOAD(nv_load16_ushort, ushort16, uint16_t, 16, "_Z7vload16mPU8CLglobalKt")

NAMED(void, nv_store16, (float16 v, uint64_t at, float *to),
      "_Z8vstore16Dv16_fmPU9CLprivatef")
{
    for (int i = 0; i < 16; i++) {
        to[at * 16 + (uint64_t)i] = v[i];
    }
}

NAMED(float4, nv_fma4, (float4 a, float4 b, float4 c), "_Z3fmaDv4_fS_S_")
{
    float4 v;

    for (int i = 0; i < 4; i++) {
        v[i] = fmaf(a[i], b[i], c[i]);
    }
    return v;
}

NAMED(float16, nv_fma16, (float16 a, float16 b, float16 c), "_Z3fmaDv16_fS_S_")
{
    float16 v;

    for (int i = 0; i < 16; i++) {
        v[i] = fmaf(a[i], b[i], c[i]);
    }
    return v;
}

NAMED(uint16, nv_uint16, (ushort16 v), "_Z14convert_uint16Dv16_t")
{
    return __builtin_convertvector(v, uint16);
}

/* ---- atomics ---- */

NAMED(uint32_t, nv_atomic_inc_local, (volatile uint32_t * p),
      "_Z10atomic_incPU7CLlocalVj")
{
    return (*p)++;
}

NAMED(uint32_t, nv_atomic_inc, (volatile uint32_t * p),
      "_Z10atomic_incPU8CLglobalVj")
{
    return (*p)++;
}

NAMED(uint32_t, nv_atomic_add, (volatile uint32_t * p, uint32_t v),
      "_Z10atomic_addPU8CLglobalVjj")
{
    const uint32_t old = *p;

    *p += v;
    return old;
}
