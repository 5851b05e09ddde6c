/* writers.h - Whether other users can change a file that grants access.
 *
 * Threading: none.  Memory: none. */
#ifndef COMMON_BASE_WRITERS_H
#define COMMON_BASE_WRITERS_H

#include "common/base/status.h"

/* Returns ST_INVALID_ARGUMENT, with the mode and the command that mends it but
 * without the path, if the group or others may write to the file or directory
 * at path: whoever adds a key there has its access.  A read-only mount, as
 * Kubernetes makes one for a secret, passes with any mode.  An object that
 * cannot be read passes too: the caller's own attempt reports why. */
MUST_CHECK enum status writers_check(const char *path, struct error *e);

#endif
