/* main.c - sluice-router: its options, and its parts put together. */
#include <stdlib.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/daemon/daemon.h"
#include "common/sampling/sampling.h"
#include "common/wire/door_rules.h"
#include "common/wire/method.h"
#include "router/args.h"
#include "router/base/named_numbers.h"
#include "router/record_file.h"
#include "router/router_core.h"
#include "router/tokenizers.h"
#include "text/text_limits.h"

#define WORKERS (ROUTER_WORKERS_MAX + OFFERS_MAX)
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
    LIMIT_ROW(RECORD_LINE_MAX, "bytes", "a line of a recording"),
    LIMIT_ROW(RECORD_BUFFER_BYTES, "bytes",
              "lines of a recording that are not written yet"),
    LIMIT_ROW(RECORD_BYTES_MOST, "bytes", "a recording"),
};
static const size_t router_limits_n = OPTION_COUNT(router_limits);

/* A router with less for requests does not start. */
#define REQUESTS_LEAST (1u << 20)

/* Returns the bytes that open requests may hold: the other half of what is left
 * is for peers: frames, their queues, and libraries. */
static size_t requests_share(void)
{
    return (size_t)(memory_left("") / 2);
}

static void print_share(FILE *to)
{
    const struct limit_row row = {
        "REQUESTS_BYTES", requests_share(), "bytes",
        "open requests, here: half of the memory that is left"};

    limits_print(to, &row, 1);
}

static const struct limit_table limits[] = {
    {sampling_limits, &sampling_limits_n, NULL},
    {base_limits, &base_limits_n, NULL},
    {router_limits, &router_limits_n, NULL},
    {text_limits, &text_limits_n, NULL},
    {scrape_limits, &scrape_limits_n, NULL},
    {NULL, NULL, print_share},
    {NULL, NULL, NULL},
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
    struct daemon daemon;
    struct router_args args;
    struct tokenizers tokenizers;
    struct named_numbers weights, places;
    struct text_threads *text;
    struct record_file *record;
    struct recorder *recorder;
    struct router_core *core;
};

static void on_text(void *arg, int fd)
{
    struct program *p = arg;

    (void)fd;
    text_threads_quiet(p->text); /* the tick that follows polls the jobs */
}

/* SIGHUP reloads nothing here: tokenizers must stay those of the workers. */
static void stop(void *parts)
{
    struct program *p = parts;

    log_info("stopping", "reason=signal");
    router_stop(p->core);
}

static int end(void *parts)
{
    struct program *p = parts;

    router_log_metrics(p->core);
    return EXIT_SUCCESS;
}

static void write_status(void *parts, char *text, size_t cap)
{
    const struct program *p = parts;

    router_line(p->core, text, cap);
}

static void render(void *parts, struct metric_page *page)
{
    struct program *p = parts;

    router_page(p->core, page);
}

static void print_state(const void *parts)
{
    const struct program *p = parts;
    const struct transport *t = p->daemon.transport;

    printf("workers %s, clients %s", transport_endpoint(t, 0),
           transport_endpoint(t, 1));
    if (p->args.admins != NULL) {
        printf(", administrators %s", transport_endpoint(t, 2));
    }
    fputs(", models with text:", stdout);
    for (uint32_t i = 0; i < p->tokenizers.n; i++) {
        printf(" %s", p->tokenizers.names[i]);
    }
    fputs(p->tokenizers.n == 0 ? " none" : "", stdout);
}

static void allow_peers(const struct router_args *a)
{
    char figures[64];

    snprintf(figures, sizeof figures, "max_peers=%u max_admins=%u",
             a->max_peers, a->max_admins);
    daemon_descriptors((uint64_t)a->max_peers + a->max_admins + WORKERS +
                           OWN_DESCRIPTORS,
                       figures, "peer", "--max-peers");
}

static enum status open_ports(struct program *p, struct error *e)
{
    const struct router_args *a = &p->args;
    bool apart = a->admins != NULL;
    const struct transport_port ports[] = {
        {a->workers, BY_WORKER, false},
        {a->clients, apart ? BY_CLIENT : BY_CLIENT | BY_ADMIN, false},
        {a->admins, BY_ADMIN, false},
    };
    uint32_t n = a->max_connections, each = a->max_per_address;
    struct transport **t = &p->daemon.transport;
    enum status st =
        transport_listen(t, ports, apart ? 3 : 2, p->daemon.keys, e);

    for (unsigned i = 0; st == ST_OK && i < (apart ? 3 : 2); i++) {
        transport_limit(*t, i, n, each > 0 ? each : door_share(n));
    }
    return st;
}

static enum status check_limits(const struct router_args *a, struct error *e)
{
    if (a->worker_lost >= a->worker_silent) {
        return ST_OK;
    }
    return error_set(e, ST_INVALID_ARGUMENT,
                     "--worker-lost %u ms is less than --worker-silent %u ms; "
                     "raise it or lower the other",
                     (unsigned)a->worker_lost, (unsigned)a->worker_silent);
}

static struct router_options options_of(const struct program *p)
{
    const struct router_args *a = &p->args;

