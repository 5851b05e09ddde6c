/* The router's histograms and labelled metrics: what counts, and how it arrives
 * in Status, on the page and in the log. */
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "router/calls/router_state.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/router/rig.h"
#include "tests/unit/router/rig_drain.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH

static struct router_base *base_of(struct rig *rig)
{
    return &rig->router->base;
}

static struct record *generate(struct fake *c, uint8_t id, const char *tenant,
                               uint32_t n_prompt, uint32_t max_tokens)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct record *x;

    m.has_tenant = tenant != NULL;
    if (tenant != NULL) {
        m.tenant = wire_text(tenant);
    }
    x = client_generate_with(c, id, n_prompt, max_tokens, &m, 0);
    rig_run(c->rig);
    return x;
}

/* Returns the page with a NUL, owned by the caller. */
static char *page_of(struct rig *rig)
{
    struct metric_page p = {.text = NULL};

    router_page(rig->router, &p);
    p.text = realloc(p.text, p.n + 1);
    assert_non_null(p.text);
    p.text[p.n] = '\0';
    return p.text;
}

static void assert_on_page(struct rig *rig, const char *sample)
{
    char *text = page_of(rig);

    if (strstr(text, sample) == NULL) {
        fail_msg("%s is not in %s", sample, text);
    }
    free(text);
}

static void times_are_those_of_the_figures(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 1);
    struct fake *c = rig_client(rig, "c1");
    const struct router_times *t = &base_of(rig)->times;
    struct record *x, *y;

    (void)state;
    x = generate(c, 1, NULL, 10, 5);
    y = generate(c, 2, NULL, 20, 1); /* waits for the slot */
    assert_int_equal(t->queue.sum, 0);
    assert_int_equal(metric_observed(&t->queue), 1);
    rig_advance(rig, 30000);
    worker_give(w, 1, 0, 1, 0);
    rig_advance(rig, 40000);
    worker_give(w, 1, 0, 4, LENGTH);
    worker_report(w);
    rig_run(rig);
    assert_true(x->ended);
    worker_give(w, 2, 0, 1, LENGTH);
    assert_true(y->ended);
    assert_int_equal(metric_observed(&t->queue), 2);
    assert_int_equal(t->queue.sum, y->figures.queued_us);
    assert_int_equal(metric_observed(&t->first_token), 2);
    assert_int_equal(t->first_token.sum,
                     x->figures.first_token_us + y->figures.first_token_us);
    assert_int_equal(metric_observed(&t->choice), 2);
    assert_int_equal(t->choice.sum, x->figures.total_us + y->figures.total_us);
    /* y has no second token. */
    assert_int_equal(metric_observed(&t->token), 1);
    assert_int_equal(t->token.sum,
                     (x->figures.total_us - x->figures.first_token_us) / 4);
    assert_int_equal(t->choice_prompt_tokens.sum, 30);
    assert_int_equal(t->choice_tokens.sum, 6);
    assert_int_equal(base_of(rig)->metrics.prompt_tokens, 30);
    rig_free(&rig);
}

static void a_cancelled_choice_has_no_times(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 1);
    struct fake *c = rig_client(rig, "c1");
    const struct router_times *t = &base_of(rig)->times;

    (void)state;
    generate(c, 1, NULL, 10, 5);
    worker_give(w, 1, 0, 2, 0);
    client_cancel(c, 1);
    rig_run(rig);
    assert_int_equal(metric_observed(&t->first_token), 1);
    assert_int_equal(metric_observed(&t->token), 0);
    assert_int_equal(metric_observed(&t->choice), 0);
    rig_free(&rig);
}

