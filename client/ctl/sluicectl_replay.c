/* sluicectl_replay.c - The verb replay: what other options would have done. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/columns.h"
#include "client/ctl/ctl.h"
#include "common/base/json_must.h"
#include "common/base/log.h"
#include "common/base/option_value.h"
#include "router/base/named_numbers.h"
#include "router/replay/replay_figures.h"

#define RUNS 3 /* recorded, replayed, changed */

static const char *const run_names[RUNS] = {"recorded", "replayed", "changed"};

struct replay_verb {
    const struct ctl *ctl;
    struct recording *recording;
    struct named_numbers given;                   /* --tenant-weight */
    struct named_number weights[OPTION_LIST_MAX]; /* the recorded ones */
    struct replay_options options[RUNS];
    struct replay_figures figures[RUNS][1 + REPLAY_TENANTS_MAX];
    uint32_t n_runs, n_tenants; /* tenants: with all of them as the first */
};

/* ---- options ---- */

static enum status open_recording(struct replay_verb *v, struct error *e)
{
    const char *path = v->ctl->operands[0];
    FILE *f = fopen(path, "re");
    enum status st;

    if (f == NULL) {
        return error_set(e, ST_NOT_FOUND, "%s: %s", path, strerror(errno));
    }
    st = recording_read(&v->recording, f, e);
    fclose(f);
    return st == ST_OK ? ST_OK : error_wrap(e, "%s", path);
}

/* --workers is a list in the rows of plan, and one field serves both verbs. */
static enum status read_workers(const struct ctl *c, struct replay_options *o,
                                struct error *e)
{
    bool given;

    return c->o.workers.n == 0
               ? ST_OK
               : option_u32("workers", c->o.workers.item[0], REPLAY_WORKERS_MAX,
                            &given, &o->n_workers, e);
}

/* The row is a text, because 0 differs from absence. */
static enum status read_queue_timeout(const struct ctl *c,
                                      struct replay_options *o, struct error *e)
{
    static const struct option_row row = {
        "queue_timeout", OPTION_MS, "TIME", NULL, "", 0, 86400000, 0};
    uint32_t ms;

    if (c->o.queue_timeout == NULL) {
        return ST_OK;
    }
    if (option_store(&row, &ms, c->o.queue_timeout, e) != ST_OK) {
        return error_wrap(e, "--queue-timeout");
    }
    o->router.queue_timeout_us = (int64_t)ms * 1000;
    return ST_OK;
}

static enum status read_words(const struct ctl *c, struct replay_options *o,
                              struct error *e)
{
    const char *rule = c->o.admission;

    if (strcmp(c->o.policy, "fair") != 0 && strcmp(c->o.policy, "fifo") != 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--policy: \"%.40s\" is not \"fair\" or \"fifo\"",
                         c->o.policy);
    }
    if (rule != NULL && strcmp(rule, "strict") != 0 &&
        strcmp(rule, "expected") != 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--admission: \"%.40s\" is not \"strict\" or "
                         "\"expected\"",
                         rule);
    }
    o->policy = c->o.policy[1] == 'i' ? REPLAY_FIFO : REPLAY_FAIR;
    if (rule != NULL) {
        o->router.strict = strcmp(rule, "strict") == 0;
    }
    return ST_OK;
}

/* Without an option there is nothing to compare with. */
static bool is_changed(const struct ctl *c)
{
    return strcmp(c->o.policy, "fair") != 0 || c->o.admission != NULL ||
           c->o.tenant_weight.n > 0 || c->o.queue_timeout != NULL ||
           c->o.pages > 0 || c->o.workers.n > 0;
}

/* Weights that are given replace the recorded ones: a list that is merged
 * could not take one away. */
static enum status read_options(struct replay_verb *v, struct error *e)
{
    const struct recording *r = v->recording;
    struct replay_options *o = &v->options[2];

