#include "client/load/drive/generator.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/load/drive/generator_parts.h"
#include "common/base/memory.h"
#include "common/base/minmax.h"

/* Few, because now_us is the time of the whole tick. */
#define STARTS_PER_TICK 64
#define READS_PER_TICK  32
#define TOKEN_US        0.05 /* to prepare a token, before any was measured */

/* ---- samples ---- */

static void report(struct generator *g, const struct flight *f)
{
    g->o.on_sample(g->o.arg, &f->sample, f->gaps);
}

/* cause: the outcome of the turn that stands in the way. */
static void report_unsent(struct generator *g, const struct tree *s,
                          uint32_t turn, int64_t due_us, enum outcome cause)
{
    bool injected = cause == OUTCOME_CANCELLED || cause == OUTCOME_DISCONNECTED;
    bool skipped = g->stopped || injected;
    struct call_end end = {
        .outcome = skipped ? OUTCOME_SKIPPED : OUTCOME_UNSENT,
        .code = skipped ? ST_CANCELLED : ST_FAILED_PRECONDITION,
        .why = g->stopped ? "the run was stopped"
               : injected
                   ? "an earlier turn of the session was cut by injection"
                   : "an earlier turn of the session did not end OK",
        .queue_us = SAMPLE_NEVER,
    };

    ahead_sample(g, &g->unsent, s, turn, due_us);
    flight_end(&g->unsent, SAMPLE_NEVER, &end);
    report(g, &g->unsent);
}

/* ---- the ends of turns and sessions ---- */

static void end_session(struct generator *g, struct tree *s, int64_t at_us)
{
    ahead_drop_session(g, s);
    if (g->ahead.closed && !g->stopped) {
        ahead_refill(g, at_us);
    }
}

static void plan_children(struct generator *g, struct tree *s, uint32_t turn,
                          int64_t end_us)
{
    for (uint32_t i = turn + 1; i < s->n_turns; i++) {
        if (s->turns[i].parent == (int32_t)turn) {
            ahead_plan(g, s, i, end_us + s->turns[i].think_us);
        }
    }
}

static void unsend_below(struct generator *g, struct tree *s, uint32_t turn,
                         enum outcome cause, int64_t end_us)
{
    uint64_t below = tree_below(s, turn);
    int64_t when_us[PLAN_TURNS_MAX];

    when_us[turn] = end_us;
    for (uint32_t i = turn + 1; i < s->n_turns; i++) {
        if ((below >> i & 1) != 0) {
            when_us[i] = when_us[s->turns[i].parent] + s->turns[i].think_us;
            report_unsent(g, s, i, when_us[i], cause);
            s->n_left--;
        }
    }
}

/* Goes on with the session of a turn that has its sample. */
static void end_turn(struct generator *g, struct tree *s, uint32_t turn,
                     enum outcome outcome, int64_t at_us)
{
    if (outcome == OUTCOME_OK && !g->stopped) {
        plan_children(g, s, turn, at_us);
    } else {
        unsend_below(g, s, turn, outcome, at_us);
    }
    s->n_left--;
    if (s->n_left == 0) {
        end_session(g, s, at_us);
    }
}

static void begin_session(struct generator *g, struct tree *s)
{
    if (!s->begun) {
        s->begun = true;
        g->ahead.n_coming--;
    }
}

static void learn(struct generator *g, const struct request *r)
{
    const struct sample *s = &r->flight.sample;

    if (s->outcome == OUTCOME_OK && s->sent_us != SAMPLE_NEVER) {
        inject_learn(&g->inject, r->session->turns[r->turn].max_tokens,
                     s->end_us - s->sent_us, s->n_events);
    }
}

/* Counts the tokens of an output that the server did not count. */
static void count_tokens(struct generator *g, struct request *r,
                         struct call_end *end)
{
    const struct flight *f = &r->flight;

    if (end->chunks && f->n_output > 0 && f->n_output < FLIGHT_OUTPUT_MAX) {
        end->n_output = prompt_count(g->o.prompts, f->output, f->n_output);
    }
}

/* Makes the sample of a request.  The request stays with the caller. */
static void end_request(struct generator *g, struct request *r, int64_t at_us,
                        const struct call_end *end)
{
    struct tree *s = r->session;
    struct call_end counted = *end;

    count_tokens(g, r, &counted);
    flight_end(&r->flight, at_us, &counted);
    learn(g, r);
    report(g, &r->flight);
    r->session = NULL;
    end_turn(g, s, r->turn, end->outcome, at_us);
}

/* ---- events of calls ---- */

