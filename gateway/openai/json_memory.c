#include "gateway/openai/json_memory.h"

#include <stdlib.h>

#include <jansson.h>

static _Thread_local bool failed;

static void *take(size_t n)
{
    void *p = malloc(n);

    failed = failed || p == NULL;
    return p;
}

static void give(void *p)
{
    free(p);
}

void json_memory_init(void)
{
    json_set_alloc_funcs(take, give);
}

void json_memory_clear(void)
{
    failed = false;
}

void json_memory_fail(void)
{
    failed = true;
}

bool json_memory_failed(void)
{
    return failed;
}
