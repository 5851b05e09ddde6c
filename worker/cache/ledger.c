#include "worker/cache/ledger.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OWNER_NONE  0u
#define OWNER_IDLE  1u
#define OWNER_FIRST 2u /* + the sequence's index in the table */

bool ledger_init(struct ledger *l, const struct pool *pool)
{
    uint32_t most = 1;

    memset(l, 0, sizeof *l);
    /* One array serves all classes, which are audited one after the other. */
    for (int c = 0; c < POOL_CLASSES; c++) {
        uint32_t total = pool_account(pool, (enum pool_class)c)->total;

        most = total > most ? total : most;
    }
    l->owners = malloc(most * sizeof *l->owners);
    return l->owners != NULL;
}

void ledger_fini(struct ledger *l)
{
    free(l->owners);
    memset(l, 0, sizeof *l);
}

void ledger_begin(struct ledger *l, uint64_t session)
{
    l->session = session;
    l->snapshot = 0;
    l->grant = 0;
}

uint64_t ledger_next_snapshot(const struct ledger *l)
{
    return l->snapshot + 1;
}

static void fill_class(Sluice__V1__ClassLedger *out,
                       const struct pool_account *a)
{
    sluice__v1__class_ledger__init(out);
    out->total = a->total;
    out->free = a->free;
    out->held = a->held;
    out->cached = a->cached;
    out->granted = a->granted;
}

void ledger_fill(struct ledger *l, const struct pool *pool,
                 const struct sequence_table *t, struct ledger_message *out)
{
    struct pool_account pages = pool_pages(pool);
    Sluice__V1__Ledger *m = &out->ledger;

    for (int c = 0; c < POOL_CLASSES; c++) {
        fill_class(&out->classes[c], pool_account(pool, (enum pool_class)c));
    }
    fill_class(&out->pages, &pages);
    sluice__v1__ledger__init(m);
    /* Hello carries a ledger before its session exists: no snapshot. */
    if (l->session != 0) {
        l->snapshot++;
    }
    m->session = l->session;
    m->snapshot = l->snapshot;
    m->grant = l->grant;
    m->blocks = &out->classes[POOL_BLOCKS];
    m->slots = &out->classes[POOL_SLOTS];
    m->checkpoints = &out->classes[POOL_CHECKPOINTS];
    m->pages = &out->pages;
    m->has_violations = true;
    m->violations = pool->violations;
    m->has_n_queued = m->has_n_prefill = m->has_n_decode = m->has_n_kept = true;
    m->n_queued =
        t->in_state[SEQUENCE_RECEIVING] + t->in_state[SEQUENCE_QUEUED];
    m->n_prefill = t->in_state[SEQUENCE_PREFILL];
    m->n_decode = t->in_state[SEQUENCE_DECODE];
    m->n_kept = t->in_state[SEQUENCE_KEPT];
}

/* ---- audit ---- */

struct ledger_walk {
    const struct pool *pool;
    const struct sequence_table *table;
    uint32_t *owners;
    uint32_t differences;
    char *text;
    size_t cap, used;
};

__attribute__((format(printf, 2, 3))) static void
add_difference(struct ledger_walk *a, const char *fmt, ...)
{
    va_list ap;
    int n;
    a->differences++; /* also when the text is full */
    if (a->text == NULL || a->used + 1 >= a->cap) {
        return;
    }
    va_start(ap, fmt);
    n = vsnprintf(a->text + a->used, a->cap - a->used, fmt, ap);
    va_end(ap);
    a->used += n > 0 ? (size_t)n : 0;
    if (a->used + 2 > a->cap) {
        a->text[a->cap - 1] = '\0';
        a->used = a->cap;
        return;
    }
    a->text[a->used++] = '\n';
    a->text[a->used] = '\0';
}

static void claim_number(struct ledger_walk *a, enum pool_class c,
                         uint32_t number, uint32_t owner)
{
    const char *name = pool_class_name(c);

    if (number >= pool_account(a->pool, c)->total) {
        add_difference(a, "%s: number %u is none", name, number);
        return;
    }
    if (a->owners[number] != OWNER_NONE) {
        add_difference(a, "%s: number %u is in two places", name, number);
        return;
    }
    /* The owner is kept only to detect a second claim. */
    a->owners[number] = owner;
}

