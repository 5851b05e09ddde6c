#include "common/base/option_sources.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/option_env.h"
#include "common/base/option_value.h"

#define VARIABLE 96

/* Options that no file and no variable may set: they make the program print
 * something and exit. */
static const char *const commands[] = {
    "help",        "version",      "limits",  "list_metrics",
    "list_routes", "print_config", "new_key", "check"};

bool option_is_command(const struct option_row *row)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(row->name, commands[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- setting a value ---- */

static size_t index_of(const struct option_sources *s,
                       const struct option_row *row)
{
    return (size_t)(row - s->program->rows);
}

/* Stores a value.  The first item of a LIST removes those of earlier
 * sources. */
static enum status set(struct option_sources *s, const struct option_row *row,
                       struct option_origin origin, struct error *e)
{
    struct option_origin *old = &s->origins[index_of(s, row)];

    if (row->type == OPTION_LIST && old->source != origin.source) {
        memset((char *)s->out + row->offset, 0, sizeof(struct option_list));
    }
    *old = origin;
    return option_store(row, s->out, origin.text, e);
}

static enum status set_word(void *arg, const struct option_row *row,
                            const char *text, struct error *e)
{
    return set(arg, row,
               (struct option_origin){OPTION_FROM_COMMAND_LINE, 0, text}, e);
}

static enum status reset(struct option_sources *s, struct error *e)
{
    enum status st = ST_OK;

    for (size_t i = 0; st == ST_OK && i < s->program->n_rows; i++) {
        const struct option_row *row = &s->program->rows[i];

        s->origins[i] = (struct option_origin){.text = row->fallback};
        st = option_reset(row, s->out, e);
    }
    return st;
}

/* ---- the file ---- */

static enum status refuse_command(const char *name, struct error *e)
{
    return error_set(e, ST_INVALID_ARGUMENT,
                     "%s: only the command line may have this option; remove "
                     "it",
                     name);
}

static enum status refuse_unknown(const struct option_sources *s,
                                  const char *name, struct error *e)
{
    const char *near = option_nearest(s->program->rows, s->program->n_rows,
                                      name, strlen(name));
    char text[OPTION_FLAG_TEXT];

    if (near == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: unknown option; %s --help lists all", name,
                         s->program->name);
    }
    return error_set(e, ST_INVALID_ARGUMENT,
                     "%s: unknown option; did you mean %s?", name,
                     option_name(near, text, sizeof text));
}

static enum status set_entry(struct option_sources *s,
                             const struct option_entry *entry, struct error *e)
{
    const struct option_row *row = option_find(
        s->program->rows, s->program->n_rows, entry->name, strlen(entry->name));
    const struct option_origin *old;
    enum status st;

    if (row == NULL) {
        return refuse_unknown(s, entry->name, e);
    }
    if (option_is_command(row) || strcmp(row->name, "config") == 0) {
        return refuse_command(entry->name, e);
    }
    /* The last line would win, but a reader may look at the first one only. */
    old = &s->origins[index_of(s, row)];
    if (row->type != OPTION_LIST && old->source == OPTION_FROM_FILE) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: set before, in line %u; remove one of the lines",
                         entry->name, old->line);
    }
    st = set(
        s, row,
        (struct option_origin){OPTION_FROM_FILE, entry->line, entry->value}, e);
    if (st == ST_OK) {
        return ST_OK;
    }
    return row->type == OPTION_LIST
               ? error_wrap(e, "%s", entry->name)
               : error_wrap(e, "%s = %s", entry->name, entry->value);
}

/* Reads the file, unless it is the default one and missing. */
static enum status read_file(struct option_sources *s, const char *named_by,
                             struct error *e)
{
    enum status st = option_file_read(&s->file, s->path, e);

    /* Without permission to read it the default file is an error: options of
     * the machine would be left out silently. */
    if (st == ST_NOT_FOUND && named_by == NULL) {
        return ST_OK;
    }
    s->has_file = st == ST_OK;
    if ((st == ST_NOT_FOUND || st == ST_UNAVAILABLE) && named_by != NULL) {
        return error_wrap(e, "%s", named_by);
    }
    return st;
}

static enum status take_file(struct option_sources *s, const char *named,
                             struct error *e)
{
    const struct option_program *p = s->program;
    char variable[VARIABLE];
    const char *named_by = "--config";
    enum status st;

