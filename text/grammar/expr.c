/* expr.c - Construction of expressions: equal ones share one id. */
#include "text/grammar/expr.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/base/minmax.h"

bool byte_set_has(const struct byte_set *s, uint8_t b)
{
    return s->w[b >> 6] >> (b & 63) & 1;
}

void byte_set_add(struct byte_set *s, uint8_t b)
{
    s->w[b >> 6] |= (uint64_t)1 << (b & 63);
}

/* ---- sets of bytes ---- */

static bool set_same(const void *owner, uint32_t id, const void *key)
{
    const struct expr_pool *p = owner;

    return memcmp(&p->sets[id], key, sizeof(struct byte_set)) == 0;
}

/* Sets are shared, so that comparing two of them is comparing two numbers. */
static uint32_t set_id(struct expr_pool *p, const struct byte_set *s)
{
    uint64_t h = XXH3_64bits(s, sizeof *s);
    uint32_t id = intern_find(&p->set_table, h, set_same, p, s);

    if (id != UINT32_MAX) {
        return id;
    }
    if (!arena_grow(&p->budget, &p->sets, &p->cap_sets, (uint64_t)p->n_sets + 1,
                    sizeof *p->sets) ||
        !intern_add(&p->set_table, &p->budget, h, p->n_sets)) {
        return 1; /* the full set rejects nothing */
    }
    p->sets[p->n_sets] = *s;
    return p->n_sets++;
}

static uint32_t set_union(struct expr_pool *p, uint32_t a, uint32_t b)
{
    struct byte_set s = p->sets[a];

    for (int i = 0; i < 4; i++) {
        s.w[i] |= p->sets[b].w[i];
    }
    return a == b ? a : set_id(p, &s);
}

static uint32_t set_common(struct expr_pool *p, uint32_t a, uint32_t b)
{
    struct byte_set s = p->sets[a];

    for (int i = 0; i < 4; i++) {
        s.w[i] &= p->sets[b].w[i];
    }
    return a == b ? a : set_id(p, &s);
}

/* ---- nodes ---- */

struct node_key {
    struct expr x;
    const uint32_t *children; /* of OR and AND, [x.b]; not yet in lists */
};

static bool has_list(const struct expr *x)
{
    return x->kind == EXPR_K_OR || x->kind == EXPR_K_AND;
}

static bool node_same(const void *owner, uint32_t id, const void *key)
{
    const struct expr_pool *p = owner;
    const struct node_key *k = key;
    const struct expr *y = &p->exprs[id];

    if (y->kind != k->x.kind || y->b != k->x.b) {
        return false;
    }
    if (has_list(&k->x)) {
        return memcmp(&p->lists[y->a], k->children, y->b * sizeof *p->lists) ==
               0;
    }
    return y->a == k->x.a && y->m == k->x.m && y->n == k->x.n;
}

static uint64_t node_hash(const struct node_key *k)
{
    if (has_list(&k->x)) {
        return XXH3_64bits_withSeed(k->children, k->x.b * sizeof *k->children,
                                    k->x.kind);
    }
    const uint32_t words[4] = {k->x.a, k->x.b, k->x.m, k->x.n};

    return XXH3_64bits_withSeed(words, sizeof words, k->x.kind);
}

/* Lists are copied only for new nodes: most are found again. */
static bool append_list(struct expr_pool *p, struct node_key *k)
{
    if (!arena_grow(&p->budget, &p->lists, &p->cap_lists,
                    (uint64_t)p->n_lists + k->x.b, sizeof *p->lists)) {
        return false;
    }
    memcpy(&p->lists[p->n_lists], k->children, k->x.b * sizeof *p->lists);
    k->x.a = p->n_lists;
    p->n_lists += k->x.b;
    return true;
}

/* Returns the id of a node; its first and flags are set by the caller. */
static uint32_t node(struct expr_pool *p, struct node_key *k)
{
    uint64_t h = node_hash(k);
    uint32_t id = intern_find(&p->table, h, node_same, p, k);

    if (id != UINT32_MAX) {
        return id;
    }
    if (!arena_grow(&p->budget, &p->exprs, &p->cap, (uint64_t)p->n + 1,
                    sizeof *p->exprs) ||
        (has_list(&k->x) && !append_list(p, k)) ||
        !intern_add(&p->table, &p->budget, h, p->n)) {
        return EXPR_NONE;
    }
    p->exprs[p->n] = k->x;
    return p->n++;
}

