#include "gateway/http/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gateway/http/http_limits.h"

#define HOST_MAX    256
#define PORT_DIGITS 5

/* Mapped addresses are how an IPv6 socket sees clients of IPv4. */
static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET) {
        const struct sockaddr_in *four = (const void *)a;

        return ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    if (a->sa_family == AF_INET6) {
        const struct in6_addr *six =
            &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;

        return IN6_IS_ADDR_LOOPBACK(six) ||
               (IN6_IS_ADDR_V4MAPPED(six) &&
                six->s6_addr[12] == IN_LOOPBACKNET);
    }
    return false;
}

/* ---- opening ---- */

/* getaddrinfo() takes any number, and cuts it to 16 bits. */
static bool is_port(const char *text)
{
    size_t n = strspn(text, "0123456789");

    return n > 0 && n <= PORT_DIGITS && text[n] == '\0' &&
           atoi(text) <= UINT16_MAX;
}

static bool split(const char *address, char host[HOST_MAX], const char **port)
{
    const char *colon = strrchr(address, ':');
    size_t n = colon == NULL ? 0 : (size_t)(colon - address);
    bool brackets = n > 2 && address[0] == '[' && address[n - 1] == ']';

    if (n == 0 || n >= HOST_MAX || !is_port(colon + 1)) {
        return false;
    }
    /* An address of IPv6 has colons itself. */
    if (!brackets && memchr(address, ':', n) != NULL) {
        return false;
    }
    memcpy(host, address + brackets, n - 2 * brackets);
    host[n - 2 * brackets] = '\0';
    *port = colon + 1;
    return true;
}

static enum status resolve(const char *address, struct addrinfo **list,
                           struct error *e)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV};
    char host[HOST_MAX];
    const char *port;
    int rc;

    if (!split(address, host, &port)) {
        return error_set(
            e, ST_INVALID_ARGUMENT,
            "%.200s: an address is HOST:PORT or [IPV6]:PORT, with a "
            "port of 0 to 65535",
            address);
    }
    rc = getaddrinfo(host, port, &hints, list);
    if (rc != 0) {
        return error_set(e, ST_INVALID_ARGUMENT, "%.200s: %s", address,
                         gai_strerror(rc));
    }
    return ST_OK;
}

static int bind_one(const struct addrinfo *a)
{
    int fd =
        socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1;

    if (fd < 0) {
        return -1;
    }
    /* A restarted gateway must not wait for connections in TIME_WAIT. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, a->ai_addr, a->ai_addrlen) != 0 ||
        listen(fd, HTTP_BACKLOG) != 0) {
        int why = errno;

        close(fd);
        errno = why;
        return -1;
    }
    return fd;
}

static enum status bind_first(struct listener *l, const char *address,
                              const struct addrinfo *list, bool anyone,
                              struct error *e)
{
    for (const struct addrinfo *a = list; a != NULL; a = a->ai_next) {
        /* Checked on the address, not the name: names resolve to anything. */
        if (!anyone && !is_loopback(a->ai_addr)) {
            return error_set(e, ST_PERMISSION_DENIED,
                             "%.200s: other machines could reach this "
                             "address; use a loopback address or give keys",
                             address);
        }
        l->fd = bind_one(a);
        if (l->fd >= 0) {
            return ST_OK;
        }
    }
    return error_set(e, ST_UNAVAILABLE, "%.200s: %s", address, strerror(errno));
}

/* The kernel has chosen the port if it was 0. */
static void name_endpoint(struct listener *l)
{
    struct sockaddr_storage at;
    socklen_t n = sizeof at;
    char host[64] = "", port[8] = "";

    if (getsockname(l->fd, (struct sockaddr *)&at, &n) == 0) {
        getnameinfo((struct sockaddr *)&at, n, host, sizeof host, port,
                    sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    }
    snprintf(l->endpoint, sizeof l->endpoint,
             at.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

static int open_reserve(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

enum status listener_open(struct listener *l, const char *address, bool anyone,
                          struct error *e)
{
    struct addrinfo *list = NULL;
    enum status s;

    *l = (struct listener){.fd = -1, .reserve = -1};
    s = resolve(address, &list, e);
    if (s != ST_OK) {
        return s;
    }
    s = bind_first(l, address, list, anyone, e);
    freeaddrinfo(list);
    if (s == ST_OK) {
        l->reserve = open_reserve();
        name_endpoint(l);
    }
    return s;
}

static bool is_listening(int fd)
{
    int on = 0;
    socklen_t n = sizeof on;

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &n) == 0 && on != 0;
}

enum status listener_take(struct listener *l, int fd, bool anyone,
                          struct error *e)
{
    struct sockaddr_storage at = {.ss_family = AF_UNSPEC};
    socklen_t n = sizeof at;

    *l = (struct listener){.fd = -1, .reserve = -1};
    if (!is_listening(fd) || getsockname(fd, (struct sockaddr *)&at, &n) != 0 ||
        (at.ss_family != AF_INET && at.ss_family != AF_INET6) ||
        fcntl(fd, F_SETFL, O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the passed descriptor %d is no listening TCP socket; "
                         "use ListenStream=HOST:PORT",
                         fd);
    }
    l->fd = fd;
    name_endpoint(l);
    if (!anyone && !is_loopback((struct sockaddr *)&at)) {
        return error_set(e, ST_PERMISSION_DENIED,
                         "the passed socket %.80s: other machines could reach "
                         "this address; use a loopback address or give keys",
                         l->endpoint);
    }
    l->reserve = open_reserve();
    return ST_OK;
}

void listener_close(struct listener *l)
{
    if (l->fd >= 0) {
        close(l->fd);
    }
    if (l->reserve >= 0) {
        close(l->reserve);
    }
    l->fd = -1;
    l->reserve = -1;
}

/* ---- accepting ---- */

/* A client that waits keeps the listening socket readable: without a
 * descriptor to accept and close it, the loop would spin. */
static void refuse_one(struct listener *l)
{
    int fd;

    if (l->reserve >= 0) {
        close(l->reserve);
        fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) {
            close(fd);
        }
    }
    l->reserve = open_reserve();
}

enum listener_result listener_accept(struct listener *l, int *fd)
{
    int on = 1, unsent = HTTP_UNSENT_BYTES;

    do {
        *fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    } while (*fd < 0 && (errno == EINTR || errno == ECONNABORTED));
    if (*fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        return LISTENER_NONE;
    }
    if (*fd < 0) {
        refuse_one(l);
        return LISTENER_EXHAUSTED;
    }
    /* Tokens must not wait for the acknowledgement of earlier ones. */
    setsockopt(*fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    /* Without this limit the system keeps up to 4 MiB for a client that stopped
     * reading, and the server cannot see that the client did. */
    setsockopt(*fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    return LISTENER_OK;
}
