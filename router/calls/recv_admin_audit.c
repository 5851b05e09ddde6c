/* recv_admin_audit.c - Audit: every worker walks its pool, and the router
 * compares the result with its own account.
 *
 *     router -> worker : Audit          one call per worker, AUDIT_MS in all
 *     worker -> router : its ledger     and the differences it found itself
 *
 * Messages in flight are not differences: a Submit that has not arrived, or the
 * last row of a sequence that the worker has released.  If a worker seems to
 * run fewer sequences than the router counts, the router repeats the Audit for
 * a while before it reports a difference.
 *
 * Every stage of a replica is audited.  The memory that each stage holds or has
 * granted is compared with its share of the needs of the sequences that its
 * ledger includes. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/admin.pb-c.h"
#include "router/calls/recv.h"
#include "router/calls/router_state.h"
#include "router/fleet/ledgers.h"
#include "router/replicas/place.h"
#include "router/requests/choice.h"

#define AUDITS_MAX     4
#define AUDIT_TEXT     2048
#define AUDIT_AGAIN_US 100000
#define AUDIT_STEP_US  500000 /* a step this old holds up removals */

struct audit_row {
    struct worker *worker; /* NULL: the row is complete */
    char name[PEER_NAME_MAX + 1];
    bool again;
    uint32_t n_differences;
    char text[AUDIT_TEXT];
    bool has_ledger;
    struct fleet_ledger ledger;
};

struct audit {
    struct pending call;
    struct list all;
    uint64_t number;
    int64_t end_us;
    struct event again;
    uint32_t n_rows, n_open;
    struct audit_row rows[]; /* [n_workers at its start] */
};

#define TAG(number, row) ((number) << 8 | (row))

static void audit_free(struct router_core *r, struct audit *a)
{
    pending_close(&r->fleet, &a->call);
    event_clear(&r->base, &a->again);
    list_remove(&a->all);
    r->n_audits--;
    free(a);
}

static void audit_dropped(void *room, struct pending *c, bool gone)
{
    (void)gone;
    audit_free(room, LIST_OF(c, struct audit, call));
}

__attribute__((format(printf, 2, 3))) static void
add_difference(struct audit_row *row, const char *fmt, ...)
{
    size_t n = strlen(row->text);
    va_list ap;

    row->n_differences++;
    if (n > 0 && n + 1 < sizeof row->text) {
        row->text[n++] = '\n';
    }
    va_start(ap, fmt);
    vsnprintf(row->text + n, sizeof row->text - n, fmt, ap);
    va_end(ap);
}

static void answer(struct router_core *r, struct audit *a)
{
    Sluice__V1__AuditAllReply reply = SLUICE__V1__AUDIT_ALL_REPLY__INIT;
    Sluice__V1__WorkerAudit rows[ROUTER_WORKERS_MAX];
    Sluice__V1__WorkerAudit *list[ROUTER_WORKERS_MAX];
    Sluice__V1__Ledger ledgers[ROUTER_WORKERS_MAX];
    struct ledger_parts parts[ROUTER_WORKERS_MAX];

    for (uint32_t i = 0; i < a->n_rows; i++) {
        const struct audit_row *row = &a->rows[i];
        Sluice__V1__WorkerAudit *out = &rows[i];

        sluice__v1__worker_audit__init(out);
        out->worker = wire_text(row->name);
        out->n_differences = row->n_differences;
        out->has_text = row->n_differences > 0;
        out->text = wire_text(row->text);
        if (row->has_ledger) {
            ledger_message(&row->ledger, &parts[i], &ledgers[i]);
            out->ledger = &ledgers[i];
        }
        reply.n_differences += row->n_differences;
        list[i] = out;
    }
    reply.workers = list;
    reply.n_workers = a->n_rows;
    pending_end(&r->fleet, &a->call, &reply.base);
    audit_free(r, a);
}

/* Closes a row, and answers the call after the last one. a may be freed. */
static void close_row(struct router_core *r, struct audit *a,
                      struct audit_row *row)
{
    row->worker = NULL;
    if (--a->n_open == 0) {
        answer(r, a);
    }
}

