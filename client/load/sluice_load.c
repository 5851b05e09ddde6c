/* sluice_load.c - The program sluice-load: options, verbs, results. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "client/load/drive/drive_limits.h"
#include "client/load/figures/figures_limits.h"
#include "client/load/load_series.h"
#include "client/load/load_verdict.h"
#include "client/load/plan/plan_limits.h"
#include "client/load/report/report.h"
#include "client/load/report/report_limits.h"
#include "common/base/limit.h"
#include "common/base/option_generate.h"
#include "common/base/std_fds.h"

#define NAME "sluice-load"

static const struct limit_row load_limits[] = {
    LIMIT_ROW(LOAD_SWEEP_MAX, "loads", "--sweep"),
};

static int fail(int code, const char *sentence)
{
    fprintf(stderr, NAME ": %s\n", sentence);
    return code;
}

static const char usage[] =
    "usage: sluice-load [options]\n"
    "       sluice-load compare A.json B.json\n"
    "       sluice-load merge A.json B.json... [--json FILE] [--html FILE]\n"
    "\n"
    "Loads a sluice router or any OpenAI-compatible server, and measures it.\n"
    "Latencies count from the intended start of a request; failures stay in\n"
    "the tail.\n"
    "\n"
    "A SPREAD is 1024, 512..2048, normal:MEAN,DEVIATION, "
    "lognormal:MEDIAN,SIGMA\nor exp:MEAN; of times, exp:2s.\n\n";

static const char examples[] =
    "\nexamples:\n"
    "  sluice-load --rate 10 --duration 1m --html report.html\n"
    "  sluice-load --target http://127.0.0.1:8000 --profile chat\n"
    "  sluice-load --search rate --slo ttft=500ms --slo tpot=50ms\n"
    "  sluice-load --rate 5 --check-outputs 8 --at '10s kill -9 1234'\n\n"
    "Exit code: 0 if measured and every check passed; 1 if a run failed, "
    "outputs\ndiffer, memory leaked or no request succeeded; 2 for wrong "
    "usage; 3 if the\ngenerator was too late to measure; 4 if objectives "
    "were missed.\ndocs/load.md is the manual.\n";

static void print_help(void)
{
    fputs(usage, stdout);
    option_print(stdout, load_options_rows, OPTION_COUNT(load_options_rows));
    fputs(examples, stdout);
}

/* Prints a manual page or a completion, for --generate. */
static int generate(const char *kind)
{
    static const struct option_verb words[] = {
        {"compare", "A.json B.json", "compare two results", NULL, NULL, 0},
        {"merge", "A.json B.json...", "merge results of several generators",
         NULL, NULL, 0}};
    static const struct option_program program = {
        .name = NAME,
        .summary = "load a router or an OpenAI-compatible server, and measure "
                   "it",
        .section = 1,
        .usage = usage,
        .more = examples,
        .rows = load_options_rows,
        .n_rows = OPTION_COUNT(load_options_rows),
        .verbs = words,
        .n_verbs = OPTION_COUNT(words)};
    struct error e;

    return option_generate(stdout, &program, kind, &e) == ST_OK
               ? LOAD_OK
               : fail(LOAD_USAGE, e.text);
}

static int print_limits(void)
{
    limits_print(stdout, load_limits, sizeof load_limits / sizeof *load_limits);
    limits_print(stdout, plan_limits, plan_limits_n);
    limits_print(stdout, drive_limits, drive_limits_n);
    limits_print(stdout, figures_limits, figures_limits_n);
    limits_print(stdout, report_limits, report_limits_n);
    limits_print(stdout, base_limits, base_limits_n);
    return LOAD_OK;
}

static int list_profiles(void)
{
    for (const struct plan_profile *p = plan_profiles; p->name; p++) {
        printf("%-14s %s\n", p->name, p->summary);
    }
    printf("%-14s %s\n", "trace:FILE", "the arrivals and lengths of a trace");
    return LOAD_OK;
}

/* ---- the head of a result ---- */

/* Appends a word, quoted for a shell if it needs that. */
static void put_word(FILE *to, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789-_=./:,@+%";

    if (*word && strspn(word, plain) == strlen(word)) {
        fprintf(to, " %s", word);
        return;
    }
    fputs(" '", to);
    for (; *word; word++) {
        if (*word == '\'') {
            fputs("'\\''", to);
        } else {
            fputc(*word, to);
        }
    }
    fputc('\'', to);
}

