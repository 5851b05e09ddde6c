/* passed.h - Sockets that a service manager has bound for the program.
 *
 * The protocol is that of sd_listen_fds(3): $LISTEN_FDS descriptors from 3 on,
 * if $LISTEN_PID is this process.
 *
 * Threading: call before any other thread starts.  Memory: none. */
#ifndef COMMON_BASE_PASSED_H
#define COMMON_BASE_PASSED_H

#include "common/base/status.h"

#define PASSED_FIRST 3

/* Sets *fd to the only socket that was passed, or to 0 if none was, and removes
 * the variables from the environment.  Returns ST_INVALID_ARGUMENT if there are
 * several, or if LISTEN_FDS is no number. */
MUST_CHECK enum status passed_socket(int *fd, struct error *e);

#endif
