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

/* Shards without window layers have no account of them. */
static const Sluice__V1__ClassLedger *windows_of(const Sluice__V1__Ledger *l)
{
    static const Sluice__V1__ClassLedger none = SLUICE__V1__CLASS_LEDGER__INIT;

    return l->windows != NULL ? l->windows : &none;
}

/* Takes a field that a ledger need not have. */
#define TAKE(field)           \
    if (l->has_##field) {     \
        to->field = l->field; \
    }

void ledger_read(struct fleet_ledger *to, const Sluice__V1__Ledger *l)
{
    to->session = l->session;
    to->snapshot = l->snapshot;
    to->grant = l->grant;
    TAKE(violations)
    class_take(&to->classes[BLOCKS], l->blocks);
    class_take(&to->classes[SLOTS], l->slots);
    class_take(&to->classes[CHECKPOINTS], l->checkpoints);
    class_take(&to->classes[WINDOWS], windows_of(l));
    class_take(&to->classes[PAGES], l->pages);
    TAKE(n_queued)
    TAKE(n_prefill)
    TAKE(n_decode)
    TAKE(n_kept)
    TAKE(n_suspended)
    /* The pages of the tier add up to host_used, so they stay together. */
    if (l->host != NULL || !to->tier.reported) {
        TAKE(host_total)
        TAKE(host_used)
        to->tier = tier_read(l->host);
    }
}

#undef TAKE

const char *const ledger_class_names[FLEET_CLASSES] = {
    [BLOCKS] = "blocks",
    [SLOTS] = "slots",
    [CHECKPOINTS] = "checkpoints",
    [WINDOWS] = "window pages",
    [PAGES] = "pages",
};

static enum status check_pages(const Sluice__V1__ClassLedger *c,
                               enum status code, struct error *e)
{
    uint64_t sum = (uint64_t)c->free + c->held + c->cached + c->granted;

    if (sum != c->total) {
        return error_set(e, code,
                         "its ledger's pages do not add up: total %" PRIu32
                         ", but free, held, cached and granted sum to "
                         "%" PRIu64,
                         c->total, sum);
    }
    return ST_OK;
}

/* The columns of a class cannot exceed its total, nor its free units the free
 * pages.  Free and cached may overlap where a class has a cap. */
static enum status check_class(enum fleet_class of,
                               const Sluice__V1__ClassLedger *c,
                               uint32_t pages_per, uint32_t free_pages,
                               enum status code, struct error *e)
{
    const char *name = ledger_class_names[of];
    uint64_t sum = (uint64_t)c->free + c->held + c->granted;
    uint64_t taken = (uint64_t)c->held + c->cached + c->granted;

    if (taken > c->total || sum > c->total) {
        return error_set(e, code,
                         "its ledger's %s do not add up: total %" PRIu32
                         ", but %" PRIu32 " are free and %" PRIu64
                         " held, cached and granted",
                         name, c->total, c->free, taken);
    }
    if ((uint64_t)c->free * pages_per > free_pages) {
        return error_set(e, code,
                         "its ledger's %s do not add up: %" PRIu32
                         " are free, but each takes %" PRIu32
                         " pages and %" PRIu32 " pages are free",
                         name, c->free, pages_per, free_pages);
    }
    return ST_OK;
}

typedef const Sluice__V1__ClassLedger *class_columns[FLEET_CLASSES];

/* Checks one column: held, cached or granted pages are those of the classes. */
static enum status check_column(const char *column, const struct shard *s,
                                const uint32_t of[FLEET_CLASSES],
                                enum status code, struct error *e)
{
    uint64_t sum = 0;

    for (int c = 0; c < PAGES; c++) {
        sum += (uint64_t)of[c] * worker_pages_per(s, (enum fleet_class)c);
    }
    if (sum == of[PAGES]) {
        return ST_OK;
    }
    return error_set(
        e, code,
        "its ledger's pages do not add up: %" PRIu32
        " are %s, but the blocks, slots%s and checkpoints that are "
        "%s take %" PRIu64,
        of[PAGES], column, s->window_pages > 0 ? ", window pages" : "", column,
        sum);
}

static enum status check_columns(const struct shard *s, class_columns k,
                                 enum status code, struct error *e)
{
    uint32_t held[FLEET_CLASSES], cached[FLEET_CLASSES], granted[FLEET_CLASSES];
    enum status st;

    for (int c = 0; c < FLEET_CLASSES; c++) {
        held[c] = k[c]->held;
        cached[c] = k[c]->cached;
        granted[c] = k[c]->granted;
    }
    st = check_column("held", s, held, code, e);
    if (st == ST_OK) {
        st = check_column("cached", s, cached, code, e);
    }
    return st == ST_OK ? check_column("granted", s, granted, code, e) : st;
}

enum status ledger_columns_check(const struct shard *s,
                                 const Sluice__V1__Ledger *l, enum status code,
                                 struct error *e)
{
    class_columns k = {[BLOCKS] = l->blocks,
                       [SLOTS] = l->slots,
                       [CHECKPOINTS] = l->checkpoints,
                       [WINDOWS] = windows_of(l),
                       [PAGES] = l->pages};
    enum status st = check_pages(l->pages, code, e);

    for (int c = 0; c < PAGES && st == ST_OK; c++) {
        st = check_class((enum fleet_class)c, k[c],
                         worker_pages_per(s, (enum fleet_class)c),
                         l->pages->free, code, e);
    }
    return st == ST_OK ? check_columns(s, k, code, e) : st;
}

