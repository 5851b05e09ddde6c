/* schema_object.c - Objects: members by name, by pattern, and the others. */
#include <stdlib.h>
#include <string.h>

#include "text/grammar/grammar_limits.h"
#include "text/grammar/schema_parts.h"

/* patternProperties of one schema of the conjunction. */
struct name_pattern {
    const json_t *schema;
    uint32_t el; /* its schema */
    uint32_t e;
};

/* An object while it is made. */
struct making {
    struct schema *s;
    const struct schema_conj *c;
    const struct schema_shape *shape;
    struct member *named, *others; /* [n_named], [n_others] */
    uint32_t n_named, n_others;
    json_t *names; /* name -> index of required ones, or null */
    struct name_pattern patterns[GRAMMAR_SPLITS_MAX];
    uint32_t n_patterns;
    uint32_t allowed;  /* names that propertyNames allows */
    uint32_t excluded; /* names that are listed */
    bool impossible;   /* a required member cannot be there */
};

static const json_t *keyword(const struct schema_el *el, const char *name)
{
    return el->done == UINT32_MAX ? NULL : json_object_get(el->s, name);
}

/* additionalProperties, or unevaluatedProperties where that is the same. */
static const json_t *rest_of(const struct schema_el *el)
{
    const json_t *rest = keyword(el, "additionalProperties");

    return rest != NULL ? rest : keyword(el, "unevaluatedProperties");
}

static void collect_patterns(struct making *k)
{
    for (uint32_t i = 0; i < k->c->n; i++) {
        const json_t *all = keyword(&k->c->els[i], "patternProperties");
        const char *pattern;
        json_t *schema;

        json_object_foreach((json_t *)(uintptr_t)all, pattern, schema)
        {
            if (k->n_patterns == GRAMMAR_SPLITS_MAX) {
                schema_fail(k->s, ST_RESOURCE_EXHAUSTED, k->c->els[i].s,
                            "patternProperties",
                            "GRAMMAR_SPLITS_MAX is exceeded");
                return;
            }
            k->patterns[k->n_patterns++] = (struct name_pattern){
                schema, i,
                schema_pattern(k->s, k->c->els[i].s, "patternProperties",
                               pattern)};
        }
    }
}

/* Reads propertyNames: keywords of strings, no others. */
static void collect_names_rule(struct making *k)
{
    struct schema *s = k->s;
    struct schema_conj names = {0};
    struct schema_shape shape;
    uint32_t body;

    for (uint32_t i = 0; i < k->c->n; i++) {
        const json_t *v = keyword(&k->c->els[i], "propertyNames");

        if (v != NULL) {
            schema_conj_add(s, &names, v, 0);
        }
    }
    k->allowed = s->m->pool.any_chars;
    if (names.never) { /* no member at all */
        k->allowed = EXPR_NONE;
    } else if (names.n > 0) {
        if (schema_split(s, &names, &body)) {
            schema_fail(s, ST_UNIMPLEMENTED, names.els[0].s, "propertyNames",
                        "only keywords of strings are supported in it");
        }
        schema_shape_of(s, &names, &shape);
        shape.text = expr_and(&s->m->pool, shape.text, s->m->pool.any_chars);
        k->allowed = (shape.types & TYPE_STRING) != 0 ? schema_text(s, &shape)
                                                      : EXPR_NONE;
        if (shape.values != NULL) {
            uint32_t one_of = EXPR_NONE;
            const json_t *v;
            size_t i;

            json_array_foreach(shape.values, i, v)
            {
                if (json_is_string(v)) {
                    one_of = expr_or(&s->m->pool, one_of,
                                     char_json_text(&s->m->pool,
                                                    json_string_value(v),
                                                    json_string_length(v)));
                }
            }
            k->allowed = expr_and(&s->m->pool, k->allowed, one_of);
        }
    }
    schema_conj_fini(s, &names);
}

/* Names in the order of properties, then those that are only required. */
static void collect_names(struct making *k)
{
    for (uint32_t i = 0; i < k->c->n; i++) {
        const json_t *properties = keyword(&k->c->els[i], "properties");
        const char *name;
        json_t *v;

        json_object_foreach((json_t *)(uintptr_t)properties, name, v)
        {
            if (json_object_get(k->names, name) == NULL) {
                json_object_set_new(k->names, name, json_false());
            }
        }
    }
    for (uint32_t i = 0; i < k->c->n; i++) {
        const json_t *required = keyword(&k->c->els[i], "required"), *v;
        size_t j;

        if (json_is_boolean(required)) {
            schema_fail(k->s, ST_UNIMPLEMENTED, k->c->els[i].s, "required",
                        "a boolean, as in draft 3, is not supported");
        }
        json_array_foreach(required, j, v)
        {
            if (json_is_string(v)) {
                json_object_set_new(k->names, json_string_value(v),
                                    json_true());
            }
        }
    }
}

/* Returns whether pattern i matches a name, or is among those of a class. */
static bool takes_part(struct making *k, uint32_t i, const char *name,
                       uint32_t in)
{
    struct expr_pool *p = &k->s->m->pool;

    if (name == NULL) {
        return in >> i & 1;
    }
    return expr_live(p, expr_and(p, k->patterns[i].e,
                                 char_json_text(p, name, strlen(name))));
}

/* Returns the rule of a member with this name, or of those whose names match
 * the patterns `in` and no other.  Sets *never if it cannot be there. */
