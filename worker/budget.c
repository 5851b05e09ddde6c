#include "worker/budget.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/option.h"

#define MIB (1024.0 * 1024.0)

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* "0.9": a share, in decimal; anything else must be a size. */
static bool wanted(const char *text, uint64_t available, uint64_t *bytes)
{
    char *end;
    double share = strtod(text, &end);

    if (*end == '\0' && strchr(text, '.') != NULL &&
        strpbrk(text, "xX") == NULL) {
        *bytes = (uint64_t)(share * (double)available);
        return share > 0 && share <= 1;
    }
    return option_bytes(text, bytes);
}

static enum status too_small(const struct budget_need *n, uint64_t bytes,
                             struct error *e)
{
    uint64_t one = pool_split_sequence(&n->pool, n->pool.context);

    return error_set(
        e, ST_RESOURCE_EXHAUSTED,
        "the memory budget of %.1f MiB is too small: weights take %.1f MiB, "
        "scratch %.1f MiB, one sequence of %u tokens %.1f MiB; at least "
        "%.1f MiB are needed (--memory), or a shorter --context",
        (double)bytes / MIB, (double)n->weight_bytes / MIB,
        (double)n->scratch_bytes / MIB, n->pool.context, (double)one / MIB,
        (double)(n->weight_bytes + n->scratch_bytes + one) / MIB);
}

static enum status no_size(const char *text, struct error *e)
{
    return error_set(e, ST_INVALID_ARGUMENT,
                     "--memory %s: a size such as 4GiB, or a share such as 0.5 "
                     "of what is available, is wanted",
                     text);
}

enum status budget_bytes(uint64_t *out, const char *text, uint64_t available,
                         struct error *e)
{
    *out = (uint64_t)(BUDGET_SHARE * (double)available);
    return text == NULL || wanted(text, available, out) ? ST_OK
                                                        : no_size(text, e);
}

enum status budget_divide(struct budget *out, const char *text,
                          uint64_t available, const struct budget_need *need,
                          struct error *e)
{
    uint64_t fixed = need->weight_bytes + need->scratch_bytes;
    uint64_t one = pool_split_sequence(&need->pool, need->pool.context);
    uint64_t bytes = fixed + BUDGET_SEQUENCES * one;

    if (text == NULL) {
        bytes = least(bytes, (uint64_t)(BUDGET_SHARE * (double)available));
    } else if (!wanted(text, available, &bytes)) {
        return no_size(text, e);
    }
    if (bytes < fixed + one) {
        return too_small(need, bytes, e);
    }
    out->pool = pool_split_make(&need->pool, bytes - fixed);
    out->bytes = fixed + out->pool.bytes;
    return ST_OK;
}

static bool read_number(const char *path, const char *key, uint64_t *out)
{
    FILE *f = fopen(path, "re");
    char line[256];
    bool found = false;

    while (f != NULL && !found && fgets(line, sizeof line, f) != NULL) {
        size_t n = strlen(key);

        if (strncmp(line, key, n) == 0) {
            found = sscanf(line + n, "%" SCNu64, out) == 1;
        }
    }
    if (f != NULL) {
        fclose(f);
    }
    return found;
}

/* What a cgroup leaves, version 2 or 1; UINT64_MAX if it sets no limit. */
static uint64_t cgroup_left(void)
{
    static const char *const pairs[][2] = {
        {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes",
         "/sys/fs/cgroup/memory/memory.usage_in_bytes"},
    };

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        uint64_t limit, used;

        if (read_number(pairs[i][0], "", &limit) &&
            read_number(pairs[i][1], "", &used)) {
            return limit > used ? limit - used : 0;
        }
    }
    return UINT64_MAX;
}

uint64_t budget_available(void)
{
    uint64_t kib = 0;

    if (!read_number("/proc/meminfo", "MemAvailable:", &kib)) {
        kib = 1u << 20; /* nothing tells: assume a gibibyte */
    }
    return least(kib * 1024, cgroup_left());
}
