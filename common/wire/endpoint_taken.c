/* endpoint_taken.c - The part of endpoint.h that opens a socket; the cores use
 * only the rest. */
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/wire/endpoint.h"

/* Connects to the socket's file: only a listener accepts; a file left behind
 * refuses. */
bool endpoint_taken(const char *endpoint)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const char *path = endpoint + strlen("ipc://");
    bool taken;
    int fd;

    if (!endpoint_is_ipc(endpoint) || *path == '\0' ||
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
