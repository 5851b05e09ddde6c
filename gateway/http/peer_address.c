#include "gateway/http/peer_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

/* A socket for both families gives IPv4 addresses inside IPv6 ones; people
 * look for the former. */
static void write_v6(const struct in6_addr *v6, char text[HTTP_CLIENT_TEXT])
{
    if (IN6_IS_ADDR_V4MAPPED(v6)) {
        inet_ntop(AF_INET, v6->s6_addr + 12, text, HTTP_CLIENT_TEXT);
    } else {
        inet_ntop(AF_INET6, v6, text, HTTP_CLIENT_TEXT);
    }
}

void http_peer_address(int fd, char text[HTTP_CLIENT_TEXT])
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_storage room;
    } at;
    socklen_t n = sizeof at;

    if (getpeername(fd, &at.any, &n) != 0) {
        return; /* the peer has reset the connection */
    }
    if (at.any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &at.v4.sin_addr, text, HTTP_CLIENT_TEXT);
    } else if (at.any.sa_family == AF_INET6) {
        write_v6(&at.v6.sin6_addr, text);
    } else if (at.any.sa_family == AF_UNIX) {
        memcpy(text, "unix", sizeof "unix");
    }
}
