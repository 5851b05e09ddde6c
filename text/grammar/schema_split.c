/* schema_split.c - anyOf, oneOf, not, if and dependencies.
 *
 * Each is replaced by schemas without it, until only anyOf is left, which
 * divides a rule.  New schemas share the parts of the old ones, so that
 * conjunctions of equal parts are found again.
 *
 * A schema fails if one of its keywords fails, so its complement is anyOf the
 * complements of the keywords. */
#include <string.h>

#include "text/grammar/formats.h"
#include "text/grammar/grammar_limits.h"
#include "text/grammar/schema.h"
#include "text/grammar/schema_parts.h"

static json_t *shared(const json_t *j)
{
    return json_incref((json_t *)(uintptr_t)j);
}

/* ---- negation ---- */

static json_t *negate_type(struct schema *s, const json_t *schema,
                           const json_t *v)
{
    static const struct {
        const char *name;
        unsigned types;
    } names[] = {{"null", TYPE_NULL},     {"boolean", TYPE_BOOLEAN},
                 {"number", TYPE_NUMBER}, {"string", TYPE_STRING},
                 {"array", TYPE_ARRAY},   {"object", TYPE_OBJECT}};
    unsigned types = schema_types(s, schema, v);
    json_t *left = json_array();

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if ((types & names[i].types) == 0) {
            json_array_append_new(left, json_string(names[i].name));
        } else if ((types & TYPE_NUMBER) == TYPE_INTEGER &&
                   names[i].types == TYPE_NUMBER) {
            json_array_append_new(left, json_string(TYPE_NAME_FRACTION));
        }
    }
    return json_pack("{s:o}", "type", left);
}

/* Some name is absent. */
static json_t *negate_required(const json_t *v)
{
    json_t *any = json_array();
    const json_t *name;
    size_t i;

    json_array_foreach(v, i, name)
    {
        json_array_append_new(
            any,
            json_pack("{s:s,s:{s:b}}", "type", "object", "properties",
                      json_is_string(name) ? json_string_value(name) : "", 0));
    }
    return json_pack("{s:o}", "anyOf", any);
}

/* Some member is there and refuses its schema. */
static json_t *negate_properties(const json_t *v)
{
    json_t *any = json_array(), *schema;
    const char *name;

    json_object_foreach((json_t *)(uintptr_t)v, name, schema)
    {
        json_array_append_new(any,
                              json_pack("{s:s,s:[s],s:{s:{s:O}}}", "type",
                                        "object", "required", name,
                                        "properties", name, "not", schema));
    }
    return json_pack("{s:o}", "anyOf", any);
}

/* Negates each of a list: the complement of anyOf is allOf, and vice versa. */
static json_t *negate_list(const json_t *v, const char *to)
{
    json_t *all = json_array();
    const json_t *schema;
    size_t i;

    json_array_foreach(v, i, schema)
    {
        json_array_append_new(all, json_pack("{s:o}", "not", shared(schema)));
    }
    return json_pack("{s:o}", to, all);
}

/* Bounds turn into the opposite ones, for values of their type. */
static json_t *negate_bound(const char *keyword, const json_t *v)
{
    static const struct {
        const char *keyword, *type, *to;
        int more;
    } rows[] = {{"minimum", "number", "exclusiveMaximum", 0},
                {"maximum", "number", "exclusiveMinimum", 0},
                {"exclusiveMinimum", "number", "maximum", 0},
                {"exclusiveMaximum", "number", "minimum", 0},
                {"minLength", "string", "maxLength", -1},
                {"maxLength", "string", "minLength", 1},
                {"minItems", "array", "maxItems", -1},
                {"maxItems", "array", "minItems", 1},
                {"minProperties", "object", "maxProperties", -1},
                {"maxProperties", "object", "minProperties", 1}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].keyword, keyword) != 0 || !json_is_number(v)) {
            continue;
        }
        if (rows[i].more == 0) {
            return json_pack("{s:s,s:O}", "type", rows[i].type, rows[i].to, v);
        }
        json_int_t n = (json_int_t)json_number_value(v) + rows[i].more;

        return n < 0 ? json_false()
                     : json_pack("{s:s,s:I}", "type", rows[i].type, rows[i].to,
                                 n);
    }
    return NULL;
}

