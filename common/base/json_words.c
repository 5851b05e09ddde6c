#include "common/base/json_words.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Returns the length of the string that starts at text[0], both quotes
 * included, or what is left of a text that ends inside it. */
static size_t string_length(const char *text, size_t len)
{
    size_t i = 1;

    while (i < len && text[i] != '"') {
        i += text[i] == '\\' ? 2 : 1;
    }
    return i < len ? i + 1 : len;
}

/* A character of a word or a number, so that "XNaN" holds no word. */
static bool is_part(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' ||
           c == '_';
}

static bool is_word(const char *text, size_t n)
{
    static const char *const words[] = {"Infinity", "-Infinity", "NaN"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strlen(words[i]) == n && memcmp(words[i], text, n) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns the length of the piece that starts at text[0]: a string, a run of
 * letters and digits, or one other character. */
static size_t piece(const char *text, size_t len)
{
    size_t n = 0;

    if (text[0] == '"') {
        return string_length(text, len);
    }
    while (n < len && is_part(text[n])) {
        n++;
    }
    return n > 0 ? n : 1;
}

static void put(char *to, size_t *w, const char *bytes, size_t n)
{
    if (to != NULL) {
        memcpy(to + *w, bytes, n);
    }
    *w += n;
}

/* Copies the text with its words as strings to `to`, unless NULL.  before: the
 * quote, and what the string has before the word.  Returns the length of the
 * copy. */
static size_t quoted(char *to, const char *before, const char *text, size_t len)
{
    size_t w = 0, n;

    for (size_t i = 0; i < len; i += n) {
        bool word;

        n = piece(text + i, len - i);
        word = is_word(text + i, n);
        if (word) {
            put(to, &w, before, strlen(before));
        }
        put(to, &w, text + i, n);
        if (word) {
            put(to, &w, "\"", 1);
        }
    }
    return w;
}

static enum status copy_quoted(char **copy, size_t *n, const char *before,
                               const char *text, size_t len, struct error *e)
{
    *copy = NULL;
    *n = quoted(NULL, before, text, len);
    if (*n == len) {
        return ST_OK;
    }
    *copy = malloc(*n + 1);
    if (*copy == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "no memory for %zu bytes",
                         *n);
    }
    (void)quoted(*copy, before, text, len);
    return ST_OK;
}

enum status json_words(char **copy, size_t *n, const char *text, size_t len,
                       struct error *e)
{
    return copy_quoted(copy, n, "\"", text, len, e);
}

/* ---- and back ---- */

#define MARK "\"\\u0007" /* and the word, and a quote */

enum status json_words_mark(char **copy, size_t *n, const char *text,
                            size_t len, struct error *e)
{
    return copy_quoted(copy, n, MARK, text, len, e);
}

void json_words_unmark(char *text)
{
    const size_t len = strlen(text), mark = strlen(MARK);
    size_t w = 0, n;

    for (size_t i = 0; i < len; i += n) {
        n = piece(text + i, len - i);
        if (n > mark + 1 && memcmp(text + i, MARK, mark) == 0 &&
            is_word(text + i + mark, n - mark - 1)) {
            memmove(text + w, text + i + mark, n - mark - 1);
            w += n - mark - 1;
        } else {
            memmove(text + w, text + i, n);
            w += n;
        }
    }
    text[w] = '\0';
}
