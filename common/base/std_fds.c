#include "common/base/std_fds.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* open() returns the lowest free number, so each closed descriptor is filled
 * in turn.  The mode is the one in which the descriptor is not used, so that
 * its use still fails. */
void std_fds_reserve(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
        }
    }
}

bool std_out_flush(int *why)
{
    static int first;

    if (fflush(stdout) != 0 && first == 0) {
        first = errno;
    }
    *why = first;
    return first == 0 && !ferror(stdout);
}

enum status std_out_end(struct error *e)
{
    int why;

    if (std_out_flush(&why)) {
        return ST_OK;
    }
    return error_set(e, why == EINTR ? ST_CANCELLED : ST_INTERNAL,
                     "cannot write: %s",
                     why != 0 ? strerror(why) : "some of it is lost");
}