static bool send_audit(struct router_core *r, struct audit *a, uint32_t i)
{
    Sluice__V1__Nothing none = SLUICE__V1__NOTHING__INIT;
    int64_t left_ms = (a->end_us - r->base.now_us) / 1000;

    return left_ms > 0 &&
           peer_call(a->rows[i].worker->peer->peer, METHOD_WORKER_AUDIT,
                     &none.base, (uint32_t)left_ms, TAG(a->number, i),
                     NULL) == ST_OK;
}

static void again_fire(void *room, struct event *e)
{
    struct router_core *r = room;
    struct audit *a = EVENT_OF(e, struct audit, again);
    uint32_t n_open = a->n_open;

    for (uint32_t i = 0; n_open > 0 && i < a->n_rows; i++) {
        struct audit_row *row = &a->rows[i];
        if (row->worker != NULL && row->again) {
            row->again = false;
            if (!send_audit(r, a, i)) {
                add_difference(row,
                               "the worker could not be asked again: its link "
                               "is full");
                n_open = a->n_open - 1; /* 0: a is gone */
                close_row(r, a, row);
            }
        }
    }
}

void recv_admin_audit(struct router_core *r, const struct incoming *in,
                      const request_of_ADMIN_AUDIT *m)
{
    struct audit *a;

    (void)m;
    if (r->n_audits == AUDITS_MAX) {
        refuse(in, ST_RESOURCE_EXHAUSTED,
               "%d audits, the limit, are already under way", AUDITS_MAX);
        return;
    }
    a = calloc(1, sizeof *a + r->fleet.n_workers * sizeof a->rows[0]);
    if (a == NULL) {
        refuse(in, ST_RESOURCE_EXHAUSTED,
               MEMORY_SENTENCE "the router has none left");
        return;
    }
    a->number = ++r->requests.last_number;
    a->end_us = r->base.now_us + (int64_t)AUDIT_MS * 1000;
    event_init(&a->again, again_fire, r);
    list_init(&a->all);
    list_append(&r->audits, &a->all);
    r->n_audits++;
    pending_init(&a->call);
    pending_open(&r->fleet, &a->call, in->peer, in->call, audit_dropped, r);
    a->n_open = 1; /* not to end in the loop */
    for (uint32_t i = 0; i < r->fleet.n_workers; i++) {
        struct audit_row *row = &a->rows[a->n_rows++];
        row->worker = r->fleet.workers[i];
        memcpy(row->name, r->fleet.workers[i]->peer->name, sizeof row->name);
        if (send_audit(r, a, i)) {
            a->n_open++;
        } else {
            row->worker = NULL;
            add_difference(row,
                           "the worker could not be asked: its link is full");
        }
    }
    if (--a->n_open == 0) {
        answer(r, a);
    }
}

/* The sequences of a place that the ledger includes, with bounds on what they
 * hold.  A sequence that the worker was asked to release may have ended there,
 * with its memory waiting for a plan.  A kept sequence may be gone: its lease
 * ends first at the worker. */
struct expected {
    uint32_t n, leaving, kept;
    uint64_t most[FLEET_CLASSES], least[FLEET_CLASSES];
};

/* Sequences may share all blocks but those of the longest. */
static void add_least(struct expected *k, enum fleet_class c, uint64_t n)
{
    if (c == SLOTS) {
        k->least[c] += n;
    } else if (n > k->least[c]) {
        k->least[c] = n;
    }
}

static struct expected expected_of(struct worker *w, uint64_t grant)
{
    const struct worker *place = worker_place(w);
    struct expected k = {0};

