/* main.c - sluice-gateway: its options, and its parts put together. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/passed.h"
#include "common/daemon/daemon.h"
#include "common/model/directory.h"
#include "gateway/args.h"
#include "gateway/calls/figures.h"
#include "gateway/chat/output_parser.h"
#include "gateway/gateway_core.h"
#include "gateway/http/sockets.h"
#include "gateway/memory_share.h"
#include "gateway/text/prompt_threads.h"

#define OWN_DESCRIPTORS \
    256 /* descriptors beside those of clients; more than in use */
#define HTTP_TURN_US 1000000 /* longest time between turns of the sockets */

/* The parts of the program, in the order in which they are created. */
struct program {
    struct daemon daemon;
    struct gateway_args args;
    enum output_format format;
    struct http_proxies proxies;
    struct served_models models;
    struct keys *keys;
    struct prompt_threads *prompts;
    struct http_sockets *http;
    struct gateway_core *core;
    int64_t http_turn_us; /* time of the last turn of the sockets */
    bool stopping;
};

static int64_t unix_now_s(void *arg)
{
    (void)arg;
    return time(NULL);
}

static void on_text(void *arg, int fd)
{
    struct program *p = arg;

    (void)fd;
    prompt_threads_quiet(p->prompts); /* the tick that follows polls the jobs */
}

static void render(void *parts, struct metric_page *page)
{
    struct program *p = parts;

    gateway_page(p->core, page);
}

