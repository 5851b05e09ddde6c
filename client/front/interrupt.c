#include "client/front/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static int ends[2] = {-1, -1};

static void on_sigint(int signal)
{
    int saved = errno;

    (void)signal;
    /* A full pipe has bytes enough. */
    if (write(ends[1], "", 1) < 0) {
        errno = saved;
    }
}

enum status interrupt_catch(struct error *e)
{
    /* No SA_RESTART: a read of the terminal must end. */
    struct sigaction action = {.sa_handler = on_sigint};

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0 ||
        sigaction(SIGINT, &action, NULL) != 0) {
        return error_set(e, ST_UNAVAILABLE, "cannot catch Ctrl-C: %s",
                         strerror(errno));
    }
    return ST_OK;
}

int interrupt_fd(void)
{
    return ends[0];
}

bool interrupt_take(void)
{
    char bytes[64];
    bool any = false;

    while (read(ends[0], bytes, sizeof bytes) > 0) {
        any = true;
    }
    return any;
}
