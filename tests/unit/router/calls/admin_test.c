/* Operators' calls: status, watch, listings, health, texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "common/wire/wire.h"
#include "router/base/router_limits.h"
#include "router/calls/router_state.h"
#include "tests/unit/router/rig.h"

static struct record *ask(struct fake *a, enum method m)
{
    Sluice__V1__Nothing none = SLUICE__V1__NOTHING__INIT;
    Sluice__V1__StatusRequest status = SLUICE__V1__STATUS_REQUEST__INIT;
    struct record *x = client_call(
        a, m, m == METHOD_ADMIN_STATUS ? &status.base : &none.base, 0);

    rig_run(a->rig);
    return x;
}

static struct record *ask_metrics(struct fake *a)
{
    Sluice__V1__StatusRequest m = SLUICE__V1__STATUS_REQUEST__INIT;
    struct record *x;

    m.has_metrics = m.metrics = true;
    x = client_call(a, METHOD_ADMIN_STATUS, &m.base, 0);
    rig_run(a->rig);
    return x;
}

static void status(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 2);
    struct fake *c = rig_client(rig, "c1");
    struct fake *a = rig_admin(rig, "a1");
    const Sluice__V1__StatusReply *s;
    struct record *x;

    (void)state;
    for (uint8_t i = 1; i <= 5; i++) {
        client_generate(c, i, 10, 4);
    }
    client_generate(c, 1, 10, 4); /* refused */
    rig_run(rig);
    worker_make(w, worker_sequence_of(w, 1), 4,
                SLUICE__V1__FINISH__FINISH_LENGTH);
    worker_step(w);
    rig_run(rig);
    client_cancel(c, 2);
    rig_advance(rig, 500000);
    x = ask(a, METHOD_ADMIN_STATUS);
    assert_true(x->ended);
    s = (const void *)x->reply;
    assert_int_equal(s->n_workers, 1);
    assert_int_equal(s->n_clients, 2); /* c, and the operator a */
    assert_int_equal(s->n_running, 1);
    assert_int_equal(s->n_waiting, 2); /* no ledger since the cancel */
    assert_int_equal(s->n_queues, 1);
    assert_int_equal(s->queues[0]->n_waiting, 2);
    assert_int_equal(s->queues[0]->model.len, 4);
    assert_memory_equal(s->queues[0]->tenant.data, "default", 7);
    assert_true(s->queues[0]->has_wait_us && s->queues[0]->wait_us > 0);
    assert_int_equal(s->n_requests, 6);
    assert_int_equal(s->n_finished, 1);
    assert_int_equal(s->n_cancelled, 1);
    assert_int_equal(s->n_refused, 1);
    assert_int_equal(s->n_failed, 0);
    assert_int_equal(s->n_tokens, 4);
    assert_int_equal(s->uptime_ms, 500);
    x = ask(c, METHOD_ADMIN_STATUS); /* a client may not call Admin */
    assert_true(!x->ended || x->status != ST_OK);
    rig_free(&rig);
}

static const Sluice__V1__Metric *metric_of(const Sluice__V1__StatusReply *s,
                                           const char *name)
{
    for (size_t i = 0; i < s->n_metrics; i++) {
        const ProtobufCBinaryData *d = &s->metrics[i]->name;

        if (d->len == strlen(name) && memcmp(d->data, name, d->len) == 0) {
            return s->metrics[i];
        }
    }
    fail_msg("Status has no metric %s", name);
    return NULL;
}

/* Every row of the table is there by name, with its kind, help and value. */
static void assert_metrics(const Sluice__V1__StatusReply *s,
                           const struct router_metrics *want)
{
    assert_int_equal(s->n_metrics, METRIC_COUNT(router_metrics_rows));
    for (size_t i = 0; i < METRIC_COUNT(router_metrics_rows); i++) {
        const struct metric_row *row = &router_metrics_rows[i];
        const Sluice__V1__Metric *m = metric_of(s, row->name);

        assert_int_equal(m->kind == SLUICE__V1__METRIC_KIND__METRIC_GAUGE,
                         row->kind == METRIC_GAUGE);
        assert_int_equal(m->help.len, strlen(row->help));
        assert_memory_equal(m->help.data, row->help, m->help.len);
        assert_true(m->value == metric_value(want, i));
    }
}