/* A sequence or repetition has calls or intersections if a part has them. */
static uint8_t inherited(const struct expr_pool *p, uint32_t e)
{
    return p->exprs[e].flags & (EXPR_CALLS | EXPR_HAS_AND);
}

bool expr_nullable(const struct expr_pool *p, uint32_t e)
{
    return (p->exprs[e].flags & EXPR_NULLABLE) != 0;
}

static uint32_t leaf(struct expr_pool *p, enum expr_kind kind, uint32_t a,
                     uint32_t b, uint32_t first, unsigned flags)
{
    struct node_key k = {.x = {.a = a, .b = b, .first = first}};

    k.x.kind = (uint8_t)kind;
    k.x.flags = (uint8_t)flags;
    return node(p, &k);
}

enum status expr_pool_init(struct expr_pool *p, size_t max, struct error *e)
{
    static const struct byte_set none,
        full = {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}};

    memset(p, 0, sizeof *p);
    p->budget.max = max;
    set_id(p, &none);
    set_id(p, &full);
    leaf(p, EXPR_K_NONE, 0, 0, 0, EXPR_DEAD);
    leaf(p, EXPR_K_EPS, 0, 0, 0, EXPR_NULLABLE | EXPR_LIVE);
    leaf(p, EXPR_K_NOT, EXPR_NONE, 0, 1, EXPR_NULLABLE | EXPR_LIVE);
    p->any_chars = EXPR_NONE;
    if (p->budget.failed) {
        expr_pool_fini(p);
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "memory: a grammar needs more than %zu bytes", max);
    }
    return ST_OK;
}

void expr_pool_fini(struct expr_pool *p)
{
    free(p->exprs);
    free(p->table.slots);
    free(p->lists);
    free(p->sets);
    free(p->set_table.slots);
    free(p->steps.keys);
    free(p->steps.values);
    free(p->marks);
    memset(p, 0, sizeof *p);
}

uint32_t expr_set(struct expr_pool *p, const struct byte_set *s)
{
    uint32_t id = set_id(p, s);

    return id == 0 ? EXPR_NONE : leaf(p, EXPR_K_SET, id, 0, id, 0);
}

uint32_t expr_range(struct expr_pool *p, uint8_t lo, uint8_t hi)
{
    struct byte_set s = {{0}};

    for (unsigned b = lo; b <= hi; b++) {
        byte_set_add(&s, (uint8_t)b);
    }
    return expr_set(p, &s);
}

uint32_t expr_byte(struct expr_pool *p, uint8_t b)
{
    return expr_range(p, b, b);
}

uint32_t expr_text(struct expr_pool *p, const char *s, size_t n)
{
    uint32_t e = EXPR_EPS;

    while (n-- > 0) {
        e = expr_cat(p, expr_byte(p, (uint8_t)s[n]), e);
    }
    return e;
}

uint32_t expr_cat(struct expr_pool *p, uint32_t a, uint32_t b)
{
    if (b != EXPR_NONE && b != EXPR_EPS &&
        p->exprs[a].kind == EXPR_K_CAT) { /* to the right */
        uint32_t head = p->exprs[a].a;

        return expr_cat(p, head, expr_cat(p, p->exprs[a].b, b));
    }
    return expr_pair(p, a, b);
}

uint32_t expr_pair(struct expr_pool *p, uint32_t a, uint32_t b)
{
    struct node_key k = {0};

    if (a == EXPR_NONE || b == EXPR_NONE) {
        return EXPR_NONE;
    }
    if (a == EXPR_EPS || b == EXPR_EPS) {
        return a == EXPR_EPS ? b : a;
    }
    k.x.kind = EXPR_K_CAT;
    k.x.a = a;
    k.x.b = b;
    k.x.first = expr_nullable(p, a)
                    ? set_union(p, p->exprs[a].first, p->exprs[b].first)
                    : p->exprs[a].first;
    k.x.flags =
        (uint8_t)(inherited(p, a) | inherited(p, b) |
                  (p->exprs[a].flags & p->exprs[b].flags & EXPR_NULLABLE) |
                  (p->exprs[b].flags & EXPR_ANY_END));
    return node(p, &k);
}

/* ---- OR and AND ---- */

/* Children while they are collected. */
struct children {
    uint32_t *ids;
    uint32_t n, cap;
};

