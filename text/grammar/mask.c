/* mask.c - Walks of the vocabulary, and what is kept of them. */
#include "text/grammar/mask.h"

#include <stdlib.h>
#include <string.h>

#define SPARSE_MAX 512 /* tokens up to which a list is smaller than bits */

enum status mask_cache_init(struct mask_cache *c, struct machine *m,
                            const struct vocab_trie *trie,
                            const struct mask_shared *shared, struct error *e)
{
    *c = (struct mask_cache){.m = m,
                             .trie = trie,
                             .shared = shared,
                             .budget = {.max = MASK_BYTES_MAX},
                             .n_words = (trie->n_vocab + 63) / 64};
    c->path = calloc((size_t)trie->depth + 2, sizeof *c->path);
    c->counts = calloc((size_t)trie->depth + 2, sizeof *c->counts);
    if (c->path == NULL || c->counts == NULL) {
        mask_cache_fini(c);
        return error_set(e, ST_RESOURCE_EXHAUSTED, "memory: masks");
    }
    return ST_OK;
}

/* Parts are independent of sequences, so all of them may share one. */
static void part_fini(struct mask_part *part)
{
    free(part->bits);
    free(part->tokens);
    free(part->exits);
    free(part->entries);
}

static void number_map_fini(struct number_map *m)
{
    free(m->keys);
    free(m->values);
    *m = (struct number_map){0};
}

/* Forgets all masks, whose memory is used up. */
static void empty(struct mask_cache *c)
{
    for (uint32_t i = 0; i < c->n_parts; i++) {
        part_fini(&c->parts[i]);
    }
    free(c->parts);
    free(c->masks);
    number_map_fini(&c->part_of);
    number_map_fini(&c->mask_of);
    number_map_fini(&c->inside);
    c->parts = NULL;
    c->masks = NULL;
    c->n_parts = c->cap_parts = c->n_masks = c->cap_masks = 0;
    c->budget = (struct arena_budget){.max = MASK_BYTES_MAX};
}

void mask_cache_fini(struct mask_cache *c)
{
    empty(c);
    free(c->path);
    free(c->counts);
    *c = (struct mask_cache){0};
}

static void set_bit(uint64_t *bits, uint32_t i)
{
    bits[i / 64] |= (uint64_t)1 << (i % 64);
}

static void set_token(const struct vocab_trie *t, uint64_t *bits,
                      uint32_t token)
{
    for (; token != VOCAB_NONE; token = t->same[token]) {
        set_bit(bits, token);
    }
}

/* Adds the tokens below nodes [begin, end) that a state allows. */
static void walk(struct mask_cache *c, uint32_t begin, uint32_t end,
                 uint32_t state, uint64_t *bits)
{
    const struct trie_node *nodes = c->trie->nodes;

    if (begin >= end) {
        return;
    }
    c->path[nodes[begin].depth - 1] = state;
    for (uint32_t i = begin; i < end;) {
        const struct trie_node *x = &nodes[i];
        uint32_t next = machine_step(c->m, c->path[x->depth - 1], x->byte);

        if (next == MACHINE_DEAD) {
            i = x->end;
            continue;
        }
        c->path[x->depth] = next;
        if (x->token != VOCAB_NONE) {
            set_token(c->trie, bits, x->token);
        }
        i++;
    }
}

/* ---- the part of an expression ---- */

static void append(struct mask_cache *c, uint32_t **list, uint32_t *n,
                   uint32_t *cap, uint32_t value)
{
    if (arena_grow(&c->budget, (void **)list, cap, (uint64_t)*n + 1,
                   sizeof **list)) {
        (*list)[(*n)++] = value;
    }
}

static void list_tokens(struct mask_cache *c, struct mask_part *part,
                        uint32_t token)
{
    for (; token != VOCAB_NONE; token = c->trie->same[token]) {
        append(c, &part->tokens, &part->n_tokens, &part->cap_tokens, token);
    }
}

static void walk_part(struct mask_cache *c, struct mask_part *part,
                      uint32_t state)
{
    const struct trie_node *nodes = c->trie->nodes;

    c->path[0] = state;
    for (uint32_t i = 0; i < c->trie->n && !c->budget.failed;) {
        const struct trie_node *x = &nodes[i];
        uint32_t next = machine_step(c->m, c->path[x->depth - 1], x->byte);

        if (next == MACHINE_DEAD) {
            i = x->end;
            continue;
        }
        c->path[x->depth] = next;
        if (x->token != VOCAB_NONE) {
            list_tokens(c, part, x->token);
        }
        if (machine_accepts(c->m, next) && x->end > i + 1) {
            append(c, &part->exits, &part->n_exits, &part->cap_exits, i);
        }
        i++;
    }
}