    return (struct router_options){
        .name = a->name,
        .memory_bytes = requests_share(),
        .max_peers = a->max_peers,
        .max_admins = a->max_admins,
        .max_requests = a->max_requests,
        .max_waiting = a->max_waiting,
        .kept = a->kept,
        .tenant_quota = a->tenant_quota,
        .retry_budget = a->retry_budget,
        .queue_timeout_us = (int64_t)a->queue_timeout * 1000,
        .gather_us = (int64_t)a->gather * 1000,
        .headroom = a->headroom,
        .admission = strcmp(a->admission, "strict") == 0 ? ADMISSION_STRICT
                                                         : ADMISSION_EXPECTED,
        .suspensions = (uint32_t)(a->suspensions * 10000 + 0.5),
        .silent_us = (int64_t)a->worker_silent * 1000,
        .lost_us = (int64_t)a->worker_lost * 1000,
        .hung_us = (int64_t)a->worker_hung * 1000,
        .worker_wait_us = (int64_t)a->worker_wait * 1000,
        .weights = p->weights.of,
        .n_weights = p->weights.n,
        .places = p->places.of,
        .n_places = p->places.n,
        .mixed_arithmetic = a->mixed_arithmetic,
        .keyed = p->daemon.keys != NULL,
        .text = text_threads_seam(p->text),
        .recorder = p->recorder};
}

static enum status check_admission(const struct router_args *a, struct error *e)
{
    if (strcmp(a->admission, "strict") == 0 ||
        strcmp(a->admission, "expected") == 0) {
        return ST_OK;
    }
    return error_set(e, ST_INVALID_ARGUMENT,
                     "--admission: \"%.40s\" is not \"strict\" or "
                     "\"expected\"",
                     a->admission);
}

static enum status parse_names(struct program *p, struct error *e)
{
    enum status st = named_numbers_parse(&p->weights, &weight_rule,
                                         &p->args.tenant_weight, e);

    return st == ST_OK ? named_numbers_parse(&p->places, &places_rule,
                                             &p->args.places, e)
                       : st;
}

static enum status begin_recording(struct program *p, struct error *e)
{
    enum status st;

    if (p->args.record == NULL) {
        return ST_OK;
    }
    st = record_file_new(&p->record, p->args.record, e);
    if (st != ST_OK) {
        return st;
    }
    p->recorder = recorder_new(record_file_sink(p->record));
    return p->recorder != NULL
               ? ST_OK
               : error_set(e, ST_RESOURCE_EXHAUSTED, "--record: no memory");
}

static enum status assemble(void *parts, struct error *e)
{
    struct program *p = parts;
    struct daemon *d = &p->daemon;
    struct tokenizers *t = &p->tokenizers;
    struct router_options o;
    enum status st;

    allow_peers(&p->args);
    st = check_admission(&p->args, e);
    st = st == ST_OK ? check_limits(&p->args, e) : st;
    st = st == ST_OK ? parse_names(p, e) : st;
    /* Keys and ports first, so that what is wrong with them is reported before
     * tokenizers are loaded.  Peers wait in the backlog meanwhile. */
    st = st == ST_OK ? daemon_keys(d, e) : st;
    st = st == ST_OK ? open_ports(p, e) : st;
    st = st == ST_OK ? daemon_metrics(d, e) : st;
    st = st == ST_OK ? tokenizers_load(t, &p->args.model, e) : st;
    if (st == ST_OK) {
        st = text_threads_new(&p->text, t->models, t->n, p->args.text_threads,
                              e);
    }
    if (st == ST_OK && requests_share() < REQUESTS_LEAST) {
        st = error_set(e, ST_RESOURCE_EXHAUSTED,
                       "%.1f MiB of memory are left for requests, at least "
                       "%.1f MiB are needed; raise the limit of the process "
                       "(ulimit -v, MemoryMax=) or lower --text-threads",
                       (double)requests_share() / (1 << 20),
                       (double)REQUESTS_LEAST / (1 << 20));
    }
    st = st == ST_OK ? begin_recording(p, e) : st;
    if (st == ST_OK) {
        /* The core comes last: from here on frames and jobs reach it. */
        o = options_of(p);
        p->core = router_new(&o, transport_io(d->transport));
        daemon_node(d, &router_node_ops, p->core);
        loop_add(&d->loop, text_threads_fd(p->text), on_text, p);
    }
    return st;
}

static void dismantle(void *parts)
{
    struct program *p = parts;

    /* The core sends through the transport and uses the text seam: it goes
     * first. */
    router_free(&p->core);
    recorder_free(&p->recorder);
    record_file_free(&p->record);
    daemon_disconnect(&p->daemon);
    text_threads_free(&p->text);
    tokenizers_fini(&p->tokenizers);
}

static const struct daemon_program program = {
    .options = &about,
    .limits = limits,
    .list_metrics = router_list_metrics,
    .assemble = assemble,
    .dismantle = dismantle,
    .render = render,
    .status = write_status,
    .print_state = print_state,
    .stop = stop,
    .end = end,
};

int main(int argc, char **argv)
{
    static struct program p;

    FAILPOINT_START(argc, argv);
    return daemon_main(&p.daemon, &program, &p, &p.args, argc, argv);
}
