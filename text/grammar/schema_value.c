/* schema_value.c - What a conjunction allows, type by type. */
#include <math.h>
#include <string.h>

#include "common/base/minmax.h"
#include "text/grammar/formats.h"
#include "text/grammar/grammar_limits.h"
#include "text/grammar/number_range.h"
#include "text/grammar/regex.h"
#include "text/grammar/schema.h"
#include "text/grammar/schema_parts.h"

const struct schema_keyword schema_keywords[] = {
    {"type", SCHEMA_ENFORCED, "integers are written without a fraction"},
    {"enum", SCHEMA_ENFORCED,
     "arrays and objects only without keywords that "
     "look into them"},
    {"const", SCHEMA_ENFORCED, "as enum"},
    {"properties", SCHEMA_ENFORCED, ""},
    {"required", SCHEMA_ENFORCED, ""},
    {"additionalProperties", SCHEMA_ENFORCED, ""},
    {"patternProperties", SCHEMA_ENFORCED, "up to GRAMMAR_SPLITS_MAX"},
    {"propertyNames", SCHEMA_DECIDED, "if it has keywords of strings only"},
    {"minProperties", SCHEMA_DECIDED,
     "above 1 only if required names suffice or no other names are allowed"},
    {"maxProperties", SCHEMA_ENFORCED, ""},
    {"items", SCHEMA_ENFORCED, "also the list of drafts before 2020-12"},
    {"prefixItems", SCHEMA_ENFORCED, ""},
    {"additionalItems", SCHEMA_ENFORCED, ""},
    {"minItems", SCHEMA_ENFORCED, ""},
    {"maxItems", SCHEMA_ENFORCED, ""},
    {"uniqueItems", SCHEMA_DECIDED, "if there is at most one item"},
    {"minLength", SCHEMA_ENFORCED, ""},
    {"maxLength", SCHEMA_ENFORCED, ""},
    {"pattern", SCHEMA_ENFORCED,
     "without back references, lookbehind and word boundaries"},
    {"format", SCHEMA_ENFORCED, "the formats below; others are annotations"},
    {"minimum", SCHEMA_ENFORCED, "the number is written without an exponent"},
    {"maximum", SCHEMA_ENFORCED, "as minimum"},
    {"exclusiveMinimum", SCHEMA_ENFORCED, "also the boolean of draft 4"},
    {"exclusiveMaximum", SCHEMA_ENFORCED, "also the boolean of draft 4"},
    {"multipleOf", SCHEMA_DECIDED,
     "integers up to NUMBER_MULTIPLE_MAX, and 0.1, 0.01 and so on"},
    {"$ref", SCHEMA_ENFORCED, "inside the schema, recursion included"},
    {"allOf", SCHEMA_ENFORCED, ""},
    {"anyOf", SCHEMA_ENFORCED, ""},
    {"oneOf", SCHEMA_DECIDED,
     "if branches exclude one another or can be "
     "negated"},
    {"not", SCHEMA_DECIDED, "if the schema's keywords can be negated"},
    {"if", SCHEMA_DECIDED, "as not"},
    {"then", SCHEMA_DECIDED, "with if"},
    {"else", SCHEMA_DECIDED, "with if"},
    {"dependencies", SCHEMA_ENFORCED, ""},
    {"dependentRequired", SCHEMA_ENFORCED, ""},
    {"dependentSchemas", SCHEMA_ENFORCED, ""},
    {"contains", SCHEMA_REFUSED, ""},
    {"minContains", SCHEMA_IGNORED, "without contains"},
    {"maxContains", SCHEMA_IGNORED, "without contains"},
    {"unevaluatedProperties", SCHEMA_DECIDED,
     "in a schema without keywords that hold other schemas of the object"},
    {"unevaluatedItems", SCHEMA_REFUSED, ""},
    {"$dynamicRef", SCHEMA_REFUSED, ""},
    {"$recursiveRef", SCHEMA_REFUSED, ""},
    {"extends", SCHEMA_REFUSED, "draft 3"},
    {"disallow", SCHEMA_REFUSED, "draft 3"},
    {"divisibleBy", SCHEMA_REFUSED, "draft 3"},
    {"title", SCHEMA_IGNORED, ""},
    {"description", SCHEMA_IGNORED, ""},
    {"default", SCHEMA_IGNORED, ""},
    {"examples", SCHEMA_IGNORED, ""},
    {"$defs", SCHEMA_IGNORED, "read through $ref"},
    {"definitions", SCHEMA_IGNORED, "read through $ref"},
    {"contentEncoding", SCHEMA_IGNORED, ""},
    {"contentMediaType", SCHEMA_IGNORED, ""},
};
const size_t schema_keywords_n =
    sizeof schema_keywords / sizeof *schema_keywords;

