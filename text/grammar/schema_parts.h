/* schema_parts.h - Declarations that the files of the JSON Schema compiler
 * share.
 *
 * Threading: one thread.  Memory: see schema.h. */
#ifndef TEXT_GRAMMAR_SCHEMA_PARTS_H
#define TEXT_GRAMMAR_SCHEMA_PARTS_H

#include <jansson.h>

#include "text/grammar/machine.h"

/* Keywords of one schema of a conjunction that have been replaced by others. */
enum schema_done {
    DONE_REF = 1,
    DONE_ALL = 2,
    DONE_ANY = 4,
    DONE_ONE = 8,
    DONE_NOT = 16,
    DONE_IF = 32,
    DONE_DEPENDENT = 64,
};

struct schema_el {
    const json_t *s;
    uint32_t done;
};

/* Schemas that hold at the same time, in the order of their appearance. */
struct schema_conj {
    struct schema_el *els;
    uint32_t n, cap;
    bool never; /* one of them is false */
};

/* A rule to make: its conjunction is els[first..first + n). */
struct schema_rule {
    uint32_t first, n, rule;
};

struct schema {
    struct machine *m;
    const json_t *root;
    struct error *e;
    enum status st;
    bool ref_alone; /* keywords beside $ref do not count: drafts 4 to 7 */
    struct schema_el *els;
    uint32_t n_els, cap_els;
    struct schema_rule *rules; /* those before `done` are made */
    uint32_t n_rules, cap_rules, done;
    struct intern table;
    json_t *made;                 /* schemas that stand for negations etc. */
    struct number_map negation;   /* address -> index in `made` */
    struct number_map name_rules; /* text + 1 -> rule of names that match */
    uint32_t depth;               /* comparisons of oneOf inside one another */
    uint32_t n_pairs;
    struct error hidden; /* the first fault of a comparison */
    uint32_t never;      /* a rule that matches nothing; UINT32_MAX: not yet */
};

/* Keywords of schemas that negation makes; no document may have them. */
#define KEYWORD_MADE        '\001'
#define KEYWORD_NOT_ENUM    "\001enum"
#define KEYWORD_NOT_PATTERN "\001pattern"
#define TYPE_NAME_FRACTION  "\001fraction"

/* ---- schema.c: conjunctions and rules ---- */

void schema_conj_add(struct schema *s, struct schema_conj *c,
                     const json_t *schema, uint32_t done);
void schema_conj_copy(struct schema *s, struct schema_conj *to,
                      const struct schema_conj *from);
void schema_conj_fini(struct schema *s, struct schema_conj *c);

/* Returns the rule of a conjunction, which may be made later. */
uint32_t schema_rule_of(struct schema *s, struct schema_conj *c);

/* Makes the rules that are still to be made. */
void schema_make_rules(struct schema *s);

/* Sets the error: st, the keyword and its place, and a reason. */
void schema_fail(struct schema *s, enum status st, const json_t *schema,
                 const char *keyword, const char *why);

/* Returns what a $ref of schema `at` refers to, or NULL and the fault. */
const json_t *schema_resolve(struct schema *s, const json_t *at,
                             const char *ref);

/* Keeps a new schema until the end, and returns it; takes j. */
const json_t *schema_keep(struct schema *s, json_t *j);

/* ---- schema_split.c: keywords that divide a rule ---- */

/* Replaces the first such keyword.  Returns false if there is none; otherwise
 * sets *body. */
bool schema_split(struct schema *s, const struct schema_conj *c,
                  uint32_t *body);

/* ---- schema_value.c: the types of a conjunction ---- */

#define TYPE_NULL     1u
#define TYPE_TRUE     2u
#define TYPE_FALSE    4u
#define TYPE_INTEGER  8u
#define TYPE_FRACTION 16u
#define TYPE_STRING   32u
#define TYPE_ARRAY    64u
#define TYPE_OBJECT   128u
#define TYPE_NUMBER   (TYPE_INTEGER | TYPE_FRACTION)
#define TYPE_BOOLEAN  (TYPE_TRUE | TYPE_FALSE)
#define TYPE_ANY      255u

/* The values that all schemas of a conjunction allow, type by type. */
struct schema_shape {
    unsigned types;
    uint32_t text; /* a string's, without quotes; EXPR_ALL: any */
    uint32_t least_chars, most_chars;
    uint32_t number; /* EXPR_ALL: any */
    uint32_t least_items, most_items;
    uint32_t least_members, most_members;
    const json_t *values; /* enum; NULL: none */
    const struct schema_el *values_el;
    const struct schema_el *unique, *members_el;
    bool structural; /* has keywords of arrays or objects */
};

uint32_t schema_value(struct schema *s, const struct schema_conj *c);

/* Sets the shape of a conjunction without dividing keywords. */
void schema_shape_of(struct schema *s, const struct schema_conj *c,
                     struct schema_shape *shape);

/* Returns the expression of a string's text without quotes. */
uint32_t schema_text(struct schema *s, const struct schema_shape *shape);

/* Returns the types that a "type" names; 0: fault. */
unsigned schema_types(struct schema *s, const json_t *schema,
                      const json_t *type);

/* ---- schema_values.c: enum and const ---- */

/* Returns the values of the shape's enum that the shape allows. */
uint32_t schema_enum(struct schema *s, const struct schema_conj *c,
                     const struct schema_shape *shape);
uint32_t schema_literal(struct schema *s, const json_t *v);
unsigned schema_type_of(const json_t *v);

/* ---- schema_object.c, schema_array.c ---- */

uint32_t schema_object(struct schema *s, const struct schema_conj *c,
                       const struct schema_shape *shape);
uint32_t schema_array(struct schema *s, const struct schema_conj *c,
                      const struct schema_shape *shape);

/* Returns the pattern's expression, EXPR_NONE and the fault set on failure. */
uint32_t schema_pattern(struct schema *s, const json_t *schema,
                        const char *keyword, const char *pattern);

#endif
