#include "tests/bench/http_reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void http_reply_init(struct http_reply *r)
{
    *r = (struct http_reply){0};
}

void http_reply_fini(struct http_reply *r)
{
    free(r->head.text);
    free(r->body.text);
    http_reply_init(r);
}

void http_reply_next(struct http_reply *r)
{
    r->state = HTTP_REPLY_STATUS;
    r->chunked = false;
    r->left = r->head.n = r->body.n = 0;
    r->status = 0;
}

/* Appends, with a NUL.  Returns false if the line is too long. */
static bool keep(struct http_line *line, const char *data, size_t n)
{
    size_t wanted = line->n + n + 1;

    if (wanted > HTTP_REPLY_LINE) {
        return false;
    }
    if (wanted > line->cap) {
        size_t cap = wanted < 128 ? 128 : 2 * wanted;
        char *text = realloc(line->text, cap);

        if (text == NULL) {
            return false;
        }
        line->text = text;
        line->cap = cap;
    }
    memcpy(line->text + line->n, data, n);
    line->n += n;
    line->text[line->n] = '\0';
    return true;
}

/* Takes bytes up to a line feed.  *ended: the line is complete, and is now
 * without its line end. */
static size_t take_line(struct http_reply *r, struct http_line *line,
                        const char *data, size_t n, bool *ended)
{
    const char *end = memchr(data, '\n', n);
    size_t taken = end != NULL ? (size_t)(end - data) : n;

    *ended = false;
    if (!keep(line, data, taken)) {
        r->state = HTTP_REPLY_BAD;
        return taken;
    }
    if (end == NULL) {
        return taken;
    }
    if (line->n > 0 && line->text[line->n - 1] == '\r') {
        line->text[--line->n] = '\0';
    }
    *ended = true;
    return taken + 1;
}

static enum http_reply_state read_header(struct http_reply *r)
{
    const char *line = r->head.text;

    if (r->head.n == 0) {
        if (r->chunked) {
            return HTTP_REPLY_SIZE;
        }
        return r->left > 0 ? HTTP_REPLY_BODY : HTTP_REPLY_DONE;
    }
    if (strncasecmp(line, "content-length:", 15) == 0) {
        r->left = strtoul(line + 15, NULL, 10);
    } else if (strncasecmp(line, "transfer-encoding:", 18) == 0) {
        r->chunked = strcasestr(line + 18, "chunked") != NULL;
    }
    return HTTP_REPLY_HEADER;
}

static enum http_reply_state read_size(struct http_reply *r)
{
    char *end;

    r->left = strtoul(r->head.text, &end, 16);
    if (end == r->head.text) {
        return HTTP_REPLY_BAD;
    }
    return r->left > 0 ? HTTP_REPLY_BODY : HTTP_REPLY_TRAILER;
}

/* Returns the state after a complete line of the protocol. */
static enum http_reply_state read_head(struct http_reply *r)
{
    switch (r->state) {
    case HTTP_REPLY_STATUS:
        return sscanf(r->head.text, "HTTP/1.1 %3d", &r->status) == 1
                   ? HTTP_REPLY_HEADER
                   : HTTP_REPLY_BAD;
    case HTTP_REPLY_HEADER:
        return read_header(r);
    case HTTP_REPLY_SIZE:
        return read_size(r);
    case HTTP_REPLY_AFTER:
        return r->head.n == 0 ? HTTP_REPLY_SIZE : HTTP_REPLY_BAD;
    default:
        return r->head.n == 0 ? HTTP_REPLY_DONE : HTTP_REPLY_TRAILER;
    }
}

static size_t take_head(struct http_reply *r, const char *data, size_t n)
{
    bool ended;
    size_t taken = take_line(r, &r->head, data, n, &ended);

    if (ended) {
        r->state = read_head(r);
        r->head.n = 0;
    }
    return taken;
}

static size_t take_body(struct http_reply *r, const char *data, size_t n,
                        http_reply_fn *fn, void *arg)
{
    bool ended;
    size_t taken =
        take_line(r, &r->body, data, n < r->left ? n : r->left, &ended);

    r->left -= taken;
    if (r->state == HTTP_REPLY_BAD) {
        return taken;
    }
    if (r->left == 0) {
        r->state = r->chunked ? HTTP_REPLY_AFTER : HTTP_REPLY_DONE;
    }
    /* The last line of a body of known length may lack its line end. */
    if (ended || (r->state == HTTP_REPLY_DONE && r->body.n > 0)) {
        fn(arg, r->body.text, r->body.n);
        r->body.n = 0;
    }
    return taken;
}

size_t http_reply_push(struct http_reply *r, const char *data, size_t n,
                       http_reply_fn *fn, void *arg)
{
    size_t at = 0;

    while (at < n && r->state < HTTP_REPLY_DONE) {
        at += r->state == HTTP_REPLY_BODY
                  ? take_body(r, data + at, n - at, fn, arg)
                  : take_head(r, data + at, n - at);
    }
    return at;
}

/* Returns what follows `"key":`, or NULL. */
static const char *value_of(const char *line, const char *key)
{
    size_t n = strlen(key);

    for (const char *p = line; (p = strstr(p, key)) != NULL; p += n) {
        if (p > line && p[-1] == '"' && p[n] == '"' && p[n + 1] == ':') {
            p += n + 2;
            return p + strspn(p, " ");
        }
    }
    return NULL;
}

/* Writes the UTF-8 of a \u escape, which may be half of a pair. */
static size_t put_escape(const char **p, char *out)
{
    unsigned low, code = 0;

    sscanf(*p, "%4x", &code);
    *p += 4;
    if (code >> 10 == 0x36 && sscanf(*p, "\\u%4x", &low) == 1) {
        code = 0x10000 + ((code & 0x3ff) << 10) + (low & 0x3ff);
        *p += 6;
    }
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

size_t http_reply_string(const char *line, const char *key, char *out,
                         size_t cap)
{
    static const char from[] = "nrtbf", to[] = "\n\r\t\b\f";
    const char *p = value_of(line, key), *found;
    size_t n = 0;

    if (p == NULL || *p != '"') {
        return 0;
    }
    p++;
    while (*p != '"' && *p != '\0' && n + 4 <= cap) {
        if (*p != '\\') {
            out[n++] = *p++;
            continue;
        }
        p++;
        if (*p == 'u') {
            p++;
            n += put_escape(&p, out + n);
        } else if (*p != '\0') {
            found = strchr(from, *p);
            out[n++] = found != NULL ? to[found - from] : *p;
            p++;
        }
    }
    return n;
}

long http_reply_number(const char *line, const char *key)
{
    const char *p = value_of(line, key);

    return p != NULL && *p >= '0' && *p <= '9' ? strtol(p, NULL, 10) : -1;
}
