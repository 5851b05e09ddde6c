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
    uint32_t n_window;
    uint32_t beside;
};

/* Limits of a dealing: the pages of a slot and of a window block. */
struct most {
    uint64_t slot, window;
};

static uint64_t group_bytes(const struct page_sizes *s, uint32_t n_quantised,
                            bool has_whole)
{
    return n_quantised * page_align(s->kv_bytes) +
           (has_whole ? page_align(s->whole_bytes) : 0);
}

/* Gives each linear layer to the group that has the fewest for its pages with
 * it.  This order makes the largest ratio, and so the slot, as small as
 * possible. */
static void deal_linear(struct page_layout *l, uint32_t n_linear)
{
    for (uint32_t i = 0; i < n_linear; i++) {
        struct page_group *best = &l->groups[0];

        for (uint32_t j = 1; j < l->n_groups; j++) {
            struct page_group *g = &l->groups[j];

            if ((g->n_linear + UINT64_C(1)) * best->page_bytes <
                (best->n_linear + UINT64_C(1)) * g->page_bytes) {
                best = g;
            }
        }
        best->n_linear++;
    }
}

/* Gives each group its attention layers, in even parts but for the last group,
 * and then the linear layers.  A page that is too small for a window layer is
 * enlarged: then there is one group. */
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
    if (d->n_window > 0 && d->n_groups == 1 &&
        l->groups[0].page_bytes < page_align(s->window_bytes)) {
        l->groups[0].page_bytes = page_align(s->window_bytes);
    }
    deal_linear(l, d->n_linear);
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

/* Returns how many parts of `bytes` each fit in `pages` pages of each group, if
 * no part is in two groups. */
static uint64_t room_for(const struct deal *d, const struct page_sizes *s,
                         uint64_t pages, uint64_t bytes)
{
    uint32_t even = d->n_groups - d->n_whole, n = d->n_quantised - d->beside;
    uint64_t room = 0;

    if (even > 0) {
        uint32_t more = n % even;

        room =
            more * (pages * group_bytes(s, n / even + 1, false) / bytes) +
            (even - more) * (pages * group_bytes(s, n / even, false) / bytes);
    }
    if (d->n_whole > 0) {
        room += pages * group_bytes(s, d->beside, true) / bytes;
    }
    return room;
}

/* Returns whether the linear layers fit in slots of at most so many pages,
 * whichever way they are dealt, and the window layers in window blocks. */
static bool fits(const struct deal *d, const struct page_sizes *s,
                 const struct most *most)
{
    return (d->n_linear == 0 ||
            room_for(d, s, most->slot, page_linear_bytes(s)) >= d->n_linear) &&
           (d->n_window == 0 ||
            most->window * room_for(d, s, 1, page_align(s->window_bytes)) >=
                d->n_window);
}

/* Finds how many quantised layers to put beside the whole one, such that the
 * largest group is as small as possible.  Returns false if there is no way
 * within `limits`. */
