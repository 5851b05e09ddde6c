/* mask.h - Allowed tokens of a state, as bits.
 *
 * The tokens that a thread allows inside its rule depend on its expression
 * alone.  They are found by one walk of the trie and kept: as bits, and as the
 * nodes at which the rule may end.  The mask of a state is the union over its
 * threads, and walks below those nodes with the stack.  Inside a string of
 * bounded length the walk of the unbounded one serves all lengths: only tokens
 * with too many characters are removed.
 *
 * Threading: one thread at a time for a cache; shared parts are constant.
 * Memory: MASK_BYTES_MAX of a cache, which is emptied when it is full. */
#ifndef TEXT_GRAMMAR_MASK_H
#define TEXT_GRAMMAR_MASK_H

#include "text/grammar/machine.h"
#include "text/grammar/vocab_trie.h"

#define MASK_BYTES_MAX (64u << 20)

/* Where a token or a rule's end is, in a string that is counted. */
enum mask_place {
    MASK_INSIDE,   /* the token ends inside the string */
    MASK_DEPARTED, /* behind it, still inside the rule */
    MASK_EXIT,     /* the rule ends at this node */
};

struct mask_entry {
    uint32_t id;    /* token, or node of an exit */
    uint16_t count; /* characters of the string; a token has at most 65535 */
    uint8_t place;
};

struct mask_part {
    uint64_t *bits;             /* [n_words]; NULL: tokens */
    uint32_t *tokens;           /* [n_tokens]; of a counted string: indices of
                                 * the entries that leave it */
    uint32_t *exits;            /* [n_exits], nodes */
    struct mask_entry *entries; /* [n_entries], most characters first */
    uint32_t n_tokens, n_exits, n_entries;
    uint32_t cap_tokens, cap_exits, cap_entries;
};

/* Parts of expressions that every grammar has: the rest of a string, in every
 * spelling and in the one spelling, and the same with counted characters. */
#define MASK_SHARED 2

struct mask_shared {
    uint32_t e[MASK_SHARED];
    struct mask_part part[MASK_SHARED], counted[MASK_SHARED];
};

struct mask_cache {
    struct machine *m;
    const struct vocab_trie *trie;
    const struct mask_shared *shared; /* NULL: none */
    struct arena_budget budget;
    struct mask_part *parts; /* [n_parts] */
    uint32_t n_parts, cap_parts;
    struct number_map part_of; /* expression + 1 -> part */
    uint64_t *masks;           /* whole masks, [n_masks][n_words] */
    uint32_t n_masks, cap_masks;
    struct number_map mask_of; /* state + 1 -> mask */
    uint32_t *path;            /* state at each depth, [depth + 1] */
    uint32_t *counts;          /* characters at each depth, [depth + 1] */
    uint32_t n_words;
    struct number_map inside; /* while a string is counted: state + 1 ->
                               * whether it is inside */
};

MUST_CHECK enum status mask_cache_init(struct mask_cache *c, struct machine *m,
                                       const struct vocab_trie *trie,
                                       const struct mask_shared *shared,
                                       struct error *e);
void mask_cache_fini(struct mask_cache *c);

/* Sets bits[n_words] to the tokens that a state allows.  Returns
 * ST_RESOURCE_EXHAUSTED if the grammar's or the cache's memory does not
 * suffice. */
MUST_CHECK enum status mask_of_state(struct mask_cache *c, uint32_t state,
                                     uint64_t *bits, struct error *e);

MUST_CHECK enum status mask_shared_init(struct mask_shared *s,
                                        const struct vocab_trie *trie,
                                        struct error *e);
void mask_shared_fini(struct mask_shared *s);

#endif
