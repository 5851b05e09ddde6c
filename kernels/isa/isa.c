#include "kernels/isa/isa.h"

#include <string.h>

#ifdef SLUICE_X86
#include <cpuid.h>

/* clang's __builtin_cpu_supports() does not accept "f16c". */
static bool has_f16c(void)
{
    unsigned a, b, c, d;

    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           has_f16c();
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw");
}

static bool has_vnni(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vnni");
}
#endif

static bool has_generic(void)
{
    return true;
}

const struct cpu_isa *isa_find(const char *name)
{
    static const struct {
        const struct cpu_isa *isa;
        bool (*has)(void);
    } all[] = {
#ifdef SLUICE_X86
        /* One name: their bits are equal. */
        {&isa_avx512_vnni, has_vnni},
        {&isa_avx512, has_avx512},
        {&isa_avx2, has_avx2},
#endif
        {&isa_generic, has_generic},
    };

    /* Best first, so that a NULL name takes the best set of this processor. */
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if ((name == NULL || strcmp(name, all[i].isa->name) == 0) &&
            all[i].has()) {
            return all[i].isa;
        }
    }
    return NULL;
}
