#include "common/model/page_layout.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

uint64_t page_linear_bytes(const struct page_sizes *s)
{
    return page_align(s->state_bytes) + page_align(s->tail_bytes);
}

static uint32_t count(const enum mixer_kind *kinds, uint32_t n,
                      enum mixer_kind kind)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        sum += kinds[i] == kind;
    }
    return sum;
}

/* How many layers of each kind there are.  The last group has the layer that
 * is not quantised, if there is one, and beside it `beside` quantised ones. */
struct deal {
    uint32_t n_groups;
    uint32_t n_quantised, n_whole, n_linear; /* n_whole: 0 or 1 */
    uint32_t beside;
};

static uint64_t group_bytes(const struct page_sizes *s, uint32_t n_quantised,
                            bool has_whole)
{
    return n_quantised * page_align(s->kv_bytes) +
           (has_whole ? page_align(s->whole_bytes) : 0);
}

/* Gives each group its attention layers, in even parts but for the last group,
 * and then each linear layer to the group that has the fewest for its pages
 * with it.  This order makes the largest ratio, and so the slot, as small as
 * possible. */
static void deal_layers(struct page_layout *l, const struct deal *d,
                        const struct page_sizes *s)
{
    uint32_t even = d->n_groups - d->n_whole;

    memset(l->groups, 0, d->n_groups * sizeof l->groups[0]);
    l->n_groups = d->n_groups;
    for (uint32_t i = 0; i < even; i++) {
        uint32_t n = d->n_quantised - d->beside;

        l->groups[i].n_attention = n / even + (i < n % even);
        l->groups[i].page_bytes =
            group_bytes(s, l->groups[i].n_attention, false);
    }
    if (d->n_whole > 0) {
        l->groups[even].n_attention = d->beside + 1;
        l->groups[even].page_bytes = group_bytes(s, d->beside, true);
    }
    for (uint32_t i = 0; i < d->n_linear; i++) {
        struct page_group *best = &l->groups[0];

        for (uint32_t j = 1; j < d->n_groups; j++) {
            struct page_group *g = &l->groups[j];

            if ((g->n_linear + UINT64_C(1)) * best->page_bytes <
                (best->n_linear + UINT64_C(1)) * g->page_bytes) {
                best = g;
            }
        }
        best->n_linear++;
    }
}

/* Adds up the pages.  Returns the pages of a slot. */
static uint32_t slot_pages(struct page_layout *l, const struct page_sizes *s)
{
    uint64_t most = 0;

    l->page_bytes = 0;
    for (uint32_t i = 0; i < l->n_groups; i++) {
        struct page_group *g = &l->groups[i];
        uint64_t slot = g->n_linear * page_linear_bytes(s);
        uint64_t n = (slot + g->page_bytes - 1) / g->page_bytes;

        most = n > most ? n : most;
        l->page_bytes += g->page_bytes;
    }
    return (uint32_t)most;
}

/* Returns whether the linear layers fit in slots of that many pages, whichever
 * way they are dealt. */
static bool fits(const struct deal *d, const struct page_sizes *s,
                 uint64_t pages)
{
    uint64_t linear = page_linear_bytes(s), room = 0;
    uint32_t even = d->n_groups - d->n_whole, n = d->n_quantised - d->beside;

    if (d->n_linear == 0) {
        return true;
    }
    if (even > 0) {
        uint32_t more = n % even;

        room =
            more * (pages * group_bytes(s, n / even + 1, false) / linear) +
            (even - more) * (pages * group_bytes(s, n / even, false) / linear);
    }
    if (d->n_whole > 0) {
        room += pages * group_bytes(s, d->beside, true) / linear;
    }
    return room >= d->n_linear;
}

/* Finds how many quantised layers to put beside the whole one, such that the
 * largest group is as small as possible.  Returns false if there is no way in
 * slots of that many pages. */
