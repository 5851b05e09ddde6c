/* option_manual.c - Manual pages, in the macros of man(7). */
#include <ctype.h>
#include <string.h>

#include "common/base/option_env.h"
#include "common/base/option_generate.h"
#include "common/base/option_sources.h"
#include "common/base/option_value.h"

#define MANUAL_DATE "2026-11-23"
#define FILE_BASE   SLUICE_CONFIG_DIR

/* ---- words ---- */

/* Prints text[0..n) so that no character is a request or an escape.
 *
 * man(7) turns some characters into typographic ones, such as - into a hyphen.
 * Readers copy text to a shell, where it must stay ASCII: those are escaped. */
static void put_n(FILE *to, const char *text, size_t n)
{
    if (n > 0 && (text[0] == '.' || text[0] == '\'')) {
        fputs("\\&", to);
    }
    for (size_t i = 0; i < n; i++) {
        switch (text[i]) {
        case '\\':
            fputs("\\e", to);
            break;
        case '-':
            fputs("\\-", to);
            break;
        case '\'':
            fputs("\\(aq", to);
            break;
        case '`':
            fputs("\\(ga", to);
            break;
        case '~':
            fputs("\\(ti", to);
            break;
        case '^':
            fputs("\\(ha", to);
            break;
        default:
            fputc(text[i], to);
        }
    }
}

static void put(FILE *to, const char *text)
{
    put_n(to, text, strlen(text));
}

/* Prints text in upper case. */
static void put_upper(FILE *to, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '-') {
            fputs("\\-", to);
        } else {
            fputc(toupper((unsigned char)*text), to);
        }
    }
}

/* ---- paragraphs ---- */

/* Text is a list of lines: paragraphs between empty lines, and examples, whose
 * lines are indented.  It is the text of --help, which has no markup.
 *
 * A paragraph macro is printed when its text comes, not at the empty line:
 * formatters warn about paragraphs without text. */
struct prose {
    FILE *to;
    bool begun;   /* the section has text */
    bool gap;     /* an empty line came before */
    bool example; /* in an example */
    bool heads;   /* "examples:" begins a section */
    bool joins;   /* an indented line belongs to the paragraph */
};

struct heading {
    const char *line, *title;
};

static const struct heading headings[] = {{"examples:", "EXAMPLES"},
                                          {"exit codes:", "EXIT STATUS"},
                                          {"exit codes", "EXIT STATUS"},
                                          {"Exit code:", "EXIT STATUS"}};

static void end_example(struct prose *p)
{
    if (p->example) {
        fputs(".fi\n.RE\n", p->to);
        p->example = false;
    }
}

/* Prints a section if the line begins one.  Returns what is left of the
 * line. */
static const char *take_heading(struct prose *p, const char *line, size_t *n)
{
    for (size_t i = 0; i < sizeof headings / sizeof *headings; i++) {
        size_t length = strlen(headings[i].line);

        if (!p->heads || *n < length ||
            strncmp(line, headings[i].line, length) != 0) {
            continue;
        }
        end_example(p);
        fprintf(p->to, ".SH %s\n", headings[i].title);
        p->begun = p->gap = p->joins = false;
        line += length;
        *n -= length;
        while (*n > 0 && line[0] == ' ') {
            line++;
            *n -= 1;
        }
        return line;
    }
    return line;
}

/* Prints a line that must not be filled. */
static void put_example(struct prose *p, const char *line, size_t n)
{
    if (!p->example) {
        fputs(p->begun ? ".PP\n.RS 4\n.nf\n" : ".RS 4\n.nf\n", p->to);
        p->example = true;
    } else if (p->gap) {
        fputc('\n', p->to);
    }
    put_n(p->to, line, n);
    fputc('\n', p->to);
    p->begun = true;
    p->gap = false;
}

/* Prints a line of prose.  An indented line right after a line of text
 * continues its paragraph, as in the list of exit codes. */
static void put_line(struct prose *p, const char *line, size_t n)
{
    line = take_heading(p, line, &n);
    if (n == 0) {
        p->gap = true;
        p->joins = false;
        return;
    }
    if (line[0] == ' ' && !p->joins) {
        put_example(p, line + strspn(line, " "), n - strspn(line, " "));
        return;
    }
    end_example(p);
    if (p->gap && p->begun) {
        fputs(".PP\n", p->to);
    }
    p->gap = false;
    p->begun = true;
    p->joins = line[n - 1] != ':';
    put_n(p->to, line + strspn(line, " "), n - strspn(line, " "));
    fputc('\n', p->to);
}

static void put_text(struct prose *p, const char *text)
{
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");

        put_line(p, text, n);
        text += n + (text[n] == '\n');
    }
    end_example(p);
    p->gap = true;
}

/* ---- options ---- */

/* Prints what --help prints, as a sentence. */
static void put_help(FILE *to, const struct option_row *row)
{
    put(to, row->help);
    if (row->fallback != NULL) {
        fputs(" (default: ", to);
        put(to, row->fallback);
        fputc(')', to);
    }
    fputs(row->type == OPTION_LIST ? "; repeatable.\n" : ".\n", to);
}

