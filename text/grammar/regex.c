/* regex.c - Trees of patterns to expressions.
 *
 * ^, $ and lookahead look beyond their group, so groups that have them are
 * expanded until they stand in sequences of the whole pattern. */
#include "text/grammar/regex.h"

#include <stdlib.h>
#include <string.h>

#include "text/grammar/grammar_limits.h"
#include "text/grammar/regex_tree.h"

#define ITEMS_MAX  GRAMMAR_PATTERN_MAX /* an item has a byte at least */
#define EXPAND_MAX 4096

struct compiler {
    struct re_tree tree;
    struct expr_pool *p;
    uint32_t any; /* any text */
    unsigned n_expanded;
    bool whole;
    enum status st;
};

static uint32_t plain(struct compiler *c, uint32_t id);

static uint32_t plain_sequence(struct compiler *c, uint32_t id)
{
    uint32_t head;

    if (id == RE_NIL) {
        return EXPR_EPS;
    }
    head = plain(c, id);
    return expr_cat(c->p, head, plain_sequence(c, c->tree.nodes[id].next));
}

/* Compiles a node without anchors. */
static uint32_t plain(struct compiler *c, uint32_t id)
{
    struct re x = c->tree.nodes[id];
    uint32_t e = EXPR_NONE;

    switch (x.kind) {
    case RE_EXPR:
        return x.e;
    case RE_SEQ:
        return plain_sequence(c, x.child);
    case RE_REP:
        return expr_rep(c->p, plain(c, x.child), x.m, x.n);
    case RE_ALT:
        for (uint32_t i = x.child; i != RE_NIL; i = c->tree.nodes[i].next) {
            e = expr_or(c->p, e, plain(c, i));
        }
        return e;
    case RE_BOL:
    case RE_EOL:
    case RE_LOOK:
        break;
    }
    return EXPR_NONE;
}

/* A sequence of nodes that is being expanded. */
struct items {
    uint32_t *ids;
    uint32_t n;
};

static uint32_t expand(struct compiler *c, const struct items *s,
                       bool at_start);

/* Expands the alternatives of a node as whole sequences. */
static uint32_t expand_each(struct compiler *c, uint32_t alt, bool at_start)
{
    uint32_t e = EXPR_NONE;

    for (uint32_t i = c->tree.nodes[alt].child; i != RE_NIL;
         i = c->tree.nodes[i].next) {
        struct items s = {&i, 1};

        e = expr_or(c->p, e, expand(c, &s, at_start));
    }
    return e;
}

/* Replaces item `at` by the children of the sequence `seq`. */
static uint32_t expand_at(struct compiler *c, const struct items *s,
                          uint32_t at, uint32_t seq, bool at_start)
{
    struct items to = {malloc((ITEMS_MAX + 1) * sizeof *to.ids), 0};
    uint32_t i = c->tree.nodes[seq].child, e;

    if (to.ids == NULL || ++c->n_expanded > EXPAND_MAX) {
        c->st = ST_RESOURCE_EXHAUSTED;
        free(to.ids);
        return EXPR_NONE;
    }
    memcpy(to.ids, s->ids, at * sizeof *to.ids);
    for (to.n = at; i != RE_NIL && to.n < ITEMS_MAX;
         i = c->tree.nodes[i].next) {
        to.ids[to.n++] = i;
    }
    if (i != RE_NIL || to.n + s->n - at - 1 > ITEMS_MAX) {
        c->st = ST_RESOURCE_EXHAUSTED;
        free(to.ids);
        return EXPR_NONE;
    }
    memcpy(to.ids + to.n, s->ids + at + 1, (s->n - at - 1) * sizeof *to.ids);
    to.n += s->n - at - 1;
    e = expand(c, &to, at_start);
    free(to.ids);
    return e;
}

/* Compiles items[from..to) in front of e.  Lookahead restricts all that
 * follows. */
