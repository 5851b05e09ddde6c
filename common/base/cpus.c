#include "common/base/cpus.h"

#include <sched.h>

uint32_t cpus_allowed(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        return 1;
    }
    return CPU_COUNT(&set) > 0 ? (uint32_t)CPU_COUNT(&set) : 1;
}
