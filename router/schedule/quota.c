#include "router/schedule/quota.h"

#include <assert.h>
#include <inttypes.h>

#include "common/base/plant.h"

/* The strict rules promise all of max_tokens, so all of it is charged. */
uint64_t quota_tokens(const struct schedule *s, const struct arrival *a)
{
    const struct demand *d = &a->demand;
    uint32_t most = overload_most_tokens(d);
    struct queue_entry e = {.model = (struct model *)(uintptr_t)d->model,
                            .tenant = a->tenant,
                            .group.route = a->route};

    if (s->base->options.admission == ADMISSION_EXPECTED && !a->guaranteed) {
        length_groups_seek(&scheduling_of(d->model)->lengths, a->tenant,
                           &e.group);
        most = lengths_expect(lengths_for(&e), 0, most);
    }
    return (uint64_t)d->n_prompt + most;
}

uint64_t quota_excess(const struct schedule *s, uint32_t tenant, uint64_t n)
{
    uint64_t quota = s->base->options.tenant_quota;
    uint64_t all = s->base->tenants[tenant].tenant_occupied_tokens + n;

    return quota > 0 && all > quota && !PLANT(TENANT_UNBOUND) ? all - quota : 0;
}

enum status quota_check(const struct schedule *s, const struct model *m,
                        uint32_t tenant, uint64_t n, uint32_t *retry_ms,
                        struct error *e)
{
    const char *name = metric_slot_name(&s->base->tenant_names, tenant);
    uint32_t quota = s->base->options.tenant_quota;

    if (quota_excess(s, tenant, n) == 0) {
        return ST_OK;
    }
    if (n > quota) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "the request is expected to occupy %" PRIu64
                         " tokens, and all of a tenant may occupy %" PRIu32
                         " at most (--tenant-quota): it can never run; lower "
                         "max_tokens, n or the prompt",
                         n, quota);
    }
    *retry_ms = model_retry_ms(m);
    return error_set(
        e, ST_RESOURCE_EXHAUSTED,
        "the sequences of tenant %s that wait, run or are kept occupy %" PRIu64
        " tokens, at most %" PRIu32 " may be (--tenant-quota), and the request "
        "adds %" PRIu64 "; retry in %" PRIu32 " ms, or lower max_tokens",
        name, s->base->tenants[tenant].tenant_occupied_tokens, quota, n,
        *retry_ms);
}

void quota_charge(struct schedule *s, struct queue_entry *e, uint64_t n)
{
    uint64_t *all = &s->base->tenants[e->tenant].tenant_occupied_tokens;

    assert(*all >= e->quota);
    *all = *all - e->quota + n;
    e->quota = n;
}