static void limit(struct generator *g, struct request *r)
{
    timer_set(&g->limits, &r->timer, min_i64(r->timeout_us, r->cut_us));
}

static bool cuts(const struct request *r)
{
    return r->kind == INJECT_CANCEL || r->kind == INJECT_DISCONNECT;
}

static void on_sent(void *arg, int64_t now_us)
{
    struct request *r = arg;
    struct generator *g = r->generator;
    int64_t at_us = now_us - g->start_us, lag_us;

    if (r->state == REQUEST_LOST) {
        return;
    }
    lag_us = at_us - r->flight.sample.due_us;
    r->flight.sample.sent_us = at_us;
    g->pulse.n_sent++;
    if (lag_us > g->pulse.lag_max_us) {
        g->pulse.lag_max_us = lag_us;
    }
    if (r->state != REQUEST_OPEN) {
        return;
    }
    r->timeout_us = g->o.timeout_us > 0 ? at_us + g->o.timeout_us : INT64_MAX;
    if (cuts(r) && r->moment.after_events == 0) {
        r->cut_us = at_us;
    } else if (cuts(r) && r->moment.after_us != INT64_MAX) {
        r->cut_us = at_us + r->moment.after_us;
    }
    limit(g, r);
}

static void on_output(void *arg, int64_t now_us, uint32_t n,
                      const uint32_t *ids, size_t n_ids, const char *text,
                      size_t n_text)
{
    struct request *r = arg;
    struct generator *g = r->generator;

    if (r->state == REQUEST_LOST) {
        return;
    }
    flight_output(&r->flight, now_us - g->start_us, n);
    flight_hash(&r->flight, ids, n_ids, text, n_text);
    if (n_text > 0 && prompt_counts(g->o.prompts)) {
        flight_keep(&r->flight, text, n_text);
    }
    g->pulse.n_tokens += n;
    if (r->has_children) {
        tree_answer(r->session, r->turn, ids, n_ids, text, n_text);
    }
    /* Not from here: the target is in the middle of this call. */
    if (cuts(r) && r->state == REQUEST_OPEN &&
        r->flight.sample.n_events == r->moment.after_events) {
        r->cut_us = now_us - g->start_us;
        limit(g, r);
    }
}

static void on_end(void *arg, int64_t now_us, const struct call_end *end)
{
    struct request *r = arg;
    struct generator *g = r->generator;

    list_remove(&r->link);
    if (r->state != REQUEST_LOST) {
        timer_clear(&g->limits, &r->timer);
        g->n_open--;
        end_request(g, r, now_us - g->start_us, end);
    }
    ahead_drop_request(g, r);
}

const struct call_ops generator_call_ops = {on_sent, on_output, on_end};

/* ---- giving up ---- */

/* on_end() may run before the target returns. */
static void give_up(struct generator *g, struct request *r, enum give_up how,
                    int64_t now_us)
{
    r->state = REQUEST_GIVEN_UP;
    r->how = how;
    timer_set(&g->limits, &r->timer, now_us + GENERATOR_GIVE_UP_US);
    g->o.ops->give_up(g->o.target, r->call, how, now_us + g->start_us);
}

/* Ends a request whose target does not, so that every run ends. */
static void lose(struct generator *g, struct request *r, int64_t now_us)
{
    struct call_end end = {
        .outcome = r->how == GIVE_UP_TIMEOUT      ? OUTCOME_TIMEOUT
                   : r->how == GIVE_UP_DISCONNECT ? OUTCOME_DISCONNECTED
                                                  : OUTCOME_CANCELLED,
        .code = ST_DEADLINE_EXCEEDED,
        .why = "no answer to the cancel within 10 s",
        .queue_us = SAMPLE_NEVER,
        .leaked = r->how == GIVE_UP_CANCEL,
    };

    list_remove(&r->link);
    list_append(&g->lost, &r->link);
    r->state = REQUEST_LOST;
    g->n_open--;
    end_request(g, r, now_us, &end);
}

static void give_up_all(struct generator *g, enum give_up how, int64_t now_us)
{
    struct list all, *link;

    list_init(&all);
    while ((link = list_take(&g->open)) != NULL) {
        list_append(&all, link);
    }
    /* An end takes its request out of either list. */
    while ((link = list_take(&all)) != NULL) {
        struct request *r = LIST_OF(link, struct request, link);

        list_append(&g->open, link);
        if (r->state == REQUEST_OPEN) {
            give_up(g, r, how, now_us);
        }
    }
}

