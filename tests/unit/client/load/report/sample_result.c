#include "tests/unit/client/load/report/sample_result.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define S        1000000
#define CAPACITY 24.0 /* requests per second */
#define GAPS_MAX 2048
#define STALL_US (5 * S / 2)
#define NEVER    INT64_MAX

/* Properties of a made-up run. */
struct made {
    double load;
    int64_t length_us, stall_us; /* stall_us: its start, or NEVER */
    uint64_t random;
    struct sample *samples; /* [n] */
    uint32_t (*gaps)[GAPS_MAX];
    uint32_t n;
};

/* ---- random numbers ---- */

static double uniform(struct made *m)
{
    m->random ^= m->random << 13; /* xorshift64 */
    m->random ^= m->random >> 7;
    m->random ^= m->random << 17;
    return ((double)(m->random >> 11) + 0.5) / 9007199254740992.0;
}

static double lognormal(struct made *m, double median, double sigma)
{
    double r = sqrt(-2 * log(uniform(m)));

    return median * exp(sigma * r * cos(6.283185307179586 * uniform(m)));
}

/* ---- requests ---- */

static double wait_of(struct made *m, int64_t due)
{
    double use = m->load / CAPACITY, wait;

    wait = use < 1 ? lognormal(m, 8e3 * use / (1.02 - use), 0.9)
                   : lognormal(m, 4e5 + 0.5 * (use - 1) * (double)due, 0.5);
    if (due > m->stall_us && due < m->stall_us + 6 * S) {
        wait += 0.1 * (double)(m->stall_us + 6 * S - due);
    }
    return wait;
}

/* Moves a time in the stall behind its end. */
static int64_t after_stall(const struct made *m, int64_t from, int64_t to)
{
    int64_t end = m->stall_us == NEVER ? 0 : m->stall_us + STALL_US;

    if (from >= end || to < m->stall_us) {
        return to;
    }
    return from < m->stall_us ? to + STALL_US : end + to - from;
}

static void tokens(struct made *m, struct sample *s, uint32_t *gaps)
{
    double use = fmin(1, m->load / CAPACITY);
    double pace = 11e3 + 900 * m->load * use;
    int64_t at = s->first_us, next;

    for (uint32_t i = 0; i + 1 < s->n_output; i++) {
        double gap = lognormal(m, pace, 0.16);

        gap += uniform(m) < 0.01 ? lognormal(m, 35e3, 0.5) : 0;
        next = after_stall(m, at, at + (int64_t)gap);
        gaps[i] = (uint32_t)(next - at);
        if (gaps[i] > STALL_US) {
            s->flags |= SAMPLE_RESUMED;
            s->gap_us = gaps[i];
            s->n_moves = s->n_resumes = 1;
        }
        at = next;
    }
    s->n_gaps = s->n_output - 1;
    s->n_events = s->n_output;
    s->last_us = at;
    s->end_us = at + 800;
}

static void refuse(struct sample *s)
{
    s->outcome = OUTCOME_REFUSED;
    s->code = 8;
    s->first_us = s->last_us = SAMPLE_NEVER;
    s->end_us = s->sent_us + 2000;
    s->n_output = 0;
    snprintf(s->why, sizeof s->why, "48 requests wait, at most 48");
}

/* Ends a request in the middle. */
static void cancel(struct made *m, struct sample *s)
{
    s->outcome = OUTCOME_CANCELLED;
    s->code = 1;
    s->flags |= SAMPLE_RECEIPT;
    s->n_gaps = (uint32_t)(uniform(m) * s->n_gaps);
    s->n_output = s->n_events = s->n_gaps + 1;
    s->end_us = s->last_us = s->first_us + (int64_t)s->n_gaps * 20000;
    snprintf(s->why, sizeof s->why, "cancelled by injection");
}

static void request(struct made *m, int64_t due, struct sample *s,
                    uint32_t *gaps)
{
    double wait = wait_of(m, due), prefill;

    memset(s, 0, sizeof *s);
    s->due_us = due;
    s->sent_us = due + (int64_t)lognormal(m, 60, 0.7);
    s->n_prompt = (uint32_t)lognormal(m, 900, 0.5) + 1;
    s->n_cached = s->n_prompt / 5;
    s->n_output = (uint32_t)fmin(20 + lognormal(m, 90, 0.6), GAPS_MAX);
    s->queue_us = (int64_t)wait;
    s->output_hash = m->n;
    prefill = 30e3 + 45.0 * s->n_prompt + lognormal(m, 4e3, 0.6);
    s->first_us = after_stall(m, due, s->sent_us + (int64_t)(wait + prefill));
    tokens(m, s, gaps);
    if (m->load > CAPACITY && uniform(m) < 0.03) {
        refuse(s);
    } else if (uniform(m) < 0.012) {
        cancel(m, s);
    }
}