#define DISTINCT 1000000u /* greater than the gauges of this test */

/* Sets each field to a value of its own.  router_counts() reads some gauges
 * elsewhere: those have their own values by what is open, waits and is held. */
/* Brings worker i with a model of its own. */
static void worker_of(struct rig *rig, int i)
{
    struct fake *w;
    char name[8];

    snprintf(name, sizeof name, "w%d", i);
    w = fake_worker_new(rig, name, 64, 2);
    snprintf(w->model, sizeof w->model, "m%d", i);
    w->shard.model = wire_text(w->model);
    fake_hello(w);
    assert_true(w->up);
}

static void every_metric_arrives_in_status_and_watch(void **state)
{
    const struct rig_options o = {.max_peers = 16,
                                  .max_requests = 64,
                                  .max_waiting = 32,
                                  .worker_wait_us = 60000000};
    struct rig *rig = rig_new(&o);
    struct fake *c, *a = rig_admin(rig, "a1");
    Sluice__V1__WatchRequest request = SLUICE__V1__WATCH_REQUEST__INIT;
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct router_metrics *k = &rig->router->base.metrics, before, want;
    struct record *x;

    (void)state;
    rig_worker(rig, "w1", 64, 2);
    for (int i = 2; i <= 6; i++) {
        worker_of(rig, i);
    }
    c = rig_client(rig, "c1");
    rig_client(rig, "c2");
    for (int i = 2; i <= 4; i++) {
        rig_admin(rig, "a");
    }
    for (uint8_t i = 1; i <= 5; i++) { /* 2 run, 3 wait */
        client_generate(c, i, 10, 4);
    }
    m.model = wire_text("absent");
    client_generate_with(c, 6, 10, 4, &m, 0);
    rig_run(rig);
    before = *k;
    for (size_t i = 0; i < METRIC_COUNT(router_metrics_rows); i++) {
        ((uint64_t *)k)[i] = DISTINCT + i;
    }
    router_counts(rig->router, &want);
    assert_int_equal(want.choices_open, 5);
    assert_int_equal(want.choices_waiting, 3);
    assert_int_equal(want.choices_early, 1);
    assert_int_equal(want.models_served, 6);
    assert_int_equal(want.clients, 2);
    assert_int_equal(want.admins, 4);
    assert_in_range(want.early_bytes, 7, DISTINCT - 1);
    for (size_t i = 0; i < METRIC_COUNT(router_metrics_rows); i++) {
        for (size_t j = 0; j < i; j++) {
            assert_true(metric_value(&want, i) != metric_value(&want, j));
        }
    }
    x = ask_metrics(a);
    assert_metrics((const void *)x->reply, &want);
    request.has_metrics = request.metrics = true;
    x = client_call(a, METHOD_ADMIN_WATCH, &request.base, 0);
    rig_run(rig);
    assert_metrics((const void *)x->reply, &want);
    *k = before;
    rig_free(&rig);
}

/* The largest reply that the table can make is within the cap of its method,
 * so that peer_end() never replaces it by an error. */
static void status_fits_its_cap_with_all_values_at_their_limit(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *a = rig_admin(rig, "a1");
    struct router_metrics *k = &rig->router->base.metrics, before = *k;
    Sluice__V1__StatusReply s;
    uint8_t name[PEER_NAME_MAX] = {0};
    size_t bytes;

    (void)state;
    memset(k, 0xff, sizeof *k);
    s = *(const Sluice__V1__StatusReply *)(const void *)ask_metrics(a)->reply;
    *k = before;
    s.router = (ProtobufCBinaryData){sizeof name, name};
    s.uptime_ms = UINT64_MAX;
    s.n_workers = s.n_clients = s.n_waiting = s.n_running = UINT32_MAX;
    for (size_t i = 0; i < s.n_metrics; i++) {
        s.metrics[i]->value = UINT64_MAX;
    }
    bytes = wire_size(&s.base);
    assert_in_range(bytes, 1, method_find(METHOD_ADMIN_STATUS)->reply_cap);
    assert_in_range(bytes, 1, method_find(METHOD_ADMIN_WATCH)->reply_cap);
    rig_free(&rig);
}

