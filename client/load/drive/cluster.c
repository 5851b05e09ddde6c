/* cluster.c - Polls a router's Status and its workers, and audits them.
 *
 * A point is Status, then the pages of ListWorkers.  A call that fails, such as
 * while the router is being replaced, makes no point, and the next poll tries
 * again. */
#include "client/load/drive/cluster.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/client.h"
#include "common/base/memory.h"
#include "common/base/minmax.h"
#include "common/base/quote.h"
#include "common/wire/loop.h"
#include "proto/admin.pb-c.h"

#define CLUSTER_POLL_US  500000
#define CLUSTER_QUIET_US 100000 /* between two looks for held memory */
#define CLUSTER_CALL_MS  2000   /* time limit of a poll's call */
#define CLUSTER_PAGES    64     /* of a listing, LIST_WORKERS_MAX rows each */

struct cluster {
    struct client *client;
    struct cluster_point point; /* being made */
    struct draft_sum drafts;
    bool polls, has_point, denied;
    int64_t next_us; /* of the next poll */
    uint32_t n_pages;
};

/* ---- open and close ---- */

enum status cluster_open(struct cluster **out,
                         const struct cluster_router *router, struct error *e)
{
    const struct client_config config = {.endpoint = router->endpoint,
                                         .admin = true,
                                         .key = router->key,
                                         .trust = router->trust};
    struct client *client;
    struct cluster *c;
    enum status st;

    st = client_open(&client, &config, e);
    if (st != ST_OK) {
        return st;
    }
    c = memory_must(calloc(1, sizeof *c));
    c->client = client;
    *out = c;
    return ST_OK;
}

void cluster_close(struct cluster **pc)
{
    struct cluster *c = *pc;

    *pc = NULL;
    if (c != NULL) {
        client_close(&c->client); /* ends the calls of a poll */
        free(c);
    }
}

/* ---- a poll ---- */

static void on_end(void *arg, enum status status, const ProtobufCMessage *reply,
                   const struct error *e, uint32_t retry_after_ms);

static const struct client_call_ops ops = {NULL, on_end};

static void begin(struct cluster *c, enum method m,
                  const ProtobufCMessage *request)
{
    enum status st =
        client_begin(c->client, m, request, CLUSTER_CALL_MS, &ops, c, NULL);

    c->polls = st == ST_OK;
    c->denied = c->denied || st == ST_PERMISSION_DENIED;
}

bool cluster_denied(const struct cluster *c)
{
    return c->denied;
}

static void list_workers(struct cluster *c, uint64_t after)
{
    Sluice__V1__ListRequest m = SLUICE__V1__LIST_REQUEST__INIT;

    m.has_after = after > 0;
    m.after = after;
    begin(c, METHOD_ADMIN_LIST_WORKERS, &m.base);
}

static void take_status(struct cluster *c, const Sluice__V1__StatusReply *m)
{
    c->point.n_workers = m->n_workers;
    c->point.n_waiting = m->n_waiting;
    c->point.n_running = m->n_running;
    draft_sum_read(&c->drafts,
                   &(struct draft_counts){.rows = m->n_draft_rows,
                                          .verified = m->n_verified,
                                          .accepted = m->n_accepted});
    c->n_pages = 0;
    list_workers(c, 0);
}

static void add_worker(struct cluster_point *p, const Sluice__V1__Ledger *l)
{
    p->pages_total += l->pages->total;
    p->pages_free += l->pages->free;
    p->pages_held += l->pages->held;
    p->pages_cached += l->pages->cached;
    p->pages_granted += l->pages->granted;
    p->slots_total += l->slots->total;
    p->slots_free += l->slots->free;
    p->slots_held += l->slots->held;
    p->slots_cached += l->slots->cached;
    p->slots_granted += l->slots->granted;
    p->checkpoints_cached += l->checkpoints->cached;
    if (l->windows != NULL) {
        p->windows_total += l->windows->total;
        p->windows_free += l->windows->free;
        p->windows_held += l->windows->held;
        p->windows_cached += l->windows->cached;
        p->windows_granted += l->windows->granted;
    }
    p->n_suspended += l->n_suspended;
    p->host_total += l->host_total;
    p->host_used += l->host_used;
}

static void take_workers(struct cluster *c,
                         const Sluice__V1__ListWorkersReply *m)
{
    for (size_t i = 0; i < m->n_workers; i++) {
        add_worker(&c->point, m->workers[i]->ledger);
    }
    if (m->has_next && m->next > 0 && ++c->n_pages < CLUSTER_PAGES) {
        list_workers(c, m->next);
    } else {
        c->point.at_us = loop_now_us();
        c->has_point = true;
    }
}

static void on_end(void *arg, enum status status, const ProtobufCMessage *reply,
                   const struct error *e, uint32_t retry_after_ms)
{
    struct cluster *c = arg;

    (void)e, (void)retry_after_ms;
    c->polls = false;
    c->denied = c->denied || status == ST_PERMISSION_DENIED;
    if (status != ST_OK || reply == NULL) {
        return;
    }
    if (reply->descriptor == &sluice__v1__status_reply__descriptor) {
        take_status(c, (const Sluice__V1__StatusReply *)reply);
    } else {
        take_workers(c, (const Sluice__V1__ListWorkersReply *)reply);
    }
}

/* The schedule is absolute; polls that a stopped process missed are left out.
 */
static void poll_now(struct cluster *c, int64_t now_us, int64_t period_us)
{
    Sluice__V1__StatusRequest m = SLUICE__V1__STATUS_REQUEST__INIT;

    c->next_us += period_us;
    if (c->next_us <= now_us) {
        c->next_us = now_us + period_us;
    }
    c->point = (struct cluster_point){0};
    begin(c, METHOD_ADMIN_STATUS, &m.base);
}

