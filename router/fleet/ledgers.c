#include "router/fleet/ledgers.h"

#include <inttypes.h>

#include "common/base/log.h"
#include "common/base/plant.h"
#include "router/fleet/fleet.h"

static void class_take(struct class_ledger *to,
                       const Sluice__V1__ClassLedger *c)
{
    *to = (struct class_ledger){c->total, c->free, c->held, c->cached,
                                c->granted};
}

void ledger_read(struct fleet_ledger *to, const Sluice__V1__Ledger *l)
{
    to->session = l->session;
    to->snapshot = l->snapshot;
    to->grant = l->grant;
    to->violations = l->violations;
    class_take(&to->classes[BLOCKS], l->blocks);
    class_take(&to->classes[SLOTS], l->slots);
    class_take(&to->classes[CHECKPOINTS], l->checkpoints);
    class_take(&to->classes[PAGES], l->pages);
    to->n_queued = l->n_queued;
    to->n_prefill = l->n_prefill;
    to->n_decode = l->n_decode;
    to->n_kept = l->n_kept;
}

static bool class_lies(const char *name, const struct class_ledger *known,
                       const Sluice__V1__ClassLedger *c, struct error *e)
{
    uint64_t sum = (uint64_t)c->free + c->held + c->cached + c->granted;

    if (c->total != known->total) {
        error_set(e, ST_DATA_LOSS,
                  "its ledger has %" PRIu32 " %s in all, Hello said %" PRIu32,
                  c->total, name, known->total);
        return true;
    }
    if (sum != c->total) {
        error_set(e, ST_DATA_LOSS,
                  "its ledger's %s do not add up: total %" PRIu32
                  ", sum %" PRIu64,
                  name, c->total, sum);
        return true;
    }
    return false;
}

static bool grant_lies(const struct worker *w, const Sluice__V1__Ledger *l,
                       struct error *e)
{
    bool newer = l->snapshot > w->ledger.snapshot;

    if (l->grant > w->last_grant) {
        error_set(e, ST_DATA_LOSS,
                  "its ledger settles grant %" PRIu64 ", the last is %" PRIu64,
                  l->grant, w->last_grant);
        return true;
    }
    if (newer ? l->grant < w->ledger.grant : l->grant > w->ledger.grant) {
        error_set(e, ST_DATA_LOSS,
                  "its ledger %" PRIu64 " settles grant %" PRIu64
                  ", ledger %" PRIu64 " settled %" PRIu64,
                  l->snapshot, l->grant, w->ledger.snapshot, w->ledger.grant);
        return true;
    }
    return false;
}

enum ledger_verdict worker_ledger_check(const struct worker *w,
                                        const Sluice__V1__Ledger *l,
                                        struct error *e)
{
    const struct class_ledger *known = w->ledger.classes;

    if (l->session != w->peer->session) {
        return LEDGER_OLD;
    }
    if (class_lies("blocks", &known[BLOCKS], l->blocks, e) ||
        class_lies("slots", &known[SLOTS], l->slots, e) ||
        class_lies("checkpoints", &known[CHECKPOINTS], l->checkpoints, e) ||
        class_lies("pages", &known[PAGES], l->pages, e) ||
        grant_lies(w, l, e)) {
        return LEDGER_LIE;
    }
    return l->snapshot > w->ledger.snapshot || PLANT(OLD_SNAPSHOT) ? LEDGER_NEW
                                                                   : LEDGER_OLD;
}

enum ledger_verdict worker_report_check(const struct worker *w,
                                        const Sluice__V1__Ledger *l,
                                        const Sluice__V1__EngineState *engine,
                                        struct error *e)
{
    enum ledger_verdict verdict = worker_ledger_check(w, l, e);

    /* What an older report says of the engine is older, too. */
    if (verdict == LEDGER_NEW && l->snapshot > w->ledger.snapshot &&
        liveness_check(w, engine, e) != ST_OK) {
        return LEDGER_LIE;
    }
    return verdict;
}

static void settle(struct worker *w, uint64_t grant)
{
    for (uint64_t request = w->ledger.grant + 1; request <= grant; request++) {
        const struct need *n = &w->ring[request & (w->ring_size - 1)];
        for (int c = 0; c < FLEET_CLASSES; c++) {
            w->owed[c] -= n->of[c] * (PLANT(GRANT_TWICE) ? 2 : 1);
        }
    }
}

void worker_ledger_take(struct fleet *fleet, struct worker *w,
                        const Sluice__V1__Ledger *l)
{
    uint64_t violations = w->ledger.violations;

    settle(w, l->grant);
    ledger_read(&w->ledger, l);
    if (l->violations > violations) {
        fleet->base->metrics.ledger_violations += l->violations - violations;
    }
    for (int c = 0; c < FLEET_CLASSES; c++) {
        const struct class_ledger *k = &w->ledger.classes[c];
        if (k->total > 0 && (uint64_t)k->free + k->cached < w->owed[c]) {
            fleet->base->metrics.ledger_violations++;
        }
    }
    model_touch(fleet, w->model);
}

static void class_message(const struct class_ledger *c,
                          Sluice__V1__ClassLedger *out)
{
    sluice__v1__class_ledger__init(out);
    out->total = c->total;
    out->free = c->free;
    out->held = c->held;
    out->cached = c->cached;
    out->granted = c->granted;
}

void ledger_message(const struct fleet_ledger *l, Sluice__V1__Ledger *out,
                    Sluice__V1__ClassLedger classes[FLEET_CLASSES])
{
    sluice__v1__ledger__init(out);
    for (int c = 0; c < FLEET_CLASSES; c++) {
        class_message(&l->classes[c], &classes[c]);
    }
    out->session = l->session;
    out->snapshot = l->snapshot;
    out->grant = l->grant;
    out->blocks = &classes[BLOCKS];
    out->slots = &classes[SLOTS];
    out->checkpoints = &classes[CHECKPOINTS];
    out->pages = &classes[PAGES];
    out->has_violations = true;
    out->violations = l->violations;
    out->has_n_queued = out->has_n_prefill = true;
    out->n_queued = l->n_queued;
    out->n_prefill = l->n_prefill;
    out->has_n_decode = out->has_n_kept = true;
    out->n_decode = l->n_decode;
    out->n_kept = l->n_kept;
}
