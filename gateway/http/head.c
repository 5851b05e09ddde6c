#include "gateway/http/head.h"

#include <string.h>

#include "gateway/http/http_limits.h"

#define VERSION "HTTP/1."

/* One state for each kind of byte that may come next.  Bytes are parsed one by
 * one, so that the split of the input cannot matter. */
enum state {
    LINE_START,
    LINE_START_LF,
    METHOD,
    TARGET,
    VERSION_TEXT,
    LINE_CR,
    LINE_LF,
    FIELD_START,
    NAME,
    VALUE_START,
    VALUE,
    VALUE_LF,
    END_LF,
    DONE
};

_Static_assert(HTTP_LINE_BYTES_MAX + HTTP_HEADERS_BYTES_MAX +
                       HTTP_METHOD_BYTES_MAX + 2 * HTTP_HEADERS_MAX <
                   UINT16_MAX,
               "offsets have 16 bits");

void http_head_init(struct http_head *h, struct memory_budget *budget,
                    bool trailers)
{
    memset(h, 0, sizeof *h);
    h->bytes.budget = budget;
    h->fields.budget = budget;
    h->trailers = trailers;
    h->state = trailers ? FIELD_START : LINE_START;
}

void http_head_fini(struct http_head *h)
{
    http_buffer_fini(&h->bytes);
    http_buffer_fini(&h->fields);
    h->n_fields = 0;
}

bool http_head_done(const struct http_head *h)
{
    return h->state == DONE;
}

const char *http_head_text(const struct http_head *h, uint16_t at)
{
    return h->bytes.n == 0 ? "" : http_buffer_data(&h->bytes) + at;
}

/* The buffer's memory comes from the allocator and nothing is taken from its
 * front, so the fields are aligned. */
static struct http_field *field_at(const struct http_head *h, unsigned i)
{
    return (struct http_field *)(void *)h->fields.data + i;
}

const struct http_field *http_head_find(const struct http_head *h,
                                        const char *name, unsigned skip)
{
    for (unsigned i = 0; i < h->n_fields; i++) {
        const struct http_field *f = field_at(h, i);

        if (strcmp(http_head_text(h, f->name), name) == 0 && skip-- == 0) {
            return f;
        }
    }
    return NULL;
}

