/* machine.c - States, and the steps between them. */
#include "text/grammar/machine.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "text/grammar/grammar_limits.h"

#define LEFT_DEPTH_MAX 256 /* calls before any byte */

/* ---- construction ---- */

static uint32_t unfold(void *arg, uint32_t object)
{
    struct machine *m = arg;

    return objects_unfold(&m->objects, object);
}

static bool calls_live(void *arg, uint32_t rule)
{
    const struct machine *m = arg;

    return !m->rules[rule].set || m->rules[rule].live;
}

static bool object_live(void *arg, uint32_t object)
{
    const struct machine *m = arg;

    return objects_live(&m->objects, object);
}

enum status machine_init(struct machine *m, const struct grammar_style *style,
                         size_t max_bytes, struct error *e)
{
    enum status st;
    struct arena_budget *b = &m->pool.budget;

    memset(m, 0, sizeof *m);
    st = expr_pool_init(&m->pool, max_bytes, e);
    if (st != ST_OK) {
        return st;
    }
    m->pool.unfold = unfold;
    m->pool.calls_live = calls_live;
    m->pool.object_live = object_live;
    m->pool.arg = m;
    char_constants_init(&m->chars, &m->pool);
    objects_init(&m->objects, &m->pool, style);
    arena_grow(b, &m->frames, &m->cap_frames, 1, sizeof *m->frames);
    arena_grow(b, &m->states, &m->cap_states, 1, sizeof *m->states);
    m->n_frames = m->n_states = 1; /* MACHINE_BASE, MACHINE_DEAD */
    if (b->failed) {
        machine_fini(m);
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "memory: a grammar needs more than %zu bytes",
                         max_bytes);
    }
    return ST_OK;
}

void machine_fini(struct machine *m)
{
    objects_fini(&m->objects);
    expr_pool_fini(&m->pool);
    free(m->rules);
    free(m->frames);
    free(m->frame_table.slots);
    free(m->threads.v);
    free(m->states);
    free(m->state_table.slots);
    free(m->tables);
    free(m->sources.v);
    free(m->found.v);
    memset(m, 0, sizeof *m);
}

uint32_t machine_rule(struct machine *m)
{
    if (m->n_rules >= GRAMMAR_RULES_MAX ||
        !arena_grow(&m->pool.budget, &m->rules, &m->cap_rules,
                    (uint64_t)m->n_rules + 1, sizeof *m->rules)) {
        return UINT32_MAX;
    }
    m->rules[m->n_rules] = (struct rule){0};
    return m->n_rules++;
}

void machine_set_rule(struct machine *m, uint32_t rule, uint32_t body)
{
    m->rules[rule].body = body;
    m->rules[rule].set = true;
}

/* ---- which rules match any text ---- */

struct reached {
    uint32_t *rules;
    uint32_t n, cap;
};

static void reach(struct machine *m, uint32_t e, struct reached *r);

/* Adds a rule once: a mark is faster than a search of the list. */
static void reach_rule(struct machine *m, uint32_t rule, struct reached *r)
{
    if (m->rules[rule].mark == 0 &&
        arena_grow(&m->pool.budget, &r->rules, &r->cap, (uint64_t)r->n + 1,
                   sizeof *r->rules)) {
        m->rules[rule].mark = 1;
        r->rules[r->n++] = rule;
    }
}

static void reach_object(struct machine *m, uint32_t state, struct reached *r)
{
    const struct objects *o = &m->objects;
    struct object_shape s = o->shapes[o->states[state].shape];

    for (uint32_t i = 0; i < s.n_members; i++) {
        reach_rule(m, o->members[s.members + i].rule, r);
    }
    for (uint32_t i = 0; i < s.n_others; i++) {
        reach(m, o->members[s.others + i].key, r);
        reach_rule(m, o->members[s.others + i].rule, r);
    }
}