static json_t *negate_format(const json_t *v)
{
    const struct format_row *row = format_find(json_string_value(v));

    if (row == NULL) {
        return json_false(); /* an annotation never fails */
    }
    return row->pattern == NULL ? NULL
                                : json_pack("{s:s,s:s}", "type", "string",
                                            KEYWORD_NOT_PATTERN, row->pattern);
}

/* Returns the complement of one keyword: json_false() if the keyword never
 * fails by itself, and NULL if it cannot be negated. */
static json_t *negate_keyword(struct schema *s, const json_t *schema,
                              const char *keyword, const json_t *v)
{
    if (strcmp(keyword, "type") == 0) {
        return negate_type(s, schema, v);
    }
    if (strcmp(keyword, "enum") == 0) {
        return json_pack("{s:O}", KEYWORD_NOT_ENUM, v);
    }
    if (strcmp(keyword, "const") == 0) {
        return json_pack("{s:[O]}", KEYWORD_NOT_ENUM, v);
    }
    if (strcmp(keyword, "required") == 0) {
        return negate_required(v);
    }
    if (strcmp(keyword, "properties") == 0) {
        return negate_properties(v);
    }
    if (strcmp(keyword, "anyOf") == 0) {
        return negate_list(v, "allOf");
    }
    if (strcmp(keyword, "allOf") == 0) {
        return negate_list(v, "anyOf");
    }
    if (strcmp(keyword, "not") == 0) {
        return shared(v);
    }
    if (strcmp(keyword, "pattern") == 0) {
        return json_pack("{s:s,s:O}", "type", "string", KEYWORD_NOT_PATTERN, v);
    }
    if (strcmp(keyword, "format") == 0 && json_is_string(v)) {
        return negate_format(v);
    }
    if (strcmp(keyword, KEYWORD_NOT_ENUM) == 0) {
        return json_pack("{s:O}", "enum", v);
    }
    if (strcmp(keyword, KEYWORD_NOT_PATTERN) == 0) {
        return json_pack("{s:s,s:O}", "type", "string", "pattern", v);
    }
    if (json_is_true(v) || (json_is_object(v) && json_object_size(v) == 0)) {
        return json_false(); /* additionalProperties, items: never fail */
    }
    return negate_bound(keyword, v);
}

static bool is_annotation(const char *keyword)
{
    for (size_t i = 0; i < schema_keywords_n; i++) {
        if (strcmp(schema_keywords[i].name, keyword) == 0) {
            return schema_keywords[i].support == SCHEMA_IGNORED;
        }
    }
    return strcmp(keyword, KEYWORD_NOT_ENUM) != 0 &&
           strcmp(keyword, KEYWORD_NOT_PATTERN) != 0;
}

/* Draft 4 has booleans beside the bounds, which cannot be negated alone. */
static bool has_old_bounds(const json_t *schema)
{
    return json_is_boolean(json_object_get(schema, "exclusiveMinimum")) ||
           json_is_boolean(json_object_get(schema, "exclusiveMaximum"));
}

static const json_t *negate_object(struct schema *s, const json_t *schema)
{
    const json_t *ref = json_object_get(schema, "$ref");
    json_t *any = json_array(), *v;
    const char *keyword;

    if (json_is_string(ref)) {
        const json_t *to = schema_resolve(s, schema, json_string_value(ref));

        if (to == NULL || s->depth >= GRAMMAR_DEPTH_MAX) {
            schema_fail(s, ST_RESOURCE_EXHAUSTED, schema, "$ref",
                        "GRAMMAR_DEPTH_MAX is exceeded");
            json_decref(any);
            return NULL;
        }
        json_array_append_new(any, json_pack("{s:O}", "not", to));
    }
    json_object_foreach((json_t *)(uintptr_t)schema, keyword, v)
    {
        json_t *other = NULL;

        if (is_annotation(keyword) || strcmp(keyword, "$ref") == 0 ||
            (ref != NULL && s->ref_alone)) {
            continue;
        }
        if (!has_old_bounds(schema)) {
            other = negate_keyword(s, schema, keyword, v);
        }
        if (other == NULL) {
            schema_fail(s, ST_UNIMPLEMENTED, schema, keyword,
                        "its negation is not supported");
            json_decref(any);
            return NULL;
        }
        json_array_append_new(any, other);
    }
    return schema_keep(s, json_pack("{s:o}", "anyOf", any));
}