/* ---- characters ---- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* A tchar of RFC 9110. */
static bool is_token(char c)
{
    return is_letter(c) || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

/* Bytes of 0x80 and above are allowed in values, as RFC 9110 does. */
static bool is_value(char c)
{
    unsigned char u = (unsigned char)c;

    return u == '\t' || (u >= ' ' && u != 0x7f);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static bool put(struct http_head *h, char c, struct http_refusal *r)
{
    return http_buffer_append(&h->bytes, &c, 1) ||
           http_refuse(r, 503,
                       "the server is out of memory for requests; "
                       "retry later");
}

static bool wrong_byte(struct http_refusal *r, const char *where, char c)
{
    if (c == '\n') {
        return http_refuse(r, 400,
                           "a line feed without carriage return in "
                           "%s; lines end in CRLF",
                           where);
    }
    return http_refuse(r, 400, "byte 0x%02x is not allowed in %s",
                       (unsigned)(unsigned char)c, where);
}

/* ---- the request line ---- */

static bool on_line_start(struct http_head *h, char c, struct http_refusal *r)
{
    if (c == '\r' && !h->skipped_line) {
        h->skipped_line = true;
        h->state = LINE_START_LF;
        return true;
    }
    if (!is_token(c)) {
        return wrong_byte(r, "the method", c);
    }
    h->state = METHOD;
    h->line_n = 1;
    return put(h, c, r);
}

/* Methods are case-sensitive: "get" is a method that nobody defined. */
static enum http_method method_named(const char *name)
{
    static const char *const names[] = {[HTTP_GET] = "GET",
                                        [HTTP_HEAD] = "HEAD",
                                        [HTTP_POST] = "POST",
                                        [HTTP_OPTIONS] = "OPTIONS"};

    for (unsigned i = 0; i < HTTP_OTHER; i++) {
        if (strcmp(names[i], name) == 0) {
            return (enum http_method)i;
        }
    }
    return HTTP_OTHER;
}

static bool on_method(struct http_head *h, char c, struct http_refusal *r)
{
    if (c == ' ') {
        if (!put(h, '\0', r)) {
            return false;
        }
        h->method = (uint8_t)method_named(http_buffer_data(&h->bytes));
        /* The target then begins at offset 0. */
        h->bytes.n = 0;
        h->state = TARGET;
        return true;
    }
    if (!is_token(c)) {
        return wrong_byte(r, "the method", c);
    }
    if (h->bytes.n == HTTP_METHOD_BYTES_MAX) {
        return http_refuse(r, 501,
                           "the method is longer than %d bytes; use "
                           "GET or POST",
                           HTTP_METHOD_BYTES_MAX);
    }
    return put(h, c, r);
}

static bool on_target(struct http_head *h, char c, struct http_refusal *r)
{
    if (c == ' ' && h->bytes.n > 0) {
        h->state = VERSION_TEXT;
        return put(h, '\0', r);
    }
    /* Also refuses HTTP/0.9, whose line ends after the target. */
    if (c <= ' ' || c == 0x7f) { /* negative: 0x80 and above */
        return wrong_byte(r, "the request's target", c);
    }
    return put(h, c, r);
}

/* The version is not kept as text: only its last digit varies. */
static bool on_version(struct http_head *h, char c, struct http_refusal *r)
{
    unsigned at = h->version_n++;

    if (at < strlen(VERSION)) {
        if (c == VERSION[at]) {
            return true;
        }
        return at == 5 ? http_refuse(r, 505, "use HTTP/1.1 or HTTP/1.0")
                       : wrong_byte(r, "the version", c);
    }
    if (c != '0' && c != '1') {
        return http_refuse(r, 505, "use HTTP/1.1 or HTTP/1.0");
    }
    h->minor = (uint8_t)(c - '0');
    h->state = LINE_CR;
    return true;
}

/* ---- fields ---- */

static bool field_begin(struct http_head *h, struct http_refusal *r)
{
    struct http_field f = {.name = (uint16_t)h->bytes.n};

    if (h->n_fields == HTTP_HEADERS_MAX) {
        return http_refuse(r, 431, "more than %d headers; send fewer",
                           HTTP_HEADERS_MAX);
    }
    h->n_fields++;
    /* Trailers are parsed to find their end, and dropped: a trailer must not
     * pass for a header that was checked before the body. */
    if (h->trailers) {
        h->bytes.n = 0;
        return true;
    }
    return http_buffer_append(&h->fields, (const char *)&f, sizeof f) ||
           http_refuse(r, 503,
                       "the server is out of memory for requests; "
                       "retry later");
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* A leading space continues the previous line for some servers (obs-fold) and
 * begins a header for others. */
static bool on_field_start(struct http_head *h, char c, struct http_refusal *r)
{
    if (c == '\r') {
        h->state = END_LF;
        return true;
    }
    if (is_space(c)) {
        return http_refuse(r, 400,
                           "a header line begins with a space; send "
                           "each header on one line");
    }
    if (!is_token(c)) {
        return wrong_byte(r, "a header's name", c);
    }
    h->state = NAME;
    return field_begin(h, r) && put(h, lower(c), r);
}

/* A space before the colon is no token, so "Content-Length : 5" is refused:
 * servers that drop such a header and servers that accept it would see two
 * requests. */
static bool on_name(struct http_head *h, char c, struct http_refusal *r)
{
    if (c == ':') {
        if (!put(h, '\0', r)) {
            return false;
        }
        if (!h->trailers) {
            field_at(h, h->n_fields - 1u)->value = (uint16_t)h->bytes.n;
        }
        h->state = VALUE_START;
        return true;
    }
    return is_token(c) ? put(h, lower(c), r)
                       : wrong_byte(r, "a header's name", c);
}

static bool value_end(struct http_head *h, struct http_refusal *r)
{
    h->state = VALUE_LF;
    if (!h->trailers) {
        struct http_field *f = field_at(h, h->n_fields - 1u);

        while (h->bytes.n > f->value &&
               is_space(http_buffer_data(&h->bytes)[h->bytes.n - 1])) {
            h->bytes.n--;
        }
        f->value_n = (uint16_t)(h->bytes.n - f->value);
    }
    return put(h, '\0', r);
}

static bool on_value(struct http_head *h, char c, struct http_refusal *r)
{
    if (h->state == VALUE_START && is_space(c)) {
        return true;
    }
    h->state = VALUE;
    if (c == '\r') {
        return value_end(h, r);
    }
    return is_value(c) ? put(h, c, r) : wrong_byte(r, "a header's value", c);
}

static bool on_lf(struct http_head *h, char c, enum state next,
                  struct http_refusal *r)
{
    if (c != '\n') {
        return http_refuse(r, 400,
                           "a carriage return without line feed; "
                           "lines end in CRLF");
    }
    h->state = (uint8_t)next;
    return true;
}

/* ---- all ---- */

/* Counts before the byte is looked at, so that spaces, which are not stored,
 * count too. */
static bool count(struct http_head *h, struct http_refusal *r)
{
    uint32_t most =
        h->trailers ? HTTP_TRAILERS_BYTES_MAX : HTTP_HEADERS_BYTES_MAX;

    if (h->state < LINE_CR && ++h->line_n > HTTP_LINE_BYTES_MAX) {
        return http_refuse(r, 414,
                           "the request line is longer than %d bytes; "
                           "send parameters in the body",
                           HTTP_LINE_BYTES_MAX);
    }
    if (h->state >= FIELD_START && ++h->headers_n > most) {
        return http_refuse(r, 431,
                           "the headers are longer than %u bytes; send "
                           "fewer or shorter ones",
                           most);
    }
    return true;
}

static bool step(struct http_head *h, char c, struct http_refusal *r)
{
    switch ((enum state)h->state) {
    case LINE_START:
        return on_line_start(h, c, r);
    case LINE_START_LF:
        return on_lf(h, c, LINE_START, r);
    case METHOD:
        return on_method(h, c, r);
    case TARGET:
        return on_target(h, c, r);
    case VERSION_TEXT:
        return on_version(h, c, r);
    case LINE_CR:
        h->state = LINE_LF;
        return c == '\r' || wrong_byte(r, "the version", c);
    case LINE_LF:
        return on_lf(h, c, FIELD_START, r);
    case FIELD_START:
        return on_field_start(h, c, r);
    case NAME:
        return on_name(h, c, r);
    case VALUE_START:
    case VALUE:
        return on_value(h, c, r);
    case VALUE_LF:
        return on_lf(h, c, FIELD_START, r);
    case END_LF:
    case DONE:
        break;
    }
    return on_lf(h, c, DONE, r);
}

bool http_head_push(struct http_head *h, const char *data, size_t n,
                    size_t *used, struct http_refusal *r)
{
    size_t i;

    for (i = 0; i < n && h->state != DONE; i++) {
        if (!count(h, r) || !step(h, data[i], r)) {
            *used = i;
            return false;
        }
    }
    *used = i;
    return true;
}
