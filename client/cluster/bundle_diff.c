#include "client/cluster/bundle_diff.h"

#include <stdbool.h>
#include <string.h>

#include "common/base/quote.h"

/* The order of lines has no meaning in a configuration file, so a set of lines
 * is compared, and no longest common subsequence is needed. */
static bool has_line(const char *text, const char *line, size_t n)
{
    while (*text != '\0') {
        size_t m = strcspn(text, "\n");

        if (m == n && memcmp(text, line, n) == 0) {
            return true;
        }
        text += m + (text[m] == '\n' ? 1 : 0);
    }
    return false;
}

/* Prints the lines of text that other does not have. */
static void print_lines(FILE *to, char sign, const char *text,
                        const char *other)
{
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");

        if (!has_line(other, text, n)) {
            fprintf(to, "    %c %.*s\n", sign, (int)n, text);
        }
        text += n + (text[n] == '\n' ? 1 : 0);
    }
}

/* The lines of keys are not printed: what is printed ends up in logs. */
static bool is_config(const char *path)
{
    size_t n = strlen(path);

    return n > 5 && strcmp(path + n - 5, ".conf") == 0;
}

size_t bundle_diff(FILE *to, const struct bundle *old,
                   const struct bundle *new_one)
{
    size_t n = 0;

    for (size_t i = 0; i < new_one->n; i++) {
        const struct bundle_file *f = &new_one->file[i];
        const struct bundle_file *was = bundle_find(old, f->path);

        if (was != NULL && strcmp(was->hash, f->hash) == 0) {
            continue;
        }
        fprintf(to, "  %c %s\n", was == NULL ? '+' : '~', f->path);
        if (was != NULL && was->bytes != NULL && f->bytes != NULL &&
            is_config(f->path)) {
            print_lines(to, '-', was->bytes, f->bytes);
            print_lines(to, '+', f->bytes, was->bytes);
        }
        n++;
    }
    for (size_t i = 0; i < old->n; i++) {
        if (bundle_find(new_one, old->file[i].path) == NULL) {
            fprintf(to, "  - %s\n", old->file[i].path);
            n++;
        }
    }
    return n;
}