static void watch(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *a = rig_admin(rig, "a1");
    Sluice__V1__WatchRequest m = SLUICE__V1__WATCH_REQUEST__INIT;
    struct record *x, *fast, *slow;

    (void)state;
    m.has_period_ms = true;
    m.period_ms = WATCH_MS_MIN - 1;
    fast = client_call(a, METHOD_ADMIN_WATCH, &m.base, 0);
    m.period_ms = WATCH_MS_MAX + 1;
    slow = client_call(a, METHOD_ADMIN_WATCH, &m.base, 0);
    m.period_ms = 200;
    x = client_call(a, METHOD_ADMIN_WATCH, &m.base, 0);
    rig_run(rig);
    assert_int_equal(fast->status, ST_INVALID_ARGUMENT);
    assert_int_equal(slow->status, ST_INVALID_ARGUMENT);
    assert_int_equal(x->n_replies, 1);
    rig_advance(rig, 1000000);
    assert_int_equal(x->n_replies, 6);
    client_give_up(a, x);
    rig_advance(rig, 1000000);
    assert_int_equal(x->n_replies, 6);
    x = client_call(a, METHOD_ADMIN_WATCH, &m.base, 0);
    rig_run(rig);
    fake_lost(a); /* the end of its session frees the watch */
    rig_advance(rig, 1000000);
    rig_free(&rig);
}

static void pages_of_sequences(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 4096, 200);
    struct fake *c = rig_client(rig, "c1");
    struct fake *a = rig_admin(rig, "a1");
    Sluice__V1__ListRequest m = SLUICE__V1__LIST_REQUEST__INIT;
    bool seen[256] = {false};
    uint32_t n = 0, pages = 0;

    (void)state;
    for (uint32_t i = 1; i <= 2 * LIST_ROWS_MAX; i++) {
        client_generate(c, (uint8_t)i, 40, 4);
    }
    rig_run(rig);
    worker_make(w, worker_sequence_of(w, 7), 2, 0);
    worker_step(w);
    rig_run(rig);
    for (;;) {
        struct record *x =
            client_call(a, METHOD_ADMIN_LIST_SEQUENCES, &m.base, 0);
        const Sluice__V1__ListSequencesReply *l;

        rig_run(rig);
        l = (const void *)x->reply;
        assert_int_equal(l->n_sequences, LIST_ROWS_MAX);
        for (size_t i = 0; i < l->n_sequences; i++) {
            const Sluice__V1__SequenceRow *row = l->sequences[i];
            uint8_t id = row->sequence->request_id.data[0];

            assert_false(seen[id]);
            seen[id] = true;
            n++;
            assert_int_equal(row->n_prompt, 40);
            assert_int_equal(row->max_tokens, 4);
            assert_int_equal(row->n_generated, id == 7 ? 2 : 0);
            assert_int_equal(row->blocks, 2);
            assert_int_equal(row->slots, 1);
            assert_memory_equal(row->worker.data, "w1", 2);
            assert_int_equal(row->tenant.len, strlen("default"));
            assert_memory_equal(row->tenant.data, "default", 7);
            assert_memory_equal(row->state.data, id == 7 ? "decode" : "prefill",
                                id == 7 ? 6 : 7);
        }
        pages++;
        if (!l->has_next) {
            break;
        }
        m.has_after = true;
        m.after = l->next;
        client_cancel(c,
                      1); /* sequences that end between pages shift no rows */
    }
    assert_int_equal(pages, 2);
    assert_int_equal(n, 2 * LIST_ROWS_MAX);
    rig_free(&rig);
}

