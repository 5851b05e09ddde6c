/* option_zsh.c - Completion for zsh, by its function _arguments. */
#include <string.h>

#include "common/base/option_generate.h"
#include "common/base/option_hint.h"
#include "common/base/option_value.h"

#define WORDS_BYTES 512

/* Prints text inside single quotes and inside [...] or before a ':'. */
static void put(FILE *to, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            fputs("'\\''", to);
        } else if (strchr("[]:\\", *text) != NULL) {
            fprintf(to, "\\%c", *text);
        } else {
            fputc(*text, to);
        }
    }
}

static void put_action(FILE *to, enum option_hint hint, const char *words)
{
    switch (hint) {
    case OPTION_HINT_WORDS:
        fprintf(to, "(%s)", words);
        break;
    case OPTION_HINT_FILE:
        fputs("_files", to);
        break;
    case OPTION_HINT_DIR:
        fputs("_files -/", to);
        break;
    case OPTION_HINT_NAMED_DIR:
        fputs("{ compset -P \"*=\" && _files -/ }", to);
        break;
    case OPTION_HINT_NONE:
    case OPTION_HINT_FLAG:
        fputs(" ", to);
    }
}

/* Prints a row as '--name=[help]:VALUE:action', the argument of _arguments. */
static void put_row(FILE *to, const struct option_row *row)
{
    char flag[OPTION_FLAG_TEXT], words[WORDS_BYTES] = "";
    enum option_hint hint = option_hint(row, words, sizeof words);

    fprintf(to, "        '%s%s%s[", row->type == OPTION_LIST ? "*" : "",
            option_flag(row->name, flag, sizeof flag),
            hint == OPTION_HINT_FLAG ? "" : "=");
    put(to, row->help);
    fputc(']', to);
    if (hint != OPTION_HINT_FLAG) {
        fputc(':', to);
        put(to, row->value);
        fputc(':', to);
        put_action(to, hint, words);
    }
    fputs("'\n", to);
}

static void put_rows(FILE *to, const char *array, const struct option_row *rows,
                     size_t n)
{
    fprintf(to, "    %s=(\n", array);
    for (size_t i = 0; i < n; i++) {
        put_row(to, &rows[i]);
    }
    fputs("    )\n", to);
}

/* Prints the verbs with their summaries, for _describe. */
static void put_verb_names(FILE *to, const struct option_program *p)
{
    fputs("    verbs=(\n        'help:print the help of a verb'\n", to);
    for (size_t i = 0; i < p->n_verbs; i++) {
        fprintf(to, "        '%s:", p->verbs[i].name);
        put(to, p->verbs[i].summary);
        fputs("'\n", to);
    }
    fputs("    )\n", to);
}

/* Prints the case of a verb: its options and operands. */
static void put_verb(FILE *to, const struct option_verb *v)
{
    enum option_hint hint = option_hint_operands(v->operands);
    char words[WORDS_BYTES];

    fprintf(to, "        %s)\n", v->name);
    for (size_t i = 0; i < v->n_rows; i++) {
        fputs(i == 0 ? "            specs+=(\n" : "", to);
        fputs("        ", to);
        put_row(to, &v->rows[i]);
    }
    if (v->n_rows > 0) {
        fputs("            )\n", to);
    }
    fputs("            _arguments $specs", to);
    if (option_hint_first(v->operands, words, sizeof words)) {
        fprintf(to, " '1:action:(%s)'", words);
    }
    if (hint != OPTION_HINT_FLAG) {
        fputs(" '*:", to);
        put(to, v->operands);
        fputc(':', to);
        if (hint == OPTION_HINT_NONE) {
            /* A mere message would hide the options. */
            fputs("_guard \"^-*\" operand", to);
        } else {
            put_action(to, hint, "");
        }
        fputc('\'', to);
    }
    fputs("\n            ;;\n", to);
}

/* The array of the specifications must not be named options: that would hide
 * zsh's array of its own options, on which the functions of completion depend.
 *
 * (-) ends the options of the program at the verb.  Without it, the outer
 * _arguments would complete options after the verb, and only its own. */
void option_zsh(FILE *to, const struct option_program *p)
{
    fprintf(to,
            "#compdef %s\n# Generated from the table of options.\n\n"
            "local -a specs verbs\nlocal curcontext=\"$curcontext\" context "
            "state state_descr line\ntypeset -A opt_args\n\n",
            p->name);
    put_rows(to, "specs", p->rows, p->n_rows);
    if (p->n_verbs == 0) {
        fputs("    _arguments $specs\n", to);
        return;
    }
    put_verb_names(to, p);
    fputs(
        "    _arguments -C $specs '(-)1:verb:->verb' '(-)*::operand:->operand' "
        "&& return\n"
        "    case $state in\n"
        "    verb) _describe verb verbs ;;\n"
        "    operand)\n"
        "        case $words[1] in\n"
        "        help) _describe verb verbs ;;\n",
        to);
    for (size_t i = 0; i < p->n_verbs; i++) {
        put_verb(to, &p->verbs[i]);
    }
    fputs("        esac\n        ;;\n    esac\n", to);
}
