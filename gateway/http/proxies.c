#include "gateway/http/proxies.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/http/connection.h"

#define ADDRESS_BITS 128
#define MAPPED_BITS  96 /* of an IPv4 address in an IPv6 one */

/* Parses an address.  Sets *mapped if it is IPv4. */
static bool address_parse(const char *text, uint8_t bytes[16], bool *mapped)
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

    *mapped = inet_pton(AF_INET, text, bytes + 12) == 1;
    if (*mapped) {
        memcpy(bytes, prefix, sizeof prefix);
        return true;
    }
    if (inet_pton(AF_INET6, text, bytes) != 1) {
        return false;
    }
    *mapped = memcmp(bytes, prefix, sizeof prefix) == 0;
    return true;
}

/* Parses the digits behind a slash, at most `most`. */
static bool bits_parse(const char *text, unsigned most, unsigned *out)
{
    size_t n = strlen(text);

    if (n == 0 || n > 3 || strspn(text, "0123456789") != n) {
        return false;
    }
    *out = (unsigned)strtoul(text, NULL, 10);
    return *out <= most;
}

bool http_proxies_add(struct http_proxies *p, const char *text)
{
    struct http_proxy proxy = {.bits = ADDRESS_BITS};
    const char *slash = strchr(text, '/');
    size_t n = slash != NULL ? (size_t)(slash - text) : strlen(text);
    char address[HTTP_CLIENT_TEXT];
    unsigned bits = 0;
    bool mapped;

    if (p->n == HTTP_PROXIES_MAX || n >= sizeof address) {
        return false;
    }
    memcpy(address, text, n);
    address[n] = '\0';
    proxy.is_unix = strcmp(text, "unix") == 0;
    if (!proxy.is_unix && !address_parse(address, proxy.bytes, &mapped)) {
        return false;
    }
    if (!proxy.is_unix && slash != NULL) {
        if (!bits_parse(slash + 1,
                        mapped ? ADDRESS_BITS - MAPPED_BITS : ADDRESS_BITS,
                        &bits)) {
            return false;
        }
        proxy.bits = mapped ? MAPPED_BITS + bits : bits;
    }
    p->of[p->n++] = proxy;
    return true;
}

static bool same_prefix(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    unsigned rest = bits % 8;

    return memcmp(a, b, bits / 8) == 0 &&
           (rest == 0 || (a[bits / 8] ^ b[bits / 8]) >> (8 - rest) == 0);
}

static bool is_trusted(const struct http_proxies *p, const char *text)
{
    bool is_unix = strcmp(text, "unix") == 0, mapped;
    uint8_t bytes[16];

    if (!is_unix && !address_parse(text, bytes, &mapped)) {
        return false;
    }
    for (unsigned i = 0; i < p->n; i++) {
        const struct http_proxy *proxy = &p->of[i];

        if (is_unix ? proxy->is_unix
                    : !proxy->is_unix &&
                          same_prefix(bytes, proxy->bytes, proxy->bits)) {
            return true;
        }
    }
    return false;
}

/* ---- entries ---- */

/* Copies the address of an entry, "10.0.0.7", "10.0.0.7:80", "::1" or
 * "[::1]:80", in one form.  Returns false if the entry is none. */
static bool entry_read(const char *entry, size_t n, char text[HTTP_CLIENT_TEXT])
{
    const char *colon = memchr(entry, ':', n), *end;
    uint8_t bytes[16];
    bool mapped;

    if (n > 0 && entry[0] == '[') {
        entry++;
        end = memchr(entry, ']', n - 1);
        n = end != NULL ? (size_t)(end - entry) : 0;
    } else if (colon != NULL &&
               memchr(colon + 1, ':', n - (size_t)(colon + 1 - entry)) ==
                   NULL) {
        n = (size_t)(colon - entry);
    }
    if (n == 0 || n >= HTTP_CLIENT_TEXT) {
        return false;
    }
    memcpy(text, entry, n);
    text[n] = '\0';
    return address_parse(text, bytes, &mapped) &&
           inet_ntop(mapped ? AF_INET : AF_INET6,
                     mapped ? bytes + MAPPED_BITS / 8 : bytes, text,
                     HTTP_CLIENT_TEXT) != NULL;
}

/* Walks the entries of a header from its end.  Returns false at the client. */
static bool walk(const struct http_proxies *p, const char *value, size_t n,
                 char text[HTTP_CLIENT_TEXT])
{
    char entry[HTTP_CLIENT_TEXT];

    while (n > 0) {
        size_t end = n, begin;

        while (n > 0 && value[n - 1] != ',') {
            n--;
        }
        begin = n;
        n -= n > 0; /* the comma */
        while (begin < end && (value[begin] == ' ' || value[begin] == '\t')) {
            begin++;
        }
        while (end > begin &&
               (value[end - 1] == ' ' || value[end - 1] == '\t')) {
            end--;
        }
        if (!entry_read(value + begin, end - begin, entry)) {
            return false;
        }
        memcpy(text, entry, sizeof entry);
        if (!is_trusted(p, text)) {
            return false;
        }
    }
    return true;
}

/* Some proxies append a header of their own: the last one comes first here. */
void http_proxies_client(const struct http_proxies *p,
                         const struct http_exchange *x,
                         char text[HTTP_CLIENT_TEXT])
{
    static const char name[] = "x-forwarded-for";
    const struct http_head *head = &x->request.head;
    unsigned n = 0;

    if (!is_trusted(p, text)) {
        return;
    }
    while (http_head_find(head, name, n) != NULL) {
        n++;
    }
    while (n > 0) {
        const struct http_field *f = http_head_find(head, name, --n);

        if (!walk(p, http_head_text(head, f->value), f->value_n, text)) {
            return;
        }
    }
}
