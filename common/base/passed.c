#include "common/base/passed.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads the variables.  Returns their number of sockets as text, NULL if they
 * are meant for another process. */
static const char *count_read(void)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");

    return pid != NULL && fds != NULL && atoll(pid) == (long long)getpid()
               ? fds
               : NULL;
}

enum status passed_socket(int *fd, struct error *e)
{
    const char *count = count_read();
    enum status st = ST_OK;

    *fd = 0;
    if (count != NULL && strcmp(count, "1") == 0) {
        *fd = PASSED_FIRST;
    } else if (count != NULL && strcmp(count, "0") != 0) {
        st = error_set(e, ST_INVALID_ARGUMENT,
                       "LISTEN_FDS=%.20s: the manager may pass one socket; "
                       "keep one ListenStream= in the socket unit",
                       count);
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    return st;
}