/* ---- readers of keywords ---- */

/* One keyword of a schema while it is read. */
struct reading {
    struct schema *s;
    const struct schema_el *el;
    const char *keyword;
    const json_t *v;
    struct schema_shape *shape;
};

typedef void read_fn(struct reading *r);

static void wrong(struct reading *r, const char *why)
{
    schema_fail(r->s, ST_INVALID_ARGUMENT, r->el->s, r->keyword, why);
}

static unsigned type_named(const char *name)
{
    static const struct {
        const char *name;
        unsigned types;
    } rows[] = {{"null", TYPE_NULL},
                {"boolean", TYPE_BOOLEAN},
                {"integer", TYPE_INTEGER},
                {"number", TYPE_NUMBER},
                {"string", TYPE_STRING},
                {"array", TYPE_ARRAY},
                {"object", TYPE_OBJECT},
                {"any", TYPE_ANY},
                {TYPE_NAME_FRACTION, TYPE_FRACTION}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return rows[i].types;
        }
    }
    return 0;
}

unsigned schema_types(struct schema *s, const json_t *schema,
                      const json_t *type)
{
    unsigned types = 0;
    const json_t *v;
    size_t i;

    if (json_is_string(type)) {
        types = type_named(json_string_value(type));
    }
    json_array_foreach(type, i, v)
    {
        unsigned one = json_is_string(v) ? type_named(json_string_value(v)) : 0;

        if (one == 0) {
            types = 0;
            break;
        }
        types |= one;
    }
    if (types == 0 && !(json_is_array(type) && json_array_size(type) == 0)) {
        schema_fail(s, ST_INVALID_ARGUMENT, schema, "type",
                    "it must name null, boolean, integer, number, string, "
                    "array or object");
    }
    return types;
}

static void read_type(struct reading *r)
{
    r->shape->types &= schema_types(r->s, r->el->s, r->v);
}

static void read_enum(struct reading *r)
{
    json_t *both;
    const json_t *v;
    size_t i;

    if (!json_is_array(r->v)) {
        wrong(r, "it must be an array");
        return;
    }
    r->shape->values_el = r->el;
    if (r->shape->values == NULL) {
        r->shape->values = r->v;
        return;
    }
    both = json_array();
    json_array_foreach(r->shape->values, i, v)
    {
        for (size_t j = 0; j < json_array_size(r->v); j++) {
            if (json_equal(v, json_array_get(r->v, j))) {
                json_array_append(both, (json_t *)(uintptr_t)v);
                break;
            }
        }
    }
    r->shape->values = schema_keep(r->s, both);
}

static void read_const(struct reading *r)
{
    r->v = schema_keep(r->s, json_pack("[O]", r->v));
    read_enum(r);
}

/* Removes the values of an enum that must not match. */

