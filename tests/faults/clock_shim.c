/* clock_shim - A wall clock that jumps, for one process.  The preloaded library
 * adds to CLOCK_REALTIME the seconds in the file $CLOCK_SHIM, which it reads at
 * each call.  The monotonic clock is unchanged.
 *
 * Threading: any.  Memory: none. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long offset_s(void)
{
    const char *path = getenv("CLOCK_SHIM");
    char text[32] = "0";
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    if (fd >= 0) {
        ssize_t n = read(fd, text, sizeof text - 1);

        text[n > 0 ? n : 0] = '\0';
        close(fd);
    }
    return strtol(text, NULL, 10);
}

int clock_gettime(clockid_t id, struct timespec *t)
{
    int rc = (int)syscall(SYS_clock_gettime, id, t);

    if (rc == 0 && id == CLOCK_REALTIME) {
        t->tv_sec += offset_s();
    }
    return rc;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    struct timespec now;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *t = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *out)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (out != NULL) {
        *out = now.tv_sec;
    }
    return now.tv_sec;
}
