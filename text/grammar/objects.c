/* objects.c - States of objects, made when a text reaches them. */
#include "text/grammar/objects.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/base/minmax.h"

void objects_init(struct objects *o, struct expr_pool *p,
                  const struct grammar_style *style)
{
    uint32_t blank = expr_byte(p, ' ');
    uint32_t line =
        expr_cat(p, expr_opt(p, expr_byte(p, '\r')),
                 expr_cat(p, expr_byte(p, '\n'),
                          expr_rep(p, expr_or(p, blank, expr_byte(p, '\t')), 0,
                                   WHITE_SPACE_MAX)));

    memset(o, 0, sizeof *o);
    o->p = p;
    o->style = *style;
    o->space = style->spaces ? expr_opt(p, expr_or(p, blank, line)) : EXPR_EPS;
    o->comma = expr_cat(p, o->space, expr_cat(p, expr_byte(p, ','), o->space));
    o->colon = expr_cat(p, o->space, expr_cat(p, expr_byte(p, ':'), o->space));
}

void objects_fini(struct objects *o)
{
    free(o->members);
    free(o->shapes);
    free(o->states);
    free(o->unfolded);
    free(o->seen_words);
    free(o->state_table.slots);
    memset(o, 0, sizeof *o);
}

/* ---- states ---- */

struct state_key {
    struct object_state s;
    const uint64_t *words; /* of s.seen; NULL: it is an index */
    uint32_t n_words;
};

static uint32_t words_of(const struct objects *o, uint32_t shape)
{
    return o->style.any_order ? ceil_div_u32(o->shapes[shape].n_members, 64)
                              : 0;
}

static bool state_same(const void *owner, uint32_t id, const void *key)
{
    const struct objects *o = owner;
    const struct state_key *k = key;
    const struct object_state *s = &o->states[id];

    if (s->shape != k->s.shape || s->count != k->s.count) {
        return false;
    }
    return k->n_words == 0 ? s->seen == k->s.seen
                           : memcmp(&o->seen_words[s->seen], k->words,
                                    k->n_words * sizeof *k->words) == 0;
}

static uint64_t state_hash(const struct state_key *k)
{
    uint64_t h = ((uint64_t)k->s.shape << 32) + k->s.count;

    return k->n_words == 0
               ? XXH3_64bits_withSeed(&k->s.seen, sizeof k->s.seen, h)
               : XXH3_64bits_withSeed(k->words, k->n_words * sizeof *k->words,
                                      h);
}

/* Returns the expression of a state. */

static uint32_t state_expr(struct objects *o, const struct state_key *k)
{
    struct arena_budget *b = &o->p->budget;
    uint64_t h = state_hash(k);
    uint32_t id = intern_find(&o->state_table, h, state_same, o, k);

    if (id != UINT32_MAX) {
        return expr_object(o->p, id);
    }
    id = o->n_states;
    if (!arena_grow(b, &o->states, &o->cap_states, (uint64_t)id + 1,
                    sizeof *o->states) ||
        !arena_grow(b, &o->unfolded, &o->cap_unfolded, (uint64_t)id + 1,
                    sizeof *o->unfolded) ||
        !arena_grow(b, &o->seen_words, &o->cap_seen,
                    (uint64_t)o->n_seen + k->n_words, sizeof *o->seen_words) ||
        !intern_add(&o->state_table, b, h, id)) {
        return EXPR_NONE;
    }
    o->states[id] = k->s;
    o->unfolded[id] = EXPR_NONE;
    if (k->n_words > 0) {
        memcpy(&o->seen_words[o->n_seen], k->words,
               k->n_words * sizeof *k->words);
        o->states[id].seen = o->n_seen;
        o->n_seen += k->n_words;
    }
    o->n_states++;
    return expr_object(o->p, id);
}