    if (named == NULL) {
        named = getenv(
            option_env_name(p->role, "config", variable, sizeof variable));
        named_by = variable;
    }
    if (named != NULL && strcmp(named, "none") == 0) {
        snprintf(s->path, sizeof s->path, "none");
        return ST_OK;
    }
    if (named != NULL && named[0] != '\0') {
        snprintf(s->path, sizeof s->path, "%s", named);
    } else {
        snprintf(s->path, sizeof s->path, SLUICE_CONFIG_DIR "/%s.conf",
                 p->role);
        named_by = NULL;
    }
    st = read_file(s, named_by, e);
    for (size_t i = 0; st == ST_OK && i < s->file.n; i++) {
        st = set_entry(s, &s->file.entries[i], e);
        st = st == ST_OK
                 ? st
                 : error_wrap(e, "%s:%u", s->path, s->file.entries[i].line);
    }
    return st;
}

/* ---- the environment ---- */

/* Sets the items of "a;b".  Blanks around an item and empty items are
 * dropped, so that a long value may be folded.
 *
 * Not a comma: sizes and layers use it (a=40MiB,b=80MiB).  Not a line feed:
 * systemd's EnvironmentFile= and .env files have one variable a line. */
static enum status set_items(struct option_sources *s,
                             const struct option_row *row, const char *value,
                             struct error *e)
{
    char **copy = &s->lists[index_of(s, row)], *rest, *item;
    enum status st = ST_OK;

    free(*copy);
    *copy = memory_must(strdup(value));
    rest = *copy; /* strsep() cuts it; the items stay where they are */
    while (st == ST_OK && (item = strsep(&rest, ";")) != NULL) {
        size_t n;

        item += strspn(item, " \t\n");
        n = strlen(item);
        while (n > 0 && strchr(" \t\n", item[n - 1]) != NULL) {
            n--;
        }
        item[n] = '\0';
        if (n > 0) {
            st = set(s, row,
                     (struct option_origin){OPTION_FROM_ENVIRONMENT, 0, item},
                     e);
        }
    }
    return st;
}

static enum status set_variable(struct option_sources *s,
                                const struct option_row *row, const char *value,
                                struct error *e)
{
    char variable[VARIABLE];
    enum status st;

    /* The environment may have a name twice: the first wins, as in getenv().
     * Items of the first list point into s->lists. */
    if (s->origins[index_of(s, row)].source == OPTION_FROM_ENVIRONMENT) {
        return ST_OK;
    }
    option_env_name(s->program->role, row->name, variable, sizeof variable);
    if (row->type == OPTION_LIST) {
        st = set_items(s, row, value, e);
        return st == ST_OK ? st : error_wrap(e, "%s", variable);
    }
    st = set(s, row, (struct option_origin){OPTION_FROM_ENVIRONMENT, 0, value},
             e);
    return st == ST_OK ? st : error_wrap(e, "%s=%s", variable, value);
}

static enum status refuse_variable(const struct option_sources *s,
                                   const char *pair,
                                   const struct option_row *near,
                                   struct error *e)
{
    char variable[VARIABLE];

    return error_set(
        e, ST_INVALID_ARGUMENT,
        "environment variable %.*s: unknown option; did you mean %s?",
        (int)strcspn(pair, "="), pair,
        option_env_name(s->program->role, near->name, variable,
                        sizeof variable));
}

/* A command sets no option: SLUICE_ROUTER_VERSION may be the tag of an image,
 * and must not stop the daemon. */
static enum option_env_kind kind_of(const struct option_env *found)
{
    return found->row != NULL && option_is_command(found->row)
               ? OPTION_ENV_UNKNOWN
               : found->kind;
}

static enum status take_variable(struct option_sources *s, const char *pair,
                                 struct error *e)
{
    const struct option_program *p = s->program;
    struct option_env found =
        option_env_match(p->role, p->rows, p->n_rows, pair);

    switch (kind_of(&found)) {
    case OPTION_ENV_OPTION:
        return set_variable(s, found.row, found.value, e);
    case OPTION_ENV_NEAR:
        return refuse_variable(s, pair, found.row, e);
    case OPTION_ENV_UNKNOWN:
        if (s->n_unknown < OPTION_LIST_MAX) {
            s->unknown[s->n_unknown++] = pair;
        }
        return ST_OK;
    case OPTION_ENV_OTHER:
        break;
    }
    return ST_OK;
}

