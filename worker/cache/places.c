#include "worker/cache/places.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static uint32_t words(const struct places *l)
{
    return (l->per + 63) / 64;
}

/* Lists by fill, with a bit for each list that is not empty: the fullest and
 * the emptiest extent are found without a search of the lists. */
static void list_add(struct places *l, uint32_t i)
{
    struct extent *x = &l->extents[i];
    uint32_t *head;

    /* Full ones are in no list, and the tail is always tried first. */
    if (x->n_blocks == l->per || i == l->n_extents) {
        return;
    }
    head = &l->heads[x->n_blocks];
    x->prev = PLACE_NONE;
    x->next = *head;
    if (*head != PLACE_NONE) {
        l->extents[*head].prev = i;
    }
    *head = i;
    l->filled[x->n_blocks / 64] |= (uint64_t)1 << x->n_blocks % 64;
}

static void list_drop(struct places *l, uint32_t i)
{
    struct extent *x = &l->extents[i];

    if (x->n_blocks == l->per || i == l->n_extents) {
        return;
    }
    if (x->prev != PLACE_NONE) {
        l->extents[x->prev].next = x->next;
    } else {
        l->heads[x->n_blocks] = x->next;
    }
    if (x->next != PLACE_NONE) {
        l->extents[x->next].prev = x->prev;
    }
    if (l->heads[x->n_blocks] == PLACE_NONE) {
        l->filled[x->n_blocks / 64] &= ~((uint64_t)1 << x->n_blocks % 64);
    }
}

bool places_open(struct places *l, uint32_t n_pages, uint32_t per)
{
    memset(l, 0, sizeof *l);
    l->n_pages = l->n_free = n_pages;
    l->per = per;
    l->n_extents = n_pages / per;
    l->extents = calloc((size_t)l->n_extents + 1, sizeof *l->extents);
    l->owners = malloc((n_pages + (size_t)1) * sizeof *l->owners);
    l->heads = malloc(per * sizeof *l->heads);
    l->filled = calloc(words(l), sizeof *l->filled);
    if (l->extents == NULL || l->owners == NULL || l->heads == NULL ||
        l->filled == NULL) {
        places_close(l);
        return false;
    }
    memset(l->owners, 0xff, n_pages * sizeof *l->owners);
    memset(l->heads, 0xff, per * sizeof *l->heads);
    /* Extent 0 is on top, so a light load stays in low pages. */
    for (uint32_t i = l->n_extents; i-- > 0;) {
        list_add(l, i);
    }
    return true;
}

void places_close(struct places *l)
{
    free(l->extents);
    free(l->owners);
    free(l->heads);
    free(l->filled);
    memset(l, 0, sizeof *l);
}

/* Returns the extent with the most blocks that is not full. */
static uint32_t fullest(const struct places *l)
{
    for (uint32_t w = words(l); w-- > 0;) {
        if (l->filled[w] != 0) {
            uint32_t bit = 63 - (uint32_t)__builtin_clzll(l->filled[w]);

            return l->heads[w * 64 + bit];
        }
    }
    return PLACE_NONE;
}

/* The emptiest extent costs the fewest moves when a slot needs it. */
uint32_t places_emptiest(const struct places *l, uint32_t *n_blocks)
{
    for (uint32_t w = 0; w < words(l); w++) {
        if (l->filled[w] != 0) {
            *n_blocks = w * 64 + (uint32_t)__builtin_ctzll(l->filled[w]);
            return l->heads[*n_blocks];
        }
    }
    return PLACE_NONE;
}

static uint32_t extent_pages(const struct places *l, uint32_t i)
{
    return i == l->n_extents ? l->n_pages % l->per : l->per;
}

/* Blocks go where other blocks are already, so that whole extents stay empty
 * for slots, and few blocks have to move.  The tail can never be a slot, so it
 * fills first. */
uint32_t places_take(struct places *l, uint32_t block)
{
    uint32_t i = l->n_extents, first;
    struct extent *x = &l->extents[i];

    if (x->n_blocks == extent_pages(l, i)) {
        i = fullest(l);
        assert(i != PLACE_NONE);
        x = &l->extents[i];
    }
    first = i * l->per;
    /* The hint is at most the lowest free page, so this ends within the extent,
     * and pages are not searched from the first one each time. */
    while (l->owners[first + x->hint] != PLACE_NONE) {
        x->hint++;
    }
    list_drop(l, i);
    l->owners[first + x->hint] = block;
    x->n_blocks++;
    list_add(l, i);
    l->n_free--;
    return first + x->hint;
}

void places_give(struct places *l, uint32_t page)
{
    uint32_t i = page / l->per, at = page % l->per;
    struct extent *x = &l->extents[i];

    assert(l->owners[page] != PLACE_NONE);
    l->owners[page] = PLACE_NONE;
    /* An extent that is claimed loses its blocks but gains no free page. */
    if (x->use != EXTENT_BLOCKS) {
        x->n_blocks--;
        return;
    }
    list_drop(l, i);
    x->n_blocks--;
    x->hint = at < x->hint ? at : x->hint;
    list_add(l, i);
    l->n_free++;
}

/* Its free pages are taken first, so that the blocks that the pool moves out of
 * it next cannot land in it again. */
void places_claim(struct places *l, uint32_t extent, enum extent_use use)
{
    struct extent *x = &l->extents[extent];

    assert(x->use == EXTENT_BLOCKS && extent < l->n_extents);
    list_drop(l, extent);
    l->n_free -= l->per - x->n_blocks;
    x->use = use;
}

void places_yield(struct places *l, uint32_t extent)
{
    struct extent *x = &l->extents[extent];

    assert(x->use != EXTENT_BLOCKS && x->n_blocks == 0);
    x->use = EXTENT_BLOCKS;
    x->hint = 0;
    list_add(l, extent);
    l->n_free += l->per;
}

bool places_is_free(const struct places *l, uint32_t page)
{
    return l->extents[page / l->per].use == EXTENT_BLOCKS &&
           l->owners[page] == PLACE_NONE;
}