static void requests(struct made *m)
{
    uint32_t most = (uint32_t)(3 * m->load * (double)m->length_us / S) + 100;
    int64_t due = 0;

    m->samples = calloc(most, sizeof *m->samples);
    m->gaps = calloc(most, sizeof *m->gaps);
    assert(m->samples != NULL && m->gaps != NULL);
    for (m->n = 0;; m->n++) {
        due += (int64_t)(-log(uniform(m)) / m->load * S);
        if (due >= m->length_us || m->n == most) {
            break;
        }
        request(m, due, &m->samples[m->n], m->gaps[m->n]);
    }
}

/* ---- what was seen beside them ---- */

static uint32_t in_flight(const struct made *m, int64_t at)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < m->n; i++) {
        n += m->samples[i].sent_us <= at && m->samples[i].end_us > at;
    }
    return n;
}

static int64_t end_of(const struct made *m)
{
    int64_t end = 0;

    for (uint32_t i = 0; i < m->n; i++) {
        end = m->samples[i].end_us > end ? m->samples[i].end_us : end;
    }
    return end;
}

static void point(const struct made *m, int64_t at, struct run *r)
{
    uint32_t n = in_flight(m, at), workers = at > m->stall_us ? 1 : 2;
    uint64_t blocks = 4096u * workers, slots = 96u * workers;
    struct cluster_point p = {.at_us = at, .n_workers = workers};
    int64_t since = at - m->stall_us;

    p.n_waiting = since > 0 && since < 7 * S
                      ? (uint32_t)((7 * S - since) / 400000)
                      : n / 20;
    p.n_running = n - (n < p.n_waiting ? n : p.n_waiting);
    p.pages_total = blocks;
    p.pages_held = n * 34u < blocks / 2 ? n * 34u : blocks / 2;
    p.pages_granted = n * 7u;
    p.pages_cached = (uint64_t)at * 40 / S;
    if (p.pages_cached + p.pages_held + p.pages_granted > blocks) {
        p.pages_cached = blocks - p.pages_held - p.pages_granted;
    }
    p.pages_free = blocks - p.pages_held - p.pages_granted - p.pages_cached;
    p.slots_total = slots;
    p.slots_held = n < slots ? n : slots;
    p.slots_free = slots - p.slots_held;
    run_point(r, &p);
}

static int by_end(const void *a, const void *b)
{
    int64_t x = (*(const struct sample *const *)a)->end_us;
    int64_t y = (*(const struct sample *const *)b)->end_us;

    return (x > y) - (x < y);
}

static void tally_all(struct made *m, struct run *r)
{
    const struct sample **order = calloc(m->n, sizeof(struct sample *));
    int64_t end = end_of(m);

    assert(order != NULL);
    for (uint32_t i = 0; i < m->n; i++) {
        m->samples[i].n_in_flight = in_flight(m, m->samples[i].sent_us);
        order[i] = &m->samples[i];
    }
    qsort(order, m->n, sizeof *order, by_end);
    for (uint32_t i = 0; i < m->n; i++) {
        tally_sample(r->tally, order[i], m->gaps[order[i] - m->samples]);
    }
    for (int64_t at = 100000; at < end; at += 100000) {
        struct pulse p = {.at_us = at, .n_in_flight = in_flight(m, at)};

        p.lag_max_us = 200;
        p.turn_max_us = 150;
        tally_pulse(r->tally, &p);
    }
    for (int64_t at = 0; at < end; at += S / 2) {
        point(m, at, r);
    }
    free(order);
}

/* ---- results ---- */

static char *copy(const char *text)
{
    char *s = strdup(text);

    assert(s != NULL);
    return s;
}