static void collect(struct expr_pool *p, struct children *c, uint32_t e,
                    uint8_t kind)
{
    const struct expr *x = &p->exprs[e];

    if (x->kind == kind) {
        for (uint32_t i = 0; i < x->b; i++) {
            collect(p, c, p->lists[x->a + i], kind);
        }
    } else if (arena_grow(&p->budget, &c->ids, &c->cap, (uint64_t)c->n + 1,
                          sizeof *c->ids)) {
        c->ids[c->n++] = e;
    }
}

static void release(struct expr_pool *p, struct children *c)
{
    p->budget.bytes -= c->cap * sizeof *c->ids;
    free(c->ids);
}

static void sort_children(struct children *c)
{
    uint32_t n = 0;

    if (c->n > 1) {
        qsort(c->ids, c->n, sizeof *c->ids, ascending_u32);
    }
    for (uint32_t i = 0; i < c->n; i++) {
        if (n == 0 || c->ids[i] != c->ids[n - 1]) {
            c->ids[n++] = c->ids[i];
        }
    }
    c->n = n;
}

static bool contains(const struct children *c, uint32_t e)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->ids[i] == e) {
            return true;
        }
    }
    return false;
}

/* Removes what a union has twice: byte sets become one, and any characters of a
 * string cover every other expression that ends with them. */
static void reduce_or(struct expr_pool *p, struct children *c)
{
    bool any = p->any_chars != EXPR_NONE && contains(c, p->any_chars);
    uint32_t n = 0, set = 0;

    for (uint32_t i = 0; i < c->n; i++) {
        uint32_t e = c->ids[i];

        if (p->exprs[e].kind == EXPR_K_SET) {
            set = set_union(p, set, p->exprs[e].a);
        } else if (e != EXPR_NONE &&
                   !(any && e != p->any_chars &&
                     (p->exprs[e].flags & EXPR_ANY_END) != 0)) {
            c->ids[n++] = e;
        }
    }
    if (set != 0) { /* there was one, so there is room */
        c->ids[n++] = leaf(p, EXPR_K_SET, set, 0, set, 0);
    }
    c->n = n;
}

/* The order of children does not matter, so the sorted list is the identity of
 * a union. */
static uint32_t or_children(struct expr_pool *p, struct children *c)
{
    struct node_key k = {0};
    unsigned any_end = EXPR_ANY_END, flags = 0;

    reduce_or(p, c);
    sort_children(c);
    if (p->budget.failed || c->n == 0) {
        return EXPR_NONE;
    }
    if (contains(c, EXPR_ALL)) {
        return EXPR_ALL;
    }
    if (c->n == 1) {
        return c->ids[0];
    }
    for (uint32_t i = 0; i < c->n; i++) {
        const struct expr *x = &p->exprs[c->ids[i]];

        flags |= x->flags & (EXPR_NULLABLE | EXPR_CALLS | EXPR_HAS_AND);
        any_end &= x->flags;
        k.x.first = set_union(p, k.x.first, p->exprs[c->ids[i]].first);
    }
    k.x.kind = EXPR_K_OR;
    k.x.b = c->n;
    k.x.flags = (uint8_t)(flags | any_end);
    k.children = c->ids;
    return node(p, &k);
}

uint32_t expr_or_n(struct expr_pool *p, const uint32_t *es, uint32_t n)
{
    struct children c = {0};
    uint32_t e;

    for (uint32_t i = 0; i < n; i++) {
        collect(p, &c, es[i], EXPR_K_OR);
    }
    e = or_children(p, &c);
    release(p, &c);
    return e;
}

uint32_t expr_or(struct expr_pool *p, uint32_t a, uint32_t b)
{
    const uint32_t es[2] = {a, b};

    if (a == b || b == EXPR_NONE) {
        return a;
    }
    return a == EXPR_NONE ? b : expr_or_n(p, es, 2);
}

/* Returns whether an intersection's children exclude one another, and removes
 * those that restrict nothing.  Any characters restrict complements only, as
 * everything else in an intersection is inside them. */
