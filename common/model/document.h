/* document.h - JSON from an untrusted file.
 *
 * common/base/json_bound.h checks the text first, so an untrusted file
 * controls neither a parser's stack nor its heap.  DOCUMENT_VALUES_MAX values
 * cost about 200 MB, a real file of n bytes about 10 n.
 *
 * Threading: none.  Memory: a document is the caller's (json_decref). Limits:
 * DOCUMENT_DEPTH_MAX, DOCUMENT_VALUES_MAX. */
#ifndef COMMON_MODEL_DOCUMENT_H
#define COMMON_MODEL_DOCUMENT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

/* Parses one JSON object: UTF-8, no duplicate keys, nothing after it.
 * Returns ST_INVALID_ARGUMENT with the fault and its byte. */
MUST_CHECK enum status document_parse(json_t **out, const char *text,
                                      size_t len, struct error *e);

/* Parses one JSON object as Python writes it: also with Infinity, -Infinity and
 * NaN, which become strings (common/base/json_words.h). */
MUST_CHECK enum status document_parse_python(json_t **out, const char *text,
                                             size_t len, struct error *e);

/* Reads the whole regular file dir/name into *bytes, allocated with malloc
 * and followed by one NUL that is not counted.  Returns ST_NOT_FOUND if there
 * is none, ST_INVALID_ARGUMENT if it is no regular file or longer than max. */
MUST_CHECK enum status document_read(char **bytes, size_t *len, const char *dir,
                                     const char *name, size_t max,
                                     struct error *e);

/* Opens dir/name for reading if it is a regular file and sets *bytes to its
 * size.  Never waits on a pipe or a device. */
MUST_CHECK enum status document_open(int *fd, uint64_t *bytes, const char *dir,
                                     const char *name, struct error *e);

/* Reads exactly len bytes at offset.  Returns ST_DATA_LOSS if the file is
 * shorter. */
MUST_CHECK enum status document_pread(int fd, void *to, size_t len,
                                      uint64_t offset, struct error *e);

#endif
