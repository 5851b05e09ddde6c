/* expr_step.c - Derivatives, classes of bytes, and whether a text exists. */
#include <stdlib.h>
#include <string.h>

#include "text/grammar/expr.h"

/* The derivative of a union is made in one go: adding children one by one would
 * sort the list again for each. */
static uint32_t step_list(struct expr_pool *p, const struct expr *x, uint8_t b)
{
    uint32_t e = x->kind == EXPR_K_OR ? EXPR_NONE : EXPR_ALL;
    uint32_t parts[64], n = 0;

    for (uint32_t i = 0; i < x->b; i++) {
        uint32_t d = expr_step(p, p->lists[x->a + i], b);

        if (x->kind == EXPR_K_AND) {
            e = expr_and(p, e, d);
            if (e == EXPR_NONE) {
                return EXPR_NONE;
            }
        } else if (d != EXPR_NONE) {
            parts[n++] = d;
        }
        if (n == 64) {
            e = expr_or(p, e, expr_or_n(p, parts, n));
            n = 0;
        }
    }
    return n > 0 ? expr_or(p, e, expr_or_n(p, parts, n)) : e;
}

/* As a repetition of what may be empty has no least number (expr_rep()), one
 * repetition less is exact. */
static uint32_t step_rep(struct expr_pool *p, const struct expr *x, uint8_t b)
{
    uint32_t d = expr_step(p, x->a, b);

    if (d == EXPR_NONE) {
        return EXPR_NONE;
    }
    return expr_cat(p, d,
                    expr_rep(p, x->a, x->m > 0 ? x->m - 1 : 0,
                             x->n == EXPR_INF ? EXPR_INF : x->n - 1));
}

static uint32_t step_cat(struct expr_pool *p, const struct expr *x, uint8_t b)
{
    bool pair = p->exprs[x->a].kind == EXPR_K_CAT;
    uint32_t d = expr_step(p, x->a, b);

    d = pair ? expr_pair(p, d, x->b) : expr_cat(p, d, x->b);
    if (expr_nullable(p, x->a)) {
        d = expr_or(p, d, expr_step(p, x->b, b));
    }
    return d;
}

static uint32_t step_kind(struct expr_pool *p, const struct expr *x, uint8_t b)
{
    switch ((enum expr_kind)x->kind) {
    case EXPR_K_SET:
        return EXPR_EPS; /* the byte is in `first` */
    case EXPR_K_CAT:
        return step_cat(p, x, b);
    case EXPR_K_OR:
    case EXPR_K_AND:
        return step_list(p, x, b);
    case EXPR_K_NOT:
        return expr_not(p, expr_step(p, x->a, b));
    case EXPR_K_REP:
        return step_rep(p, x, b);
    case EXPR_K_OBJECT:
        return expr_step(p, p->unfold(p->arg, x->a), b);
    case EXPR_K_MOD:
        return expr_mod(p, x->a,
                        (uint32_t)(((uint64_t)x->b * 10 + (b - '0')) % x->a));
    case EXPR_K_NONE:
    case EXPR_K_EPS:
    case EXPR_K_CALL:
        break;
    }
    return EXPR_NONE;
}

uint32_t expr_step(struct expr_pool *p, uint32_t e, uint8_t b)
{
    struct expr x = p->exprs[e]; /* a copy: the array may move */
    uint64_t key = (uint64_t)e << 8 | b;
    uint32_t d;

    if (!byte_set_has(&p->sets[x.first], b)) {
        return EXPR_NONE;
    }
    if (x.kind == EXPR_K_SET) {
        return EXPR_EPS;
    }
    if (number_map_get(&p->steps, key, &d)) {
        return d;
    }
    d = step_kind(p, &x, b);
    if (!p->budget.failed) { /* a step that failed is not the derivative */
        number_map_put(&p->steps, &p->budget, key, d);
    }
    return d;
}