static void list_of_workers(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *a = rig_admin(rig, "a1");
    Sluice__V1__ListRequest m = SLUICE__V1__LIST_REQUEST__INIT;
    const Sluice__V1__ListWorkersReply *l;
    struct record *x;
    char name[16];

    (void)state;
    for (int i = 0; i < ROUTER_WORKERS_MAX; i++) {
        snprintf(name, sizeof name, "w%d", i);
        rig_worker(rig, name, 8 + (uint32_t)i, 2);
    }
    rig_advance(rig, 250000);
    x = client_call(a, METHOD_ADMIN_LIST_WORKERS, &m.base, 0);
    rig_run(rig);
    l = (const void *)x->reply;
    assert_int_equal(l->n_workers, LIST_WORKERS_MAX);
    assert_true(l->has_next);
    assert_int_equal(l->workers[5]->ledger->blocks->total, 13);
    assert_memory_equal(l->workers[5]->name.data, "w5", 2);
    assert_int_equal(l->workers[5]->silent_ms, 250);
    assert_memory_equal(l->workers[5]->state.data, "up", 2);
    m.has_after = true;
    m.after = l->next;
    x = client_call(a, METHOD_ADMIN_LIST_WORKERS, &m.base, 0);
    rig_run(rig);
    l = (const void *)x->reply;
    assert_int_equal(l->n_workers, ROUTER_WORKERS_MAX - LIST_WORKERS_MAX);
    assert_false(l->has_next);
    assert_memory_equal(l->workers[0]->name.data, "w32", 3);
    rig_free(&rig);
}

static const Sluice__V1__ListWorkersReply *list(struct fake *a)
{
    Sluice__V1__ListRequest m = SLUICE__V1__LIST_REQUEST__INIT;
    struct record *x = client_call(a, METHOD_ADMIN_LIST_WORKERS, &m.base, 0);

    rig_run(a->rig);
    assert_int_equal(x->status, ST_OK);
    return (const void *)x->reply;
}

/* A restored prompt counts with its first token, as the prompt does. */
static void reused_tokens_are_a_part_of_the_prompts(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 2);
    struct fake *c = rig_client(rig, "c1"), *a = rig_admin(rig, "a1");
    const Sluice__V1__ListWorkersReply *l;

    (void)state;
    client_generate(c, 1, 70, 4);
    rig_run(rig);
    worker_sequence_of(w, 1)->reused = 64;
    worker_give(w, 1, 0, 0, 0);
    l = list(a);
    assert_int_equal(l->workers[0]->n_prompt_tokens, 0);
    assert_int_equal(l->workers[0]->n_reused_tokens, 0);
    worker_give(w, 1, 0, 1, 0);
    l = list(a);
    assert_int_equal(l->workers[0]->n_prompt_tokens, 70);
    assert_int_equal(l->workers[0]->n_reused_tokens, 64);
    rig_free(&rig);
}

static void assert_replica(const Sluice__V1__WorkerRow *w,
                           const struct fake *stage, const char *state)
{
    assert_true(w->has_assembly && w->has_stage && w->has_n_stages);
    assert_int_equal(w->assembly, stage->assembly);
    assert_int_equal(w->stage, stage->stage);
    assert_int_equal(w->n_stages, stage->n_stages);
    assert_int_equal(w->replica.len, strlen(state));
    assert_memory_equal(w->replica.data, state, strlen(state));
}

static void assert_replicas(struct fake *a, uint32_t up, uint32_t forming)
{
    const Sluice__V1__StatusReply *s =
        (const void *)ask(a, METHOD_ADMIN_STATUS)->reply;

    assert_int_equal(s->n_replicas, up);
    assert_int_equal(s->n_forming, forming);
}