    if (place == NULL) {
        return k;
    }
    for (const struct list *at = choices_of(place)->running.next;
         at != &choices_of(place)->running; at = at->next) {
        const struct choice *choice = LIST_OF(at, struct choice, grant.running);
        struct need share = place_share(w, &choice->grant.need);

        if (place_grant_at(place, w, choice->grant.number) > grant) {
            continue;
        }
        for (int c = 0; c < FLEET_CLASSES; c++) {
            k.most[c] += share.of[c];
            if (choice->removal.state == REMOVAL_NONE &&
                !choice_is_kept(choice)) {
                add_least(&k, (enum fleet_class)c, share.of[c]);
            }
        }
        if (choice_is_kept(choice)) {
            k.kept++;
        } else {
            k.n++;
            k.leaving += choice->removal.state != REMOVAL_NONE;
        }
    }
    return k;
}

static void compare_ledger(struct router_core *r, struct worker *w,
                           struct audit_row *row, const Sluice__V1__Ledger *l)
{
    struct error e;

    if (l->session != w->peer->session) {
        add_difference(row,
                       "the worker's ledger belongs to session %016" PRIx64
                       ", but the session is %016" PRIx64,
                       l->session, w->peer->session);
        return;
    }
    switch (worker_ledger_check(w, l, &e)) {
    case LEDGER_INVALID:
        add_difference(row, "%s", e.text);
        break;
    case LEDGER_NEW:
        worker_ledger_take(&r->fleet, w, l);
        break;
    case LEDGER_OLD:
        break;
    }
    row->has_ledger = true;
    row->ledger = w->ledger;
}

/* Returns true if the stages may still have sequences that have ended: a
 * removal goes around the ring behind the steps, and one of them takes long.
 * The leader waits for all stages. */
static bool is_held_up(struct worker *w, int64_t now_us)
{
    const struct worker *place = worker_place(w);

    for (uint32_t i = 0; member_of(w)->replica && i < worker_n_stages(place);
         i++) {
        const struct worker *stage = worker_stage(place, i);

        if (stage != NULL && stage->live.n_planned > 0 &&
            (int64_t)stage->live.plan_age_us + now_us -
                    stage->live.reported_us >=
                AUDIT_STEP_US) {
            return true;
        }
    }
    return false;
}

/* Returns true if a worker that runs this many sequences runs all it should.
 * Only the leader distinguishes kept sequences from running ones.  more: it may
 * have others too. */
static bool runs_all(const struct worker *w, const struct expected *k,
                     uint64_t n_runs, bool more)
{
    uint64_t most = k->n + (uint64_t)(member_of(w)->stage > 0 ? k->kept : 0);

    return (more || n_runs <= most) && n_runs + k->leaving >= k->n;
}

static uint64_t taken(const Sluice__V1__ClassLedger *c)
{
    return c == NULL ? 0 : (uint64_t)c->held + c->granted;
}

/* Returns true if a stage holds as much memory for the sequences as it should.
 * Blocks that sequences share count once: it may hold fewer than their sum,
 * never more, unless it has other sequences too. */
static bool has_all(const struct worker *w, const struct expected *k,
                    const Sluice__V1__Ledger *l, bool more)
{
    const uint64_t has[FLEET_CLASSES] = {[BLOCKS] = taken(l->blocks),
                                         [SLOTS] = taken(l->slots),
                                         [WINDOWS] = taken(l->windows)};
    static const enum fleet_class classes[] = {BLOCKS, SLOTS, WINDOWS};

    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        enum fleet_class c = classes[i];

        if (member_of(w)->replica != NULL &&
            ((!more && has[c] > k->most[c]) || has[c] < k->least[c])) {
            return false;
        }
    }
    return true;
}

static void add_held(const struct worker *w, struct audit_row *row,
                     const struct expected *k, const Sluice__V1__Ledger *l)
{
    char windows[64] = "", expected[32] = "";

    if (w->shard.window_pages > 0) {
        snprintf(windows, sizeof windows, ", %" PRIu64 " window pages",
                 taken(l->windows));
        snprintf(expected, sizeof expected, ", %" PRIu64, k->most[WINDOWS]);
    }
    add_difference(row,
                   "the worker holds %" PRIu64 " blocks%s and %" PRIu64
                   " slots for the grants up to %" PRIu64
                   ", the router counts at most %" PRIu64 "%s and %" PRIu64,
                   taken(l->blocks), windows, taken(l->slots), l->grant,
                   k->most[BLOCKS], expected, k->most[SLOTS]);
}

