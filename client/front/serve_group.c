#include "client/front/serve_group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/front/http_client.h"
#include "client/front/private_dir.h"
#include "client/front/private_env.h"
#include "client/front/process.h"
#include "client/front/serve_check.h"
#include "common/base/local_cluster.h"
#include "common/model/checkpoint.h"
#include "common/model/config.h"
#include "common/model/directory.h"

/* So often, and so long after each other, the gateway is asked whether it has a
 * model. */
#define READY_TRIES    250
#define READY_PAUSE_MS 20

/* ---- the arguments ---- */

int serve_group_extra(int argc, char **argv, struct serve_args *a)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            a->extra = argv + i + 1;
            a->n_extra = (size_t)(argc - i - 1);
            return i;
        }
    }
    return argc;
}

/* Reads everything but the weights, so that a broken model is reported once and
 * before any program starts. */
static enum status check_model(const char *model, struct error *e)
{
    struct model_config config;
    struct checkpoint *files = NULL;
    enum status st = directory_check(
        model, DIRECTORY_CONFIG | DIRECTORY_TOKENIZER | DIRECTORY_WEIGHTS, e);

    st = st == ST_OK ? config_load(&config, model, e) : st;
    st = st == ST_OK ? checkpoint_open(&files, model, e) : st;
    checkpoint_close(&files);
    return st == ST_OK ? ST_OK : error_wrap(e, "%s", model);
}

enum status serve_group_model(struct serve_args *a, const char *option,
                              int n_words, char **words, struct error *e)
{
    if (option != NULL && n_words == 0) {
        a->model = option;
        return check_model(a->model, e);
    }
    if (n_words != 1 || option != NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%d operands%s; one MODEL_DIR, a model directory or a "
                         "GGUF file, is required, and options of the workers "
                         "stand after --",
                         n_words, option != NULL ? " and --model" : "");
    }
    a->model = words[0];
    return check_model(a->model, e);
}

enum status serve_group_workers(struct serve_args *a, uint32_t workers,
                                uint32_t stages, struct error *e)
{
    long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);

    if (workers > 0 && stages > 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--workers and --stages exclude each other");
    }
    a->n_stages = stages;
    a->n_workers = stages > 0 ? stages : workers > 0 ? workers : 1;
    a->n_cpus = n_cpus > 0 ? (uint32_t)n_cpus : 1;
    return ST_OK;
}

/* ---- the group ---- */

struct bound {
    const struct serve_hooks *hooks;
    const struct serve_args *args;
    const struct serve_plan *plan;
};

/* Adds or removes the record by which sluicectl finds the router.  Without it
 * sluicectl needs --router, which is printed. */
static void record(const struct serve_args *a,
                   void (*change)(const char *endpoint))
{
    char endpoint[LOCAL_CLUSTER_BYTES];

    snprintf(endpoint, sizeof endpoint, "ipc://%s/clients", a->dir);
    change(endpoint);
}

/* A gateway asks the router for its models: until one is in its list, clients
 * would find none. */
static void await_models(const char *line)
{
    const struct timespec pause = {.tv_nsec = READY_PAUSE_MS * 1000000L};
    struct http_client *http;
    enum status st = ST_UNAVAILABLE;
    char url[512];
    struct error e;

    /* Its certificate may be for another name than this address. */
    if (!serve_plan_url(line, url, sizeof url) ||
        strncmp(url, "https", 5) == 0 ||
        http_client_new(&http, url, NULL, &e) != ST_OK) {
        return;
    }
    for (int i = 0; i < READY_TRIES && st != ST_OK && st != ST_CANCELLED; i++) {
        char *body = NULL;
        size_t n;

        st = http_client_get(http, "/ready", &body, &n, &e);
        if (st == ST_OK) {
            free(body);
        } else {
            nanosleep(&pause, NULL);
        }
    }
    http_client_free(&http);
}

static void on_up(void *arg, const char *line)
{
    const struct bound *b = arg;

    await_models(line);
    if (b->args->listen_host != NULL) { /* people may want to look at it */
        record(b->args, local_cluster_add);
    }
    b->hooks->up(b->hooks->arg, b->args, b->plan, line);
}

static char *const *on_next(void *arg, int code)
{
    const struct bound *b = arg;

    return b->hooks->next_job(b->hooks->arg, code);
}

static enum status run_plan(const struct serve_args *a,
                            const struct serve_plan *plan,
                            const struct serve_hooks *h, struct error *e)
{
    struct group_child children[SERVE_WORKERS_MAX + 2];
    struct bound bound = {h, a, plan};
    struct group_options options = {.children = children,
                                    .n = plan->n,
                                    .log_dir = h->log_dir,
                                    .progress = h->progress,
                                    .up = on_up,
                                    .next_job =
                                        h->next_job != NULL ? on_next : NULL,
                                    .arg = &bound};

    for (uint32_t i = 0; i < plan->n; i++) {
        const struct serve_command *c = &plan->commands[i];

        children[i] = (struct group_child){
            c->name, c->stop_level == 1 ? "loading" : "starting", c->argv,
            c->start_level, c->stop_level};
    }
    return group_run(&options, e);
}

static void clean_environment(void)
{
    char name[128], more[32] = "";
    unsigned n = private_env_clean(name, sizeof name);

    if (n > 1) {
        snprintf(more, sizeof more, " and %u others", n - 1);
    }
    if (n > 0) {
        fprintf(stderr,
                "the environment's %s%s count%s for no program of this group; "
                "give options after --, or with --router-option and "
                "--gateway-option\n",
                name, more, n > 1 ? "" : "s");
    }
}

enum status serve_group_run(struct serve_args *a, const struct serve_hooks *h,
                            struct error *e)
{
    char dir[PRIVATE_DIR_SIZE], router[SERVE_PATH_MAX], worker[SERVE_PATH_MAX],
        gateway[SERVE_PATH_MAX];
    struct serve_plan plan;
    enum status st = serve_check_address(a, e);

    st = st == ST_OK ? private_dir_make(dir, e) : st;
    if (st != ST_OK) {
        return st;
    }
    clean_environment();
    process_find("sluice-router", router, sizeof router);
    process_find("sluice-worker", worker, sizeof worker);
    process_find("sluice-gateway", gateway, sizeof gateway);
    a->dir = dir;
    a->router = router;
    a->worker = worker;
    a->gateway = gateway;
    st = serve_plan_make(a, &plan, e);
    if (st == ST_OK) {
        st = run_plan(a, &plan, h, e);
    }
    if (a->listen_host != NULL) {
        record(a, local_cluster_remove);
    }
    serve_plan_fini(&plan);
    private_dir_remove(dir);
    return st;
}