/* Refusals at each place: a check, the model, the queue, the prompt. */
static void refusals_count_by_status(void **state)
{
    const struct rig_options o = {
        .max_peers = 16, .max_requests = 3, .max_waiting = 32};
    struct rig *rig = rig_new(&o);
    struct fake *c = rig_client(rig, "c1");
    struct router_refusals(*k)[ST_NR] = base_of(rig)->refusals;
    const size_t m1 = 1; /* the first model that a worker has */
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    uint64_t sum = 0;

    (void)state;
    generate(c, 1, NULL, 10, 5); /* no worker */
    assert_int_equal(k[METRIC_OTHER][ST_UNAVAILABLE].refusals, 1);
    rig_worker(rig, "w1", 64, 1);
    generate(c, 1, "", 10, 5);
    assert_int_equal(k[m1][ST_INVALID_ARGUMENT].refusals, 1);
    m.model = wire_text("huge");
    client_generate_with(c, 1, 10, 5, &m, 0);
    rig_run(rig);
    assert_int_equal(k[METRIC_OTHER][ST_NOT_FOUND].refusals, 1);
    generate(c, 1, NULL, 10, RIG_CONTEXT); /* when it is queued */
    assert_int_equal(k[m1][ST_INVALID_ARGUMENT].refusals, 2);
    generate(c, 1, NULL, 10, 5);
    generate(c, 1, NULL, 10, 5);
    assert_int_equal(k[m1][ST_ALREADY_EXISTS].refusals, 1);
    generate(c, 2, NULL, 10, 5);
    generate(c, 3, NULL, 10, 5);
    generate(c, 4, NULL, 10, 5); /* max_requests */
    assert_int_equal(k[m1][ST_RESOURCE_EXHAUSTED].refusals, 1);
    for (int st = 0; st < ST_NR; st++) {
        sum += k[m1][st].refusals + k[METRIC_OTHER][st].refusals;
    }
    assert_int_equal(sum, base_of(rig)->metrics.refused);
    assert_on_page(rig, "sluice_router_refusals_total{model=\"tiny\","
                        "reason=\"resource_exhausted\"} 1\n");
    assert_on_page(rig, "sluice_router_refusals_total{model=\"other\","
                        "reason=\"data_loss\"} 0\n");
    rig_free(&rig);
}

static void tenants_count_alone(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 4);
    struct fake *c = rig_client(rig, "c1");

    (void)state;
    generate(c, 1, "acme", 10, 5);
    generate(c, 2, NULL, 20, 5);
    worker_give(w, 1, 0, 3, 0);
    worker_give(w, 2, 0, 2, 0);
    worker_give(w, 1, 0, 2, LENGTH);
    assert_on_page(rig, "tenant_requests_total{tenant=\"acme\"} 1\n");
    assert_on_page(rig, "tenant_prompt_tokens_total{tenant=\"acme\"} 10\n");
    assert_on_page(rig, "tenant_tokens_total{tenant=\"acme\"} 5\n");
    assert_on_page(rig, "tenant_tokens_total{tenant=\"default\"} 2\n");
    assert_on_page(rig, "tenant_tokens_total{tenant=\"other\"} 0\n");
    rig_free(&rig);
}

static void pools_are_those_of_the_newest_ledger(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 4);
    struct fake *c = rig_client(rig, "c1");

    (void)state;
    assert_on_page(rig, "pool_free{worker=\"w1\",class=\"blocks\"} 64\n");
    generate(c, 1, NULL, 10, 5);
    worker_report(w);
    rig_run(rig);
    assert_on_page(rig, "pool_size{worker=\"w1\",class=\"slots\"} 4\n");
    assert_on_page(rig, "pool_free{worker=\"w1\",class=\"slots\"} 3\n");
    rig_free(&rig);
}

/* Brings a worker of another model. */
static struct fake *worker_of(struct rig *rig, const char *name,
                              const char *model)
{
    struct fake *w = fake_worker_new(rig, name, 64, 4);

    snprintf(w->model, sizeof w->model, "%s", model);
    w->shard.model = wire_text(w->model);
    fake_hello(w);
    assert_true(w->up);
    return w;
}

