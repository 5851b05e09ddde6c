#include "client/load/load_setup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/load/drive/hooks.h"
#include "client/load/drive/kind.h"
#include "common/base/option_env.h"
#include "common/base/option_value.h"
#include "proto/limits.h"

#define DURATION_US     30000000
#define GRACE_US        60000000 /* after the last start, without --timeout */
#define MEMORY_MAX      ((size_t)256 << 20)
#define CONNECTIONS     4 /* to a router */
#define REPEATS         3 /* of a trial of a search */
#define SEARCH_MIN_RATE 0.01
#define SEARCH_MAX      1e6

/* Completes the plan from the profile; plan_new() has defaults for the rest. */
static enum status take_profile(struct load_setup *s, struct error *e)
{
    static const char trace[] = "trace:";
    struct plan_options *p = &s->plan;
    const char *name = s->o.profile;

    if (name && strncmp(name, trace, sizeof trace - 1) == 0) {
        p->trace = name + sizeof trace - 1;
    } else {
        enum status st;

        p->profile = name;
        st = plan_profile_apply(p, e);
        if (st != ST_OK) {
            return st;
        }
    }
    if (!p->rate && !p->concurrency && !p->trace) {
        p->concurrency = 1;
    }
    return ST_OK;
}

static enum status take_sweep(struct load_setup *s, struct error *e)
{
    const char *at = s->o.sweep;
    char *end;

    while (at && *at) {
        double load = strtod(at, &end);

        if (end == at || !(load > 0) || load > SEARCH_MAX ||
            (*end != ',' && *end != '\0')) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "--sweep %s: loads such as 1,2,4,8 are needed",
                             s->o.sweep);
        }
        if (s->n_sweep == LOAD_SWEEP_MAX) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "--sweep has more than %d loads", LOAD_SWEEP_MAX);
        }
        s->sweep[s->n_sweep++] = load;
        at = *end ? end + 1 : end;
    }
    return ST_OK;
}

static enum status take_series(struct load_setup *s, struct error *e)
{
    const char *what = s->o.search;

    if (what && strcmp(what, "rate") == 0) {
        s->series = SERIES_SEARCH_RATE;
    } else if (what && strcmp(what, "concurrency") == 0) {
        s->series = SERIES_SEARCH_CONCURRENCY;
    } else if (what) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--search %s: rate or concurrency is needed", what);
    } else if (s->o.sweep) {
        s->series = SERIES_SWEEP;
    }
    if (what && s->o.sweep) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--search and --sweep exclude one another");
    }
    if (s->series != SERIES_PLAIN && s->plan.trace) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "a trace has its own rate; --trace-speed changes it");
    }
    if (what && !objectives_any(&s->objectives)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--search needs objectives, such as --slo ttft=500ms");
    }
    s->n_repeats = s->o.repeats ? s->o.repeats : what ? REPEATS : 1;
    return take_sweep(s, e);
}

static enum status take_objectives(struct load_setup *s, struct error *e)
{
    enum status st = ST_OK;

    s->objectives.attain = s->o.attain;
    for (unsigned i = 0; i < s->o.slo.n && st == ST_OK; i++) {
        st = objectives_parse(&s->objectives, s->o.slo.item[i], e);
    }
    return st;
}

static void take_plan(struct load_setup *s)
{
    const struct load_options *o = &s->o;

    s->plan = (struct plan_options){
        .rate = o->rate,
        .arrivals = o->arrivals,
        .bursts = o->bursts,
        .concurrency = o->concurrency,
        .think = o->think,
        .prompt = o->prompt,
        .output = o->output,
        .prefix = o->prefix,
        .turns = o->turns,
        .turn_prompt = o->turn_prompt,
        .turn_think = o->turn_think,
        .branches = o->branches,
        .trace = o->trace,
        .trace_speed = o->trace_speed,
        .trace_scale = o->trace_scale,
        .dataset = o->dataset,
        .seed = o->seed,
        .n_requests = o->requests,
        .duration_us = (int64_t)o->duration * 1000,
        .n_variants = o->check_outputs,
        .n_shares = 1,
    };
}

/* The variable of `sluice chat` goes before that of OpenAI's clients.  An empty
 * one counts as unset. */
static const char *key_of(const struct load_options *o)
{
    const char *key = option_or_variable(o->key, "SLUICE_API_KEY");

    return option_or_variable(key, "OPENAI_API_KEY");
}

static void take_target(struct load_setup *s)
{
    const struct load_options *o = &s->o;

    s->native = kind_of(o->target) == KIND_NATIVE;
    s->target = (struct target_options){
        .endpoint = o->target,
        .model = o->model,
        .key = key_of(o),
        .tenant = o->tenant,
        .curve_key = option_or_variable(o->curve_key, "SLUICE_KEY"),
        .trust = option_or_variable(o->trust, "SLUICE_TRUST"),
        .stream = !o->no_stream,
        .ignore_eos = !o->stop_at_eos,
        .insecure = o->insecure,
        .resume = true,
        .temperature = o->temperature,
        .top_p = o->top_p,
        .top_k = o->top_k,
        .n = o->n,
        .n_stops = o->stop.n,
        .extra = o->extra,
        .n_connections = o->connections ? o->connections
                         : s->native    ? CONNECTIONS
                                        : 0,
        .connect_ms = (uint32_t)o->connect_timeout,
        .timeout_ms = (uint32_t)o->timeout,
    };
    for (unsigned i = 0; i < o->stop.n; i++) {
        s->target.stops[i] = o->stop.item[i];
    }
    s->cluster = o->cluster ? o->cluster : s->native ? o->target : NULL;
}