static bool turn(struct cluster *c, int64_t wait_us, int64_t period_us,
                 struct cluster_point *out)
{
    int64_t now_us = loop_now_us();

    if (now_us >= c->next_us && !c->polls && !c->denied) {
        poll_now(c, now_us, period_us);
    }
    if (!c->polls) {
        wait_us = min_i64(wait_us, c->next_us - now_us);
    }
    /* A wait shorter than a millisecond is none. */
    client_turn(c->client, wait_us > 0 ? (uint32_t)(wait_us / 1000) : 0);
    if (!c->has_point) {
        return false;
    }
    c->has_point = false;
    *out = c->point;
    return true;
}

bool cluster_turn(struct cluster *c, int64_t wait_us, struct cluster_point *out)
{
    return turn(c, wait_us, CLUSTER_POLL_US, out);
}

struct draft_counts cluster_drafts(const struct cluster *c)
{
    return c->drafts.sum;
}

/* ---- the audit ---- */

struct audit {
    uint32_t n_workers, n_silent, n_differences;
    uint64_t blocks, slots, windows; /* held or granted */
    struct quoted first;             /* difference */
};

static uint64_t taken(const Sluice__V1__ClassLedger *l)
{
    return (uint64_t)l->held + l->granted;
}

static void take_audit(void *arg, const ProtobufCMessage *reply)
{
    const Sluice__V1__AuditAllReply *m =
        (const Sluice__V1__AuditAllReply *)reply;
    struct audit *a = arg;

    a->n_workers = (uint32_t)m->n_workers;
    a->n_differences = m->n_differences;
    for (size_t i = 0; i < m->n_workers; i++) {
        const Sluice__V1__WorkerAudit *w = m->workers[i];

        if (w->ledger != NULL) {
            a->blocks += taken(w->ledger->blocks);
            a->slots += taken(w->ledger->slots);
            a->windows +=
                w->ledger->windows != NULL ? taken(w->ledger->windows) : 0;
        } else {
            a->n_silent++;
        }
        if (w->has_text && a->first.text[0] == '\0') {
            a->first = quote_bytes((const char *)w->text.data, w->text.len);
        }
    }
}

static bool is_quiet(const struct cluster_point *p)
{
    return p->n_waiting == 0 && p->n_running == 0 && p->pages_held == 0 &&
           p->pages_granted == 0 && p->slots_held == 0 && p->slots_granted == 0;
}

/* Returns whether a point came; *p is the newest. */
static bool wait_quiet(struct cluster *c, int64_t wait_us,
                       struct cluster_point *p)
{
    int64_t end_us = loop_now_us() + wait_us, left_us;
    bool came = false;

    c->next_us = 0; /* at once, and more often than in a run */
    do {
        left_us = end_us - loop_now_us();
        if (turn(c, left_us > 0 ? left_us : 1000, CLUSTER_QUIET_US, p)) {
            came = true;
            if (is_quiet(p)) {
                break;
            }
        }
    } while (!c->denied && (left_us > 0 || (!came && c->polls)));
    return came;
}

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

/* Writes ", N window pages" if any are held. */
static void write_windows(const struct audit *a, char *out, size_t size)
{
    out[0] = '\0';
    if (a->windows > 0) {
        snprintf(out, size, ", %llu window page%s",
                 (unsigned long long)a->windows, plural(a->windows));
    }
}

static size_t write_audit(const struct audit *a, char *text, size_t size)
{
    char windows[48];
    int n;

    write_windows(a, windows, sizeof windows);
    n = snprintf(text, size,
                 "%u worker%s audited: %llu block%s%s and %llu "
                 "slot%s held, ",
                 a->n_workers, plural(a->n_workers),
                 (unsigned long long)a->blocks, plural(a->blocks), windows,
                 (unsigned long long)a->slots, plural(a->slots));
    return n < (int)size ? (size_t)n : size - 1;
}

static bool judge(const struct audit *a, const struct cluster_point *p,
                  char *text, size_t size)
{
    size_t at = write_audit(a, text, size);

    if (a->n_workers == 0) {
        snprintf(text + at, size - at, "because no worker is connected");
        return false;
    }
    if (a->n_differences > 0 || a->n_silent > 0) {
        snprintf(text + at, size - at, "%u difference%s; %s", a->n_differences,
                 plural(a->n_differences), a->first.text);
        return false;
    }
    if (p->n_running + p->n_waiting > 0) {
        snprintf(text + at, size - at, "%u sequence%s still open",
                 p->n_running + p->n_waiting,
                 plural(p->n_running + p->n_waiting));
        return false;
    }
    if (a->blocks + a->slots + a->windows > 0) {
        snprintf(text + at, size - at, "although every request has ended");
        return false;
    }
    snprintf(text + at, size - at, "every count adds up");
    return true;
}

bool cluster_audit(struct cluster *c, int64_t wait_us, char *text, size_t size)
{
    Sluice__V1__Nothing nothing = SLUICE__V1__NOTHING__INIT;
    struct cluster_point p = {0};
    struct audit a = {0};
    struct error e;

    assert(size > 0);
    if (!wait_quiet(c, wait_us, &p)) {
        snprintf(text, size, "no audit: the router did not report its state");
        return false;
    }
    if (client_call(c->client, METHOD_ADMIN_AUDIT, &nothing.base, 0, take_audit,
                    &a, &e) != ST_OK) {
        snprintf(text, size, "no audit: %s", e.text);
        return false;
    }
    return judge(&a, &p, text, size);
}