static bool copy_members(struct objects *o, const struct member *from,
                         uint32_t n, uint32_t *at)
{
    *at = o->n_members;
    if (!arena_grow(&o->p->budget, &o->members, &o->cap_members,
                    (uint64_t)o->n_members + n, sizeof *o->members)) {
        return false;
    }
    if (n > 0) {
        memcpy(&o->members[o->n_members], from, n * sizeof *from);
    }
    o->n_members += n;
    return true;
}

uint32_t objects_new(struct objects *o, const struct member *named,
                     uint32_t n_named, const struct member *others,
                     uint32_t n_others, uint32_t least, uint32_t most)
{
    struct object_shape s = {.n_members = n_named,
                             .n_others = n_others,
                             .least = least,
                             .most = most};
    struct state_key k = {.s = {.shape = o->n_shapes}};
    uint64_t *none;
    uint32_t e;

    if (!copy_members(o, named, n_named, &s.members) ||
        !copy_members(o, others, n_others, &s.others) ||
        !arena_grow(&o->p->budget, &o->shapes, &o->cap_shapes,
                    (uint64_t)o->n_shapes + 1, sizeof *o->shapes)) {
        return EXPR_NONE;
    }
    o->shapes[o->n_shapes++] = s;
    k.n_words = words_of(o, k.s.shape);
    none = calloc(k.n_words + 1, sizeof *none);
    if (none == NULL) {
        o->p->budget.failed = true;
        return EXPR_NONE;
    }
    k.words = none;
    e = state_expr(o, &k);
    free(none);
    return e;
}

/* ---- what may come next ---- */

/* A state while it is unfolded. */
struct unfolding {
    struct objects *o;
    struct object_shape shape;
    struct object_state s;
    uint64_t *words; /* the members seen, [n_words]; changed for each next */
    uint32_t n_words;
    uint32_t required; /* members that must still come */
    uint32_t left;     /* named members that may still come */
    uint32_t *parts;   /* [n]: alternatives */
    uint32_t n;
};

static bool is_seen(const struct unfolding *u, uint32_t i)
{
    return u->n_words == 0 ? i < u->s.seen : u->words[i / 64] >> (i % 64) & 1;
}

static bool rule_live(const struct objects *o, uint32_t rule)
{
    return o->p->calls_live(o->p->arg, rule);
}

/* Counts no further than least and most distinguish. */
static uint32_t next_count(const struct unfolding *u)
{
    uint32_t limit = u->shape.most != EXPR_INF ? u->shape.most : 1;

    limit = max_u32(max_u32(limit, u->shape.least), 1);
    return min_u32(u->s.count + 1, limit);
}

/* Pairs, not sequences: names are long, and each state has all of them. */
static uint32_t member_expr(const struct unfolding *u, const struct member *m,
                            uint32_t rest)
{
    struct expr_pool *p = u->o->p;
    uint32_t e = expr_cat(p, expr_call(p, m->rule), rest);

    e = expr_pair(p, m->key, expr_cat(p, u->o->colon, e));
    return expr_pair(p, u->s.count > 0 ? u->o->comma : u->o->space, e);
}

/* Adds named member i, if the most that are allowed leave room for it and for
 * the required ones behind. */
static void add_named(struct unfolding *u, uint32_t i)
{
    struct member m = u->o->members[u->shape.members + i];
    uint32_t others = u->required - (m.required ? 1 : 0);
    struct state_key k = {.s = u->s, .words = u->words, .n_words = u->n_words};

    if (!rule_live(u->o, m.rule) ||
        (u->shape.most != EXPR_INF &&
         (uint64_t)u->s.count + 1 + others > u->shape.most)) {
        return;
    }
    k.s.count = next_count(u);
    if (u->n_words == 0) {
        k.s.seen = i + 1;
    } else {
        u->words[i / 64] |= (uint64_t)1 << (i % 64);
    }
    u->parts[u->n++] = member_expr(u, &m, state_expr(u->o, &k));
    if (u->n_words > 0) {
        u->words[i / 64] &= ~((uint64_t)1 << (i % 64));
    }
}

