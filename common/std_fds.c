#include "common/std_fds.h"

#include <fcntl.h>
#include <unistd.h>

/* open() takes the lowest number that is free; the mode is the one that this
 * descriptor is not used in. */
void std_fds_reserve(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
        }
    }
}
