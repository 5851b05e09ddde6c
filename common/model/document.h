/* document.h - JSON from a file nobody vouches for.
 *
 * common/base/json_bound.h looks at it first, so that neither a parser's stack
 * nor its heap is in a stranger's hand: at most DOCUMENT_VALUES_MAX values cost
 * some 200 MB, and a real file of n bytes some 10 n.
 *
 * Threading: none.  Memory: a document is the caller's (json_decref).
 * Limits: DOCUMENT_DEPTH_MAX, DOCUMENT_VALUES_MAX. */
#ifndef COMMON_MODEL_DOCUMENT_H
#define COMMON_MODEL_DOCUMENT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

/* Parse one JSON object: UTF-8, no duplicate keys, nothing behind it.
 * ST_INVALID_ARGUMENT says what is wrong and at which byte. */
MUST_CHECK enum status document_parse(json_t **out, const char *text,
                                      size_t len, struct error *e);

/* Read the whole regular file dir/name into *bytes (malloc, one NUL behind
 * it, not counted).  ST_NOT_FOUND if there is none, ST_INVALID_ARGUMENT if it
 * is no regular file or longer than max. */
MUST_CHECK enum status document_read(char **bytes, size_t *len, const char *dir,
                                     const char *name, size_t max,
                                     struct error *e);

/* Open dir/name for reading if it is a regular file; its size to *bytes.
 * Never waits on a pipe or a device. */
MUST_CHECK enum status document_open(int *fd, uint64_t *bytes, const char *dir,
                                     const char *name, struct error *e);

/* Read exactly len bytes at offset; ST_DATA_LOSS if the file is shorter. */
MUST_CHECK enum status document_pread(int fd, void *to, size_t len,
                                      uint64_t offset, struct error *e);

#endif
