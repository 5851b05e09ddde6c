/* record_file.h - The file of --record: a sink of records, and the thread that
 * writes it.
 *
 *     core --put--> buffer --swap--> thread --write--> FILE
 *
 * put() copies a line and never blocks: a slow disk loses lines, which the
 * recorder counts.  An error of the disk, or RECORD_BYTES_MOST, ends the
 * recording with one line in the log, `record-ended`; the router goes on.
 *
 * The file has mode 0600.  An earlier one of the same name becomes FILE.old.
 *
 * Threading: put() by the core's thread, record_file_new() before others start.
 * Memory: two buffers of RECORD_BUFFER_BYTES. */
#ifndef ROUTER_RECORD_FILE_H
#define ROUTER_RECORD_FILE_H

#include "common/base/status.h"
#include "router/record/record.h"

#define RECORD_BUFFER_BYTES (4u << 20)
#define RECORD_BYTES_MOST   (1u << 30)

struct record_file;

/* Opens a file and starts its thread.  Returns ST_UNAVAILABLE if the file
 * cannot be opened, ST_RESOURCE_EXHAUSTED without memory or a thread. */
MUST_CHECK enum status record_file_new(struct record_file **out,
                                       const char *path, struct error *e);

/* Writes what is left, joins the thread, and sets *f to NULL.  A no-op if *f is
 * NULL. */
void record_file_free(struct record_file **f);

/* Returns the sink of f, borrowed. */
struct record_sink *record_file_sink(struct record_file *f);

#endif