static void take_generator(struct load_setup *s)
{
    const struct load_options *o = &s->o;

    s->generator = (struct generator_options){
        .ops = kind_ops(kind_of(o->target)),
        .warm_us = (int64_t)o->warmup * 1000,
        .timeout_us = (int64_t)o->timeout * 1000,
        .grace_us = o->timeout ? (int64_t)o->timeout * 1000 : GRACE_US,
        .cancel = o->cancel,
        .disconnect = o->disconnect,
        .slow = o->slow_readers,
        .memory_max = MEMORY_MAX / o->processes,
        .seed = o->seed,
    };
}

static void take_search(struct load_setup *s)
{
    bool whole = s->series == SERIES_SEARCH_CONCURRENCY;
    double first = s->plan.concurrency;

    if (!whole) {
        first = s->plan.rate ? strtod(s->plan.rate, NULL) : 1;
    }
    s->search = (struct search_options){
        .first = first > 0 ? first : 1,
        .min = whole ? 1 : SEARCH_MIN_RATE,
        .max = s->o.search_max > 0 ? s->o.search_max : SEARCH_MAX,
        .tolerance = s->o.tolerance,
        .attain = s->o.attain,
        .repeats = s->n_repeats,
        .whole = whole,
    };
}

static enum status take_drafts(struct load_setup *s, struct error *e)
{
    return option_u32("drafts", s->o.drafts, DRAFTS_MAX, &s->target.has_drafts,
                      &s->target.drafts, e);
}

static enum status check_api(struct load_setup *s, struct error *e)
{
    const char *api = s->o.api;
    bool is_auto = strcmp(api, "auto") == 0;

    if (!is_auto && strcmp(api, "chat") != 0 &&
        strcmp(api, "completions") != 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--api %s: chat, completions or auto is needed", api);
    }
    s->target.chat =
        !s->native && (strcmp(api, "chat") == 0 || (is_auto && !s->o.vocab));
    if (s->target.chat && s->o.vocab) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--vocab makes ids, which chat does not take; use "
                         "--api completions");
    }
    return ST_OK;
}

static enum status check(const struct load_setup *s, struct error *e)
{
    const struct load_options *o = &s->o;

    if (!s->generator.ops) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--target %s: tcp://, ipc://, http:// or https:// is "
                         "needed",
                         o->target);
    }
    if (o->cancel + o->disconnect + o->slow_readers > 1) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--cancel, --disconnect and --slow-readers exceed 1 "
                         "together");
    }
    if (o->check_outputs && o->temperature > 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--check-outputs compares greedy outputs; leave "
                         "--temperature at 0");
    }
    if ((o->rate != NULL) + (o->concurrency > 0) + (o->trace != NULL) > 1) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--rate, --concurrency and --trace exclude one "
                         "another");
    }
    for (unsigned i = 0; i < o->at.n; i++) {
        enum status st = hooks_check(o->at.item[i], e);

        if (st != ST_OK) {
            return st;
        }
    }
    return ST_OK;
}

enum status load_setup_make(struct load_setup *s, struct error *e)
{
    enum status st;

    take_plan(s);
    take_target(s);
    take_generator(s);
    st = check(s, e);
    st = st == ST_OK ? check_api(s, e) : st;
    st = st == ST_OK ? take_drafts(s, e) : st;
    st = st == ST_OK ? take_objectives(s, e) : st;
    st = st == ST_OK ? take_profile(s, e) : st;
    st = st == ST_OK ? take_series(s, e) : st;
    if (st != ST_OK) {
        return st;
    }
    if (!s->plan.duration_us && !s->plan.n_requests && !s->plan.trace) {
        s->plan.duration_us = DURATION_US;
    }
    take_search(s);
    return ST_OK;
}

/* ---- the server's description ---- */

struct told {
    enum status status;
    struct target_facts facts;
    struct error e;
};

static bool read_all(int fd, void *to, size_t n)
{
    size_t have = 0;

    while (have < n) {
        ssize_t got = read(fd, (char *)to + have, n - have);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        have += (size_t)got;
    }
    return true;
}

/* Runs in a process of its own: the parent must have no ZeroMQ context when it
 * forks generators. */
static _Noreturn void ask(const struct target_options *o, int fd)
{
    struct told told = {0};
    bool sent;

    told.status = kind_ask(o, &told.facts, &told.e);
    sent = write(fd, &told, sizeof told) == sizeof told;
    _exit(sent ? 0 : 1);
}

static enum status ask_in_child(struct load_setup *s, struct error *e)
{
    struct told told;
    int fds[2];
    bool have;
    pid_t pid;

    if (pipe(fds) != 0 || (pid = fork()) < 0) {
        return error_set(e, ST_INTERNAL, "cannot start a process: %s",
                         strerror(errno));
    }
    if (pid == 0) {
        close(fds[0]);
        ask(&s->target, fds[1]);
    }
    close(fds[1]);
    have = read_all(fds[0], &told, sizeof told);
    close(fds[0]);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
    if (!have) {
        return error_set(e, ST_INTERNAL,
                         "the process that asks the server has died");
    }
    s->facts = told.facts;
    *e = told.e;
    return told.status;
}

enum status load_setup_ask(struct load_setup *s, struct error *e)
{
    enum status st = ask_in_child(s, e);
    bool text = s->o.text || s->o.tokenizer;

    if (st != ST_OK) {
        return st;
    }
    if (!s->target.model && s->facts.model[0]) {
        s->target.model = s->facts.model;
    }
    s->plan.context_max = s->facts.context;
    s->prompt = (struct prompt_options){
        .vocab = s->o.vocab           ? s->o.vocab
                 : s->native && !text ? s->facts.vocab
                                      : 0,
        .tokenizer = s->o.tokenizer,
        .text_file = s->o.text,
        .messages = s->target.chat,
    };
    return ST_OK;
}
