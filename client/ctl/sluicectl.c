/* sluicectl - talk to a sluice router from the shell: main, verbs, help. */
#include "client/ctl/sluicectl.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/argument.h"
#include "client/lib/resumable.h"
#include "common/base/failpoint.h"
#include "common/base/std_fds.h"
#include "common/sampling/sampling.h"
#include "common/wire/wire_limits.h"
#include "text/text_limits.h"

typedef struct ctl_options option_this;

static const struct option_row common_rows[] = {CTL_COMMON(OPTION_ROW)};
static const struct option_row generate_rows[] = {
    CTL_GENERATE(OPTION_ROW) CTL_SAMPLING(OPTION_ROW) CTL_MODEL(OPTION_ROW)
        CTL_TEXT(OPTION_ROW)};
static const struct option_row tokenize_rows[] = {
    CTL_DECODE(OPTION_ROW) CTL_MODEL(OPTION_ROW) CTL_TEXT(OPTION_ROW)};
static const struct option_row detokenize_rows[] = {CTL_MODEL(OPTION_ROW)
                                                        CTL_TEXT(OPTION_ROW)};
static const struct option_row drain_rows[] = {CTL_DRAIN(OPTION_ROW)};
static const struct option_row plan_rows[] = {CTL_PLAN(OPTION_ROW)};
static const struct option_row quantise_rows[] = {CTL_QUANTISE(OPTION_ROW)};
static const struct option_row no_rows[1];

#define ROWS_MAX                                               \
    (OPTION_COUNT(common_rows) + OPTION_COUNT(generate_rows) + \
     OPTION_COUNT(tokenize_rows) + OPTION_COUNT(drain_rows) +  \
     OPTION_COUNT(plan_rows) + OPTION_COUNT(quantise_rows))

struct verb {
    const char *name, *operands, *summary;
    ctl_verb_fn *run;
    const struct option_row *rows;
    size_t n_rows;
    const char *more; /* examples and notes */
};

#define ROWS(rows) rows, OPTION_COUNT(rows)
#define NO_ROWS    no_rows, 0

