#include "common/daemon/daemon.h"
#include "common/daemon/malloc_bounds.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/log_output.h"
#include "common/base/option_generate.h"
#include "common/base/option_value.h"
#include "common/base/std_fds.h"

/* By name, because each daemon has its own struct of options, in the order in
 * which its --help lists them.  A search costs a few compares, once. */
const void *daemon_field(const struct daemon *d, const char *name)
{
    const struct option_program *p = d->program->options;
    const struct option_row *row =
        option_find(p->rows, p->n_rows, name, strlen(name));

    return row != NULL ? (const char *)d->args + row->offset : NULL;
}

static int fail(const struct daemon_program *p, const struct error *e)
{
    fprintf(stderr, "%s: %s\n", p->options->name, e->text);
    return DAEMON_EXIT_SETUP;
}

/* Ends a program that only prints. */
static int end_output(const struct daemon_program *p, enum status st,
                      struct error *e)
{
    st = st == ST_OK ? std_out_end(e) : st;
    return st == ST_OK ? EXIT_SUCCESS : fail(p, e);
}

static const char *text_of(const struct daemon *d, const char *name)
{
    const char *const *field = daemon_field(d, name);

    return field != NULL ? *field : NULL;
}

static enum status open_log(const struct daemon *d, struct error *e)
{
    struct log_options o = {.level = text_of(d, "log_level"),
                            .file = text_of(d, "log_file"),
                            .requests = text_of(d, "log_requests")};
    enum status st = log_start(&o, e);

    if (st == ST_OK) {
        option_sources_log(&d->sources);
    }
    return st;
}

static enum status run_command(const struct daemon *d, daemon_command_fn *run,
                               bool *done, struct error *e)
{
    return run != NULL ? run(d->parts, done, e) : ST_OK;
}

/* Does all that comes before serving.  Sets *done if nothing is to follow. */
static enum status prepare(struct daemon *d, int argc, char **argv, bool *done,
                           struct error *e)
{
    const struct daemon_program *p = d->program;
    enum status st =
        option_sources_load(&d->sources, p->options, d->args, argc, argv, e);

    if (st == ST_OK && p->check != NULL) {
        st = p->check(d->parts, e);
    }
    if (st == ST_OK) {
        st = run_command(d, p->print, done, e);
    }
    if (st == ST_OK && !*done) {
        *done = daemon_print(d);
    }
    if (st == ST_OK && !*done) {
        st = open_log(d, e);
        st = st == ST_OK ? run_command(d, p->command, done, e) : st;
    }
    return st;
}

/* The endpoint goes first, because its page reads the parts; the notify last,
 * so that the manager waits for all of it. */
static void fini(struct daemon *d)
{
    scrape_free(&d->scrape);
    d->program->dismantle(d->parts);
    daemon_disconnect(d);
    notify_close(&d->notify);
    option_sources_fini(&d->sources);
}

static int run(struct daemon *d)
{
    struct error e;
    enum status st;
    int code;

    if (notify_open(&d->notify, &e) != ST_OK) {
        log_warn("notify-off", "why=\"%s\"", e.text);
    }
    notify_status(&d->notify, d->program->status, d->parts);
    /* Before assemble(), which may start threads: they inherit the mask. */
    d->signals = loop_signals();
    st = d->program->assemble(d->parts, &e);
    if (st == ST_OK) {
        daemon_serve(d);
        code = d->program->end(d->parts);
    } else {
        /* Before the parts go, because they may wait for threads. */
        code = st == ST_CANCELLED ? EXIT_SUCCESS : fail(d->program, &e);
    }
    fini(d);
    return code;
}

int daemon_main(struct daemon *d, const struct daemon_program *program,
                void *parts, void *args, int argc, char **argv)
{
    const char *kind = option_generate_kind(argc, argv);
    bool done = false;
    struct error e;
    enum status st;

    /* Before any file is opened, which would become descriptor 0, 1 or 2. */
    std_fds_reserve();
    (void)malloc_bounds_set(); /* without them it serves as well */
    if (kind != NULL) {
        st = option_generate(stdout, program->options, kind, &e);
        return end_output(program, st, &e);
    }
    *d = (struct daemon){.program = program, .parts = parts, .args = args};
    st = prepare(d, argc, argv, &done, &e);
    if (st != ST_OK || done) {
        return end_output(program, st, &e);
    }
    return run(d);
}
