/* table.h - a hash table of nodes that live inside what they name.
 *
 * Keys are 64 bits; nodes of equal key are all kept, and the caller tells
 * them apart (a 16-byte id is hashed to a key with a secret seed first).
 *
 * Threading: none.  Memory: the buckets, allocated once by table_init(); no
 * other call allocates.  Limits: none; chains grow past the size given. */
#ifndef COMMON_BASE_TABLE_H
#define COMMON_BASE_TABLE_H

#include <stdint.h>

#include "common/base/list.h"

struct table_node {
    struct table_node *next;
    uint64_t key;
};

struct table {
    struct table_node **buckets; /* [1 << bits] */
    uint32_t bits, n;
};

/* Buckets for about `expected` nodes. */
void table_init(struct table *t, uint32_t expected);
/* Forgets the nodes; they are the caller's. */
void table_fini(struct table *t);

void table_add(struct table *t, struct table_node *node, uint64_t key);
/* A no-op if the node is not in the table. */
void table_remove(struct table *t, struct table_node *node);

/* The first node of that key, and the next one of the same; NULL if none. */
struct table_node *table_find(const struct table *t, uint64_t key);
struct table_node *table_next(const struct table_node *node);

#endif
