/* bench.c - `sluice bench`: a short standard load on a model or a server. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/front/bench_table.h"
#include "client/front/front.h"
#include "client/front/private_dir.h"
#include "client/front/process.h"
#include "client/front/serve_group.h"
#include "client/load/report/report.h"
#include "common/base/memory.h"

#define BENCH_OPTIONS(X)                                                      \
    X(target, STRING, "URL", NULL,                                            \
      "running server to load instead of a model: http://, https://, tcp:// " \
      "or ipc://",                                                            \
      0, 0)                                                                   \
    X(model, STRING, "NAME", NULL,                                            \
      "with --target: model of the server (default: the first that it "       \
      "lists); else model directory or GGUF file; also -m",                   \
      0, 0)                                                                   \
    X(key, STRING, "KEY", NULL,                                               \
      "API key; other users of this machine can see it (default: "            \
      "$SLUICE_API_KEY, or $OPENAI_API_KEY)",                                 \
      0, 0)                                                                   \
    X(profile, STRING, "NAME", NULL,                                          \
      "one named load; sluice-load --list-profiles lists them (default: the " \
      "standard loads)",                                                      \
      0, 0)                                                                   \
    X(duration, MS, "TIME", "10s", "time of each load", 100, 86400000)        \
    X(workers, U32, "N", NULL,                                                \
      "workers with the whole model each (default: 1)", 1, SERVE_WORKERS_MAX) \
    X(stages, U32, "N", NULL, "workers that split the model's layers", 2,     \
      SERVE_WORKERS_MAX)                                                      \
    X(device, LIST, "NAME", NULL,                                             \
      "compute device, for all workers or one for each (default: cpu)", 0,    \
      SERVE_WORKERS_MAX)                                                      \
    X(json, STRING, "FILE", NULL, "file for the results as JSON", 0, 0)       \
    X(html, STRING, "FILE", NULL, "file for a report as one HTML page", 0, 0) \
    X(help, FLAG, NULL, NULL, "print this text and exit", 0, 0)

OPTION_TABLE(bench_options, BENCH_OPTIONS);

struct bench {
    const struct bench_options *o;
    struct bench_common common;
    const struct bench_load *loads;    /* ended by one without words */
    const struct bench_load *current;  /* NULL: none has run */
    bool ended;                        /* every load has run */
    int code;                          /* enum front_exit, by the loads */
    struct result result;              /* the runs of all loads */
    const char *names[BENCH_ROWS_MAX]; /* [result.n_runs] */
    const char *argv[BENCH_WORDS];
    char target[SERVE_PATH_MAX], program[SERVE_PATH_MAX];
    char duration[32], json[PRIVATE_DIR_SIZE + 16];
};

/* ---- the loads ---- */

/* Moves the runs of a load to the result of the whole bench. */
static void take_runs(struct bench *b, struct result *part)
{
    const char *name = b->o->profile;
    uint32_t n = b->result.n_runs;

    for (uint32_t i = 0; i < part->n_runs; i++) {
        b->names[n + i] = name != NULL ? name : b->current->name;
        if (n > 0) {
            *result_add(&b->result) = part->runs[i];
            part->runs[i] = (struct run){0};
        }
    }
    if (n == 0) {
        b->result = *part;
        *part = (struct result){0};
    }
}

static enum status read_runs(struct bench *b, struct error *e)
{
    struct result part = {0};
    enum status st = report_read(&part, b->json, e);

    if (st == ST_OK && b->result.n_runs + part.n_runs > BENCH_ROWS_MAX) {
        st = error_set(e, ST_RESOURCE_EXHAUSTED,
                       "%u runs in one load; at most %d are shown", part.n_runs,
                       BENCH_ROWS_MAX);
    }
    if (st == ST_OK) {
        take_runs(b, &part);
    }
    result_fini(&part);
    return st;
}

/* Takes the end of a load.  Returns false if it has no result, for a reason
 * that sluice-load has printed.  The end of a warm-up does not count if it has
 * a result: the loads meet the same fault. */
