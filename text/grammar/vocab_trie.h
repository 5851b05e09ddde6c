/* vocab_trie.h - The tokens of a vocabulary by their bytes.
 *
 * Nodes stand in preorder: those below node i are i + 1 up to its `end`.  A
 * walk that is refused at a node goes on at its end, so its time is the nodes
 * that a grammar allows and their siblings.
 *
 * Threading: any number of readers.  Memory: 12 bytes per node and 4 per id, to
 * vocab_trie_fini(). */
#ifndef TEXT_GRAMMAR_VOCAB_TRIE_H
#define TEXT_GRAMMAR_VOCAB_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define VOCAB_NONE UINT32_MAX

struct trie_node {
    uint32_t end;
    uint32_t token; /* VOCAB_NONE: no token ends here */
    uint16_t depth; /* bytes of the prefix that ends here */
    uint8_t byte;
};

struct vocab_trie {
    struct trie_node *nodes; /* [n] */
    uint32_t n, cap;
    uint32_t *same; /* [n_vocab], another id with the same bytes */
    uint32_t n_vocab;
    uint32_t depth; /* the deepest node's */
};

/* Sets *bytes of an id and returns their number; NULL or 0: never allowed. */
typedef size_t vocab_token_fn(void *arg, uint32_t id, const char **bytes);

/* Builds the trie of ids [0, n_vocab).  Returns ST_RESOURCE_EXHAUSTED: out of
 * memory; ST_OUT_OF_RANGE: a token is longer than 65535 bytes. */
MUST_CHECK enum status vocab_trie_init(struct vocab_trie *t, uint32_t n_vocab,
                                       vocab_token_fn *token, void *arg,
                                       struct error *e);
void vocab_trie_fini(struct vocab_trie *t);

#endif
