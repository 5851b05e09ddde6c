#include "common/wire/endpoint.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/affix.h"
#include "common/base/quote.h"

#define IPC "ipc://"
#define TCP "tcp://"

#define DIGITS  "0123456789"
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/* Sockets of Linux's abstract namespace have no file and therefore no mode:
 * every user of the machine can connect to them. */
#define ABSTRACT IPC "@"

bool endpoint_is_ipc(const char *endpoint)
{
    return starts_with(endpoint, IPC);
}

/* ---- hosts and ports ---- */

/* Returns whether text is a port, or * to bind any. */
static bool is_port(const char *text)
{
    size_t n = strspn(text, DIGITS);

    return strcmp(text, "*") == 0 ||
           (n > 0 && n < sizeof((struct endpoint *)NULL)->port &&
            text[n] == '\0' && strtoul(text, NULL, 10) <= UINT16_MAX);
}

static bool is_label(const char *s, size_t n)
{
    return n >= 1 && n <= ENDPOINT_LABEL_MAX && s[0] != '-' &&
           s[n - 1] != '-' && strspn(s, LETTERS DIGITS "-_") >= n;
}

/* The resolver reads 1.2.3, 127.1 and 0x7f.1 as addresses.  A name whose last
 * label is a number is therefore none. */
static bool is_number(const char *s, size_t n)
{
    if (n >= 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X')) {
        return strspn(s + 2, DIGITS "abcdefABCDEF") >= n - 2;
    }
    return strspn(s, DIGITS) >= n;
}

/* Accepts names of DNS, with the _ that Kubernetes and DNS also have.  A final
 * dot ends the search list of the resolver. */
static bool is_name(const char *host)
{
    size_t n = strcspn(host, ".");
    bool number = false;

    if (strlen(host) > ENDPOINT_NAME_MAX) {
        return false;
    }
    for (;; host += n + 1, n = strcspn(host, ".")) {
        if (!is_label(host, n)) {
            return false;
        }
        number = is_number(host, n);
        if (host[n] == '\0' || host[n + 1] == '\0') {
            return !number;
        }
    }
}

/* Accepts an address with the name or number of an interface: %eth0. */
static bool split_v6(struct endpoint *out)
{
    char text[INET6_ADDRSTRLEN];
    size_t n = strcspn(out->host, "%");
    const char *zone = out->host + n;
    struct in6_addr at;

    if (n >= sizeof text) {
        return false;
    }
    memcpy(text, out->host, n);
    text[n] = '\0';
    if (inet_pton(AF_INET6, text, &at) != 1) {
        return false;
    }
    out->kind = ENDPOINT_V6;
    out->loopback = IN6_IS_ADDR_LOOPBACK(&at) && *zone == '\0';
    out->wildcard = IN6_IS_ADDR_UNSPECIFIED(&at);
    return *zone == '\0' ||
           (zone[1] != '\0' && strlen(zone + 1) < IF_NAMESIZE &&
            strspn(zone + 1, LETTERS DIGITS "-_.") == strlen(zone + 1));
}

/* localhost is not resolved: a resolver may ask another machine. */
static bool split_host(struct endpoint *out)
{
    struct in_addr at;

    if (strcasecmp(out->host, "localhost") == 0) {
        snprintf(out->host, sizeof out->host, "127.0.0.1");
    }
    if (strcmp(out->host, "*") == 0) {
        out->kind = ENDPOINT_ANY;
        out->wildcard = true;
        return true;
    }
    if (inet_pton(AF_INET, out->host, &at) == 1) {
        out->kind = ENDPOINT_V4;
        out->loopback = ntohl(at.s_addr) >> 24 == IN_LOOPBACKNET;
        out->wildcard = at.s_addr == INADDR_ANY;
        return true;
    }
    out->kind = ENDPOINT_NAME;
    return is_name(out->host);
}

static enum status split_tcp(struct endpoint *out, const char *endpoint,
                             struct error *e)
{
    const char *host = endpoint + strlen(TCP), *colon = strrchr(host, ':');
    size_t n = colon == NULL ? 0 : (size_t)(colon - host);
    bool brackets = n >= 2 && host[0] == '[' && host[n - 1] == ']';

    if (colon == NULL || !is_port(colon + 1)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%.200s: an endpoint is tcp://HOST:PORT with a port "
                         "of at most 65535",
                         endpoint);
    }
    snprintf(out->port, sizeof out->port, "%s", colon + 1);
    snprintf(out->host, sizeof out->host, "%.*s", (int)(n - 2 * brackets),
             host + brackets);
    if (brackets ? !split_v6(out) : !split_host(out)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%.200s: HOST must be an IPv4 address, an IPv6 "
                         "address in brackets, or a host's name",
                         endpoint);
    }
    return ST_OK;
}

