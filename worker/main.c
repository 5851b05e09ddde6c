/* main.c - sluice-worker: its modes and exit codes. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/descriptors.h"
#include "common/base/failpoint.h"
#include "kernels/opencl/host/device.h"
#include "worker/model/check.h"
#include "worker/program.h"

#define EXIT_ENGINE 5
#define EXIT_DEVICE 6

/* Runs --check DIR.  --memory must be bytes then, because a share would depend
 * on this machine. */
static enum status check_model(const struct program *p, struct error *e)
{
    const struct worker_args *a = &p->args;
    char device[ARITHMETIC_SIZE];
    struct check_options o = {.block_tokens = a->block_tokens,
                              .chunk_tokens = args_chunk(a),
                              .context = a->context,
                              .max_rows = a->max_rows,
                              .slots = a->slots,
                              .kv = args_kv(a),
                              .device =
                                  strcmp(a->device, "cpu") != 0 ? device : NULL,
                              .step = args_step(a, a->context)};
    struct args_drafts drafts;
    enum status st = args_drafts(a, &drafts, e);

    if (st != ST_OK) {
        return st;
    }
    args_arithmetic(a, WEIGHT_PLAIN, device);
    o.drafts = drafts.most;
    o.from_text = drafts.drafter == DRAFTER_NGRAM;
    if (a->memory != NULL && !option_bytes(a->memory, &o.budget_bytes)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--memory %s: with --check, give a size such as 4GiB",
                         a->memory);
    }
    if (a->layers != NULL &&
        args_layers(a->layers, &o.begin, &o.end, e) != ST_OK) {
        return e->code;
    }
    return model_check(stdout, a->check, &o, e);
}

static enum status check(void *parts, struct error *e)
{
    struct program *p = parts;

    (void)e;
    args_choose_depth(&p->args);
    return ST_OK;
}

static enum status print(void *parts, bool *done, struct error *e)
{
    const struct program *p = parts;

    (void)e;
    *done = !p->args.help && strcmp(p->args.device, "list") == 0;
    if (*done) {
        opencl_devices_print(stdout);
    }
    return ST_OK;
}

static enum status command(void *parts, bool *done, struct error *e)
{
    struct program *p = parts;
    enum status st = args_check(&p->args, e);

    *done = p->args.check != NULL;
    if (st == ST_OK && *done) {
        args_choose_steps(&p->args, args_on_gpu(&p->args));
        st = check_model(p, e);
    }
    return st;
}

static enum status assemble(void *parts, struct error *e)
{
    struct program *p = parts;
    enum status st;

    descriptors_raise();
    /* After the signals are blocked: a driver starts threads of its own, which
     * would otherwise receive them. */
    args_choose_steps(&p->args, args_on_gpu(&p->args));
    st = program_begin(p, e);
    st = st == ST_OK ? program_offer(p, e) : st;
    return st == ST_OK ? program_load(p, e) : st;
}

static void dismantle(void *parts)
{
    program_stop(parts);
}

static bool is_up(const void *parts)
{
    const struct program *p = parts;

    return worker_is_up(p->core);
}

static void render(void *parts, struct metric_page *page)
{
    const struct program *p = parts;

    worker_page(p->core, page);
}

static void print_state(const void *parts)
{
    program_print(parts);
}

/* The first signal drains the worker, the second stops it at once. */
static void stop(void *parts)
{
    struct program *p = parts;

    worker_leave(p->core, (uint32_t)p->args.grace);
}

static int end(void *parts)
{
    struct program *p = parts;

    worker_log_metrics(p->core);
    if (worker_failed(p->core)) {
        daemon_disconnect(&p->daemon); /* sends Goodbye */
        /* The engine's thread may never return, so it is not joined. */
        _exit(worker_lost(p->core) ? EXIT_DEVICE : EXIT_ENGINE);
    }
    return EXIT_SUCCESS;
}

static const struct daemon_program program = {
    .options = &args_program,
    .limits = args_limits,
    .list_metrics = args_list_metrics,
    .check = check,
    .print = print,
    .command = command,
    .assemble = assemble,
    .dismantle = dismantle,
    .is_up = is_up,
    .is_ready = is_up,
    .render = render,
    .status = program_status,
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
