#include "gateway/memory_share.h"

#include "common/base/limit.h"
#include "common/base/memory.h"
#include "gateway/http/http_limits.h"

static size_t at_most(uint64_t bytes, uint64_t most)
{
    return (size_t)(bytes < most ? bytes : most);
}

static struct memory_share divide(uint64_t left)
{
    return (struct memory_share){
        .requests = at_most(left / 2, HTTP_REQUESTS_BYTES_MAX),
        .outputs = at_most(left / 8, HTTP_OUTPUTS_BYTES_MAX)};
}

enum status memory_share(struct memory_share *out, struct error *e)
{
    uint64_t left = memory_left("");

    *out = divide(left);
    if (out->requests < MEMORY_SHARE_LEAST) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "%.1f MiB of memory are left for requests, at least "
                         "%.1f MiB are needed; raise the limit of the process "
                         "(ulimit -v, MemoryMax=) or lower --text-threads",
                         (double)out->requests / (1 << 20),
                         (double)MEMORY_SHARE_LEAST / (1 << 20));
    }
    return ST_OK;
}

void memory_share_print(FILE *to)
{
    const struct memory_share s = divide(memory_left(""));
    const struct limit_row rows[] = {
        {"REQUESTS_BYTES", s.requests, "bytes",
         "all requests, here: half of the memory that is left"},
        {"OUTPUTS_BYTES", s.outputs, "bytes",
         "all outputs, here: an eighth of it"},
    };

    limits_print(to, rows, sizeof rows / sizeof rows[0]);
}
