#include "tests/sim/web_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void web_reader_begin(struct web_reader *r, bool head_only)
{
    char *body = r->body;
    size_t capacity = r->capacity;

    r->at = WEB_AT_HEAD;
    r->head_only = head_only;
    r->status = 0;
    r->closes = r->is_events = false;
    r->n_line = r->n_body = r->left = 0;
    r->body = body;
    r->capacity = capacity;
}

void web_reader_fini(struct web_reader *r)
{
    free(r->body);
    r->body = NULL;
}

/* Keeps a NUL behind the body, for searches. */
static void put(struct web_reader *r, const char *data, size_t n)
{
    if (r->n_body + n + 1 > r->capacity) {
        r->capacity = 2 * (r->n_body + n + 1);
        r->body = realloc(r->body, r->capacity);
        if (!r->body) {
            abort();
        }
    }
    memcpy(r->body + r->n_body, data, n);
    r->n_body += n;
    r->body[r->n_body] = '\0';
}

/* Returns the value of a header, NULL if the head has none; sets wrong if it
 * has two. */
static const char *header(struct web_reader *r, const char *name)
{
    const char *found = NULL;
    size_t n = strlen(name);

    for (const char *at = strstr(r->line, "\r\n"); at && at[2];
         at = strstr(at + 2, "\r\n")) {
        if (strncasecmp(at + 2, name, n) == 0 && at[2 + n] == ':') {
            r->wrong = found ? "a header occurs twice" : r->wrong;
            found = at + 2 + n + 1 + strspn(at + 2 + n + 1, " ");
        }
    }
    return found;
}

static bool is(const char *value, const char *text)
{
    return value && strncmp(value, text, strlen(text)) == 0 &&
           (value[strlen(text)] == '\r' || value[strlen(text)] == ';');
}

/* Chooses how the body ends; two ways at once are an error. */
static void end_head(struct web_reader *r)
{
    const char *length, *coding;
    int minor;

    if (sscanf(r->line, "HTTP/1.%d %3d ", &minor, &r->status) != 2 ||
        minor != 1 || r->status < 200 || r->status > 599) {
        r->wrong = "the status line is wrong";
        return;
    }
    length = header(r, "content-length");
    coding = header(r, "transfer-encoding");
    r->closes = is(header(r, "connection"), "close");
    r->is_events = is(header(r, "content-type"), "text/event-stream");
    if (length && coding) {
        r->wrong = "the response has two lengths";
    } else if (r->head_only || r->status == 204) {
        r->at = WEB_AT_DONE;
    } else if (coding) {
        r->wrong = is(coding, "chunked") ? NULL : "the coding is wrong";
        r->at = WEB_AT_SIZE;
    } else if (length) {
        r->left = strtoull(length, NULL, 10);
        r->at = r->left ? WEB_AT_BODY : WEB_AT_DONE;
    } else {
        r->wrong = r->closes ? NULL : "the response has no length";
        r->at = WEB_AT_END;
    }
    r->n_line = 0;
}

/* Takes one byte of a line that ends in `end`.  Returns whether it is whole. */
static bool line(struct web_reader *r, char c, const char *end)
{
    size_t n = strlen(end);

    if (r->n_line + 1 == WEB_HEAD_MAX || c == '\0') {
        r->wrong = "a line of the response is too long or holds a NUL";
        return false;
    }
    r->line[r->n_line++] = c;
    r->line[r->n_line] = '\0';
    return r->n_line >= n && memcmp(r->line + r->n_line - n, end, n) == 0;
}

static void end_size(struct web_reader *r)
{
    char *end;

    r->left = strtoull(r->line, &end, 16);
    if (end == r->line || strcmp(end, "\r\n") != 0) {
        r->wrong = "the size of a chunk is wrong";
    }
    r->n_line = 0;
    r->at = r->left ? WEB_AT_CHUNK : WEB_AT_LAST;
}

/* The line after a chunk, or after the last one, is empty. */
static void end_break(struct web_reader *r)
{
    if (strcmp(r->line, "\r\n") != 0) {
        r->wrong = "a chunk is longer than its size";
    }
    r->n_line = 0;
    r->at = r->at == WEB_AT_BREAK ? WEB_AT_SIZE : WEB_AT_DONE;
}

static void take_line(struct web_reader *r, char c)
{
    if (line(r, c, r->at == WEB_AT_HEAD ? "\r\n\r\n" : "\n")) {
        if (r->at == WEB_AT_HEAD) {
            end_head(r);
        } else if (r->at == WEB_AT_SIZE) {
            end_size(r);
        } else {
            end_break(r);
        }
    }
}

static size_t take_body(struct web_reader *r, const char *data, size_t n)
{
    if (r->at == WEB_AT_END) {
        put(r, data, n);
        return n;
    }
    n = n < r->left ? n : r->left;
    put(r, data, n);
    r->left -= n;
    if (r->left == 0) {
        r->at = r->at == WEB_AT_CHUNK ? WEB_AT_BREAK : WEB_AT_DONE;
    }
    return n;
}

size_t web_reader_feed(struct web_reader *r, const char *data, size_t n)
{
    size_t at = 0;

    while (at < n && r->at != WEB_AT_DONE && !r->wrong) {
        if (r->at == WEB_AT_BODY || r->at == WEB_AT_CHUNK ||
            r->at == WEB_AT_END) {
            at += take_body(r, data + at, n - at);
        } else {
            take_line(r, data[at++]);
        }
    }
    return at;
}
