/* sluicectl_show.c - The verbs status, workers, sequences and models.
 *
 * Lists come in pages (pages.h).  Rows may change between two pages. */
#include <stdlib.h>

#include "client/ctl/columns.h"
#include "client/ctl/ctl.h"
#include "client/ctl/metrics_reply.h"
#include "client/ctl/overview.h"
#include "client/ctl/tier.h"
#include "common/wire/request_id.h"
#include "proto/admin.pb-c.h"
#include "proto/inference.pb-c.h"

#define BAR      10
#define BAR_TEXT (BAR + 3)

struct pool_sum {
    uint64_t held, cached, total;
};

/* Output of ListWorkers, added up page by page. */
struct worker_pages {
    const struct ctl *ctl;
    struct columns *table;     /* of `workers`, else NULL */
    struct columns *tiers;     /* likewise */
    json_t *json;              /* array, else NULL */
    struct overview *overview; /* of `status`, else NULL */
    struct pool_sum blocks, windows, slots, memory; /* memory: pages */
    uint64_t n_prompt_tokens, n_reused_tokens;
    struct tier_sum tier;
    size_t n_offers;
    struct pages pages;
};

/* Granted memory counts as held: no other sequence can get it. */
static void add_class(struct pool_sum *sum, const Sluice__V1__ClassLedger *l)
{
    sum->held += l->held + l->granted;
    sum->cached += l->cached;
    sum->total += l->total;
}

static void cell_pool(struct columns *t, const Sluice__V1__ClassLedger *l)
{
    char bar[BAR_TEXT];

    bar_write(bar, BAR, l->held + l->granted, l->total);
    columns_cell(t, "%s %u of %u", bar, l->held + l->granted, l->total);
}

static void cell_share(struct columns *t, uint64_t part, uint64_t whole)
{
    if (whole == 0) {
        columns_cell(t, "-");
    } else {
        columns_cell(t, "%.0f %%", 100 * (double)part / (double)whole);
    }
}

static void cell_sequences(struct columns *t, const Sluice__V1__WorkerRow *w)
{
    if (w->ledger->n_suspended > 0) {
        columns_cell(t, "%u, %u suspended", w->n_sequences,
                     w->ledger->n_suspended);
    } else {
        columns_cell(t, "%u", w->n_sequences);
    }
}

/* The greatest needs of its sequences, in pools. */
static void cell_greatest(struct columns *t, const Sluice__V1__WorkerRow *w)
{
    double pool = w->ledger->pages->total;

    if (w->has_greatest_pages && pool > 0) {
        columns_cell(t, "%.2f", (double)w->greatest_pages / pool);
    } else {
        columns_cell(t, "-");
    }
}

static void cell_host(struct columns *t, const Sluice__V1__Ledger *l)
{
    if (l->host_total > 0) {
        columns_cell(t, "%u of %u", l->host_used, l->host_total);
    } else {
        columns_cell(t, "-");
    }
}

static void cell_windows(struct columns *t, const Sluice__V1__Ledger *l)
{
    if (l->windows != NULL) {
        cell_pool(t, l->windows);
    } else {
        columns_cell(t, "-");
    }
}

static void add_worker(struct columns *t, const Sluice__V1__WorkerRow *w)
{
    char pool[BYTES_TEXT];

    bytes_write(pool, w->pool_bytes);
    columns_cell(t, "%s", ctl_name(w->name));
    if (w->readmit_ms > 0) { /* on probation: time until it is readmitted */
        columns_cell(t, "%s, %u ms", ctl_name(w->state), w->readmit_ms);
    } else {
        columns_cell(t, "%s", ctl_name(w->state));
    }
    columns_cell(t, "%s", ctl_name(w->model));
    columns_cell(t, "%u-%u of %u", w->layer_begin, w->layer_end, w->n_layers);
    cell_sequences(t, w);
    cell_greatest(t, w);
    cell_pool(t, w->ledger->blocks);
    cell_windows(t, w->ledger);
    cell_pool(t, w->ledger->slots);
    columns_cell(t, "%u of %u", w->ledger->pages->cached,
                 w->ledger->pages->total);
    cell_host(t, w->ledger);
    cell_share(t, w->n_reused_tokens, w->n_prompt_tokens);
    columns_cell(t, "%s", pool);
    columns_cell(t, "%llu", (unsigned long long)w->n_tokens);
    columns_cell(t, "%.1f ms", w->step_us / 1e3);
    columns_cell(t, "%u ms", w->silent_ms);
    columns_cell(t, "%s", ctl_name(w->device));
}

