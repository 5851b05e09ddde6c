/* json_words.h - Infinity, -Infinity and NaN in a JSON text.
 *
 * Python writes these words for numbers that JSON lacks, and published
 * configurations hold them.  A parser refuses the whole text, although the
 * reader may never look at that number.  Each word becomes a string of the same
 * spelling: a reader that needs the number finds another type and refuses it by
 * name, any other ignores it.
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

#endif
