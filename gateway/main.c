/* main.c - sluice-gateway: options, models, keys, ports and the loop. */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/descriptors.h"
#include "common/base/failpoint.h"
#include "common/base/limit.h"
#include "common/base/log_output.h"
#include "common/base/notify.h"
#include "common/base/option.h"
#include "common/base/option_generate.h"
#include "common/base/option_sources.h"
#include "common/base/passed.h"
#include "common/base/std_fds.h"
#include "common/model/directory.h"
#include "common/sampling/sampling.h"
#include "common/scrape/scrape.h"
#include "common/wire/curve_keys.h"
#include "common/wire/loop.h"
#include "common/wire/wire_limits.h"
#include "gateway/args.h"
#include "gateway/calls/figures.h"
#include "gateway/calls/route_table.h"
#include "gateway/gateway_core.h"
#include "gateway/http/cors.h"
#include "gateway/http/http_limits.h"
#include "gateway/http/sockets.h"
#include "gateway/openai/request.h"
#include "gateway/text/prompt_threads.h"
#include "text/template/template_limits.h"
#include "text/text_limits.h"

#define EXIT_SETUP 2
#define OWN_DESCRIPTORS \
    256 /* descriptors beside those of clients; more than in use */
#define READY_US     1000000 /* a longer wait for the router is reported */
#define HTTP_TURN_US 1000000 /* longest time between turns of the sockets */

OPTION_TABLE(gateway_args, GATEWAY_OPTIONS);

static const char usage[] =
    "usage: sluice-gateway [options]\n\n"
    "Serves the models of a router over HTTP, as OpenAI's API.\n\n";

static const char examples[] =
    "\nexamples:\n"
    "  sluice-gateway --model tiny-hybrid=models/tiny-hybrid\n"
    "  sluice-gateway --listen 0.0.0.0:8443 --keys keys.txt \\\n"
    "      --tls-cert cert.pem --tls-key key.pem\n\n"
    "exit codes: 0 stopped by SIGTERM or SIGINT, 2 could not start\n";

static const struct option_program about = {
    .name = "sluice-gateway",
    .summary = "serve the models of a router over HTTP, as OpenAI's API",
    .role = "gateway",
    .section = 8,
    .usage = usage,
    .more = examples,
    .rows = gateway_args_rows,
    .n_rows = OPTION_COUNT(gateway_args_rows)};

/* The parts of the program, in the order in which they are created. */
struct program {
    struct gateway_args args;
    struct option_sources sources;
    struct served_models models;
    enum output_format format;
    struct keys *keys;
    struct prompt_threads *prompts;
    struct curve_keys *curve; /* NULL: none */
    struct transport *transport;
    struct http_sockets *http;
    struct scrape *scrape; /* NULL: no --metrics */
    struct gateway_core *core;
    struct loop loop;
    struct notify notify;
    int64_t http_turn_us; /* time of the last turn of the sockets */
    int signals;
};

static int64_t unix_now_s(void *arg)
{
    (void)arg;
    return time(NULL);
}

/* ---- events ---- */

static void on_text(void *arg, int fd)
{
    struct program *p = arg;

    (void)fd;
    prompt_threads_quiet(p->prompts); /* the tick that follows polls the jobs */
}

static void render(void *arg, struct metric_page *page)
{
    struct program *p = arg;

    gateway_page(p->core, page);
}

static void write_status(void *arg, char *text, size_t cap)
{
    const struct program *p = arg;
    struct gateway_view v = gateway_view(p->core);

    if (!gateway_is_up(p->core)) {
        snprintf(text, cap, "waiting for the router at %.100s, %u requests",
                 p->args.router, v.requests);
    } else {
        snprintf(text, cap, "serves http%s://%s, %u requests",
                 p->args.tls_cert != NULL ? "s" : "",
                 http_sockets_endpoint(p->http), v.requests);
    }
}

static void on_http(void *arg, int fd)
{
    struct program *p = arg;

    (void)fd;
    p->http_turn_us = loop_now_us();
    http_sockets_turn(p->http);
}