static void read_not_enum(struct reading *r)
{
    struct expr_pool *p = &r->s->m->pool;
    const json_t *v;
    size_t i;

    json_array_foreach(r->v, i, v)
    {
        unsigned type = schema_type_of(v);

        if ((type & (TYPE_NULL | TYPE_BOOLEAN)) != 0) {
            r->shape->types &= ~type;
        } else if (type == TYPE_STRING) {
            r->shape->text =
                expr_and(p, r->shape->text,
                         expr_not(p, char_json_text(p, json_string_value(v),
                                                    json_string_length(v))));
        } else if ((type & TYPE_NUMBER) != 0) {
            r->shape->number = expr_and(p, r->shape->number,
                                        expr_or(p, number_at_least(p, v, true),
                                                number_at_most(p, v, true)));
        } else if ((r->shape->types & type) != 0) {
            schema_fail(r->s, ST_UNIMPLEMENTED, r->el->s, "enum",
                        "excluding an array or object is not supported");
        }
    }
}

uint32_t schema_pattern(struct schema *s, const json_t *schema,
                        const char *keyword, const char *pattern)
{
    struct error e;
    uint32_t out = EXPR_NONE;
    enum status st = regex_compile(&s->m->pool, &s->m->chars, pattern,
                                   strlen(pattern), REGEX_SEARCH, &out, &e);

    if (st != ST_OK) {
        schema_fail(s, st, schema, keyword, e.text);
    }
    return out;
}

static void and_text(struct reading *r, const char *pattern, bool invert)
{
    struct expr_pool *p = &r->s->m->pool;
    uint32_t e = schema_pattern(r->s, r->el->s, r->keyword, pattern);

    r->shape->text = expr_and(p, r->shape->text, invert ? expr_not(p, e) : e);
}

static void read_pattern(struct reading *r)
{
    if (!json_is_string(r->v)) {
        wrong(r, "it must be a string");
        return;
    }
    and_text(r, json_string_value(r->v),
             strcmp(r->keyword, KEYWORD_NOT_PATTERN) == 0);
}

/* A format restricts strings alone; with another type it means nothing. */
static void read_format(struct reading *r)
{
    const struct format_row *row =
        json_is_string(r->v) ? format_find(json_string_value(r->v)) : NULL;

    if (row == NULL || (r->shape->types & TYPE_STRING) == 0) {
        return;
    }
    if (row->pattern == NULL) {
        schema_fail(r->s, ST_UNIMPLEMENTED, r->el->s, r->keyword,
                    "this format is not supported");
        return;
    }
    and_text(r, row->pattern, false);
}

/* Reads a count up to the limit; a larger least is refused, and a larger most
 * too, as a shorter one would be an approximation. */
static bool read_count(struct reading *r, uint32_t *n)
{
    double v = json_number_value(r->v);

    if (!json_is_number(r->v) || v < 0 || v != floor(v)) {
        wrong(r, "it must be an integer of at least 0");
        return false;
    }
    if (v > GRAMMAR_REPEAT_MAX) {
        schema_fail(r->s, ST_RESOURCE_EXHAUSTED, r->el->s, r->keyword,
                    "GRAMMAR_REPEAT_MAX is exceeded");
        return false;
    }
    *n = (uint32_t)v;
    return true;
}

static void at_least(struct reading *r, uint32_t *least)
{
    uint32_t n;

    if (read_count(r, &n)) {
        *least = max_u32(*least, n);
    }
}

static void at_most(struct reading *r, uint32_t *most)
{
    uint32_t n;

    if (read_count(r, &n)) {
        *most = min_u32(*most, n);
    }
}

static void read_min_length(struct reading *r)
{
    at_least(r, &r->shape->least_chars);
}

static void read_max_length(struct reading *r)
{
    at_most(r, &r->shape->most_chars);
}

static void read_min_items(struct reading *r)
{
    at_least(r, &r->shape->least_items);
}

static void read_max_items(struct reading *r)
{
    at_most(r, &r->shape->most_items);
}

static void read_min_members(struct reading *r)
{
    r->shape->members_el = r->el;
    at_least(r, &r->shape->least_members);
}

static void read_max_members(struct reading *r)
{
    at_most(r, &r->shape->most_members);
}

