/* chat.c - `sluice chat`: a conversation in the terminal. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/ctl/escape.h"
#include "client/ctl/rate.h"
#include "client/front/chat_input.h"
#include "client/front/conversation.h"
#include "client/front/front.h"
#include "client/front/http_client.h"
#include "client/front/interrupt.h"
#include "client/front/reply.h"
#include "client/front/terminal.h"
#include "common/base/memory.h"
#include "common/base/monotonic.h"
#include "common/base/option_value.h"
#include "proto/limits.h"

#define DIM   "\033[2m"
#define PLAIN "\033[0m"

#define CHAT_OPTIONS(X)                                                        \
    X(url, STRING, "URL", "http://127.0.0.1:8000", "server", 0, 0)             \
    X(model, STRING, "NAME", NULL,                                             \
      "model (default: the first that the server lists)", 0, 0)                \
    X(key, STRING, "KEY", NULL,                                                \
      "API key; other users of this machine can see it (default: "             \
      "$SLUICE_API_KEY)",                                                      \
      0, 0)                                                                    \
    X(system, STRING, "TEXT", NULL, "system message (default: none)", 0, 0)    \
    X(temperature, STRING, "T", NULL,                                          \
      "sampling temperature, 0 to 2; 0: greedy (default: the server's)", 0, 0) \
    X(max_tokens, U32, "N", NULL,                                              \
      "limit of generated tokens (default: the server's)", 1, 4294967295.0)    \
    X(drafts, STRING, "K", NULL,                                               \
      "most tokens drafted in a step, 0 to 8; replies are the same (default: " \
      "the server's)",                                                         \
      0, 0)                                                                    \
    X(no_think, FLAG, NULL, NULL, "replies without reasoning", 0, 0)           \
    X(help, FLAG, NULL, NULL, "print this text and exit", 0, 0)

OPTION_TABLE(chat_options, CHAT_OPTIONS);

struct chat {
    struct http_client *http;
    struct conversation *conversation;
    struct conversation_settings settings;
    char model[512];
    bool tty_out; /* standard output is a terminal */
};

/* One reply as it arrives. */
struct shown {
    struct chat *chat;
    struct reply reply;
    char *text; /* [n] of the content */
    size_t n, size;
    bool dim;                   /* the terminal shows reasoning */
    int64_t begin_us, first_us; /* first_us: 0 before the first piece */
};

/* ---- one reply ---- */

/* A reply without end is shown, and kept up to the limit of a conversation. */
static void keep(struct shown *s, const char *text, size_t n)
{
    if (n > CONVERSATION_BYTES_MAX - s->n) {
        return;
    }
    if (s->n + n > s->size) {
        s->size = 2 * (s->n + n);
        s->text = memory_must(realloc(s->text, s->size));
    }
    memcpy(s->text + s->n, text, n);
    s->n += n;
}

static void set_dim(struct shown *s, bool dim)
{
    if (s->dim != dim) {
        fputs(dim ? DIM : PLAIN "\n\n", stdout);
        s->dim = dim;
    }
}

/* A pipe receives the answer alone, byte for byte. */
static void on_piece(void *arg, enum reply_kind kind, const char *text,
                     size_t n)
{
    struct shown *s = arg;

    if (s->first_us == 0) {
        s->first_us = monotonic_us();
    }
    if (kind == REPLY_CONTENT) {
        keep(s, text, n);
    }
    if (s->chat->tty_out) {
        set_dim(s, kind == REPLY_REASONING);
        escape_print(stdout, text, n, true);
    } else if (kind == REPLY_CONTENT) {
        fwrite(text, 1, n, stdout);
    }
    fflush(stdout);
}

static void on_event(void *arg, const char *data, size_t n)
{
    struct shown *s = arg;

    reply_take(&s->reply, data, n, on_piece, s);
}

static void print_figures(const struct shown *s)
{
    int64_t end_us = monotonic_us();
    double rate;

    if (!s->reply.has_usage || s->first_us == 0) {
        return;
    }
    printf(DIM "%" PRIu64 " tokens, first after %.0f ms", s->reply.n_generated,
           (double)(s->first_us - s->begin_us) / 1000);
    if (s->reply.n_generated > 1 &&
        rate_of(s->reply.n_generated - 1, end_us - s->first_us, &rate)) {
        printf(", then %.1f tokens/s", rate);
    }
    printf("%s" PLAIN "\n",
           strcmp(s->reply.finish, "length") == 0 ? "; cut by the limit" : "");
}

/* Sends the conversation and shows the reply, which joins the conversation
 * also if it is partial. */
static enum status answer(struct chat *c, struct error *e)
{
    struct shown s = {.chat = c, .begin_us = monotonic_us()};
    char *json = conversation_request(c->conversation, &c->settings);
    enum status st = http_client_stream(c->http, "/v1/chat/completions", json,
                                        on_event, &s, e);