static void put_row(FILE *to, const struct option_row *row)
{
    char flag[OPTION_FLAG_TEXT];

    fputs(".TP\n\\fB", to);
    put(to, option_flag(row->name, flag, sizeof flag));
    fputs("\\fR", to);
    if (row->value != NULL) {
        fputs(" \\fI", to);
        put(to, row->value);
        fputs("\\fR", to);
    }
    fputc('\n', to);
    put_help(to, row);
}

static void put_rows(FILE *to, const struct option_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        put_row(to, &rows[i]);
    }
}

/* Prints a variable for each option whose default is one: "(default: $NAME,
 * or ...)". */
static void put_defaults(FILE *to, const struct option_row *rows, size_t n,
                         bool *begun)
{
    for (size_t i = 0; i < n; i++) {
        const char *at = strstr(rows[i].help, "(default: $");
        char flag[OPTION_FLAG_TEXT];
        size_t length;

        if (at == NULL) {
            continue;
        }
        at += strlen("(default: $");
        length = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
        fprintf(to, "%s.TP\n\\fB%.*s\\fR\nDefault of ",
                *begun ? "" : ".SH ENVIRONMENT\n", (int)length, at);
        put(to, option_flag(rows[i].name, flag, sizeof flag));
        fputs(".\n", to);
        *begun = true;
    }
}

/* ---- the page of a program ---- */

static void put_header(FILE *to, const char *name, unsigned section)
{
    fputs(".\\\" Generated from the table of options.\n.TH ", to);
    put_upper(to, name);
    fprintf(to, " %u %s \"sluice %s\" \"sluice\"\n", section, MANUAL_DATE,
            SLUICE_VERSION);
}

/* Prints the lines of "usage: ..." and returns the text after them. */
static const char *put_synopsis(FILE *to, const struct option_program *p)
{
    const char *line = p->usage + strlen("usage: ");
    size_t name = strlen(p->name);

    fputs(".SH SYNOPSIS\n.nf\n", to);
    while (*line != '\n') {
        size_t n = strcspn(line, "\n");

        fputs("\\fB", to);
        put_n(to, line, name);
        fputs("\\fR", to);
        put_n(to, line + name, n - name);
        fputc('\n', to);
        line += n + 1;
        line += strspn(line, " ");
    }
    fputs(".fi\n", to);
    return line + 1;
}

static void put_verb(FILE *to, const struct option_verb *v)
{
    struct prose prose = {.to = to, .begun = true, .gap = true};

    fputs(".SS \"", to);
    put(to, v->name);
    if (v->operands[0] != '\0') {
        fputc(' ', to);
        put(to, v->operands);
    }
    fputs("\"\n", to);
    put(to, v->summary);
    fputs(".\n", to);
    if (v->more != NULL) {
        put_text(&prose, v->more);
    }
    put_rows(to, v->rows, v->n_rows);
}

static void put_environment(FILE *to, const struct option_program *p)
{
    char variable[OPTION_FLAG_TEXT * 2];
    bool begun = false;

    if (p->role != NULL) {
        fputs(".SH ENVIRONMENT\n.TP\n\\fB", to);
        put(to, option_env_name(p->role, "config", variable, sizeof variable));
        fputs("\\fR\nDefault of \\-\\-config.\n.TP\n\\fB", to);
        put(to, option_env_name(p->role, "name", variable, sizeof variable));
        fputs("\\fR and so on\nOptions, see \\fBsluice.conf\\fR(5).\n", to);
        fprintf(to, ".SH FILES\n.TP\n\\fI%s/%s.conf\\fR\n", FILE_BASE, p->role);
        fputs("Options, see \\fBsluice.conf\\fR(5).\n", to);
        return;
    }
    put_defaults(to, p->rows, p->n_rows, &begun);
    for (size_t i = 0; i < p->n_verbs; i++) {
        put_defaults(to, p->verbs[i].rows, p->verbs[i].n_rows, &begun);
    }
}

/* Prints the pages of all programs but the one of this page. */
static void put_see_also(FILE *to, const char *but)
{
    static const struct {
        const char *name;
        unsigned section;
    } pages[] = {{"sluice", 1},         {"sluice-load", 1},
                 {"sluicectl", 1},      {"sluice.conf", 5},
                 {"sluice-gateway", 8}, {"sluice-router", 8},
                 {"sluice-worker", 8}};
    bool first = true;

    fputs(".SH SEE ALSO\n", to);
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        if (strcmp(pages[i].name, but) != 0) {
            fputs(first ? "\\fB" : ",\n\\fB", to);
            put(to, pages[i].name);
            fprintf(to, "\\fR(%u)", pages[i].section);
            first = false;
        }
    }
    fputc('\n', to);
}