static bool beside(const struct reading *r, const char *keyword)
{
    return json_is_true(json_object_get(r->el->s, keyword));
}

/* minimum, maximum and the exclusive ones, also as draft 4 spells them. */
static void read_bound(struct reading *r)
{
    struct expr_pool *p = &r->s->m->pool;
    bool exclusive = strncmp(r->keyword, "exclusive", 9) == 0;
    bool lower = strstr(r->keyword, "inimum") != NULL;
    bool strict =
        exclusive || beside(r, lower ? "exclusiveMinimum" : "exclusiveMaximum");

    if (exclusive && json_is_boolean(r->v)) {
        return;
    }
    if (!json_is_number(r->v)) {
        wrong(r, "it must be a number");
        return;
    }
    r->shape->number = expr_and(p, r->shape->number,
                                lower ? number_at_least(p, r->v, strict)
                                      : number_at_most(p, r->v, strict));
}

static void read_multiple(struct reading *r)
{
    struct expr_pool *p = &r->s->m->pool;
    uint32_t e = json_is_number(r->v) ? number_multiple(p, r->v) : EXPR_NONE;

    if ((r->shape->types & TYPE_NUMBER) == 0) {
        return;
    }
    if (e == EXPR_NONE) {
        schema_fail(r->s, ST_UNIMPLEMENTED, r->el->s, r->keyword,
                    "only integers and negative powers of ten are supported");
    }
    r->shape->number = expr_and(p, r->shape->number, e);
}

static void read_unique(struct reading *r)
{
    r->shape->structural = true;
    if (json_is_true(r->v)) {
        r->shape->unique = r->el;
    }
}

static void read_structural(struct reading *r)
{
    r->shape->structural = true;
}

static void read_refused(struct reading *r)
{
    if (strncmp(r->keyword, "unevaluated", 11) == 0 && json_is_true(r->v)) {
        return;
    }
    schema_fail(r->s, ST_UNIMPLEMENTED, r->el->s, r->keyword,
                "this keyword is not supported");
}

/* As additionalProperties, if no other keyword could evaluate a member. */
static void read_unevaluated(struct reading *r)
{
    static const char *const others[] = {"$ref",
                                         "allOf",
                                         "anyOf",
                                         "oneOf",
                                         "not",
                                         "if",
                                         "dependencies",
                                         "dependentSchemas",
                                         "$dynamicRef",
                                         "$recursiveRef",
                                         "additionalProperties"};

    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (json_object_get(r->el->s, others[i]) != NULL) {
            read_refused(r);
        }
    }
    read_structural(r);
}

static const struct {
    const char *keyword;
    read_fn *read;
} readers[] = {
    {"type", read_type},
    {"enum", read_enum},
    {"const", read_const},
    {KEYWORD_NOT_ENUM, read_not_enum},
    {"pattern", read_pattern},
    {KEYWORD_NOT_PATTERN, read_pattern},
    {"format", read_format},
    {"minLength", read_min_length},
    {"maxLength", read_max_length},
    {"minItems", read_min_items},
    {"maxItems", read_max_items},
    {"minProperties", read_min_members},
    {"maxProperties", read_max_members},
    {"minimum", read_bound},
    {"maximum", read_bound},
    {"exclusiveMinimum", read_bound},
    {"exclusiveMaximum", read_bound},
    {"multipleOf", read_multiple},
    {"uniqueItems", read_unique},
    {"properties", read_structural},
    {"patternProperties", read_structural},
    {"additionalProperties", read_structural},
    {"propertyNames", read_structural},
    {"required", read_structural},
    {"items", read_structural},
    {"prefixItems", read_structural},
    {"additionalItems", read_structural},
    {"unevaluatedProperties", read_unevaluated},
    {"unevaluatedItems", read_refused},
    {"contains", read_refused},
    {"$dynamicRef", read_refused},
    {"$recursiveRef", read_refused},
    {"extends", read_refused},
    {"disallow", read_refused},
    {"divisibleBy", read_refused},
};