/* Adds the rules that e calls. */
static void reach(struct machine *m, uint32_t e, struct reached *r)
{
    struct expr x = m->pool.exprs[e];

    while ((x.flags & EXPR_CALLS) != 0 && x.kind == EXPR_K_CAT) {
        reach(m, x.a, r);
        x = m->pool.exprs[x.b];
    }
    if ((x.flags & EXPR_CALLS) == 0) {
        return;
    }
    if (x.kind == EXPR_K_CALL) {
        reach_rule(m, x.a, r);
    } else if (x.kind == EXPR_K_OBJECT) {
        reach_object(m, x.a, r);
    } else if (x.kind == EXPR_K_REP) {
        reach(m, x.a, r);
    } else {
        for (uint32_t i = 0; i < x.b; i++) {
            reach(m, m->pool.lists[x.a + i], r);
        }
    }
}

bool machine_rule_live(struct machine *m, uint32_t rule)
{
    struct reached r = {0};
    bool changed = true;

    m->unset = false;
    reach_rule(m, rule, &r);
    for (uint32_t i = 0; i < r.n; i++) {
        m->unset = m->unset || !m->rules[r.rules[i]].set;
        if (m->rules[r.rules[i]].set) {
            m->rules[r.rules[i]].live = false;
            reach(m, m->rules[r.rules[i]].body, &r);
        }
    }
    while (changed && !m->pool.budget.failed) {
        changed = false;
        for (uint32_t i = r.n; i-- > 0;) {
            struct rule *x = &m->rules[r.rules[i]];

            if (x->set && !x->live && expr_live(&m->pool, x->body)) {
                x->live = changed = true;
            }
        }
    }
    for (uint32_t i = 0; i < r.n; i++) {
        m->rules[r.rules[i]].mark = 0;
    }
    m->pool.budget.bytes -= r.cap * sizeof *r.rules;
    free(r.rules);
    return calls_live(m, rule);
}

/* ---- calls at the front ---- */

static bool frame_same(const void *owner, uint32_t id, const void *key)
{
    const struct machine *m = owner;
    const struct frame *f = key;

    return m->frames[id].e == f->e && m->frames[id].below == f->below;
}

/* Returns the stack with e on top.  A call at the end of a rule needs no frame,
 * so that recursion at the end takes no memory. */
static uint32_t push(struct machine *m, uint32_t e, uint32_t below)
{
    struct frame f = {e, below};
    uint64_t h = XXH3_64bits(&f, sizeof f);
    uint32_t id;

    if (e == EXPR_EPS) {
        return below;
    }
    id = intern_find(&m->frame_table, h, frame_same, m, &f);
    if (id != UINT32_MAX) {
        return id;
    }
    if (!arena_grow(&m->pool.budget, &m->frames, &m->cap_frames,
                    (uint64_t)m->n_frames + 1, sizeof *m->frames) ||
        !intern_add(&m->frame_table, &m->pool.budget, h, m->n_frames)) {
        return MACHINE_BASE;
    }
    m->frames[m->n_frames] = f;
    return m->n_frames++;
}

/* States have few threads, so a linear search is the fastest. */
static bool add_thread(struct machine *m, struct threads *to, struct thread t)
{
    for (uint32_t i = 0; i < to->n; i++) {
        if (to->v[i].e == t.e && to->v[i].stack == t.stack) {
            return false;
        }
    }
    if (!arena_grow(&m->pool.budget, &to->v, &to->cap, (uint64_t)to->n + 1,
                    sizeof *to->v)) {
        return false;
    }
    to->v[to->n++] = t;
    return true;
}

/* Enters the calls at the front of e, which is followed by `rest`. */
static void enter(struct machine *m, uint32_t e, uint32_t rest, uint32_t stack)
{
    struct expr_pool *p = &m->pool;
    struct expr x = p->exprs[e];

    if ((x.flags & EXPR_CALLS) == 0) {
        return;
    }
    if (x.kind == EXPR_K_CALL) {
        if (m->listing) {
            add_thread(m, &m->sources, (struct thread){x.a, MACHINE_BASE});
        } else if (calls_live(m, x.a) && expr_live(p, rest)) {
            add_thread(
                m, &m->sources,
                (struct thread){m->rules[x.a].body, push(m, rest, stack)});
        }
    } else if (x.kind == EXPR_K_CAT) {
        enter(m, x.a, expr_cat(p, x.b, rest), stack);
        if (expr_nullable(p, x.a)) {
            enter(m, x.b, rest, stack);
        }
    } else if (x.kind == EXPR_K_OR) {
        for (uint32_t i = 0; i < x.b; i++) {
            enter(m, p->lists[x.a + i], rest, stack);
        }
    } else if (x.kind == EXPR_K_REP) {
        uint32_t again = expr_rep(p, x.a, x.m > 0 ? x.m - 1 : 0,
                                  x.n == EXPR_INF ? EXPR_INF : x.n - 1);

        enter(m, x.a, expr_cat(p, again, rest), stack);
    } else if (x.kind == EXPR_K_OBJECT) {
        enter(m, objects_unfold(&m->objects, x.a), rest, stack);
    }
}

