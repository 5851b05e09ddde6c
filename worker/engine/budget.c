#include "worker/engine/budget.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/minmax.h"
#include "common/base/option.h"

#define MIB (1024.0 * 1024.0)

/* Parses "0.9" as a share, in decimal; anything else must be a size. */
static bool parse_memory(const struct budget_memory *m, uint64_t *bytes)
{
    char *end;
    double share = strtod(m->text, &end);

    if (*end == '\0' && strchr(m->text, '.') != NULL &&
        strpbrk(m->text, "xX") == NULL) {
        *bytes = (uint64_t)(share * (double)m->available);
        return share > 0 && share <= 1;
    }
    return option_bytes(m->text, bytes);
}

/* Reads --memory into *bytes, which keeps the default without the option.  A
 * pool that the machine does not have would be found out by a later request,
 * when the system kills a process. */
static enum status read_memory(const struct budget_memory *m, uint64_t *bytes,
                               struct error *e)
{
    if (m->text == NULL) {
        return ST_OK;
    }
    if (!parse_memory(m, bytes)) {
        return error_set(
            e, ST_INVALID_ARGUMENT,
            "--memory %s: give a size such as 4GiB, or a share such as "
            "0.5 of the available memory",
            m->text);
    }
    if (*bytes > m->available) {
        return error_set(
            e, ST_RESOURCE_EXHAUSTED,
            "--memory %s is %.1f MiB, more than the %.1f MiB that %s; give "
            "less, or a share such as 0.5",
            m->text, (double)*bytes / MIB, (double)m->available / MIB,
            m->device ? "the device has"
                      : "this machine or its cgroup has available");
    }
    return ST_OK;
}

enum status budget_bytes(uint64_t *out, const struct budget_memory *m,
                         struct error *e)
{
    *out = (uint64_t)(BUDGET_SHARE * (double)m->available);
    return read_memory(m, out, e);
}

enum status budget_divide(struct budget *out, const struct budget_memory *m,
                          const struct pool_budget *need, struct error *e)
{
    uint64_t fixed = need->weight_bytes + need->scratch_bytes;
    uint64_t one = pool_split_sequence(&need->pool, need->pool.context);
    uint64_t bytes = min_u64(fixed + BUDGET_SEQUENCES * one,
                             (uint64_t)(BUDGET_SHARE * (double)m->available));
    enum status st = read_memory(m, &bytes, e);

    st = st == ST_OK ? pool_split_budget(&out->pool, need, bytes, e) : st;
    if (st == ST_OK) {
        out->bytes = fixed + out->pool.bytes;
    }
    return st;
}
