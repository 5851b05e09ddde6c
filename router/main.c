/* main.c - sluice-router: options, tokenizers, ports and the loop. */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/descriptors.h"
#include "common/base/failpoint.h"
#include "common/base/log_output.h"
#include "common/base/notify.h"
#include "common/base/option.h"
#include "common/base/option_generate.h"
#include "common/base/option_sources.h"
#include "common/base/std_fds.h"
#include "common/model/directory.h"
#include "common/sampling/sampling.h"
#include "common/scrape/scrape.h"
#include "common/wire/curve_keys.h"
#include "common/wire/door_rules.h"
#include "common/wire/loop.h"
#include "common/wire/method.h"
#include "common/wire/wire_limits.h"
#include "router/args.h"
#include "router/base/router_limits.h"
#include "router/router_core.h"
#include "router/text/text_threads.h"
#include "text/model_tokenizer.h"
#include "text/text_limits.h"
#include "text/tokenizer.h"

#define EXIT_SETUP 2
#define WORKERS    (ROUTER_WORKERS_MAX + OFFERS_MAX)
#define OWN_DESCRIPTORS \
    64 /* descriptors beside those of peers; far more than in use */

OPTION_TABLE(router_args, ROUTER_OPTIONS);

static const struct limit_row router_limits[] = {
/* Not by LIMIT_ROW: its argument would be a number by then, not a name. */
#define X(name, unit, what) {#name, (uint64_t)(name), unit, what},
    ROUTER_LIMIT_MAP(X)
#undef X
        LIMIT_ROW(ROUTER_WORKERS_MAX, "", "connected workers"),
    LIMIT_ROW(ROUTER_MODELS_MAX, "", "models with a tokenizer"),
    LIMIT_ROW(SLOW_READER_MS, "ms",
              "until a request is cancelled whose client does not read"),
    LIMIT_ROW(TEXT_THREADS_MAX, "", "tokenizer threads"),
    LIMIT_ROW(TEXT_QUEUE_MAX, "", "texts waiting for a tokenizer thread"),
};

static const char usage[] = "usage: sluice-router [options]\n\n"
                            "Accepts requests from clients and runs them on "
                            "workers that have room.\n\n";

static const char examples[] =
    "\nexamples:\n"
    "  sluice-router --model tiny-hybrid=models/tiny-hybrid\n"
    "  sluice-router --workers ipc:///run/sluice/workers \\\n"
    "      --clients tcp://127.0.0.1:7071\n\n"
    "exit codes: 0 stopped by SIGTERM or SIGINT, 2 could not start\n";

static const struct option_program about = {
    .name = "sluice-router",
    .summary = "accept requests to language models and run them on workers",
    .role = "router",
    .section = 8,
    .usage = usage,
    .more = examples,
    .rows = router_args_rows,
    .n_rows = OPTION_COUNT(router_args_rows)};

/* The parts of the program, in the order in which they are created. */
struct program {
    struct router_args args;
    struct option_sources sources;
    char names[ROUTER_MODELS_MAX][MODEL_NAME_MAX + 1];
    struct tokenizer *tokenizers[ROUTER_MODELS_MAX];
    struct text_model models[ROUTER_MODELS_MAX];
    uint32_t n_models;
    struct text_threads *text;
    struct curve_keys *keys; /* NULL: none */
    struct transport *transport;
    struct scrape *scrape; /* NULL: no --metrics */
    struct router_core *core;
    struct loop loop;
    struct notify notify;
    int signals;
};

/* Parses spec, "NAME=DIR", and loads the tokenizer of DIR under NAME. */
static enum status model_add(struct program *p, const char *spec,
                             struct error *e)
{
    const char *equals = strchr(spec, '=');
    size_t n = equals != NULL ? (size_t)(equals - spec) : 0;
    enum status st;

    if (n == 0 || n > MODEL_NAME_MAX || equals[1] == '\0') {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--model %s: must be NAME=DIR, NAME of 1 to %d bytes",
                         spec, MODEL_NAME_MAX);
    }
    memcpy(p->names[p->n_models], spec, n);
    for (uint32_t i = 0; i < p->n_models; i++) {
        if (strcmp(p->names[i], p->names[p->n_models]) == 0) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "--model %s: the name is given twice; use another",
                             spec);
        }
    }
    st = directory_check(equals + 1, DIRECTORY_TOKENIZER, e);
    st = st == ST_OK
             ? model_tokenizer_load(&p->tokenizers[p->n_models], equals + 1, e)
             : st;
    if (st != ST_OK) {
        return error_wrap(e, "--model %s", spec);
    }
    p->models[p->n_models] =
        (struct text_model){p->names[p->n_models], p->tokenizers[p->n_models]};
    p->n_models++;
    return ST_OK;
}

