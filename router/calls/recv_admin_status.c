/* recv_admin_status.c - Status, and Watch: Status again and again. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "proto/admin.pb-c.h"
#include "router/calls/counts.h"
#include "router/calls/recv.h"
#include "router/calls/router_state.h"
#include "router/fleet/places.h"
#include "router/replicas/replica.h"
#include "router/schedule/fair.h"
#include "router/schedule/predict.h"

struct watch {
    struct pending call;
    struct event next;
    int64_t period_us;
    bool metrics; /* the caller asked for them */
};

#define N_METRICS METRIC_COUNT(router_metrics_rows)
_Static_assert(N_METRICS <= 64, "proto/common.proto: 64 messages in a list");

#define N_TABLES (COUNTS_SETS - 1)
#define ROWS_MAX 13 /* of one table */

#define QUEUES 32 /* in a reply */

struct table_message {
    Sluice__V1__MetricTable table;
    Sluice__V1__MetricRow rows[ROWS_MAX], *list[ROWS_MAX];
};

struct status_message {
    Sluice__V1__StatusReply reply;
    Sluice__V1__QueueStatus queues[QUEUES], *queue_list[QUEUES];
    Sluice__V1__Metric metrics[N_METRICS], *list[N_METRICS];
    struct table_message tables[N_TABLES];
    Sluice__V1__MetricTable *table_list[N_TABLES];
};

static Sluice__V1__MetricKind kind_of(enum metric_kind kind)
{
    static const Sluice__V1__MetricKind kinds[] = {
        [METRIC_COUNTER] = SLUICE__V1__METRIC_KIND__METRIC_COUNTER,
        [METRIC_GAUGE] = SLUICE__V1__METRIC_KIND__METRIC_GAUGE,
        [METRIC_TIMES] = SLUICE__V1__METRIC_KIND__METRIC_TIMES,
        [METRIC_SIZES] = SLUICE__V1__METRIC_KIND__METRIC_SIZES,
    };

    assert(kind != METRIC_TIME); /* no row of the router is one */
    return kinds[kind];
}

static void table_fill(struct table_message *t, const struct metric_series *s)
{
    Sluice__V1__MetricTable *m = &t->table;

    assert(s->set->n_rows <= ROWS_MAX);
    sluice__v1__metric_table__init(m);
    m->rows = t->list;
    for (size_t i = 0; i < s->set->n_rows; i++) {
        const struct metric_row *row = &s->set->rows[i];

        sluice__v1__metric_row__init(&t->rows[i]);
        t->rows[i].name = wire_text(row->name);
        t->rows[i].kind = kind_of(row->kind);
        t->rows[i].help = wire_text(row->help);
        m->rows[m->n_rows++] = &t->rows[i];
    }
    if (s->set->labels != NULL) {
        m->has_label_names = m->has_labels = true;
        m->label_names = wire_text(s->set->labels);
        m->labels = (ProtobufCBinaryData){metric_labels_bytes(s),
                                          (uint8_t *)(uintptr_t)s->labels};
    }
    m->values = (uint64_t *)(uintptr_t)s->values;
    m->n_values = s->n * metric_width(s->set);
}

/* Every row of every table, so that a metric that exists can be read. */
static void tables_fill(struct status_message *s,
                        const struct metric_series *series)
{
    for (size_t i = 0; i < N_TABLES; i++) {
        table_fill(&s->tables[i], &series[1 + i]);
        s->table_list[i] = &s->tables[i].table;
    }
    s->reply.n_tables = N_TABLES;
    s->reply.tables = s->table_list;
}

static void metrics_fill(struct status_message *s,
                         const struct router_metrics *values)
{
    for (size_t i = 0; i < N_METRICS; i++) {
        const struct metric_row *row = &router_metrics_rows[i];
        Sluice__V1__Metric *m = &s->metrics[i];

        sluice__v1__metric__init(m);
        m->name = wire_text(row->name);
        m->kind = kind_of(row->kind);
        m->help = wire_text(row->help);
        m->value = metric_value(values, i);
        s->list[i] = m;
    }
    s->reply.n_metrics = N_METRICS;
    s->reply.metrics = s->list;
}

static void counters_fill(Sluice__V1__StatusReply *m,
                          const struct router_metrics *k)
{
    m->n_waiting = (uint32_t)(k->choices_waiting + k->choices_early);
    m->n_requests = k->requests;
    m->n_finished = k->finished;
    m->n_cancelled = k->cancelled;
    m->n_failed = k->failed;
    m->n_refused = k->refused;
    m->n_moved = k->moved;
    m->has_n_adopted = true;
    m->n_adopted = k->adopted;
    m->n_tokens = k->tokens;
    m->ledger_violations = k->ledger_violations;
    m->n_strikes = k->strikes;
    m->has_n_resumed = true;
    m->n_resumed = k->resumed;
    m->has_n_indicted = true;
    m->n_indicted = k->indicted;
    m->has_n_hung = true;
    m->n_hung = k->hung;
    m->has_n_replicas = m->has_n_forming = true;
    m->n_replicas = (uint32_t)k->replicas_up;
    m->n_forming = (uint32_t)k->replicas_forming;
}

static void drafts_fill(Sluice__V1__StatusReply *m, const struct fleet *fleet)
{
    m->has_n_draft_rows = m->has_n_verified = m->has_n_accepted = true;
    for (uint32_t i = 0; i < fleet->n_models; i++) {
        const struct router_drafts *d = &fleet->models[i]->drafts;

        m->n_draft_rows += d->draft_rows;
        m->n_verified += d->drafts_verified;
        m->n_accepted += d->drafts_accepted;
    }
}

