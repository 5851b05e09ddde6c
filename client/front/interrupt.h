/* interrupt.h - Ctrl-C as a descriptor and a flag.
 *
 * Threading: one thread, and the signal handler. */
#ifndef CLIENT_FRONT_INTERRUPT_H
#define CLIENT_FRONT_INTERRUPT_H

#include <stdbool.h>

#include "common/base/status.h"

/* Installs the handler of SIGINT. */
MUST_CHECK enum status interrupt_catch(struct error *e);

/* Returns a descriptor that is readable after a SIGINT. */
int interrupt_fd(void);

/* Returns whether a SIGINT has come since the last call. */
bool interrupt_take(void);

#endif
