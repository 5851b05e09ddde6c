/* option_bash.c - Completion for bash, without the package bash-completion. */
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/option_generate.h"
#include "common/base/option_hint.h"
#include "common/base/option_value.h"

#define WORDS_BYTES 512

/* The functions of a script begin with the program's name, because a shell
 * loads the scripts of all programs.  @ stands for that name.
 *
 * mapfile keeps names with blanks whole; COMPREPLY=($(...)) would cut them. */
static const char helpers[] =
    "# Offers the words of $1.\n"
    "@_words()\n"
    "{\n"
    "    mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$cur\")\n"
    "}\n"
    "\n"
    "# Offers files (-f) or directories (-d).\n"
    "@_paths()\n"
    "{\n"
    "    mapfile -t COMPREPLY < <(compgen \"$1\" -- \"$cur\")\n"
    "    compopt -o filenames 2>/dev/null || true\n"
    "}\n"
    "\n";

/* COMP_WORDS is the line cut at blanks and at COMP_WORDBREAKS, which has "=":
 * --model=tiny=DIR is five words.  The option is thus up to four words before
 * the cursor. */
static const char body[] =
    "@()\n"
    "{\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} at=$((COMP_CWORD - 1)) i\n"
    "    local verb='' operands=0 named=''\n"
    "\n"
    "    COMPREPLY=()\n"
    "    # \"=\" is a word of its own.\n"
    "    if [[ $cur == '=' ]]; then cur='' at=$COMP_CWORD; fi\n"
    "    if [[ ${COMP_WORDS[at]} == '=' && at -gt 1 ]]; then\n"
    "        at=$((at - 1))\n"
    "        if [[ ${COMP_WORDS[at]} != --* ]]; then # NAME=DIR\n"
    "            named=yes at=$((at - 1))\n"
    "            if [[ ${COMP_WORDS[at]} == '=' ]]; then at=$((at - 1)); fi\n"
    "        fi\n"
    "    fi\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        if [[ ${COMP_WORDS[i]} == --* ]]; then\n"
    "            if [[ ${COMP_WORDS[i + 1]:-} == '=' ]]; then\n"
    "                i=$((i + 2))\n"
    "            elif @_value \"$verb\" \"${COMP_WORDS[i]}\"; then\n"
    "                i=$((i + 1))\n"
    "            fi\n"
    "        elif [[ ${COMP_WORDS[i]} != -* ]]; then\n"
    "            if [ -n \"$verb\" ]; then operands=$((operands + 1)); fi\n"
    "            verb=${verb:-${COMP_WORDS[i]}}\n"
    "        fi\n"
    "    done\n"
    "    COMPREPLY=()\n"
    "    if [[ ${COMP_WORDS[at]} == --* && at -ge 1 ]] &&\n"
    "        @_value \"$verb\" \"${COMP_WORDS[at]}\"; then\n"
    "        return\n"
    "    fi\n"
    "    COMPREPLY=()\n"
    "    if [[ $cur == -* ]]; then\n"
    "        @_options \"$verb\"\n"
    "    else\n"
    "        @_operands \"$verb\"\n"
    "    fi\n"
    "}\n"
    "\n";

/* Writes the name of the functions: "_sluice_load" for sluice-load. */
static char *function_name(const struct option_program *p)
{
    char *name;

    if (asprintf(&name, "_%s", p->name) < 0) {
        (void)memory_must(NULL);
    }
    for (char *c = name; *c != '\0'; c++) {
        *c = *c == '-' ? '_' : *c;
    }
    return name;
}

/* Prints text with the name in place of each @. */
static void put(FILE *to, const char *text, const char *name)
{
    for (; *text != '\0'; text++) {
        if (*text == '@') {
            fputs(name, to);
        } else {
            fputc(*text, to);
        }
    }
}

/* Prints the command that offers values.  NAME=DIR has none for NAME. */
static void put_action(FILE *to, enum option_hint hint, const char *words,
                       const char *name)
{
    switch (hint) {
    case OPTION_HINT_WORDS:
        fprintf(to, "%s_words '%s'", name, words);
        break;
    case OPTION_HINT_FILE:
        fprintf(to, "%s_paths -f", name);
        break;
    case OPTION_HINT_DIR:
        fprintf(to, "%s_paths -d", name);
        break;
    case OPTION_HINT_NAMED_DIR:
        fprintf(to, "if [ -n \"$named\" ]; then %s_paths -d; fi", name);
        break;
    case OPTION_HINT_NONE:
    case OPTION_HINT_FLAG:
        fputs(":", to);
    }
}

