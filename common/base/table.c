#include "common/base/table.h"

#include <stdlib.h>
#include <string.h>

/* The bounds keep a table of few nodes small and the buckets of a huge option
 * value within 8 MiB. */
#define TABLE_BITS_MIN 4
#define TABLE_BITS_MAX 20

void table_init(struct table *t, uint32_t expected)
{
    t->bits = TABLE_BITS_MIN;
    t->n = 0;
    while (t->bits < TABLE_BITS_MAX && (1u << t->bits) < expected) {
        t->bits++;
    }
    t->buckets = calloc((size_t)1 << t->bits, sizeof *t->buckets);
    if (t->buckets == NULL) {
        memset(t->few, 0, sizeof t->few);
        t->buckets = t->few;
        t->bits = TABLE_FEW_BITS;
    }
}

void table_fini(struct table *t)
{
    if (t->buckets != t->few) {
        free(t->buckets);
    }
    t->buckets = NULL;
}

static struct table_node **bucket(const struct table *t, uint64_t key)
{
    /* Keys are hashes, or numbers counted from 1; multiplying by the golden
     * ratio spreads both (Knuth, volume 3, section 6.4). */
    return &t->buckets[(key * 0x9e3779b97f4a7c15u) >> (64 - t->bits)];
}

void table_add(struct table *t, struct table_node *node, uint64_t key)
{
    struct table_node **b = bucket(t, key);

    node->key = key;
    node->next = *b;
    *b = node;
    t->n++;
}

void table_remove(struct table *t, struct table_node *node)
{
    struct table_node **at = bucket(t, node->key);

    while (*at != NULL && *at != node) {
        at = &(*at)->next;
    }
    if (*at == node) {
        *at = node->next;
        node->next = NULL;
        t->n--;
    }
}

static struct table_node *match(struct table_node *node, uint64_t key)
{
    while (node != NULL && node->key != key) {
        node = node->next;
    }
    return node;
}

struct table_node *table_find(const struct table *t, uint64_t key)
{
    return match(*bucket(t, key), key);
}

struct table_node *table_next(const struct table_node *node)
{
    return match(node->next, node->key);
}
