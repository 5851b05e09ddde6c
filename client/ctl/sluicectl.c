/* sluicectl - Command line client of a router: main(), verbs, help. */
#include "client/ctl/ctl.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "client/cluster/cluster_file.h"
#include "client/ctl/argument.h"
#include "common/base/failpoint.h"
#include "common/base/local_cluster.h"
#include "common/base/memory.h"
#include "common/base/near.h"
#include "common/base/option_env.h"
#include "common/base/option_generate.h"
#include "common/base/std_fds.h"
#include "common/sampling/sampling.h"
#include "common/wire/loop.h"
#include "common/wire/wire_limits.h"
#include "router/replay/recording.h"
#include "router/replay/replay_figures.h"
#include "text/grammar/grammar_limits.h"
#include "text/text_limits.h"

typedef struct ctl_options option_this;

static const struct option_row common_rows[] = {CTL_COMMON(OPTION_ROW)};
static const struct option_row generate_rows[] = {
    CTL_GENERATE(OPTION_ROW) CTL_DRAFTS(OPTION_ROW) CTL_SAMPLING(OPTION_ROW)
        CTL_MODEL(OPTION_ROW) CTL_TEXT(OPTION_ROW)};
static const struct option_row tokenize_rows[] = {
    CTL_DECODE(OPTION_ROW) CTL_MODEL(OPTION_ROW) CTL_TEXT(OPTION_ROW)};
static const struct option_row detokenize_rows[] = {CTL_MODEL(OPTION_ROW)
                                                        CTL_TEXT(OPTION_ROW)};
static const struct option_row remove_rows[] = {CTL_REMOVE(OPTION_ROW)};
static const struct option_row drain_rows[] = {CTL_DRAIN(OPTION_ROW)};
static const struct option_row plan_rows[] = {
    OPTION_ROW(model, STRING, "PATH", NULL,
               "model directory or GGUF file, in place of the operand; also -m",
               0, 0) CTL_PLAN(OPTION_ROW) CTL_DRAFTS(OPTION_ROW)};
static const struct option_row quantise_rows[] = {CTL_QUANTISE(OPTION_ROW)};
static const struct option_row keygen_rows[] = {CTL_KEYGEN(OPTION_ROW)};
static const struct option_row replay_rows[] = {OPTION_ROW(
    workers, LIST, "N", NULL,
    "workers of each model, like the recorded ones in turn (default: "
    "the recorded ones, while they were there)",
    0, 1) CTL_REPLAY(OPTION_ROW)};
static const struct option_row grammar_rows[] = {
    OPTION_ROW(model, STRING, "DIR", NULL,
               "model directory or GGUF file whose tokenizer is used", 0, 0)
        CTL_GRAMMAR(OPTION_ROW)};
static const struct option_row cluster_rows[] = {CTL_CLUSTER(OPTION_ROW)};
static const struct option_row no_rows[1];

/* Rows of all verbs.  detokenize has only rows of tokenize. */
#define ROWS_MAX                                               \
    (OPTION_COUNT(common_rows) + OPTION_COUNT(generate_rows) + \
     OPTION_COUNT(tokenize_rows) + OPTION_COUNT(drain_rows) +  \
     OPTION_COUNT(remove_rows) + OPTION_COUNT(plan_rows) +     \
     OPTION_COUNT(quantise_rows) + OPTION_COUNT(keygen_rows) + \
     OPTION_COUNT(cluster_rows) + OPTION_COUNT(replay_rows) +  \
     OPTION_COUNT(grammar_rows))

struct verb {
    const char *name, *operands, *summary;
    ctl_verb_fn *run;
    const struct option_row *rows;
    size_t n_rows;
    const char *more; /* notes and examples, for --help VERB */
};

#define ROWS(rows) rows, OPTION_COUNT(rows)
#define NO_ROWS    no_rows, 0

