#include "tests/sim/claims.h"

#include <stdlib.h>

#include "common/base/metric_names.h"
#include "tests/sim/sim.h"

#define SUSPENSIONS_UNIT 1000000 /* options.suspensions are millionths */
#define OWED_US          2000000

static uint32_t worker_at(const struct sim *s, uint32_t conn)
{
    return s->network.conns[conn - 1].node - SIM_FIRST_WORKER;
}

/* A grant adds to what the router has granted and no ledger includes yet; an
 * adoption adds nothing. */
static void check_suspended(struct sim *s, const struct router_worker_view *v)
{
    uint32_t w = worker_at(s, v->id.v);
    struct place_seen *p = &s->claims.places[w];

    if (p->session == v->session && p->n_suspended > 0 && v->n_suspended > 0 &&
        v->granted_pages > p->granted_pages) {
        sim_fail(s, -1, "%s has %u suspended sequences and was granted another",
                 s->nodes[SIM_FIRST_WORKER + w].name, v->n_suspended);
    }
    if (p->session == v->session && v->n_suspended > p->n_suspended) {
        s->claims.n_suspended += v->n_suspended - p->n_suspended;
    }
}

/* Past its time, the first of a queue is cost no more. */
static void check_kept(struct sim *s, const struct router_worker_view *v)
{
    uint32_t w = worker_at(s, v->id.v);
    struct place_seen *p = &s->claims.places[w];

    if (p->session == v->session && v->place.n_late > p->n_late) {
        sim_fail(s, -1, "%s is kept for an entry and was granted a later one",
                 s->nodes[SIM_FIRST_WORKER + w].name);
    }
    *p = (struct place_seen){v->session, v->n_suspended, v->granted_pages,
                             v->place.n_late};
}

static void check_leases(struct sim *s, uint32_t model,
                         const struct router_model_view *m)
{
    int64_t *since = &s->claims.owed_us[model];

    if (!m->leases_owed) {
        *since = 0;
    } else if (*since == 0) {
        *since = sim_now(s);
    } else if (sim_now(s) - *since > OWED_US) {
        sim_fail(s, -1, "a sequence of %s waits for room, and one is kept",
                 m->name);
    }
}

/* Returns the choices of a model that have come. */
static uint64_t brought(const struct sim *s, uint32_t model)
{
    uint64_t n = 0;

    for (uint32_t t = 0; t < SIM_TENANTS; t++) {
        n += s->claims.n_brought[model][t];
    }
    return n;
}

/* Checks the tenants of the i-th model of the router. */
static void check_tenants(struct sim *s, uint32_t i, uint32_t model)
{
    for (uint32_t t = 0; t < SIM_TENANTS; t++) {
        uint64_t most = s->claims.n_brought[model][t], n;
        char name[12];

        (void)snprintf(name, sizeof name, "t%u", t);
        n = router_tenant_learned(s->nodes[SIM_ROUTER].core, i,
                                  t > 0 ? name : NULL);
        if (n > most) {
            sim_fail(s, -1,
                     "the lengths of tenant %u are those of %llu choices, but "
                     "%llu have come",
                     t, (unsigned long long)n, (unsigned long long)most);
        }
    }
}

static void check_lengths(struct sim *s)
{
    struct router_model_view m;

    for (uint32_t i = 0; router_model_view(s->nodes[SIM_ROUTER].core, i, &m);
         i++) {
        uint32_t model = m.name[0] == 'm' ? (uint32_t)atoi(m.name + 1) : 0;
        uint64_t most = model < SIM_MODELS ? brought(s, model) : 0;

        if (model < SIM_MODELS) {
            check_leases(s, model, &m);
        }
        if (!m.ordered) {
            sim_fail(s, -1,
                     "the queue of %s is not in the order of its tenants",
                     m.name);
        }
        if (!m.exact) {
            sim_fail(s, -1, "the work that waits for %s is not that counted",
                     m.name);
        }
        if (s->options.gateways.n == 0 && m.n_learned > most) {
            sim_fail(s, -1,
                     "the lengths of %s are those of %llu choices, but %llu "
                     "have come",
                     m.name, (unsigned long long)m.n_learned,
                     (unsigned long long)most);
        }
        if (s->options.gateways.n == 0 && model < SIM_MODELS) {
            check_tenants(s, i, model);
        }
    }
}

/* Without a draw, so that other seeds stay as they were. */
uint32_t claims_quota(const struct sim *s)
{
    return s->seed % 8 == 3 ? 200 + (uint32_t)(s->seed / 8 % 8) * 200 : 0;
}

