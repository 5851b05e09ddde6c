#include "common/daemon/malloc_bounds.h"

#include <stdlib.h>

#ifdef __GLIBC__
#include <malloc.h>

bool malloc_bounds_set(void)
{
    /* Setting the threshold of mapped pieces stops its own adaptation too. */
    return mallopt(M_ARENA_MAX, 1) == 1 &&
           mallopt(M_MMAP_THRESHOLD, MALLOC_MAPPED_BYTES) == 1;
}

void malloc_bounds_trim(void)
{
    malloc_trim(0);
}

#else

bool malloc_bounds_set(void)
{
    return false;
}

void malloc_bounds_trim(void)
{
}

#endif