static const struct verb verbs[] = {
    {"generate", "[PROMPT]", "complete a prompt, printed as it comes",
     ctl_generate, ROWS(generate_rows),
     "The prompt is the words given, else standard input.  Ctrl-C cancels\n"
     "and prints what was given back.  Of several choices (--n) the first is\n"
     "printed as it comes, the others after it, each under a line that names\n"
     "it.  With --json: one object a line, as the chunks come, each with its\n"
     "choice; the last has the figures (docs/operating.md).\n\n"
     "  sluicectl generate \"Once upon a time\" --max-tokens 64 --figures\n"
     "  sluicectl generate --temperature 0 --seed 7 < prompt.txt\n"
     "  sluicectl generate --n 3 --stop '\\n' --stop 'The end' \"A riddle:\"\n"
     "  sluicectl generate --temperature 0 --top-logprobs 3 \"One day\"\n"
     "  sluicectl generate --logit-bias 585=-100 --ids 451 362 585\n"},
    {"status", "", "the router at a glance", ctl_status, NO_ROWS,
     "Below the figures, for each model: its replicas, stage by stage, with\n"
     "what each holds (#), what it has promised (+), and the time of its last\n"
     "step as a share of its replica's.\n\n"
     "  sluicectl status\n  sluicectl status --json\n"},
    {"metrics", "", "the router's counters, as Prometheus reads them",
     ctl_metrics, NO_ROWS,
     "Every row of sluice-router --list-metrics.  With --json: one object "
     "with\n"
     "each value by its name.\n\n"
     "  sluicectl metrics\n  sluicectl metrics --json\n"},
    {"workers", "", "the workers and their pools", ctl_workers, NO_ROWS,
     "BLOCKS and SLOTS: held by or promised to sequences, of all.\n\n"
     "  sluicectl workers\n"},
    {"sequences", "", "the generations that wait or run", ctl_sequences,
     NO_ROWS, "  sluicectl sequences\n"},
    {"cancel", "ID", "cancel a generation; prints what was given back",
     ctl_cancel, NO_ROWS,
     "ID is all its choices, ID/CHOICE one of them.  The first digits of the\n"
     "id do where they name one generation.\n\n"
     "  sluicectl cancel 3f9a\n  sluicectl cancel 3f9a/2\n"},
    {"remove", "ID", "remove a generation, a kept one too", ctl_remove, NO_ROWS,
     "ID is all its choices, ID/CHOICE one of them.\n\n"
     "  sluicectl remove 3f9a\n  sluicectl remove 3f9a/2\n"},
    {"drain", "WORKER", "give a worker nothing more, and empty it", ctl_drain,
     ROWS(drain_rows),
     "What runs there may end within the grace and is moved then; nothing is\n"
     "lost.  Waits until the worker has nothing left; Ctrl-C ends the "
     "waiting,\n"
     "not the draining.  What no other worker could hold is not moved.  A\n"
     "drained worker stays so until undrain, or until it is started again.  A\n"
     "stage of a replica drains all of it.\n\n"
     "  sluicectl drain w1\n  sluicectl drain w1 --grace 5m\n"
     "  sluicectl drain w1 --now\n"},
    {"undrain", "WORKER", "let a drained worker take sequences again",
     ctl_undrain, NO_ROWS, "  sluicectl undrain w1\n"},
    {"audit", "", "have every worker prove its ledger", ctl_audit, NO_ROWS,
     "Exit code 1 if a worker finds a difference or does not answer.\n\n"
     "  sluicectl audit\n"},
    {"models", "", "the models that are served", ctl_models, NO_ROWS,
     "  sluicectl models\n"},
    {"plan", "MODEL_DIR", "which worker would get which layers of a model",
     ctl_plan, ROWS(plan_rows),
     "Needs no router, and of the model only config.json; with weights\n"
     "beside it their bytes are exact.  The slowest stage is made as fast as\n"
     "can be, then room for the most sequences.  SPEED is what a worker reads\n"
     "of its memory in a second, in any unit.\n\n"
     "  sluicectl plan models/tiny-hybrid --workers a=40MiB,b=80MiB\n"
     "  sluicectl plan Qwen3.5-27B --workers a=24GiB,b=24GiB,c=24GiB \\\n"
     "      --context 32768 --lengths 4096,32768\n"},
    {"quantise", "MODEL_DIR NEW_DIR", "a smaller model of 8 or 4 bits a weight",
     ctl_quantise, ROWS(quantise_rows),
     "Needs no router.  NEW_DIR is made, and has everything that a worker and\n"
     "a router read.  Each --group weights share a scale and a bias in the\n"
     "model's dtype (docs/model.md); norms, convolutions and what is no whole\n"
     "groups wide stay as they are.\n\n"
     "  sluicectl quantise Qwen3.5-9B Qwen3.5-9B-4bit\n"
     "  sluicectl quantise models/tiny-hybrid /tmp/tiny-8 --bits 8\n"},
    {"tokenize", "[TEXT]", "text to ids", ctl_tokenize, ROWS(tokenize_rows),
     "With --model DIR, a model directory, no cluster is needed.\n\n"
     "  sluicectl tokenize \"Once upon a time\"\n"
     "  sluicectl tokenize --model models/tiny-hybrid < text\n"
     "  sluicectl tokenize --model models/tiny-hybrid --decode 451 362\n"},
    {"detokenize", "[IDS]", "ids to text", ctl_detokenize,
     ROWS(detokenize_rows), "  sluicectl detokenize 451 362 585\n"},
    {"ping", "", "ask whether the router serves", ctl_ping, NO_ROWS,
     "  sluicectl ping --timeout 200ms\n"},
};

#define N_VERBS (sizeof verbs / sizeof verbs[0])