static void check_quotas(struct sim *s)
{
    struct router_quota_view v;
    uint32_t most = claims_quota(s);

    for (uint32_t i = 0; i < METRIC_SLOTS; i++) {
        if (!router_quota_view(s->nodes[SIM_ROUTER].core, i, &v)) {
            continue;
        }
        if (v.n_charged != v.n_sum || v.n_wrong > 0) {
            sim_fail(s, -1,
                     "tenant %s is charged %llu tokens, its choices %llu; %u "
                     "of them are wrong",
                     v.tenant, (unsigned long long)v.n_charged,
                     (unsigned long long)v.n_sum, v.n_wrong);
        }
        if (most > 0 && v.n_judged > most) {
            sim_fail(s, -1, "tenant %s occupies %llu tokens, its quota is %u",
                     v.tenant, (unsigned long long)v.n_judged, most);
        }
    }
}

void claims_router(struct sim *s)
{
    struct router_worker_view v;

    for (uint32_t i = 0; router_worker_view(s->nodes[SIM_ROUTER].core, i, &v);
         i++) {
        if (s->options.suspensions == 0) {
            if (v.n_suspended > 0 || v.grew || v.place.grows) {
                sim_fail(s, -1, "a sequence grows in a strict seed");
            }
        } else if (v.serves && v.stage == 0 && v.n_stages < 2) {
            check_suspended(s, &v);
        }
        if (v.serves && v.place.n_rows != v.place.n_generating) {
            sim_fail(s, -1, "%u sequences generate at a place, %u are counted",
                     v.place.n_generating, v.place.n_rows);
        }
        if (v.serves) {
            check_kept(s, &v);
        }
    }
    check_lengths(s);
    check_quotas(s);
}

void claims_worker(struct sim *s, uint32_t w)
{
    const struct sim_node *n = &s->nodes[SIM_FIRST_WORKER + w];
    struct worker_account a;

    worker_account(n->core, &a);
    s->counts.cells.deeds[DEED_SUSPENDED] += a.n_suspended > 0;
    if (a.n_suspended > 0 && s->options.suspensions == 0) {
        sim_fail(s, -1, "%s has a suspended sequence in a strict seed",
                 n->name);
    }
}

/* Checks the window pages of a Submit: all that the sequence can hold at once,
 * or, if it grows, all for its prompt, its tokens and one more. */
static void check_windows(const struct sim_choice *c, uint32_t w,
                          const Sluice__V1__SubmitRequest *r)
{
    const struct sim_request *request = c->request;
    const struct sim_options *o = &request->sim->options;
    uint32_t chunk = options_chunk(o, w);
    uint32_t most =
        options_windows(o, w, chunk, request->n_prompt + request->max_tokens);
    uint32_t least =
        r->grows
            ? options_windows(o, w, chunk, r->n_prompt + r->n_generated + 1)
            : most;

    if (!r->adopt && (r->need->windows < least || r->need->windows > most)) {
        sim_fail(request->sim, (int32_t)request->number,
                 "a Submit grants %u window pages, must be %u..%u",
                 r->need->windows, least, most);
    }
}

void claims_submitted(struct sim_choice *c, uint32_t conn,
                      const Sluice__V1__SubmitRequest *r)
{
    const struct sim_request *request = c->request;
    struct sim *s = request->sim;
    uint32_t w = worker_at(s, conn), block = s->options.workers[w].block_tokens;
    uint32_t most = sim_request_blocks(request, block);
    uint32_t least = (r->n_prompt + r->n_generated + 1 + block - 1) / block;

    c->grows = r->grows;
    s->claims.n_grow += r->grows && !r->adopt;
    check_windows(c, w, r);
    if (r->adopt || !options_shard(&s->options, w).attention) {
        return;
    }
    s->counts.cells.deeds[DEED_GREW] += r->grows ? 1 : 0;
    if (r->grows && c->request->guaranteed && !r->adopt) {
        sim_fail(s, (int32_t)c->request->number,
                 "it has a guarantee, and may be suspended");
    }
    if (r->grows && (s->options.suspensions == 0 || r->stages != NULL)) {
        sim_fail(s, (int32_t)request->number,
                 "a Submit to a strict place does not grant the whole need");
    } else if (r->need->blocks != (r->grows ? least : most)) {
        sim_fail(s, (int32_t)request->number,
                 "a Submit grants %u blocks, must be %u", r->need->blocks,
                 r->grows ? least : most);
    }
}

/* By the target, a quarter more while lengths are learned, and ten. */
void claims_end(struct sim *s)
{
    const struct claims_seen *x = &s->claims;
    uint64_t most = 10 + x->n_grow / 4 +
                    x->n_grow * s->options.suspensions / SUSPENSIONS_UNIT;

    if (x->n_suspended > most) {
        sim_fail(s, -1,
                 "%llu of %llu growing sequences were suspended, at most %llu "
                 "may be",
                 (unsigned long long)x->n_suspended,
                 (unsigned long long)x->n_grow, (unsigned long long)most);
    }
}
