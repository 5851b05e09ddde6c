/* list.h - Doubly linked rings of intrusive nodes.
 *
 * A head and a node are the same struct.  A node that is in no list points at
 * itself, so list_remove() is idempotent and list_linked() is always legal.
 *
 * Threading: none.  Memory: the caller's; nothing is allocated. */
#ifndef COMMON_BASE_LIST_H
#define COMMON_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next, *prev;
};

/* Expands to the struct around a node. */
#define LIST_OF(node, type, member) \
    ((type *)(void *)((char *)(node)-offsetof(type, member)))

static inline void list_init(struct list *l)
{
    l->next = l;
    l->prev = l;
}

static inline bool list_empty(const struct list *head)
{
    return head->next == head;
}

static inline bool list_linked(const struct list *node)
{
    return node->next != node;
}

/* Inserts node, which is in no list, in front of `at`. */
static inline void list_insert(struct list *at, struct list *node)
{
    node->next = at;
    node->prev = at->prev;
    at->prev->next = node;
    at->prev = node;
}

static inline void list_append(struct list *head, struct list *node)
{
    list_insert(head, node);
}

static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

/* Takes the first node out of the list.  Returns NULL if the list is empty. */
static inline struct list *list_take(struct list *head)
{
    struct list *node = head->next;

    if (node == head) {
        return NULL;
    }
    list_remove(node);
    return node;
}

#endif