static bool reduce_and(struct expr_pool *p, struct children *c)
{
    bool nullable = true, eps = false, positive = false;
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n; i++) {
        uint32_t e = c->ids[i];

        nullable = nullable && expr_nullable(p, e);
        eps = eps || e == EXPR_EPS;
        positive =
            positive || (p->exprs[e].kind != EXPR_K_NOT && e != p->any_chars);
        if (e == EXPR_NONE || (p->exprs[e].kind == EXPR_K_NOT &&
                               e != EXPR_ALL && contains(c, p->exprs[e].a))) {
            return false;
        }
    }
    if (eps) {
        c->ids[0] = EXPR_EPS;
        c->n = 1;
        return nullable;
    }
    for (uint32_t i = 0; i < c->n; i++) {
        uint32_t e = c->ids[i];

        if (e != EXPR_ALL && !(positive && e == p->any_chars)) {
            c->ids[n++] = e;
        }
    }
    c->n = n;
    return true;
}

static uint32_t and_children(struct expr_pool *p, struct children *c)
{
    struct node_key k = {0};
    unsigned flags = EXPR_NULLABLE;

    sort_children(c);
    if (!reduce_and(p, c) || p->budget.failed) {
        return EXPR_NONE;
    }
    if (c->n < 2) {
        return c->n == 0 ? EXPR_ALL : c->ids[0];
    }
    k.x.first = 1;
    for (uint32_t i = 0; i < c->n; i++) {
        flags &= p->exprs[c->ids[i]].flags;
        k.x.first = set_common(p, k.x.first, p->exprs[c->ids[i]].first);
    }
    k.x.kind = EXPR_K_AND;
    k.x.b = c->n;
    k.x.flags = (uint8_t)(flags | EXPR_HAS_AND);
    k.children = c->ids;
    return node(p, &k);
}

uint32_t expr_and(struct expr_pool *p, uint32_t a, uint32_t b)
{
    struct children c = {0};
    uint32_t e;

    collect(p, &c, a, EXPR_K_AND);
    collect(p, &c, b, EXPR_K_AND);
    e = and_children(p, &c);
    release(p, &c);
    return e;
}

uint32_t expr_not(struct expr_pool *p, uint32_t a)
{
    if (p->exprs[a].kind == EXPR_K_NOT) {
        return p->exprs[a].a;
    }
    return leaf(p, EXPR_K_NOT, a, 0, 1,
                EXPR_HAS_AND | (expr_nullable(p, a) ? 0 : EXPR_NULLABLE));
}

/* ---- the others ---- */

uint32_t expr_rep(struct expr_pool *p, uint32_t a, uint32_t m, uint32_t n)
{
    struct node_key k = {0};

    if (a == EXPR_NONE) {
        return m == 0 ? EXPR_EPS : EXPR_NONE;
    }
    if (a == EXPR_EPS || n == 0) {
        return EXPR_EPS;
    }
    if (m == 1 && n == 1) {
        return a;
    }
    m = expr_nullable(p, a) ? 0 : m;
    if (p->exprs[a].kind == EXPR_K_REP && p->exprs[a].n == EXPR_INF &&
        p->exprs[a].m == 0) {
        return a;
    }
    k.x.kind = EXPR_K_REP;
    k.x.a = a;
    k.x.m = m;
    k.x.n = n;
    k.x.first = p->exprs[a].first;
    k.x.flags = (uint8_t)(inherited(p, a) | (m == 0 ? EXPR_NULLABLE : 0));
    return node(p, &k);
}

uint32_t expr_opt(struct expr_pool *p, uint32_t a)
{
    return expr_or(p, a, EXPR_EPS);
}

uint32_t expr_call(struct expr_pool *p, uint32_t rule)
{
    return leaf(p, EXPR_K_CALL, rule, 0, 0, EXPR_CALLS);
}

uint32_t expr_object(struct expr_pool *p, uint32_t object)
{
    return leaf(p, EXPR_K_OBJECT, object, 0, 1, EXPR_CALLS);
}

uint32_t expr_mod(struct expr_pool *p, uint32_t modulus, uint32_t rest)
{
    struct byte_set digits = {{0}};
    struct node_key k = {0};

    for (uint8_t b = '0'; b <= '9'; b++) {
        byte_set_add(&digits, b);
    }
    k.x.kind = EXPR_K_MOD;
    k.x.a = modulus;
    k.x.b = rest;
    k.x.first = set_id(p, &digits);
    k.x.flags = rest == 0 ? EXPR_NULLABLE : 0;
    return node(p, &k);
}

uint32_t expr_mark_char(struct expr_pool *p, uint32_t e)
{
    p->exprs[e].flags |= EXPR_CHAR;
    return e;
}
