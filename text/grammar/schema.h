/* schema.h - JSON Schema to the rules of a machine.
 *
 * Drafts 4 to 2020-12.  A rule stands for a conjunction: schemas that hold at
 * the same time, as allOf and $ref beside other keywords make them.  anyOf
 * divides a rule.  oneOf becomes anyOf where branches exclude one another or
 * can be made to, by negation; so do if, dependencies and not.  A keyword that
 * cannot be honoured is refused with its name and JSON pointer.
 *
 * Three spellings of valid JSON are never allowed, as no text needs them:
 * escapes of characters that a restricted string or a name may hold as they
 * are, exponents of a restricted number, and fractions of an integer.
 *
 * Threading: one thread.  Memory: in the machine's budget, and the parsed
 * schema until the call ends.  Limits: grammar_limits.h. */
#ifndef TEXT_GRAMMAR_SCHEMA_H
#define TEXT_GRAMMAR_SCHEMA_H

#include <jansson.h>

#include "text/grammar/machine.h"

/* Makes the rules of a schema and finishes the machine.  Returns
 * ST_INVALID_ARGUMENT: no JSON Schema, or no text can match;
 * ST_UNIMPLEMENTED: a keyword that cannot be honoured; ST_RESOURCE_EXHAUSTED: a
 * limit.  The machine has been initialised. */
MUST_CHECK enum status schema_compile(struct machine *m, const json_t *schema,
                                      struct error *e);

enum schema_support {
    SCHEMA_ENFORCED,
    SCHEMA_DECIDED, /* where it can be decided, else refused */
    SCHEMA_REFUSED,
    SCHEMA_IGNORED, /* an annotation */
};

struct schema_keyword {
    const char *name;
    enum schema_support support;
    const char *note;
};

/* The table of keywords, for documents.  Other names are annotations. */
extern const struct schema_keyword schema_keywords[];
extern const size_t schema_keywords_n;

#endif