/* In the order of the schema an optional member may be passed over only if
 * enough are left. */
static bool may_pass(const struct unfolding *u, uint32_t i, uint32_t passed)
{
    const struct member *m = &u->o->members[u->shape.members + i];

    return !m->required &&
           (u->shape.n_others > 0 ||
            (uint64_t)u->s.count + u->left - passed >= u->shape.least);
}

static void add_members(struct unfolding *u)
{
    uint32_t passed = 0;

    for (uint32_t i = 0; i < u->shape.n_members; i++) {
        if (is_seen(u, i)) {
            continue;
        }
        add_named(u, i);
        passed += rule_live(u->o, u->o->members[u->shape.members + i].rule);
        if (u->n_words == 0 && !may_pass(u, i, passed)) {
            break;
        }
    }
}

/* Other names may repeat, as in JSON the last of equal names counts; each of
 * them satisfies the same rule. */
static void add_others(struct unfolding *u)
{
    struct state_key k = {.s = u->s, .words = u->words, .n_words = u->n_words};

    if (u->shape.most != EXPR_INF &&
        (uint64_t)u->s.count + 1 + u->required > u->shape.most) {
        return;
    }
    k.s.count = next_count(u);
    for (uint32_t i = 0; i < u->shape.n_others; i++) {
        struct member m = u->o->members[u->shape.others + i];

        if (rule_live(u->o, m.rule)) {
            u->parts[u->n++] = member_expr(u, &m, state_expr(u->o, &k));
        }
    }
}

static void count_members(struct unfolding *u)
{
    for (uint32_t i = 0; i < u->shape.n_members; i++) {
        const struct member *m = &u->o->members[u->shape.members + i];

        if (!is_seen(u, i)) {
            u->required += m->required;
            u->left += rule_live(u->o, m->rule);
        }
    }
}

static uint32_t unfold(struct unfolding *u)
{
    struct expr_pool *p = u->o->p;

    count_members(u);
    add_members(u);
    add_others(u);
    if (u->required == 0 && u->s.count >= u->shape.least) {
        u->parts[u->n++] = expr_cat(p, u->o->space, expr_byte(p, '}'));
    }
    return expr_or_n(p, u->parts, u->n);
}

uint32_t objects_unfold(struct objects *o, uint32_t state)
{
    struct unfolding u = {.o = o, .s = o->states[state]};
    uint32_t e;
    size_t n;

    if (o->unfolded[state] != EXPR_NONE) {
        return o->unfolded[state];
    }
    u.shape = o->shapes[u.s.shape];
    u.n_words = words_of(o, u.s.shape);
    n = (size_t)u.shape.n_members + u.shape.n_others + 1;
    u.words = calloc(u.n_words + 1, sizeof *u.words);
    u.parts = malloc(n * sizeof *u.parts);
    if (u.words != NULL && u.parts != NULL) {
        if (u.n_words > 0) {
            memcpy(u.words, &o->seen_words[u.s.seen],
                   u.n_words * sizeof *u.words);
        }
        e = unfold(&u);
        o->unfolded[state] = e; /* which unfold() may have moved */
    } else {
        o->p->budget.failed = true;
    }
    free(u.words);
    free(u.parts);
    return o->unfolded[state];
}

bool objects_live(const struct objects *o, uint32_t state)
{
    const struct object_shape *s = &o->shapes[o->states[state].shape];
    uint32_t required = 0, live = 0;

    for (uint32_t i = 0; i < s->n_members; i++) {
        const struct member *m = &o->members[s->members + i];
        bool one = rule_live(o, m->rule);

        required += m->required;
        live += one;
        if (m->required && !one) {
            return false;
        }
    }
    for (uint32_t i = 0; i < s->n_others; i++) {
        live = rule_live(o, o->members[s->others + i].rule) ? EXPR_INF : live;
    }
    return required <= s->most && live >= s->least && s->least <= s->most;
}