/* Many tokens are kept as bits. */

static void pack(struct mask_cache *c, struct mask_part *part)
{
    uint32_t cap = 0;

    if (part->n_tokens <= SPARSE_MAX ||
        !arena_grow(&c->budget, &part->bits, &cap, c->n_words,
                    sizeof *part->bits)) {
        return;
    }
    for (uint32_t i = 0; i < part->n_tokens; i++) {
        set_bit(part->bits, part->tokens[i]);
    }
    c->budget.bytes -= part->cap_tokens * sizeof *part->tokens;
    free(part->tokens);
    part->tokens = NULL;
    part->n_tokens = part->cap_tokens = 0;
}

/* ---- the difference to a part that is known ---- */

/* A part that is being made from a similar one. */
struct difference {
    struct mask_cache *c;
    struct mask_part *part;
    const struct mask_part *from;
    uint32_t next_exit; /* of `from`, which are in order */
};

/* Copies the exits of `from` up to node `end`, or drops them. */
static void pass_exits(struct difference *d, uint32_t end, bool copy)
{
    for (;
         d->next_exit < d->from->n_exits && d->from->exits[d->next_exit] < end;
         d->next_exit++) {
        if (copy) {
            append(d->c, &d->part->exits, &d->part->n_exits,
                   &d->part->cap_exits, d->from->exits[d->next_exit]);
        }
    }
}

/* Removes the tokens and exits of a subtree that the other expression allows.
 */
static void clear_below(struct difference *d, uint32_t begin, uint32_t end)
{
    const struct vocab_trie *t = d->c->trie;

    for (uint32_t i = begin; i < end; i++) {
        for (uint32_t id = t->nodes[i].token; id != VOCAB_NONE;
             id = t->same[id]) {
            d->part->bits[id / 64] &= ~((uint64_t)1 << (id % 64));
        }
    }
    pass_exits(d, end, false);
}

/* Walks only where the two differ. */
static void walk_difference(struct difference *d, uint32_t state,
                            uint32_t from_state)
{
    struct mask_cache *c = d->c;
    const struct trie_node *nodes = c->trie->nodes;

    c->path[0] = state;
    c->counts[0] = from_state;
    for (uint32_t i = 0; i < c->trie->n && !c->budget.failed;) {
        uint32_t depth = nodes[i].depth;
        uint32_t mine = machine_step(c->m, c->path[depth - 1], nodes[i].byte);
        uint32_t other =
            machine_step(c->m, c->counts[depth - 1], nodes[i].byte);

        if (mine == other || mine == MACHINE_DEAD) {
            if (mine != other) {
                clear_below(d, i, nodes[i].end);
            }
            pass_exits(d, nodes[i].end, true);
            i = nodes[i].end;
            continue;
        }
        c->path[depth] = mine;
        c->counts[depth] = other;
        if (nodes[i].token != VOCAB_NONE) {
            set_token(c->trie, d->part->bits, nodes[i].token);
        }
        pass_exits(d, i + 1, false);
        if (machine_accepts(c->m, mine) && nodes[i].end > i + 1) {
            append(c, &d->part->exits, &d->part->n_exits, &d->part->cap_exits,
                   i);
        }
        i++;
    }
}

/* Returns whether two states have the same successor for most bytes. */
static bool alike(struct machine *m, uint32_t a, uint32_t b)
{
    unsigned same = 0;

    for (unsigned byte = 0; byte < 256; byte++) {
        same += machine_step(m, a, (uint8_t)byte) ==
                machine_step(m, b, (uint8_t)byte);
    }
    return same >= 128;
}

/* Makes a part from a shared one that it hardly differs from: names that are
 * none of a list are nearly all strings. */
static bool make_from_shared(struct mask_cache *c, struct mask_part *part,
                             uint32_t state)
{
    for (int i = 0; c->shared != NULL && i < MASK_SHARED; i++) {
        struct difference d = {
            .c = c, .part = part, .from = &c->shared->part[i]};
        uint32_t other = machine_thread_state(
            c->m, (struct thread){c->shared->e[i], MACHINE_BASE});
        uint32_t cap = 0;

        if (d.from->bits == NULL || !alike(c->m, state, other) ||
            !arena_grow(&c->budget, &part->bits, &cap, c->n_words,
                        sizeof *part->bits)) {
            continue;
        }
        memcpy(part->bits, d.from->bits, c->n_words * sizeof *part->bits);
        walk_difference(&d, state, other);
        return true;
    }
    return false;
}