static void reload(struct program *p)
{
    struct error e;

    if (p->args.keys != NULL) {
        if (keys_reload(p->keys, p->args.keys, &e) == ST_OK) {
            log_info("keys-reloaded", "keys=%zu", keys_n(p->keys));
        } else {
            log_error("keys-kept", "why=\"%s\"", e.text);
        }
    }
    if (p->args.tls_cert != NULL) {
        if (http_sockets_reload_tls(p->http, &e) == ST_OK) {
            log_info("tls-reloaded", "file=\"%s\"", p->args.tls_cert);
        } else {
            log_error("tls-kept", "why=\"%s\"", e.text);
        }
    }
}

/* The first signal drains; another one stops at once. */
static void on_signal(void *arg, int fd)
{
    struct program *p = arg;
    static bool stopping;
    int signal = loop_signal_read(fd);

    if (signal == SIGHUP) {
        notify_reloading(&p->notify, loop_now_us());
        log_reopen();
        reload(p);
        transport_reread_keys(p->transport);
        notify_reloaded(&p->notify);
    } else if (signal != 0) {
        log_info("stopping", "reason=signal");
        notify_stopping(&p->notify);
        http_sockets_stop(p->http);
        gateway_stop(p->core, stopping ? 0 : (int64_t)p->args.grace * 1000);
        stopping = true;
    }
}

/* The sockets also need turns without events, for their time limits. */
static int64_t on_tick(void *node, int64_t now_us)
{
    struct program *p = node;
    int64_t due;

    if (now_us - p->http_turn_us >= HTTP_TURN_US) {
        on_http(p, -1);
    }
    due = gateway_node_ops.tick(p->core, now_us);
    return due == NODE_STOP || due < p->http_turn_us + HTTP_TURN_US
               ? due
               : p->http_turn_us + HTTP_TURN_US;
}

static void on_opened(void *node, struct peer_id who)
{
    gateway_node_ops.opened(((struct program *)node)->core, who);
}

static void on_recv(void *node, struct peer_id from, struct frame **f)
{
    gateway_node_ops.recv(((struct program *)node)->core, from, f);
}

static void on_lost(void *node, struct peer_id who)
{
    gateway_node_ops.lost(((struct program *)node)->core, who);
}

static const struct node_ops program_ops = {
    .opened = on_opened, .recv = on_recv, .lost = on_lost, .tick = on_tick};

/* ---- the parts ---- */

/* Checks the directory of "NAME=DIR".  A model without a tokenizer is served
 * without --model. */
static enum status check_model(const char *spec, struct error *e)
{
    const char *equals = strchr(spec, '=');
    enum status st = equals != NULL && equals[1] != '\0'
                         ? directory_check(equals + 1, DIRECTORY_TOKENIZER, e)
                         : ST_OK; /* served_models_add() reports it */

    return st == ST_OK ? st : error_wrap(e, "--model %s", spec);
}

static enum status load(struct program *p, struct error *e)
{
    enum status st = ST_OK;

    for (unsigned i = 0; st == ST_OK && i < p->args.model.n; i++) {
        const char *spec = p->args.model.item[i];

        st = check_model(spec, e);
        st = st == ST_OK
                 ? served_models_add(&p->models, spec, p->args.chat_template, e)
                 : st;
    }
    if (st == ST_OK) {
        st = p->args.keys != NULL ? keys_load(&p->keys, p->args.keys, e)
                                  : keys_open(&p->keys, e);
        st = st == ST_OK ? st : error_wrap(e, "--keys");
    }
    return st;
}

static struct gateway_options options_of(struct program *p)
{
    return (struct gateway_options){
        .name = p->args.name,
        .n_sessions = p->args.sessions,
        .service = {.models = &p->models,
                    .keys = p->keys,
                    .prompts = prompt_threads_seam(p->prompts),
                    .cors = p->args.cors,
                    .format = p->args.tool_format != NULL ? &p->format : NULL,
                    .chat_tokens = p->args.max_tokens,
                    .unix_s = unix_now_s},
        .http = {.body_bytes_max = p->args.max_body,
                 .connections_max = p->args.max_clients}};
}

static bool is_ready(const void *arg)
{
    const struct program *p = arg;

    return gateway_is_ready(p->core);
}