static bool find_beside(struct deal *d, const struct page_sizes *s,
                        uint64_t pages)
{
    uint32_t even = d->n_groups - d->n_whole, best = 0;
    uint64_t least = UINT64_MAX;

    for (uint32_t b = 0; b + even <= d->n_quantised; b++) {
        uint32_t n = d->n_quantised - b;
        uint64_t whole = group_bytes(s, b, true), most = whole;

        if (even > 0) {
            uint64_t other = group_bytes(s, (n + even - 1) / even, false);

            most = other > most ? other : most;
        }
        d->beside = b;
        if (most < least && fits(d, s, pages)) {
            least = most;
            best = b;
        }
    }
    d->beside = best;
    return least < UINT64_MAX;
}

/* One class only: each layer is a group, and a page is a slot. */
static void only_linear(struct page_layout *l, uint32_t n_linear,
                        const struct page_sizes *s)
{
    l->n_groups = n_linear;
    for (uint32_t i = 0; i < n_linear; i++) {
        l->groups[i] = (struct page_group){.n_linear = 1,
                                           .page_bytes = page_linear_bytes(s)};
    }
    l->pages_per_slot = slot_pages(l, s);
}

static void choose_groups(struct page_layout *l, const struct page_sizes *s,
                          struct deal d)
{
    struct deal best;
    uint64_t pages;

    d.n_groups = 1;
    d.beside = d.n_whole > 0 ? d.n_quantised : 0;
    best = d;
    deal_layers(l, &d, s);
    pages = slot_pages(l, s);
    for (d.n_groups = 2; d.n_groups <= d.n_quantised + d.n_whole;
         d.n_groups++) {
        d.beside = 0;
        if (d.n_whole > 0 ? find_beside(&d, s, pages) : fits(&d, s, pages)) {
            best = d;
        }
    }
    deal_layers(l, &best, s);
    l->pages_per_slot = slot_pages(l, s);
    assert(l->pages_per_slot <= pages);
}

/* Gives the layers to the groups in order; states come before tails, and the
 * layer that is not quantised behind the others of the last group. */
static void place_layers(struct page_layout *l, const enum mixer_kind *kinds,
                         uint32_t n, const struct page_sizes *s)
{
    uint32_t attention = 0, linear = 0, in_attention = 0, in_linear = 0;

    for (uint32_t i = 0; i < n; i++) {
        struct page_layer *p = &l->layers[i];
        bool is_linear = kinds[i] == MIXER_DELTANET;
        uint32_t *group = is_linear ? &linear : &attention;
        uint32_t *in = is_linear ? &in_linear : &in_attention;

        if (i + 1 == s->whole) {
            *p = (struct page_layer){.group = l->n_groups - 1};
            p->at =
                (l->groups[p->group].n_attention - 1) * page_align(s->kv_bytes);
            continue;
        }
        while (*in == (is_linear ? l->groups[*group].n_linear
                                 : l->groups[*group].n_attention)) {
            ++*group;
            *in = 0;
            assert(*group < l->n_groups);
        }
        *p = (struct page_layer){.group = *group};
        if (is_linear) {
            p->at = *in * page_align(s->state_bytes);
            p->tail_at =
                l->groups[*group].n_linear * page_align(s->state_bytes) +
                *in * page_align(s->tail_bytes);
        } else {
            p->at = *in * page_align(s->kv_bytes);
        }
        ++*in;
    }
}

void page_layout_make(struct page_layout *l, const enum mixer_kind *kinds,
                      uint32_t n, const struct page_sizes *s)
{
    uint32_t n_attention = count(kinds, n, MIXER_ATTENTION);
    struct deal d = {.n_quantised = n_attention - (s->whole > 0),
                     .n_whole = s->whole > 0,
                     .n_linear = n - n_attention};

    assert(n > 0 && n <= MODEL_LAYERS_MAX);
    assert(s->whole <= n);
    assert(s->whole == 0 || kinds[s->whole - 1] == MIXER_ATTENTION);
    l->pages_per_block = n_attention > 0 ? 1 : 0;
    if (n_attention == 0) {
        only_linear(l, n, s);
    } else {
        choose_groups(l, s, d);
    }
    place_layers(l, kinds, n, s);
}
