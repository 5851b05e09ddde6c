/* new_file.h - Files that appear whole, with their mode from the start.
 *
 * Threading: none.  Memory: none. */
#ifndef CLIENT_CLUSTER_NEW_FILE_H
#define CLIENT_CLUSTER_NEW_FILE_H

#include <stddef.h>
#include <sys/types.h>

#include "common/base/status.h"

/* Creates a file.  Returns ST_ALREADY_EXISTS if there is one, also a link. */
MUST_CHECK enum status new_file_write(const char *path, const char *bytes,
                                      size_t n, mode_t mode, struct error *e);

/* Creates or replaces a file in one step: readers see the old or the new one.
 * A link is replaced, not followed. */
MUST_CHECK enum status new_file_replace(const char *path, const char *bytes,
                                        size_t n, mode_t mode, struct error *e);

/* Makes a folder for secrets, mode 0700, unless it is there.  A new one has a
 * .gitignore for `ignored`, so that its secrets are not committed with the
 * cluster file beside it. */
MUST_CHECK enum status new_folder_make(const char *dir, const char *ignored,
                                       struct error *e);

/* Writes all bytes and syncs.  Closes fd in any case. */
MUST_CHECK enum status new_file_fill(int fd, const char *bytes, size_t n,
                                     struct error *e);

#endif