/* Returns the schema of all values that `schema` refuses, or NULL and the
 * fault. */
static const json_t *negate(struct schema *s, const json_t *schema)
{
    uint64_t key = (uintptr_t)schema;
    const json_t *made;
    uint32_t i;

    if (json_is_boolean(schema)) {
        return json_is_true(schema) ? json_false() : json_true();
    }
    if (number_map_get(&s->negation, key, &i)) {
        return json_array_get(s->made, i);
    }
    made = negate_object(s, schema);
    if (made != NULL) {
        i = (uint32_t)json_array_size(s->made) - 1;
        number_map_put(&s->negation, &s->m->pool.budget, key, i);
    }
    return made;
}

/* ---- replacement ---- */

/* Returns the rule of c with one more schema, and a keyword of element i done.
 */
static uint32_t with(struct schema *s, const struct schema_conj *c, uint32_t i,
                     uint32_t done, const json_t *more)
{
    struct schema_conj to;
    uint32_t rule;

    schema_conj_copy(s, &to, c);
    if (to.n > i) {
        to.els[i].done |= done;
    }
    schema_conj_add(s, &to, more, 0);
    rule = schema_rule_of(s, &to);
    schema_conj_fini(s, &to);
    return rule;
}

static uint32_t any_of(struct schema *s, const struct schema_conj *c,
                       uint32_t i, uint32_t done, const json_t *branches)
{
    uint32_t e = EXPR_NONE;
    const json_t *b;
    size_t j;

    json_array_foreach(branches, j, b)
    {
        e = expr_or(&s->m->pool, e,
                    expr_call(&s->m->pool, with(s, c, i, done, b)));
    }
    return e;
}

/* ---- oneOf ---- */

/* Returns the types that a schema names, without looking into references. */
static unsigned types_of(struct schema *s, const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type");
    const json_t *values = json_object_get(schema, "enum"), *v;
    const json_t *one = json_object_get(schema, "const");
    unsigned types = TYPE_ANY, of = 0;
    size_t i;

    if (type != NULL) {
        types = schema_types(s, schema, type);
    }
    json_array_foreach(values, i, v)
    {
        of |= schema_type_of(v);
    }
    of |= one != NULL ? schema_type_of(one) : 0;
    return of != 0 ? types & of : types;
}

/* Returns whether no value matches both schemas, with c; false if that cannot
 * be decided.  Faults of the comparison do not count. */
static bool exclude(struct schema *s, const struct schema_conj *c, uint32_t i,
                    const json_t *a, const json_t *b)
{
    struct schema_conj both;
    struct error e, *outer = s->e;
    uint32_t rule;
    bool is;

    if ((types_of(s, a) & types_of(s, b)) == 0) {
        return true;
    }
    if (s->depth >= GRAMMAR_DEPTH_MAX || ++s->n_pairs > GRAMMAR_PAIRS_MAX) {
        schema_fail(s, ST_RESOURCE_EXHAUSTED, c->els[i].s, "oneOf",
                    "GRAMMAR_PAIRS_MAX or GRAMMAR_DEPTH_MAX is exceeded");
        return false;
    }
    s->e = &e;
    s->depth++;
    schema_conj_copy(s, &both, c);
    both.els[i].done |= DONE_ONE;
    schema_conj_add(s, &both, a, 0);
    schema_conj_add(s, &both, b, 0);
    rule = schema_rule_of(s, &both);
    schema_conj_fini(s, &both);
    schema_make_rules(s);
    is = s->st == ST_OK && !machine_rule_live(s->m, rule);
    s->depth--;
    s->e = outer;
    if (s->st == ST_UNIMPLEMENTED) {
        s->hidden = s->hidden.code == ST_OK ? e : s->hidden;
        s->st = ST_OK;
    } else if (s->st != ST_OK && outer != NULL) {
        *outer = e;
    }
    return is;
}

/* Returns branch j and the negations of those that it may share values with. */
static const json_t *only(struct schema *s, const struct schema_conj *c,
                          uint32_t i, const json_t *branches, size_t j)
{
    const json_t *mine = json_array_get(branches, j), *other;
    json_t *all = json_array();
    size_t k;

    json_array_append_new(all, shared(mine));
    json_array_foreach(branches, k, other)
    {
        if (k == j || exclude(s, c, i, mine, other)) {
            continue;
        }
        json_array_append_new(all, json_pack("{s:o}", "not", shared(other)));
    }
    return schema_keep(s, json_pack("{s:o}", "allOf", all));
}

