/* affix.h - How a text begins and ends.
 *
 * Threading: none.  Memory: none. */
#ifndef COMMON_BASE_AFFIX_H
#define COMMON_BASE_AFFIX_H

#include <stdbool.h>
#include <string.h>

static inline bool starts_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static inline bool ends_with(const char *text, const char *with)
{
    size_t n = strlen(text), m = strlen(with);

    return n >= m && strcmp(text + n - m, with) == 0;
}

/* The same for the n characters at text, which have no end mark. */
static inline bool starts_with_n(const char *text, size_t n, const char *with)
{
    return n >= strlen(with) && memcmp(text, with, strlen(with)) == 0;
}

static inline bool equals_n(const char *text, size_t n, const char *word)
{
    return n == strlen(word) && memcmp(text, word, n) == 0;
}

/* Skips c.  Returns false, and skips nothing, if another character is next. */
static inline bool skip_char(const char **text, char c)
{
    bool is = **text == c;

    *text += is;
    return is;
}

#endif