static void stages_and_their_replica(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *a = rig_admin(rig, "a1");
    struct fake *w[2] = {rig_stage(rig, "s1", 2, 4),
                         fake_stage_new(rig, "s0", 0, 2)};
    const Sluice__V1__ListWorkersReply *l = list(a);

    (void)state;
    assert_false(
        l->workers[0]->has_assembly); /* the stage waits for a replica */
    assert_false(l->workers[0]->has_replica);
    assert_replicas(a, 0, 0);
    w[1]->hold_assembles = true;
    fake_hello(w[1]);
    rig_run(rig);
    l = list(a);
    assert_int_equal(l->n_workers, 2);
    assert_replica(l->workers[0], w[0], "forming");
    assert_replica(l->workers[1], w[1], "forming");
    assert_false(l->workers[0]->has_replica_ms);
    assert_replicas(a, 0, 1);

    stage_assembled(w[1]);
    rig_advance(rig, 200000);
    l = list(a);
    assert_replica(l->workers[0], w[0], "up");
    assert_replica(l->workers[1], w[1], "up");
    assert_int_equal(l->workers[0]->stage, 1);
    assert_int_equal(l->workers[1]->stage, 0);
    assert_true(l->workers[0]->has_replica_ms);
    assert_in_range(l->workers[0]->replica_ms, 100, 200);
    assert_replicas(a, 1, 0);

    fake_lost(w[0]);
    rig_advance(rig, 100000);
    assert_replicas(a, 0, 0);
    assert_int_equal(list(a)->n_workers, 0);
    rig_free(&rig);
}

static void offers_and_what_they_are_given(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *a = rig_admin(rig, "a1");
    struct fake *w[2] = {rig_offer(rig, "o0", 2, 12),
                         fake_offer_new(rig, "o1", 2, 12)};
    const Sluice__V1__ListWorkersReply *l = list(a);

    (void)state;
    assert_int_equal(l->n_workers, 0);
    assert_int_equal(l->n_offers, 1);
    assert_memory_equal(l->offers[0]->name.data, "o0", 2);
    assert_memory_equal(l->offers[0]->state.data, "offered", 7);
    assert_int_equal(l->offers[0]->n_stages, 2);
    assert_false(l->offers[0]->has_layer_end);
    w[0]->hold_assigns = w[1]->hold_assigns = true;
    fake_hello(w[1]);
    rig_run(rig);
    l = list(a);
    assert_int_equal(l->n_offers, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_memory_equal(l->offers[i]->state.data, "assigned", 8);
        assert_int_equal(l->offers[i]->layer_begin, w[i]->begin);
        assert_int_equal(l->offers[i]->layer_end, w[i]->end);
    }
    offer_accept(w[0]);
    offer_accept(w[1]);
    offer_leave(w[0]);
    l = list(a); /* it is loading, and still listed */
    assert_int_equal(l->n_offers, 2);
    assert_memory_equal(l->offers[0]->name.data, "o1", 2);
    assert_memory_equal(l->offers[1]->name.data, "o0", 2);
    assert_memory_equal(l->offers[1]->state.data, "loading", 7);
    assert_int_equal(l->offers[1]->layer_end, w[0]->end);
    assert_false(l->offers[1]->has_speed);
    offer_load(w[0]);
    l = list(a);
    assert_int_equal(l->n_offers, 1);
    assert_int_equal(l->n_workers, 1);
    rig_free(&rig);
}

static void health(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *c = rig_client(rig, "c1");
    const Sluice__V1__HealthReply *h;

    (void)state;
    h = (const void *)ask(c, METHOD_HEALTH_CHECK)->reply;
    assert_false(h->serving);
    rig_worker(rig, "w1", 64, 8);
    h = (const void *)ask(c, METHOD_HEALTH_CHECK)->reply;
    assert_true(h->serving);
    rig_free(&rig);
}

