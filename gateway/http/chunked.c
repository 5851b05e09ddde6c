#include "gateway/http/chunked.h"

#include "common/base/chars.h"
#include "gateway/http/http_limits.h"

static bool wrong(struct http_refusal *r, char c)
{
    return http_refuse(r, 400,
                       "byte 0x%02x is not allowed in the lines of a "
                       "chunked body",
                       (unsigned)(unsigned char)c);
}

/* Sixteen digits fit the number exactly, so that it cannot overflow. */
_Static_assert(HTTP_CHUNK_DIGITS_MAX == 16, "four bits a digit");

/* RFC 9112 allows spaces after the size.  They are refused: proxies disagree
 * on them, and no client sends them. */
static bool on_size(struct http_chunked *c, char byte, struct http_refusal *r)
{
    int value = hex_digit(byte);

    if (value >= 0 && c->digits == HTTP_CHUNK_DIGITS_MAX) {
        return http_refuse(r, 400, "a chunk's size has more than %d digits",
                           HTTP_CHUNK_DIGITS_MAX);
    }
    if (value >= 0) {
        c->left = c->left << 4 | (unsigned)value;
        c->digits++;
        return true;
    }
    if (c->digits == 0 || (byte != ';' && byte != '\r')) {
        return wrong(r, byte);
    }
    c->digits = 0;
    c->state = byte == ';' ? HTTP_CHUNK_EXTENSION : HTTP_CHUNK_SIZE_LF;
    return true;
}

/* Extensions are dropped.  All of a body count together, as each chunk of one
 * byte could have the longest. */
static bool on_extension(struct http_chunked *c, char byte,
                         struct http_refusal *r)
{
    if (byte == '\r') {
        c->state = HTTP_CHUNK_SIZE_LF;
        return true;
    }
    if (++c->extensions > HTTP_EXTENSIONS_BYTES_MAX) {
        return http_refuse(r, 413, "chunk extensions are longer than %d bytes",
                           HTTP_EXTENSIONS_BYTES_MAX);
    }
    return (byte >= ' ' && byte != 0x7f) || byte == '\t' || wrong(r, byte);
}

static bool expect(struct http_chunked *c, char byte, char expected,
                   enum http_chunk_state next, struct http_refusal *r)
{
    if (byte != expected) {
        return wrong(r, byte);
    }
    c->state = (uint8_t)next;
    return true;
}

static bool step(struct http_chunked *c, char byte, struct http_refusal *r)
{
    switch ((enum http_chunk_state)c->state) {
    case HTTP_CHUNK_SIZE:
        return on_size(c, byte, r);
    case HTTP_CHUNK_EXTENSION:
        return on_extension(c, byte, r);
    case HTTP_CHUNK_SIZE_LF:
        /* A chunk of no bytes is the end, whatever its number of zeros. */
        return expect(c, byte, '\n',
                      c->left == 0 ? HTTP_CHUNK_END : HTTP_CHUNK_DATA, r);
    case HTTP_CHUNK_DATA_CR:
        return expect(c, byte, '\r', HTTP_CHUNK_DATA_LF, r);
    case HTTP_CHUNK_DATA_LF:
    case HTTP_CHUNK_DATA:
    case HTTP_CHUNK_END:
        break;
    }
    return expect(c, byte, '\n', HTTP_CHUNK_SIZE, r);
}

bool http_chunked_push(struct http_chunked *c, const char *data, size_t n,
                       size_t *used, struct http_refusal *r)
{
    size_t i;
    bool ok = true;

    for (i = 0; ok && i < n && c->state != HTTP_CHUNK_DATA &&
                c->state != HTTP_CHUNK_END;
         i++) {
        ok = step(c, data[i], r);
    }
    *used = i;
    return ok;
}

void http_chunked_took(struct http_chunked *c, size_t n)
{
    c->left -= n;
    if (c->left == 0) {
        c->state = HTTP_CHUNK_DATA_CR;
    }
}
