#include "client/front/serve_group.h"

#include <string.h>
#include <unistd.h>

#include "client/front/private_dir.h"
#include "client/front/process.h"
#include "common/model/checkpoint.h"
#include "common/model/config.h"
#include "common/model/directory.h"

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

enum status serve_group_model(struct serve_args *a, int n_words, char **words,
                              struct error *e)
{
    if (n_words != 1) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%d operands; one MODEL_DIR is required, and options "
                         "of the workers stand after --",
                         n_words);
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

static void on_up(void *arg, const char *line)
{
    const struct bound *b = arg;

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
            c->name, c->level == 1 ? "loading" : "starting", c->argv, c->level};
    }
    return group_run(&options, e);
}

enum status serve_group_run(struct serve_args *a, const struct serve_hooks *h,
                            struct error *e)
{
    char dir[PRIVATE_DIR_SIZE], router[SERVE_PATH_MAX], worker[SERVE_PATH_MAX],
        gateway[SERVE_PATH_MAX];
    struct serve_plan plan;
    enum status st = private_dir_make(dir, e);

    if (st != ST_OK) {
        return st;
    }
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
    serve_plan_fini(&plan);
    private_dir_remove(dir);
    return st;
}
