/* objects.h - Members of a JSON object, listed as they may come next.
 *
 * An object of n members in any order has 2^n states.  Only those that a text
 * reaches are made: a state is the members seen, and is unfolded to an
 * expression when the machine steps over it.  In the order of the schema a
 * state is the index of the next member.
 *
 * Threading: one thread at a time.  Memory: the pool's budget. */
#ifndef TEXT_GRAMMAR_OBJECTS_H
#define TEXT_GRAMMAR_OBJECTS_H

#include "text/grammar/expr.h"

/* How texts may differ that mean the same. */
struct grammar_style {
    bool any_order; /* members in any order, not only as in the schema */
    bool spaces;    /* white space between tokens, up to WHITE_SPACE_MAX */
};

#define WHITE_SPACE_MAX 64 /* characters of indentation */

/* A member with a name of its own, or the members whose names match. */
struct member {
    uint32_t key; /* with quotes */
    uint32_t rule;
    bool required;
};

struct object_shape {
    uint32_t members, n_members; /* named ones, in `members` */
    uint32_t others, n_others;   /* the rest, no name of which is above */
    uint32_t least, most;        /* members; EXPR_INF: no limit */
};

struct object_state {
    uint32_t shape;
    uint32_t count; /* members so far, up to what still matters */
    uint32_t seen;  /* index in seen_words, or the index of the next member */
};

struct objects {
    struct expr_pool *p;
    struct grammar_style style;
    struct member *members;
    uint32_t n_members, cap_members;
    struct object_shape *shapes;
    uint32_t n_shapes, cap_shapes;
    struct object_state *states;
    uint32_t n_states, cap_states;
    uint32_t *unfolded; /* [n_states], EXPR_NONE: not yet */
    uint32_t cap_unfolded;
    uint64_t *seen_words;
    uint32_t n_seen, cap_seen;
    struct intern state_table;
    uint32_t space;        /* between tokens */
    uint32_t comma, colon; /* with the space after them */
};

void objects_init(struct objects *o, struct expr_pool *p,
                  const struct grammar_style *style);
void objects_fini(struct objects *o);

/* Returns an expression for the members of an object and its closing brace.
 * Copies the members. */
uint32_t objects_new(struct objects *o, const struct member *named,
                     uint32_t n_named, const struct member *others,
                     uint32_t n_others, uint32_t least, uint32_t most);

/* Returns the expression that a state stands for.  rule_live: as in pool. */
uint32_t objects_unfold(struct objects *o, uint32_t state);

/* Returns whether the rules of all required members are live. */
bool objects_live(const struct objects *o, uint32_t state);

#endif
