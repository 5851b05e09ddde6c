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

/* The totals of a pool are fixed for a session, and every unit is in exactly
 * one of the four columns. */
static bool class_is_wrong(const char *name, const struct class_ledger *known,
                           const Sluice__V1__ClassLedger *c, struct error *e)
{
    uint64_t sum = (uint64_t)c->free + c->held + c->cached + c->granted;

    if (c->total != known->total) {
        error_set(e, ST_DATA_LOSS,
                  "its ledger reports %" PRIu32 " %s in total, but its Hello "
                  "reported %" PRIu32,
                  c->total, name, known->total);
        return true;
    }
    if (sum != c->total) {
        error_set(e, ST_DATA_LOSS,
                  "its ledger's %s do not add up: total %" PRIu32
                  ", but free, held, cached and granted sum to "
                  "%" PRIu64,
                  name, c->total, sum);
        return true;
    }
    return false;
}

/* A worker takes grants in order, so `grant` never falls from one snapshot to
 * the next and never passes the last grant given.  An old snapshot may arrive
 * late; it must then settle no more than the newest one did. */
static bool grant_is_wrong(const struct worker *w, const Sluice__V1__Ledger *l,
                           struct error *e)
{
    bool is_newer = l->snapshot > w->ledger.snapshot;

    if (l->grant > w->last_grant) {
        error_set(e, ST_DATA_LOSS,
                  "its ledger settles grant %" PRIu64
                  ", but the last grant given is %" PRIu64,
                  l->grant, w->last_grant);
        return true;
    }
    if (is_newer ? l->grant < w->ledger.grant : l->grant > w->ledger.grant) {
        error_set(e, ST_DATA_LOSS,
                  "its ledger %" PRIu64 " settles grant %" PRIu64
                  ", but its ledger %" PRIu64 " settled grant %" PRIu64,
                  l->snapshot, l->grant, w->ledger.snapshot, w->ledger.grant);
        return true;
    }
    return false;
}

enum status ledger_counts_check(const Sluice__V1__Ledger *l, enum status code,
                                struct error *e)
{
    uint64_t n = (uint64_t)l->n_queued + l->n_prefill + l->n_decode + l->n_kept;

    if (n > WORKER_ORPHANS_MAX) {
        return error_set(e, code,
                         "its ledger counts %" PRIu64
                         " sequences, at most %d are possible",
                         n, WORKER_ORPHANS_MAX);
    }
    if (l->violations > VIOLATIONS_MAX) {
        return error_set(e, code,
                         "its ledger counts %" PRIu64
                         " violations, at most %" PRIu64 " are possible",
                         l->violations, (uint64_t)VIOLATIONS_MAX);
    }
    return ST_OK;
}

/* Violations are counted from the worker's start and never taken back. */
static bool violations_are_wrong(const struct worker *w,
                                 const Sluice__V1__Ledger *l, struct error *e)
{
    if (l->snapshot > w->ledger.snapshot &&
        l->violations < w->ledger.violations) {
        error_set(e, ST_DATA_LOSS,
                  "its ledger counts %" PRIu64
                  " violations, but the one before counted %" PRIu64,
                  l->violations, w->ledger.violations);
        return true;
    }
    return false;
}

enum ledger_verdict worker_ledger_check(const struct worker *w,
                                        const Sluice__V1__Ledger *l,
                                        struct error *e)
{
    const struct class_ledger *known = w->ledger.classes;

    /* A frame of an earlier session may still be under way: no violation. */
    if (l->session != w->peer->session) {
        return LEDGER_OLD;
    }
    if (class_is_wrong("blocks", &known[BLOCKS], l->blocks, e) ||
        class_is_wrong("slots", &known[SLOTS], l->slots, e) ||
        class_is_wrong("checkpoints", &known[CHECKPOINTS], l->checkpoints, e) ||
        class_is_wrong("pages", &known[PAGES], l->pages, e) ||
        ledger_counts_check(l, ST_DATA_LOSS, e) != ST_OK ||
        violations_are_wrong(w, l, e) || grant_is_wrong(w, l, e)) {
        return LEDGER_INVALID;
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

    /* The engine state of an old report is old as well: its tick count may be
     * below the newest one without any fault. */
    if (verdict == LEDGER_NEW && l->snapshot > w->ledger.snapshot &&
        liveness_check(w, engine, e) != ST_OK) {
        return LEDGER_INVALID;
    }
    return verdict;
}

/* The pool columns of a ledger already include the grants up to `grant`.  Their
 * needs are subtracted here so that room does not count them twice. */
static void settle_grants(struct worker *w, uint64_t grant)
{
    for (uint64_t g = w->ledger.grant + 1; g <= grant; g++) {
        const struct need *n = &w->ring[g & (w->ring_size - 1)];
        for (int c = 0; c < FLEET_CLASSES; c++) {
            w->owed[c] -= n->of[c] * (PLANT(GRANT_TWICE) ? 2 : 1);
        }
    }
}

void worker_ledger_take(struct fleet *fleet, struct worker *w,
                        const Sluice__V1__Ledger *l)
{
    uint64_t violations = w->ledger.violations;

    settle_grants(w, l->grant);
    ledger_read(&w->ledger, l);
    if (l->violations > violations) {
        fleet->base->metrics.ledger_violations += l->violations - violations;
    }
    /* The router grants only what fits, so the pool must cover all unsettled
     * grants.  A worker that used more than it was granted shows up here. */
    for (int c = 0; c < FLEET_CLASSES; c++) {
        const struct class_ledger *k = &w->ledger.classes[c];
        if (k->total > 0 && (uint64_t)k->free + k->cached < w->owed[c]) {
            fleet->base->metrics.ledger_violations++;
        }
    }
    model_touch(fleet, w->model);
}

static void class_to_message(const struct class_ledger *c,
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
        class_to_message(&l->classes[c], &classes[c]);
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
