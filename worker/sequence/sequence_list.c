#include "worker/sequence/sequence_list.h"

#include "worker/sequence/sequence.h"

void sequence_insert(struct sequence_list *l, struct sequence *s,
                     struct sequence *at)
{
    struct sequence_node *n = &s->links[l->link];
    struct sequence *prev = at != NULL ? at->links[l->link].prev : l->tail;

    *n = (struct sequence_node){.prev = prev, .next = at, .list = l};
    if (prev != NULL) {
        prev->links[l->link].next = s;
    } else {
        l->head = s;
    }
    if (at != NULL) {
        at->links[l->link].prev = s;
    } else {
        l->tail = s;
    }
    l->n++;
}

void sequence_push(struct sequence_list *l, struct sequence *s)
{
    /* One push is a move: rows rotate, and a prefill becomes a decode. */
    if (s->links[l->link].list != NULL) {
        sequence_unlink(s, l->link);
    }
    sequence_insert(l, s, NULL);
}

void sequence_unlink(struct sequence *s, enum sequence_in link)
{
    struct sequence_node *n = &s->links[link];
    struct sequence_list *l = n->list;

    if (l == NULL) {
        return;
    }
    if (n->prev != NULL) {
        n->prev->links[link].next = n->next;
    } else {
        l->head = n->next;
    }
    if (n->next != NULL) {
        n->next->links[link].prev = n->prev;
    } else {
        l->tail = n->prev;
    }
    l->n--;
    *n = (struct sequence_node){0};
}

struct sequence *sequence_next(const struct sequence *s, enum sequence_in link)
{
    return s->links[link].next;
}

bool sequence_is_linked(const struct sequence *s, enum sequence_in link)
{
    return s->links[link].list != NULL;
}