static enum status models_load(struct program *p, struct error *e)
{
    enum status st = ST_OK;

    if (p->args.model.n > ROUTER_MODELS_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--model: %u models, at most %d are possible",
                         p->args.model.n, ROUTER_MODELS_MAX);
    }
    for (unsigned i = 0; st == ST_OK && i < p->args.model.n; i++) {
        st = model_add(p, p->args.model.item[i], e);
    }
    return st;
}

static void on_text(void *arg, int fd)
{
    struct program *p = arg;

    (void)fd;
    text_threads_quiet(p->text); /* the tick that follows polls the jobs */
}

static void on_signal(void *arg, int fd)
{
    struct program *p = arg;
    int signal = loop_signal_read(fd);

    if (signal == SIGHUP) {
        notify_reloading(&p->notify, loop_now_us());
        log_reopen(); /* tokenizers must stay those of the workers */
        transport_reread_keys(p->transport);
        notify_reloaded(&p->notify);
    } else if (signal != 0) {
        log_info("stopping", "reason=signal");
        notify_stopping(&p->notify);
        router_stop(p->core);
    }
}

static void write_status(void *arg, char *text, size_t cap)
{
    const struct program *p = arg;

    router_line(p->core, text, cap);
}

static void render(void *arg, struct metric_page *page)
{
    struct program *p = arg;

    router_page(p->core, page);
}

/* Raises the soft limit of descriptors.  At the hard limit no peer can connect,
 * whatever max_peers is, so a low limit is logged. */
static void allow_peers(uint32_t max_peers, uint32_t max_admins)
{
    uint64_t limit = descriptors_raise();

    if (limit < (uint64_t)max_peers + max_admins + WORKERS + OWN_DESCRIPTORS) {
        log_warn("descriptors-few",
                 "limit=%" PRIu64 " max_peers=%u max_admins=%u why=\"each peer "
                 "needs one: raise the hard limit (ulimit -n, LimitNOFILE=) or "
                 "lower --max-peers\"",
                 limit, max_peers, max_admins);
    }
}

static void limit_connections(const struct program *p)
{
    uint32_t n = p->args.max_connections, each = p->args.max_per_address;

    for (unsigned i = 0; i < (p->args.admins != NULL ? 3 : 2); i++) {
        transport_limit(p->transport, i, n, each > 0 ? each : door_share(n));
    }
}

static enum status assemble(struct program *p, struct error *e)
{
    bool apart = p->args.admins != NULL;
    const struct transport_port ports[] = {
        {p->args.workers, BY_WORKER, false},
        {p->args.clients, apart ? BY_CLIENT : BY_CLIENT | BY_ADMIN, false},
        {p->args.admins, BY_ADMIN, false},
    };
    struct router_options o = {.name = p->args.name,
                               .max_peers = p->args.max_peers,
                               .max_admins = p->args.max_admins,
                               .max_requests = p->args.max_requests,
                               .max_waiting = p->args.max_waiting,
                               .gather_us = (int64_t)p->args.gather * 1000,
                               .headroom = p->args.headroom,
                               .overcommit = p->args.overcommit,
                               .worker_wait_us =
                                   (int64_t)p->args.worker_wait * 1000};
    enum status st = models_load(p, e);

    if (st == ST_OK) {
        st = text_threads_new(&p->text, p->models, p->n_models,
                              p->args.text_threads, e);
    }
    if (st == ST_OK) {
        st = curve_keys_load(&p->keys, p->args.key, p->args.trust, e);
        o.keyed = p->keys != NULL;
    }
    if (st == ST_OK) {
        o.keyed = p->keys != NULL;
        st = transport_listen(&p->transport, ports, apart ? 3 : 2, p->keys, e);
    }
    if (st == ST_OK && p->args.metrics != NULL) {
        st = scrape_new(&p->scrape, p->args.metrics, p->args.metrics_anyone, e);
        st = st == ST_OK ? st : error_wrap(e, "--metrics");
    }
    if (st != ST_OK) {
        return st;
    }
    limit_connections(p);
    /* The core comes last: from here on frames and jobs reach it. */
    o.text = text_threads_seam(p->text);
    p->core = router_new(&o, transport_io(p->transport));
    loop_init(&p->loop, p->transport, &router_node_ops, p->core);
    notify_status(&p->notify, write_status, p);
    loop_notify(&p->loop, &p->notify);
    loop_add(&p->loop, text_threads_fd(p->text), on_text, p);
    loop_add(&p->loop, p->signals, on_signal, p);
    if (p->scrape != NULL) {
        scrape_render(p->scrape, render, p);
        loop_add(&p->loop, scrape_fd(p->scrape), scrape_ready, p->scrape);
    }
    return ST_OK;
}

