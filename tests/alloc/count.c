#include "tests/alloc/count.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

static atomic_uint_fast64_t counts[ALLOC_OWNERS];
static _Thread_local enum alloc_owner owner_now;

void alloc_as(enum alloc_owner owner)
{
    owner_now = owner;
}

uint64_t alloc_count(enum alloc_owner owner)
{
    return atomic_load(&counts[owner]);
}

void alloc_reset(void)
{
    for (int i = 0; i < ALLOC_OWNERS; i++) {
        atomic_store(&counts[i], 0);
    }
}

static void count(void)
{
    atomic_fetch_add(&counts[owner_now], 1);
}

/* ---- replacements of libc's functions, over libc's internal ones ---- */

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

void *malloc(size_t bytes);
void *calloc(size_t n, size_t bytes);
void *realloc(void *p, size_t bytes);
void *memalign(size_t align, size_t bytes);
void *aligned_alloc(size_t align, size_t bytes);
int posix_memalign(void **out, size_t align, size_t bytes);

void *malloc(size_t bytes)
{
    count();
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    count();
    return __libc_calloc(n, bytes);
}

void *realloc(void *p, size_t bytes)
{
    count();
    return __libc_realloc(p, bytes);
}

void *memalign(size_t align, size_t bytes)
{
    count();
    return __libc_memalign(align, bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    return memalign(align, bytes);
}

int posix_memalign(void **out, size_t align, size_t bytes)
{
    *out = memalign(align, bytes);
    return *out != NULL ? 0 : ENOMEM;
}