static void models_count_alone(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 1);
    struct fake *c = rig_client(rig, "c1");

    (void)state;
    worker_of(rig, "w2", "huge");
    client_generate(c, 1, 10, 5);
    client_generate(c, 2, 10, 5); /* waits: one slot */
    rig_run(rig);
    rig_advance(rig, 3000);
    worker_give(w, 1, 0, 5, LENGTH);
    rig_run(rig);
    assert_on_page(rig, "model_requests_total{model=\"tiny\"} 2\n");
    assert_on_page(rig, "model_requests_total{model=\"huge\"} 0\n");
    assert_on_page(rig, "model_finished_total{model=\"tiny\"} 1\n");
    assert_on_page(rig, "model_prompt_tokens_total{model=\"tiny\"} 20\n");
    assert_on_page(rig, "model_tokens_total{model=\"tiny\"} 5\n");
    assert_on_page(rig, "model_first_token_seconds_count{model=\"tiny\"} 1\n");
    assert_on_page(rig, "model_queue_seconds_count{model=\"tiny\"} 2\n");
    assert_on_page(rig, "model_choice_seconds_sum{model=\"tiny\"} 0.003000\n");
    assert_on_page(rig, "model_choice_seconds_sum{model=\"huge\"} 0.000000\n");
    assert_on_page(rig, "model_running{model=\"tiny\"} 1\n");
    assert_on_page(rig, "model_waiting{model=\"tiny\"} 0\n");
    assert_on_page(rig, "model_places{model=\"tiny\"} 1\n");
    assert_on_page(rig, "router_models_served 2\n");
    rig_free(&rig);
}

/* A model without a worker keeps its series: alerts look at them. */
static void a_lost_model_is_expected(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 4);
    struct fake *c = rig_client(rig, "c1");

    (void)state;
    assert_on_page(rig, "worker_up{worker=\"w1\",model=\"tiny\"} 1\n");
    fake_lost(w);
    rig_run(rig);
    generate(c, 1, NULL, 10, 5);
    assert_on_page(rig, "model_places{model=\"tiny\"} 0\n");
    assert_on_page(rig, "model_places_expected{model=\"tiny\"} 1\n");
    assert_on_page(rig, "router_models_served 0\n");
    assert_on_page(rig, "refusals_total{model=\"tiny\","
                        "reason=\"unavailable\"} 1\n");
    fake_restart(w);
    rig_run(rig);
    assert_on_page(rig, "model_places{model=\"tiny\"} 1\n");
    assert_on_page(rig, "model_places_expected{model=\"tiny\"} 1\n");
    rig_free(&rig);
}

static void a_drained_place_is_not_expected(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w1 = rig_worker(rig, "w1", 64, 4);

    (void)state;
    rig_worker(rig, "w2", 64, 4);
    leave(w1, 0);
    assert_on_page(rig, "worker_draining{worker=\"w1\",model=\"tiny\"} 1\n");
    assert_on_page(rig, "model_places_expected{model=\"tiny\"} 2\n");
    fake_lost(w1);
    rig_run(rig);
    assert_on_page(rig, "model_places{model=\"tiny\"} 1\n");
    assert_on_page(rig, "model_places_expected{model=\"tiny\"} 1\n");
    rig_free(&rig);
}

/* From the start on, whatever comes and goes. */
static void the_operator_states_the_places(void **state)
{
    static const struct named_number places[] = {{"tiny", 2}, {"absent", 1}};
    const struct rig_options o = {.max_peers = 8,
                                  .max_requests = 8,
                                  .max_waiting = 8,
                                  .places = places,
                                  .n_places = 2};
    struct rig *rig = rig_new(&o);
    struct fake *w1;

    (void)state;
    assert_on_page(rig, "model_places_expected{model=\"tiny\"} 2\n");
    assert_on_page(rig, "model_places{model=\"tiny\"} 0\n");
    w1 = rig_worker(rig, "w1", 64, 4);
    rig_worker(rig, "w2", 64, 4);
    rig_worker(rig, "w3", 64, 4);
    assert_on_page(rig, "model_places{model=\"tiny\"} 3\n");
    assert_on_page(rig, "model_places_expected{model=\"tiny\"} 2\n");
    leave(w1, 0);
    fake_lost(w1);
    rig_run(rig);
    assert_on_page(rig, "model_places{model=\"tiny\"} 2\n");
    assert_on_page(rig, "model_places_expected{model=\"tiny\"} 2\n");
    assert_on_page(rig, "model_places_expected{model=\"absent\"} 1\n");
    rig_free(&rig);
}

static void restored(struct fake *w, uint32_t choice, uint32_t n)
{
    struct sequence *s = worker_choice_of(w, 1, choice);

    assert_non_null(s);
    s->reused = n;
    worker_give(w, 1, choice, 2, 0); /* with one it would be a suspect */
}

