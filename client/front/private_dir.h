/* private_dir.h - A temporary directory for this user alone.
 *
 * Made in XDG_RUNTIME_DIR, TMPDIR or /tmp, with the mode 0700.
 *
 * Threading: none.  Memory: the caller's. */
#ifndef CLIENT_FRONT_PRIVATE_DIR_H
#define CLIENT_FRONT_PRIVATE_DIR_H

#include "common/base/status.h"

#define PRIVATE_DIR_SIZE 80 /* a socket's path has at most 107 bytes */

/* Makes a directory and writes its path.  Returns ST_UNAVAILABLE if it cannot
 * be made anywhere. */
MUST_CHECK enum status private_dir_make(char dir[PRIVATE_DIR_SIZE],
                                        struct error *e);

/* Removes the directory and the files in it, such as the sockets that killed
 * programs have left. */
void private_dir_remove(const char *dir);

#endif