bool expr_matches(struct expr_pool *p, uint32_t e, const char *s, size_t n)
{
    for (size_t i = 0; i < n && e != EXPR_NONE; i++) {
        e = expr_step(p, e, (uint8_t)s[i]);
    }
    return expr_nullable(p, e);
}

/* ---- classes of bytes ---- */

void byte_classes_init(struct byte_classes *c)
{
    memset(c, 0, sizeof *c);
    c->n = 1;
}

/* Gives a byte a class of its own: most sets have one byte, as names do. */
static void split_byte(struct byte_classes *c, uint8_t byte)
{
    uint8_t old = c->of[byte];

    for (unsigned b = 0; b < 256; b++) {
        if (b != byte && c->of[b] == old) {
            c->representative[old] = (uint8_t)b;
            c->representative[c->n] = byte;
            c->of[byte] = (uint8_t)c->n++;
            return;
        }
    }
}

/* Returns the only byte of a set, or -1. */
static int only_byte(const struct byte_set *s)
{
    int byte = -1;

    for (int i = 0; i < 4; i++) {
        if (s->w[i] == 0) {
            continue;
        }
        if (byte >= 0 || (s->w[i] & (s->w[i] - 1)) != 0) {
            return -1;
        }
        byte = i * 64 + __builtin_ctzll(s->w[i]);
    }
    return byte;
}

/* Divides each class into the bytes inside and outside a set. */
static void split(struct byte_classes *c, const struct byte_set *s)
{
    unsigned to[256][2]; /* class and membership -> new class + 1 */
    unsigned n = 0;
    int byte = only_byte(s);

    if (byte >= 0) {
        split_byte(c, (uint8_t)byte);
        return;
    }
    memset(to, 0, sizeof to);
    for (unsigned b = 0; b < 256; b++) {
        unsigned *at = &to[c->of[b]][byte_set_has(s, (uint8_t)b)];

        if (*at == 0) {
            c->representative[n] = (uint8_t)b;
            *at = ++n;
        }
        c->of[b] = (uint8_t)(*at - 1);
    }
    c->n = n;
}

/* An expression is a graph with shared parts: each is visited once. */
static bool visited(struct expr_pool *p, uint32_t e)
{
    if (!arena_grow(&p->budget, &p->marks, &p->cap_marks, (uint64_t)p->cap,
                    sizeof *p->marks) ||
        p->marks[e] == p->epoch) {
        return true;
    }
    p->marks[e] = p->epoch;
    return false;
}

static void refine(struct expr_pool *p, uint32_t e, struct byte_classes *c)
{
    for (;;) {
        struct expr x = p->exprs[e];

        if (visited(p, e)) {
            return;
        }
        if (x.kind == EXPR_K_SET) {
            split(c, &p->sets[x.a]);
        } else if (x.kind == EXPR_K_MOD) {
            for (uint8_t b = '0'; b <= '9'; b++) {
                struct byte_set one = {{0}};

                byte_set_add(&one, b);
                split(c, &one);
            }
        } else if (x.kind == EXPR_K_OR || x.kind == EXPR_K_AND) {
            for (uint32_t i = 0; i < x.b; i++) {
                refine(p, p->lists[x.a + i], c);
            }
        } else if (x.kind == EXPR_K_CAT && expr_nullable(p, x.a)) {
            refine(p, x.a, c);
            e = x.b;
            continue;
        } else if (x.kind == EXPR_K_CAT || x.kind == EXPR_K_NOT ||
                   x.kind == EXPR_K_REP) {
            e = x.a;
            continue;
        } else if (x.kind == EXPR_K_OBJECT) {
            e = p->unfold(p->arg, x.a);
            continue;
        }
        return;
    }
}

void expr_refine(struct expr_pool *p, uint32_t e, struct byte_classes *c)
{
    p->epoch++;
    refine(p, e, c);
}

/* ---- does any text match ---- */

/* A search over the derivatives of one AND. */
struct search {
    uint32_t *todo; /* [n] states, in the order in which they were found */
    uint32_t n, cap;
    struct number_map found; /* state + 1 -> index */
};