static void put_values(FILE *to, const char *verb,
                       const struct option_row *rows, size_t n,
                       const char *name)
{
    for (size_t i = 0; i < n; i++) {
        char flag[OPTION_FLAG_TEXT], words[WORDS_BYTES] = "";
        enum option_hint hint = option_hint(&rows[i], words, sizeof words);

        if (hint == OPTION_HINT_FLAG) {
            continue;
        }
        option_flag(rows[i].name, flag, sizeof flag);
        if (verb == NULL) {
            fprintf(to, "    *' %s') ", flag);
        } else {
            fprintf(to, "    '%s %s') ", verb, flag);
        }
        put_action(to, hint, words, name);
        fputs(" ;;\n", to);
    }
}

/* Prints the function that offers the values of the option $2 of the verb $1.
 * It fails if the option has no value. */
static void put_value_function(FILE *to, const struct option_program *p,
                               const char *name)
{
    fprintf(to, "%s_value()\n{\n    case \"$1 $2\" in\n", name);
    for (size_t i = 0; i < p->n_verbs; i++) {
        put_values(to, p->verbs[i].name, p->verbs[i].rows, p->verbs[i].n_rows,
                   name);
    }
    put_values(to, NULL, p->rows, p->n_rows, name);
    fputs("    *) return 1 ;;\n    esac\n}\n\n", to);
}

static void put_flags(FILE *to, const struct option_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char flag[OPTION_FLAG_TEXT];

        fprintf(to, " %s", option_flag(rows[i].name, flag, sizeof flag));
    }
}

/* Prints the function that offers the options of the verb $1. */
static void put_options_function(FILE *to, const struct option_program *p,
                                 const char *name)
{
    fprintf(to, "%s_options()\n{\n    local options='", name);
    put_flags(to, p->rows, p->n_rows);
    fputs("'\n\n    case $1 in\n", to);
    for (size_t i = 0; i < p->n_verbs; i++) {
        if (p->verbs[i].n_rows > 0) {
            fprintf(to, "    %s) options+='", p->verbs[i].name);
            put_flags(to, p->verbs[i].rows, p->verbs[i].n_rows);
            fputs("' ;;\n", to);
        }
    }
    fprintf(to, "    *) ;;\n    esac\n    %s_words \"$options\"\n}\n\n", name);
}

/* Prints what is offered for the operands of a verb. */
static void put_operands(FILE *to, const struct option_verb *v,
                         const char *name)
{
    enum option_hint hint = option_hint_operands(v->operands);
    char words[WORDS_BYTES];
    bool first = option_hint_first(v->operands, words, sizeof words);

    if (!first && hint != OPTION_HINT_FILE && hint != OPTION_HINT_DIR) {
        return;
    }
    fprintf(to, "    %s) ", v->name);
    if (first) {
        fprintf(to, "if [ \"$operands\" -eq 0 ]; then %s_words '%s'; else ",
                name, words);
    }
    put_action(to, hint, "", name);
    fputs(first ? "; fi ;;\n" : " ;;\n", to);
}

/* Prints the function that offers verbs, or the operands of the verb $1. */
static void put_operands_function(FILE *to, const struct option_program *p,
                                  const char *name)
{
    fprintf(to, "%s_operands()\n{\n    case $1 in\n", name);
    if (p->n_verbs > 0) {
        fprintf(to, "    '' | help) %s_words 'help", name);
        for (size_t i = 0; i < p->n_verbs; i++) {
            fprintf(to, " %s", p->verbs[i].name);
        }
        fputs("' ;;\n", to);
    }
    for (size_t i = 0; i < p->n_verbs; i++) {
        put_operands(to, &p->verbs[i], name);
    }
    fputs("    *) ;;\n    esac\n}\n\n", to);
}

void option_bash(FILE *to, const struct option_program *p)
{
    char *name = function_name(p);

    fprintf(to,
            "# Completion of %s for bash.  Generated from the table of "
            "options.\n# shellcheck shell=bash disable=SC2034\n\n",
            p->name);
    put(to, helpers, name);
    put_value_function(to, p, name);
    put_options_function(to, p, name);
    put_operands_function(to, p, name);
    put(to, body, name);
    fprintf(to, "complete -F %s %s\n", name, p->name);
    free(name);
}