static const struct verb verbs[] = {
    {"generate", "[PROMPT]", "complete a prompt and stream the text",
     ctl_generate, ROWS(generate_rows),
     "The prompt is the operands joined by blanks, or standard input without\n"
     "operands.  A prompt that begins with a dash goes after --.  Ctrl-C\n"
     "cancels the request and prints a receipt: the blocks and slots that\n"
     "were released.\n\n"
     "With --n, the first choice is printed as it arrives, the others after\n"
     "it, each under a line such as \"== choice 1 ==\".\n\n"
     "With --json, each chunk is one object on one line, and the last line\n"
     "has the figures (docs/operating.md).\n\n"
     "  sluicectl generate \"Once upon a time\" --max-tokens 64 --figures\n"
     "  sluicectl generate --temperature 0 --seed 7 < prompt.txt\n"
     "  sluicectl generate --n 3 --stop '\\n' --stop 'The end' \"A riddle:\"\n"
     "  sluicectl generate --temperature 0 --top-logprobs 3 \"One day\"\n"
     "  sluicectl generate --logit-bias 585=-100 --ids 451 362 585\n"},
    {"status", "", "show the router's counters, replicas and memory",
     ctl_status, NO_ROWS,
     "A table for each model lists the stages of its replicas.  A bar shows\n"
     "blocks or slots that are held (#) and granted (+).  CACHED and REUSED\n"
     "are as in \"sluicectl workers\".  STEP is the time of\n"
     "the stage's last step, and its share of the replica's step time.\n\n"
     "  sluicectl status\n  sluicectl status --json\n"},
    {"metrics", "", "print the router's counters for Prometheus", ctl_metrics,
     NO_ROWS,
     "Prints every row of sluice-router --list-metrics in the text exposition\n"
     "format.  With --json, prints one object with each value by name.\n\n"
     "  sluicectl metrics\n  sluicectl metrics --json\n"},
    {"workers", "", "list the workers and their pools", ctl_workers, NO_ROWS,
     "BLOCKS and SLOTS are held by sequences or granted to them, of the\n"
     "total.  CACHED are the pages of the pool that hold reusable prefixes\n"
     "and are free for others.  REUSED is the share of prompt tokens that\n"
     "was restored and not computed.  SILENT is the time since the worker's\n"
     "last report.\n\n"
     "A second table has the pages of host memory, by owner: WAITING are\n"
     "suspended sequences.  OUT and IN are bytes copied since the start,\n"
     "RESTORED prompt tokens that came back.  WASTED are tokens computed\n"
     "again.\n\n"
     "  sluicectl workers\n"},
    {"sequences", "", "list the choices that wait or run", ctl_sequences,
     NO_ROWS, "  sluicectl sequences\n"},
    {"explain", "ID", "show why a choice waits, or runs where it does",
     ctl_explain, NO_ROWS,
     "ID/CHOICE names one choice of a request, ID its first one.  The first\n"
     "digits of an id suffice if no other request has them.\n\n"
     "A choice that waits is judged now: each worker has a note that names\n"
     "what it lacks.  One that was granted has the figures of that time.\n"
     "WAIT is the number of prompt tokens to compute before the first token;\n"
     "the worker with the fewest is chosen.  RESTORABLE are those of the\n"
     "prompt that the worker need not compute.\n\n"
     "  sluicectl explain 3f9a\n  sluicectl explain 3f9a/2 --json\n"},
    {"cancel", "ID", "cancel a request and print its receipt", ctl_cancel,
     NO_ROWS,
     "ID cancels all choices of a request, ID/CHOICE one of them.  The first\n"
     "digits of an id suffice if no other request has them.  The receipt "
     "lists\n"
     "the blocks and slots that were released.\n\n"
     "  sluicectl cancel 3f9a\n  sluicectl cancel 3f9a/2\n"},
    {"remove", "ID", "remove a request, running or kept (--keep)", ctl_remove,
     ROWS(remove_rows),
     "ID removes all choices of a request, ID/CHOICE one of them.  The first\n"
     "digits of an id suffice if no other request has them.\n\n"
     "With --from, a kept choice loses its tokens from N on and stays kept.\n"
     "A model with recurrent layers goes back to the last saved state, so\n"
     "the receipt may name an earlier token.\n\n"
     "  sluicectl remove 3f9a\n  sluicectl remove 3f9a/2\n"
     "  sluicectl remove 3f9a/0 --from 512\n"},
    {"drain", "WORKER", "stop new grants to a worker, and empty it", ctl_drain,
     ROWS(drain_rows),
     "Sequences may finish on the worker within the grace period.  After it,\n"
     "they move to other workers and no token is lost.  A sequence that no\n"
     "other worker can hold stays until it finishes.\n\n"
     "The command returns when the worker is empty.  Ctrl-C ends the wait,\n"
     "and the worker keeps draining.  A worker stays drained until undrain,\n"
     "or until it reconnects or restarts.  Draining one stage drains its "
     "whole\n"
     "replica.\n\n"
     "  sluicectl drain w1\n  sluicectl drain w1 --grace 5m\n"
     "  sluicectl drain w1 --now\n"},
    {"undrain", "WORKER", "let a drained worker accept sequences again",
     ctl_undrain, NO_ROWS, "  sluicectl undrain w1\n"},
    {"audit", "", "have every worker verify its memory ledger", ctl_audit,
     NO_ROWS,
     "The exit code is 1 if a worker finds a difference or does not answer.\n\n"
     "  sluicectl audit\n"},
    {"models", "", "list the models served", ctl_models, NO_ROWS,
     "  sluicectl models\n"},
    {"plan", "MODEL_DIR", "compute a split of a model's layers", ctl_plan,
     ROWS(plan_rows),
     "Needs no router, and only config.json of the model, or a GGUF file.  If\n"
     "the directory has weights, their exact sizes are used.\n\n"
     "The split minimises the time of the slowest stage, then maximises the\n"
     "number of sequences that fit.  SPEED is a worker's read bandwidth, in\n"
     "any unit.\n\n"
     "  sluicectl plan models/tiny-hybrid --workers a=40MiB,b=80MiB\n"
     "  sluicectl plan Qwen3.5-27B --workers a=24GiB,b=24GiB,c=24GiB \\\n"
     "      --context 32768 --lengths 4096,32768\n"},
    {"quantise", "MODEL_DIR NEW_DIR",
     "write a copy with 4-bit or 8-bit weights", ctl_quantise,
     ROWS(quantise_rows),
     "Needs no router.  The command creates NEW_DIR with all files that a\n"
     "worker and a router read.  Each group of weights has a scale and a bias\n"
     "in the model's dtype (docs/model.md).  Norms, convolutions and matrices\n"
     "whose width is not a multiple of the group stay unchanged.\n\n"
     "  sluicectl quantise Qwen3.5-9B Qwen3.5-9B-4bit\n"
     "  sluicectl quantise models/tiny-hybrid /tmp/tiny-8 --bits 8\n"},
    {"grammar", "check FILE", "check a schema or expression, and a text by it",
     ctl_grammar, ROWS(grammar_rows),
     "Needs no router.  FILE has a JSON Schema, or what --kind says.  Prints\n"
     "why a schema is refused, or its sizes and times.  Exit code 1 if the\n"
     "text leaves the grammar or ends before it is complete.\n\n"
     "  sluicectl grammar check schema.json --model models/tiny-hybrid \\\n"
     "      --text answer.json\n"},
    {"keygen", "NAME", "make a key for a daemon or an admin", ctl_keygen,
     ROWS(keygen_rows),
     "Needs no router.  Writes DIR/NAME.key, which is secret (mode 0600), and\n"
     "DIR/NAME.cert for the --trust of its peers.  Existing files stay.  A "
     "name\n"
     "has 1 to 32 letters, digits, dots, dashes and underscores.\n\n"
     "--rotate makes a second key of a name, NAME+2, so that old and new keys\n"
     "are trusted at the same time.\n\n"
     "  sluicectl keygen w1 --role worker --dir /etc/sluice/keys\n"
     "  sluicectl keygen ops --role admin\n"
     "  sluicectl keygen w1 --rotate\n"},
    {"keys", "[DIR]", "list the certificates of a folder", ctl_keys, NO_ROWS,
     "Needs no router.  Prints name, roles, public key and faults of each\n"
     "*.cert in DIR (default: --trust, or the current folder).  The exit code "
     "is 1\nif one has a fault.\n\n"
     "  sluicectl keys /etc/sluice/trust\n"},
    {"replay", "FILE", "show what other options would have done", ctl_replay,
     ROWS(replay_rows),
     "Needs no router.  FILE is from sluice-router --record.  Its requests "
     "run\n"
     "through the same scheduler in virtual time, at workers with the "
     "recorded\n"
     "costs of steps and lengths of outputs.\n\n"
     "RECORDED is what happened, REPLAYED a replay with the recorded options,\n"
     "CHANGED one with the options given here.  Compare the last two: the\n"
     "replay is a model (docs/admission.md).\n\n"
     "  sluicectl replay /var/lib/sluice/record\n"
     "  sluicectl replay record --workers 3 --admission strict\n"
     "  sluicectl replay record --tenant-weight anna=3 --json\n"},
    {"cluster", "check|render|apply FILE",
     "check a cluster file, install its hosts", ctl_cluster, ROWS(cluster_rows),
     "docs/cluster.md describes the file.\n\n"
     "check FILE lists every fault with its line, or what will run where.\n"
     "render FILE makes the keys that are missing and one bundle a host.\n"
     "apply BUNDLE installs a bundle on its host and starts the units.\n\n"
     "  sluicectl cluster check cluster.yaml\n"
     "  sluicectl cluster render cluster.yaml --out bundles\n"
     "  sluicectl cluster apply node2.tar\n"
     "  sluicectl cluster render cluster.yaml --apply node1\n"},
    {"tokenize", "[TEXT]", "convert text to token ids", ctl_tokenize,
     ROWS(tokenize_rows),
     "Without operands, the text is standard input.  --model also accepts a\n"
     "model directory or a GGUF file; no router is needed then.\n\n"
     "  sluicectl tokenize \"Once upon a time\"\n"
     "  sluicectl tokenize --model models/tiny-hybrid < text\n"
     "  sluicectl tokenize --model models/tiny-hybrid --decode 451 362\n"},
    {"detokenize", "[IDS]", "convert token ids to text", ctl_detokenize,
     ROWS(detokenize_rows),
     "Without operands, the ids are read from standard input.  --model also\n"
     "accepts a model directory or a GGUF file; no router is needed then.\n\n"
     "  sluicectl detokenize 451 362 585\n"},
    {"ping", "", "check whether the router serves", ctl_ping, NO_ROWS,
     "The exit code is 1 if the router is not serving, 3 if none answers.\n\n"
     "  sluicectl ping --timeout 200ms\n"},
};