/* Adds a state unless it was found before or cannot match. */
static bool search_add(struct expr_pool *p, struct search *s, uint32_t e)
{
    uint32_t i;

    if (e == EXPR_NONE || (p->exprs[e].flags & EXPR_DEAD) != 0 ||
        number_map_get(&s->found, (uint64_t)e + 1, &i)) {
        return false;
    }
    if (arena_grow(&p->budget, &s->todo, &s->cap, (uint64_t)s->n + 1,
                   sizeof *s->todo) &&
        number_map_put(&s->found, &p->budget, (uint64_t)e + 1, s->n)) {
        s->todo[s->n++] = e;
    }
    return true;
}

/* Depth first, as counted repetitions have many states and one short way out.
 * Returns whether the search from e reached a match. */
static bool search_run(struct expr_pool *p, struct search *s)
{
    uint32_t stack[4096], n = 0, at = 0;

    while (!p->budget.failed && (n > 0 || at < s->n)) {
        uint32_t e = n > 0 ? stack[--n] : s->todo[at++];
        struct byte_classes c;

        if (expr_nullable(p, e) || (p->exprs[e].flags & EXPR_LIVE) != 0 ||
            (p->exprs[e].flags & EXPR_HAS_AND) == 0) {
            return true;
        }
        byte_classes_init(&c);
        expr_refine(p, e, &c);
        for (unsigned i = 0; i < c.n; i++) {
            uint32_t d = expr_step(p, e, c.representative[i]);

            if (search_add(p, s, d) && n < 4096) {
                stack[n++] = d;
            }
        }
    }
    return p->budget.failed;
}

static bool and_live(struct expr_pool *p, uint32_t e)
{
    struct search s = {0};
    bool live;

    search_add(p, &s, e);
    live = search_run(p, &s);
    for (uint32_t i = 0; !live && i < s.n; i++) {
        p->exprs[s.todo[i]].flags |= EXPR_DEAD;
    }
    p->budget.bytes -=
        s.cap * sizeof *s.todo +
        s.found.cap * (sizeof *s.found.keys + sizeof *s.found.values);
    free(s.todo);
    free(s.found.keys);
    free(s.found.values);
    return live;
}

static bool live_kind(struct expr_pool *p, const struct expr *x, uint32_t e)
{
    switch ((enum expr_kind)x->kind) {
    case EXPR_K_CAT:
        return expr_live(p, x->a) && expr_live(p, x->b);
    case EXPR_K_OR:
        for (uint32_t i = 0; i < x->b; i++) {
            if (expr_live(p, p->lists[x->a + i])) {
                return true;
            }
        }
        return false;
    case EXPR_K_REP:
        return x->m == 0 || expr_live(p, x->a);
    case EXPR_K_AND:
    case EXPR_K_NOT:
        return and_live(p, e);
    case EXPR_K_CALL:
        return p->calls_live(p->arg, x->a);
    case EXPR_K_OBJECT:
        return p->object_live(p->arg, x->a);
    case EXPR_K_NONE:
        return false;
    case EXPR_K_EPS:
    case EXPR_K_SET:
    case EXPR_K_MOD:
        break;
    }
    return true;
}

bool expr_live(struct expr_pool *p, uint32_t e)
{
    struct expr x = p->exprs[e];
    bool live;

    if ((x.flags & (EXPR_LIVE | EXPR_DEAD)) != 0) {
        return (x.flags & EXPR_LIVE) != 0;
    }
    if ((x.flags & (EXPR_CALLS | EXPR_HAS_AND)) == 0) {
        return e != EXPR_NONE;
    }
    live = live_kind(p, &x, e);
    /* Whether a call is live is not final before all rules are known. */
    if ((p->final || (x.flags & EXPR_CALLS) == 0) && !p->budget.failed) {
        p->exprs[e].flags |= live ? EXPR_LIVE : EXPR_DEAD;
    }
    return live;
}