void option_manual(FILE *to, const struct option_program *p)
{
    struct prose prose = {.to = to, .heads = true};
    const char *description;

    put_header(to, p->name, p->section);
    fputs(".SH NAME\n", to);
    put(to, p->name);
    fputs(" \\- ", to);
    put(to, p->summary);
    fputc('\n', to);
    description = put_synopsis(to, p);
    fputs(".SH DESCRIPTION\n", to);
    put_text(&prose, description);
    fputs(".SH OPTIONS\n", to);
    put_rows(to, p->rows, p->n_rows);
    if (p->n_verbs > 0) {
        fputs(".SH VERBS\n", to);
    }
    for (size_t i = 0; i < p->n_verbs; i++) {
        put_verb(to, &p->verbs[i]);
    }
    prose = (struct prose){.to = to, .begun = true, .heads = true};
    put_text(&prose, p->more);
    put_environment(to, p);
    put_see_also(to, p->name);
}

/* ---- sluice.conf(5) ---- */

static const char conf_text[] =
    "Each daemon takes an option from the last of these sources that has it:\n"
    "\n"
    "  1. the default of the option\n"
    "  2. the configuration file\n"
    "  3. the environment\n"
    "  4. the command line\n"
    "\n"
    "The items of a repeatable option replace those of an earlier source.\n"
    "\n"
    "The option --print-config of a daemon prints each option with its value "
    "and its source, as a configuration file.  Daemons read the file at the "
    "start only: restart them after a change.\n";

static const char conf_files[] =
    "The option --config names another file.  Without that option, the "
    "variable SLUICE_ROUTER_CONFIG, SLUICE_GATEWAY_CONFIG or "
    "SLUICE_WORKER_CONFIG does.  The name none stands for no file.  The "
    "default file may be missing; a file that is named must exist.\n";

static const char conf_format[] =
    "One option a line, with the name of the command line without dashes in "
    "front:\n"
    "\n"
    "  # a comment\n"
    "  max-rows = 64      # a comment after a blank\n"
    "  pin = yes          # a flag: yes or no, true or false, on or off\n"
    "  name = \"a worker\"  # quotes keep blanks and #\n"
    "\n"
    "In quotes, \\\" \\\\ \\n and \\t stand for a quote, a backslash, a line "
    "feed and a tab.  Outside quotes, each character stands for itself.  A "
    "repeatable option has one line for each item.  Any other option may be "
    "set once.  Unknown names are errors, and so are options that make the "
    "program print something and exit.\n"
    "\n"
    "The file is UTF-8.  Lines end in LF or CR LF.\n";

static const char conf_environment[] =
    "The variable of an option is SLUICE_, the role of the daemon, and the "
    "name of the option, in upper case and with underscores: "
    "SLUICE_ROUTER_MAX_REQUESTS, SLUICE_GATEWAY_LISTEN, SLUICE_WORKER_MODEL.  "
    "The items of a repeatable option are separated by semicolons.  An empty "
    "variable counts as unset.\n"
    "\n"
    "A variable whose name is near that of an option is an error.  Other "
    "unknown variables are ignored, with a line in the log.  Variables of the "
    "form that Kubernetes sets for a service, such as "
    "SLUICE_ROUTER_SERVICE_HOST, are ignored without one.\n";

static void put_section(FILE *to, const char *title, const char *text)
{
    struct prose prose = {.to = to};

    fprintf(to, ".SH %s\n", title);
    put_text(&prose, text);
}

void option_manual_conf_head(FILE *to, const struct option_program *p)
{
    (void)p;
    put_header(to, "sluice.conf", 5);
    fputs(".SH NAME\nsluice.conf \\- configuration of the daemons of sluice\n"
          ".SH SYNOPSIS\n.nf\n",
          to);
    fputs("\\fI" FILE_BASE "/router.conf\\fR\n"
          "\\fI" FILE_BASE "/gateway.conf\\fR\n"
          "\\fI" FILE_BASE "/worker.conf\\fR\n"
          ".fi\n",
          to);
    put_section(to, "DESCRIPTION", conf_text);
    put_section(to, "FILES", conf_files);
    put_section(to, "FORMAT", conf_format);
    fprintf(to,
            ".PP\nA line has at most %d bytes, a file at most %d, a repeatable "
            "option at most %d items.\n",
            OPTION_LINE_BYTES_MAX, OPTION_FILE_BYTES_MAX, OPTION_LIST_MAX);
    put_section(to, "ENVIRONMENT", conf_environment);
}

void option_manual_conf_tail(FILE *to, const struct option_program *p)
{
    (void)p;
    put_see_also(to, "sluice.conf");
}

void option_manual_conf(FILE *to, const struct option_program *p)
{
    fputs(".SH OPTIONS OF ", to);
    put_upper(to, p->name);
    fputc('\n', to);
    for (size_t i = 0; i < p->n_rows; i++) {
        const struct option_row *row = &p->rows[i];
        char name[OPTION_FLAG_TEXT];

        if (option_is_command(row) || strcmp(row->name, "config") == 0) {
            continue;
        }
        fputs(".TP\n\\fB", to);
        put(to, option_name(row->name, name, sizeof name));
        fputs("\\fR = \\fI", to);
        put(to, row->value != NULL ? row->value : "yes");
        fputs("\\fR\n", to);
        put_help(to, row);
    }
}