static struct run *make(struct result *to, double load, int64_t length_us,
                        int64_t stall_us)
{
    struct made m = {.load = load, .length_us = length_us};
    struct run *r = result_add(to);
    char plan[200];

    m.stall_us = stall_us;
    m.random = 88172645463325252u + to->n_runs;
    requests(&m);
    r->load = load;
    snprintf(plan, sizeof plan,
             "poisson %.3g/s for %lld s, prompts lognormal:900,0.5, outputs "
             "lognormal:110,0.6, seed 7",
             load, (long long)(length_us / S));
    r->plan = copy(plan);
    r->started = copy("2026-11-22T23:14:07Z");
    r->tally = tally_new(&to->objectives);
    tally_all(&m, r);
    r->audited = r->audit_ok = true;
    snprintf(r->audit, sizeof r->audit,
             "every block and slot is accounted for, ended requests hold none");
    free(m.samples);
    free(m.gaps);
    return r;
}

static void init(struct result *out, const char *title, const char *command)
{
    memset(out, 0, sizeof *out);
    out->title = copy(title);
    out->target = copy("tcp://127.0.0.1:7071");
    out->model = copy("tiny-hybrid");
    out->command = copy(command);
    out->host = copy("AMD EPYC 9354, 2 cores, Linux 6.8.0");
    out->objectives.ttft_us = S / 2;
    out->objectives.e2e_us = 20 * S;
    out->objectives.attain = 0.99;
    out->lag_max_us = 10000;
}

static void event(struct run *r, int64_t at_us, const char *text, int code)
{
    struct load_event e = {.at_us = at_us, .exit_code = code};

    snprintf(e.text, sizeof e.text, "%s", text);
    run_event(r, &e);
}

void sample_result_kill(struct result *out)
{
    struct run *r;

    init(out, "Two workers, kill -9 of one at 30 s",
         "sluice-load --rate 16 --duration 60s --prompt lognormal:900,0.5 "
         "--output lognormal:110,0.6 --slo ttft=500ms --slo e2e=20s --cancel "
         "0.012 --check-outputs 64 --at '30s kill -9 41217' --html a.html");
    r = make(out, 16, 60 * S, 30 * S);
    event(r, 30 * S, "kill -9 41217", 0);
    event(r, 33 * S, "restart of the worker", -1);
    r->tally->counts.n_checked = r->tally->counts.n_outcomes[OUTCOME_OK];
}

static void take(struct result *out, struct run *r)
{
    search_take(&out->search, r->tally->counts.n_good, tally_wanted(r->tally),
                true);
}

void sample_result_search(struct result *out)
{
    static const enum run_role roles[] = {
        [SEARCH_BRACKET] = RUN_TRIAL,
        [SEARCH_BISECT] = RUN_TRIAL,
        [SEARCH_CONFIRM] = RUN_CONFIRM,
        [SEARCH_BEYOND] = RUN_BEYOND,
    };
    struct search_options o = {
        .first = 4, .tolerance = 0.05, .attain = 0.99, .repeats = 3};
    struct run *r;
    double load;

    init(out, "Largest rate on the quick-start cluster",
         "sluice-load --search rate --duration 20s --slo ttft=500ms --slo "
         "e2e=20s --html b.html");
    out->searched = true;
    search_init(&out->search, &o);
    while (search_next(&out->search, &load)) {
        r = make(out, load, 20 * S, NEVER);
        r->role = roles[out->search.kind];
        take(out, r);
    }
}

void sample_result_hostile(struct result *out)
{
    static const char evil[] = "</script><script>document.title='owned'"
                               "</script><!--<b>&amp; \x1b[2J\x01\xe2\x80\xa8"
                               "\xe2\x80\xa9 \" ' \\ @RESULT@ \xff";
    struct sample s = {.outcome = OUTCOME_FAILED, .code = 500};
    struct run *r;

    init(out, evil, evil);
    free(out->target);
    free(out->model);
    free(out->host);
    out->target = copy(evil);
    out->model = copy(evil);
    out->host = copy(evil);
    r = make(out, 30, 5 * S, NEVER);
    free(r->plan);
    r->plan = copy(evil);
    event(r, 2 * S, evil, 1);
    r->invalid = r->stopped = true;
    snprintf(r->why_invalid, sizeof r->why_invalid, "%s", evil);
    snprintf(r->audit, sizeof r->audit, "%s", evil);
    r->audit_ok = false;
    snprintf(s.why, sizeof s.why, "%s", evil);
    s.first_us = s.last_us = s.queue_us = SAMPLE_NEVER;
    s.end_us = S;
    tally_sample(r->tally, &s, NULL);
}

void sample_result_empty(struct result *out)
{
    struct run *r;

    init(out, "Nothing", "sluice-load");
    r = result_add(out);
    r->tally = tally_new(&out->objectives);
}