static uint32_t join(struct compiler *c, const struct items *s, uint32_t from,
                     uint32_t to, uint32_t e)
{
    while (to-- > from) {
        struct re x = c->tree.nodes[s->ids[to]];

        if (x.kind == RE_LOOK) {
            bool whole = c->whole;
            uint32_t ahead;

            c->whole = false;
            ahead = expand_each(c, x.child, true);
            c->whole = whole;
            e = expr_and(c->p, e, x.m != 0 ? expr_not(c->p, ahead) : ahead);
        } else {
            e = expr_cat(c->p, plain(c, s->ids[to]), e);
        }
    }
    return e;
}

/* Returns whether items[from..to) match the empty text; lookahead there is
 * refused, as it would be judged at another place. */
static bool may_be_empty(struct compiler *c, const struct items *s,
                         uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        enum re_kind kind = c->tree.nodes[s->ids[i]].kind;

        if (kind == RE_LOOK) {
            c->st = ST_UNIMPLEMENTED;
        } else if (kind != RE_BOL && kind != RE_EOL &&
                   !expr_nullable(c->p, plain(c, s->ids[i]))) {
            return false;
        }
    }
    return true;
}

/* Compiles a sequence whose anchors all stand in it. */
static uint32_t flat(struct compiler *c, const struct items *s, bool at_start)
{
    uint32_t from = 0, to = s->n, e;

    for (uint32_t i = 0; i < s->n; i++) {
        enum re_kind kind = c->tree.nodes[s->ids[i]].kind;

        if (kind == RE_BOL) {
            from = i + 1;
        } else if (kind == RE_EOL && to == s->n) {
            to = i;
        }
    }
    if (from > 0 && !may_be_empty(c, s, 0, from)) {
        return EXPR_NONE;
    }
    if (to < s->n && !may_be_empty(c, s, to, s->n)) {
        return EXPR_NONE;
    }
    if (from > to) { /* $ before ^: the empty text, if at all */
        return may_be_empty(c, s, 0, s->n) ? EXPR_EPS : EXPR_NONE;
    }
    e = join(c, s, from, to, to < s->n || c->whole ? EXPR_EPS : c->any);
    return from > 0 || at_start ? e : expr_cat(c->p, c->any, e);
}

static uint32_t expand(struct compiler *c, const struct items *s, bool at_start)
{
    for (uint32_t i = 0; i < s->n && c->st == ST_OK; i++) {
        struct re x = c->tree.nodes[s->ids[i]];
        uint32_t e = EXPR_NONE;

        if (x.kind == RE_SEQ) {
            return expand_at(c, s, i, s->ids[i], at_start);
        }
        if (x.kind != RE_ALT || !x.anchors) {
            continue;
        }
        for (uint32_t j = x.child; j != RE_NIL; j = c->tree.nodes[j].next) {
            e = expr_or(c->p, e, expand_at(c, s, i, j, at_start));
        }
        return e;
    }
    return flat(c, s, at_start);
}

enum status regex_compile(struct expr_pool *p,
                          const struct char_constants *constants, const char *s,
                          size_t n, enum regex_mode mode, uint32_t *out,
                          struct error *e)
{
    struct compiler c = {.p = p,
                         .tree = {.p = p, .json = mode == REGEX_SEARCH},
                         .whole = mode == REGEX_WHOLE};
    uint32_t root;

    c.any = mode == REGEX_SEARCH ? p->any_chars
                                 : expr_rep(p, constants->raw, 0, EXPR_INF);
    c.st = re_parse(&c.tree, s, n, &root, e);
    if (c.st == ST_OK) {
        *out = expand_each(&c, root, mode == REGEX_WHOLE);
        if (p->budget.failed || c.st == ST_RESOURCE_EXHAUSTED) {
            c.st = error_set(e, ST_RESOURCE_EXHAUSTED,
                             "pattern: GRAMMAR_BYTES_MAX is exceeded");
        } else if (c.st == ST_UNIMPLEMENTED) {
            error_set(e, c.st,
                      "pattern: lookahead before ^ or behind $ is not "
                      "supported");
        }
    }
    re_tree_fini(&c.tree);
    return c.st;
}
