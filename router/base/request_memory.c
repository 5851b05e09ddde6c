#include "router/base/request_memory.h"

#define MIB(bytes) ((double)(bytes) / (1 << 20))

enum status request_memory_take(struct router_base *b, size_t bytes,
                                struct error *e)
{
    if (memory_take(&b->memory, bytes)) {
        return ST_OK;
    }
    if (bytes > b->memory.max) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         MEMORY_SENTENCE
                         "this needs %.1f MiB, but the router has %.1f MiB of "
                         "memory for all requests; raise the memory limit of "
                         "the router",
                         MIB(bytes), MIB(b->memory.max));
    }
    return error_set(e, ST_RESOURCE_EXHAUSTED,
                     MEMORY_SENTENCE
                     "this needs %.1f MiB, but open requests hold %.1f of the "
                     "%.1f MiB that the router has for them; retry, or raise "
                     "the memory limit of the router",
                     MIB(bytes), MIB(b->memory.used), MIB(b->memory.max));
}

void request_memory_give(struct router_base *b, size_t bytes)
{
    memory_give(&b->memory, bytes);
}

uint32_t request_memory_retry_ms(const struct router_base *b, size_t bytes)
{
    return bytes > b->memory.max ? 0 : RETRY_MS_MIN;
}
