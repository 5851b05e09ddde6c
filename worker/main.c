/* sluice-worker: its modes and exit codes. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/descriptors.h"
#include "common/base/failpoint.h"
#include "common/base/option_generate.h"
#include "common/base/std_fds.h"
#include "worker/model/check.h"
#include "worker/program.h"

#define EXIT_SETUP  2
#define EXIT_ENGINE 5
#define EXIT_DEVICE 6

/* Runs --check DIR.  --memory must be bytes then, because a share would depend
 * on this machine. */
static enum status check_model(const struct program *p, struct error *e)
{
    const struct worker_args *a = &p->args;
    struct check_options o = {.block_tokens = a->block_tokens,
                              .chunk_tokens = args_chunk(a),
                              .context = a->context,
                              .max_rows = a->max_rows,
                              .slots = a->slots,
                              .kv = args_kv(a),
                              .step = args_step(a, a->context)};
    struct args_drafts drafts;
    enum status st = args_drafts(a, &drafts, e);

    if (st != ST_OK) {
        return st;
    }
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
    st = model_check(stdout, a->check, &o, e);
    return st == ST_OK ? std_out_end(e) : st;
}

static int print_error(const struct error *e)
{
    fprintf(stderr, "sluice-worker: %s\n", e->text);
    return EXIT_SETUP;
}

int main(int argc, char **argv)
{
    static struct program p;
    const char *kind = option_generate_kind(argc, argv);
    struct error e;
    enum status st;

    std_fds_reserve();
    if (kind != NULL) {
        return option_generate(stdout, &args_program, kind, &e) == ST_OK &&
                       std_out_end(&e) == ST_OK
                   ? EXIT_SUCCESS
                   : print_error(&e);
    }
    FAILPOINT_START(argc, argv);
    if (args_parse(&p.args, argc, argv, &e) != ST_OK) {
        return print_error(&e);
    }
    if (args_print(&p.args)) {
        return std_out_end(&e) == ST_OK ? EXIT_SUCCESS : print_error(&e);
    }
    if (args_check(&p.args, &e) != ST_OK) {
        return print_error(&e);
    }
    if (p.args.check != NULL) {
        args_choose_steps(&p.args, args_on_gpu(&p.args));
        return check_model(&p, &e) == ST_OK ? EXIT_SUCCESS : print_error(&e);
    }
    descriptors_raise();
    if (notify_open(&p.notify, &e) != ST_OK) {
        log_warn("notify-off", "why=\"%s\"", e.text);
    }
    p.signals = loop_signals();
    /* After the signals are blocked: a driver starts threads of its own, which
     * would otherwise receive them. */
    args_choose_steps(&p.args, args_on_gpu(&p.args));
    st = program_begin(&p, &e);
    st = st == ST_OK ? program_offer(&p, &e) : st;
    st = st == ST_OK ? program_load(&p, &e) : st;
    if (st != ST_OK) {
        int rc = st == ST_CANCELLED ? EXIT_SUCCESS : print_error(&e);

        program_stop(&p); /* after the message, because it waits for threads */
        return rc;
    }
    program_run(&p);
    worker_log_metrics(p.core);
    if (worker_failed(p.core)) {
        transport_free(&p.transport); /* sends Goodbye */
        /* The engine's thread may never return, so it is not joined. */
        _exit(worker_lost(p.core) ? EXIT_DEVICE : EXIT_ENGINE);
    }
    program_stop(&p);
    return EXIT_SUCCESS;
}