static enum status assemble(struct program *p, struct error *e)
{
    struct http_sockets_options http = {.listen = p->args.listen,
                                        .tls_cert = p->args.tls_cert,
                                        .tls_key = p->args.tls_key,
                                        .anyone = p->args.keys != NULL};
    struct gateway_options o;
    /* Changes the environment, which threads may read. */
    enum status st = passed_socket(&http.passed, e);

    if (st == ST_OK) {
        st = load(p, e);
    }
    if (st == ST_OK) {
        st = prompt_threads_new(&p->prompts, p->args.text_threads, e);
    }
    if (st == ST_OK) {
        st = curve_keys_load(&p->curve, p->args.key, p->args.trust, e);
    }
    if (st == ST_OK) {
        st = transport_connect_many(&p->transport, p->args.router,
                                    p->args.sessions, p->curve, e);
    }
    if (st == ST_OK) {
        st = http_sockets_new(&p->http, &http, e);
    }
    if (st == ST_OK && p->args.metrics != NULL) {
        st = scrape_new(&p->scrape, p->args.metrics, p->args.metrics_anyone, e);
        st = st == ST_OK ? st : error_wrap(e, "--metrics");
    }
    if (st != ST_OK) {
        return st;
    }
    /* The core comes last: from here on frames and requests reach it. */
    o = options_of(p);
    p->core =
        gateway_new(&o, transport_io(p->transport), http_sockets_io(p->http));
    http_sockets_start(p->http, gateway_http(p->core));
    loop_init(&p->loop, p->transport, &program_ops, p);
    notify_status(&p->notify, write_status, p);
    loop_notify(&p->loop, &p->notify);
    loop_add(&p->loop, prompt_threads_fd(p->prompts), on_text, p);
    loop_add(&p->loop, http_sockets_fd(p->http), on_http, p);
    loop_add(&p->loop, p->signals, on_signal, p);
    if (p->scrape != NULL) {
        scrape_render(p->scrape, render, p);
        scrape_probe(p->scrape, is_ready, p);
        loop_add(&p->loop, scrape_fd(p->scrape), scrape_ready, p->scrape);
    }
    return ST_OK;
}

static void dismantle(struct program *p)
{
    /* The threads go first: no job may return to a core that is gone. */
    scrape_free(&p->scrape);
    prompt_threads_free(&p->prompts);
    gateway_free(&p->core);
    http_sockets_free(&p->http);
    transport_free(&p->transport);
    curve_keys_free(&p->curve);
    keys_free(&p->keys);
    notify_close(&p->notify);
    served_models_fini(&p->models);
}

static void print_state(const struct program *p, const char *state)
{
    printf("sluice-gateway %s %s: %s://%s, router %s, models with text:",
           SLUICE_VERSION, state, p->args.tls_cert != NULL ? "https" : "http",
           http_sockets_endpoint(p->http), p->args.router);
    for (uint32_t i = 0; i < p->models.n; i++) {
        printf(" %s", p->models.models[i].name);
    }
    printf("%s\n", p->models.n == 0 ? " none" : "");
    /* A supervisor waits for the line, and stdout may be a pipe. */
    fflush(stdout);
}

static bool is_up(const void *arg)
{
    const struct program *p = arg;

    return gateway_is_up(p->core);
}

/* Clients are served from the start; the ready line comes with the router. */
static void run(struct program *p)
{
    enum loop_end end = loop_until(&p->loop, is_up, p, READY_US);

    if (end == LOOP_LATE) {
        print_state(p, "waiting for the router");
        end = loop_until(&p->loop, is_up, p, LOOP_FOREVER);
    }
    if (end == LOOP_DONE) {
        print_state(p, "ready");
        notify_ready(&p->notify);
        if (p->scrape != NULL) {
            printf("sluice-gateway metrics: http://%s/metrics\n",
                   scrape_address(p->scrape));
            fflush(stdout);
        }
        loop_run(&p->loop);
    }
}

/* ---- options that print and exit ---- */

static void print_limits(void)
{
    wire_limits_print(stdout);
    limits_print(stdout, sampling_limits, sampling_limits_n);
    limits_print(stdout, base_limits, base_limits_n);
    limits_print(stdout, service_limits, service_limits_n);
    limits_print(stdout, openai_limit_rows, openai_limit_rows_n);
    limits_print(stdout, http_limits, http_limits_n);
    limits_print(stdout, output_limits, output_limits_n);
    limits_print(stdout, keys_limits, keys_limits_n);
    limits_print(stdout, template_limits, template_limits_n);
    limits_print(stdout, text_limits, text_limits_n);
    limits_print(stdout, scrape_limits, scrape_limits_n);
}