/* Adds a page to the sums and to the one output that the verb uses. */
static void take_workers(void *arg, const ProtobufCMessage *reply)
{
    struct worker_pages *p = arg;
    const Sluice__V1__ListWorkersReply *m =
        (const Sluice__V1__ListWorkersReply *)reply;

    for (size_t i = 0; i < m->n_workers; i++) {
        add_class(&p->blocks, m->workers[i]->ledger->blocks);
        add_class(&p->slots, m->workers[i]->ledger->slots);
        if (m->workers[i]->ledger->windows != NULL) {
            add_class(&p->windows, m->workers[i]->ledger->windows);
        }
        add_class(&p->memory, m->workers[i]->ledger->pages);
        tier_add(&p->tier, m->workers[i]->ledger);
        p->n_prompt_tokens += m->workers[i]->n_prompt_tokens;
        p->n_reused_tokens += m->workers[i]->n_reused_tokens;
        if (p->overview != NULL) {
            overview_add(p->overview, m->workers[i]);
        } else if (p->json != NULL) {
            json_array_append_new(p->json, json_message(&m->workers[i]->base));
        } else if (p->table != NULL) {
            add_worker(p->table, m->workers[i]);
            tier_row(p->tiers, ctl_name(m->workers[i]->name),
                     m->workers[i]->ledger);
        }
    }
    p->n_offers += m->n_offers;
    for (size_t i = 0; p->overview != NULL && i < m->n_offers; i++) {
        overview_add_offer(p->overview, m->offers[i]);
    }
    pages_take(&p->pages, m->has_next, m->next);
}

static int all_workers(struct ctl *c, struct worker_pages *p)
{
    return ctl_list(c, METHOD_ADMIN_LIST_WORKERS, &p->pages, take_workers, p);
}

static void print_list(const char *name, json_t *list)
{
    json_t *j = json_object();

    json_object_set_new(j, name, list);
    ctl_print_json(j);
}

static void print_workers(const struct worker_pages *p)
{
    columns_print(p->table, stdout);
    if (p->tier.n_workers > 0) {
        putchar('\n');
        columns_print(p->tiers, stdout);
    }
}

int ctl_workers(struct ctl *c)
{
    struct columns t, tiers;
    struct worker_pages p = {.ctl = c, .table = &t, .tiers = &tiers};
    int rc;

    tier_columns(&tiers);
    columns_init(&t, "WORKER", "STATE", "MODEL", "LAYERS", "SEQUENCES",
                 "GREATEST", "BLOCKS", "WINDOWS", "SLOTS", "CACHED", "HOST",
                 "REUSED", "POOL", "TOKENS", "STEP", "SILENT", "DEVICE", NULL);
    p.json = c->o.json ? json_array() : NULL;
    rc = all_workers(c, &p);
    if (rc != CTL_OK) {
        json_decref(p.json);
    } else if (c->o.json) {
        print_list("workers", p.json);
    } else if (p.memory.total == 0) {
        puts("no workers are connected");
    } else {
        print_workers(&p);
    }
    if (rc == CTL_OK && !c->o.json && p.n_offers > 0) {
        printf("%zu more without layers; \"sluicectl status\" lists them\n",
               p.n_offers);
    }
    columns_fini(&tiers);
    columns_fini(&t);
    return rc;
}

/* Prints the two largest units only: "3d 4h", "12m 5s", "3.6 s". */
static void print_uptime(uint64_t ms)
{
    unsigned long long s = ms / 1000;

    if (s >= 86400) {
        printf("%llud %lluh", s / 86400, s / 3600 % 24);
    } else if (s >= 3600) {
        printf("%lluh %llum", s / 3600, s / 60 % 60);
    } else if (s >= 60) {
        printf("%llum %llus", s / 60, s % 60);
    } else {
        printf("%llu.%llu s", s, (unsigned long long)(ms % 1000 / 100));
    }
}

static void print_drafts(const Sluice__V1__StatusReply *m)
{
    if (m->n_draft_rows > 0 && m->n_verified > 0) {
        printf("drafts    %llu verified, %.0f %% accepted; %.2f tokens a step "
               "with drafts\n",
               (unsigned long long)m->n_verified,
               100 * (double)m->n_accepted / (double)m->n_verified,
               1 + (double)m->n_accepted / (double)m->n_draft_rows);
    }
}

static void print_queues(const Sluice__V1__StatusReply *m)
{
    for (size_t i = 0; i < m->n_queues; i++) {
        const Sluice__V1__QueueStatus *q = m->queues[i];

        printf("%-9s %s: %u of %s wait", i == 0 ? "queues" : "",
               ctl_name(q->model), q->n_waiting, ctl_name(q->tenant));
        if (q->has_wait_us) {
            printf("; one that comes now starts in about %.1f s",
                   (double)q->wait_us / 1e6);
        }
        printf("\n");
    }
}

