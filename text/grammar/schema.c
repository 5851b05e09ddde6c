/* schema.c - Conjunctions of schemas, and the rules that stand for them. */
#include "text/grammar/schema.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "text/grammar/grammar_limits.h"
#include "text/grammar/schema_parts.h"

/* ---- places ---- */

#define POINTER_MAX 400

/* Writes the JSON pointer of `find` below j to at[0..).  Returns whether it is
 * there. */
static bool pointer_of(const json_t *j, const json_t *find, char *at,
                       size_t room, unsigned depth)
{
    json_t *child;
    const char *key;
    size_t i;

    *at = '\0';
    if (j == find) {
        return true;
    }
    if (depth > GRAMMAR_NESTING_MAX) {
        return false;
    }
    json_object_foreach((json_t *)(uintptr_t)j, key, child)
    {
        int n = snprintf(at, room, "/%s", key);

        if (n >= 0 && (size_t)n < room &&
            pointer_of(child, find, at + n, room - (size_t)n, depth + 1)) {
            return true;
        }
    }
    json_array_foreach(j, i, child)
    {
        int n = snprintf(at, room, "/%zu", i);

        if (n >= 0 && (size_t)n < room &&
            pointer_of(child, find, at + n, room - (size_t)n, depth + 1)) {
            return true;
        }
    }
    *at = '\0';
    return false;
}

void schema_fail(struct schema *s, enum status st, const json_t *schema,
                 const char *keyword, const char *why)
{
    char at[POINTER_MAX];

    if (s->st != ST_OK) {
        return;
    }
    if (!pointer_of(s->root, schema, at, sizeof at, 0)) {
        /* A schema that a negation or a condition was replaced by. */
        s->st = error_set(s->e, st,
                          "schema: %s (in a part that oneOf, not, "
                          "if or dependencies made): %s",
                          keyword, why);
        return;
    }
    s->st = error_set(s->e, st, "schema: %s at #%s: %s", keyword, at, why);
}

const json_t *schema_keep(struct schema *s, json_t *j)
{
    if (j == NULL || json_array_append_new(s->made, j) != 0) {
        s->m->pool.budget.failed = true;
        return json_null();
    }
    return j;
}

/* ---- references ---- */

/* Decodes one step of a JSON pointer from *p on to out. */
static void pointer_step(const char **p, char *out, size_t room)
{
    size_t n = 0;

    while (**p != '\0' && **p != '/' && n + 1 < room) {
        char c = *(*p)++;

        if (c == '~' && (**p == '0' || **p == '1')) {
            c = *(*p)++ == '0' ? '~' : '/';
        } else if (c == '%' && (*p)[0] != '\0' && (*p)[1] != '\0') {
            const char digits[3] = {(*p)[0], (*p)[1], '\0'};

            c = (char)strtol(digits, NULL, 16);
            *p += 2;
        }
        out[n++] = c;
    }
    out[n] = '\0';
}

/* Returns NULL if the pointer leads nowhere. */
static const json_t *follow_pointer(const json_t *j, const char *p)
{
    char step[POINTER_MAX];

    while (j != NULL && *p == '/') {
        p++;
        pointer_step(&p, step, sizeof step);
        if (json_is_array(j)) {
            char *end;
            unsigned long i = strtoul(step, &end, 10);

            j = *end == '\0' && *step != '\0' ? json_array_get(j, i) : NULL;
        } else {
            j = json_object_get(j, step);
        }
    }
    return *p == '\0' ? j : NULL;
}

static bool names_itself(const json_t *j, const char *name)
{
    static const char *const keys[] = {"$id", "id", "$anchor"};

    for (size_t i = 0; i < 3; i++) {
        const char *v = json_string_value(json_object_get(j, keys[i]));

        if (v != NULL && (strcmp(v, name) == 0 || (i == 2 && *name == '#' &&
                                                   strcmp(v, name + 1) == 0))) {
            return true;
        }
    }
    return false;
}