static void print_routes(void)
{
    for (size_t i = 0; i < ROUTES_N; i++) {
        printf("%-4s %-22s %s%s\n",
               routes[i].method == HTTP_GET ? "GET" : "POST", routes[i].path,
               routes[i].help, routes[i].is_public ? " (no key)" : "");
    }
}

static enum status print_key(const char *tenant, struct error *e)
{
    struct keys_new key;
    enum status st = keys_new_line(&key, tenant, e);

    if (st == ST_OK) {
        printf("key, shown once:        %s\n"
               "line for the key file:  %s\n",
               key.key, key.line);
    }
    memset(&key, 0, sizeof key);
    return st;
}

/* Prints the text that an option asked for.  Returns true if one did: the
 * program then ends. */
static bool print_and_exit(const struct program *p)
{
    const struct gateway_args *a = &p->args;

    if (a->help) {
        fputs(usage, stdout);
        option_print(stdout, gateway_args_rows,
                     OPTION_COUNT(gateway_args_rows));
        fputs(examples, stdout);
    } else if (a->version) {
        puts("sluice-gateway " SLUICE_VERSION);
    } else if (a->limits) {
        print_limits();
    } else if (a->list_metrics) {
        figures_list(stdout);
    } else if (a->list_routes) {
        print_routes();
    } else if (a->print_config) {
        option_sources_print(stdout, &p->sources);
    } else {
        return false;
    }
    return true;
}

/* ---- the start ---- */

static enum status check_args(struct program *p, struct error *e)
{
    const struct gateway_args *a = &p->args;

    if ((a->tls_cert == NULL) != (a->tls_key == NULL)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--tls-cert and --tls-key go together; give both");
    }
    if (a->tool_format != NULL &&
        !output_format_parse(a->tool_format, &p->format)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--tool-format %s: must be plain, hermes, "
                         "qwen3-coder, llama3 or gpt-oss",
                         a->tool_format);
    }
    if (a->cors != NULL && !http_cors_valid(a->cors)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--cors %s: must be * or an origin such as "
                         "https://chat.example.com",
                         a->cors);
    }
    return ST_OK;
}

static enum status configure(struct program *p, int argc, char **argv,
                             struct error *e)
{
    enum status st =
        option_sources_load(&p->sources, &about, &p->args, argc, argv, e);

    return st == ST_OK ? check_args(p, e) : st;
}

static enum status open_log(const struct gateway_args *a, struct error *e)
{
    struct log_options o = {a->log_level, a->log_file, a->log_requests};

    return log_start(&o, e);
}

/* Raises the soft limit of descriptors.  At the hard limit no client can
 * connect, whatever max_clients is, so a low limit is logged. */
static void allow_clients(uint32_t max_clients)
{
    uint64_t limit = descriptors_raise();

    if (limit < (uint64_t)max_clients + OWN_DESCRIPTORS) {
        log_warn("descriptors-few",
                 "limit=%" PRIu64 " max_clients=%u why=\"each client needs "
                 "one: raise the hard limit (ulimit -n, LimitNOFILE=) or "
                 "lower --max-clients\"",
                 limit, max_clients);
    }
}

static int fail(const struct error *e)
{
    fprintf(stderr, "sluice-gateway: %s\n", e->text);
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
    json_object_seed(0); /* threads parse JSON too: once, before they start */
    FAILPOINT_START(argc, argv);
    if (configure(&p, argc, argv, &e) != ST_OK) {
        return fail(&e);
    }
    if (p.args.new_key != NULL) {
        return print_key(p.args.new_key, &e) == ST_OK &&
                       std_out_end(&e) == ST_OK
                   ? EXIT_SUCCESS
                   : fail(&e);
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
    allow_clients(p.args.max_clients);
    if (assemble(&p, &e) != ST_OK) {
        int rc = fail(&e);

        dismantle(&p);
        return rc;
    }
    run(&p);
    gateway_log(p.core);
    dismantle(&p);
    return EXIT_SUCCESS;
}