/* Its choices share the prompt, and one that moves restores it again: what was
 * reused is a part of what was asked. */
static void a_prompt_is_reused_once(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1"), *other;

    (void)state;
    client_generate_n(c, 1, 3, 70, 4);
    rig_run(rig);
    restored(w, 0, 64);
    restored(w, 1, 70); /* twins */
    restored(w, 2, 70);
    assert_on_page(rig, "router_prompt_tokens_total 70\n");
    assert_on_page(rig, "router_reused_tokens_total 64\n");
    other = rig_worker(rig, "w2", 64, 8);
    fake_lost(w);
    rig_run(rig);
    restored(other, 1, 70);
    assert_on_page(rig, "router_prompt_tokens_total 70\n");
    assert_on_page(rig, "router_reused_tokens_total 64\n");
    assert_on_page(rig, "tenant_reused_tokens_total{tenant=\"default\"} 64\n");
    rig_free(&rig);
}

/* Stages that cannot form a replica serve nothing: their pools are no room. */
static void an_orphan_stage_has_no_pool(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w1 = rig_stage(rig, "w1", 0, 2);
    char *page;

    (void)state;
    rig_stage(rig, "w2", 2, 4);
    rig_run(rig);
    assert_on_page(rig, "pool_size{worker=\"w2\",class=\"pages\"}");
    assert_on_page(rig, "worker_serves{worker=\"w2\",model=\"tiny\"} 1\n");
    fake_lost(w1);
    rig_advance(rig, BROKEN_US);
    page = page_of(rig);
    assert_null(strstr(page, "pool_size{"));
    free(page);
    assert_on_page(rig, "model_places{model=\"tiny\"} 0\n");
    assert_on_page(rig, "model_places_expected{model=\"tiny\"} 1\n");
    rig_free(&rig);
}

/* ---- Status ---- */

static const Sluice__V1__StatusReply *ask(struct fake *a, bool metrics)
{
    Sluice__V1__StatusRequest m = SLUICE__V1__STATUS_REQUEST__INIT;
    struct record *x;

    m.has_metrics = m.metrics = metrics;
    x = client_call(a, METHOD_ADMIN_STATUS, &m.base, 0);
    rig_run(a->rig);
    assert_true(x->ended);
    assert_int_equal(x->status, ST_OK);
    return (const void *)x->reply;
}

static void assert_table(const Sluice__V1__MetricTable *t,
                         const struct metric_series *s)
{
    const char *labels = s->set->labels != NULL ? s->set->labels : "";

    assert_int_equal(t->n_rows, s->set->n_rows);
    for (size_t i = 0; i < t->n_rows; i++) {
        const char *name = s->set->rows[i].name;

        assert_int_equal(t->rows[i]->name.len, strlen(name));
        assert_memory_equal(t->rows[i]->name.data, name, strlen(name));
        assert_int_equal(t->rows[i]->kind, s->set->rows[i].kind);
    }
    assert_int_equal(t->has_label_names, s->set->labels != NULL);
    assert_int_equal(t->label_names.len, strlen(labels));
    assert_int_equal(t->labels.len, metric_labels_bytes(s));
    assert_true(t->labels.len == 0 ||
                memcmp(t->labels.data, s->labels, t->labels.len) == 0);
    assert_int_equal(t->n_values, s->n * metric_width(s->set));
    assert_memory_equal(t->values, s->values, t->n_values * sizeof(uint64_t));
}

/* The most workers, models and tenants, with the longest names and large
 * values, fit the method's size. */
static void drafts_of_all_models_arrive_in_status(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *a = rig_admin(rig, "a1");
    const Sluice__V1__StatusReply *m;

    (void)state;
    for (uint64_t i = 0; i < 2; i++) {
        Sluice__V1__StepOutputMessage out =
            SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;
        Sluice__V1__DraftCounts d = SLUICE__V1__DRAFT_COUNTS__INIT;

        d.rows = 10 * i;
        d.verified = 40 * i;
        d.accepted = 30 * i;
        out.drafts = &d;
        worker_say(w, &out);
        rig_run(rig);
    }
    m = ask(a, false);
    assert_int_equal(m->n_draft_rows, 10);
    assert_int_equal(m->n_verified, 40);
    assert_int_equal(m->n_accepted, 30);
    rig_free(&rig);
}