static void dismantle(struct program *p)
{
    /* The core sends through the transport and uses the text seam: it goes
     * first. */
    scrape_free(&p->scrape);
    router_free(&p->core);
    transport_free(&p->transport);
    curve_keys_free(&p->keys);
    text_threads_free(&p->text);
    notify_close(&p->notify);
    for (uint32_t i = 0; i < p->n_models; i++) {
        tokenizer_free(&p->tokenizers[i]);
    }
}

static void print_ready(const struct program *p)
{
    printf("sluice-router %s ready: workers %s, clients %s", SLUICE_VERSION,
           transport_endpoint(p->transport, 0),
           transport_endpoint(p->transport, 1));
    if (p->args.admins != NULL) {
        printf(", administrators %s", transport_endpoint(p->transport, 2));
    }
    fputs(", models with text:", stdout);
    for (uint32_t i = 0; i < p->n_models; i++) {
        printf(" %s", p->names[i]);
    }
    printf("%s\n", p->n_models == 0 ? " none" : "");
    if (p->scrape != NULL) {
        printf("sluice-router metrics: http://%s/metrics\n",
               scrape_address(p->scrape));
    }
    /* A supervisor waits for this line, and stdout may be a pipe. */
    fflush(stdout);
}

/* Prints the text that an option asked for.  Returns true if one did: the
 * program then ends. */
static bool print_and_exit(const struct program *p)
{
    const struct router_args *a = &p->args;

    if (a->help) {
        fputs(usage, stdout);
        option_print(stdout, router_args_rows, OPTION_COUNT(router_args_rows));
        fputs(examples, stdout);
    } else if (a->version) {
        puts("sluice-router " SLUICE_VERSION);
    } else if (a->limits) {
        wire_limits_print(stdout);
        limits_print(stdout, sampling_limits, sampling_limits_n);
        limits_print(stdout, base_limits, base_limits_n);
        limits_print(stdout, router_limits,
                     sizeof router_limits / sizeof router_limits[0]);
        limits_print(stdout, text_limits, text_limits_n);
        limits_print(stdout, scrape_limits, scrape_limits_n);
    } else if (a->list_metrics) {
        router_list_metrics(stdout);
    } else if (a->print_config) {
        option_sources_print(stdout, &p->sources);
    } else {
        return false;
    }
    return true;
}

static enum status open_log(const struct router_args *a, struct error *e)
{
    struct log_options o = {a->log_level, a->log_file, a->log_requests};

    return log_start(&o, e);
}

static int fail(const struct error *e)
{
    fprintf(stderr, "sluice-router: %s\n", e->text);
    return EXIT_SETUP;
}

int main(int argc, char **argv)
{
    static struct program p;
    const char *kind = option_generate_kind(argc, argv);
    struct error e;

    std_fds_reserve();
    if (kind != NULL) {
        return option_generate(stdout, &about, kind, &e) == ST_OK &&
                       std_out_end(&e) == ST_OK
                   ? EXIT_SUCCESS
                   : fail(&e);
    }
    FAILPOINT_START(argc, argv);
    if (option_sources_load(&p.sources, &about, &p.args, argc, argv, &e) !=
        ST_OK) {
        return fail(&e);
    }
    if (print_and_exit(&p)) {
        return std_out_end(&e) == ST_OK ? EXIT_SUCCESS : fail(&e);
    }
    if (open_log(&p.args, &e) != ST_OK) {
        return fail(&e);
    }
    option_sources_log(&p.sources);
    if (notify_open(&p.notify, &e) != ST_OK) {
        log_warn("notify-off", "why=\"%s\"", e.text);
    }
    p.signals = loop_signals();
    allow_peers(p.args.max_peers, p.args.max_admins);
    if (assemble(&p, &e) != ST_OK) {
        int rc = fail(&e);

        dismantle(&p);
        return rc;
    }
    print_ready(&p);
    notify_ready(&p.notify);
    loop_run(&p.loop);
    router_log_metrics(p.core);
    dismantle(&p);
    return EXIT_SUCCESS;
}