/* Finds the schema whose $id, id or $anchor is `name`. */
static const json_t *find_named(const json_t *j, const char *name,
                                unsigned depth)
{
    const json_t *found = NULL;
    const char *key;
    json_t *child;
    size_t i;

    if (depth > GRAMMAR_NESTING_MAX) {
        return NULL;
    }
    if (json_is_object(j) && names_itself(j, name)) {
        return j;
    }
    json_object_foreach((json_t *)(uintptr_t)j, key, child)
    {
        if (found == NULL && strcmp(key, "enum") != 0 &&
            strcmp(key, "const") != 0) {
            found = find_named(child, name, depth + 1);
        }
    }
    json_array_foreach(j, i, child)
    {
        found = found != NULL ? found : find_named(child, name, depth + 1);
    }
    return found;
}

/* Returns the name that the document gives itself, without fragment. */
static size_t own_name(const json_t *root, const char **name)
{
    *name = json_string_value(json_object_get(root, "$id"));
    if (*name == NULL) {
        *name = json_string_value(json_object_get(root, "id"));
    }
    return *name == NULL ? 0 : strcspn(*name, "#");
}

const json_t *schema_resolve(struct schema *s, const json_t *at,
                             const char *ref)
{
    const json_t *to = NULL;
    const char *name;
    size_t n = own_name(s->root, &name);

    if (n > 0 && strncmp(ref, name, n) == 0 &&
        (ref[n] == '#' || ref[n] == '\0')) {
        ref += n;
    }
    if (*ref == '\0' || strcmp(ref, "#") == 0) {
        return s->root;
    }
    to = ref[0] == '#' && ref[1] == '/' ? follow_pointer(s->root, ref + 1)
                                        : find_named(s->root, ref, 0);
    if (to == NULL) {
        schema_fail(s, *ref == '#' ? ST_INVALID_ARGUMENT : ST_UNIMPLEMENTED, at,
                    "$ref",
                    *ref == '#' ? "it refers to nothing in this schema"
                                : "only references inside the schema are "
                                  "supported");
    }
    return to;
}

/* ---- conjunctions ---- */

static bool is_in(const struct schema_conj *c, const json_t *schema)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->els[i].s == schema) {
            return true;
        }
    }
    return false;
}

/* $ref and allOf add schemas to the conjunction, which then hold with the rest.
 */
static void add_parts(struct schema *s, struct schema_conj *c,
                      const json_t *schema)
{
    const json_t *ref = json_object_get(schema, "$ref");
    const json_t *all = json_object_get(schema, "allOf"), *part;
    size_t i;

    if (json_is_string(ref)) {
        const json_t *to = schema_resolve(s, schema, json_string_value(ref));

        if (to != NULL) {
            schema_conj_add(s, c, to, 0);
        }
        if (s->ref_alone) {
            return;
        }
    }
    json_array_foreach(all, i, part)
    {
        schema_conj_add(s, c, part, 0);
    }
}

void schema_conj_add(struct schema *s, struct schema_conj *c,
                     const json_t *schema, uint32_t done)
{
    uint32_t i = c->n;

    if (json_is_true(schema) || is_in(c, schema) || s->st != ST_OK) {
        return;
    }
    if (json_is_false(schema)) {
        c->never = true;
        return;
    }
    if (!json_is_object(schema)) {
        schema_fail(s, ST_INVALID_ARGUMENT, schema, "a schema",
                    "it must be an object, true or false");
        return;
    }
    if (json_object_size(schema) == 0 ||
        !arena_grow(&s->m->pool.budget, &c->els, &c->cap, (uint64_t)c->n + 1,
                    sizeof *c->els)) {
        return;
    }
    c->els[c->n++] = (struct schema_el){schema, done};
    if ((done & DONE_REF) == 0) {
        add_parts(s, c, schema);
        c->els[i].done |= DONE_REF | DONE_ALL;
    }
    if (s->ref_alone && json_is_string(json_object_get(schema, "$ref"))) {
        c->els[i].done = UINT32_MAX; /* nothing else of it counts */
    }
}