static void the_largest_tables_arrive_in_status(void **state)
{
    const struct rig_options o = {
        .max_peers = 80, .max_requests = 300, .max_waiting = 300};
    struct rig *rig = rig_new(&o);
    struct metric_series s[COUNTS_SETS];
    const Sluice__V1__StatusReply *m;
    char name[TENANT_NAME_MAX + 1];
    struct fake *a, *c, *w;

    (void)state;
    for (int i = 0; i < ROUTER_WORKERS_MAX; i++) {
        snprintf(name, sizeof name, "%064d", i);
        w = fake_worker_new(rig, name, UINT32_MAX / 2048, 1 << 20);
        fake_windows(w, 128, 64, 1, 1 << 20);
        fake_hello(w);
        assert_true(w->up);
    }
    a = rig_admin(rig, "a1");
    c = rig_client(rig, "c1");
    for (int i = 0; i <= METRIC_NAMES_MAX; i++) {
        snprintf(name, sizeof name, "%064d", i);
        generate(c, (uint8_t)(1 + i), name, 10, 5);
    }
    for (size_t i = 0; i < METRIC_SLOTS; i++) {
        memset(&base_of(rig)->tenants[i], 0xff, sizeof(struct router_tenants));
    }
    for (int i = 0; i < METRIC_NAMES_MAX; i++) {
        char model[MODEL_NAME_MAX + 1];

        snprintf(model, sizeof model, "%0128d", i);
        metric_slot(&base_of(rig)->model_names, model, MODEL_NAME_MAX);
    }
    memset(base_of(rig)->models, 0xff, sizeof base_of(rig)->models);
    memset(base_of(rig)->refusals, 0xff, sizeof base_of(rig)->refusals);
    memset(&base_of(rig)->times, 0xff, sizeof(struct router_times));
    m = ask(a, true);
    assert_int_equal(m->n_workers, ROUTER_WORKERS_MAX);
    assert_int_equal(m->n_tables, COUNTS_SETS - 1);
    counts_series(rig->router, s);
    assert_int_equal(s[2].n, METRIC_SLOTS);
    assert_int_equal(s[6].n, METRIC_SLOTS);
    assert_int_equal(s[7].n, ROUTER_WORKERS_MAX * FLEET_CLASSES);
    for (size_t i = 0; i < m->n_tables; i++) {
        assert_table(m->tables[i], &s[1 + i]);
    }
    assert_int_equal(ask(a, false)->n_tables, 0);
    rig_free(&rig);
}

static void the_past_tenant_counts_as_other(void **state)
{
    const struct rig_options o = {
        .max_peers = 16, .max_requests = 300, .max_waiting = 300};
    struct rig *rig = rig_new(&o);
    struct fake *c;
    char name[16];

    (void)state;
    rig_worker(rig, "w1", 64, 1);
    c = rig_client(rig, "c1");
    for (int i = 0; i < METRIC_NAMES_MAX + 2; i++) {
        snprintf(name, sizeof name, "t%d", i);
        generate(c, (uint8_t)(1 + i), name, 10, 5);
    }
    assert_on_page(rig, "tenant_requests_total{tenant=\"t63\"} 1\n");
    assert_on_page(rig, "tenant_requests_total{tenant=\"other\"} 2\n");
    rig_free(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_those_of_the_figures),
        cmocka_unit_test(a_cancelled_choice_has_no_times),
        cmocka_unit_test(refusals_count_by_status),
        cmocka_unit_test(tenants_count_alone),
        cmocka_unit_test(pools_are_those_of_the_newest_ledger),
        cmocka_unit_test(models_count_alone),
        cmocka_unit_test(a_lost_model_is_expected),
        cmocka_unit_test(a_drained_place_is_not_expected),
        cmocka_unit_test(the_operator_states_the_places),
        cmocka_unit_test(a_prompt_is_reused_once),
        cmocka_unit_test(an_orphan_stage_has_no_pool),
        cmocka_unit_test(drafts_of_all_models_arrive_in_status),
        cmocka_unit_test(the_largest_tables_arrive_in_status),
        cmocka_unit_test(the_past_tenant_counts_as_other),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
