/* json_words.h - Infinity, -Infinity and NaN in a JSON text.
 *
 * Python writes these words for numbers that JSON lacks, and published
 * configurations hold them.  A parser refuses the whole text, although the
 * reader may never look at that number.  Each word becomes a string of the same
 * spelling: a reader that needs the number finds another type and refuses it by
 * name, any other ignores it.
 *
 * A program that writes the text again needs the words back, and not strings of
 * that spelling.  Then they are marked: the string begins with the control
 * character 7, which a JSON text can only hold escaped, as \u0007.
 *
 *     text -> json_words_mark() -> parser .. writer -> json_words_unmark()
 *
 * Threading: none.  Memory: the copy is the caller's. */
#ifndef COMMON_BASE_JSON_WORDS_H
#define COMMON_BASE_JSON_WORDS_H

#include <stddef.h>

#include "common/base/status.h"

/* Sets *copy to text[0..len) with the words in quotes, allocated with malloc,
 * and *n to its length.  *copy is NULL if the text has no such word.  Returns
 * ST_RESOURCE_EXHAUSTED if memory runs out. */
MUST_CHECK enum status json_words(char **copy, size_t *n, const char *text,
                                  size_t len, struct error *e);

/* As json_words(), but with marked strings. */
MUST_CHECK enum status json_words_mark(char **copy, size_t *n, const char *text,
                                       size_t len, struct error *e);

/* Turns the marked strings of a JSON text, NUL-terminated, into words again, in
 * place. */
void json_words_unmark(char *text);

#endif