static uint32_t member_rule(struct making *k, const char *name, uint32_t in,
                            bool *never)
{
    struct schema_conj value = {0};
    uint32_t rule = 0;

    for (uint32_t i = 0; i < k->c->n; i++) {
        const json_t *properties = keyword(&k->c->els[i], "properties");
        const json_t *own =
            name == NULL ? NULL : json_object_get(properties, name);
        bool matched = own != NULL;

        if (own != NULL) {
            schema_conj_add(k->s, &value, own, 0);
        }
        for (uint32_t j = 0; j < k->n_patterns; j++) {
            if (k->patterns[j].el == i && takes_part(k, j, name, in)) {
                schema_conj_add(k->s, &value, k->patterns[j].schema, 0);
                matched = true;
            }
        }
        if (!matched && rest_of(&k->c->els[i]) != NULL) {
            schema_conj_add(k->s, &value, rest_of(&k->c->els[i]), 0);
        }
    }
    *never = value.never;
    if (!value.never) {
        rule = schema_rule_of(k->s, &value);
    }
    schema_conj_fini(k->s, &value);
    return rule;
}

static uint32_t quote(struct making *k, uint32_t text)
{
    struct machine *m = k->s->m;

    return expr_cat(&m->pool, m->chars.quote,
                    expr_cat(&m->pool, text, m->chars.quote));
}

static void make_named(struct making *k)
{
    struct expr_pool *p = &k->s->m->pool;
    const char *name;
    json_t *required;

    json_object_foreach(k->names, name, required)
    {
        uint32_t text = char_json_text(p, name, strlen(name));
        struct member m = {.key = quote(k, text),
                           .required = json_is_true(required)};
        bool never;

        m.rule = member_rule(k, name, 0, &never);
        k->excluded = expr_or(p, k->excluded, text);
        never = never || !expr_live(p, expr_and(p, k->allowed, text));
        k->impossible = k->impossible || (never && m.required);
        if (!never) {
            k->named[k->n_named++] = m;
        }
    }
}

/* Returns the rule of quoted names.  Inside such a rule masks do not depend on
 * the members seen so far, so they are found once for all of them. */
static uint32_t name_rule(struct making *k, uint32_t text)
{
    struct schema *s = k->s;
    uint32_t rule;

    if (number_map_get(&s->name_rules, (uint64_t)text + 1, &rule)) {
        return rule;
    }
    rule = machine_rule(s->m);
    if (rule == UINT32_MAX) {
        schema_fail(s, ST_RESOURCE_EXHAUSTED, s->root, "schema",
                    "GRAMMAR_RULES_MAX is exceeded");
        return 0;
    }
    machine_set_rule(s->m, rule, quote(k, text));
    number_map_put(&s->name_rules, &s->m->pool.budget, (uint64_t)text + 1,
                   rule);
    return rule;
}

/* Divides the other names by the patterns that they match. */
static void make_others(struct making *k)
{
    struct expr_pool *p = &k->s->m->pool;
    uint32_t names = k->allowed;

    if (k->excluded != EXPR_NONE) {
        names = expr_and(p, names, expr_not(p, k->excluded));
    }
    /* Most classes are empty, as patterns often exclude one another. */
    for (uint32_t in = 0; in < (uint32_t)1 << k->n_patterns; in++) {
        uint32_t text = names;
        struct member m = {0};
        bool never;

        for (uint32_t i = 0; i < k->n_patterns; i++) {
            uint32_t e = k->patterns[i].e;

            text = expr_and(p, text, in >> i & 1 ? e : expr_not(p, e));
        }
        if (!expr_live(p, text)) {
            continue;
        }
        m.rule = member_rule(k, NULL, in, &never);
        if (!never) {
            m.key = expr_call(p, name_rule(k, text));
            k->others[k->n_others++] = m;
        }
    }
}

/* Names that are not listed may come twice, so they cannot be counted. */
static void check_least(struct making *k)
{
    uint32_t required = 0;

    for (uint32_t i = 0; i < k->n_named; i++) {
        required += k->named[i].required;
    }
    if (k->shape->least_members > 1 && k->n_others > 0 &&
        required < k->shape->least_members) {
        schema_fail(k->s, ST_UNIMPLEMENTED, k->shape->members_el->s,
                    "minProperties",
                    "above 1 it is supported only if enough names are "
                    "required or no other names are allowed");
    }
}

static uint32_t make(struct making *k)
{
    struct machine *m = k->s->m;

    collect_patterns(k);
    collect_names_rule(k);
    if (k->s->st != ST_OK) {
        return EXPR_NONE;
    }
    make_named(k);
    make_others(k);
    check_least(k);
    if (k->impossible || k->s->st != ST_OK) {
        return EXPR_NONE;
    }
    return expr_cat(&m->pool, expr_byte(&m->pool, '{'),
                    objects_new(&m->objects, k->named, k->n_named, k->others,
                                k->n_others, k->shape->least_members,
                                k->shape->most_members));
}

uint32_t schema_object(struct schema *s, const struct schema_conj *c,
                       const struct schema_shape *shape)
{
    struct making k = {.s = s, .c = c, .shape = shape, .names = json_object()};
    uint32_t e = EXPR_NONE;

    collect_names(&k);
    k.named = calloc(json_object_size(k.names) + 1, sizeof *k.named);
    k.others = calloc((size_t)1 << GRAMMAR_SPLITS_MAX, sizeof *k.others);
    if (k.named == NULL || k.others == NULL || k.names == NULL) {
        s->m->pool.budget.failed = true;
    } else {
        e = make(&k);
    }
    free(k.named);
    free(k.others);
    json_decref(k.names);
    return e;
}
