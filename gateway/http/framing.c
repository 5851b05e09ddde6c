#include "gateway/http/framing.h"

#include <string.h>
#include <strings.h>

#include "common/base/quote.h"

static const char *value_of(const struct http_head *h, const char *name)
{
    const struct http_field *f = http_head_find(h, name, 0);

    return f == NULL ? NULL : http_head_text(h, f->value);
}

/* Two copies of these could be read as either. */
static bool check_single(const struct http_head *h, struct http_refusal *r)
{
    static const char *const names[] = {"host",
                                        "content-length",
                                        "transfer-encoding",
                                        "content-type",
                                        "content-encoding",
                                        "authorization",
                                        "expect",
                                        "origin"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (http_head_find(h, names[i], 1) != NULL) {
            return http_refuse(r, 400,
                               "the header %s is sent twice; send it "
                               "once",
                               names[i]);
        }
    }
    return true;
}

/* RFC 9112, section 3.2: a request of HTTP/1.1 without Host, or with several,
 * is refused.  HTTP/1.0 has no such header. */
static bool check_host(const struct http_head *h, struct http_refusal *r)
{
    const char *host = value_of(h, "host");

    if (host == NULL) {
        return h->minor == 0 ||
               http_refuse(r, 400, "HTTP/1.1 needs the header host");
    }
    if (host[0] == '\0' || strpbrk(host, " \t\"#/,<>?@\\^`{|}") != NULL) {
        return http_refuse(r, 400,
                           "the header host is %s; send HOST or "
                           "HOST:PORT",
                           quote(host).text);
    }
    return true;
}

/* A list of equal lengths ("5, 5") is legal for a proxy to merge, but merging
 * is what two servers do differently. */
static bool read_length(struct http_framing *f, const char *text,
                        size_t body_max, struct http_refusal *r)
{
    if (text[0] == '\0' || strspn(text, "0123456789") != strlen(text)) {
        return http_refuse(r, 400,
                           "the header content-length is %s; send one "
                           "number of bytes",
                           quote(text).text);
    }
    for (const char *at = text; *at != '\0'; at++) {
        f->length = f->length * 10 + (uint64_t)(*at - '0');
        /* Before the next digit could overflow. */
        if (f->length > body_max) {
            return http_refuse(r, 413,
                               "the body has %s bytes, the limit is "
                               "%zu; send a smaller request",
                               quote(text).text, body_max);
        }
    }
    return true;
}

/* RFC 9112, section 6.1 lets a server prefer one of two lengths.  Refusing both
 * leaves an attacker no choice to exploit. */
static bool read_coding(struct http_framing *f, const struct http_head *h,
                        const char *coding, struct http_refusal *r)
{
    if (value_of(h, "content-length") != NULL) {
        return http_refuse(r, 400,
                           "both content-length and transfer-encoding "
                           "are sent; send one of them");
    }
    if (h->minor == 0) {
        return http_refuse(r, 400,
                           "HTTP/1.0 has no transfer-encoding; send "
                           "content-length");
    }
    if (strcasecmp(coding, "chunked") != 0) {
        return http_refuse(r, 501,
                           "the transfer-encoding %s is not "
                           "supported; use chunked",
                           quote(coding).text);
    }
    f->chunked = true;
    return true;
}

static bool read_body(struct http_framing *f, const struct http_head *h,
                      size_t body_max, struct http_refusal *r)
{
    const char *length = value_of(h, "content-length");
    const char *coding = value_of(h, "transfer-encoding");
    const char *packing = value_of(h, "content-encoding");

    if (coding != NULL && !read_coding(f, h, coding, r)) {
        return false;
    }
    /* A compressed body could be a thousand times its length. */
    if (packing != NULL && strcasecmp(packing, "identity") != 0) {
        return http_refuse(r, 415,
                           "the content-encoding %s is not supported; "
                           "send the body uncompressed",
                           quote(packing).text);
    }
    if (length != NULL && !read_length(f, length, body_max, r)) {
        return false;
    }
    f->has_body = f->chunked || f->length > 0;
    return true;
}

/* Returns whether a comma-separated list has the word. */
static bool has_word(const char *list, const char *word)
{
    while (*list != '\0') {
        size_t n = strcspn(list, ", \t");

        if (n == strlen(word) && strncasecmp(list, word, n) == 0) {
            return true;
        }
        list += n;
        list += strspn(list, ", \t");
    }
    return false;
}

/* "close" wins over "keep-alive", in whichever header it is. */
static bool read_keep(const struct http_head *h)
{
    const struct http_field *f;
    bool keep = h->minor == 1;

    for (unsigned i = 0; (f = http_head_find(h, "connection", i)) != NULL;
         i++) {
        const char *value = http_head_text(h, f->value);

        if (has_word(value, "close")) {
            return false;
        }
        keep = keep || has_word(value, "keep-alive");
    }
    return keep;
}

bool http_framing_read(struct http_framing *f, const struct http_head *h,
                       size_t body_max, struct http_refusal *r)
{
    const char *expect;

    memset(f, 0, sizeof *f);
    if (!check_single(h, r) || !check_host(h, r) ||
        !read_body(f, h, body_max, r)) {
        return false;
    }
    f->keep = read_keep(h);
    /* RFC 9110, section 10.1.1: ignored in a request of HTTP/1.0. */
    expect = value_of(h, "expect");
    if (expect == NULL || h->minor == 0) {
        return true;
    }
    if (strcasecmp(expect, "100-continue") != 0) {
        return http_refuse(r, 417,
                           "the expectation %s is not supported; use "
                           "100-continue",
                           quote(expect).text);
    }
    f->expects = f->has_body;
    return true;
}