static const struct limit_row client_limits[] = {
    LIMIT_ROW(CLIENT_CALLS_MAX, "", "open calls of one connection"),
    LIMIT_ROW(CLIENT_WAITING_BYTES, "bytes", "of requests not yet sent"),
    LIMIT_ROW(CLIENT_TIMEOUT_MS, "ms", "to connect, where none is given"),
    LIMIT_ROW(CLIENT_RECEIPT_MS, "ms", "to wait for a receipt"),
    LIMIT_ROW(CLIENT_RESUME_MS, "ms", "without a router, then it ends"),
    LIMIT_ROW(RESUMABLE_BACKOFF_MAX_US, "us", "before it is resumed again"),
    LIMIT_ROW(RESUMABLE_RETRY_MAX_US, "us", "of what a router asks for"),
    LIMIT_ROW(RESUMABLE_FIRST_MS, "ms", "for a router, with --no-resume"),
    LIMIT_ROW(PLAN_LENGTHS_MAX, "", "lengths that a plan counts for"),
    LIMIT_ROW(CTL_INPUT_BYTES_MAX, "bytes", "of standard input"),
};

static const char general_help[] =
    "usage: sluicectl VERB [operands] [options]\n"
    "\n"
    "Talks to a sluice router.\n"
    "\n";

static const char exit_help[] =
    "\n"
    "exit codes\n"
    "  0    done\n"
    "  1    the call failed; the sentence names the status\n"
    "  2    used wrongly\n"
    "  3    no router answered\n"
    "  4    refused for lack of room: try again later\n"
    "  130  interrupted; a generation was cancelled\n"
    "\n"
    "sluicectl --help VERB shows a verb's options and examples.\n";

static void print_help(void)
{
    fputs(general_help, stdout);
    fputs("verbs\n", stdout);
    for (size_t i = 0; i < N_VERBS; i++) {
        char left[32];

        snprintf(left, sizeof left, "%s %s", verbs[i].name, verbs[i].operands);
        printf("  %-20s %s\n", left, verbs[i].summary);
    }
    fputs("\noptions of every verb\n", stdout);
    option_print(stdout, common_rows, OPTION_COUNT(common_rows));
    fputs(exit_help, stdout);
}

static void print_verb_help(const struct verb *v)
{
    printf("usage: sluicectl %s %s%s[options]\n\n%s\n\n", v->name, v->operands,
           v->operands[0] == '\0' ? "" : " ", v->summary);
    fputs(v->more, stdout);
    if (v->n_rows > 0) {
        fputs("\noptions\n", stdout);
        option_print(stdout, v->rows, v->n_rows);
    }
    fputs("\noptions of every verb\n", stdout);
    option_print(stdout, common_rows, OPTION_COUNT(common_rows));
}

static const struct verb *find_verb(const char *name)
{
    for (size_t i = 0; i < N_VERBS; i++) {
        if (strcmp(verbs[i].name, name) == 0) {
            return &verbs[i];
        }
    }
    return NULL;
}

static size_t append(struct option_row *to, size_t at,
                     const struct option_row *rows, size_t n)
{
    memcpy(to + at, rows, n * sizeof *rows);
    return at + n;
}

/* Does a line that is not understood want its answer in JSON? */
static bool wants_json(char **argv)
{
    while (*argv != NULL && strcmp(*argv, "--") != 0 &&
           strcmp(*argv, "--json") != 0) {
        argv++;
    }
    return *argv != NULL && strcmp(*argv, "--json") == 0;
}

/* Parse argv by the rows; its words stand from argv[1] on. */
static int parse(struct ctl *c, const struct option_row *rows, size_t n,
                 int argc, char **argv)
{
    struct error e = {0};

    memset(&c->o, 0, sizeof c->o);
    c->operands = argv + 1;
    if (option_parse(rows, n, &c->o, argc, argv, &c->n_operands, &e) != ST_OK) {
        c->o.json = c->o.json || wants_json(argv);
        return ctl_misuse(c, "%s", e.text);
    }
    return CTL_OK;
}