static bool find_beside(struct deal *d, const struct page_sizes *s,
                        const struct most *limits)
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
        if (most < least && fits(d, s, limits)) {
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

/* Returns the tables that n window layers need, if each has a page of each
 * group. */
static uint32_t count_tables(const struct page_layout *l, uint32_t n,
                             const struct page_sizes *s)
{
    uint64_t room = 0;

    for (uint32_t i = 0; n > 0 && i < l->n_groups; i++) {
        room += l->groups[i].page_bytes / page_align(s->window_bytes);
    }
    assert(n == 0 || room > 0);
    return n == 0 ? 0 : (uint32_t)((n + room - 1) / room);
}

static void choose_groups(struct page_layout *l, const struct page_sizes *s,
                          struct deal d)
{
    struct deal best;
    struct most most;

    d.n_groups = 1;
    d.beside = d.n_whole > 0 ? d.n_quantised : 0;
    best = d;
    deal_layers(l, &d, s);
    most = (struct most){slot_pages(l, s), count_tables(l, d.n_window, s)};
    for (d.n_groups = 2; d.n_groups <= d.n_quantised + d.n_whole;
         d.n_groups++) {
        d.beside = 0;
        if (d.n_whole > 0 ? find_beside(&d, s, &most) : fits(&d, s, &most)) {
            best = d;
        }
    }
    deal_layers(l, &best, s);
    l->pages_per_slot = slot_pages(l, s);
    l->window_pages = count_tables(l, d.n_window, s);
    assert(l->pages_per_slot <= most.slot && l->window_pages <= most.window);
}

/* Where the next layer of a kind goes: its group, how many layers of the kind
 * are there in front of it, and its table. */
struct place {
    uint32_t group, in, table;
};

/* Moves on past groups that are full. */
static void next_room(struct page_layout *l, struct place *p,
                      const uint32_t *room)
{
    while (p->in == room[p->group]) {
        p->in = 0;
        if (++p->group == l->n_groups) {
            p->group = 0;
            p->table++;
        }
    }
}

static void place_linear(struct page_layout *l, struct page_layer *out,
                         const struct place *p, const struct page_sizes *s)
{
    uint64_t states = l->groups[p->group].n_linear * page_align(s->state_bytes);

    *out = (struct page_layer){.group = p->group,
                               .at = p->in * page_align(s->state_bytes),
                               .tail_at =
                                   states + p->in * page_align(s->tail_bytes)};
}

static void place_window(struct page_layout *l, struct page_layer *out,
                         const struct place *p, const struct page_sizes *s)
{
    assert(p->table < l->window_pages);
    *out = (struct page_layer){.group = p->group,
                               .table = p->table,
                               .at = p->in * page_align(s->window_bytes)};
    l->groups[p->group].n_window++;
}

/* Gives the layers to the groups in order; states come before tails, and the
 * layer that is not quantised behind the others of the last group.  room: how
 * many layers of each kind a group takes, in one table. */
static void place_layers(struct page_layout *l, const enum mixer_kind *kinds,
                         uint32_t n, const struct page_sizes *s,
                         const uint32_t room[][PAGE_LAYERS_MAX])
{
    struct place at[MIXER_WINDOW + 1] = {{0}};

    for (uint32_t i = 0; i < n; i++) {
        struct page_layer *out = &l->layers[i];
        struct place *p = &at[kinds[i]];

        if (i + 1 == s->whole) {
            *out = (struct page_layer){.group = l->n_groups - 1};
            out->at = (l->groups[out->group].n_attention - 1) *
                      page_align(s->kv_bytes);
            continue;
        }
        next_room(l, p, room[kinds[i]]);
        if (kinds[i] == MIXER_DELTANET) {
            place_linear(l, out, p, s);
        } else if (kinds[i] == MIXER_WINDOW) {
            place_window(l, out, p, s);
        } else {
            assert(p->table == 0);
            *out = (struct page_layer){.group = p->group,
                                       .at = p->in * page_align(s->kv_bytes)};
        }
        p->in++;
    }
}

/* Without attention layers the window layers make the pages. */
static void only_windows(struct page_layout *l, const struct page_sizes *s,
                         struct deal d)
{
    struct page_sizes windows = *s;

    windows.kv_bytes = s->window_bytes;
    d.n_quantised = d.n_window;
    choose_groups(l, &windows, d);
    for (uint32_t i = 0; i < l->n_groups; i++) {
        l->groups[i].n_attention = 0;
    }
}

static void find_rooms(const struct page_layout *l, const struct page_sizes *s,
                       uint32_t room[][PAGE_LAYERS_MAX])
{
    for (uint32_t i = 0; i < l->n_groups; i++) {
        const struct page_group *g = &l->groups[i];

        room[MIXER_ATTENTION][i] = g->n_attention;
        room[MIXER_DELTANET][i] = g->n_linear;
        room[MIXER_WINDOW][i] =
            l->window_pages == 0
                ? 0
                : (uint32_t)(g->page_bytes / page_align(s->window_bytes));
    }
}

void page_layout_make(struct page_layout *l, const enum mixer_kind *kinds,
                      uint32_t n, const struct page_sizes *s)
{
    uint32_t room[MIXER_WINDOW + 1][PAGE_LAYERS_MAX];
    uint32_t n_attention = count(kinds, n, MIXER_ATTENTION);
    struct deal d = {.n_quantised = n_attention - (s->whole > 0),
                     .n_whole = s->whole > 0,
                     .n_linear = count(kinds, n, MIXER_DELTANET),
                     .n_window = count(kinds, n, MIXER_WINDOW)};

    assert(n > 0 && n <= PAGE_LAYERS_MAX);
    assert(s->whole <= n);
    assert(s->whole == 0 || kinds[s->whole - 1] == MIXER_ATTENTION);
    l->pages_per_block = n_attention > 0 ? 1 : 0;
    l->window_pages = 0;
    if (n_attention > 0) {
        choose_groups(l, s, d);
    } else if (d.n_window > 0) {
        only_windows(l, s, d);
    } else {
        only_linear(l, n, s);
    }
    find_rooms(l, s, room);
    place_layers(l, kinds, n, s, (const uint32_t(*)[PAGE_LAYERS_MAX])room);
}