static void make_part(struct mask_cache *c, struct mask_part *part, uint32_t e)
{
    uint32_t state =
        machine_thread_state(c->m, (struct thread){e, MACHINE_BASE});

    if (!make_from_shared(c, part, state)) {
        walk_part(c, part, state);
        pack(c, part);
    }
}

/* ---- strings of bounded length ---- */

/* A string whose characters are counted, and what follows it. */
struct counted {
    uint32_t least, most;
    uint32_t unbounded; /* the expression without bounds */
};

/* Returns whether e is a bounded repetition of a character, and the byte after
 * it shows that it has ended. */
static bool is_counted(struct mask_cache *c, uint32_t e, struct counted *k)
{
    struct expr_pool *p = &c->m->pool;
    struct expr x = p->exprs[e], rep, head;
    const struct byte_set *a, *b;

    if (x.kind != EXPR_K_CAT) {
        return false;
    }
    rep = p->exprs[x.a];
    if (rep.kind != EXPR_K_REP || (p->exprs[rep.a].flags & EXPR_CHAR) == 0 ||
        (rep.m == 0 && rep.n == EXPR_INF)) {
        return false;
    }
    head = p->exprs[x.b];
    head = head.kind == EXPR_K_CAT ? p->exprs[head.a] : head;
    if (head.kind != EXPR_K_SET) {
        return false;
    }
    a = &p->sets[p->exprs[rep.a].first];
    b = &p->sets[head.first];
    for (int i = 0; i < 4; i++) {
        if ((a->w[i] & b->w[i]) != 0) {
            return false;
        }
    }
    k->least = rep.m;
    k->most = rep.n;
    k->unbounded = expr_cat(p, expr_rep(p, rep.a, 0, EXPR_INF), x.b);
    return true;
}

/* Returns whether a state is still in the string: its expression then ends with
 * the unbounded string. */
static bool is_inside(struct mask_cache *c, uint32_t state, uint32_t unbounded)
{
    const struct machine *m = c->m;
    struct thread t = m->threads.v[m->states[state].threads];
    uint32_t known, e = t.e;

    if (number_map_get(&c->inside, (uint64_t)state + 1, &known)) {
        return known != 0;
    }
    while (e != unbounded && m->pool.exprs[e].kind == EXPR_K_CAT) {
        e = m->pool.exprs[e].b;
    }
    known =
        m->states[state].n == 1 && t.stack == MACHINE_BASE && e == unbounded;
    number_map_put(&c->inside, &c->budget, (uint64_t)state + 1, known);
    return known != 0;
}

static void add_entry(struct mask_cache *c, struct mask_part *part, uint32_t id,
                      uint32_t count, enum mask_place place)
{
    if (arena_grow(&c->budget, &part->entries, &part->cap_entries,
                   (uint64_t)part->n_entries + 1, sizeof *part->entries)) {
        part->entries[part->n_entries++] =
            (struct mask_entry){id, (uint16_t)count, (uint8_t)place};
    }
}

/* Notes one node of the walk of a counted string. */
static void note(struct mask_cache *c, struct mask_part *part, uint32_t i,
                 uint32_t start, uint32_t unbounded)
{
    const struct trie_node *x = &c->trie->nodes[i];
    uint32_t state = c->path[x->depth], count = c->counts[x->depth - 1];
    bool inside = is_inside(c, state, unbounded);

    count += state == start;
    c->counts[x->depth] = count;
    for (uint32_t t = x->token; t != VOCAB_NONE; t = c->trie->same[t]) {
        /* A character that has begun needs room for all of it. */
        add_entry(c, part, t, count + (inside && state != start),
                  inside ? MASK_INSIDE : MASK_DEPARTED);
    }
    if (machine_accepts(c->m, state) && x->end > i + 1) {
        add_entry(c, part, i, count, MASK_EXIT);
    }
}

/* Sorts entries by their characters, most first, in linear time. */
static void sort_entries(struct mask_cache *c, struct mask_part *part)
{
    uint32_t n = c->trie->depth + 2, at = 0, cap = 0;
    uint32_t *starts = calloc(n, sizeof *starts);
    struct mask_entry *to = NULL;

    if (starts == NULL ||
        !arena_grow(&c->budget, &to, &cap, part->n_entries, sizeof *to)) {
        free(starts);
        c->budget.failed = true;
        return;
    }
    for (uint32_t i = 0; i < part->n_entries; i++) {
        starts[part->entries[i].count]++;
    }
    while (n-- > 0) {
        uint32_t many = starts[n];

        starts[n] = at;
        at += many;
    }
    for (uint32_t i = 0; i < part->n_entries; i++) {
        to[starts[part->entries[i].count]++] = part->entries[i];
    }
    c->budget.bytes -= part->cap_entries * sizeof *to;
    free(part->entries);
    free(starts);
    part->entries = to;
    part->cap_entries = cap;
}