/* The totals of a pool are fixed for a session. */
static bool total_is_wrong(enum fleet_class of,
                           const struct class_ledger *known,
                           const Sluice__V1__ClassLedger *c, struct error *e)
{
    if (c->total == known[of].total) {
        return false;
    }
    error_set(e, ST_DATA_LOSS,
              "its ledger reports %" PRIu32 " %s in total, but its Hello "
              "reported %" PRIu32,
              c->total, ledger_class_names[of], known[of].total);
    return true;
}

/* A worker takes grants in order, so `grant` never falls from one snapshot to
 * the next and never passes the last grant given.  An old snapshot may arrive
 * late; it must then settle no more than the newest one did. */
static bool grant_is_wrong(const struct worker *w, const Sluice__V1__Ledger *l,
                           struct error *e)
{
    bool is_newer = l->snapshot > w->ledger.snapshot;

    if (l->grant > w->grants.last) {
        error_set(e, ST_DATA_LOSS,
                  "its ledger settles grant %" PRIu64
                  ", but the last grant given is %" PRIu64,
                  l->grant, w->grants.last);
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
    uint64_t n = (uint64_t)l->n_queued + l->n_prefill + l->n_decode +
                 l->n_kept + l->n_suspended;

    if (n > WORKER_ORPHANS_MAX) {
        return error_set(e, code,
                         "its ledger counts %" PRIu64
                         " sequences, at most %d are possible",
                         n, WORKER_ORPHANS_MAX);
    }
    if (l->host_used > l->host_total) {
        return error_set(e, code,
                         "its ledger shows %" PRIu32
                         " host pages in use, at most %" PRIu32 " exist",
                         l->host_used, l->host_total);
    }
    if (l->violations > VIOLATIONS_MAX) {
        return error_set(e, code,
                         "its ledger counts %" PRIu64
                         " violations, at most %" PRIu64 " are possible",
                         l->violations, (uint64_t)VIOLATIONS_MAX);
    }
    return tier_pages_check(l, code, e);
}

/* Counts begin at the worker's start and never fall. */
static bool counts_are_wrong(const struct worker *w,
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
    return l->snapshot > w->ledger.snapshot &&
           tier_counts_check(&w->ledger.tier, l->host, e) != ST_OK;
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
    if (total_is_wrong(BLOCKS, known, l->blocks, e) ||
        total_is_wrong(SLOTS, known, l->slots, e) ||
        total_is_wrong(CHECKPOINTS, known, l->checkpoints, e) ||
        total_is_wrong(WINDOWS, known, windows_of(l), e) ||
        total_is_wrong(PAGES, known, l->pages, e) ||
        ledger_columns_check(&w->shard, l, ST_DATA_LOSS, e) != ST_OK ||
        ledger_counts_check(l, ST_DATA_LOSS, e) != ST_OK ||
        counts_are_wrong(w, l, e) || grant_is_wrong(w, l, e)) {
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
        const struct need *n = &w->grants.ring[g & (w->grants.ring_size - 1)];
        for (int c = 0; c < FLEET_CLASSES; c++) {
            w->grants.owed[c] -= n->of[c] * (PLANT(GRANT_TWICE) ? 2 : 1);
        }
    }
}

void worker_ledger_take(struct fleet *fleet, struct worker *w,
                        const Sluice__V1__Ledger *l)
{
    uint64_t violations = w->ledger.violations;
    struct tier had = w->ledger.tier;
    bool is_first = w->ledger.snapshot == 0; /* so far: the one of Hello */

    settle_grants(w, l->grant);
    ledger_read(&w->ledger, l);
    tier_follow(&w->ledger.tier, &had, is_first ? NULL : &w->model->host);
    if (l->violations > violations) {
        fleet->base->metrics.ledger_violations += l->violations - violations;
    }
    /* The router grants only what fits, so the pool must cover all unsettled
     * grants.  A worker that used more than it was granted shows up here.
     * Sequences that grow may: what they took is not in the ledger by which the
     * router made its newest grants. */
    for (int c = 0; c < FLEET_CLASSES; c++) {
        const struct class_ledger *k = &w->ledger.classes[c];
        uint64_t left = c == PAGES ? (uint64_t)k->free + k->cached
                                   : (uint64_t)k->total - k->held - k->granted;

        if (left < w->grants.owed[c] && !w->grew) {
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

void ledger_message(const struct fleet_ledger *l, struct ledger_parts *parts,
                    Sluice__V1__Ledger *out)
{
    Sluice__V1__ClassLedger *classes = parts->classes;

    sluice__v1__ledger__init(out);
    for (int c = 0; c < FLEET_CLASSES; c++) {
        class_to_message(&l->classes[c], &classes[c]);
    }
    tier_write(&l->tier, &parts->tier);
    out->host = l->tier.reported ? &parts->tier : NULL;
    out->session = l->session;
    out->snapshot = l->snapshot;
    out->grant = l->grant;
    out->blocks = &classes[BLOCKS];
    out->slots = &classes[SLOTS];
    out->checkpoints = &classes[CHECKPOINTS];
    out->windows = l->classes[WINDOWS].total > 0 ? &classes[WINDOWS] : NULL;
    out->pages = &classes[PAGES];
    out->has_violations = true;
    out->violations = l->violations;
    out->has_n_queued = out->has_n_prefill = true;
    out->n_queued = l->n_queued;
    out->n_prefill = l->n_prefill;
    out->has_n_decode = out->has_n_kept = true;
    out->n_decode = l->n_decode;
    out->n_kept = l->n_kept;
    out->has_n_suspended = out->has_host_total = out->has_host_used = true;
    out->n_suspended = l->n_suspended;
    out->host_total = l->host_total;
    out->host_used = l->host_used;
}