/* Returns the command line without the value of --key. */
static char *command_of(int argc, char **argv)
{
    char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);
    bool secret = false;

    fputs(NAME, to);
    for (int i = 1; i < argc; i++) {
        bool joined = strncmp(argv[i], "--key=", 6) == 0;

        put_word(to, secret ? "..." : joined ? "--key=..." : argv[i]);
        secret = strcmp(argv[i], "--key") == 0;
    }
    fclose(to);
    return text;
}

/* Copies the processor's name from /proc/cpuinfo. */
static void processor(char *name, size_t size)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256];

    snprintf(name, size, "processor");
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');

        if (colon && strncmp(line, "model name", 10) == 0) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(name, size, "%.120s", colon + 2);
            break;
        }
    }
    if (f) {
        fclose(f);
    }
}

static char *host_text(void)
{
    struct utsname u;
    char name[128], *text;

    processor(name, sizeof name);
    if (uname(&u) != 0 ||
        asprintf(&text, "%s, %ld CPUs, %s %s", name,
                 sysconf(_SC_NPROCESSORS_ONLN), u.sysname, u.release) < 0) {
        return strdup(name);
    }
    return text;
}

static void describe(struct result *r, const struct load_setup *s,
                     char *command)
{
    r->title = strdup(s->o.title ? s->o.title : NAME);
    r->target = strdup(s->o.target);
    r->model = strdup(s->target.model ? s->target.model : "");
    r->command = command;
    r->host = host_text();
    r->objectives = s->objectives;
    r->lag_max_us = (int64_t)s->o.max_lag * 1000;
}

/* ---- files ---- */

/* Prints the summary and writes the files that are asked for. */
static enum status publish(const struct load_options *o, const struct result *r,
                           struct error *e)
{
    bool piped = (o->json && strcmp(o->json, "-") == 0) ||
                 (o->csv && strcmp(o->csv, "-") == 0) ||
                 (o->html && strcmp(o->html, "-") == 0);
    enum status st = ST_OK;

    report_summary(piped ? stderr : stdout, r);
    if (o->json) {
        st = report_write(o->json, report_json, r, e);
    }
    if (o->csv && st == ST_OK) {
        st = report_write(o->csv, report_csv, r, e);
    }
    if (o->html && st == ST_OK) {
        st = report_write(o->html, report_html, r, e);
    }
    return st;
}

/* ---- runs ---- */

static int open_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static enum status begin(struct load_job *j, struct error *e)
{
    struct load_setup *s = j->setup;
    /* Wrong options are reported without a server.  Each run restarts the plan
     * with the server's context. */
    enum status st = plan_new(&j->plan, &s->plan, e);

    if (st == ST_OK) {
        st = load_setup_ask(s, e);
    }
    if (st == ST_OK && s->o.check_outputs) {
        j->outputs =
            outputs_new(s->o.check_outputs * PLAN_TURNS_MAX > OUTPUTS_MAX
                            ? OUTPUTS_MAX
                            : s->o.check_outputs * PLAN_TURNS_MAX);
    }
    if (st == ST_OK && s->o.samples) {
        j->samples = fopen(s->o.samples, "we");
        if (!j->samples) {
            st = error_set(e, ST_INVALID_ARGUMENT, "cannot write %s: %s",
                           s->o.samples, strerror(errno));
        }
    }
    return st;
}

/* An error in the middle of the run is kept by the stream, without a reason. */
static bool close_samples(struct load_job *j, struct error *e)
{
    bool whole = j->samples == NULL || !ferror(j->samples);

    errno = 0;
    if (j->samples != NULL && fclose(j->samples) != 0) {
        whole = false;
    }
    if (!whole) {
        report_fault(e);
        error_wrap(e, "cannot write %s", j->setup->o.samples);
    }
    return whole;
}

static int finish(struct load_job *j, struct result *r, enum status st,
                  struct error *e)
{
    bool any = r->n_runs > 0 && r->runs[0].tally;
    struct error late;

    if (any && publish(&j->setup->o, r, &late) != ST_OK) {
        return fail(LOAD_FAILED, late.text);
    }
    if (!close_samples(j, &late)) {
        return fail(LOAD_FAILED, late.text);
    }
    if (st != ST_OK) {
        return fail(st == ST_INVALID_ARGUMENT ? LOAD_USAGE : LOAD_FAILED,
                    e->text);
    }
    return j->interrupted ? LOAD_INTERRUPTED : (int)load_verdict(r);
}

