/* escape.h - text of a model or a peer, made fit for a terminal.
 *
 * A terminal obeys what it is sent: ESC sequences move the cursor, set the
 * title, even paste.  So everything that is not plain text is shown, not
 * sent: C0 (but newline and tab), DEL, C1, the marks that turn the reading
 * direction, and bytes that are no UTF-8, as \x1b, \u202e.
 *
 * Threading: no state.  Memory: the caller's. */
#ifndef CLIENT_CTL_ESCAPE_H
#define CLIENT_CTL_ESCAPE_H

#include <stdbool.h>
#include <stdio.h>

#define ESCAPE_GROWTH 6 /* bytes out for a byte in, at most */

/* Write n bytes of text to out, [n * ESCAPE_GROWTH] at least; the number of
 * bytes written.  Whole characters: a text is not cut inside one. */
size_t escape_text(const char *text, size_t n, char *out);

/* The same, newline and tab shown too: it stays on its line. */
size_t escape_line(const char *text, size_t n, char *out);

/* To a stream.  keep_lines false shows newline and tab too. */
void escape_print(FILE *to, const char *text, size_t n, bool keep_lines);

#endif
