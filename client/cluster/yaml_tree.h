/* yaml_tree.h - A YAML file as a tree with the place of every node.
 *
 * The subset: one document of maps, lists and scalars.  Anchors, aliases, tags
 * and keys that are no scalars are faults, because a cluster file needs none
 * and an alias can grow a small file to any size.  A key that is twice in a map
 * is a fault, and the first value counts.
 *
 * A syntax error ends the parse.  Any other fault is added, and the parse
 * continues.
 *
 * Threading: none.  Memory: the tree is on the heap; aborts without memory.
 * Limits: TREE_BYTES_MAX, TREE_NODES_MAX, TREE_DEPTH_MAX, TREE_TEXT_MAX. */
#ifndef CLIENT_CLUSTER_YAML_TREE_H
#define CLIENT_CLUSTER_YAML_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "client/cluster/faults.h"

#define TREE_BYTES_MAX (1u << 20)
#define TREE_NODES_MAX 65536
#define TREE_DEPTH_MAX 8
#define TREE_TEXT_MAX  1024

enum tree_kind { TREE_TEXT, TREE_LIST, TREE_MAP };

struct tree_node {
    enum tree_kind kind;
    struct place at;
    char *text; /* TREE_TEXT: no control characters; "" for a null */
    struct tree_node **items; /* [n]; a map has key, value, key, value, ... */
    size_t n, capacity;
    bool twice; /* a key that the map has already; left out in the end */
};

/* Parses bytes[0..n).  Returns the root, or NULL if there is none or the parse
 * ended early; faults then has at least one more item.  The caller frees. */
struct tree_node *yaml_tree_parse(const char *bytes, size_t n,
                                  struct faults *faults);

void yaml_tree_free(struct tree_node **root);

/* Returns the name of a kind with its article: "a map". */
const char *yaml_tree_kind(enum tree_kind kind);

#endif
