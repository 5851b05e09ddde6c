#include "client/load/load_series.h"

#include <stdio.h>

#define TITLE_BYTES 96

static void title(const struct load_setup *s, const struct load_kind *k,
                  const char *what, char *text)
{
    if (k->load > 0 && k->closed) {
        snprintf(text, TITLE_BYTES, "%s: %.0f at once", what, k->load);
    } else if (k->load > 0) {
        snprintf(text, TITLE_BYTES, "%s: %.4g requests/s", what, k->load);
    } else {
        snprintf(text, TITLE_BYTES, "%s: %s", what, s->o.target);
    }
}

static enum status run_one(struct load_job *j, struct result *r,
                           const struct load_kind *k, enum run_role role,
                           struct error *e)
{
    static const char *const names[] = {[RUN_PLAIN] = "load",
                                        [RUN_REPEAT] = "repeat",
                                        [RUN_TRIAL] = "trial",
                                        [RUN_CONFIRM] = "confirmation",
                                        [RUN_BEYOND] = "beyond"};
    char text[TITLE_BYTES];
    struct load_kind kind = *k;
    struct run *run = result_add(r);

    title(j->setup, k, names[role], text);
    kind.title = text;
    run->role = role;
    return load_run_once(j, &kind, run, e);
}

/* Runs each content alone and keeps its output; the run is no part of the
 * result. */
static enum status learn(struct load_job *j, struct error *e)
{
    struct result alone = {0};
    struct load_kind k = {.learn = true, .title = "each content alone"};
    enum status st = load_run_once(j, &k, result_add(&alone), e);
    const struct tally *t = alone.runs[0].tally;

    if (st == ST_OK && !j->interrupted &&
        t->counts.n_outcomes[OUTCOME_OK] < j->setup->plan.n_variants) {
        st = error_set(e, ST_ABORTED,
                       "only %llu of %u contents ended OK alone; their outputs "
                       "cannot be checked%s%s",
                       (unsigned long long)t->counts.n_outcomes[OUTCOME_OK],
                       j->setup->plan.n_variants, t->n_whys ? ": " : "",
                       t->n_whys ? t->whys[0].why : "");
    }
    result_fini(&alone);
    return st;
}

static enum status repeat(struct load_job *j, struct result *r,
                          const struct load_kind *k, struct error *e)
{
    uint32_t n = j->setup->n_repeats;
    enum status st = ST_OK;

    for (uint32_t i = 0; i < n && st == ST_OK && !j->interrupted; i++) {
        st = run_one(j, r, k, n > 1 ? RUN_REPEAT : RUN_PLAIN, e);
    }
    return st;
}

static enum status sweep(struct load_job *j, struct result *r, struct error *e)
{
    const struct load_setup *s = j->setup;
    enum status st = ST_OK;

    for (uint32_t i = 0; i < s->n_sweep && st == ST_OK && !j->interrupted;
         i++) {
        struct load_kind k = {.load = s->sweep[i],
                              .closed = s->plan.concurrency > 0};

        st = repeat(j, r, &k, e);
    }
    return st;
}

static enum run_role role_of(enum search_kind kind)
{
    return kind == SEARCH_CONFIRM  ? RUN_CONFIRM
           : kind == SEARCH_BEYOND ? RUN_BEYOND
                                   : RUN_TRIAL;
}

static enum status search(struct load_job *j, struct result *r, bool closed,
                          struct error *e)
{
    struct load_kind k = {.closed = closed};
    enum status st = ST_OK;

    r->searched = true;
    search_init(&r->search, &j->setup->search);
    while (st == ST_OK && !j->interrupted && search_next(&r->search, &k.load)) {
        st = run_one(j, r, &k, role_of(r->search.kind), e);
        if (st == ST_OK && !j->interrupted) {
            const struct run *run = &r->runs[r->n_runs - 1];

            search_take(&r->search, run->tally->counts.n_good,
                        tally_wanted(run->tally), !run->invalid);
        }
    }
    return st;
}

enum status load_series(struct load_job *j, struct result *r, struct error *e)
{
    struct load_kind plain = {.closed = j->setup->plan.concurrency > 0};
    enum status st = j->outputs ? learn(j, e) : ST_OK;

    if (st != ST_OK || j->interrupted) {
        return st;
    }
    switch (j->setup->series) {
    case SERIES_SWEEP:
        return sweep(j, r, e);
    case SERIES_SEARCH_RATE:
        return search(j, r, false, e);
    case SERIES_SEARCH_CONCURRENCY:
        return search(j, r, true, e);
    default:
        return repeat(j, r, &plain, e);
    }
}
