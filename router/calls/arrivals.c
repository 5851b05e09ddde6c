#include "router/calls/arrivals.h"

#include "router/requests/leases.h"
#include "router/requests/resume.h"
#include "router/schedule/retries.h"

typedef Sluice__V1__GenerateRequest generate_message;

bool arrival_has_text(const generate_message *m)
{
    return m->has_text && m->text.len > 0;
}

/* A tier of a later minor version counts as the default. */
static enum fair_tier tier_of(Sluice__V1__Tier tier)
{
    return tier == SLUICE__V1__TIER__TIER_PRIORITY ? TIER_PRIORITY
           : tier == SLUICE__V1__TIER__TIER_FLEX   ? TIER_FLEX
                                                   : TIER_DEFAULT;
}

static uint32_t slot_of(struct metric_names *names, bool has,
                        const ProtobufCBinaryData *name)
{
    return (uint32_t)metric_slot(names, (const char *)name->data,
                                 has ? name->len : 0);
}

/* The tokens of a text are those that its bytes usually have. */
struct arrival arrival_of(struct router_core *r, const struct model *model,
                          const generate_message *m, int64_t deadline_us)
{
    return (struct arrival){
        .demand = {.model = model,
                   .n_prompt = arrival_has_text(m)
                                   ? overload_tokens(model, m->text.len)
                                   : (uint32_t)m->n_tokens,
                   .max_tokens = m->has_max_tokens ? m->max_tokens : 0},
        .tenant = slot_of(&r->base.tenant_names, m->has_tenant, &m->tenant),
        .route = slot_of(&r->base.route_names, m->has_route, &m->route),
        .tier = tier_of(m->tier),
        .guaranteed = m->guaranteed,
        .deadline_us = deadline_us};
}

enum status arrival_check(struct router_core *r, const struct arrival *a,
                          const generate_message *m, uint32_t *retry_ms,
                          struct error *e)
{
    enum status st;

    if (resume_asked(m) || m->continue_from != NULL) {
        return ST_OK;
    }
    st = retries_check(&r->schedule, a, retry_ms, e);
    if (st != ST_OK || !arrival_has_text(m)) {
        return st;
    }
    st = leases_check_quota(&r->requests, a, m->n, retry_ms, e);
    if (st == ST_OK) {
        st = overload_check(&r->schedule, a, retry_ms, e);
    }
    if (st == ST_RESOURCE_EXHAUSTED && *retry_ms > 0) {
        retries_refused(&r->schedule, a, *retry_ms);
    }
    return st;
}