/* Sets m->sources to the threads of a state and those of the rules that they
 * call before any byte. */
static void collect_sources(struct machine *m, uint32_t state)
{
    struct machine_state s = m->states[state];

    m->sources.n = 0;
    for (uint32_t i = 0; i < s.n; i++) {
        add_thread(m, &m->sources, m->threads.v[s.threads + i]);
    }
    /* The list grows while it is read: calls may begin with calls. */
    for (uint32_t i = 0; i < m->sources.n; i++) {
        struct thread t = m->sources.v[i];

        enter(m, t.e, EXPR_EPS, t.stack);
    }
}

/* ---- states ---- */

/* Adds a thread to m->found, and what follows it if it may end. */
static void found(struct machine *m, struct thread t)
{
    while (t.e != EXPR_NONE && expr_live(&m->pool, t.e)) {
        struct frame f = m->frames[t.stack];
        bool is_end = t.e == EXPR_EPS && t.stack != MACHINE_BASE;

        if (!is_end && !add_thread(m, &m->found, t)) {
            return;
        }
        if (t.stack == MACHINE_BASE || !expr_nullable(&m->pool, t.e)) {
            return;
        }
        t = (struct thread){f.e, f.below};
    }
}

static int by_stack(const void *a, const void *b)
{
    const struct thread *x = a, *y = b;

    if (x->stack != y->stack) {
        return x->stack < y->stack ? -1 : 1;
    }
    return x->e < y->e ? -1 : x->e > y->e;
}

/* Sorts m->found and makes one thread of those with equal stacks. */
static void merge_found(struct machine *m)
{
    struct threads *f = &m->found;
    uint32_t n = 0;

    if (f->n > 1) {
        qsort(f->v, f->n, sizeof *f->v, by_stack);
    }
    for (uint32_t i = 0; i < f->n; i++) {
        if (n > 0 && f->v[n - 1].stack == f->v[i].stack) {
            f->v[n - 1].e = expr_or(&m->pool, f->v[n - 1].e, f->v[i].e);
        } else {
            f->v[n++] = f->v[i];
        }
    }
    f->n = n;
}

static bool state_same(const void *owner, uint32_t id, const void *key)
{
    const struct machine *m = owner;
    const struct threads *t = key;

    return m->states[id].n == t->n &&
           memcmp(&m->threads.v[m->states[id].threads], t->v,
                  t->n * sizeof *t->v) == 0;
}

/* Returns the state of the threads in m->found. */
static uint32_t found_state(struct machine *m)
{
    struct arena_budget *b = &m->pool.budget;
    struct machine_state s = {.threads = m->threads.n};
    uint64_t h;
    uint32_t id;

    merge_found(m);
    if (m->found.n == 0 || b->failed) {
        return MACHINE_DEAD;
    }
    h = XXH3_64bits(m->found.v, m->found.n * sizeof *m->found.v);
    id = intern_find(&m->state_table, h, state_same, m, &m->found);
    if (id != UINT32_MAX) {
        return id;
    }
    s.n = m->found.n;
    if (!arena_grow(b, &m->threads.v, &m->threads.cap,
                    (uint64_t)m->threads.n + s.n, sizeof *m->threads.v) ||
        !arena_grow(b, &m->states, &m->cap_states, (uint64_t)m->n_states + 1,
                    sizeof *m->states) ||
        !intern_add(&m->state_table, b, h, m->n_states)) {
        return MACHINE_DEAD;
    }
    memcpy(&m->threads.v[s.threads], m->found.v, s.n * sizeof *m->found.v);
    m->threads.n += s.n;
    for (uint32_t i = 0; i < s.n; i++) {
        s.accepts = s.accepts || (m->found.v[i].stack == MACHINE_BASE &&
                                  expr_nullable(&m->pool, m->found.v[i].e));
    }
    m->states[m->n_states] = s;
    return m->n_states++;
}