static void write_status(void *parts, char *text, size_t cap)
{
    const struct program *p = parts;
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

static void reload(void *parts)
{
    struct program *p = parts;
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
static void stop(void *parts)
{
    struct program *p = parts;

    log_info("stopping", "reason=signal");
    http_sockets_stop(p->http);
    gateway_stop(p->core, p->stopping ? 0 : (int64_t)p->args.grace * 1000);
    p->stopping = true;
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

static const struct node_ops node_ops = {
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

static enum status load_keys(struct program *p, struct error *e)
{
    enum status st = p->args.keys != NULL ? keys_load(&p->keys, p->args.keys, e)
                                          : keys_open(&p->keys, e);

    return st == ST_OK ? st : error_wrap(e, "--keys");
}

static enum status load_models(struct program *p, struct error *e)
{
    enum status st = ST_OK;

    for (unsigned i = 0; st == ST_OK && i < p->args.model.n; i++) {
        const char *spec = p->args.model.item[i];

        st = check_model(spec, e);
        st = st == ST_OK
                 ? served_models_add(&p->models, spec, p->args.chat_template, e)
                 : st;
        if (st == ST_OK) {
            text_assets_protect(p->models.models[i].assets, output_markers,
                                strlen(output_markers));
        }
    }
    return st;
}

/* gateway_args_check() has checked them. */
static void take_proxies(struct program *p)
{
    for (unsigned i = 0; i < p->args.trusted_proxy.n; i++) {
        (void)http_proxies_add(&p->proxies, p->args.trusted_proxy.item[i]);
    }
}

static struct gateway_options options_of(struct program *p,
                                         const struct memory_share *share)
{
    return (struct gateway_options){
        .name = p->args.name,
        .n_sessions = p->args.sessions,
        .service = {.models = &p->models,
                    .keys = p->keys,
                    .prompts = prompt_threads_seam(p->prompts),
                    .pages = {.cors = p->args.cors,
                              .hosts = p->args.allow_host.item,
                              .n_hosts = p->args.allow_host.n},
                    .format = p->args.tool_format != NULL ? &p->format : NULL,
                    .chat_tokens = p->args.max_tokens,
                    .refuse_unknown =
                        strcmp(p->args.unknown_fields, "refuse") == 0,
                    .unix_s = unix_now_s},
        .http = {.body_bytes_max = p->args.max_body,
                 .requests_bytes_max = share->requests,
                 .outputs_bytes_max = share->outputs,
                 .proxies = &p->proxies,
                 .connections_max = p->args.max_clients}};
}

static bool is_ready(const void *parts)
{
    const struct program *p = parts;

    return gateway_is_ready(p->core);
}

static bool is_up(const void *parts)
{
    const struct program *p = parts;

    return gateway_is_up(p->core);
}

static void print_state(const void *parts)
{
    const struct program *p = parts;

    printf("%s://%s, router %s, models with text:",
           p->args.tls_cert != NULL ? "https" : "http",
           http_sockets_endpoint(p->http), p->args.router);
    for (uint32_t i = 0; i < p->models.n; i++) {
        printf(" %s", p->models.models[i].name);
    }
    fputs(p->models.n == 0 ? " none" : "", stdout);
}

static enum status check(void *parts, struct error *e)
{
    struct program *p = parts;

    return gateway_args_check(&p->args, &p->format, e);
}

static enum status print(void *parts, bool *done, struct error *e)
{
    const struct program *p = parts;

    return gateway_args_print(&p->args, done, e);
}

static int end(void *parts)
{
    struct program *p = parts;

    gateway_log(p->core);
    return EXIT_SUCCESS;
}

static void allow_clients(uint32_t max_clients)
{
    char figures[32];

    snprintf(figures, sizeof figures, "max_clients=%u", max_clients);
    daemon_descriptors((uint64_t)max_clients + OWN_DESCRIPTORS, figures,
                       "client", "--max-clients");
}

/* The core comes last: from here on frames and requests reach it. */
static void start(struct program *p, const struct memory_share *share)
{
    struct daemon *d = &p->daemon;
    struct gateway_options o;

    take_proxies(p);
    o = options_of(p, share);
    p->core =
        gateway_new(&o, transport_io(d->transport), http_sockets_io(p->http));
    http_sockets_start(p->http, gateway_http(p->core));
    daemon_node(d, &node_ops, p);
    loop_add(&d->loop, prompt_threads_fd(p->prompts), on_text, p);
    loop_add(&d->loop, http_sockets_fd(p->http), on_http, p);
}

static enum status assemble(void *parts, struct error *e)
{
    struct program *p = parts;
    struct daemon *d = &p->daemon;
    struct http_sockets_options http = {.listen = p->args.listen,
                                        .tls_cert = p->args.tls_cert,
                                        .tls_key = p->args.tls_key,
                                        .anyone = p->args.keys != NULL};
    struct memory_share share;
    enum status st;

    allow_clients(p->args.max_clients);
    /* Changes the environment, which threads may read. */
    st = passed_socket(&http.passed, e);
    /* Keys and ports first, so that what is wrong with them is reported before
     * models are loaded.  Clients wait in the backlog meanwhile. */
    st = st == ST_OK ? load_keys(p, e) : st;
    st = st == ST_OK ? daemon_keys(d, e) : st;
    if (st == ST_OK) {
        st = transport_connect_many(&d->transport, p->args.router,
                                    p->args.sessions, d->keys, e);
    }
    st = st == ST_OK ? http_sockets_new(&p->http, &http, e) : st;
    st = st == ST_OK ? daemon_metrics(d, e) : st;
    st = st == ST_OK ? load_models(p, e) : st;
    if (st == ST_OK) {
        st = prompt_threads_new(&p->prompts, p->args.text_threads, e);
    }
    if (st == ST_OK) {
        st = memory_share(&share, e); /* models and threads have theirs */
    }
    if (st == ST_OK) {
        start(p, &share);
    }
    return st;
}

static void dismantle(void *parts)
{
    struct program *p = parts;

    /* The threads go first: no job may return to a core that is gone. */
    prompt_threads_free(&p->prompts);
    gateway_free(&p->core);
    http_sockets_free(&p->http);
    daemon_disconnect(&p->daemon);
    keys_free(&p->keys);
    served_models_fini(&p->models);
}

static const struct daemon_program program = {
    .options = &gateway_program,
    .limits = gateway_limits,
    .list_metrics = figures_list,
    .check = check,
    .print = print,
    .assemble = assemble,
    .dismantle = dismantle,
    .is_up = is_up,
    .is_ready = is_ready,
    .render = render,
    .status = write_status,
    .print_state = print_state,
    .reload = reload,
    .stop = stop,
    .end = end,
};

int main(int argc, char **argv)
{
    static struct program p;

    json_object_seed(0); /* threads parse JSON too: once, before they start */
    FAILPOINT_START(argc, argv);
    return daemon_main(&p.daemon, &program, &p, &p.args, argc, argv);
}
