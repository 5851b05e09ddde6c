/* escape.h - Escaping of text from a model or a peer for a terminal.
 *
 * A terminal executes control sequences in its input: they move the cursor,
 * set the title or even paste.  Characters that are not plain text are
 * therefore replaced by an escape such as \x1b or \u202e:
 *
 *   - C0 except newline and tab, DEL, C1;
 *   - marks that change the reading direction, line and paragraph separators;
 *   - bytes that are not UTF-8.
 *
 * Threading: no state.  Memory: the caller's. */
#ifndef CLIENT_CTL_ESCAPE_H
#define CLIENT_CTL_ESCAPE_H

#include <stdbool.h>
#include <stdio.h>

#define ESCAPE_GROWTH 6 /* output bytes per input byte, at most */

/* Writes text[0..n) to out, which has n * ESCAPE_GROWTH bytes or more, and
 * keeps newline and tab.  Returns the number of bytes written; no NUL is
 * added.  The bytes of an incomplete character are escaped. */
size_t escape_text(const char *text, size_t n, char *out);

/* Writes like escape_text(), and escapes newline and tab too, so that the
 * result is one line. */
size_t escape_line(const char *text, size_t n, char *out);

/* Returns a copy of text[0..n) as escape_line() writes it, with a NUL, for
 * free(). */
char *escape_copy(const void *text, size_t n);

/* Prints text[0..n) to a stream; keep_lines keeps newline and tab. */
void escape_print(FILE *to, const char *text, size_t n, bool keep_lines);

#endif
