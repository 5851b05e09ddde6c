/* log_gate.h - Bounds how often one kind of line is logged.
 *
 * A stranger must not be able to fill the disk by sending the same bad message
 * again and again.  A gate writes at most `burst` lines in each second, and
 * counts the others.  It writes their number in a line of its own once the
 * second is over:
 *
 *     hello-refused peer=4711 status=UNIMPLEMENTED why="..."
 *     hello-refused more=49468
 *
 * A line below the level of the log is counted, but nothing is written: when
 * the gate is due does not depend on the level.
 *
 * Threading: none; a gate belongs to one thread.  Memory: the caller's.
 * Limits: LOG_GATE_US. */
#ifndef COMMON_BASE_LOG_GATE_H
#define COMMON_BASE_LOG_GATE_H

#include <stdint.h>

#include "common/base/log.h"

#define LOG_GATE_US 1000000

struct log_gate {
    enum log_level level;
    const char *event; /* borrowed; the event of all its lines */
    uint32_t burst;    /* lines in LOG_GATE_US, at least 1 */
    uint32_t n_lines;  /* lines written in this second */
    uint64_t n_more;   /* lines held back in this second */
    int64_t end_us;    /* end of this second; 0: none has begun */
};

/* Initialises a gate for lines of this level and event. */
void log_gate_init(struct log_gate *g, enum log_level level, const char *event,
                   uint32_t burst);

/* Writes the line, or counts it if the second has had its burst. */
void log_gate_write(struct log_gate *g, int64_t now_us, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes the number of lines held back, if the second is over.  Returns when to
 * call next; INT64_MAX if nothing is held back. */
int64_t log_gate_tick(struct log_gate *g, int64_t now_us);

/* Writes that number now, at the end of the program. */
void log_gate_end(struct log_gate *g);

#endif