#define N_VERBS (sizeof verbs / sizeof verbs[0])

static const struct limit_row ctl_limits[] = {
    LIMIT_ROW(PLAN_LENGTHS_MAX, "", "sequence lengths in a plan"),
    LIMIT_ROW(CTL_INPUT_BYTES_MAX, "bytes", "standard input"),
    LIMIT_ROW(PAGES_MAX, "pages", "a list of workers or sequences"),
    LIMIT_ROW(CTL_LIST_MS, "ms", "such a list, without --timeout"),
    LIMIT_ROW(REPLAY_WORKERS_MAX, "", "workers of a model in a replay"),
    LIMIT_ROW(REPLAY_TENANTS_MAX, "", "tenants in the figures of a replay"),
};

static const char general_help[] =
    "usage: sluicectl VERB [operands] [options]\n"
    "\n"
    "Sends requests to a sluice router, shows its state, and prepares models.\n"
    "\n";

static const char exit_help[] =
    "\n"
    "exit codes\n"
    "  0    success\n"
    "  1    the call failed; the error message names the status\n"
    "  2    error in the command line\n"
    "  3    no router answered\n"
    "  4    not enough room; try again later\n"
    "  130  interrupted; a running request was cancelled\n"
    "\n"
    "sluicectl help VERB prints the options of a verb, with examples.\n";

