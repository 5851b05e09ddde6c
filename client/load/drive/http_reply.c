#include "client/load/drive/http_reply.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CHUNK_DIGITS_MAX 12

void http_reply_begin(struct http_reply *r)
{
    r->part = REPLY_HEAD;
    r->status = 0;
    r->keeps = false;
    r->streams = false;
    r->chunked = false;
    r->has_length = false;
    r->encoded = false;
    r->left = 0;
    r->why = NULL;
    r->n_line = 0;
}

static void bad(struct http_reply *r, const char *why)
{
    r->part = REPLY_BAD;
    r->keeps = false;
    r->why = why;
}

/* ---- the head ---- */

/* Returns whether a comma-separated list has a word. */
static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);

    while (*list != '\0') {
        size_t part;

        list += strspn(list, ", \t");
        part = strcspn(list, ", \t;");
        if (part == n && strncasecmp(list, word, n) == 0) {
            return true;
        }
        list += strcspn(list, ",");
    }
    return false;
}

static void take_length(struct http_reply *r, const char *value)
{
    char *end;
    uint64_t v = strtoull(value, &end, 10);

    if (value[0] < '0' || value[0] > '9' || end[strspn(end, " \t")] != '\0' ||
        v > INT64_MAX || (r->has_length && r->left != v)) {
        bad(r, "the server sent a Content-Length that is no length");
    }
    r->has_length = true;
    r->left = v;
}

static void take_field(struct http_reply *r, char *line)
{
    char *value = strchr(line, ':');

    if (value == NULL) {
        bad(r, "the server sent a header line without a colon");
        return;
    }
    *value++ = '\0';
    value += strspn(value, " \t");
    if (strcasecmp(line, "Content-Length") == 0) {
        take_length(r, value);
    } else if (strcasecmp(line, "Transfer-Encoding") == 0) {
        r->chunked = has_word(value, "chunked");
    } else if (strcasecmp(line, "Connection") == 0) {
        r->keeps = has_word(value, "keep-alive") ||
                   (r->keeps && !has_word(value, "close"));
    } else if (strcasecmp(line, "Content-Type") == 0) {
        r->streams = has_word(value, "text/event-stream");
    } else if (strcasecmp(line, "Content-Encoding") == 0) {
        r->encoded = !has_word(value, "identity");
    }
}

static void take_status(struct http_reply *r, const char *line)
{
    bool minor_1 = strncmp(line, "HTTP/1.1 ", 9) == 0;

    if (!minor_1 && strncmp(line, "HTTP/1.0 ", 9) != 0) {
        bad(r, "the server does not speak HTTP/1.1");
        return;
    }
    r->keeps = minor_1;
    r->status = atoi(line + 9);
    if (r->status < 100 || r->status > 999) {
        bad(r, "the server sent no HTTP status");
    }
}

static void end_head(struct http_reply *r, const struct http_reply_ops *ops,
                     void *arg)
{
    if (r->encoded) {
        bad(r, "the server sent a compressed answer, which was not asked for");
        return;
    }
    if (r->status < 200) { /* interim */
        http_reply_begin(r);
        return;
    }
    if (r->status == 204 || r->status == 304) {
        r->has_length = true;
        r->left = 0;
        r->chunked = false;
    }
    if (r->chunked) {
        r->part = REPLY_SIZE;
    } else if (r->has_length) {
        r->part = r->left > 0 ? REPLY_BODY : REPLY_DONE;
    } else {
        r->part = REPLY_BODY;
        r->left = UINT64_MAX;
        r->keeps = false;
    }
    ops->on_head(arg, r);
}

/* ---- lines ---- */

static void take_size(struct http_reply *r)
{
    size_t digits = strspn(r->line, "0123456789abcdefABCDEF");

    if (digits == 0 || digits > CHUNK_DIGITS_MAX ||
        strchr(" \t;", r->line[digits]) == NULL) {
        bad(r, "the server sent a chunk without a size");
        return;
    }
    r->left = strtoull(r->line, NULL, 16);
    r->part = r->left == 0 ? REPLY_TRAILERS : REPLY_CHUNK;
}

static void end_line(struct http_reply *r, const struct http_reply_ops *ops,
                     void *arg)
{
    size_t n = r->n_line;

    r->n_line = 0;
    n -= n > 0 && r->line[n - 1] == '\r';
    r->line[n] = '\0';
    if (r->part == REPLY_SIZE) {
        take_size(r);
    } else if (r->part == REPLY_CHUNK) { /* the line end behind its bytes */
        r->part = REPLY_SIZE;
        if (n > 0) {
            bad(r, "the server sent a chunk longer than its size");
        }
    } else if (r->part == REPLY_TRAILERS) {
        r->part = n == 0 ? REPLY_DONE : REPLY_TRAILERS;
    } else if (n == 0) {
        if (r->status == 0) {
            bad(r, "the server sent an empty status line");
        } else {
            end_head(r, ops, arg);
        }
    } else if (r->status == 0) {
        take_status(r, r->line);
    } else {
        take_field(r, r->line);
    }
}

/* Takes bytes up to the end of a line. */
static size_t push_line(struct http_reply *r, const char *bytes, size_t n,
                        const struct http_reply_ops *ops, void *arg)
{
    const char *end = memchr(bytes, '\n', n);
    size_t part = end == NULL ? n : (size_t)(end - bytes);

    if (part >= HTTP_HEAD_MAX - r->n_line) {
        bad(r, "the server sent a header line longer than 16 KiB");
        return n;
    }
    memcpy(r->line + r->n_line, bytes, part);
    r->n_line += part;
    if (end != NULL) {
        end_line(r, ops, arg);
        part++;
    }
    return part;
}

static size_t push_body(struct http_reply *r, const char *bytes, size_t n,
                        const struct http_reply_ops *ops, void *arg)
{
    size_t part = n < r->left ? n : (size_t)r->left;

    r->left -= r->left == UINT64_MAX ? 0 : part;
    if (r->left == 0 && r->part == REPLY_BODY) {
        r->part = REPLY_DONE;
    }
    ops->on_body(arg, bytes, part);
    return part;
}

size_t http_reply_push(struct http_reply *r, const char *bytes, size_t n,
                       const struct http_reply_ops *ops, void *arg,
                       const bool *stop)
{
    size_t at = 0;

    while (at < n && r->part < REPLY_DONE && !*stop) {
        bool body =
            r->part == REPLY_BODY || (r->part == REPLY_CHUNK && r->left > 0);

        at += body ? push_body(r, bytes + at, n - at, ops, arg)
                   : push_line(r, bytes + at, n - at, ops, arg);
    }
    return at;
}

bool http_reply_close(struct http_reply *r)
{
    if (r->part == REPLY_BODY && r->left == UINT64_MAX) {
        r->part = REPLY_DONE;
    }
    return r->part == REPLY_DONE;
}