/* Returns the place of a queue of n choices among the largest, from which on
 * those after it have moved; NULL: it is not one of them. */
static Sluice__V1__QueueStatus *queue_insert(struct status_message *s,
                                             uint32_t n)
{
    size_t at = s->reply.n_queues;

    if (at == QUEUES && s->queues[at - 1].n_waiting >= n) {
        return NULL;
    }
    at = at < QUEUES ? at : QUEUES - 1;
    s->reply.n_queues = at + 1;
    for (; at > 0 && s->queues[at - 1].n_waiting < n; at--) {
        s->queues[at] = s->queues[at - 1];
    }
    sluice__v1__queue_status__init(&s->queues[at]);
    s->queues[at].n_waiting = n;
    return &s->queues[at];
}

static void queues_fill(struct router_core *r, struct status_message *s)
{
    for (uint32_t i = 0; i < r->fleet.n_models; i++) {
        struct model *m = r->fleet.models[i];
        struct newcomer x = {
            .model = m, .n_prompt = 1, .max_tokens = 1, .tier = TIER_DEFAULT};

        for (uint32_t t = 0; t < METRIC_SLOTS && m->n_waiting > 0; t++) {
            uint32_t n = fair_waiting(m, t);
            Sluice__V1__QueueStatus *q = n > 0 ? queue_insert(s, n) : NULL;
            struct prediction p;

            if (q == NULL) {
                continue;
            }
            x.tenant = t;
            p = predict_arrival(&r->schedule, &x);
            q->model = wire_text(m->name);
            q->tenant = wire_text(metric_slot_name(&r->base.tenant_names, t));
            q->has_wait_us = p.wait_us != PREDICT_NEVER;
            q->wait_us = q->has_wait_us ? (uint64_t)p.wait_us : 0;
        }
    }
    for (size_t i = 0; i < s->reply.n_queues; i++) {
        s->queue_list[i] = &s->queues[i];
    }
    s->reply.queues = s->queue_list;
}

static void status_fill(struct router_core *r, const struct router_peer *p,
                        struct status_message *s, bool metrics)
{
    struct metric_series series[COUNTS_SETS];
    Sluice__V1__StatusReply *m = &s->reply;
    struct router_metrics counts;

    counts_take(r, &counts);
    sluice__v1__status_reply__init(m);
    m->router = wire_text(r->base.name);
    m->has_your_name = p->keyed;
    m->your_name = wire_text(p->name);
    m->version = wire_text(SLUICE_VERSION);
    m->uptime_ms = (uint64_t)(r->base.now_us - r->base.start_us) / 1000;
    m->n_workers = r->fleet.n_workers;
    m->n_clients =
        places_count(&r->fleet, BY_CLIENT) + places_count(&r->fleet, BY_ADMIN);
    for (uint32_t i = 0; i < r->fleet.n_workers; i++) {
        const struct worker *w = r->fleet.workers[i];

        m->n_running +=
            member_of(w)->stage == 0 ? w->n_running : 0; /* once each */
    }
    counters_fill(m, &counts);
    drafts_fill(m, &r->fleet);
    queues_fill(r, s);
    if (metrics) {
        metrics_fill(s, &counts);
        counts_series(r, series);
        tables_fill(s, series);
    }
}

void recv_admin_status(struct router_core *r, const struct incoming *in,
                       const request_of_ADMIN_STATUS *m)
{
    struct status_message s;

    status_fill(r, in->peer, &s, m->metrics);
    peer_end(in->peer->peer, in->call, &s.reply.base);
}

/* A message that finds no room is dropped: the next one has newer values. */
static void watch_send(struct router_core *r, struct watch *x)
{
    struct status_message s;

    status_fill(r, x->call.peer, &s, x->metrics);
    (void)!peer_reply(x->call.peer->peer, x->call.id, &s.reply.base);
    event_set(&r->base, &x->next, r->base.now_us + x->period_us);
}

static void watch_fire(void *room, struct event *e)
{
    watch_send(room, EVENT_OF(e, struct watch, next));
}

static void watch_dropped(void *room, struct pending *c, bool gone)
{
    struct router_core *r = room;
    struct watch *x = LIST_OF(c, struct watch, call);

    (void)gone;
    event_clear(&r->base, &x->next);
    free(x);
}

void recv_admin_watch(struct router_core *r, const struct incoming *in,
                      const request_of_ADMIN_WATCH *m)
{
    struct watch *x;

    if (m->period_ms < WATCH_MS_MIN || m->period_ms > WATCH_MS_MAX) {
        refuse(in, ST_INVALID_ARGUMENT,
               "period_ms is %" PRIu32 ", must be %d..%d", m->period_ms,
               WATCH_MS_MIN, WATCH_MS_MAX);
        return;
    }
    x = calloc(1, sizeof *x);
    if (x == NULL) {
        refuse(in, ST_RESOURCE_EXHAUSTED,
               MEMORY_SENTENCE "the router has none left");
        return;
    }
    pending_init(&x->call);
    pending_open(&r->fleet, &x->call, in->peer, in->call, watch_dropped, r);
    x->period_us = (int64_t)m->period_ms * 1000;
    x->metrics = m->metrics;
    event_init(&x->next, watch_fire, r);
    watch_send(r, x);
}