static void print_help(void)
{
    fputs(general_help, stdout);
    fputs("verbs\n", stdout);
    for (size_t i = 0; i < N_VERBS; i++) {
        char left[32];

        snprintf(left, sizeof left, "%s %s", verbs[i].name, verbs[i].operands);
        printf("  %-26s %s\n", left, verbs[i].summary);
    }
    printf("  %-26s %s\n", "help [VERB]", "print this, or the help of VERB");
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

/* Finds a verb by its name.  Returns CTL_OK, or prints the error. */
static int find_verb(const struct ctl *c, const char *name,
                     const struct verb **verb)
{
    struct near near = near_to(name, strlen(name));

    for (size_t i = 0; i < N_VERBS; i++) {
        if (strcmp(verbs[i].name, name) == 0) {
            *verb = &verbs[i];
            return CTL_OK;
        }
        near_offer(&near, verbs[i].name);
    }
    if (near.best != NULL) {
        return ctl_misuse(c, "unknown verb \"%s\"; did you mean %s?", name,
                          near.best);
    }
    return ctl_misuse(c, "unknown verb \"%s\"; --help lists the verbs", name);
}

/* Takes `help` and `help VERB` as --help. */
static int take_verb(struct ctl *c, const struct verb **verb)
{
    const char *name = c->n_operands > 0 ? c->operands[0] : NULL;

    *verb = NULL;
    if (name != NULL && strcmp(name, "help") == 0) {
        c->o.help = true;
        name = c->n_operands > 1 ? c->operands[1] : NULL;
    }
    return name != NULL ? find_verb(c, name, verb) : CTL_OK;
}

/* Copies n rows to to[at] and returns the next free place. */
static size_t append_rows(struct option_row *to, size_t at,
                          const struct option_row *rows, size_t n)
{
    memcpy(to + at, rows, n * sizeof *rows);
    return at + n;
}

/* Looks for --json in a command line that failed to parse: the error is
 * printed as JSON even if the mistake stands before the option. */
static bool wants_json(char **argv)
{
    while (*argv != NULL && strcmp(*argv, "--") != 0 &&
           strcmp(*argv, "--json") != 0) {
        argv++;
    }
    return *argv != NULL && strcmp(*argv, "--json") == 0;
}

/* Parses argv by the rows.  option_parse() moves the operands to argv[1]. */
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

/* Finds the verb, which is the first operand.  Options may stand before it, and
 * only their rows show which of them have a value.  This first pass therefore
 * parses a copy of argv with the rows of all verbs. */
static int parse_verb(struct ctl *c, int argc, char **argv,
                      const struct verb **verb)
{
    struct option_row rows[ROWS_MAX];
    char **copy = memory_must(malloc(((size_t)argc + 1) * sizeof *copy));
    size_t n = append_rows(rows, 0, common_rows, OPTION_COUNT(common_rows));
    int rc;

    memcpy(copy, argv, ((size_t)argc + 1) * sizeof *copy);
    n = append_rows(rows, n, generate_rows, OPTION_COUNT(generate_rows));
    n = append_rows(rows, n, tokenize_rows,
                    1); /* the rest are rows of generate */
    n = append_rows(rows, n, remove_rows, OPTION_COUNT(remove_rows));
    n = append_rows(rows, n, drain_rows, OPTION_COUNT(drain_rows));
    n = append_rows(rows, n, plan_rows, OPTION_COUNT(plan_rows));
    n = append_rows(rows, n, quantise_rows, OPTION_COUNT(quantise_rows));
    n = append_rows(rows, n, keygen_rows, OPTION_COUNT(keygen_rows));
    n = append_rows(rows, n, cluster_rows, OPTION_COUNT(cluster_rows));
    n = append_rows(rows, n, replay_rows + 1, OPTION_COUNT(replay_rows) - 1);
    n = append_rows(rows, n, grammar_rows + 1, OPTION_COUNT(grammar_rows) - 1);
    rc = parse(c, rows, n, argc, copy);
    rc = rc == CTL_OK ? take_verb(c, verb) : rc;
    free(copy);
    return rc;
}

/* Parses argv again with the rows of the verb only, so that another verb's
 * options are errors. */
/* Nothing names a router: takes that of `sluice serve`, which has no keys, so
 * that those of the environment are for another cluster. */
static void take_local_router(struct ctl *c, bool keyed)
{
    static char found[LOCAL_CLUSTER_BYTES];

    c->o.router = CTL_DEFAULT_ROUTER;
    if (!keyed && local_cluster_find(found)) {
        c->o.router = found;
        c->o.key = c->o.trust = NULL;
    }
}

static int parse_options(struct ctl *c, const struct verb *v, int argc,
                         char **argv)
{
    struct option_row rows[ROWS_MAX];
    size_t n = append_rows(rows, 0, common_rows, OPTION_COUNT(common_rows));
    bool keyed;
    int rc;

    n = append_rows(rows, n, v->rows, v->n_rows);
    rc = parse(c, rows, n, argc, argv);
    c->operands++; /* past the verb */
    c->n_operands--;
    keyed = c->o.key != NULL || c->o.trust != NULL;
    c->o.key = option_or_variable(c->o.key, "SLUICE_KEY");
    c->o.trust = option_or_variable(c->o.trust, "SLUICE_TRUST");
    c->o.router = option_or_variable(c->o.router, "SLUICE_ROUTER");
    if (c->o.router == NULL) {
        take_local_router(c, keyed);
    }
    if (rc == CTL_OK && c->n_operands > 0 && v->operands[0] == '\0') {
        rc = ctl_misuse(c, "%s takes no operand; remove \"%s\"", v->name,
                        c->operands[0]);
    }
    return rc;
}

static void print_limits(void)
{
    limits_print(stdout, client_limits, client_limits_n);
    limits_print(stdout, ctl_limits, OPTION_COUNT(ctl_limits));
    limits_print(stdout, cluster_limits, cluster_limits_n);
    limits_print(stdout, recording_limits, recording_limits_n);
    wire_limits_print(stdout);
    limits_print(stdout, sampling_limits, sampling_limits_n);
    limits_print(stdout, base_limits, base_limits_n);
    limits_print(stdout, text_limits, text_limits_n);
    limits_print(stdout, grammar_limits, grammar_limits_n);
    limits_print(stdout, model_limits, model_limits_n);
}

/* Handles --help, --version and --limits, which need no verb.  Returns false
 * if none of them is given. */
static bool print_info(const struct ctl *c, const struct verb *v)
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

/* Parses twice: first for the verb, then with the options of that verb. */
static int run_command(struct ctl *c, int argc, char **argv)
{
    const struct verb *v;
    int rc = parse_verb(c, argc, argv, &v);

    if (rc != CTL_OK || print_info(c, v)) {
        return rc;
    }
    if (v == NULL) {
        return ctl_misuse(c, "no verb given; --help lists the verbs");
    }
    rc = parse_options(c, v, argc, argv);
    if (c->o.timeout > 0) {
        c->end_us = loop_now_us() + (int64_t)c->o.timeout * 1000;
    }
    return rc == CTL_OK ? v->run(c) : rc;
}

/* Prints a manual page or a completion, for --generate. */
static int generate_file(const struct ctl *c, const char *kind)
{
    struct option_verb all[N_VERBS];
    struct option_program program = {
        .name = CTL_NAME,
        .summary = "send requests to a sluice router, and show its state",
        .section = 1,
        .usage = general_help,
        .more = exit_help,
        .rows = common_rows,
        .n_rows = OPTION_COUNT(common_rows),
        .verbs = all,
        .n_verbs = N_VERBS};
    struct error e;

    for (size_t i = 0; i < N_VERBS; i++) {
        all[i] = (struct option_verb){verbs[i].name,    verbs[i].operands,
                                      verbs[i].summary, verbs[i].more,
                                      verbs[i].rows,    verbs[i].n_rows};
    }
    return option_generate(stdout, &program, kind, &e) == ST_OK
               ? CTL_OK
               : ctl_misuse(c, "%s", e.text);
}

int main(int argc, char **argv)
{
    const char *kind = option_generate_kind(argc, argv);
    struct ctl c = {0};
    int rc;

    std_fds_reserve(); /* before any socket could become descriptor 0, 1 or 2 */
    if (kind != NULL) {
        return ctl_end_output(generate_file(&c, kind));
    }
    FAILPOINT_START(argc, argv);
    signal(SIGPIPE, SIG_IGN); /* a write fails with EPIPE instead */
    rc = run_command(&c, argc, argv);
    ctl_catch_interrupt(NULL); /* the client is about to be freed */
    client_close(&c.client);
    return ctl_end_output(rc);
}