/* Compares the sequences of w with its ledger, and adds the difference found.
 * Returns false if the Audit must be repeated. */
static bool compare_sequences(struct router_core *r, struct audit *a,
                              struct worker *w, struct audit_row *row,
                              const Sluice__V1__Ledger *l)
{
    uint64_t n_runs =
        (uint64_t)l->n_queued + l->n_prefill + l->n_decode + l->n_suspended;
    struct expected k = expected_of(w, l->grant);
    bool more = is_held_up(w, r->base.now_us);
    bool has_sequences = !l->has_n_decode || runs_all(w, &k, n_runs, more);

    if (has_sequences && has_all(w, &k, l, more)) {
        return true;
    }
    if (r->base.now_us + 2 * AUDIT_AGAIN_US < a->end_us) {
        return false;
    }
    if (!has_sequences) {
        add_difference(row,
                       "the worker runs %" PRIu64
                       " sequences of the grants up to %" PRIu64
                       ", the router counts %" PRIu32,
                       n_runs, l->grant, k.n);
    } else {
        add_held(w, row, &k, l);
    }
    return true;
}

static void handle_answer(struct router_core *r, struct audit *a,
                          struct audit_row *row, struct worker *w,
                          const Sluice__V1__AuditReply *m)
{
    compare_ledger(r, w, row, m->ledger);
    if (row->n_differences == 0 &&
        !compare_sequences(r, a, w, row, m->ledger)) {
        row->again = true;
        event_set(&r->base, &a->again, r->base.now_us + AUDIT_AGAIN_US);
        return;
    }
    if (m->n_differences > 0) {
        bool has_text = m->has_text && wire_text_ok(m->text, 1, AUDIT_TEXT / 2);
        add_difference(row, "%.*s", has_text ? (int)m->text.len : -1,
                       has_text
                           ? (const char *)m->text.data
                           : "the worker found differences and sent no text");
        row->n_differences += m->n_differences - 1;
    }
    close_row(r, a, row);
}

static struct audit *audit_of(struct router_core *r, uint64_t number)
{
    for (struct list *at = r->audits.next; at != &r->audits; at = at->next) {
        struct audit *a = LIST_OF(at, struct audit, all);
        if (a->number == number) {
            return a;
        }
    }
    return NULL;
}

void audit_answered(struct router_core *r, struct worker *w, uint64_t tag,
                    const reply_of_WORKER_AUDIT *reply, const struct error *e)
{
    struct audit *a = audit_of(r, tag >> 8);
    struct audit_row *row = a == NULL ? NULL : &a->rows[tag & 255];
    struct error violation;

    if (row == NULL || row->worker != w) {
        return;
    }
    if (reply == NULL) {
        add_difference(row, "the worker did not answer: %s", e->text);
        close_row(r, a, row);
    } else if (reply->n_differences > AUDIT_DIFFERENCES_MAX) {
        error_set(&violation, ST_DATA_LOSS,
                  "its Audit found %" PRIu32
                  " differences, at most %d are possible",
                  reply->n_differences, AUDIT_DIFFERENCES_MAX);
        worker_expel(&r->fleet, w, &violation); /* closes the row */
    } else {
        handle_answer(r, a, row, w, reply);
    }
}

void audit_worker_lost(struct router_core *r, struct worker *w)
{
    struct list *at = r->audits.next;

    while (at != &r->audits) {
        struct audit *a = LIST_OF(at, struct audit, all);
        at = at->next;
        for (uint32_t i = 0; i < a->n_rows; i++) {
            if (a->rows[i].worker == w) {
                add_difference(&a->rows[i],
                               "the worker's session ended during the audit");
                close_row(r, a, &a->rows[i]);
                break; /* a may be gone */
            }
        }
    }
}
