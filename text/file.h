/* file.h - A whole file in memory.
 *
 * Threading: no state. */
#ifndef TEXT_FILE_H
#define TEXT_FILE_H

#include <stddef.h>

#include "common/base/status.h"

/* Reads a regular file of at most max bytes.  *data is the caller's to free()
 * and never NULL on ST_OK.  Returns ST_NOT_FOUND, ST_OUT_OF_RANGE (too long),
 * ST_INVALID_ARGUMENT (no regular file) or ST_UNAVAILABLE (unreadable). */
MUST_CHECK enum status file_read(const char *path, size_t max, char **data,
                                 size_t *n, struct error *e);

#endif
