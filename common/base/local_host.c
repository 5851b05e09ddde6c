#include "common/base/local_host.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>

bool host_name_copy(const char *host, size_t n, char name[LOCAL_HOST_BYTES])
{
    bool bracket = n > 0 && host[0] == '[';
    const char *end;

    host += bracket;
    n -= bracket;
    end = memchr(host, bracket ? ']' : ':', n);
    if (bracket && end == NULL) {
        return false;
    }
    n = end != NULL ? (size_t)(end - host) : n;
    if (n > 1 && !bracket && host[n - 1] == '.') {
        n--;
    }
    if (n == 0 || n >= LOCAL_HOST_BYTES) {
        return false;
    }
    memcpy(name, host, n);
    name[n] = '\0';
    return true;
}

/* A name is compared whole: localhost.example.com belongs to somebody else, and
 * 127.0.0.1.example.com is no address. */
bool host_name_is_local(const char *name)
{
    static const char below[] = ".localhost";
    size_t n = strlen(name);
    struct in6_addr six;
    struct in_addr four;

    if (strcasecmp(name, below + 1) == 0 ||
        (n > sizeof below - 1 &&
         strcasecmp(name + n - (sizeof below - 1), below) == 0)) {
        return true;
    }
    if (inet_pton(AF_INET, name, &four) == 1) {
        return ntohl(four.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    return inet_pton(AF_INET6, name, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

const char *origin_host(const char *origin, size_t *n)
{
    static const char *const schemes[] = {"http://", "https://"};

    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        size_t scheme = strlen(schemes[i]);

        if (strncasecmp(origin, schemes[i], scheme) == 0) {
            *n = strcspn(origin + scheme, "/");
            return *n > 0 ? origin + scheme : NULL;
        }
    }
    return NULL;
}

bool host_is_local(const char *host, size_t n)
{
    char name[LOCAL_HOST_BYTES];

    return host_name_copy(host, n, name) && host_name_is_local(name);
}
