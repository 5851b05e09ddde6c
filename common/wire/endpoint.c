#include "common/wire/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/quote.h"

#define IPC "ipc://"
#define TCP "tcp://"

#define PORT_DIGITS 5

/* Sockets of Linux's abstract namespace have no file and therefore no mode:
 * every user of the machine can connect to them. */
#define ABSTRACT IPC "@"

static bool starts(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

enum status endpoint_check(const char *endpoint, struct error *e)
{
    if (strlen(endpoint) >= ENDPOINT_MAX ||
        (!starts(endpoint, IPC) && !starts(endpoint, TCP))) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%.200s: an endpoint is tcp://HOST:PORT or "
                         "ipc://PATH",
                         endpoint);
    }
    if (starts(endpoint, ABSTRACT)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%.200s: a name that begins with @ has no file "
                         "mode; use ipc:///PATH",
                         endpoint);
    }
    return ST_OK;
}

bool endpoint_is_ipc(const char *endpoint)
{
    return starts(endpoint, IPC);
}

/* Accepts 127.0.0.0/8 in digits only: a host name may also start with these
 * digits. */
static bool is_loopback(const char *host, size_t n)
{
    char text[INET_ADDRSTRLEN];
    struct in_addr at;

    if (n >= sizeof text) {
        return false;
    }
    memcpy(text, host, n);
    text[n] = '\0';
    return inet_pton(AF_INET, text, &at) == 1 &&
           ntohl(at.s_addr) >> 24 == IN_LOOPBACKNET;
}

/* Returns whether text is a port, or * to bind any. */
static bool is_port(const char *text)
{
    size_t n = strspn(text, "0123456789");

    return strcmp(text, "*") == 0 ||
           (n > 0 && n <= PORT_DIGITS && text[n] == '\0' &&
            strtoul(text, NULL, 10) <= UINT16_MAX);
}

static bool is_host(const char *host, size_t n, const char *name)
{
    return n == strlen(name) && memcmp(host, name, n) == 0;
}

/* The host is compared as a whole: libzmq also takes SOURCE:PORT;HOST:PORT, and
 * the names of interfaces. */
static enum status private_tcp(const char *endpoint, char out[ENDPOINT_MAX],
                               struct error *e)
{
    const char *host = endpoint + strlen(TCP), *colon = strrchr(host, ':');
    size_t n = colon == NULL ? 0 : (size_t)(colon - host);
    bool named = is_host(host, n, "localhost");

    if (colon == NULL || !is_port(colon + 1)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%.200s: an endpoint is tcp://HOST:PORT with a port "
                         "of at most 65535",
                         endpoint);
    }
    if (!named && !is_host(host, n, "[::1]") && !is_loopback(host, n)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%.200s: refused, there are no keys yet, so only "
                         "loopback (tcp://127.0.0.1:PORT) and ipc:// are "
                         "open; use ssh -L for another machine",
                         endpoint);
    }
    snprintf(out, ENDPOINT_MAX, "%s%.*s%s", TCP,
             named ? (int)strlen("127.0.0.1") : (int)n,
             named ? "127.0.0.1" : host, colon);
    return ST_OK;
}

enum status endpoint_private(const char *endpoint, char out[ENDPOINT_MAX],
                             struct error *e)
{
    enum status st = endpoint_check(endpoint, e);

    if (st == ST_OK && starts(endpoint, TCP)) {
        st = private_tcp(endpoint, out, e);
    } else if (st == ST_OK) {
        snprintf(out, ENDPOINT_MAX, "%s", endpoint);
    }
    return st;
}

/* Returns whether two ipc endpoints are files of one folder, by their names. A
 * name without a folder is relative to the folder of the program. */
static bool beside(const char *endpoint, const char *own)
{
    const char *slash = strrchr(endpoint, '/'), *ours = strrchr(own, '/');
    size_t n = (size_t)(slash - endpoint);

    return starts(own, IPC) && (size_t)(ours - own) == n &&
           memcmp(endpoint, own, n) == 0 && slash[1] != '\0';
}

enum status endpoint_of_peer(const uint8_t *data, size_t n, const char *own,
                             struct error *e)
{
    char text[ENDPOINT_MAX] = "", at[ENDPOINT_MAX];
    struct quoted q = quote_bytes((const char *)data, n);
    const char *colon;

    if (n > 0 && n < sizeof text) {
        memcpy(text, data, n);
    }
    /* A text cut by a NUL would not be the one that was checked. */
    if (strlen(text) != n || endpoint_private(text, at, NULL) != ST_OK) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: a peer's endpoint must be tcp://127.0.0.1:PORT "
                         "or ipc://PATH, at most %d bytes",
                         q.text, ENDPOINT_MAX - 1);
    }
    colon = strrchr(at, ':');
    if (starts(at, TCP) &&
        (colon[1] == '*' || strtoul(colon + 1, NULL, 10) == 0)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: the port must be from 1 to 65535", q.text);
    }
    if (starts(at, IPC) && own != NULL && !beside(at, own)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: an ipc endpoint of a peer must be in the folder "
                         "of this program's own, %.200s",
                         q.text, own);
    }
    return ST_OK;
}
