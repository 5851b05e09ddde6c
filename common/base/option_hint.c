#include "common/base/option_hint.h"

#include <ctype.h>
#include <string.h>

/* Returns the length of a word that can be typed as it is. */
static size_t plain_length(const char *text)
{
    size_t n = 0;

    while (isdigit((unsigned char)text[n]) || islower((unsigned char)text[n]) ||
           text[n] == '-') {
        n++;
    }
    return n;
}

/* Reads "a, b or c" from text[0..n) into words.  Returns how many words there
 * are; 0 if text is anything else.  Words with capitals or signs, such as
 * trace:FILE, are left out. */
static unsigned read_words(const char *text, size_t n, char *words, size_t cap)
{
    unsigned count = 0;
    size_t at = 0, used = 0;

    while (at < n) {
        size_t end = at + strcspn(text + at, ", "), length;

        end = end < n ? end : n;
        length = end - at;
        if (plain_length(text + at) >= length && used + length + 1 <= cap) {
            memcpy(words + used, text + at, length);
            used += length;
            words[used++] = ' ';
            count++;
        }
        at = end;
        if (at < n && text[at] == ',') {
            at++;
        } else if (at < n && strncmp(text + at, " or ", 4) != 0) {
            return 0; /* a phrase */
        }
        at += at < n && text[at] == ' ';
        at += strncmp(text + at, "or ", 3) == 0 ? 3 : 0;
    }
    words[used > 0 ? used - 1 : 0] = '\0';
    return count;
}

enum option_hint option_hint(const struct option_row *row, char *words,
                             size_t cap)
{
    const char *list;
    size_t n;

    if (row->type == OPTION_FLAG) {
        return OPTION_HINT_FLAG;
    }
    if (strcmp(row->value, "FILE") == 0) {
        return OPTION_HINT_FILE;
    }
    if (strcmp(row->value, "DIR") == 0) {
        return OPTION_HINT_DIR;
    }
    if (strcmp(row->value, "NAME=DIR") == 0) {
        return OPTION_HINT_NAMED_DIR;
    }
    /* A list ends at a remark: "cpu, opencl (the first GPU)", "a, b; see c",
     * "chat or auto: chat for text". */
    n = strcspn(row->help, "(;");
    list = strstr(row->help, ": ");
    if (list == NULL || list >= row->help + n ||
        (row->type != OPTION_STRING && row->type != OPTION_U32)) {
        return OPTION_HINT_NONE;
    }
    list += 2;
    n -= (size_t)(list - row->help);
    for (size_t i = 0; i + 1 < n; i++) {
        n = list[i] == ':' && list[i + 1] == ' ' ? i : n;
    }
    while (n > 0 && strchr(" ,", list[n - 1]) != NULL) {
        n--;
    }
    return read_words(list, n, words, cap) >= 2 ? OPTION_HINT_WORDS
                                                : OPTION_HINT_NONE;
}

bool option_hint_first(const char *operands, char *words, size_t cap)
{
    size_t n = strspn(operands, "abcdefghijklmnopqrstuvwxyz|-");

    if (memchr(operands, '|', n) == NULL || n >= cap ||
        (operands[n] != ' ' && operands[n] != '\0')) {
        return false;
    }
    memcpy(words, operands, n);
    words[n] = '\0';
    for (size_t i = 0; i < n; i++) {
        words[i] = words[i] == '|' ? ' ' : words[i];
    }
    return true;
}

enum option_hint option_hint_operands(const char *operands)
{
    return operands[0] == '\0'               ? OPTION_HINT_FLAG
           : strstr(operands, "DIR") != NULL ? OPTION_HINT_DIR
           : strstr(operands, "FILE") != NULL ||
                   strstr(operands, ".json") != NULL ||
                   strstr(operands, "BUNDLE") != NULL
               ? OPTION_HINT_FILE
               : OPTION_HINT_NONE;
}
