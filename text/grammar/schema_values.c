/* schema_values.c - enum and const: values spelt out. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/grammar/number_range.h"
#include "text/grammar/schema_parts.h"

unsigned schema_type_of(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_NULL:
        return TYPE_NULL;
    case JSON_TRUE:
        return TYPE_TRUE;
    case JSON_FALSE:
        return TYPE_FALSE;
    case JSON_INTEGER:
        return TYPE_INTEGER;
    case JSON_REAL:
        return json_real_value(v) == floor(json_real_value(v)) ? TYPE_INTEGER
                                                               : TYPE_FRACTION;
    case JSON_STRING:
        return TYPE_STRING;
    case JSON_ARRAY:
        return TYPE_ARRAY;
    case JSON_OBJECT:
        break;
    }
    return TYPE_OBJECT;
}

static uint32_t quoted(struct schema *s, const char *text, size_t n)
{
    struct expr_pool *p = &s->m->pool;

    return expr_cat(p, s->m->chars.quote,
                    expr_cat(p, char_json_text(p, text, n), s->m->chars.quote));
}

/* A real number has the shortest text and the one with a fraction or exponent
 * that other programs write. */
static uint32_t number_literal(struct schema *s, const json_t *v)
{
    struct expr_pool *p = &s->m->pool;
    char text[NUMBER_TEXT];
    char *dumped = json_dumps(v, JSON_ENCODE_ANY);
    uint32_t e;

    number_text(text, v);
    e = expr_text(p, text, strlen(text));
    if (dumped != NULL) {
        e = expr_or(p, e, expr_text(p, dumped, strlen(dumped)));
    }
    free(dumped);
    return e;
}

static uint32_t array_literal(struct schema *s, const json_t *v)
{
    const struct objects *o = &s->m->objects;
    struct expr_pool *p = &s->m->pool;
    uint32_t e = expr_cat(p, o->space, expr_byte(p, ']'));

    for (size_t i = json_array_size(v); i-- > 0;) {
        e = expr_cat(p, schema_literal(s, json_array_get(v, i)), e);
        e = expr_cat(p, i > 0 ? o->comma : o->space, e);
    }
    return expr_cat(p, expr_byte(p, '['), e);
}

/* In the order of the schema: n members would have n! orders. */
static uint32_t object_literal(struct schema *s, const json_t *v)
{
    const struct objects *o = &s->m->objects;
    struct expr_pool *p = &s->m->pool;
    uint32_t e = EXPR_EPS;
    bool first = true;
    const char *name;
    json_t *member;

    json_object_foreach((json_t *)(uintptr_t)v, name, member)
    {
        uint32_t m = expr_cat(p, quoted(s, name, strlen(name)), o->colon);

        m = expr_cat(p, m, schema_literal(s, member));
        e = expr_cat(p, e, expr_cat(p, first ? o->space : o->comma, m));
        first = false;
    }
    e = expr_cat(p, e, expr_cat(p, o->space, expr_byte(p, '}')));
    return expr_cat(p, expr_byte(p, '{'), e);
}

uint32_t schema_literal(struct schema *s, const json_t *v)
{
    struct expr_pool *p = &s->m->pool;

    switch (json_typeof(v)) {
    case JSON_NULL:
        return expr_text(p, "null", 4);
    case JSON_TRUE:
        return expr_text(p, "true", 4);
    case JSON_FALSE:
        return expr_text(p, "false", 5);
    case JSON_INTEGER:
    case JSON_REAL:
        return number_literal(s, v);
    case JSON_STRING:
        return quoted(s, json_string_value(v), json_string_length(v));
    case JSON_ARRAY:
        return array_literal(s, v);
    case JSON_OBJECT:
        break;
    }
    return object_literal(s, v);
}

/* Returns whether the other keywords of the shape allow a value. */
static bool allowed(struct schema *s, const struct schema_shape *shape,
                    const json_t *v)
{
    struct expr_pool *p = &s->m->pool;
    unsigned type = schema_type_of(v);

    if ((shape->types & type) == 0) {
        return false;
    }
    if (type == TYPE_STRING) {
        struct schema_shape one = *shape;

        /* In its one spelling, which the literal has. */
        one.text = expr_and(p, one.text, p->any_chars);
        return expr_live(p, expr_and(p, schema_text(s, &one),
                                     char_json_text(p, json_string_value(v),
                                                    json_string_length(v))));
    }
    if ((type & TYPE_NUMBER) != 0 && shape->number != EXPR_ALL) {
        char text[NUMBER_TEXT];
        char *dumped = json_dumps(v, JSON_ENCODE_ANY);
        bool is;

        number_text(text, v);
        is = expr_matches(p, shape->number, text, strlen(text)) ||
             (dumped != NULL &&
              expr_matches(p, shape->number, dumped, strlen(dumped)));
        free(dumped);
        return is;
    }
    if ((type & (TYPE_ARRAY | TYPE_OBJECT)) != 0 &&
        (shape->structural || shape->least_items > 0 ||
         shape->most_items != EXPR_INF || shape->least_members > 0 ||
         shape->most_members != EXPR_INF)) {
        schema_fail(s, ST_UNIMPLEMENTED, shape->values_el->s, "enum",
                    "arrays and objects beside keywords that look into them "
                    "are not supported");
    }
    return true;
}

uint32_t schema_enum(struct schema *s, const struct schema_conj *c,
                     const struct schema_shape *shape)
{
    uint32_t e = EXPR_NONE;
    const json_t *v;
    size_t i;

    (void)c;
    json_array_foreach(shape->values, i, v)
    {
        if (allowed(s, shape, v)) {
            e = expr_or(&s->m->pool, e, schema_literal(s, v));
        }
    }
    return e;
}
