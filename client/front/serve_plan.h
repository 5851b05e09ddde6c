/* serve_plan.h - The command lines of `sluice serve` and `sluice bench`.
 *
 * Router, workers and gateway speak over ipc sockets in one private directory.
 * The levels of the stop are router 0, workers 1, gateway 2.  The gateway
 * starts beside the workers, so that what is wrong with its options is reported
 * before a long load.
 *
 * Threading: none.  Memory: the plan owns its words.  Pure.
 * Limits: SERVE_WORKERS_MAX, SERVE_EXTRA_MAX. */
#ifndef CLIENT_FRONT_SERVE_PLAN_H
#define CLIENT_FRONT_SERVE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/option.h"
#include "common/base/status.h"

#define SERVE_WORKERS_MAX 64
#define SERVE_EXTRA_MAX   64 /* words after -- */
#define SERVE_PATH_MAX    4096

struct serve_args {
    const char *model; /* directory, or GGUF file */
    const char *name;  /* NULL: the last part of model */
    uint32_t n_workers;
    uint32_t n_stages; /* 0: each worker serves the whole model */
    uint32_t n_cpus;
    struct option_list devices; /* none, one for all, or one a worker */
    const char *listen_host;    /* NULL: no gateway */
    uint32_t port;
    /* Options that only the gateway reads; NULL: its default. */
    const char *keys, *tls_cert, *tls_key, *cors;
    uint32_t max_tokens; /* 0: its default */
    struct option_list allow_hosts;
    const char *log_level;
    const char *dir; /* private directory of the sockets */
    struct option_list router_options, gateway_options; /* NAME[=VALUE] */
    char *const *extra; /* [n_extra] words for each worker */
    size_t n_extra;
    /* Paths of the programs. */
    const char *router, *worker, *gateway;
};

struct serve_command {
    char name[16]; /* "router", "w1" .., "gateway" */
    uint32_t start_level, stop_level;
    char **argv; /* [n], ended by NULL */
    size_t n, size;
};

struct serve_plan {
    char model_name[256];
    struct serve_command *commands; /* [n] */
    uint32_t n;
};

/* Fills *out.  Returns ST_INVALID_ARGUMENT and a sentence if arguments are
 * wrong or contradict one another.  On any result serve_plan_fini() is due. */
MUST_CHECK enum status serve_plan_make(const struct serve_args *args,
                                       struct serve_plan *out, struct error *e);

void serve_plan_fini(struct serve_plan *p);

/* Writes the URL of a gateway's ready line.  Returns false if the line has
 * none, or if the URL has size bytes or more. */
bool serve_plan_url(const char *ready, char *url, size_t size);

#endif