    for (uint32_t i = 0; i < r->n_weights && i < OPTION_LIST_MAX; i++) {
        v->weights[i] =
            (struct named_number){r->weights[i].tenant, r->weights[i].weight};
    }
    for (int i = 1; i < RUNS; i++) {
        v->options[i] = replay_as_recorded(r);
        v->options[i].weights = v->weights;
        v->options[i].n_weights =
            r->n_weights < OPTION_LIST_MAX ? r->n_weights : OPTION_LIST_MAX;
    }
    v->n_runs = is_changed(v->ctl) ? 3 : 2;
    o->pages = v->ctl->o.pages;
    if (named_numbers_parse(&v->given, &weight_rule, &v->ctl->o.tenant_weight,
                            e) != ST_OK ||
        read_workers(v->ctl, o, e) != ST_OK ||
        read_queue_timeout(v->ctl, o, e) != ST_OK ||
        read_words(v->ctl, o, e) != ST_OK) {
        return e->code;
    }
    if (v->given.n > 0) {
        o->weights = v->given.of;
        o->n_weights = v->given.n;
    }
    return ST_OK;
}

static enum status run_all(struct replay_verb *v, struct error *e)
{
    int64_t good_us = (int64_t)v->ctl->o.good * 1000;

    for (uint32_t i = 0; i < v->n_runs; i++) {
        struct replay_run run;

        if (i == 0) {
            replay_recorded(&run, v->recording);
        } else if (replay_run(&run, v->recording, &v->options[i], e) != ST_OK) {
            return e->code;
        }
        v->n_tenants =
            replay_figures(v->figures[i], v->recording, &run, good_us);
        replay_run_fini(&run);
    }
    return ST_OK;
}

/* ---- output ---- */

static double seconds(int64_t us)
{
    return us == RECORDING_NEVER ? -1 : (double)us / 1e6;
}

/* Rates of a run are over its own time: one that takes longer has lower ones.
 */
static double rate(uint64_t n, const struct replay_figures *f)
{
    return (double)n * 1e6 / (double)f->us;
}

static const char *tenant_name(const char *tenant)
{
    return tenant[0] == '\0' ? TENANT_DEFAULT : tenant;
}

/* A row for each count, and a column for each run. */
static void count_row(struct columns *t, const struct replay_verb *v,
                      const char *name, size_t offset)
{
    columns_cell(t, "%s", name);
    for (uint32_t i = 0; i < v->n_runs; i++) {
        uint32_t n;

        memcpy(&n, (const char *)&v->figures[i][0] + offset, sizeof n);
        columns_cell(t, "%" PRIu32, n);
    }
}

static void wait_cell(struct columns *t, int64_t us)
{
    if (us == RECORDING_NEVER) {
        columns_cell(t, "-");
    } else {
        columns_cell(t, "%.3f s", seconds(us));
    }
}

static void print_all(const struct replay_verb *v)
{
#define COUNT(t, name, member) \
    count_row(t, v, name, offsetof(struct replay_figures, member))
    struct columns t;

    if (v->n_runs == 3) {
        columns_init(&t, "all", "recorded", "replayed", "changed", NULL);
    } else {
        columns_init(&t, "all", "recorded", "replayed", NULL);
    }
    COUNT(&t, "requests", n_requests);
    COUNT(&t, "refused", n_refused);
    COUNT(&t, "finished", n_finished);
    COUNT(&t, "cancelled", n_cancelled);
    COUNT(&t, "failed", n_failed);
    COUNT(&t, "ever suspended", n_suspended);
    columns_cell(&t, "goodput");
    for (uint32_t i = 0; i < v->n_runs; i++) {
        columns_cell(&t, "%.2f/s",
                     rate(v->figures[i][0].n_good, &v->figures[i][0]));
    }
    columns_cell(&t, "tokens");
    for (uint32_t i = 0; i < v->n_runs; i++) {
        columns_cell(&t, "%.1f/s",
                     rate(v->figures[i][0].n_tokens, &v->figures[i][0]));
    }
    columns_print(&t, stdout);
    columns_fini(&t);
#undef COUNT
}

/* Runs of a tenant stand below each other, so that they compare at a glance. */
static void print_tenants(const struct replay_verb *v)
{
    struct columns t;

    columns_init(&t, "tenant", "run", "requests", "refused", "queue p50", "p99",
                 "first token p50", "p99", NULL);
    for (uint32_t k = 1; k < v->n_tenants; k++) {
        for (uint32_t i = 0; i < v->n_runs; i++) {
            const struct replay_figures *f = &v->figures[i][k];

            columns_cell(&t, "%s", tenant_name(f->tenant));
            columns_cell(&t, "%s", run_names[i]);
            columns_cell(&t, "%" PRIu32, f->n_requests);
            columns_cell(&t, "%" PRIu32, f->n_refused);
            wait_cell(&t, f->queue.p50_us);
            wait_cell(&t, f->queue.p99_us);
            wait_cell(&t, f->first.p50_us);
            wait_cell(&t, f->first.p99_us);
        }
    }
    putchar('\n');
    columns_print(&t, stdout);
    columns_fini(&t);
}

