#include "client/load/load_run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "client/load/drive/cluster.h"
#include "client/load/drive/hooks.h"
#include "client/load/load_samples.h"
#include "client/load/report/report.h"
#include "common/base/monotonic.h"

#define TURN_MS     50
#define PROGRESS_US 200000
#define SIGNAL_ITEM 0
#define NO_AUDIT    "no audit: the key needs the role admin"
#define HASTY_US    5000000 /* a stopped run waits so long for open requests */

/* State of the run in progress. */
struct running {
    struct load_job *job;
    const struct load_kind *kind;
    struct run *run;
    struct crew *crew;
    struct cluster *cluster;
    struct hooks *hooks;
    struct progress *progress;
    int64_t shown_us;
    int64_t stopped_us; /* 0: not stopped */
    bool hurried;
};

static int64_t since_start(const struct running *g)
{
    return monotonic_us() - crew_began_us(g->crew);
}

/* ---- what the generators report ---- */

static void on_sample(void *arg, const struct sample *s, const uint32_t *gaps)
{
    struct running *g = arg;
    struct load_job *j = g->job;

    if (g->kind->learn) {
        (void)outputs_learn(j->outputs, s);
    } else if (j->outputs) {
        enum outputs_verdict v = outputs_compare(j->outputs, s);

        g->run->tally->counts.n_checked +=
            v == OUTPUTS_EQUAL || v == OUTPUTS_DIFFERS;
        g->run->tally->counts.n_differ += v == OUTPUTS_DIFFERS;
    }
    tally_sample(g->run->tally, s, gaps);
    if (j->samples && !g->kind->learn) {
        load_sample_write(j->samples, s, gaps);
    }
}

static void on_pulse(void *arg, const struct pulse *p)
{
    struct running *g = arg;

    tally_pulse(g->run->tally, p);
}

/* ---- the parts beside them ---- */

static void on_event(void *arg, const struct load_event *event)
{
    struct running *g = arg;

    run_event(g->run, event);
    if (g->progress && event->exit_code < 0) { /* it starts */
        progress_event(g->progress, event->text);
    }
}

/* A key with the role client alone suffices for a load. */
static void note_denied(struct running *g)
{
    struct load_event event = {.exit_code = -1};

    snprintf(g->run->audit, sizeof g->run->audit, "%s", NO_AUDIT);
    snprintf(event.text, sizeof event.text, "no figures of the router, and %s",
             NO_AUDIT);
    on_event(g, &event);
    cluster_close(&g->cluster);
}

static void look_at_cluster(struct running *g)
{
    struct cluster_point p;

    if (g->cluster && cluster_turn(g->cluster, 0, &p)) {
        p.at_us -= crew_began_us(g->crew);
        run_point(g->run, &p);
        if (g->progress) {
            progress_cluster(g->progress, &p);
        }
    }
    if (g->cluster && cluster_denied(g->cluster)) {
        note_denied(g);
    }
}

static void take_signal(struct running *g)
{
    struct signalfd_siginfo info;

    if (read(g->job->signals, &info, sizeof info) != sizeof info) {
        return;
    }
    g->job->interrupted = true;
    g->run->stopped = true;
    if (g->stopped_us == 0) {
        g->stopped_us = monotonic_us();
        crew_stop(g->crew, false);
    } else {
        g->hurried = true;
        crew_stop(g->crew, true);
    }
}

static void show(struct running *g)
{
    const struct plan_options *p = &g->job->setup->plan;
    int64_t now = monotonic_us();

    if (g->stopped_us && !g->hurried && now - g->stopped_us > HASTY_US) {
        g->hurried = true;
        crew_stop(g->crew, true);
    }
    if (g->progress && now - g->shown_us >= PROGRESS_US) {
        g->shown_us = now;
        progress_show(g->progress, g->run->tally, since_start(g),
                      p->duration_us);
    }
}

static enum status run_crew(struct running *g, struct error *e)
{
    struct pollfd items[1 + CREW_MAX];
    enum status st = ST_OK;
    bool runs = true;

    while (runs) {
        int n = crew_items(g->crew, items + 1);

        items[SIGNAL_ITEM] = (struct pollfd){g->job->signals, POLLIN, 0};
        (void)poll(items, (nfds_t)n + 1, TURN_MS);
        if (items[SIGNAL_ITEM].revents) {
            take_signal(g);
        }
        runs = crew_turn(g->crew, on_sample, on_pulse, g, &st, e);
        if (g->hooks) {
            (void)hooks_turn(g->hooks, since_start(g));
        }
        look_at_cluster(g);
        show(g);
    }
    return st;
}

