#include "common/base/option_file.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/quote.h"
#include "common/base/utf8.h"

#define BLANKS  " \t"
#define BOM     "\xEF\xBB\xBF"
#define EXAMPLE "write NAME = VALUE"

/* ---- one line ---- */

static char *skip_blanks(char *at)
{
    return at + strspn(at, BLANKS);
}

/* Sets the end of text to the last byte that is no blank. */
static void trim(char *text)
{
    size_t n = strlen(text);

    while (n > 0 && strchr(BLANKS, text[n - 1]) != NULL) {
        n--;
    }
    text[n] = '\0';
}

/* Ends text at a comment: a # at the start or after a blank. */
static void cut_comment(char *text)
{
    for (char *c = text; *c != '\0'; c++) {
        if (*c == '#' && (c == text || strchr(BLANKS, c[-1]) != NULL)) {
            *c = '\0';
            return;
        }
    }
}

/* Returns the character that \c stands for, or 0. */
static char unescape(char c)
{
    switch (c) {
    case '"':
    case '\\':
        return c;
    case 'n':
        return '\n';
    case 't':
        return '\t';
    default:
        return '\0';
    }
}

/* Decodes a value in quotes, in place; value[0] is the quote.  Decoding only
 * shortens, so that reading stays ahead of writing. */
static enum status take_quoted(char *value, struct error *e)
{
    char *to = value, *at = value + 1;

    for (; *at != '"'; at++) {
        if (*at == '\\' && at[1] != '\0') {
            at++;
            if (unescape(*at) == '\0') {
                return error_set(e, ST_INVALID_ARGUMENT,
                                 "\\ in quotes; only \\\", \\\\, \\n and \\t "
                                 "are known, so write \\\\ for a backslash");
            }
            *to++ = unescape(*at);
        } else if (*at == '\0' || *at == '\\') {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "the quote is not closed; end the value with \"");
        } else {
            *to++ = *at;
        }
    }
    at = skip_blanks(at + 1);
    *to = '\0';
    if (*at != '\0' && *at != '#') {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s after the closing quote; write \\\" for a quote "
                         "in the value, or remove the text",
                         quote(at).text);
    }
    return ST_OK;
}

static enum status take_value(char *value, struct error *e)
{
    if (value[0] == '"') {
        return take_quoted(value, e);
    }
    cut_comment(value);
    trim(value);
    return value[0] != '\0'
               ? ST_OK
               : error_set(e, ST_INVALID_ARGUMENT,
                           "no value; write \"\" for an empty text, or remove "
                           "the line");
}

/* Returns the length of the name at the front of text. */
static size_t name_length(const char *text)
{
    size_t n = 0;

    while (isalnum((unsigned char)text[n]) || text[n] == '-' ||
           text[n] == '_') {
        n++;
    }
    return n;
}

static enum status refuse_form(const char *text, struct error *e)
{
    if (text[0] == '[') {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: there are no sections; remove the line",
                         quote(text).text);
    }
    if (strchr(text, '=') == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT, "%s: no \"=\"; " EXAMPLE,
                         quote(text).text);
    }
    return error_set(e, ST_INVALID_ARGUMENT,
                     "%s: a name has letters, digits and - only; " EXAMPLE,
                     quote(text).text);
}

/* Splits "name = value".  An empty line sets the name to NULL. */
static enum status take_line(char *line, struct option_entry *entry,
                             struct error *e)
{
    char *name = skip_blanks(line), *equals;
    size_t n = name_length(name);
    enum status st;

    entry->name = NULL;
    if (name[0] == '\0' || name[0] == '#') {
        return ST_OK;
    }
    equals = skip_blanks(name + n);
    if (n == 0 || *equals != '=') {
        return refuse_form(name, e);
    }
    if (strncmp(name, "--", 2) == 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%.*s: write the name without dashes in front", (int)n,
                         name);
    }
    entry->name = name;
    entry->value = skip_blanks(equals + 1);
    st = take_value(skip_blanks(equals + 1), e);
    name[n] = '\0';
    return st == ST_OK ? ST_OK : error_wrap(e, "%s", name);
}

/* ---- the text ---- */

/* Refuses bytes that an error message could not show.  A NUL would also end
 * the value before its last byte. */
static enum status check_bytes(const char *line, size_t n, struct error *e)
{
    size_t bad;

