#include "client/load/plan/plan.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/load/plan/plan_state.h"
#include "client/load/plan/sessions.h"
#include "common/base/memory.h"
#include "common/base/quote.h"
#include "text/file.h"

#define ARRIVALS_SEED 0x61727269 /* differs from the purposes of sessions.c */

/* ---- files ---- */

static char *copied(const char *text)
{
    char *out = text != NULL ? strdup(text) : NULL;

    assert(text == NULL || out != NULL);
    return out;
}

static enum status load_trace(struct plan *p, const char *path, struct error *e)
{
    char *text = NULL;
    size_t n = 0;
    enum status st = file_read(path, TRACE_BYTES_MAX, &text, &n, e);

    if (st == ST_OK) {
        st = trace_parse(&p->trace, text, n, &trace_limits, e);
    }
    free(text);
    return st == ST_OK ? ST_OK : error_wrap(e, "trace %s", quote(path).text);
}

static enum status load_dataset(struct plan *p, const char *path,
                                struct error *e)
{
    char *text = NULL;
    size_t n = 0;
    enum status st = file_read(path, DATASET_BYTES_MAX, &text, &n, e);

    if (st == ST_OK) {
        st = dataset_parse(&p->dataset, text, n, DATASET_ROWS_MAX, e);
    }
    free(text);
    return st == ST_OK ? ST_OK : error_wrap(e, "dataset %s", quote(path).text);
}

static enum status load(struct plan *p, const struct plan_options *o,
                        struct error *e)
{
    enum status st = ST_OK;

    p->trace_path = copied(o->trace);
    p->dataset_path = copied(o->dataset);
    if (o->trace != NULL) {
        st = load_trace(p, o->trace, e);
    }
    if (st == ST_OK && o->dataset != NULL) {
        st = load_dataset(p, o->dataset, e);
    }
    return st;
}

/* ---- options ---- */

static bool is_factor(double x)
{
    return isfinite(x) && x >= 0;
}

static bool has_rate(const struct plan_options *o)
{
    return o->rate != NULL || o->rate_fixed > 0;
}

static enum status check_load(const struct plan_options *o, struct error *e)
{
    const char *why = NULL;

    if (!has_rate(o) && o->concurrency == 0 && o->trace == NULL) {
        why = "no load is given; set --rate, --concurrency or --trace";
    } else if (has_rate(o) && o->concurrency > 0) {
        why = "--rate and --concurrency exclude each other; set one";
    } else if (o->bursts != NULL && !has_rate(o)) {
        why = "--bursts needs --rate";
    } else if (!is_factor(o->rate_fixed) || !is_factor(o->rate_factor)) {
        why = "the rate is no number";
    } else if (o->duration_us < 0) {
        why = "--duration is negative";
    } else if (o->n_shares > 0 && o->share >= o->n_shares) {
        why = "the share is past the number of shares";
    }
    return why == NULL ? ST_OK : error_set(e, ST_INVALID_ARGUMENT, "%s", why);
}

static enum status check_content(const struct plan_options *o, struct error *e)
{
    const char *why = NULL;

    if (o->trace != NULL && o->dataset != NULL) {
        why = "--trace and --dataset exclude each other; set one";
    } else if (o->trace != NULL &&
               (o->turns != NULL || o->branches != NULL || o->prefix != NULL)) {
        why = "a trace has its own lengths; omit --turns, --branches and "
              "--prefix";
    } else if (o->dataset != NULL &&
               (o->branches != NULL || o->prefix != NULL)) {
        why = "a dataset has its own prompts; omit --branches and --prefix";
    } else if (!is_factor(o->trace_speed) || !is_factor(o->trace_scale)) {
        why = "--trace-speed and --trace-scale must exceed 0";
    }
    return why == NULL ? ST_OK : error_set(e, ST_INVALID_ARGUMENT, "%s", why);
}

/* ---- start ---- */

static enum status start_rate(struct plan *p, const struct plan_options *o,
                              struct error *e)
{
    char fixed[40];
    const char *rate = o->rate;
    enum status st = arrivals_parse(
        &p->arrivals, o->arrivals != NULL ? o->arrivals : "poisson", e);

    if (o->rate_fixed > 0) {
        snprintf(fixed, sizeof fixed, "%.17g", o->rate_fixed);
        rate = fixed;
    }
    if (st == ST_OK) {
        st = pace_parse(&p->arrivals.pace, rate, o->bursts, e);
    }
    if (st == ST_OK && o->rate_factor > 0) {
        pace_scale(&p->arrivals.pace, o->rate_factor);
    }
    if (st == ST_OK) {
        arrivals_begin(&p->arrivals, draw_mix(o->seed, ARRIVALS_SEED));
    }
    return st;
}

static enum status start_trace(struct plan *p, const struct plan_options *o,
                               struct error *e)
{
    struct recipe *r = &p->recipe;
    double longest = p->trace->total_max;

    r->scale = o->trace_scale > 0 ? o->trace_scale : 1;
    p->asked_scale = r->scale;
    p->speed = o->trace_speed > 0 ? o->trace_speed : 1;
    if (o->rate_factor > 0) {
        p->speed *= o->rate_factor;
    }
    if (r->context > 0 && longest * r->scale > r->context) {
        r->scale = r->context / longest;
    }
    if (longest * r->scale > PLAN_TOKENS_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--trace-scale %g makes a request of %.0f tokens, at "
                         "most %d are allowed; lower it",
                         r->scale, longest * r->scale, PLAN_TOKENS_MAX);
    }
    return ST_OK;
}

/* A row whose ids exceed the context cannot be scaled down: it is left out. */
static enum status start_dataset(struct plan *p, struct error *e)
{
    const struct dataset *d = p->dataset;
    uint32_t context = p->recipe.context;