uint32_t machine_thread_state(struct machine *m, struct thread t)
{
    m->found.n = 0;
    found(m, t);
    return found_state(m);
}

/* Steps all sources by one byte, which stands for its class. */
static uint32_t step_class(struct machine *m, uint8_t byte)
{
    m->found.n = 0;
    for (uint32_t i = 0; i < m->sources.n; i++) {
        struct thread t = m->sources.v[i];

        t.e = expr_step(&m->pool, t.e, byte);
        found(m, t);
    }
    return found_state(m);
}

/* Makes the successors of a state for all bytes. */
static bool make_table(struct machine *m, uint32_t state)
{
    struct byte_classes c;
    uint32_t next[256], *table;

    collect_sources(m, state);
    byte_classes_init(&c);
    for (uint32_t i = 0; i < m->sources.n; i++) {
        expr_refine(&m->pool, m->sources.v[i].e, &c);
    }
    for (unsigned i = 0; i < c.n; i++) {
        next[i] = step_class(m, c.representative[i]);
    }
    if (m->pool.budget.failed ||
        !arena_grow(&m->pool.budget, &m->tables, &m->cap_tables,
                    ((uint64_t)m->n_tables + 1) * 256, sizeof *m->tables)) {
        return false;
    }
    table = &m->tables[(size_t)m->n_tables * 256];
    for (unsigned b = 0; b < 256; b++) {
        table[b] = next[c.of[b]];
    }
    m->states[state].next = ++m->n_tables;
    return true;
}

uint32_t machine_step(struct machine *m, uint32_t state, uint8_t byte)
{
    if (state == MACHINE_DEAD ||
        (m->states[state].next == 0 && !make_table(m, state))) {
        return MACHINE_DEAD;
    }
    return m->tables[(size_t)(m->states[state].next - 1) * 256 + byte];
}

bool machine_accepts(const struct machine *m, uint32_t state)
{
    return m->states[state].accepts;
}

/* ---- the end of construction ---- */

/* Returns whether a rule calls itself before any byte.  Walks depth first: mark
 * 1 is on the way, 2 is done. */
static bool left_recursive(struct machine *m, uint32_t rule, unsigned depth)
{
    uint32_t called[256], n;
    bool is = depth > LEFT_DEPTH_MAX;

    m->rules[rule].mark = 1;
    m->sources.n = 0;
    enter(m, m->rules[rule].body, EXPR_EPS, MACHINE_BASE);
    n = m->sources.n;
    is = is || n > 256;
    for (uint32_t i = 0; i < n && !is; i++) {
        called[i] = m->sources.v[i].e;
    }
    for (uint32_t i = 0; i < n && !is; i++) {
        const struct rule *r = &m->rules[called[i]];

        is = r->mark == 1 || (r->mark == 0 && r->live &&
                              left_recursive(m, called[i], depth + 1));
    }
    m->rules[rule].mark = 2;
    return is;
}

enum status machine_finish(struct machine *m, uint32_t root, struct error *e)
{
    bool recursive = false;

    if (!machine_rule_live(m, root) && !m->pool.budget.failed) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "no text matches: constraints exclude one another");
    }
    if (m->unset) {
        return error_set(e, ST_UNIMPLEMENTED, "a rule has no body");
    }
    /* From here on no rule changes, so answers about calls may be kept. */
    m->pool.final = m->listing = true;
    for (uint32_t i = 0; i < m->n_rules && !recursive; i++) {
        recursive = m->rules[i].set && m->rules[i].live &&
                    m->rules[i].mark == 0 && left_recursive(m, i, 0);
    }
    m->listing = false;
    if (recursive) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "a definition refers to itself without reading "
                         "anything, or through too many others");
    }
    m->start = machine_thread_state(
        m, (struct thread){expr_call(&m->pool, root), MACHINE_BASE});
    if (m->pool.budget.failed) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "the grammar exceeds GRAMMAR_BYTES_MAX");
    }
    return ST_OK;
}
