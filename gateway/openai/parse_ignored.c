/* Fields that the server ignores.  Clients move faster than a list of names, so
 * a field without a rule does not break a request; the answer names it. */
#include <stdio.h>
#include <string.h>

#include "common/base/quote.h"
#include "gateway/openai/parse.h"

/* OpenAI's sentence; clients match on it. */
static bool refuse_unknown(const struct field *f, const char *name)
{
    openai_error_set(f->e, 400, name, "unknown_parameter",
                     "unrecognized request argument supplied: %s",
                     quote(name).text);
    return false;
}

/* Names come from outside and go into a header: any other byte could end its
 * line, or begin a comment of HTTP. */
static void make_plain(char *name)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";

    for (; *name != '\0'; name++) {
        if (strchr(plain, *name) == NULL) {
            *name = '?';
        }
    }
}

static bool is_named(const struct openai_ignored *i, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = i->names; (at = strstr(at, name)) != NULL; at += n) {
        if ((at == i->names || at[-1] == ' ') &&
            (at[n] == ',' || at[n] == '\0')) {
            return true;
        }
    }
    return false;
}

/* A name that does not fit is only counted. */
static void add_name(struct openai_ignored *i, const char *name)
{
    size_t used = strlen(i->names);
    const char *comma = used > 0 ? ", " : "";

    i->n++;
    if (used + strlen(comma) + strlen(name) <= OPENAI_IGNORED_MAX) {
        snprintf(i->names + used, sizeof i->names - used, "%s%s", comma, name);
        i->n_named++;
    }
}

bool parse_ignore(struct parse *p, const struct field *f, const char *kind)
{
    struct openai_ignored *i = &p->r->values.ignored;
    char name[2 * OPENAI_PARAM_BYTES];
    size_t n;

    field_name(f, name);
    if (p->limits.refuse_unknown) {
        return refuse_unknown(f, name);
    }
    n = strlen(name);
    if (kind != NULL) {
        snprintf(name + n, OPENAI_PARAM_BYTES, ".%s", kind);
    }
    make_plain(name);
    if (name[0] == '\0') { /* {"": 1} */
        strcpy(name, "?");
    }
    /* Sixty tools of a kind are one name. */
    if (!is_named(i, name)) {
        add_name(i, name);
    }
    return true;
}
