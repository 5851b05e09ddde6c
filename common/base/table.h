/* table.h - A hash table of intrusive nodes.
 *
 * Keys are 64 bits.  Nodes with equal keys are all kept, and the caller
 * distinguishes them: a 16-byte id is first hashed to a key with a secret
 * seed.
 *
 * Threading: none.  Memory: the buckets, allocated once by table_init(); no
 * other call allocates.  Without memory a table has TABLE_FEW buckets of its
 * own, and is slow.  Limits: none; chains grow past the size given. */
#ifndef COMMON_BASE_TABLE_H
#define COMMON_BASE_TABLE_H

#include <stdint.h>

#include "common/base/list.h"

struct table_node {
    struct table_node *next;
    uint64_t key;
};

#define TABLE_FEW_BITS 1
#define TABLE_FEW      (1 << TABLE_FEW_BITS)

struct table {
    struct table_node **buckets; /* [1 << bits] */
    uint32_t bits, n;
    struct table_node *few[TABLE_FEW];
};

/* Allocates buckets for about `expected` nodes.  *t must not move. */
void table_init(struct table *t, uint32_t expected);
/* Frees the buckets.  The nodes are the caller's. */
void table_fini(struct table *t);

void table_add(struct table *t, struct table_node *node, uint64_t key);
/* Removes node; a no-op if node is not in the table. */
void table_remove(struct table *t, struct table_node *node);

/* Returns the first node with that key; table_next() returns the next node
 * with the same key.  NULL if there is none. */
struct table_node *table_find(const struct table *t, uint64_t key);
struct table_node *table_next(const struct table_node *node);

#endif