static void make_counted(struct mask_cache *c, struct mask_part *part,
                         uint32_t unbounded)
{
    const struct trie_node *nodes = c->trie->nodes;
    uint32_t start =
        machine_thread_state(c->m, (struct thread){unbounded, MACHINE_BASE});
    uint32_t cap = 0;

    number_map_fini(&c->inside);
    c->path[0] = start;
    c->counts[0] = 0;
    for (uint32_t i = 0; i < c->trie->n && !c->budget.failed;) {
        uint32_t next =
            machine_step(c->m, c->path[nodes[i].depth - 1], nodes[i].byte);

        if (next == MACHINE_DEAD) {
            i = nodes[i].end;
            continue;
        }
        c->path[nodes[i].depth] = next;
        note(c, part, i++, start, unbounded);
    }
    number_map_fini(&c->inside);
    sort_entries(c, part);
    if (arena_grow(&c->budget, &part->bits, &cap, c->n_words,
                   sizeof *part->bits)) {
        for (uint32_t i = 0; i < part->n_entries; i++) {
            if (part->entries[i].place == MASK_INSIDE) {
                set_bit(part->bits, part->entries[i].id);
            } else {
                append(c, &part->tokens, &part->n_tokens, &part->cap_tokens, i);
            }
        }
    }
}

/* ---- masks ---- */

/* Returns the kept part of a key, or makes it.  NULL if memory is used up. */
static const struct mask_part *part_of(struct mask_cache *c, uint32_t e,
                                       bool counted)
{
    uint64_t key = (uint64_t)e * 2 + counted + 1;
    uint32_t i;

    for (i = 0; c->shared != NULL && i < MASK_SHARED; i++) {
        if (e == c->shared->e[i]) {
            return counted ? &c->shared->counted[i] : &c->shared->part[i];
        }
    }
    if (number_map_get(&c->part_of, key, &i)) {
        return &c->parts[i];
    }
    i = c->n_parts;
    if (!arena_grow(&c->budget, &c->parts, &c->cap_parts, (uint64_t)i + 1,
                    sizeof *c->parts) ||
        !number_map_put(&c->part_of, &c->budget, key, i)) {
        return NULL;
    }
    c->parts[i] = (struct mask_part){0};
    c->n_parts++;
    if (counted) {
        make_counted(c, &c->parts[i], e);
    } else {
        make_part(c, &c->parts[i], e);
    }
    return c->budget.failed ? NULL : &c->parts[i];
}

static void or_words(uint64_t *to, const uint64_t *from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        to[i] |= from[i];
    }
}

/* Adds the tokens below a node at which the rule of t ends. */
static void walk_exit(struct mask_cache *c, const struct thread *t,
                      uint32_t node, uint32_t *after, uint64_t *bits)
{
    struct frame f = c->m->frames[t->stack];

    if (t->stack == MACHINE_BASE) {
        return;
    }
    if (*after == MACHINE_DEAD) {
        *after = machine_thread_state(c->m, (struct thread){f.e, f.below});
    }
    walk(c, node + 1, c->trie->nodes[node].end, *after, bits);
}

/* The tokens of a counted string: those inside it that are short enough, and
 * those that leave it after enough characters. */
static void or_counted(struct mask_cache *c, const struct mask_part *part,
                       const struct thread *t, const struct counted *k,
                       uint64_t *bits)
{
    uint32_t after = MACHINE_DEAD;
    bool long_ones = true;
    uint64_t *inside = malloc(c->n_words * sizeof *inside);

    if (inside == NULL) {
        c->budget.failed = true;
        return;
    }
    memcpy(inside, part->bits, c->n_words * sizeof *inside);
    for (uint32_t i = 0; i < part->n_entries && long_ones; i++) {
        struct mask_entry x = part->entries[i];

        long_ones = x.count > k->most;
        if (long_ones && x.place == MASK_INSIDE) {
            inside[x.id / 64] &= ~((uint64_t)1 << (x.id % 64));
        }
    }
    or_words(bits, inside, c->n_words);
    free(inside);
    for (uint32_t i = 0; i < part->n_tokens; i++) { /* that leave the string */
        struct mask_entry x = part->entries[part->tokens[i]];

        if (x.count < k->least || x.count > k->most) {
            continue;
        }
        if (x.place == MASK_DEPARTED) {
            set_bit(bits, x.id);
        } else {
            walk_exit(c, t, x.id, &after, bits);
        }
    }
}