static bool take_load(struct bench *b, int code)
{
    bool has = access(b->json, R_OK) == 0, counts = b->current->name != NULL;
    struct error e;

    if (!has || (counts && code != 0)) {
        b->code = code == FRONT_USAGE ? FRONT_USAGE : FRONT_FAILED;
    }
    if (has && counts && read_runs(b, &e) != ST_OK) {
        b->code = front_error(&bench_verb, FRONT_FAILED, e.text);
        has = false;
    }
    unlink(b->json);
    return has;
}

static char *const *next_job(void *arg, int code)
{
    struct bench *b = arg;

    if (b->current != NULL && !take_load(b, code)) {
        b->ended = true;
        return NULL;
    }
    b->current = b->current == NULL ? b->loads : b->current + 1;
    if (b->current->words[0] == NULL && b->current->name == NULL) {
        b->ended = true;
        return NULL;
    }
    bench_command(&b->common, b->current, b->argv);
    /* exec() takes no pointer to const, but changes nothing. */
    return (char *const *)(const void *)b->argv;
}

/* ---- what is loaded ---- */

static void on_group_up(void *arg, const struct serve_args *a,
                        const struct serve_plan *plan, const char *line)
{
    struct bench *b = arg;

    (void)plan;
    (void)line;
    snprintf(b->target, sizeof b->target, "ipc://%s/clients", a->dir);
}

static void on_target_up(void *arg, const char *line)
{
    (void)arg;
    (void)line;
}

static enum status bench_target(struct bench *b, struct error *e)
{
    struct group_options options = {
        .progress = stderr, .up = on_target_up, .next_job = next_job, .arg = b};

    snprintf(b->target, sizeof b->target, "%s", b->o->target);
    return group_run(&options, e);
}

static enum status bench_model(struct bench *b, struct serve_args *a,
                               struct error *e)
{
    struct serve_hooks hooks = {
        .progress = stderr, .up = on_group_up, .next_job = next_job, .arg = b};

    return serve_group_run(a, &hooks, e);
}

/* ---- the results ---- */

/* Replaces what sluice-load wrote of one load by what holds for all. */
static void describe(struct bench *b, const struct serve_args *a)
{
    struct result *r = &b->result;
    char *title = NULL, *target = NULL;
    int n = asprintf(&title, "sluice bench: %s", r->model);

    if (n >= 0 && a->model != NULL) {
        n = asprintf(&target, "%" PRIu32 " x sluice-worker of %s", a->n_workers,
                     a->model);
    } else if (n >= 0) {
        n = asprintf(&target, "%s", b->target);
    }
    if (n < 0) {
        (void)memory_must(NULL);
    }
    free(r->title);
    free(r->target);
    r->title = title;
    r->target = target;
}

/* Prints the table of what has been measured, and writes the files. */
static int publish(struct bench *b, const struct serve_args *a)
{
    struct result *r = &b->result;
    struct error e;
    enum status st;

    if (r->n_runs > 0) {
        describe(b, a);
        printf("\n%s, %s\n\n", r->title, r->target);
        bench_table(stdout, r, b->names);
        fflush(stdout);
        st = b->o->json != NULL ? report_write(b->o->json, report_json, r, &e)
                                : ST_OK;
        if (st == ST_OK && b->o->html != NULL) {
            st = report_write(b->o->html, report_html, r, &e);
        }
        if (st != ST_OK) {
            return front_error(&bench_verb, FRONT_FAILED, e.text);
        }
    }
    return b->ended ? b->code : FRONT_INTERRUPTED;
}

static int run_loads(struct bench *b, struct serve_args *a)
{
    char dir[PRIVATE_DIR_SIZE];
    struct error e;
    enum status st = private_dir_make(dir, &e);
    int code;

    if (st != ST_OK) {
        return front_error(&bench_verb, FRONT_FAILED, e.text);
    }
    snprintf(b->json, sizeof b->json, "%s/load.json", dir);
    st = b->o->target != NULL ? bench_target(b, &e) : bench_model(b, a, &e);
    code = st == ST_OK ? publish(b, a)
                       : front_error(&bench_verb, FRONT_USAGE, e.text);
    private_dir_remove(dir);
    result_fini(&b->result);
    return code;
}