static void texts(void **state)
{
    struct fake_text text;
    struct rig_options o = {.max_peers = 16,
                            .max_requests = 16,
                            .max_waiting = 16,
                            .text = &text.seam};
    Sluice__V1__TokenizeRequest t = SLUICE__V1__TOKENIZE_REQUEST__INIT;
    Sluice__V1__DetokenizeRequest d = SLUICE__V1__DETOKENIZE_REQUEST__INIT;
    uint32_t ids[] = {'h', 'i'};
    struct record *a, *b, *gone, *bad, *unknown;
    struct rig *rig;
    struct fake *c;

    (void)state;
    fake_text_init(&text, NULL);
    rig = rig_new(&o); /* without any worker */
    c = rig_client(rig, "c1");
    t.model = d.model = wire_text("tiny");
    t.text = wire_text("abc");
    d.tokens = ids;
    d.n_tokens = 2;
    text.hold = true;
    gone = client_call(c, METHOD_INFERENCE_TOKENIZE, &t.base, 0);
    a = client_call(c, METHOD_INFERENCE_TOKENIZE, &t.base, 0);
    b = client_call(c, METHOD_INFERENCE_DETOKENIZE, &d.base, 0);
    t.model = wire_text("other");
    unknown = client_call(c, METHOD_INFERENCE_TOKENIZE, &t.base, 0);
    ids[1] = UINT32_MAX;
    bad = client_call(c, METHOD_INFERENCE_DETOKENIZE, &d.base, 0);
    rig_run(rig);
    client_give_up(c, gone);
    rig_run(rig);
    assert_false(a->ended || b->ended);
    text.hold = false;
    rig_advance(rig, 10000);
    assert_int_equal(a->status, ST_OK);
    assert_int_equal(
        ((const Sluice__V1__TokenizeReply *)(const void *)a->reply)->n_tokens,
        3);
    assert_int_equal(b->status, ST_OK);
    assert_memory_equal(
        ((const Sluice__V1__DetokenizeReply *)(const void *)b->reply)
            ->text.data,
        "hi", 2);
    assert_int_equal(unknown->status, ST_NOT_FOUND);
    assert_int_equal(bad->status, ST_INVALID_ARGUMENT);
    rig_free(&rig);
    fake_text_fini(&text);
}

static void models(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *c = rig_client(rig, "c1");
    Sluice__V1__ListModelsRequest m = SLUICE__V1__LIST_MODELS_REQUEST__INIT;
    const Sluice__V1__ListModelsReply *l;
    struct record *x;

    (void)state;
    rig_worker(rig, "w1", 64, 8);
    rig_worker(rig, "w2", 64, 8);
    x = client_call(c, METHOD_INFERENCE_LIST_MODELS, &m.base, 0);
    rig_run(rig);
    l = (const void *)x->reply;
    assert_int_equal(l->n_models, 1);
    assert_int_equal(l->models[0]->n_workers, 2);
    assert_int_equal(l->models[0]->context, RIG_CONTEXT);
    assert_int_equal(l->models[0]->vocab, RIG_VOCAB);
    assert_false(l->models[0]->has_text);
    rig_free(&rig);
}

static void an_administrator_cancels(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");
    struct fake *a = rig_admin(rig, "a1");
    Sluice__V1__CancelRequest m = SLUICE__V1__CANCEL_REQUEST__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    struct record *x = client_generate(c, 1, 40, 4), *k;
    uint8_t id[16];

    (void)state;
    rig_run(rig);
    memset(id, 1, 16);
    ref.request_id = (ProtobufCBinaryData){16, id};
    m.sequence = &ref;
    k = client_call(a, METHOD_ADMIN_CANCEL, &m.base, 0);
    rig_run(rig);
    assert_true(k->ended && x->ended);
    assert_int_equal(k->receipt.blocks, 2);
    assert_int_equal(w->last_reason,
                     SLUICE__V1__CANCEL_REASON__CANCEL_BY_ADMIN);
    rig_free(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status),
        cmocka_unit_test(every_metric_arrives_in_status_and_watch),
        cmocka_unit_test(status_fits_its_cap_with_all_values_at_their_limit),
        cmocka_unit_test(watch),
        cmocka_unit_test(pages_of_sequences),
        cmocka_unit_test(list_of_workers),
        cmocka_unit_test(reused_tokens_are_a_part_of_the_prompts),
        cmocka_unit_test(stages_and_their_replica),
        cmocka_unit_test(offers_and_what_they_are_given),
        cmocka_unit_test(health),
        cmocka_unit_test(texts),
        cmocka_unit_test(models),
        cmocka_unit_test(an_administrator_cancels),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
