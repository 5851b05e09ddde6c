/* sluicectl_io.c - Functions shared by the verbs: connection, operands, errors,
 * output, signals. */
#include "client/ctl/ctl.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/escape.h"
#include "common/base/memory.h"
#include "common/base/std_fds.h"
#include "common/wire/loop.h"
#include "proto/admin.pb-c.h"

#define NAMES        8 /* buffers of ctl_name() */
#define FLOAT_DIGITS 9 /* significant digits that reproduce any float */

void ctl_print_json(json_t *j)
{
    json_dumpf(j, stdout, JSON_COMPACT | JSON_REAL_PRECISION(FLOAT_DIGITS));
    putchar('\n');
    json_decref(j);
}

bool ctl_flush(void)
{
    int why;

    return std_out_flush(&why);
}

/* A command line error or a failed call keeps its own exit code; success
 * without its output is a failure. */
int ctl_end_output(int rc)
{
    struct error e;
    enum status st = std_out_end(&e);

    if (st == ST_OK) {
        return rc;
    }
    fprintf(stderr, CTL_NAME ": %s\n", e.text);
    if (st == ST_CANCELLED) {
        return CTL_INTERRUPTED;
    }
    return rc == CTL_OK ? CTL_FAILED : rc;
}

/* A ring of buffers, so that one printf() can have several names. */
const char *ctl_name(ProtobufCBinaryData name)
{
    static char names[NAMES][128 * ESCAPE_GROWTH + 1];
    static unsigned next;
    char *out = names[next++ % NAMES];
    size_t n = name.len < 128 ? name.len : 128;

    out[n == 0 ? 0 : escape_line((const char *)name.data, n, out)] = '\0';
    return out;
}

const char *ctl_plural(uint32_t n)
{
    return n == 1 ? "" : "s";
}

/* A lack of room is temporary, so scripts get a code of its own for it. */
static int exit_code(enum status status)
{
    switch (status) {
    case ST_OK:
        return CTL_OK;
    case ST_RESOURCE_EXHAUSTED:
        return CTL_NO_ROOM;
    case ST_CANCELLED:
        return CTL_INTERRUPTED;
    default:
        return CTL_FAILED;
    }
}

static json_t *json_failure(enum status status, const char *text,
                            uint32_t retry_after_ms)
{
    json_t *inner = json_object(), *j = json_object();

    json_object_set_new(inner, "status", json_string(status_name(status)));
    json_object_set_new(inner, "code", json_integer(status));
    json_object_set_new(inner, "message", json_text(text, strlen(text)));
    if (retry_after_ms > 0) {
        json_object_set_new(inner, "retry_after_ms",
                            json_integer(retry_after_ms));
    }
    json_object_set_new(j, "error", inner);
    return j;
}

int ctl_fail(const struct ctl *c, enum status status, const char *text,
             uint32_t retry_after_ms)
{
    (void)ctl_flush(); /* what was printed comes before the error */
    if (c->o.json) {
        ctl_print_json(json_failure(status, text, retry_after_ms));
        return exit_code(status);
    }
    fputs(CTL_NAME ": ", stderr);
    escape_print(stderr, text, strlen(text), false);
    fprintf(stderr, " (%s)", status_name(status));
    if (retry_after_ms > 0) {
        fprintf(stderr, "; retry after %u ms", retry_after_ms);
    }
    fputc('\n', stderr);
    return exit_code(status);
}

int ctl_misuse(const struct ctl *c, const char *fmt, ...)
{
    char text[ERROR_TEXT];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (c->o.json) {
        ctl_print_json(json_failure(ST_INVALID_ARGUMENT, text, 0));
    } else {
        fputs(CTL_NAME ": ", stderr);
        escape_print(stderr, text, strlen(text), false);
        fputc('\n', stderr);
    }
    return CTL_USAGE;
}

uint32_t ctl_left_ms(const struct ctl *c)
{
    int64_t left_us = c->end_us - loop_now_us();

    if (c->end_us == 0) {
        return 0;
    }
    return left_us < 1000 ? 1 : (uint32_t)(left_us / 1000);
}

/* Every verb connects as admin: status, cancel and drain are calls of the
 * Admin service, and generate looks up the workers' pools there. */
int ctl_open(struct ctl *c)
{
    /* The connection comes first, so it may take all of the time.  An error
     * names that time as the user gave it. */
    struct client_config config = {.endpoint = c->o.router,
                                   .admin = true,
                                   .timeout_ms = (uint32_t)c->o.timeout,
                                   .key = c->o.key,
                                   .trust = c->o.trust};
    struct error e = {0};
    enum status s;
    int rc;

    if (c->client != NULL) {
        return CTL_OK;
    }
    s = client_open(&c->client, &config, &e);
    if (s == ST_OK) {
        return CTL_OK;
    }
    if (s == ST_INVALID_ARGUMENT) {
        return ctl_misuse(c, "%s", e.text);
    }
    rc = ctl_fail(c, s, e.text, 0);
    return s == ST_UNAVAILABLE ? CTL_NO_ROUTER : rc;
}

int ctl_call(struct ctl *c, enum method m, const ProtobufCMessage *request,
             client_reply_fn *print, void *arg)
{
    struct error e = {0};
    enum status s;
    int rc = ctl_open(c);

    if (rc != CTL_OK) {
        return rc;
    }
    ctl_catch_interrupt(c->client);
    s = client_call(c->client, m, request, ctl_left_ms(c), print, arg, &e);
    return s == ST_OK ? CTL_OK : ctl_fail(c, s, e.text, 0);
}