static bool or_thread(struct mask_cache *c, struct thread t, uint64_t *bits)
{
    struct counted k;
    bool counted = is_counted(c, t.e, &k);
    const struct mask_part *part =
        part_of(c, counted ? k.unbounded : t.e, counted);
    uint32_t after = MACHINE_DEAD;

    if (part == NULL) {
        return false;
    }
    if (counted) {
        or_counted(c, part, &t, &k, bits);
        return !c->budget.failed;
    }
    if (part->bits != NULL) {
        or_words(bits, part->bits, c->n_words);
    }
    for (uint32_t i = 0; i < part->n_tokens; i++) {
        set_bit(bits, part->tokens[i]);
    }
    for (uint32_t i = 0; i < part->n_exits; i++) {
        walk_exit(c, &t, part->exits[i], &after, bits);
    }
    return true;
}

/* The union over threads is exact: a token is allowed if one thread allows it.
 */
static bool or_state(struct mask_cache *c, uint32_t state, uint64_t *bits)
{
    struct machine_state s = c->m->states[state];

    memset(bits, 0, c->n_words * sizeof *bits);
    for (uint32_t i = 0; i < s.n; i++) {
        if (!or_thread(c, c->m->threads.v[s.threads + i], bits)) {
            return false;
        }
    }
    return true;
}

/* Whole masks are kept until memory is used up, then all of them go: a list by
 * age would cost more than it saves. */
static void keep(struct mask_cache *c, uint32_t state, const uint64_t *bits)
{
    if (arena_grow(&c->budget, &c->masks, &c->cap_masks,
                   ((uint64_t)c->n_masks + 1) * c->n_words, sizeof *c->masks) &&
        number_map_put(&c->mask_of, &c->budget, (uint64_t)state + 1,
                       c->n_masks)) {
        memcpy(&c->masks[(size_t)c->n_masks * c->n_words], bits,
               c->n_words * sizeof *bits);
        c->n_masks++;
    } else {
        empty(c);
    }
}

enum status mask_of_state(struct mask_cache *c, uint32_t state, uint64_t *bits,
                          struct error *e)
{
    uint32_t i;

    /* Inside a string the state repeats from token to token. */
    if (number_map_get(&c->mask_of, (uint64_t)state + 1, &i)) {
        memcpy(bits, &c->masks[(size_t)i * c->n_words],
               c->n_words * sizeof *bits);
        return ST_OK;
    }
    if (!or_state(c, state, bits)) { /* full: begin again with no parts */
        empty(c);
        if (!or_state(c, state, bits)) {
            return error_set(e, ST_RESOURCE_EXHAUSTED,
                             "a mask exceeds MASK_BYTES_MAX");
        }
    }
    if (c->m->pool.budget.failed) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "the grammar exceeds GRAMMAR_BYTES_MAX");
    }
    keep(c, state, bits);
    return ST_OK;
}

/* ---- what all grammars share ---- */

enum status mask_shared_init(struct mask_shared *s,
                             const struct vocab_trie *trie, struct error *e)
{
    static const struct grammar_style style;
    struct machine m;
    struct mask_cache c;
    enum status st = machine_init(&m, &style, MASK_BYTES_MAX, e);

    *s = (struct mask_shared){0};
    if (st != ST_OK) {
        return st;
    }
    st = mask_cache_init(&c, &m, trie, NULL, e);
    if (st == ST_OK) {
        s->e[0] = m.chars.rest_full;
        s->e[1] = m.chars.rest;
        for (int i = 0; i < MASK_SHARED; i++) {
            make_part(&c, &s->part[i], s->e[i]);
            make_counted(&c, &s->counted[i], s->e[i]);
        }
        if (c.budget.failed || m.pool.budget.failed) {
            st = error_set(e, ST_RESOURCE_EXHAUSTED, "memory: shared masks");
            mask_shared_fini(s);
        }
        mask_cache_fini(&c);
    }
    machine_fini(&m);
    return st;
}

void mask_shared_fini(struct mask_shared *s)
{
    for (int i = 0; i < MASK_SHARED; i++) {
        part_fini(&s->part[i]);
        part_fini(&s->counted[i]);
    }
    *s = (struct mask_shared){0};
}