    free(json);
    if (st == ST_OK && s.reply.failed) {
        *e = s.reply.e;
        st = e->code;
    } else if (st == ST_OK && !s.reply.done) {
        st = error_set(e, ST_DATA_LOSS, "the server ended the reply early");
    }
    conversation_answer(c->conversation, s.text, s.n);
    if (c->tty_out) {
        fputs(s.dim ? PLAIN "\n" : "\n", stdout);
        if (st == ST_OK) {
            print_figures(&s);
        }
    } else if (s.n > 0 && s.text[s.n - 1] != '\n') {
        putchar('\n');
    }
    free(s.text);
    return st;
}

/* ---- the conversation ---- */

static void print_error(const char *text)
{
    /* The sentence may be the server's. */
    fputs("sluice chat: ", stderr);
    escape_print(stderr, text, strlen(text), false);
    fputc('\n', stderr);
}

static void print_help(void)
{
    puts("  /reset        forget the conversation, keep the system message\n"
         "  /system TEXT  set the system message; without TEXT: remove it\n"
         "  /retry        ask the last question again\n"
         "  /save FILE    write the messages to FILE as JSON\n"
         "  /help         this text\n"
         "  \"\"\"           begin or end a message of several lines;\n"
         "                a backslash at the end of a line continues it too\n"
         "  Ctrl-C        cancel the reply; Ctrl-D ends");
}

/* Never replaces a file. */
static enum status save(const struct chat *c, const char *path, struct error *e)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    char *text;
    bool ok;

    if (fd < 0) {
        return error_set(e, ST_UNAVAILABLE, "cannot write \"%s\": %s", path,
                         strerror(errno));
    }
    text = conversation_text(c->conversation);
    ok = dprintf(fd, "%s", text) == (int)strlen(text);
    ok = close(fd) == 0 && ok;
    free(text);
    return ok ? ST_OK
              : error_set(e, ST_UNAVAILABLE, "cannot write \"%s\"", path);
}

static enum status command(struct chat *c, const char *text, struct error *e)
{
    const char *argument;

    switch (chat_command_parse(text, &argument)) {
    case CHAT_VERB_RESET:
        conversation_reset(c->conversation);
        return ST_OK;
    case CHAT_VERB_SYSTEM:
        return conversation_set_system(c->conversation, argument, e);
    case CHAT_VERB_SAVE:
        return save(c, argument, e);
    case CHAT_VERB_RETRY:
        if (!conversation_retry(c->conversation)) {
            return error_set(e, ST_FAILED_PRECONDITION,
                             "there is no question to ask again");
        }
        return answer(c, e);
    case CHAT_VERB_HELP:
        print_help();
        return ST_OK;
    case CHAT_VERB_UNKNOWN:
        break;
    }
    return error_set(e, ST_INVALID_ARGUMENT,
                     "unknown command; /help lists the commands");
}

static enum status say(struct chat *c, const char *text, size_t n,
                       struct error *e)
{
    enum status st = conversation_ask(c->conversation, text, n, e);

    return st == ST_OK ? answer(c, e) : st;
}

static void act(struct chat *c, const struct chat_input *in,
                enum chat_input_result result)
{
    struct error e = {0};
    enum status st = ST_OK;

    if (result == CHAT_MESSAGE) {
        st = say(c, in->text, in->n, &e);
    } else if (result == CHAT_COMMAND) {
        st = command(c, in->text, &e);
    } else if (result == CHAT_TOO_LONG) {
        st = error_set(&e, ST_OUT_OF_RANGE,
                       "a message has %u bytes at most; the lines were dropped",
                       CHAT_INPUT_BYTES_MAX);
    }
    if (st == ST_CANCELLED) {
        puts(DIM "cancelled; the conversation goes on" PLAIN);
    } else if (st != ST_OK) {
        print_error(e.text);
    }
}

/* Reads and answers until Ctrl-D. */
static enum status converse(struct chat *c, struct error *e)
{
    struct terminal *t;
    struct chat_input in = {0};
    enum chat_input_result result = CHAT_EMPTY;
    const char *line;
    size_t n;
    enum status st = terminal_open(&t, e);

    if (st != ST_OK) {
        return st;
    }
    printf("%s.  /help lists the commands, Ctrl-D ends.\n", c->model);
    while (st != ST_OUT_OF_RANGE) {
        fflush(stdout);
        st = terminal_read(t, result == CHAT_MORE ? "... " : "> ", &line, &n);
        if (st == ST_CANCELLED) {
            putchar('\n');
            chat_input_reset(&in);
            result = CHAT_EMPTY;
        } else if (st == ST_OK) {
            result = chat_input_push(&in, line, n);
            act(c, &in, result);
        }
    }
    putchar('\n');
    chat_input_fini(&in);
    terminal_close(&t);
    return ST_OK;
}

/* Answers one prompt, which is all of standard input. */
static enum status answer_input(struct chat *c, struct error *e)
{
    char *text = malloc(CHAT_INPUT_BYTES_MAX + 1);
    size_t n;
    enum status st;

