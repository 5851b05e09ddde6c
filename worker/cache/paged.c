#include "worker/cache/paged.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* 1 GiB of addresses.  A larger demand is not an error here: sequences that
 * do not fit are refused one by one. */
#define SLAB_NUMBERS_MAX ((uint64_t)1 << 28)
#define SLAB_SHIFT_MIN   4u

bool slab_init(struct slab *s, uint32_t longest, uint64_t values,
               uint32_t n_arrays)
{
    uint64_t pages;

    memset(s, 0, sizeof *s);
    s->shift = SLAB_SHIFT_MIN;
    while (((uint64_t)1 << (2 * s->shift)) < longest) {
        s->shift++;
    }
    /* Each array has a root page and may leave one leaf partly empty. */
    pages = (values >> s->shift) + 2 * (uint64_t)n_arrays + 1;
    if (pages > SLAB_NUMBERS_MAX >> s->shift) {
        pages = SLAB_NUMBERS_MAX >> s->shift;
    }
    s->n_pages = (uint32_t)pages;
    s->free_head = PAGE_NONE;
    s->memory = malloc((size_t)pages * sizeof *s->memory << s->shift);
    return s->memory != NULL;
}

void slab_fini(struct slab *s)
{
    free(s->memory);
    memset(s, 0, sizeof *s);
}

static uint32_t leaves(const struct slab *s, uint32_t n)
{
    return (uint32_t)(((uint64_t)n + (1u << s->shift) - 1) >> s->shift);
}

uint32_t slab_cost(const struct slab *s, uint32_t n)
{
    return n == 0 ? 0 : leaves(s, n) + 1;
}

uint32_t slab_room(const struct slab *s)
{
    return s->n_free + (s->n_pages - s->n_fresh);
}

static uint32_t *page_at(const struct slab *s, uint32_t page)
{
    return s->memory + ((size_t)page << s->shift);
}

static uint32_t page_take(struct slab *s)
{
    uint32_t page = s->free_head;

    /* Fresh pages come last: until one is touched, it costs no memory. */
    if (page == PAGE_NONE) {
        assert(s->n_fresh < s->n_pages);
        return s->n_fresh++;
    }
    s->free_head = page_at(s, page)[0];
    s->n_free--;
    return page;
}

static void page_give(struct slab *s, uint32_t page)
{
    page_at(s, page)[0] = s->free_head;
    s->free_head = page;
    s->n_free++;
}

bool paged_make(struct slab *s, struct paged *a, uint32_t n)
{
    uint32_t *root;

    /* An array of no values is valid and takes no page. */
    *a = (struct paged){.root = PAGE_NONE, .n = n};
    if (n == 0) {
        return true;
    }
    /* Counting is enough, because pages cannot fragment. */
    if (slab_cost(s, n) > slab_room(s) || leaves(s, n) > 1u << s->shift) {
        a->n = 0;
        return false;
    }
    a->n_pages = leaves(s, n);
    a->root = page_take(s);
    root = page_at(s, a->root);
    for (uint32_t i = 0; i < a->n_pages; i++) {
        root[i] = page_take(s);
    }
    return true;
}

static void leaf_give(struct slab *s, uint32_t *root, uint32_t i)
{
    if (root[i] != PAGE_NONE) {
        page_give(s, root[i]);
        root[i] = PAGE_NONE;
    }
}

void paged_free(struct slab *s, struct paged *a)
{
    if (a->root != PAGE_NONE) {
        for (uint32_t i = 0; i < a->n_pages; i++) {
            leaf_give(s, page_at(s, a->root), i);
        }
        page_give(s, a->root);
    }
    *a = (struct paged){.root = PAGE_NONE};
}

void paged_keep(struct slab *s, struct paged *a, uint32_t begin, uint32_t end)
{
    if (a->root == PAGE_NONE) {
        return;
    }
    /* Pages go back one leaf at a time; the root stays, as the array does. */
    for (uint32_t i = 0; i < a->n_pages; i++) {
        if (end <= begin || i < begin >> s->shift || i >= leaves(s, end)) {
            leaf_give(s, page_at(s, a->root), i);
        }
    }
}

/* Returns the values at `at`, and in *run how many of them, at most n, lie in
 * the same leaf. */
static uint32_t *run_at(const struct slab *s, const struct paged *a,
                        uint32_t at, uint32_t n, uint32_t *run)
{
    uint32_t in_page = at & ((1u << s->shift) - 1);
    uint32_t left = (1u << s->shift) - in_page;
    uint32_t leaf = page_at(s, a->root)[at >> s->shift];

    /* A leaf that paged_keep() gave back holds another array's values now. */
    assert(leaf != PAGE_NONE);
    *run = n < left ? n : left;
    return page_at(s, leaf) + in_page;
}

void paged_write(struct slab *s, const struct paged *a, uint32_t at,
                 const uint32_t *in, uint32_t n)
{
    uint32_t run;

    assert(at <= a->n && n <= a->n - at);
    for (; n > 0; at += run, in += run, n -= run) {
        uint32_t *p = run_at(s, a, at, n, &run);

        memcpy(p, in, run * sizeof *in);
    }
}

void paged_read(const struct slab *s, const struct paged *a, uint32_t at,
                uint32_t *out, uint32_t n)
{
    uint32_t run;

    assert(at <= a->n && n <= a->n - at);
    for (; n > 0; at += run, out += run, n -= run) {
        const uint32_t *p = run_at(s, a, at, n, &run);

        memcpy(out, p, run * sizeof *out);
    }
}

uint32_t paged_get(const struct slab *s, const struct paged *a, uint32_t at)
{
    uint32_t value;

    paged_read(s, a, at, &value, 1);
    return value;
}

struct id_pages paged_pages(const struct slab *s, const struct paged *a)
{
    return (struct id_pages){.memory = s->memory,
                             .n_pages = s->n_pages,
                             .root = a->root,
                             .shift = s->shift};
}