static int measure(struct load_setup *s, char *command)
{
    struct load_job j = {.setup = s, .signals = open_signals()};
    struct result r = {0};
    struct error e;
    enum status st = begin(&j, &e);
    int code;

    describe(&r, s, command);
    if (st == ST_OK) {
        st = load_series(&j, &r, &e);
    }
    code = finish(&j, &r, st, &e);
    result_fini(&r);
    outputs_free(&j.outputs);
    plan_free(&j.plan);
    close(j.signals);
    return code;
}

/* ---- verbs on results ---- */

static int compare(int n, char **paths)
{
    struct result r[2] = {{0}, {0}};
    struct error e;
    int code = LOAD_OK;

    if (n != 2) {
        return fail(LOAD_USAGE, "compare needs two files: sluice-load compare "
                                "A.json B.json");
    }
    for (int i = 0; i < 2 && code == LOAD_OK; i++) {
        if (report_read(&r[i], paths[i], &e) != ST_OK) {
            code = fail(LOAD_FAILED, e.text);
        }
    }
    if (code == LOAD_OK) {
        report_compare(stdout, &r[0], &r[1]);
    }
    result_fini(&r[0]);
    result_fini(&r[1]);
    return code;
}

/* Merges the first runs of several results: generators on several hosts. */
static int merge(const struct load_options *o, int n, char **paths)
{
    struct result whole = {0};
    struct error e;
    int code = LOAD_OK;

    if (n < 1) {
        return fail(LOAD_USAGE, "merge needs files: sluice-load merge A.json "
                                "B.json --json ALL.json");
    }
    for (int i = 0; i < n && code == LOAD_OK; i++) {
        struct result part = {0};

        if (report_read(i ? &part : &whole, paths[i], &e) != ST_OK) {
            code = fail(LOAD_FAILED, e.text);
        } else if (i && part.n_runs != whole.n_runs) {
            code = fail(LOAD_FAILED, "the results have different numbers of "
                                     "runs and cannot be merged");
        }
        for (uint32_t k = 0; i && code == LOAD_OK && k < whole.n_runs; k++) {
            tally_merge(whole.runs[k].tally, part.runs[k].tally);
        }
        result_fini(&part);
    }
    if (code == LOAD_OK && publish(o, &whole, &e) != ST_OK) {
        code = fail(LOAD_FAILED, e.text);
    }
    result_fini(&whole);
    return code;
}

static int run_words(const struct load_options *o, int n, char **words)
{
    if (strcmp(words[0], "help") == 0) {
        print_help();
        return LOAD_OK;
    }
    if (strcmp(words[0], "compare") == 0) {
        return compare(n - 1, words + 1);
    }
    if (strcmp(words[0], "merge") == 0) {
        return merge(o, n - 1, words + 1);
    }
    fprintf(stderr,
            NAME ": unknown word: %s; sluice-load --help lists options and "
                 "verbs\n",
            words[0]);
    return LOAD_USAGE;
}

static int run(int argc, char **argv)
{
    static struct load_setup setup;
    char *command = command_of(argc, argv);
    struct error e;
    int n_words, code;

    if (option_parse(load_options_rows, OPTION_COUNT(load_options_rows),
                     &setup.o, argc, argv, &n_words, &e) != ST_OK) {
        free(command);
        return fail(LOAD_USAGE, e.text);
    }
    if (setup.o.help) {
        print_help();
        code = LOAD_OK;
    } else if (setup.o.version) {
        puts(NAME " " SLUICE_VERSION);
        code = LOAD_OK;
    } else if (setup.o.limits) {
        code = print_limits();
    } else if (setup.o.list_profiles) {
        code = list_profiles();
    } else if (n_words > 0) {
        code = run_words(&setup.o, n_words, argv + 1);
    } else if (load_setup_make(&setup, &e) != ST_OK) {
        code = fail(LOAD_USAGE, e.text);
    } else {
        return measure(&setup, command);
    }
    free(command);
    return code;
}

int main(int argc, char **argv)
{
    const char *kind = option_generate_kind(argc, argv);
    struct error e;
    int code;

    std_fds_reserve();
    code = kind != NULL ? generate(kind) : run(argc, argv);
    if (std_out_end(&e) != ST_OK && code == LOAD_OK) {
        code = fail(LOAD_FAILED, e.text);
    }
    return code;
}
