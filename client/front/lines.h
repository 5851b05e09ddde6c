/* lines.h - A stream of bytes cut into lines.
 *
 * Bytes of a line past LINES_BYTES_MAX are dropped, so that a child that never
 * writes a newline needs no more memory.
 *
 * Threading: none.  Memory: in the struct.  Pure. */
#ifndef CLIENT_FRONT_LINES_H
#define CLIENT_FRONT_LINES_H

#include <stddef.h>

#define LINES_BYTES_MAX 4096

/* All zeros is the start of a stream. */
struct lines {
    size_t n;
    char text[LINES_BYTES_MAX + 1];
};

/* Receives one line without its newline, ended by a NUL; n counts no NUL. */
typedef void lines_fn(void *arg, const char *line, size_t n);

/* Takes the next bytes, and passes each line that they complete to fn. */
void lines_push(struct lines *l, const char *bytes, size_t n, lines_fn *fn,
                void *arg);

/* Passes an incomplete last line to fn, if any. */
void lines_finish(struct lines *l, lines_fn *fn, void *arg);

#endif
