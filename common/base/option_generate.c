#include "common/base/option_generate.h"

#include <string.h>

#include "common/base/option_sources.h"
#include "common/base/option_value.h"

#define SAMPLE_COLUMNS 78

typedef void print_fn(FILE *to, const struct option_program *program);

struct kind {
    const char *name;
    print_fn *print;
    bool is_for_daemons; /* for programs with a configuration */
};

static const struct kind kinds[] = {
    {"man", option_manual, false},
    {"man5", option_manual_conf, true},
    {"man5-head", option_manual_conf_head, true},
    {"man5-tail", option_manual_conf_tail, true},
    {"bash", option_bash, false},
    {"zsh", option_zsh, false},
    {"conf", option_sample, true},
};

const char *option_generate_kind(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "--generate") != 0) {
        return NULL;
    }
    return argc == 3 ? argv[2] : "";
}

enum status option_generate(FILE *to, const struct option_program *program,
                            const char *kind, struct error *e)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, kind) == 0 &&
            (program->role != NULL || !kinds[i].is_for_daemons)) {
            kinds[i].print(to, program);
            return ST_OK;
        }
    }
    return error_set(e, ST_INVALID_ARGUMENT,
                     "--generate %s: give man, bash or zsh; for a daemon also "
                     "man5, man5-head, man5-tail or conf",
                     kind);
}

/* ---- a sample configuration ---- */

/* Prints text as comment lines. */
static void print_comment(FILE *to, const char *text)
{
    size_t column = 0;

    while (*text != '\0') {
        size_t n = strcspn(text, " ");

        if (column > 0 && column + 1 + n > SAMPLE_COLUMNS) {
            fputc('\n', to);
            column = 0;
        }
        column += (size_t)fprintf(to, "%s %.*s", column == 0 ? "#" : "", (int)n,
                                  text);
        text += n;
        text += strspn(text, " ");
    }
    fputc('\n', to);
}

/* An option without a default has the name of its value, such as DIR, so that
 * a line without its # alone is no working configuration. */
void option_sample(FILE *to, const struct option_program *program)
{
    char name[OPTION_FLAG_TEXT];

    fprintf(to,
            "# Configuration of %s, see sluice.conf(5).  Restart the service\n"
            "# after a change.  %s --print-config shows what is in effect.\n",
            program->name, program->name);
    for (size_t i = 0; i < program->n_rows; i++) {
        const struct option_row *row = &program->rows[i];

        if (option_is_command(row) || strcmp(row->name, "config") == 0) {
            continue;
        }
        fputc('\n', to);
        print_comment(to, row->help);
        fprintf(to, "#%s = ", option_name(row->name, name, sizeof name));
        if (row->type == OPTION_FLAG) {
            fputs("no", to);
        } else if (row->fallback == NULL ||
                   !option_file_print_value(to, row->fallback)) {
            fputs(row->value, to);
        }
        fputc('\n', to);
    }
}