    if (n > OPTION_LINE_BYTES_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%zu bytes in the line; at most %d are allowed", n,
                         OPTION_LINE_BYTES_MAX);
    }
    if (!utf8_valid(line, n, &bad)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "byte %zu of the line is not UTF-8; store the file "
                         "as UTF-8",
                         bad + 1);
    }
    for (size_t i = 0; i < n; i++) {
        if (iscntrl((unsigned char)line[i]) && line[i] != '\t') {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "byte %zu of the line is the control character "
                             "0x%02x; remove it",
                             i + 1, (unsigned char)line[i]);
        }
    }
    return ST_OK;
}

/* Takes the line that begins at text[*at], and moves *at past its end. */
static enum status next_line(struct option_file *f, size_t n, size_t *at,
                             unsigned number, struct error *e)
{
    char *line = f->text + *at;
    char *end = memchr(line, '\n', n - *at);
    size_t length = end != NULL ? (size_t)(end - line) : n - *at;
    enum status st;

    *at += length + 1;
    if (length > 0 && line[length - 1] == '\r') {
        length--;
    }
    st = check_bytes(line, length, e);
    line[length] = '\0';
    if (st == ST_OK) {
        st = take_line(line, &f->entries[f->n], e);
    }
    f->entries[f->n].line = number;
    f->n += st == ST_OK && f->entries[f->n].name != NULL;
    return st;
}

/* Returns the number of lines, which bounds that of the entries. */
static size_t count_lines(const char *text, size_t n)
{
    size_t lines = 1;

    for (size_t i = 0; i < n; i++) {
        lines += text[i] == '\n';
    }
    return lines;
}

enum status option_file_parse(struct option_file *f, const char *path,
                              const void *bytes, size_t n, struct error *e)
{
    enum status st = ST_OK;
    size_t at = 0;

    *f = (struct option_file){0};
    if (n > OPTION_FILE_BYTES_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: larger than the limit of %d bytes", path,
                         OPTION_FILE_BYTES_MAX);
    }
    f->text = malloc(n + 1);
    f->entries = calloc(count_lines(bytes, n), sizeof *f->entries);
    if (f->text == NULL || f->entries == NULL) {
        option_file_fini(f);
        return error_set(e, ST_RESOURCE_EXHAUSTED, "%s: out of memory", path);
    }
    memcpy(f->text, bytes, n);
    if (n >= strlen(BOM) && memcmp(f->text, BOM, strlen(BOM)) == 0) {
        at = strlen(BOM);
    }
    for (unsigned line = 1; st == ST_OK && at < n; line++) {
        st = next_line(f, n, &at, line, e);
        st = st == ST_OK ? st : error_wrap(e, "%s:%u", path, line);
    }
    if (st != ST_OK) {
        option_file_fini(f);
    }
    return st;
}

/* ---- files ---- */

enum status option_file_read(struct option_file *f, const char *path,
                             struct error *e)
{
    FILE *from = fopen(path, "re");
    char *bytes = malloc(OPTION_FILE_BYTES_MAX + 1);
    enum status st;
    size_t n = 0;

    *f = (struct option_file){0};
    if (bytes == NULL) {
        (void)memory_must(NULL);
    }
    /* One byte past the limit shows that the file is too large.  fstat() would
     * not, for a pipe such as --config <(...). */
    errno = from != NULL ? 0 : errno;
    if (from != NULL) {
        n = fread(bytes, 1, OPTION_FILE_BYTES_MAX + 1, from);
    }
    if (from == NULL || ferror(from)) {
        st = error_set(e,
                       errno == ENOENT || errno == ENOTDIR ? ST_NOT_FOUND
                                                           : ST_UNAVAILABLE,
                       "cannot read %s: %s", path, strerror(errno));
    } else {
        st = option_file_parse(f, path, bytes, n, e);
    }
    if (from != NULL) {
        fclose(from);
    }
    free(bytes);
    return st;
}

/* Returns whether text stands for itself without quotes. */
static bool is_plain(const char *text)
{
    return text[0] != '\0' && text[0] != '"' && text[0] != '#' &&
           strpbrk(text, " \t\n") == NULL;
}

bool option_file_print_value(FILE *to, const char *text)
{
    if (!utf8_valid(text, strlen(text), NULL)) {
        return false;
    }
    for (const char *c = text; *c != '\0'; c++) {
        if (iscntrl((unsigned char)*c) && *c != '\t' && *c != '\n') {
            return false;
        }
    }
    if (is_plain(text)) {
        fputs(text, to);
        return true;
    }
    fputc('"', to);
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            fputc('\\', to);
        }
        fputs(*c == '\n' ? "\\n" : *c == '\t' ? "\\t" : (char[]){*c, '\0'}, to);
    }
    fputc('"', to);
    return true;
}

void option_file_fini(struct option_file *f)
{
    free(f->text);
    free(f->entries);
    *f = (struct option_file){0};
}
