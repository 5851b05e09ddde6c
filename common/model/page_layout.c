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

/* Gives each of n_groups groups its attention layers, in even parts, and then
 * each linear layer to the group that has the fewest for its pages with it.
 * This order makes the largest ratio, and so the slot, as small as possible. */
static void deal_layers(struct page_layout *l, uint32_t n_groups,
                        uint32_t n_attention, uint32_t n_linear)
{
    memset(l->groups, 0, n_groups * sizeof l->groups[0]);
    l->n_groups = n_groups;
    for (uint32_t i = 0; i < n_attention; i++) {
        l->groups[i % n_groups].n_attention++;
    }
    for (uint32_t i = 0; i < n_linear; i++) {
        struct page_group *best = &l->groups[0];

        for (uint32_t j = 1; j < n_groups; j++) {
            struct page_group *g = &l->groups[j];

            if ((g->n_linear + UINT64_C(1)) * best->n_attention <
                (best->n_linear + UINT64_C(1)) * g->n_attention) {
                best = g;
            }
        }
        best->n_linear++;
    }
}

/* Sets the page of each group.  Returns the pages of a slot. */
static uint32_t size_groups(struct page_layout *l, const struct page_sizes *s)
{
    uint64_t most = 0;

    l->page_bytes = 0;
    for (uint32_t i = 0; i < l->n_groups; i++) {
        struct page_group *g = &l->groups[i];
        uint64_t slot = g->n_linear * page_linear_bytes(s), n;

        g->page_bytes = g->n_attention > 0
                            ? g->n_attention * page_align(s->kv_bytes)
                            : slot;
        n = (slot + g->page_bytes - 1) / g->page_bytes;
        most = n > most ? n : most;
        l->page_bytes += g->page_bytes;
    }
    return (uint32_t)most;
}

static void choose_groups(struct page_layout *l, const struct page_sizes *s,
                          uint32_t n_attention, uint32_t n_linear)
{
    uint32_t best = 1, least;

    /* One class only: each layer is a group. */
    if (n_attention == 0) {
        l->n_groups = n_linear;
        for (uint32_t i = 0; i < n_linear; i++) {
            l->groups[i] = (struct page_group){.n_linear = 1};
        }
        l->pages_per_slot = size_groups(l, s);
        return;
    }
    deal_layers(l, 1, n_attention, n_linear);
    least = size_groups(l, s);
    for (uint32_t g = 2; g <= n_attention; g++) {
        deal_layers(l, g, n_attention, n_linear);
        best = size_groups(l, s) <= least ? g : best;
    }
    deal_layers(l, best, n_attention, n_linear);
    l->pages_per_slot = size_groups(l, s);
}

/* Gives the layers to the groups in order; states come before tails. */
static void place_layers(struct page_layout *l, const enum mixer_kind *kinds,
                         uint32_t n, const struct page_sizes *s)
{
    uint32_t attention = 0, linear = 0, in_attention = 0, in_linear = 0;

    for (uint32_t i = 0; i < n; i++) {
        struct page_layer *p = &l->layers[i];
        bool is_linear = kinds[i] == MIXER_DELTANET;
        uint32_t *group = is_linear ? &linear : &attention;
        uint32_t *in = is_linear ? &in_linear : &in_attention;

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

    assert(n > 0 && n <= MODEL_LAYERS_MAX);
    l->pages_per_block = n_attention > 0 ? 1 : 0;
    choose_groups(l, s, n_attention, n - n_attention);
    place_layers(l, kinds, n, s);
}
