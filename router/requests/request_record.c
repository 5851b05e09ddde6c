/* request_record.c - Hands what happens to requests to the recorder.
 *
 * These functions are called where the log and the metrics are, so that all
 * three agree on what a request, a grant and an ending is. */
#include "router/requests/request_record.h"

#include <string.h>

#include "common/base/minmax.h"
#include "router/placement/placement.h"
#include "router/replicas/place.h"

static int64_t left_us(const struct requests *r, int64_t deadline_us)
{
    return deadline_us == NODE_IDLE ? 0
                                    : max_i64(deadline_us - r->base->now_us, 1);
}

_Static_assert((int)RECORD_PRIORITY == (int)TIER_PRIORITY &&
                   (int)RECORD_DEFAULT == (int)TIER_DEFAULT &&
                   (int)RECORD_FLEX == (int)TIER_FLEX,
               "tiers are recorded in their order");

/* Names past METRIC_NAMES_MAX are one in the scheduler, and so in a replay. */
static const char *route_name(const struct requests *r, uint32_t route)
{
    return route == METRIC_DEFAULT
               ? ""
               : metric_slot_name(&r->base->route_names, route);
}

void request_record_arrival(struct requests *r, struct request *request)
{
    const struct record_arrival a = {
        .model = request->model->name,
        .tenant = request->scope.tenant_name,
        .n_prompt = request->prompt.n,
        .max_tokens = request->max_tokens,
        .n_choices = request->n_choices,
        .deadline_us = left_us(r, request->deadline_us),
        .cache = !request->scope.uncached,
        .guaranteed = request->scope.guaranteed,
        .tier = (enum record_tier)request->scope.tier,
        .route = route_name(r, request->scope.route),
        .units = request->prompt.prefix.units,
        .n_units = request->prompt.prefix.n_units};

    request->prompt.recorded =
        record_arrival(r->base->options.recorder, r->base->now_us, &a);
}

/* Only refusals for want of room depend on the scheduler: a replay may decide
 * otherwise.  A request that is malformed is no load. */
void request_record_refused(struct requests *r, const struct model *model,
                            const Sluice__V1__GenerateRequest *m,
                            const struct arrival *arrival, enum status why)
{
    struct recorder *to = r->base->options.recorder;
    char tenant[TENANT_NAME_MAX + 1] = "";
    struct record_arrival a = {.model = model->name,
                               .tenant = tenant,
                               .route = route_name(r, arrival->route),
                               .n_prompt = arrival->demand.n_prompt,
                               .max_tokens = m->max_tokens,
                               .n_choices = m->n,
                               .deadline_us = left_us(r, arrival->deadline_us),
                               .guaranteed = arrival->guaranteed,
                               .tier = (enum record_tier)arrival->tier,
                               .cache = m->cache};

    if (why != ST_RESOURCE_EXHAUSTED) {
        return;
    }
    if (m->has_tenant) {
        memcpy(tenant, m->tenant.data, m->tenant.len);
    }
    record_refused(to, r->base->now_us, record_arrival(to, r->base->now_us, &a),
                   status_name(why));
}

void request_record_granted(struct requests *r, const struct choice *choice)
{
    const struct worker *w = choice->grant.worker;

    record_granted(r->base->options.recorder, r->base->now_us,
                   choice->request->prompt.recorded, choice->index,
                   w->peer->session, choice->entry.claim.need.of[PAGES]);
}

void request_record_first(struct requests *r, const struct choice *choice)
{
    record_first(r->base->options.recorder, r->base->now_us,
                 choice->request->prompt.recorded, choice->index,
                 choice_n_cached(choice));
}

/* The ids of a choice, prompt and output, without a copy. */
static uint32_t id_at(const struct choice *choice, uint32_t at)
{
    const struct request_prompt *p = &choice->request->prompt;

    return at < p->n ? p->ids[at] : choice->out.tokens[at - p->n];
}

/* The next turn of a conversation begins with this output.  Its newest token is
 * not computed. */
static void add_output(struct requests *r, const struct choice *choice)
{
    const struct request *request = choice->request;
    const struct prefix_prompt *p = &request->prompt.prefix;
    const struct prefix_key *key = &r->placement->feeds.key;
    uint32_t n = request->prompt.n + choice->out.n_generated - 1;
    uint32_t ids[PREFIX_UNIT];
    struct prefix_hash h;

    if (p->n_units == 0 || choice->out.n_generated == 0) {
        return;
    }
    h = p->units[p->n_units - 1];
    for (uint32_t unit = p->n_units; unit < n / PREFIX_UNIT; unit++) {
        for (uint32_t i = 0; i < PREFIX_UNIT; i++) {
            ids[i] = id_at(choice, unit * PREFIX_UNIT + i);
        }
        h = prefix_hash_next(key, h, ids);
        record_prefix(r->base->options.recorder, request->prompt.recorded, h);
    }
}

void request_record_end(struct requests *r, const struct choice *choice,
                        enum record_end how)
{
    const struct request *request = choice->request;

    if (request->prompt.recorded == 0) {
        return;
    }
    record_ended(r->base->options.recorder, r->base->now_us,
                 request->prompt.recorded, choice->index,
                 choice->out.n_generated, how);
    if (choice->index == 0) {
        add_output(r, choice);
    }
}