/* A page has the time of a call, but not more than is left of the list's. */
static uint32_t page_ms(const struct ctl *c, int64_t end_us)
{
    int64_t left_ms = (end_us - loop_now_us()) / 1000;

    if (c->o.timeout == 0 && left_ms >= CLIENT_TIMEOUT_MS) {
        return 0;
    }
    return left_ms < 1 ? 1 : (uint32_t)left_ms;
}

enum status ctl_pages(const struct ctl *c, enum method m, struct pages *p,
                      client_reply_fn *take, void *arg, int64_t end_us,
                      struct error *e)
{
    Sluice__V1__ListRequest r = SLUICE__V1__LIST_REQUEST__INIT;
    enum status s;

    do {
        if (p->n > 0 && loop_now_us() >= end_us) {
            return error_set(e, ST_DEADLINE_EXCEEDED,
                             "the list has not ended in time: %u pages were "
                             "read; set a longer --timeout",
                             p->n);
        }
        r.has_after = p->after != 0;
        r.after = p->after;
        s = client_call(c->client, m, &r.base, page_ms(c, end_us), take, arg,
                        e);
        if (s == ST_OK && p->status != ST_OK) {
            *e = p->error;
            s = p->status;
        }
    } while (s == ST_OK && p->more);
    return s;
}

int ctl_list(struct ctl *c, enum method m, struct pages *p,
             client_reply_fn *take, void *arg)
{
    struct error e = {0};
    enum status s;
    int rc = ctl_open(c);

    if (rc != CTL_OK) {
        return rc;
    }
    ctl_catch_interrupt(c->client);
    s = ctl_pages(
        c, m, p, take, arg,
        c->end_us != 0 ? c->end_us : loop_now_us() + CTL_LIST_MS * 1000LL, &e);
    return s == ST_OK ? CTL_OK : ctl_fail(c, s, e.text, 0);
}

/* Returns the words joined by blanks, as a shell's echo would. */
static char *join_words(char **words, int n, size_t *bytes)
{
    size_t total = 1, at = 0;
    char *text;

    for (int i = 0; i < n; i++) {
        total += strlen(words[i]) + 1;
    }
    text = memory_must(malloc(total));
    for (int i = 0; i < n; i++) {
        at += (size_t)snprintf(text + at, total - at, "%s%s", i > 0 ? " " : "",
                               words[i]);
    }
    text[at] = '\0';
    *bytes = at;
    return text;
}

/* Reads all of standard input and adds a NUL that does not count. */
static char *read_input(const struct ctl *c, size_t *bytes)
{
    char *text = memory_must(malloc(CTL_INPUT_BYTES_MAX + 2));

    *bytes = fread(text, 1, CTL_INPUT_BYTES_MAX + 1, stdin);
    if (ferror(stdin) || *bytes > CTL_INPUT_BYTES_MAX) {
        (void)ctl_misuse(c, "standard input: %s",
                         ferror(stdin) ? strerror(errno)
                                       : "longer than the limit of 8 MiB");
        free(text);
        return NULL;
    }
    text[*bytes] = '\0';
    return text;
}

char *ctl_text(const struct ctl *c, size_t *n)
{
    bool dash = c->n_operands == 1 && strcmp(c->operands[0], "-") == 0;

    return c->n_operands > 0 && !dash
               ? join_words(c->operands, c->n_operands, n)
               : read_input(c, n);
}

/* Parses the id at *at and moves *at past it.  Returns false, without moving,
 * if there is no 32-bit number. */
static bool next_id(const char **at, uint32_t *id)
{
    unsigned long v;
    char *end;

    if (!isdigit((unsigned char)**at)) {
        return false;
    }
    errno = 0;
    v = strtoul(*at, &end, 10);
    if (errno != 0 || v > UINT32_MAX) {
        return false;
    }
    *id = (uint32_t)v;
    *at = end;
    return true;
}

bool ctl_ids(const struct ctl *c, uint32_t **ids, size_t *n)
{
    size_t bytes;
    char *text = ctl_text(c, &bytes);
    const char *at = text;

    if (text == NULL) {
        return false;
    }
    *n = 0;
    /* An id and its separator take at least two bytes. */
    *ids = memory_must(malloc((bytes / 2 + 1) * sizeof **ids));
    for (at += strspn(at, " ,[]\t\r\n"); at < text + bytes;
         at += strspn(at, " ,[]\t\r\n")) {
        if (!next_id(&at, &(*ids)[*n])) {
            (void)ctl_misuse(c,
                             "\"%.20s\" is not a token id; ids are numbers "
                             "below 2^32, separated by blanks or commas",
                             *at == '\0' ? "\\0" : at);
            free(text);
            free(*ids);
            *ids = NULL;
            return false;
        }
        (*n)++;
    }
    free(text);
    return true;
}

/* Global, because a signal handler receives no argument of its own. */
static struct client *volatile interrupted;

static void on_signal(int number)
{
    (void)number;
    client_interrupt(interrupted);
}

void ctl_catch_interrupt(struct client *client)
{
    struct sigaction action = {.sa_handler =
                                   client != NULL ? on_signal : SIG_DFL};

    interrupted = client;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}
