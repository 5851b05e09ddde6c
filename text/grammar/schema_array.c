/* schema_array.c - Arrays: items by place, then the rest. */
#include "common/base/minmax.h"
#include "text/grammar/schema_parts.h"

/* Returns the list of schemas by place, as the drafts spell it. */
static const json_t *places(const json_t *schema)
{
    const json_t *prefix = json_object_get(schema, "prefixItems");
    const json_t *items = json_object_get(schema, "items");

    if (json_is_array(prefix)) {
        return prefix;
    }
    return json_is_array(items) ? items : NULL;
}

/* Returns what a schema demands of the item at a place. */
static const json_t *item_at(const json_t *schema, size_t place)
{
    const json_t *by_place = places(schema), *rest;

    if (place < json_array_size(by_place)) {
        return json_array_get(by_place, place);
    }
    rest = json_object_get(schema, "items");
    if (json_is_array(rest)) {
        rest = json_object_get(schema, "additionalItems");
    }
    return rest;
}

static uint32_t item_rule(struct schema *s, const struct schema_conj *c,
                          size_t place)
{
    struct schema_conj item = {0};
    uint32_t rule;

    for (uint32_t i = 0; i < c->n; i++) {
        const json_t *demand = item_at(c->els[i].s, place);

        if (demand != NULL && c->els[i].done != UINT32_MAX) {
            schema_conj_add(s, &item, demand, 0);
        }
    }
    rule = schema_rule_of(s, &item);
    schema_conj_fini(s, &item);
    return rule;
}

/* Returns what follows `n` items; at places from n_places on all are alike. */
static uint32_t after(struct schema *s, const struct schema_conj *c,
                      const struct schema_shape *shape, uint32_t n_places)
{
    struct expr_pool *p = &s->m->pool;
    uint32_t comma = s->m->objects.comma, least = shape->least_items;
    uint32_t most = shape->most_items, n = max_u32(n_places, 1), e;

    if (most <= n) {
        e = least <= n ? EXPR_EPS : EXPR_NONE;
    } else {
        e = expr_rep(
            p, expr_cat(p, comma, expr_call(p, item_rule(s, c, n_places))),
            least > n ? least - n : 0, most == EXPR_INF ? EXPR_INF : most - n);
    }
    /* From the last place to the first, since each includes what follows; item
     * n stands behind n others. */
    while (--n > 0) {
        uint32_t more = EXPR_NONE;

        if (n < most) {
            more = expr_cat(p, expr_call(p, item_rule(s, c, n)), e);
            more = expr_cat(p, comma, more);
        }
        e = n >= least ? expr_opt(p, more) : more;
    }
    return e;
}

uint32_t schema_array(struct schema *s, const struct schema_conj *c,
                      const struct schema_shape *shape)
{
    struct expr_pool *p = &s->m->pool;
    uint32_t space = s->m->objects.space, n_places = 0;
    uint32_t close = expr_cat(p, space, expr_byte(p, ']')), e = EXPR_NONE;

    if (shape->unique != NULL && shape->most_items > 1) {
        schema_fail(s, ST_UNIMPLEMENTED, shape->unique->s, "uniqueItems",
                    "it is supported only with maxItems 1");
        return EXPR_NONE;
    }
    for (uint32_t i = 0; i < c->n; i++) {
        n_places =
            max_u32(n_places, (uint32_t)json_array_size(places(c->els[i].s)));
    }
    if (shape->least_items > shape->most_items) {
        return EXPR_NONE;
    }
    if (shape->most_items > 0) {
        e = expr_cat(p, expr_call(p, item_rule(s, c, 0)),
                     expr_cat(p, after(s, c, shape, n_places), close));
        e = expr_cat(p, space, e);
    }
    if (shape->least_items == 0) {
        e = expr_or(p, e, close);
    }
    return expr_cat(p, expr_byte(p, '['), e);
}