static void print_status(const Sluice__V1__StatusReply *m)
{
    printf("router    %s %s, up ", ctl_name(m->router), ctl_name(m->version));
    print_uptime(m->uptime_ms);
    if (m->has_your_name) {
        printf("; you are %s", ctl_name(m->your_name));
    }
    printf("\nnow       %u worker%s, %u client%s; %u sequence%s running, "
           "%u waiting\n",
           m->n_workers, ctl_plural(m->n_workers), m->n_clients,
           ctl_plural(m->n_clients), m->n_running, ctl_plural(m->n_running),
           m->n_waiting);
    print_queues(m);
    if (m->n_replicas + m->n_forming > 0) {
        printf("replicas  %u with several stages up, %u forming\n",
               m->n_replicas, m->n_forming);
    }
    printf("requests  %llu received, %llu refused\n",
           (unsigned long long)m->n_requests, (unsigned long long)m->n_refused);
    printf("choices   %llu finished, %llu cancelled, %llu failed; %llu moves, "
           "%llu adopted\n",
           (unsigned long long)m->n_finished,
           (unsigned long long)m->n_cancelled, (unsigned long long)m->n_failed,
           (unsigned long long)m->n_moved, (unsigned long long)m->n_adopted);
    printf("tokens    %llu generated\n", (unsigned long long)m->n_tokens);
    print_drafts(m);
    printf("faults    %llu ledger violations, %llu strikes, %llu indicted\n",
           (unsigned long long)m->ledger_violations,
           (unsigned long long)m->n_strikes, (unsigned long long)m->n_indicted);
}

/* The reply of Status as JSON, completed with figures of ListWorkers. */
struct status_copy {
    bool json;
    json_t *object;
};

/* Text is printed at once.  JSON waits for the second call, because its sums
 * belong to the same object. */
static void take_status(void *arg, const ProtobufCMessage *reply)
{
    struct status_copy *copy = arg;

    if (copy->json) {
        copy->object = json_message(reply);
        json_object_set_new(
            copy->object, "metrics",
            metrics_reply_json((const Sluice__V1__StatusReply *)reply));
        json_object_del(copy->object, "tables"); /* are in metrics too */
    } else {
        print_status((const Sluice__V1__StatusReply *)reply);
    }
}

static void print_sum(const char *name, const struct pool_sum *s)
{
    char bar[2 * BAR + 3];

    bar_write(bar, 2 * BAR, s->held, s->total);
    printf("%-9s %s %llu of %llu held, %llu cached\n", name, bar,
           (unsigned long long)s->held, (unsigned long long)s->total,
           (unsigned long long)s->cached);
}

static void json_sum(json_t *j, const char *name, const struct pool_sum *s)
{
    json_t *sum = json_object();

    json_object_set_new(sum, "held", json_integer((json_int_t)s->held));
    json_object_set_new(sum, "cached", json_integer((json_int_t)s->cached));
    json_object_set_new(sum, "total", json_integer((json_int_t)s->total));
    json_object_set_new(j, name, sum);
}

static void print_reuse(const struct worker_pages *p)
{
    if (p->n_prompt_tokens > 0) {
        printf("prompts   %llu tokens, %.0f %% reused\n",
               (unsigned long long)p->n_prompt_tokens,
               100 * (double)p->n_reused_tokens / (double)p->n_prompt_tokens);
    }
}

static void show_status(struct status_copy *copy, struct worker_pages *p)
{
    if (copy->json) {
        json_sum(copy->object, "blocks", &p->blocks);
        json_sum(copy->object, "slots", &p->slots);
        if (p->windows.total > 0) {
            json_sum(copy->object, "windows", &p->windows);
        }
        json_sum(copy->object, "pages", &p->memory);
        json_object_set_new(copy->object, "host", tier_json(&p->tier));
        json_object_set_new(copy->object, "n_prompt_tokens",
                            json_integer((json_int_t)p->n_prompt_tokens));
        json_object_set_new(copy->object, "n_reused_tokens",
                            json_integer((json_int_t)p->n_reused_tokens));
        overview_json(p->overview, copy->object);
        ctl_print_json(copy->object);
    } else {
        print_sum("blocks", &p->blocks);
        print_sum("slots", &p->slots);
        if (p->windows.total > 0) {
            print_sum("windows", &p->windows);
        }
        print_sum("pages", &p->memory);
        tier_print(&p->tier, stdout);
        print_reuse(p);
        overview_print(p->overview, stdout);
    }
}

/* Status has the router's own figures; the sums of memory and the table of
 * replicas come from ListWorkers. */