    p->fits = memory_must(malloc(d->n_rows * sizeof *p->fits));
    for (size_t i = 0; i < d->n_rows; i++) {
        size_t n_ids = d->entries[d->rows[i].first].n_ids;

        if (n_ids > PLAN_TOKENS_MAX || (context > 0 && n_ids >= context)) {
            continue;
        }
        p->fits[p->n_fits++] = (uint32_t)i;
    }
    if (p->n_fits == 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "no row of the dataset fits a context of %u tokens",
                         context);
    }
    return ST_OK;
}

static enum status start_content(struct plan *p, const struct plan_options *o,
                                 struct error *e)
{
    p->asked_scale = 1;
    if (p->trace != NULL) {
        return start_trace(p, o, e);
    }
    if (p->dataset != NULL) {
        return start_dataset(p, e);
    }
    recipe_fit(&p->recipe);
    return ST_OK;
}

static void start_shares(struct plan *p, const struct plan_options *o)
{
    p->concurrency = o->concurrency;
    p->closed = o->concurrency > 0;
    p->replay = p->trace != NULL && !p->closed && o->rate == NULL &&
                !(o->rate_fixed > 0);
    p->n_shares = o->n_shares > 0 ? o->n_shares : 1;
    p->share = o->share;
    p->n_variants = o->n_variants;
    p->n_requests = o->n_requests;
    p->duration_us = o->duration_us;
    p->number = p->closed ? p->share : 0;
}

static enum status start(struct plan *p, const struct plan_options *o,
                         struct error *e)
{
    enum status st = check_load(o, e);

    free(p->fits);
    p->fits = NULL;
    p->n_fits = 0;
    if (st == ST_OK) {
        st = check_content(o, e);
    }
    if (st == ST_OK) {
        st = recipe_parse(&p->recipe, o, e);
    }
    if (st == ST_OK) {
        start_shares(p, o);
        st = p->closed || p->replay ? ST_OK : start_rate(p, o, e);
    }
    return st == ST_OK ? start_content(p, o, e) : st;
}

static bool equal(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

enum status plan_restart(struct plan *p, const struct plan_options *o,
                         struct error *e)
{
    struct plan_options all = *o;
    enum status st = plan_profile_apply(&all, e);

    if (st == ST_OK && (!equal(all.trace, p->trace_path) ||
                        !equal(all.dataset, p->dataset_path))) {
        st = error_set(e, ST_INVALID_ARGUMENT,
                       "a restart cannot change the trace or dataset; make a "
                       "new plan");
    }
    if (st == ST_OK) {
        st = start(p, &all, e);
    }
    if (st == ST_OK) {
        plan_write_text(p, &all);
    }
    return st;
}

enum status plan_new(struct plan **out, const struct plan_options *o,
                     struct error *e)
{
    struct plan *p = memory_must(calloc(1, sizeof *p));
    enum status st;

    st = load(p, o, e);
    if (st == ST_OK) {
        st = plan_restart(p, o, e);
    }
    if (st != ST_OK) {
        plan_free(&p);
    }
    *out = p;
    return st;
}

void plan_free(struct plan **p)
{
    if (*p == NULL) {
        return;
    }
    trace_free(&(*p)->trace);
    dataset_free(&(*p)->dataset);
    free((*p)->trace_path);
    free((*p)->dataset_path);
    free((*p)->fits);
    free(*p);
    *p = NULL;
}

/* ---- sessions ---- */

static bool replay_time(const struct plan *p, int64_t *us)
{
    double at;

    if (p->number >= p->trace->n_rows) {
        return false;
    }
    at = (double)p->trace->rows[p->number].at_us / p->speed;
    if (at > (double)PACE_END_US) {
        return false;
    }
    *us = llround(at);
    return true;
}

/* Moves to the next number of the share and sets its time.  Other shares'
 * numbers cost one arrival each. */
static bool next_time(struct plan *p, uint64_t *number, int64_t *us)
{
    bool mine = false;

    *us = PLAN_CLOSED;
    while (!mine) {
        if (p->n_requests > 0 && p->number >= p->n_requests) {
            return false;
        }
        *number = p->number;
        mine = p->number % p->n_shares == p->share;
        if (!p->closed && !(p->replay ? replay_time(p, us)
                                      : arrivals_next(&p->arrivals, us))) {
            return false;
        }
        if (!p->closed && p->duration_us > 0 && *us >= p->duration_us) {
            return false;
        }
        p->number += p->closed ? p->n_shares : 1;
    }
    return true;
}

static void fill(const struct plan *p, struct plan_session *s)
{
    const struct recipe *r = &p->recipe;

    if (p->trace != NULL) {
        sessions_replay(r, p->trace,
                        &p->trace->rows[s->content % p->trace->n_rows], s);
    } else if (p->dataset != NULL) {
        size_t row = p->fits[s->content % p->n_fits];

        sessions_read(r, p->dataset, &p->dataset->rows[row], s);
    } else {
        sessions_draw(r, s);
    }
}

bool plan_next(struct plan *p, struct plan_session *s)
{
    uint64_t number;
    int64_t due_us;

    if (!next_time(p, &number, &due_us)) {
        return false;
    }
    s->number = number;
    s->due_us = due_us;
    s->content = p->n_variants > 0 ? s->number % p->n_variants : s->number;
    s->think_us = p->closed && s->number >= p->concurrency
                      ? sessions_think(&p->recipe, s->number)
                      : 0;
    fill(p, s);
    return true;
}

bool plan_is_closed(const struct plan *p, uint32_t *n_slots)
{
    *n_slots = p->concurrency / p->n_shares +
               (p->share < p->concurrency % p->n_shares ? 1 : 0);
    return p->closed;
}