static void expire(struct generator *g, int64_t now_us)
{
    struct timer *t;

    while ((t = timers_pop(&g->limits, now_us)) != NULL) {
        struct request *r = LIST_OF(t, struct request, timer);

        if (r->state == REQUEST_GIVEN_UP) {
            lose(g, r, now_us);
        } else if (r->cut_us <= now_us) {
            give_up(g, r,
                    r->kind == INJECT_CANCEL ? GIVE_UP_CANCEL
                                             : GIVE_UP_DISCONNECT,
                    now_us);
        } else {
            give_up(g, r, GIVE_UP_TIMEOUT, now_us);
        }
    }
}

/* Returns when open requests are given up, INT64_MAX if not yet known. */
static int64_t grace_due(const struct generator *g)
{
    bool all_started = g->ahead.plan_ended && g->ahead.n_coming == 0 &&
                       g->planned.n == 0 && g->waiting.n == 0;

    if (g->o.grace_us == 0 || g->n_open == 0 || g->graced || !all_started) {
        return INT64_MAX;
    }
    return (g->stopped && g->stopped_us > g->last_start_us ? g->stopped_us
                                                           : g->last_start_us) +
           g->o.grace_us;
}

/* ---- starting ---- */

static void end_broken(struct generator *g, struct request *r, int64_t now_us)
{
    struct call_end end = {
        .outcome = OUTCOME_FAILED,
        .code = r->flight.sample.code,
        .queue_us = SAMPLE_NEVER,
    };

    end_request(g, r, now_us, &end);
    ahead_drop_request(g, r);
}

static void start(struct generator *g, struct request *r, int64_t now_us)
{
    struct sample *s = &r->flight.sample;

    ahead_leave(g, r);
    begin_session(g, r->session);
    if (r->state == REQUEST_BROKEN) {
        end_broken(g, r, now_us);
        return;
    }
    r->state = REQUEST_OPEN;
    list_append(&g->open, &r->link);
    g->n_open++;
    s->n_in_flight = g->n_open;
    s->flags |= r->kind == INJECT_SLOW ? SAMPLE_SLOW_READER : 0;
    if (cuts(r)) {
        r->moment =
            inject_moment_of(&g->inject, s->session * PLAN_TURNS_MAX + s->turn,
                             r->session->turns[r->turn].max_tokens);
    }
    r->timeout_us = g->o.timeout_us > 0 ? now_us + g->o.timeout_us : INT64_MAX;
    r->cut_us = INT64_MAX;
    limit(g, r);
    g->last_start_us = now_us;
    g->graced = false;
    g->o.ops->start(g->o.target, r->call, now_us + g->start_us);
}

static bool has_room(const struct generator *g)
{
    return g->o.in_flight_max == 0 || g->n_open < g->o.in_flight_max;
}

/* Starts what is due.  Returns whether more can start at once. */
static bool start_due(struct generator *g, int64_t now_us)
{
    struct timer *t;

    while ((t = timers_pop(&g->planned, now_us)) != NULL) {
        g->pulse.n_due++;
        timer_set(&g->waiting, t, t->due_us);
    }
    for (int i = 0; i < STARTS_PER_TICK && has_room(g); i++) {
        struct request *r;

        t = timers_pop(&g->waiting, now_us);
        if (t == NULL) {
            return false;
        }
        r = LIST_OF(t, struct request, timer);
        if (r->state == REQUEST_PLANNED) {
            /* It starts in the next tick: its lag has the time of this. */
            ahead_prepare_now(g, r);
            timer_set(&g->waiting, t, t->due_us);
            return true;
        }
        start(g, r, now_us);
    }
    return has_room(g) && g->waiting.n > 0;
}

/* ---- ticks ---- */

static void pulse(struct generator *g, int64_t now_us)
{
    g->pulse.at_us = now_us;
    g->pulse.process = g->o.process;
    g->pulse.n_in_flight = g->n_open;
    g->o.on_pulse(g->o.arg, &g->pulse);
    g->pulse.lag_max_us = 0;
    g->pulse.turn_max_us = 0;
    g->next_pulse_us =
        now_us - now_us % GENERATOR_PULSE_US + GENERATOR_PULSE_US;
}

static int64_t next_tick(const struct generator *g)
{
    int64_t due_us = min_i64(timers_due(&g->planned), timers_due(&g->limits));

    return min_i64(min_i64(due_us, grace_due(g)), g->next_pulse_us);
}

