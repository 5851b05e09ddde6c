#include "client/front/serve_check.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/quote.h"

static bool is_loopback(const struct sockaddr *at)
{
    if (at->sa_family == AF_INET6) {
        return IN6_IS_ADDR_LOOPBACK(
            &((const struct sockaddr_in6 *)(const void *)at)->sin6_addr);
    }
    return at->sa_family == AF_INET &&
           ntohl(((const struct sockaddr_in *)(const void *)at)
                     ->sin_addr.s_addr) >>
                   24 ==
               127;
}

/* Returns the error of a bind, or 0.  Nothing is left bound: the gateway binds
 * it a moment later. */
static int try_bind(const struct addrinfo *at)
{
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1, why = 0;

    if (fd < 0) {
        return 0; /* the gateway reports it */
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    /* A socket that listens too excludes another one only when both listen. */
    if (bind(fd, at->ai_addr, at->ai_addrlen) != 0 || listen(fd, 1) != 0) {
        why = errno;
    }
    close(fd);
    return why;
}

static enum status check_bind(const struct serve_args *a,
                              const struct addrinfo *at, struct error *e)
{
    int why = try_bind(at);

    if (why == EADDRINUSE) {
        return error_set(e, ST_UNAVAILABLE,
                         "port %u of %s is in use by another program; choose "
                         "another with --port, or --port 0 for any free one",
                         a->port, quote(a->listen_host).text);
    }
    if (why == EACCES) {
        return error_set(e, ST_UNAVAILABLE,
                         "port %u needs privileges; choose one from 1024 on "
                         "with --port",
                         a->port);
    }
    if (why == EADDRNOTAVAIL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "this machine has no address %s; give another --host",
                         quote(a->listen_host).text);
    }
    return ST_OK;
}

enum status serve_check_address(const struct serve_args *a, struct error *e)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *at = NULL;
    char host[256], port[8];
    enum status st = ST_OK;
    size_t n;

    if (a->listen_host == NULL) {
        return ST_OK;
    }
    n = strlen(a->listen_host);
    if (n == 0 || n >= sizeof host) {
        return ST_OK;
    }
    /* "[::1]" and "::1" are one. */
    if (a->listen_host[0] == '[' && a->listen_host[n - 1] == ']') {
        snprintf(host, sizeof host, "%.*s", (int)n - 2, a->listen_host + 1);
    } else {
        snprintf(host, sizeof host, "%s", a->listen_host);
    }
    /* Other names than this one would need the network. */
    hints.ai_flags |= strcmp(host, "localhost") == 0 ? 0 : AI_NUMERICHOST;
    snprintf(port, sizeof port, "%u", a->port);
    if (getaddrinfo(host, port, &hints, &at) != 0) {
        return ST_OK;
    }
    if (!is_loopback(at->ai_addr) && a->keys == NULL) {
        st = error_set(e, ST_INVALID_ARGUMENT,
                       "other machines can reach --host %s, so that it needs "
                       "API keys: make one with sluice-gateway --new-key NAME, "
                       "and give the file with --keys",
                       quote(a->listen_host).text);
    }
    st = st == ST_OK ? check_bind(a, at, e) : st;
    freeaddrinfo(at);
    return st;
}
