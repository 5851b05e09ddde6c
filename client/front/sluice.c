/* sluice.c - The program `sluice`: verbs for people in front of a terminal. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "client/front/bench_table.h"
#include "client/front/chat_input.h"
#include "client/front/conversation.h"
#include "client/front/front.h"
#include "client/front/http_client.h"
#include "client/front/lines.h"
#include "client/front/serve_plan.h"
#include "client/front/supervisor.h"
#include "client/front/terminal.h"
#include "common/base/limit.h"
#include "common/base/near.h"
#include "common/base/option_generate.h"
#include "common/base/sse.h"
#include "common/base/std_fds.h"

static const struct front_verb *const verbs[] = {&serve_verb, &chat_verb,
                                                 &bench_verb};

#define N_VERBS (sizeof verbs / sizeof *verbs)

static const struct limit_row front_limits[] = {
    LIMIT_ROW(SERVE_WORKERS_MAX, "workers", "sluice serve"),
    LIMIT_ROW(BENCH_ROWS_MAX, "rows", "the table of sluice bench"),
    LIMIT_ROW(SERVE_EXTRA_MAX, "words", "options of the workers after --"),
    LIMIT_ROW(SUPERVISOR_CHILDREN_MAX, "programs", "a group"),
    LIMIT_ROW(SUPERVISOR_BACKOFF_MS, "ms", "first backoff of a program"),
    LIMIT_ROW(SUPERVISOR_BACKOFF_MAX_MS, "ms", "longest backoff"),
    LIMIT_ROW(SUPERVISOR_CALM_MS, "ms", "time ready that resets the backoff"),
    LIMIT_ROW(SUPERVISOR_STOP_MS, "ms", "time to stop, before SIGKILL"),
    LIMIT_ROW(LINES_BYTES_MAX, "bytes", "a program's line; longer is cut"),
    LIMIT_ROW(CHAT_INPUT_BYTES_MAX, "bytes", "one message of a chat"),
    LIMIT_ROW(CONVERSATION_BYTES_MAX, "bytes", "all messages of a chat"),
    LIMIT_ROW(SSE_EVENT_BYTES_MAX, "bytes", "an event of a stream"),
    LIMIT_ROW(HTTP_CLIENT_BODY_MAX, "bytes", "an answer that is no stream"),
    LIMIT_ROW(HTTP_CLIENT_CONNECT_S, "s", "time to connect"),
    LIMIT_ROW(TERMINAL_HISTORY_MAX, "lines", "history of the terminal"),
};

#define FRONT_OPTIONS(X)                                             \
    X(version, FLAG, NULL, NULL, "print the version and exit", 0, 0) \
    X(limits, FLAG, NULL, NULL, "print all limits and exit", 0, 0)   \
    X(help, FLAG, NULL, NULL, "print this text, or the help of a verb", 0, 0)

OPTION_TABLE(front_options, FRONT_OPTIONS);

static const char usage[] =
    "usage: sluice VERB [options]\n\n"
    "Serves a language model, talks to it, and measures it.\n\n";

static void print_help(void)
{
    fputs(usage, stdout);
    puts("verbs:");
    for (size_t i = 0; i < N_VERBS; i++) {
        printf("  %-7s %s\n", verbs[i]->name, verbs[i]->summary);
    }
    puts("  help    the help of a verb: sluice help VERB\n");
    option_print(stdout, front_options_rows, OPTION_COUNT(front_options_rows));
}

void front_print_help(const struct front_verb *v)
{
    printf("usage: sluice %s %s\n\n%s\n\n", v->name, v->operands, v->summary);
    option_print(stdout, v->rows, v->n_rows);
    printf("\n%s", v->more);
}

int front_error(const struct front_verb *v, int code, const char *sentence)
{
    fprintf(stderr, FRONT_NAME " %s: %s\n", v->name, sentence);
    return code;
}

static const struct front_verb *find(const char *name)
{
    for (size_t i = 0; i < N_VERBS; i++) {
        if (strcmp(verbs[i]->name, name) == 0) {
            return verbs[i];
        }
    }
    return NULL;
}

static int misuse(const char *what, const char *word)
{
    fprintf(stderr, FRONT_NAME ": %s%s%s; sluice --help lists the verbs\n",
            what, word != NULL ? ": " : "", word != NULL ? word : "");
    return FRONT_USAGE;
}

static int unknown(const char *name)
{
    struct near near = near_to(name, strlen(name));

    for (size_t i = 0; i < N_VERBS; i++) {
        near_offer(&near, verbs[i]->name);
    }
    if (near.best == NULL) {
        return misuse("unknown verb", name);
    }
    fprintf(stderr, FRONT_NAME ": unknown verb: %s; did you mean %s?\n", name,
            near.best);
    return FRONT_USAGE;
}

/* Runs `sluice help [VERB]`; verb may be NULL. */
static int help(const char *verb)
{
    const struct front_verb *v = verb != NULL ? find(verb) : NULL;

    if (verb != NULL && v == NULL) {
        return unknown(verb);
    }
    if (v != NULL) {
        front_print_help(v);
    } else {
        print_help();
    }
    return FRONT_OK;
}

/* Prints a manual page or a completion, for --generate. */
static int generate(const char *kind)
{
    struct option_verb all[N_VERBS];
    struct option_program program = {
        .name = FRONT_NAME,
        .summary = "serve a language model, chat with it, and measure it",
        .section = 1,
        .usage = usage,
        .more = "",
        .rows = front_options_rows,
        .n_rows = OPTION_COUNT(front_options_rows),
        .verbs = all,
        .n_verbs = N_VERBS};
    struct error e;

    for (size_t i = 0; i < N_VERBS; i++) {
        all[i] = (struct option_verb){verbs[i]->name,    verbs[i]->operands,
                                      verbs[i]->summary, verbs[i]->more,
                                      verbs[i]->rows,    verbs[i]->n_rows};
    }
    if (option_generate(stdout, &program, kind, &e) != ST_OK) {
        fprintf(stderr, FRONT_NAME ": %s\n", e.text);
        return FRONT_USAGE;
    }
    return FRONT_OK;
}

static int run(int argc, char **argv)
{
    const char *kind = option_generate_kind(argc, argv);
    const struct front_verb *v;

    if (kind != NULL) {
        return generate(kind);
    }
    if (argc < 2) {
        return misuse("no verb given", NULL);
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts(FRONT_NAME " " SLUICE_VERSION);
        return FRONT_OK;
    }
    if (strcmp(argv[1], "--limits") == 0) {
        limits_print(stdout, front_limits,
                     sizeof front_limits / sizeof *front_limits);
        limits_print(stdout, base_limits, base_limits_n);
        return FRONT_OK;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        return help(argc > 2 ? argv[2] : NULL);
    }
    v = find(argv[1]);
    if (v == NULL) {
        return unknown(argv[1]);
    }
    return v->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    struct error e;
    int code;

    std_fds_reserve();
    signal(SIGPIPE, SIG_IGN); /* a write fails with EPIPE instead */
    code = run(argc, argv);
    if (std_out_end(&e) != ST_OK && code == FRONT_OK) {
        fprintf(stderr, FRONT_NAME ": %s\n", e.text);
        code = FRONT_FAILED;
    }
    return code;
}