void schema_conj_copy(struct schema *s, struct schema_conj *to,
                      const struct schema_conj *from)
{
    *to = (struct schema_conj){.never = from->never};
    if (arena_grow(&s->m->pool.budget, &to->els, &to->cap, from->n,
                   sizeof *to->els) &&
        from->n > 0) {
        memcpy(to->els, from->els, from->n * sizeof *to->els);
        to->n = from->n;
    }
}

void schema_conj_fini(struct schema *s, struct schema_conj *c)
{
    s->m->pool.budget.bytes -= c->cap * sizeof *c->els;
    free(c->els);
    *c = (struct schema_conj){0};
}

/* ---- rules ---- */

static bool rule_same(const void *owner, uint32_t id, const void *key)
{
    const struct schema *s = owner;
    const struct schema_conj *c = key;
    const struct schema_rule *r = &s->rules[id];

    for (uint32_t i = 0; r->n == c->n && i < c->n; i++) {
        const struct schema_el *x = &s->els[r->first + i];

        if (x->s != c->els[i].s || x->done != c->els[i].done) {
            return false;
        }
    }
    return r->n == c->n;
}

static uint64_t conj_hash(const struct schema_conj *c)
{
    uint64_t h = c->n;

    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t words[2] = {(uintptr_t)c->els[i].s, c->els[i].done};

        h = XXH3_64bits_withSeed(words, sizeof words, h);
    }
    return h;
}

/* One rule stands for all conjunctions that have a false. */
static uint32_t never_rule(struct schema *s)
{
    if (s->never == UINT32_MAX) {
        s->never = machine_rule(s->m);
        if (s->never != UINT32_MAX) {
            machine_set_rule(s->m, s->never, EXPR_NONE);
        }
    }
    return s->never == UINT32_MAX ? 0 : s->never;
}

/* A schema of which nothing counts any more is left out. */
static void drop_done(struct schema_conj *c)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n; i++) {
        if (c->els[i].done != UINT32_MAX) {
            c->els[n++] = c->els[i];
        }
    }
    c->n = n;
}

uint32_t schema_rule_of(struct schema *s, struct schema_conj *c)
{
    struct arena_budget *b = &s->m->pool.budget;
    struct schema_rule r = {.first = s->n_els};
    uint64_t h;
    uint32_t id;

    /* Equal conjunctions are one rule: this ends recursion. */
    drop_done(c);
    r.n = c->n;
    if (c->never || s->st != ST_OK) {
        return never_rule(s);
    }
    h = conj_hash(c);
    id = intern_find(&s->table, h, rule_same, s, c);
    if (id != UINT32_MAX) {
        return s->rules[id].rule;
    }
    r.rule = machine_rule(s->m);
    if (r.rule == UINT32_MAX ||
        !arena_grow(b, &s->els, &s->cap_els, (uint64_t)s->n_els + c->n,
                    sizeof *s->els) ||
        !arena_grow(b, &s->rules, &s->cap_rules, (uint64_t)s->n_rules + 1,
                    sizeof *s->rules) ||
        !intern_add(&s->table, b, h, s->n_rules)) {
        schema_fail(s, ST_RESOURCE_EXHAUSTED, s->root, "schema",
                    b->failed ? "GRAMMAR_BYTES_MAX is exceeded"
                              : "GRAMMAR_RULES_MAX is exceeded");
        return never_rule(s);
    }
    for (uint32_t i = 0; i < c->n; i++) {
        s->els[s->n_els++] = c->els[i];
    }
    s->rules[s->n_rules++] = r;
    return r.rule;
}