int ctl_status(struct ctl *c)
{
    Sluice__V1__StatusRequest m = SLUICE__V1__STATUS_REQUEST__INIT;
    struct status_copy copy = {.json = c->o.json};
    struct worker_pages p = {.ctl = c, .overview = overview_new()};
    int rc;

    m.has_metrics = m.metrics = c->o.json;
    rc = ctl_call(c, METHOD_ADMIN_STATUS, &m.base, take_status, &copy);
    if (rc == CTL_OK) {
        rc = all_workers(c, &p);
    }
    if (rc == CTL_OK) {
        show_status(&copy, &p);
    } else {
        json_decref(copy.object);
    }
    overview_free(&p.overview);
    return rc;
}

struct sequence_pages {
    struct columns *table;
    json_t *json; /* array, else NULL */
    size_t n;     /* rows so far */
    struct pages pages;
};

static void add_sequence(struct columns *t, const Sluice__V1__SequenceRow *s)
{
    char id[REQUEST_ID_TEXT] = "-", age[MICROS_TEXT];

    if (s->sequence->request_id.len == REQUEST_ID_BYTES) {
        request_id_format(s->sequence->request_id.data, id);
    }
    micros_write(age, s->age_ms * 1000);
    columns_cell(t, "%s", id); /* whole, to be copied into cancel */
    columns_cell(t, "%u", s->sequence->choice);
    columns_cell(t, "%s", ctl_name(s->state));
    columns_cell(t, "%s", ctl_name(s->model));
    columns_cell(t, "%s", s->has_tenant ? ctl_name(s->tenant) : "-");
    columns_cell(t, "%s", s->has_worker ? ctl_name(s->worker) : "-");
    columns_cell(t, "%u", s->n_prompt);
    columns_cell(t, "%u of %u", s->n_generated, s->max_tokens);
    columns_cell(t, "%u", s->blocks);
    if (s->windows > 0) {
        columns_cell(t, "%u", s->windows);
    } else {
        columns_cell(t, "-");
    }
    columns_cell(t, "%u", s->slots);
    columns_cell(t, "%s", age);
}

static void take_sequences(void *arg, const ProtobufCMessage *reply)
{
    struct sequence_pages *p = arg;
    const Sluice__V1__ListSequencesReply *m =
        (const Sluice__V1__ListSequencesReply *)reply;

    for (size_t i = 0; i < m->n_sequences; i++) {
        if (p->json != NULL) {
            json_array_append_new(p->json,
                                  json_message(&m->sequences[i]->base));
        } else {
            add_sequence(p->table, m->sequences[i]);
        }
    }
    p->n += m->n_sequences;
    pages_take(&p->pages, m->has_next, m->next);
}

int ctl_sequences(struct ctl *c)
{
    struct columns t;
    struct sequence_pages p = {.table = &t};
    int rc;

    columns_init(&t, "ID", "CHOICE", "STATE", "MODEL", "TENANT", "WORKER",
                 "PROMPT", "GENERATED", "BLOCKS", "WINDOWS", "SLOTS", "AGE",
                 NULL);
    p.json = c->o.json ? json_array() : NULL;
    rc = ctl_list(c, METHOD_ADMIN_LIST_SEQUENCES, &p.pages, take_sequences, &p);
    if (rc != CTL_OK) {
        json_decref(p.json);
    } else if (c->o.json) {
        print_list("sequences", p.json);
    } else if (p.n == 0) {
        puts("no sequences are waiting or running");
    } else {
        columns_print(&t, stdout);
    }
    columns_fini(&t);
    return rc;
}

static void print_models(void *arg, const ProtobufCMessage *reply)
{
    const struct ctl *c = arg;
    const Sluice__V1__ListModelsReply *m =
        (const Sluice__V1__ListModelsReply *)reply;
    struct columns t;

    if (c->o.json) {
        ctl_print_json(json_message(reply));
        return;
    }
    if (m->n_models == 0) {
        puts("no models are served");
        return;
    }
    columns_init(&t, "MODEL", "REPLICAS", "CONTEXT", "VOCABULARY", "TEXT",
                 NULL);
    for (size_t i = 0; i < m->n_models; i++) {
        columns_cell(&t, "%s", ctl_name(m->models[i]->name));
        columns_cell(&t, "%u", m->models[i]->n_workers);
        columns_cell(&t, "%u", m->models[i]->context);
        columns_cell(&t, "%u", m->models[i]->vocab);
        columns_cell(&t, "%s", m->models[i]->has_text ? "yes" : "ids only");
    }
    columns_print(&t, stdout);
    columns_fini(&t);
}

int ctl_models(struct ctl *c)
{
    Sluice__V1__ListModelsRequest r = SLUICE__V1__LIST_MODELS_REQUEST__INIT;

    return ctl_call(c, METHOD_INFERENCE_LIST_MODELS, &r.base, print_models, c);
}