static void json_wait(json_t *to, const char *key, int64_t us)
{
    json_must_set(to, key,
                  us == RECORDING_NEVER ? json_null() : json_integer(us));
}

/* Times are whole microseconds, as in the recording. */
static json_t *json_figures(const struct replay_figures *f)
{
    json_t *j = json_object();

    if (f->tenant != NULL) {
        json_must_set(j, "tenant", json_string(tenant_name(f->tenant)));
    }
    json_must_set(j, "requests", json_integer(f->n_requests));
    json_must_set(j, "refused", json_integer(f->n_refused));
    json_must_set(j, "finished", json_integer(f->n_finished));
    json_must_set(j, "cancelled", json_integer(f->n_cancelled));
    json_must_set(j, "failed", json_integer(f->n_failed));
    json_must_set(j, "suspended", json_integer(f->n_suspended));
    json_must_set(j, "suspensions", json_integer((json_int_t)f->n_suspensions));
    json_must_set(j, "tokens", json_integer((json_int_t)f->n_tokens));
    json_must_set(j, "restored_tokens",
                  json_integer((json_int_t)f->n_restored));
    json_must_set(j, "good", json_integer(f->n_good));
    json_must_set(j, "time_us", json_integer(f->us));
    json_must_set(j, "goodput_per_s", json_real(rate(f->n_good, f)));
    json_must_set(j, "tokens_per_s", json_real(rate(f->n_tokens, f)));
    json_wait(j, "queue_p50_us", f->queue.p50_us);
    json_wait(j, "queue_p99_us", f->queue.p99_us);
    json_wait(j, "first_token_p50_us", f->first.p50_us);
    json_wait(j, "first_token_p99_us", f->first.p99_us);
    return j;
}

static void print_json(const struct replay_verb *v)
{
    json_t *all = json_object();

    json_must_set(all, "lines",
                  json_integer((json_int_t)v->recording->n_lines));
    json_must_set(all, "lost_lines",
                  json_integer((json_int_t)v->recording->n_lost));
    for (uint32_t i = 0; i < v->n_runs; i++) {
        json_t *run = json_figures(&v->figures[i][0]), *list = json_array();

        for (uint32_t k = 1; k < v->n_tenants; k++) {
            json_array_append_new(list, json_figures(&v->figures[i][k]));
        }
        json_must_set(run, "tenants", list);
        json_must_set(all, run_names[i], run);
    }
    ctl_print_json(all);
}

static void print_text(const struct replay_verb *v)
{
    const struct recording *r = v->recording;

    printf("%" PRIu32 " requests in %.1f s at %" PRIu32
           " places, --admission %s\n",
           r->n_requests, seconds(r->end_us), r->n_places,
           r->options.strict ? "strict" : "expected");
    if (r->n_lost > 0) {
        printf("%" PRIu64 " lines are lost: the disk was too slow\n",
               r->n_lost);
    }
    putchar('\n');
    print_all(v);
    print_tenants(v);
}

int ctl_replay(struct ctl *c)
{
    struct replay_verb *v;
    struct error e;
    int rc = CTL_OK;

    if (c->n_operands != 1) {
        return ctl_misuse(c, "name one recording: sluicectl replay FILE");
    }
    v = memory_must(calloc(1, sizeof *v));
    v->ctl = c;
    log_setup(LOG_OFF, NULL, NULL); /* the core's lines are not of now */
    if (open_recording(v, &e) != ST_OK || read_options(v, &e) != ST_OK ||
        run_all(v, &e) != ST_OK) {
        rc = ctl_fail(c, e.code, e.text, 0);
    } else if (c->o.json) {
        print_json(v);
    } else {
        print_text(v);
    }
    recording_free(&v->recording);
    free(v);
    return rc;
}
