#include "common/wire/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define IPC "ipc://"
#define TCP "tcp://"

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
static bool is_loopback(const char *host)
{
    char text[INET_ADDRSTRLEN];
    size_t n = strcspn(host, ":");
    struct in_addr at;

    if (n >= sizeof text) {
        return false;
    }
    memcpy(text, host, n);
    text[n] = '\0';
    return inet_pton(AF_INET, text, &at) == 1 &&
           ntohl(at.s_addr) >> 24 == IN_LOOPBACKNET;
}

bool endpoint_is_private(const char *endpoint)
{
    return starts(endpoint, IPC) || starts(endpoint, TCP "[::1]:") ||
           starts(endpoint, TCP "localhost:") ||
           (starts(endpoint, TCP) && is_loopback(endpoint + strlen(TCP)));
}

/* Connects to the socket's file: only a listener accepts; a file left behind
 * refuses. */
bool endpoint_taken(const char *endpoint)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const char *path = endpoint + strlen(IPC);
    bool taken;
    int fd;

    if (!starts(endpoint, IPC) || *path == '\0' ||
        strlen(path) >= sizeof at.sun_path) {
        return false;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(at.sun_path, path, strlen(path));
    taken = fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return taken;
}