void schema_shape_of(struct schema *s, const struct schema_conj *c,
                     struct schema_shape *shape)
{
    *shape = (struct schema_shape){.types = TYPE_ANY,
                                   .text = EXPR_ALL,
                                   .most_chars = EXPR_INF,
                                   .number = EXPR_ALL,
                                   .most_items = EXPR_INF,
                                   .most_members = EXPR_INF};
    for (size_t k = 0; k < sizeof readers / sizeof *readers; k++) {
        for (uint32_t i = 0; i < c->n; i++) {
            struct reading r = {
                s, &c->els[i], readers[k].keyword,
                json_object_get(c->els[i].s, readers[k].keyword), shape};

            if (r.v != NULL && c->els[i].done != UINT32_MAX) {
                readers[k].read(&r);
            }
        }
    }
}

/* ---- expressions ---- */

/* A string without restrictions may spell its characters in every way; another
 * one spells each in one way, so that patterns and lengths can be combined. */
uint32_t schema_text(struct schema *s, const struct schema_shape *shape)
{
    struct expr_pool *p = &s->m->pool;
    bool counted = shape->least_chars > 0 || shape->most_chars != EXPR_INF;

    if (shape->least_chars > shape->most_chars) {
        return EXPR_NONE;
    }
    if (shape->text == EXPR_ALL) {
        return expr_rep(p, s->m->chars.any_full, shape->least_chars,
                        shape->most_chars);
    }
    return expr_and(p, shape->text,
                    counted ? expr_rep(p, s->m->chars.any, shape->least_chars,
                                       shape->most_chars)
                            : p->any_chars);
}

/* Restricted numbers have no exponent, so that digits can be compared. */
static uint32_t number(struct schema *s, const struct schema_shape *shape)
{
    struct expr_pool *p = &s->m->pool;
    unsigned types = shape->types & TYPE_NUMBER;

    if (types == TYPE_FRACTION) {
        return expr_and(p, shape->number,
                        expr_and(p, number_decimal(p, false),
                                 expr_not(p, number_integer(p))));
    }
    if (types == TYPE_INTEGER) {
        return expr_and(p, shape->number, number_integer(p));
    }
    if (types == 0) {
        return EXPR_NONE;
    }
    return shape->number == EXPR_ALL
               ? number_decimal(p, true)
               : expr_and(p, shape->number, number_decimal(p, false));
}

static uint32_t words(struct schema *s, unsigned types)
{
    struct expr_pool *p = &s->m->pool;
    uint32_t e = EXPR_NONE;

    if ((types & TYPE_NULL) != 0) {
        e = expr_text(p, "null", 4);
    }
    if ((types & TYPE_TRUE) != 0) {
        e = expr_or(p, e, expr_text(p, "true", 4));
    }
    if ((types & TYPE_FALSE) != 0) {
        e = expr_or(p, e, expr_text(p, "false", 5));
    }
    return e;
}

uint32_t schema_value(struct schema *s, const struct schema_conj *c)
{
    struct expr_pool *p = &s->m->pool;
    struct schema_shape shape;
    uint32_t e, text;

    schema_shape_of(s, c, &shape);
    if (s->st != ST_OK) {
        return EXPR_NONE;
    }
    if (shape.values != NULL) {
        return schema_enum(s, c, &shape);
    }
    e = expr_or(p, words(s, shape.types), number(s, &shape));
    if ((shape.types & TYPE_STRING) != 0) {
        text = schema_text(s, &shape);
        text = expr_cat(p, text, s->m->chars.quote);
        e = expr_or(p, e, expr_cat(p, s->m->chars.quote, text));
    }
    if ((shape.types & TYPE_ARRAY) != 0) {
        e = expr_or(p, e, schema_array(s, c, &shape));
    }
    if ((shape.types & TYPE_OBJECT) != 0) {
        e = expr_or(p, e, schema_object(s, c, &shape));
    }
    return e;
}