/* The verb is the first word; where it stands is only known once options
 * with a value are told from those without, so all rows are tried first. */
static int parse_verb(struct ctl *c, int argc, char **argv,
                      const struct verb **verb)
{
    struct option_row rows[ROWS_MAX];
    char **copy = malloc(((size_t)argc + 1) * sizeof *copy);
    size_t n = append(rows, 0, common_rows, OPTION_COUNT(common_rows));
    int rc;

    if (copy == NULL) {
        abort();
    }
    memcpy(copy, argv, ((size_t)argc + 1) * sizeof *copy);
    n = append(rows, n, generate_rows, OPTION_COUNT(generate_rows));
    n = append(rows, n, tokenize_rows, 1);
    n = append(rows, n, drain_rows, OPTION_COUNT(drain_rows));
    n = append(rows, n, plan_rows, OPTION_COUNT(plan_rows));
    n = append(rows, n, quantise_rows, OPTION_COUNT(quantise_rows));
    rc = parse(c, rows, n, argc, copy);
    *verb = NULL;
    if (rc == CTL_OK && c->n_operands > 0) {
        *verb = find_verb(c->operands[0]);
        if (*verb == NULL) {
            rc = ctl_misuse(c, "\"%s\" is no verb; --help lists them",
                            c->operands[0]);
        }
    }
    free(copy);
    return rc;
}

static int parse_options(struct ctl *c, const struct verb *v, int argc,
                         char **argv)
{
    struct option_row rows[ROWS_MAX];
    size_t n = append(rows, 0, common_rows, OPTION_COUNT(common_rows));
    int rc;

    n = append(rows, n, v->rows, v->n_rows);
    rc = parse(c, rows, n, argc, argv);
    c->operands++; /* past the verb */
    c->n_operands--;
    if (c->o.router == NULL) {
        c->o.router = getenv("SLUICE_ROUTER");
    }
    if (c->o.router == NULL || c->o.router[0] == '\0') {
        c->o.router = CTL_DEFAULT_ROUTER;
    }
    if (rc == CTL_OK && c->n_operands > 0 && v->operands[0] == '\0') {
        rc = ctl_misuse(c, "%s takes no operand, \"%s\" is one", v->name,
                        c->operands[0]);
    }
    return rc;
}

static void print_limits(void)
{
    limits_print(stdout, client_limits, OPTION_COUNT(client_limits));
    limits_print(stdout, wire_limits, wire_limits_n);
    limits_print(stdout, sampling_limits, sampling_limits_n);
    limits_print(stdout, base_limits, base_limits_n);
    limits_print(stdout, text_limits, text_limits_n);
    limits_print(stdout, model_limits, model_limits_n);
}

/* What needs no verb; false if it was none of these. */
static bool answer(const struct ctl *c, const struct verb *v)
{
    if (c->o.help) {
        if (v == NULL) {
            print_help();
        } else {
            print_verb_help(v);
        }
    } else if (c->o.version) {
        puts(CTL_NAME " " SLUICE_VERSION);
    } else if (c->o.limits) {
        print_limits();
    } else {
        return false;
    }
    return true;
}

static int run(struct ctl *c, int argc, char **argv)
{
    const struct verb *v;
    int rc = parse_verb(c, argc, argv, &v);

    if (rc != CTL_OK || answer(c, v)) {
        return rc;
    }
    if (v == NULL) {
        return ctl_misuse(c, "a verb is wanted; --help lists them");
    }
    rc = parse_options(c, v, argc, argv);
    return rc == CTL_OK ? v->run(c) : rc;
}

int main(int argc, char **argv)
{
    struct ctl c = {0};
    int rc;

    std_fds_reserve();
    FAILPOINT_START(argc, argv);
    signal(SIGPIPE, SIG_IGN); /* a write says EPIPE instead */
    rc = run(&c, argc, argv);
    ctl_catch_interrupt(NULL);
    client_close(&c.client);
    return ctl_end_output(rc);
}
