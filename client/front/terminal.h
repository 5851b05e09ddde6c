/* terminal.h - Lines of a person, with editing and history, by libedit.
 *
 * The history is in $XDG_STATE_HOME/sluice/history, or in
 * ~/.local/state/sluice/history, readable by the user alone.
 *
 * Threading: one thread; one terminal at a time.  Memory: on the heap.
 * Limits: TERMINAL_HISTORY_MAX. */
#ifndef CLIENT_FRONT_TERMINAL_H
#define CLIENT_FRONT_TERMINAL_H

#include <stddef.h>

#include "common/base/status.h"

#define TERMINAL_HISTORY_MAX 1000 /* lines */

struct terminal;

/* Opens the terminal of standard input.  A history that cannot be read or
 * written is left out. */
MUST_CHECK enum status terminal_open(struct terminal **out, struct error *e);

/* Writes the history and restores the terminal. */
void terminal_close(struct terminal **t);

/* Reads a line without its newline; *line is valid until the next call.
 * Returns ST_CANCELLED after Ctrl-C, ST_OUT_OF_RANGE at the end (Ctrl-D). */
MUST_CHECK enum status terminal_read(struct terminal *t, const char *prompt,
                                     const char **line, size_t *n);

#endif