    if (text == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    n = fread(text, 1, CHAT_INPUT_BYTES_MAX + 1, stdin);
    if (n > CHAT_INPUT_BYTES_MAX) {
        st = error_set(e, ST_OUT_OF_RANGE,
                       "standard input has more than %u bytes",
                       CHAT_INPUT_BYTES_MAX);
    } else {
        n -= n > 0 && text[n - 1] == '\n' ? 1 : 0;
        st = n == 0 ? error_set(e, ST_INVALID_ARGUMENT,
                                "standard input is empty; a prompt is required")
                    : say(c, text, n, e);
    }
    free(text);
    return st;
}

/* ---- the command line ---- */

static enum status choose_model(struct chat *c, const char *name,
                                struct error *e)
{
    char *body = NULL;
    size_t n;
    enum status st = ST_OK;

    c->settings.model = c->model;
    if (name != NULL) {
        if ((size_t)snprintf(c->model, sizeof c->model, "%s", name) >=
            sizeof c->model) {
            return error_set(e, ST_INVALID_ARGUMENT, "--model is too long");
        }
        return ST_OK;
    }
    st = http_client_get(c->http, "/v1/models", &body, &n, e);
    if (st == ST_OK && !reply_first_model(body, n, c->model, sizeof c->model)) {
        st = error_set(e, ST_NOT_FOUND,
                       "the server lists no model; give --model NAME");
    }
    free(body);
    return st;
}

static enum status take_temperature(struct chat *c, const char *text,
                                    struct error *e)
{
    char *end;

    if (text == NULL) {
        return ST_OK;
    }
    c->settings.has_temperature = true;
    c->settings.temperature = strtod(text, &end);
    if (end == text || *end != '\0' || !(c->settings.temperature >= 0) ||
        !(c->settings.temperature <= 2)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--temperature %s: 0 to 2 is required", text);
    }
    return ST_OK;
}

static enum status chat_open(struct chat *c, const struct chat_options *o,
                             struct error *e)
{
    const char *key = o->key != NULL ? o->key : getenv("SLUICE_API_KEY");
    enum status st = take_temperature(c, o->temperature, e);

    /* An empty variable counts as unset. */
    if (key != NULL && key[0] == '\0') {
        key = NULL;
    }
    if (st == ST_OK) {
        st = option_u32("drafts", o->drafts, DRAFTS_MAX,
                        &c->settings.has_drafts, &c->settings.drafts, e);
    }
    c->settings.no_think = o->no_think;
    c->settings.max_tokens = o->max_tokens;
    c->settings.has_max_tokens = o->max_tokens > 0;
    c->tty_out = isatty(STDOUT_FILENO) != 0;
    c->conversation = conversation_new();
    if (st == ST_OK) {
        st = conversation_set_system(c->conversation, o->system, e);
    }
    if (st == ST_OK) {
        st = interrupt_catch(e);
    }
    if (st == ST_OK) {
        st = http_client_new(&c->http, o->url, key, e);
    }
    return st == ST_OK ? choose_model(c, o->model, e) : st;
}

static int run(int argc, char **argv)
{
    struct chat c = {0};
    struct chat_options o;
    struct error e;
    enum status st = option_parse_alone(
        chat_options_rows, OPTION_COUNT(chat_options_rows), &o, argc, argv, &e);

    if (st == ST_OK && o.help) {
        front_print_help(&chat_verb);
        return FRONT_OK;
    }
    if (st != ST_OK) {
        return front_error(&chat_verb, FRONT_USAGE, e.text);
    }
    setlocale(LC_CTYPE, "C.UTF-8"); /* libedit's; the program's text is UTF-8 */
    st = chat_open(&c, &o, &e);
    if (st == ST_OK) {
        st = isatty(STDIN_FILENO) ? converse(&c, &e) : answer_input(&c, &e);
    }
    http_client_free(&c.http);
    conversation_free(&c.conversation);
    if (st == ST_CANCELLED) {
        return FRONT_INTERRUPTED;
    }
    if (st != ST_OK) {
        print_error(e.text);
    }
    return st == ST_OK                 ? FRONT_OK
           : st == ST_INVALID_ARGUMENT ? FRONT_USAGE
                                       : FRONT_FAILED;
}

const struct front_verb chat_verb = {
    .name = "chat",
    .operands = "[options]",
    .summary = "talk to a model in the terminal, over HTTP",
    .more =
        "If standard input is no terminal, it is one prompt, and the answer "
        "goes\n"
        "to standard output.\n\n"
        "examples:\n"
        "  sluice chat\n"
        "  sluice chat --url https://llm.example.org --model tiny-hybrid\n"
        "  echo 'A word for cold?' | sluice chat --temperature 0\n\n"
        "exit codes: 0, 1 the server cannot be reached or refuses, 2 wrong\n"
        "options, 130 cancelled by Ctrl-C\n",
    .rows = chat_options_rows,
    .n_rows = OPTION_COUNT(chat_options_rows),
    .run = run,
};
