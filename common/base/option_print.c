/* option_print.c - The table of --help. */
#include <string.h>

#include "common/base/option.h"

#define INDENT    29 /* column of the help text */
#define HELP_TEXT 1024

/* Returns the bytes up to where the line may break: a word, or a whole
 * "(default: ...)". */
static size_t word_length(const char *text)
{
    size_t n = strcspn(text, " ");
    size_t whole = strcspn(text, ")") + 1;

    return strncmp(text, "(default:", n) == 0 && text[whole - 1] == ')' &&
                   whole <= OPTION_COLUMNS - INDENT
               ? whole
               : n;
}

/* Prints text from column INDENT on, and breaks lines at blanks. */
static void print_wrapped(FILE *to, const char *text)
{
    size_t column = INDENT;

    while (*text != '\0') {
        size_t n = word_length(text);

        /* A word longer than a line has a line of its own. */
        if (column > INDENT && column + 1 + n > OPTION_COLUMNS) {
            fprintf(to, "\n%*s", INDENT, "");
            column = INDENT;
        } else if (column > INDENT) {
            fputc(' ', to);
            column++;
        }
        fprintf(to, "%.*s", (int)n, text);
        column += n;
        text += n;
        text += strspn(text, " ");
    }
    fputc('\n', to);
}

static void print_row(FILE *to, const struct option_row *row)
{
    char flag[64], text[HELP_TEXT];
    int n = snprintf(flag, sizeof flag, "  --%s%s%s", row->name,
                     row->value != NULL ? " " : "",
                     row->value != NULL ? row->value : "");

    for (char *c = flag; *c != '\0' && c < flag + 4 + strlen(row->name); c++) {
        *c = *c == '_' ? '-' : *c;
    }
    fprintf(to, "%-*s", INDENT, flag);
    if (n >= INDENT) {
        fprintf(to, "\n%*s", INDENT, "");
    }
    if (row->fallback != NULL) {
        snprintf(text, sizeof text, "%s (default: %s)", row->help,
                 row->fallback);
    } else {
        snprintf(text, sizeof text, "%s%s", row->help,
                 row->type == OPTION_LIST ? "; repeatable" : "");
    }
    print_wrapped(to, text);
}

void option_print(FILE *to, const struct option_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        print_row(to, &rows[i]);
    }
}