static void take_drafts(struct run *r, struct draft_counts c)
{
    r->draft_rows = c.rows;
    r->drafts_verified = c.verified;
    r->drafts_accepted = c.accepted;
}

static void audit(struct running *g)
{
    struct run *r = g->run;

    if (!g->cluster || g->kind->learn) {
        return;
    }
    r->audit_ok =
        cluster_audit(g->cluster, LOAD_AUDIT_US, r->audit, sizeof r->audit);
    r->audited = !cluster_denied(g->cluster);
    if (r->audited) {
        take_drafts(r, cluster_drafts(g->cluster));
    } else {
        note_denied(g);
    }
}

/* ---- beginning and end ---- */

static unsigned terminal_width(void)
{
    struct winsize w;

    if (!isatty(STDERR_FILENO) || ioctl(STDERR_FILENO, TIOCGWINSZ, &w) != 0) {
        return 0;
    }
    return w.ws_col ? w.ws_col : 80;
}

static char *time_text(void)
{
    char text[32];
    time_t t = time(NULL);
    struct tm tm;

    gmtime_r(&t, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    return strdup(text);
}

/* Sets the options of this run's plan. */
static void plan_of(const struct load_setup *s, const struct load_kind *k,
                    struct plan_options *p)
{
    *p = s->plan;
    if (k->learn) {
        p->rate = p->bursts = NULL;
        p->trace = NULL;
        p->concurrency = 1;
        p->n_requests = p->n_variants;
        p->duration_us = 0;
        p->turn_think = "0s";
    } else if (k->load > 0 && k->closed) {
        p->concurrency = (uint32_t)k->load;
        p->rate = NULL;
    } else if (k->load > 0) {
        p->concurrency = 0;
        p->rate_fixed = k->load;
    }
}

static enum status start(struct running *g, const struct plan_options *p,
                         struct error *e)
{
    const struct load_setup *s = g->job->setup;
    struct crew_options c = {
        .plan = g->job->plan,
        .plan_options = p,
        .prompt_options = &s->prompt,
        .target_options = &s->target,
        .generator = s->generator,
        .n_processes = g->kind->learn ? 1 : s->o.processes,
    };

    if (g->kind->learn) {
        c.generator.cancel = c.generator.disconnect = c.generator.slow = 0;
        c.generator.warm_us = 0;
    }
    return crew_start(&g->crew, &c, e);
}

/* Opens what must not exist while crew_start() forks. */
static void start_rest(struct running *g)
{
    const struct load_setup *s = g->job->setup;
    const struct cluster_router router = {.endpoint = s->cluster,
                                          .key = s->target.curve_key,
                                          .trust = s->target.trust};
    struct load_event event = {.exit_code = -1};
    struct error e;

    if (s->cluster && !g->kind->learn &&
        cluster_open(&g->cluster, &router, &e) != ST_OK) {
        snprintf(event.text, sizeof event.text,
                 "no figures of the router: %.90s", e.text);
        on_event(g, &event);
    }
    if (s->o.at.n > 0 && !g->kind->learn) {
        g->hooks = hooks_new(s->o.at.item, s->o.at.n, on_event, g);
    }
    if (!s->o.quiet) {
        g->progress = progress_new(stderr, terminal_width(), g->kind->title);
    }
}

static void end(struct running *g)
{
    progress_free(&g->progress);
    hooks_free(&g->hooks);
    cluster_close(&g->cluster);
    crew_free(&g->crew);
}

enum status load_run_once(struct load_job *j, const struct load_kind *k,
                          struct run *r, struct error *e)
{
    struct running g = {.job = j, .kind = k, .run = r};
    const struct load_setup *s = j->setup;
    struct plan_options p;
    enum status st;

    plan_of(s, k, &p);
    r->load = k->load;
    r->closed = k->closed;
    r->tally = tally_new(&s->objectives);
    r->started = time_text();
    st = plan_restart(j->plan, &p, e);
    if (st == ST_OK) {
        r->plan = strdup(plan_text(j->plan));
        st = start(&g, &p, e);
    }
    if (st == ST_OK) {
        start_rest(&g);
        st = run_crew(&g, e);
        audit(&g);
    }
    end(&g);
    r->invalid = tally_invalid(r->tally, (int64_t)s->o.max_lag * 1000,
                               r->why_invalid, sizeof r->why_invalid);
    return st;
}
