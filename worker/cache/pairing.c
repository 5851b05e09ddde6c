#include "worker/cache/pairing.h"

static uint32_t meld(struct pairing *entries, uint32_t a, uint32_t b)
{
    struct pairing *first, *other;
    uint32_t low = a, high = b;

    if (a == PAIRING_NONE || b == PAIRING_NONE) {
        return a == PAIRING_NONE ? b : a;
    }
    if (entries[b].key < entries[a].key) {
        low = b;
        high = a;
    }
    first = &entries[low];
    other = &entries[high];
    other->prev = low;
    other->next = first->child;
    if (other->next != PAIRING_NONE) {
        entries[other->next].prev = high;
    }
    first->child = high;
    return low;
}

/* Melds the siblings from n on, in pairs and then from the last pair back: the
 * two passes are what makes removal logarithmic. */
static uint32_t meld_siblings(struct pairing *entries, uint32_t n)
{
    uint32_t pairs = PAIRING_NONE, root = PAIRING_NONE;

    while (n != PAIRING_NONE) {
        uint32_t other = entries[n].next, next = PAIRING_NONE, pair;

        entries[n].next = PAIRING_NONE;
        if (other != PAIRING_NONE) {
            next = entries[other].next;
            entries[other].next = PAIRING_NONE;
        }
        pair = meld(entries, n, other);
        entries[pair].next = pairs;
        pairs = pair;
        n = next;
    }
    while (pairs != PAIRING_NONE) {
        uint32_t next = entries[pairs].next;

        entries[pairs].next = PAIRING_NONE;
        root = meld(entries, root, pairs);
        pairs = next;
    }
    if (root != PAIRING_NONE) {
        entries[root].prev = PAIRING_NONE;
    }
    return root;
}

uint32_t pairing_add(struct pairing *entries, uint32_t root, uint32_t entry)
{
    struct pairing *n = &entries[entry];

    n->child = n->next = n->prev = PAIRING_NONE;
    return meld(entries, root, entry);
}

uint32_t pairing_drop(struct pairing *entries, uint32_t root, uint32_t entry)
{
    struct pairing *n = &entries[entry];
    uint32_t below = meld_siblings(entries, n->child);

    if (root == entry) {
        return below;
    }
    /* prev is the sibling before it, or the parent of the first. */
    if (entries[n->prev].child == entry) {
        entries[n->prev].child = n->next;
    } else {
        entries[n->prev].next = n->next;
    }
    if (n->next != PAIRING_NONE) {
        entries[n->next].prev = n->prev;
    }
    return meld(entries, root, below);
}