static void claim_idle(struct ledger_walk *a, enum pool_class c)
{
    const struct pool_stack *s = &a->pool->classes[c];

    for (uint32_t i = 0; i < s->n_idle; i++) {
        claim_number(a, c, s->idle[i], OWNER_IDLE);
    }
}

/* Claims the numbers that s holds; returns how many. */
static uint32_t claim_sequence(struct ledger_walk *a, enum pool_class c,
                               const struct sequence *s)
{
    uint32_t owner = OWNER_FIRST + (uint32_t)(s - a->table->memory);

    if (c == POOL_BLOCKS) {
        for (uint32_t i = 0; i < s->n_blocks; i++) {
            claim_number(a, c, paged_get(&a->table->slab, &s->blocks, i),
                         owner);
        }
        return s->n_blocks;
    }
    if (c == POOL_SLOTS && s->slot != SLOT_NONE) {
        claim_number(a, c, s->slot, owner);
        return 1;
    }
    return 0;
}

/* Each column is counted twice: by the pool as it went, and by this walk. */
static void compare_column(struct ledger_walk *a, enum pool_class c,
                           const char *column, uint64_t counted, uint64_t found)
{
    if (counted != found) {
        add_difference(a, "%s: %s is %llu, found %llu", pool_class_name(c),
                       column, (unsigned long long)counted,
                       (unsigned long long)found);
    }
}

static void audit_class(struct ledger_walk *a, enum pool_class c)
{
    const struct pool_account *p = pool_account(a->pool, c);
    uint64_t held = 0, charged = 0;

    memset(a->owners, 0, p->total * sizeof *a->owners);
    claim_idle(a, c);
    for (const struct sequence *s = a->table->all.head; s != NULL;
         s = sequence_next(s, LIST_ALL)) {
        uint32_t n = claim_sequence(a, c, s);

        held += n;
        charged += s->need.n[c];
        if (n > s->need.n[c]) {
            add_difference(a, "%s: sequence %llu holds %u of %u",
                           pool_class_name(c), (unsigned long long)s->number, n,
                           s->need.n[c]);
        }
    }
    /* A number that nothing claimed has leaked. */
    for (uint32_t i = 0; i < p->total; i++) {
        if (a->owners[i] == OWNER_NONE) {
            add_difference(a, "%s: number %u is nowhere", pool_class_name(c),
                           i);
        }
    }
    compare_column(a, c, "held", p->held, held);
    compare_column(a, c, "granted", p->granted, charged - held);
    compare_column(a, c, "free and granted", (uint64_t)p->free + p->granted,
                   a->pool->classes[c].n_idle);
    compare_column(a, c, "total", p->total,
                   (uint64_t)p->free + p->held + p->cached + p->granted);
}

static void audit_states(struct ledger_walk *a)
{
    uint32_t found[SEQUENCE_STATES] = {0};

    for (const struct sequence *s = a->table->all.head; s != NULL;
         s = sequence_next(s, LIST_ALL)) {
        found[s->state]++;
    }
    for (int i = 0; i < SEQUENCE_STATES; i++) {
        if (found[i] != a->table->in_state[i]) {
            add_difference(a, "sequences: %u are counted %s, found %u",
                           a->table->in_state[i],
                           sequence_state_name((enum sequence_state)i),
                           found[i]);
        }
    }
}

uint32_t ledger_audit(const struct ledger *l, const struct pool *pool,
                      const struct sequence_table *t, char *text, size_t cap)
{
    struct ledger_walk a = {.pool = pool,
                            .table = t,
                            .owners = l->owners,
                            .text = cap > 0 ? text : NULL,
                            .cap = cap};

    if (a.text != NULL) {
        a.text[0] = '\0';
    }
    for (int c = 0; c < POOL_CLASSES; c++) {
        audit_class(&a, (enum pool_class)c);
    }
    audit_states(&a);
    return a.differences;
}