static uint32_t one_of(struct schema *s, const struct schema_conj *c,
                       uint32_t i, const json_t *branches)
{
    json_t *any = json_array();
    uint32_t e;

    for (size_t j = 0; j < json_array_size(branches) && s->st == ST_OK; j++) {
        json_array_append_new(any, shared(only(s, c, i, branches, j)));
    }
    e = any_of(s, c, i, DONE_ONE, schema_keep(s, any));
    return e;
}

/* ---- the others ---- */

/* Either the condition and then, or its negation and else. */
static const json_t *conditional(struct schema *s, const json_t *schema)
{
    const json_t *test = json_object_get(schema, "if");
    const json_t *then = json_object_get(schema, "then");
    const json_t *otherwise = json_object_get(schema, "else");

    return schema_keep(
        s, json_pack("[{s:[O,O]},{s:[{s:O},O]}]", "allOf", test,
                     then != NULL ? then : json_true(), "allOf", "not", test,
                     otherwise != NULL ? otherwise : json_true()));
}

/* Returns what a member's presence demands: either it is absent, or its name is
 * required and the dependency holds. */
static json_t *dependent(const char *name, const json_t *demand)
{
    json_t *absent = json_pack("{s:{s:b}}", "properties", name, 0);
    json_t *present =
        json_pack("{s:s,s:[s]}", "type", "object", "required", name);
    json_t *all = json_array();
    const json_t *v;
    size_t i;

    json_array_append_new(all, present);
    if (json_is_array(demand)) {
        json_array_foreach(demand, i, v)
        {
            json_array_append(json_object_get(present, "required"),
                              (json_t *)(uintptr_t)v);
        }
    } else {
        json_array_append_new(all, shared(demand));
    }
    return json_pack("{s:[o,{s:o}]}", "anyOf", absent, "allOf", all);
}

static const json_t *dependencies(struct schema *s, const json_t *schema)
{
    static const char *const keys[] = {"dependencies", "dependentRequired",
                                       "dependentSchemas"};
    json_t *all = json_array(), *demand;
    const char *name;

    for (size_t i = 0; i < 3; i++) {
        json_object_foreach(json_object_get(schema, keys[i]), name, demand)
        {
            json_array_append_new(all, dependent(name, demand));
        }
    }
    return schema_keep(s, json_pack("{s:o}", "allOf", all));
}

static bool has_dependencies(const json_t *schema)
{
    return json_object_get(schema, "dependencies") != NULL ||
           json_object_get(schema, "dependentRequired") != NULL ||
           json_object_get(schema, "dependentSchemas") != NULL;
}

/* Replaces a dividing keyword of element i. */
static bool split_el(struct schema *s, const struct schema_conj *c, uint32_t i,
                     uint32_t *body)
{
    struct schema_el el = c->els[i];
    const json_t *not = json_object_get(el.s, "not");
    const json_t *any = json_object_get(el.s, "anyOf");
    const json_t *one = json_object_get(el.s, "oneOf");
    const json_t *more;

    if (not != NULL && (el.done & DONE_NOT) == 0) {
        more = negate(s, not );
        *body = more == NULL
                    ? EXPR_NONE
                    : expr_call(&s->m->pool, with(s, c, i, DONE_NOT, more));
    } else if (has_dependencies(el.s) && (el.done & DONE_DEPENDENT) == 0) {
        *body = expr_call(&s->m->pool,
                          with(s, c, i, DONE_DEPENDENT, dependencies(s, el.s)));
    } else if (json_is_array(any) && (el.done & DONE_ANY) == 0) {
        *body = any_of(s, c, i, DONE_ANY, any);
    } else if (json_object_get(el.s, "if") != NULL &&
               (el.done & DONE_IF) == 0) {
        *body = any_of(s, c, i, DONE_IF, conditional(s, el.s));
    } else if (json_is_array(one) && (el.done & DONE_ONE) == 0) {
        *body = one_of(s, c, i, one);
    } else {
        return false;
    }
    return true;
}

bool schema_split(struct schema *s, const struct schema_conj *c, uint32_t *body)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (split_el(s, c, i, body)) {
            return true;
        }
    }
    return false;
}