void schema_make_rules(struct schema *s)
{
    while (s->done < s->n_rules && s->st == ST_OK) {
        struct schema_rule r = s->rules[s->done++];
        struct schema_conj c = {0}, from = {.n = r.n};
        uint32_t body = EXPR_NONE;

        from.els = r.n > 0 ? s->els + r.first : NULL;
        schema_conj_copy(s, &c, &from);
        if (!schema_split(s, &c, &body)) {
            body = schema_value(s, &c);
        }
        /* A rule that failed stays without body, which counts as live: oneOf
         * may go on without it, but the grammar is refused if it is needed. */
        if (s->st == ST_OK) {
            machine_set_rule(s->m, r.rule, body);
        }
        schema_conj_fini(s, &c);
        if (s->m->pool.budget.failed) {
            schema_fail(s, ST_RESOURCE_EXHAUSTED, s->root, "schema",
                        "GRAMMAR_BYTES_MAX is exceeded");
        }
    }
}

/* ---- the whole ---- */

static bool is_old_draft(const json_t *root)
{
    const char *name = json_string_value(json_object_get(root, "$schema"));

    return name != NULL && (strstr(name, "draft-03") != NULL ||
                            strstr(name, "draft-04") != NULL ||
                            strstr(name, "draft-06") != NULL ||
                            strstr(name, "draft-07") != NULL);
}

/* Refuses references inside a schema with a base of its own, which would be
 * resolved against that. */
static void check_bases(struct schema *s, const json_t *j, bool other_base,
                        unsigned depth)
{
    const char *id = json_string_value(json_object_get(j, "$id"));
    const char *ref = json_string_value(json_object_get(j, "$ref"));
    const char *key;
    json_t *child;
    size_t i;

    if (depth > GRAMMAR_NESTING_MAX) {
        schema_fail(s, ST_RESOURCE_EXHAUSTED, s->root, "schema",
                    "GRAMMAR_NESTING_MAX is exceeded");
        return;
    }
    id = id != NULL ? id : json_string_value(json_object_get(j, "id"));
    other_base = other_base || (j != s->root && id != NULL && *id != '#');
    if (other_base && ref != NULL) {
        schema_fail(s, ST_UNIMPLEMENTED, j, "$ref",
                    "references inside a part with its own $id are not "
                    "supported");
    }
    json_object_foreach((json_t *)(uintptr_t)j, key, child)
    {
        if (*key == KEYWORD_MADE) {
            schema_fail(s, ST_INVALID_ARGUMENT, j, "a name",
                        "names that begin with U+0001 are not supported");
        }
        if (strcmp(key, "enum") != 0 && strcmp(key, "const") != 0 &&
            strcmp(key, "default") != 0 && strcmp(key, "examples") != 0) {
            check_bases(s, child, other_base, depth + 1);
        }
    }
    json_array_foreach(j, i, child)
    {
        check_bases(s, child, other_base, depth + 1);
    }
}

enum status schema_compile(struct machine *m, const json_t *schema,
                           struct error *e)
{
    struct schema s = {.m = m,
                       .root = schema,
                       .e = e,
                       .never = UINT32_MAX,
                       .made = json_array(),
                       .ref_alone = is_old_draft(schema)};
    struct schema_conj c = {0};
    uint32_t root;

    check_bases(&s, schema, false, 0);
    schema_conj_add(&s, &c, schema, 0);
    root = schema_rule_of(&s, &c);
    schema_make_rules(&s);
    schema_conj_fini(&s, &c);
    if (s.st == ST_OK) {
        s.st = machine_finish(m, root, e);
        if (s.st == ST_UNIMPLEMENTED && e != NULL) {
            *e = s.hidden;
        }
    }
    free(s.els);
    free(s.rules);
    free(s.table.slots);
    free(s.negation.keys);
    free(s.negation.values);
    free(s.name_rules.keys);
    free(s.name_rules.values);
    json_decref(s.made);
    return s.st;
}
