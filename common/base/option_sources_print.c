/* option_sources_print.c - The text of --print-config. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/option_env.h"
#include "common/base/option_sources.h"
#include "common/base/option_value.h"
#include "common/base/quote.h"

#define COLUMN_MOST 56 /* column of the sources; longer values push theirs */

/* What is printed about one option, or one item of a LIST. */
struct shown {
    const struct option_row *row;
    const char *text; /* NULL: not set */
    struct option_origin origin;
};

struct printing {
    FILE *to;
    const struct option_sources *s;
    int column; /* of the sources */
};

typedef void show_fn(struct printing *p, const struct shown *shown);

/* Returns whether a file may set the row: the others have no value to show. */
static bool is_shown(const struct option_row *row)
{
    return !option_is_command(row) && strcmp(row->name, "config") != 0;
}

static int name_width(const struct option_sources *s)
{
    size_t width = 0;

    for (size_t i = 0; i < s->program->n_rows; i++) {
        const struct option_row *row = &s->program->rows[i];
        size_t n = strlen(row->name);

        width = is_shown(row) && n > width ? n : width;
    }
    return (int)width + 2; /* a "# " in front of options that are not set */
}

/* Returns "name = value", to be freed, or NULL if no file can hold the
 * value. */
static char *setting(const struct option_sources *s, const struct shown *shown)
{
    char name[OPTION_FLAG_TEXT + 2] = "# ", *text = NULL;
    size_t n, at = shown->text == NULL ? 2 : 0;
    FILE *to = open_memstream(&text, &n);
    bool ok = true;

    if (to == NULL) {
        (void)memory_must(NULL);
    }
    option_name(shown->row->name, name + at, sizeof name - at);
    fprintf(to, "%-*s = ", name_width(s), name);
    if (shown->text == NULL) {
        fputs(shown->row->value, to);
    } else {
        ok = option_file_print_value(to, shown->text);
    }
    fclose(to);
    if (!ok) {
        free(text);
        text = NULL;
    }
    return text;
}

/* Prints the default that the help states, such as "all CPUs". */
static void print_stated_default(FILE *to, const struct option_row *row)
{
    const char *at = strstr(row->help, "(default: ");

    fputs("not set", to);
    if (at != NULL) {
        at += strlen("(");
        fprintf(to, "; %.*s", (int)strcspn(at, ")"), at);
    }
}

static void print_source(const struct printing *p, const struct shown *shown)
{
    FILE *to = p->to;
    char variable[OPTION_FLAG_TEXT * 2];

    switch (shown->origin.source) {
    case OPTION_FROM_FILE:
        fprintf(to, "%s:%u", p->s->path, shown->origin.line);
        return;
    case OPTION_FROM_ENVIRONMENT:
        fprintf(to, "environment %s",
                option_env_name(p->s->program->role, shown->row->name, variable,
                                sizeof variable));
        return;
    case OPTION_FROM_COMMAND_LINE:
        fputs("command line", to);
        return;
    case OPTION_DEFAULT:
        break;
    }
    if (shown->text == NULL) {
        print_stated_default(to, shown->row);
    } else {
        fputs("default", to);
    }
}

static void print_line(struct printing *p, const struct shown *shown)
{
    char *text = setting(p->s, shown), name[OPTION_FLAG_TEXT];

    if (text != NULL) {
        fprintf(p->to, "%-*s  # ", p->column, text);
    } else {
        fprintf(p->to, "# %s cannot be written to a file: %s  # ",
                option_name(shown->row->name, name, sizeof name),
                quote(shown->text).text);
    }
    print_source(p, shown);
    fputc('\n', p->to);
    free(text);
}

/* ---- all options ---- */

/* Returns the line of the k-th entry of the file that sets the row. */
static unsigned line_of(const struct option_sources *s,
                        const struct option_row *row, unsigned k)
{
    for (size_t i = 0; i < s->file.n; i++) {
        const char *name = s->file.entries[i].name;

        if (option_find(row, 1, name, strlen(name)) != NULL && k-- == 0) {
            return s->file.entries[i].line;
        }
    }
    return 0;
}

/* Shows one line for each item.  All items of a list have one source. */
static void show_list(struct printing *p, struct shown shown, show_fn *show)
{
    const char *field = (const char *)p->s->out + shown.row->offset;
    const struct option_list *list = (const void *)field;

    for (unsigned i = 0; i < list->n; i++) {
        shown.text = list->item[i];
        if (shown.origin.source == OPTION_FROM_FILE) {
            shown.origin.line = line_of(p->s, shown.row, i);
        }
        show(p, &shown);
    }
    if (list->n == 0) {
        shown.text = NULL;
        show(p, &shown);
    }
}

static void show_all(struct printing *p, show_fn *show)
{
    const struct option_program *program = p->s->program;

    for (size_t i = 0; i < program->n_rows; i++) {
        const struct option_row *row = &program->rows[i];
        struct shown shown = {row, p->s->origins[i].text, p->s->origins[i]};
        const char *field = (const char *)p->s->out + row->offset;

        if (!is_shown(row)) {
            continue;
        }
        if (row->type == OPTION_LIST) {
            show_list(p, shown, show);
            continue;
        }
        if (row->type == OPTION_FLAG) {
            shown.text = *(const bool *)field ? "yes" : "no";
        }
        show(p, &shown);
    }
}

/* Widens the column of the sources to the line. */
static void measure(struct printing *p, const struct shown *shown)
{
    char *text = setting(p->s, shown);
    int n = text != NULL ? (int)strlen(text) : 0;

    if (n <= COLUMN_MOST && n > p->column) {
        p->column = n;
    }
    free(text);
}

void option_sources_print(FILE *to, const struct option_sources *s)
{
    struct printing p = {.to = to, .s = s};
    char prefix[OPTION_FLAG_TEXT];

    fprintf(to,
            "# %s %s: options and their sources.  Later sources win:\n"
            "# default, file %s%s, environment %s*, command line.\n",
            s->program->name, SLUICE_VERSION, s->path,
            s->has_file || strcmp(s->path, "none") == 0 ? "" : " (not found)",
            option_env_name(s->program->role, "", prefix, sizeof prefix));
    show_all(&p, measure);
    show_all(&p, print_line);
    for (unsigned i = 0; i < s->n_unknown; i++) {
        fprintf(to, "# environment %s sets no option\n",
                quote_bytes(s->unknown[i], strcspn(s->unknown[i], "=")).text);
    }
}