enum status endpoint_split(struct endpoint *out, const char *endpoint,
                           struct error *e)
{
    *out = (struct endpoint){.kind = ENDPOINT_IPC};
    if (strlen(endpoint) >= ENDPOINT_MAX ||
        (!starts_with(endpoint, IPC) && !starts_with(endpoint, TCP))) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%.200s: an endpoint is tcp://HOST:PORT or "
                         "ipc://PATH",
                         endpoint);
    }
    if (starts_with(endpoint, ABSTRACT)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%.200s: a name that begins with @ has no file "
                         "mode; use ipc:///PATH",
                         endpoint);
    }
    if (starts_with(endpoint, TCP)) {
        return split_tcp(out, endpoint, e);
    }
    out->loopback = true;
    return ST_OK;
}

bool endpoint_join(char out[ENDPOINT_MAX], const char *host, const char *port)
{
    bool v6 = strchr(host, ':') != NULL;
    int n = snprintf(out, ENDPOINT_MAX, "%s%s%s%s:%s", TCP, v6 ? "[" : "", host,
                     v6 ? "]" : "", port);

    return n > 0 && n < ENDPOINT_MAX;
}

/* ---- what is bound and dialled ---- */

/* Splits the endpoint, checks that keys allow it, and writes it. */
static enum status allow(struct endpoint *to, const char *endpoint, bool keys,
                         char out[ENDPOINT_MAX], struct error *e)
{
    enum status st = endpoint_split(to, endpoint, e);

    if (st != ST_OK) {
        return st;
    }
    if (!keys && !to->loopback) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%.200s: refused, this program has no keys, so only "
                         "loopback (tcp://127.0.0.1:PORT) and ipc:// are "
                         "open; give --key and --trust (sluicectl keygen "
                         "makes keys)",
                         endpoint);
    }
    if (to->kind == ENDPOINT_IPC) {
        snprintf(out, ENDPOINT_MAX, "%s", endpoint);
    } else if (!endpoint_join(out, to->host, to->port)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%.200s: an endpoint has at most %d bytes", endpoint,
                         ENDPOINT_MAX - 1);
    }
    return ST_OK;
}

enum status endpoint_bind(const char *endpoint, bool keys,
                          char out[ENDPOINT_MAX], struct error *e)
{
    struct endpoint to;
    enum status st = allow(&to, endpoint, keys, out, e);

    if (st == ST_OK && to.kind == ENDPOINT_NAME) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%.200s: a program listens at an address, not at a "
                         "name or an interface; give an address of this "
                         "machine, or [::] for all",
                         endpoint);
    }
    return st;
}

enum status endpoint_dial(const char *endpoint, bool keys,
                          char out[ENDPOINT_MAX], struct error *e)
{
    struct endpoint to;
    enum status st = allow(&to, endpoint, keys, out, e);

    if (st != ST_OK || to.kind == ENDPOINT_IPC) {
        return st;
    }
    if (to.wildcard) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%.200s: %s is every address of a machine and can "
                         "only be listened at; give the host to connect to",
                         endpoint, to.host);
    }
    if (to.port[0] == '*' || strtoul(to.port, NULL, 10) == 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%.200s: the port must be from 1 to 65535", endpoint);
    }
    return ST_OK;
}

/* ---- what a peer may name ---- */

/* Returns whether two ipc endpoints are files of one folder, by their names. A
 * name without a folder is relative to the folder of the program. */
static bool beside(const char *endpoint, const char *own)
{
    const char *slash = strrchr(endpoint, '/'), *ours = strrchr(own, '/');
    size_t n = (size_t)(slash - endpoint);

    return starts_with(own, IPC) && (size_t)(ours - own) == n &&
           memcmp(endpoint, own, n) == 0 && slash[1] != '\0';
}

enum status endpoint_of_peer(const uint8_t *data, size_t n, const char *own,
                             bool keys, struct error *e)
{
    char text[ENDPOINT_MAX] = "", at[ENDPOINT_MAX];
    struct quoted q = quote_bytes((const char *)data, n);

    if (n > 0 && n < sizeof text) {
        memcpy(text, data, n);
    }
    /* A text cut by a NUL would not be the one that was checked. */
    if (strlen(text) != n || endpoint_dial(text, keys, at, NULL) != ST_OK) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: a peer's endpoint must be tcp://%s:PORT with a "
                         "port from 1 to 65535, or ipc://PATH, at most %d "
                         "bytes%s",
                         q.text, keys ? "HOST" : "127.0.0.1", ENDPOINT_MAX - 1,
                         keys ? "" : "; other hosts need keys");
    }
    if (endpoint_is_ipc(at) && own != NULL && !beside(at, own)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: an ipc endpoint of a peer must be in the folder "
                         "of this program's own, %.200s",
                         q.text, own);
    }
    return ST_OK;
}