/* ---- the command line ---- */

static enum status take_target(const struct bench_options *o, int n_words,
                               const struct serve_args *a, struct error *e)
{
    if (n_words > 0 || a->n_extra > 0 || o->workers > 0 || o->stages > 0 ||
        o->device.n > 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--target loads a running server; MODEL_DIR, "
                         "--workers, --stages, --device and words after -- "
                         "start one");
    }
    if (o->key != NULL && setenv("SLUICE_API_KEY", o->key, 1) != 0) {
        return error_set(e, ST_UNAVAILABLE, "cannot pass --key on: %s",
                         strerror(errno));
    }
    return ST_OK;
}

static enum status take_model(const struct bench_options *o, int n_words,
                              char **words, struct serve_args *a,
                              struct error *e)
{
    enum status st;

    if (o->key != NULL) {
        return error_set(e, ST_INVALID_ARGUMENT, "--key belongs to --target");
    }
    if (n_words == 0 && o->model == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "one MODEL_DIR is required, or --target URL");
    }
    st = serve_group_workers(a, o->workers, o->stages, e);
    a->devices = o->device;
    a->log_level = "warn";
    return st == ST_OK ? serve_group_model(a, o->model, n_words, words, e) : st;
}

static void prepare(struct bench *b, const struct bench_options *o)
{
    static const struct bench_load named[] = {{"", {NULL}}, {NULL, {NULL}}};

    b->o = o;
    b->loads = o->profile != NULL ? named : bench_standard;
    process_find("sluice-load", b->program, sizeof b->program);
    snprintf(b->duration, sizeof b->duration, "%" PRIu64 "ms", o->duration);
    b->common =
        (struct bench_common){.program = b->program,
                              .target = b->target,
                              .model = o->target != NULL ? o->model : NULL,
                              .profile = o->profile,
                              .duration = b->duration,
                              .json = b->json};
}

static int run(int argc, char **argv)
{
    static struct bench b; /* its result is large */
    struct serve_args a = {0};
    struct bench_options o;
    struct error e;
    int n_words;
    enum status st;

    argc = serve_group_extra(argc, argv, &a);
    st = option_parse(bench_options_rows, OPTION_COUNT(bench_options_rows), &o,
                      argc, argv, &n_words, &e);
    if (st == ST_OK && o.help) {
        front_print_help(&bench_verb);
        return FRONT_OK;
    }
    if (st == ST_OK) {
        st = o.target != NULL ? take_target(&o, n_words, &a, &e)
                              : take_model(&o, n_words, argv + 1, &a, &e);
    }
    if (st != ST_OK) {
        return front_error(&bench_verb, FRONT_USAGE, e.text);
    }
    prepare(&b, &o);
    return run_loads(&b, &a);
}

const struct front_verb bench_verb = {
    .name = "bench",
    .operands = "MODEL_DIR [options] [-- options of sluice-worker]",
    .summary = "measure a model or a server with a short standard load",
    .more = "MODEL_DIR is a model directory or a GGUF file.\n"
            "A private cluster serves the model, sluice-load loads it, and the "
            "cluster\n"
            "stops.  The standard loads are decode of 1, 8 and 32 requests at "
            "once (x1, x8,\n"
            "x32), with prompts of 128 tokens and 128 tokens of output, and "
            "prefill of 4\n"
            "prompts at once with 2,048 tokens each.  Longer prompts than the "
            "context are\n"
            "scaled down.  in and out are tokens of a request, in/s and out/s "
            "tokens per\n"
            "second.  docs/load.md defines the other columns.\n\n"
            "examples:\n"
            "  sluice bench models/tiny-hybrid\n"
            "  sluice bench models/tiny-hybrid --workers 2 --html bench.html\n"
            "  sluice bench --target http://127.0.0.1:8000 --profile chat\n\n"
            "exit codes: 0 measured, 1 a load failed or is no measurement, 2 "
            "wrong\n"
            "options or could not start, 130 stopped by Ctrl-C\n",
    .rows = bench_options_rows,
    .n_rows = OPTION_COUNT(bench_options_rows),
    .run = run,
};
