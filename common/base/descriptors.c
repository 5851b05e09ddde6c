#include "common/base/descriptors.h"

#include <assert.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#define PROBE_MAX 64

/* A failure to raise the limit is no error: the program then serves fewer
 * peers, and the caller logs the limit that holds. */
uint64_t descriptors_raise(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return UINT64_MAX;
    }
    if (limit.rlim_cur != limit.rlim_max) {
        rlim_t soft = limit.rlim_cur;

        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
            limit.rlim_cur = soft;
        }
    }
    return limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

bool descriptors_left(unsigned n)
{
    int fds[PROBE_MAX];
    unsigned made = 0;
    bool all;

    assert(n <= PROBE_MAX);
    while (made < n && (fds[made] = eventfd(0, EFD_CLOEXEC)) >= 0) {
        made++;
    }
    all = made == n;
    while (made > 0) {
        close(fds[--made]);
    }
    return all;
}