/* Looks at each variable instead of asking for each option with getenv(), to
 * find mistyped names. */
static enum status take_environment(struct option_sources *s, struct error *e)
{
    enum status st = ST_OK;

    for (char **pair = environ; st == ST_OK && *pair != NULL; pair++) {
        st = take_variable(s, *pair, e);
    }
    return st;
}

/* ---- the command line ---- */

/* Returns whether a row is set that prints text which no other option
 * changes. */
static bool only_prints(const struct option_sources *s)
{
    for (size_t i = 0; i < s->program->n_rows; i++) {
        const struct option_row *row = &s->program->rows[i];
        const char *field = (const char *)s->out + row->offset;

        if (!option_is_command(row) || strcmp(row->name, "check") == 0 ||
            strcmp(row->name, "print_config") == 0) {
            continue;
        }
        if (row->type == OPTION_FLAG ? *(const bool *)field
                                     : *(const char *const *)field != NULL) {
            return true;
        }
    }
    return false;
}

static const char *config_of(const struct option_sources *s)
{
    const struct option_program *p = s->program;
    const struct option_row *row =
        option_find(p->rows, p->n_rows, "config", strlen("config"));

    assert(row != NULL);
    return *(const char *const *)((const char *)s->out + row->offset);
}

/* Takes all sources in order.  named is the value of --config, or NULL. */
static enum status take_all(struct option_sources *s, const char *named,
                            int argc, char **argv, struct error *e)
{
    struct option_sink sink = {set_word, s};
    struct option_words words = {.argc = argc, .argv = argv};
    enum status st = reset(s, e);

    st = st == ST_OK ? take_file(s, named, e) : st;
    st = st == ST_OK ? take_environment(s, e) : st;
    st = st == ST_OK ? option_scan(s->program->rows, s->program->n_rows, &sink,
                                   &words, e)
                     : st;
    /* The first pass has checked that an operand is allowed. */
    return st == ST_OK && words.n == 1
               ? set_word(s,
                          option_find(s->program->rows, s->program->n_rows,
                                      s->program->operand,
                                      strlen(s->program->operand)),
                          words.argv[1], e)
               : st;
}

enum status option_sources_load(struct option_sources *s,
                                const struct option_program *program, void *out,
                                int argc, char **argv, struct error *e)
{
    size_t size = (size_t)argc * sizeof *argv;
    char **copy = calloc((size_t)argc + 1, sizeof *copy);
    enum status st;

    assert(program->n_rows <= OPTION_ROWS_MAX && program->role != NULL);
    *s = (struct option_sources){.program = program, .out = out};
    if (copy == NULL) {
        (void)memory_must(NULL);
    }
    /* The first pass finds --config and mistakes.  Parsing moves words. */
    memcpy(copy, argv, size);
    st = option_parse_operand(program->rows, program->n_rows, program->operand,
                              out, argc, copy, e);
    if (st == ST_OK && !only_prints(s)) {
        memcpy(copy, argv, size);
        st = take_all(s, config_of(s), argc, copy, e);
    }
    free(copy);
    return st;
}

void option_sources_log(const struct option_sources *s)
{
    unsigned n = 0;

    for (size_t i = 0; i < s->program->n_rows; i++) {
        n += s->origins[i].source == OPTION_FROM_ENVIRONMENT &&
             strcmp(s->program->rows[i].name, "config") != 0;
    }
    if (s->has_file || n > 0) {
        log_info("configured", "file=\"%s\" lines=%zu variables=%u",
                 s->has_file ? s->path : "none", s->file.n, n);
    }
    for (unsigned i = 0; i < s->n_unknown; i++) {
        log_warn("variable-unknown", "name=\"%.*s\" why=\"sets no option\"",
                 (int)strcspn(s->unknown[i], "="), s->unknown[i]);
    }
}

void option_sources_fini(struct option_sources *s)
{
    for (size_t i = 0; i < OPTION_ROWS_MAX; i++) {
        free(s->lists[i]);
        s->lists[i] = NULL;
    }
    option_file_fini(&s->file);
}