/* Ends what time ends: limits, the grace, a closed loop. */
static void end_due(struct generator *g, int64_t now_us)
{
    expire(g, now_us);
    if (grace_due(g) <= now_us) {
        g->graced = true;
        give_up_all(g, GIVE_UP_TIMEOUT, now_us);
    }
    if (g->ahead.closed && g->o.duration_us > 0 && now_us >= g->o.duration_us) {
        ahead_end(g);
    }
    if (now_us >= g->next_pulse_us) {
        pulse(g, now_us);
    }
}

int64_t generator_tick(struct generator *g, int64_t monotonic_us)
{
    int64_t now_us = monotonic_us - g->start_us;
    bool more;

    assert(g->begun);
    if (!g->ahead.closed) {
        ahead_read(g, now_us, GENERATOR_AHEAD_MAX);
    }
    more = start_due(g, now_us);
    end_due(g, now_us);
    if (!more) {
        more = ahead_read(g, now_us + GENERATOR_AHEAD_US, READS_PER_TICK);
        more |= ahead_prepare(g, now_us);
    }
    if (g->ahead.plan_ended && g->ahead.n_live == 0) {
        pulse(g, now_us);
        return GENERATOR_DONE;
    }
    return more ? monotonic_us : next_tick(g) + g->start_us;
}

/* ---- beginning and end ---- */

struct generator *generator_new(const struct generator_options *o)
{
    struct generator *g = memory_must(calloc(1, sizeof *g));

    g->o = *o;
    g->ahead.closed = plan_is_closed(o->plan, &g->ahead.n_slots);
    g->ahead.n_unused = g->ahead.n_slots;
    g->prepared.token_us = TOKEN_US;
    inject_init(&g->inject, o->cancel, o->disconnect, o->slow, o->seed);
    timers_init(&g->planned);
    timers_init(&g->waiting);
    timers_init(&g->prepared.due);
    timers_init(&g->limits);
    list_init(&g->ahead.spare);
    list_init(&g->open);
    list_init(&g->lost);
    list_init(&g->ahead.live);
    list_init(&g->sessions);
    list_init(&g->requests);
    return g;
}

void generator_begin(struct generator *g, int64_t start_us)
{
    g->begun = true;
    g->start_us = start_us;
}

bool generator_prepare(struct generator *g)
{
    bool more = ahead_read(g, GENERATOR_AHEAD_US, READS_PER_TICK);

    return ahead_prepare(g, INT64_MIN) || more;
}

/* Ends a request that has not started: silently if its session has no part in
 * the run. */
static void stop_request(struct generator *g, struct request *r, int64_t now_us)
{
    struct tree *s = r->session;
    int64_t due_us = r->flight.sample.due_us;
    uint32_t turn = r->turn;

    ahead_forget(g, r);
    if (due_us <= now_us || s->begun) {
        begin_session(g, s);
        report_unsent(g, s, turn, due_us, OUTCOME_SKIPPED);
        end_turn(g, s, turn, OUTCOME_SKIPPED, due_us);
        return;
    }
    s->n_roots--;
    if (s->n_roots == 0) {
        g->ahead.n_coming--;
        ahead_drop_session(g, s);
    }
}

static void stop_requests(struct generator *g, struct timers *from,
                          int64_t now_us)
{
    struct timer *t;

    while ((t = timers_pop(from, INT64_MAX - 1)) != NULL) {
        stop_request(g, LIST_OF(t, struct request, timer), now_us);
    }
}

void generator_stop(struct generator *g, int64_t monotonic_us, bool at_once)
{
    int64_t now_us = g->begun ? monotonic_us - g->start_us : INT64_MIN;

    if (!g->stopped) {
        g->stopped = true;
        g->stopped_us = now_us;
        ahead_end(g);
        stop_requests(g, &g->waiting, now_us);
        stop_requests(g, &g->planned, now_us);
    }
    if (at_once) {
        give_up_all(g, GIVE_UP_CANCEL, now_us);
    }
}

void generator_turned(struct generator *g, int64_t took_us)
{
    if (g->prepared.turn_tokens > 0) {
        double us = (double)took_us / (double)g->prepared.turn_tokens;

        g->prepared.token_us += (us - g->prepared.token_us) / 8;
        g->prepared.turn_tokens = 0;
    }
    if (g->begun && took_us > g->pulse.turn_max_us) {
        g->pulse.turn_max_us = took_us;
    }
}

void generator_memory(const struct generator *g, size_t *now, size_t *peak)
{
    *now = g->prepared.bytes;
    *peak = g->prepared.peak;
}

void generator_free(struct generator **self)
{
    struct generator *g = *self;

    if (g == NULL) {
        return;
    }
    ahead_free(g);
    timers_fini(&g->limits);
    flight_fini(&g->unsent);
    free(g);
    *self = NULL;
}
