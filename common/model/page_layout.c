#include "common/model/page_layout.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

uint64_t page_slot_bytes(const struct mixer_slot *s)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < MIXER_PARTS_MAX; i++) {
        sum += page_align(s->parts[i]);
    }
    return sum;
}

static uint32_t count(const enum mixer_kind *kinds, uint32_t n,
                      enum mixer_memory memory)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        sum += mixer_memory(kinds[i]) == memory;
    }
    return sum;
}

/* How many layers of each kind there are.  The last group has the layer that
 * is not quantised, if there is one, and beside it `beside` quantised ones. */
struct deal {
    uint32_t n_groups;
    uint32_t n_quantised, n_whole, n_linear; /* n_whole: 0 or 1 */
    uint32_t n_window;
    uint32_t n_of[MIXER_KINDS]; /* linear layers by kind */
    uint64_t largest, unit;     /* the largest of them; what divides all */
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

/* Returns the group whose slot is the smallest for its pages with `bytes` more.
 * Sizes are compared in units, so that no product overflows with layers of one
 * size. */
static struct page_group *find_group(struct page_layout *l, uint64_t bytes,
                                     uint64_t unit)
{
    struct page_group *best = &l->groups[0];

    for (uint32_t i = 1; i < l->n_groups; i++) {
        struct page_group *g = &l->groups[i];

        if ((g->slot_bytes + bytes) / unit * best->page_bytes <
            (best->slot_bytes + bytes) / unit * g->page_bytes) {
            best = g;
        }
    }
    return best;
}

/* Gives each linear layer to the group that find_group() returns.  With layers
 * of one size this order makes the largest ratio, and so the slot, as small as
 * possible. */
static void deal_linear(struct page_layout *l, const struct deal *d,
                        const struct page_sizes *s)
{
    for (uint32_t kind = 0; kind < MIXER_KINDS; kind++) {
        uint64_t bytes = page_slot_bytes(&s->slots[kind]);

        for (uint32_t i = 0; i < d->n_of[kind]; i++) {
            struct page_group *g = find_group(l, bytes, d->unit);

            g->n_of[kind]++;
            g->n_linear++;
            g->slot_bytes += bytes;
        }
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
    deal_linear(l, d, s);
}

/* Adds up the pages.  Returns the pages of a slot. */
static uint32_t slot_pages(struct page_layout *l)
{
    uint64_t most = 0;

    l->page_bytes = 0;
    for (uint32_t i = 0; i < l->n_groups; i++) {
        struct page_group *g = &l->groups[i];
        uint64_t n = (g->slot_bytes + g->page_bytes - 1) / g->page_bytes;

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
 * whichever way they are dealt, and the window layers in window blocks.  Each
 * linear layer counts as the largest: until all are dealt a group has room for
 * one more, and find_group() returns none that is fuller. */
static bool fits(const struct deal *d, const struct page_sizes *s,
                 const struct most *most)
{
    return (d->n_linear == 0 ||
            room_for(d, s, most->slot, d->largest) >= d->n_linear) &&
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
static void only_linear(struct page_layout *l, const enum mixer_kind *kinds,
                        uint32_t n, const struct page_sizes *s)
{
    l->n_groups = n;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t bytes = page_slot_bytes(&s->slots[kinds[i]]);

        l->groups[i] = (struct page_group){
            .n_linear = 1, .page_bytes = bytes, .slot_bytes = bytes};
        l->groups[i].n_of[kinds[i]] = 1;
    }
    l->pages_per_slot = slot_pages(l);
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
    most = (struct most){slot_pages(l), count_tables(l, d.n_window, s)};
    for (d.n_groups = 2; d.n_groups <= d.n_quantised + d.n_whole;
         d.n_groups++) {
        d.beside = 0;
        if (d.n_whole > 0 ? find_beside(&d, s, &most) : fits(&d, s, &most)) {
            best = d;
        }
    }
    deal_layers(l, &best, s);
    l->pages_per_slot = slot_pages(l);
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

static void place_window(struct page_layout *l, struct page_layer *out,
                         const struct place *p, const struct page_sizes *s)
{
    assert(p->table < l->window_pages);
    *out = (struct page_layer){.group = p->group,
                               .table = p->table,
                               .at = {p->in * page_align(s->window_bytes)}};
    l->groups[p->group].n_window++;
}

static void place_block(struct page_layer *out, const struct place *p,
                        const struct page_sizes *s)
{
    assert(p->table == 0);
    *out = (struct page_layer){.group = p->group,
                               .at = {p->in * page_align(s->kv_bytes)}};
}

/* Returns the kind whose rooms a kind uses: linear layers of each kind have
 * their own, because their sizes differ. */
static uint32_t room_kind(uint32_t kind)
{
    enum mixer_memory memory = mixer_memory((enum mixer_kind)kind);
    uint32_t first = 0;

    while (mixer_memory((enum mixer_kind)first) != memory) {
        first++;
    }
    return memory == MIXER_IN_SLOT ? kind : first;
}

/* Gives the layers to the groups in order; the layer that is not quantised
 * comes behind the others of the last group.  room: how many layers of each
 * kind a group takes, in one table. */
static void place_layers(struct page_layout *l, const enum mixer_kind *kinds,
                         uint32_t n, const struct page_sizes *s,
                         const uint32_t room[][PAGE_LAYERS_MAX])
{
    struct place at[MIXER_KINDS] = {{0}};

    for (uint32_t i = 0; i < n; i++) {
        struct page_layer *out = &l->layers[i];
        struct place *p = &at[room_kind(kinds[i])];

        if (i + 1 == s->whole) {
            *out = (struct page_layer){.group = l->n_groups - 1};
            out->at[0] = (l->groups[out->group].n_attention - 1) *
                         page_align(s->kv_bytes);
            continue;
        }
        next_room(l, p, room[room_kind(kinds[i])]);
        switch (mixer_memory(kinds[i])) {
        case MIXER_IN_BLOCKS:
            place_block(out, p, s);
            break;
        case MIXER_IN_WINDOWS:
            place_window(l, out, p, s);
            break;
        case MIXER_IN_SLOT:
            *out = (struct page_layer){.group = p->group};
            break;
        }
        p->in++;
    }
}

/* Places one part of the states of all linear layers behind `ends`, where the
 * parts before end in each group. */
static void place_part(struct page_layout *l, const enum mixer_kind *kinds,
                       uint32_t n, const struct page_sizes *s, uint32_t part,
                       uint64_t *ends)
{
    for (uint32_t i = 0; i < n; i++) {
        struct page_layer *p = &l->layers[i];

        if (mixer_memory(kinds[i]) == MIXER_IN_SLOT) {
            p->at[part] = ends[p->group];
            ends[p->group] += page_align(s->slots[kinds[i]].parts[part]);
        }
    }
}

static void place_states(struct page_layout *l, const enum mixer_kind *kinds,
                         uint32_t n, const struct page_sizes *s)
{
    uint64_t ends[PAGE_LAYERS_MAX] = {0};

    for (uint32_t part = 0; part < MIXER_PARTS_MAX; part++) {
        place_part(l, kinds, n, s, part, ends);
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

static uint32_t room_of(const struct page_layout *l, const struct page_sizes *s,
                        uint32_t kind, const struct page_group *g)
{
    switch (mixer_memory((enum mixer_kind)kind)) {
    case MIXER_IN_BLOCKS:
        return g->n_attention;
    case MIXER_IN_WINDOWS:
        return l->window_pages == 0
                   ? 0
                   : (uint32_t)(g->page_bytes / page_align(s->window_bytes));
    default:
        return g->n_of[kind];
    }
}

static void find_rooms(const struct page_layout *l, const struct page_sizes *s,
                       uint32_t room[][PAGE_LAYERS_MAX])
{
    for (uint32_t kind = 0; kind < MIXER_KINDS; kind++) {
        for (uint32_t i = 0; i < l->n_groups; i++) {
            room[kind][i] = room_of(l, s, kind, &l->groups[i]);
        }
    }
}

static uint64_t divisor(uint64_t a, uint64_t b)
{
    while (b > 0) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* Counts the linear layers by kind, and sets their largest size and what
 * divides all sizes. */
static void count_linear(struct deal *d, const enum mixer_kind *kinds,
                         uint32_t n, const struct page_sizes *s)
{
    d->unit = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (mixer_memory(kinds[i]) == MIXER_IN_SLOT) {
            uint64_t bytes = page_slot_bytes(&s->slots[kinds[i]]);

            d->n_of[kinds[i]]++;
            d->largest = bytes > d->largest ? bytes : d->largest;
            d->unit = divisor(bytes, d->unit);
        }
    }
    d->unit = d->unit > 0 ? d->unit : 1;
}

void page_layout_make(struct page_layout *l, const enum mixer_kind *kinds,
                      uint32_t n, const struct page_sizes *s)
{
    uint32_t room[MIXER_KINDS][PAGE_LAYERS_MAX];
    uint32_t n_attention = count(kinds, n, MIXER_IN_BLOCKS);
    struct deal d = {.n_quantised = n_attention - (s->whole > 0),
                     .n_whole = s->whole > 0,
                     .n_linear = count(kinds, n, MIXER_IN_SLOT),
                     .n_window = count(kinds, n, MIXER_IN_WINDOWS)};

    assert(n > 0 && n <= PAGE_LAYERS_MAX);
    assert(s->whole <= n);
    assert(s->whole == 0 ||
           mixer_memory(kinds[s->whole - 1]) == MIXER_IN_BLOCKS);
    count_linear(&d, kinds, n, s);
    l->pages_per_block = n_attention > 0 ? 1 : 0;
    l->window_pages = 0;
    if (n_attention > 0) {
        choose_groups(l, s, d);
    } else if (d.n_window > 0) {
        only_windows(l, s, d);
    } else {
        only_linear(l, kinds, n, s);
    }
    find_rooms(l, s, room);
    place_layers(l, kinds, n, s, (const uint32_t(*)[PAGE_LAYERS_MAX])room);
    place_states(l, kinds, n, s);
}
