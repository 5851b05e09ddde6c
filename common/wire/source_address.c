#include "common/wire/source_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/wire/endpoint.h"

/* Connecting a datagram socket chooses its route, and sends nothing. */
static bool route(const struct addrinfo *to, char out[ENDPOINT_MAX])
{
    int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_storage from;
    socklen_t bytes = sizeof from;
    bool found = fd >= 0 && connect(fd, to->ai_addr, to->ai_addrlen) == 0 &&
                 getsockname(fd, (struct sockaddr *)&from, &bytes) == 0 &&
                 getnameinfo((struct sockaddr *)&from, bytes, out, ENDPOINT_MAX,
                             NULL, 0, NI_NUMERICHOST) == 0;

    if (fd >= 0) {
        close(fd);
    }
    return found;
}

bool source_address(const char *endpoint, char out[ENDPOINT_MAX])
{
    const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM,
                                   .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *to = NULL;
    struct endpoint at;
    bool found;

    if (endpoint_split(&at, endpoint, NULL) != ST_OK ||
        (at.kind != ENDPOINT_V4 && at.kind != ENDPOINT_V6) ||
        getaddrinfo(at.host, at.port, &hints, &to) != 0) {
        return false;
    }
    found = route(to, out);
    freeaddrinfo(to);
    return found;
}
