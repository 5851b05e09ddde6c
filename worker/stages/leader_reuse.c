/* Reuse over the stages: the leader's index decides, the mirror counts, and the
 * stages obey. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "worker/sequence/windows.h"
#include "worker/stages/leader.h"

/* ---- what the index has let go of ---- */

/* Names are collected and sent together, because one eviction frees many nodes.
 * They go before the next message of any kind, which may use a name again. */
void leader_send_gone(struct leader *l)
{
    Sluice__V1__StageGone m = SLUICE__V1__STAGE_GONE__INIT;
    struct leader_gone *g = &l->gone;

    if (g->n_nodes + g->n_checkpoints == 0) {
        return;
    }
    m.n_node = g->n_nodes;
    m.node = g->node;
    m.n_checkpoint = g->n_checkpoints;
    m.checkpoint = g->checkpoint;
    assembly_send(l->assembly, METHOD_STAGE_GONE, &m.base);
    g->n_nodes = g->n_checkpoints = 0;
}

void leader_send(struct leader *l, enum method m,
                 const ProtobufCMessage *message)
{
    leader_send_gone(l);
    assembly_send(l->assembly, m, message);
}

/* ---- the mirror ---- */

struct leader_note *leader_note(const struct leader *l,
                                const struct sequence *s)
{
    return &l->notes[s - l->sequences->table.memory];
}

/* The leader and the stages would differ from here on. */
static void check_mirror(struct leader *l, enum status st,
                         const struct error *e, const char *what,
                         uint64_t grant)
{
    if (st != ST_OK) {
        assembly_break(l->assembly, "%s of grant %llu: %s", what,
                       (unsigned long long)grant, e->text);
    }
}

/* All stages that have a class need the same number of it.  Windows: blocks. */
static struct pool_need stages_need(const struct leader *l,
                                    const Sluice__V1__SubmitRequest *submit)
{
    const Sluice__V1__StageGrants *m = submit->stages;
    struct pool_need need = {{0, 0, 0}};

    need.n[POOL_WINDOWS] = windows_blocks(
        &l->sequences->table.windows, submit->n_prompt + submit->max_tokens);

    for (size_t i = 0; i < m->n_blocks; i++) {
        if (m->blocks[i] > need.n[POOL_BLOCKS]) {
            need.n[POOL_BLOCKS] = m->blocks[i];
        }
        if (m->slots[i] > need.n[POOL_SLOTS]) {
            need.n[POOL_SLOTS] = m->slots[i];
        }
    }
    return need;
}

/* Once for each assembly: the pools of the stages do not change while it
 * lasts. */
void leader_ask_geometry(struct leader *l)
{
    Sluice__V1__StageGeometry m = SLUICE__V1__STAGE_GEOMETRY__INIT;

    if (!l->asked) {
        l->asked = true;
        assembly_send(l->assembly, METHOD_STAGE_GEOMETRY, &m.base);
    }
}

static void open_in_mirror(struct leader *l, const struct sequence *s)
{
    struct error e;

    check_mirror(
        l, mirror_open(&l->mirror, s->grant, &leader_note(l, s)->need, &e), &e,
        "Open", s->grant);
}

void leader_mirror_open(struct leader *l, const struct sequence *s,
                        const Sluice__V1__SubmitRequest *m)
{
    *leader_note(l, s) = (struct leader_note){.need = stages_need(l, m)};
    leader_ask_geometry(l);
    if (l->known) {
        open_in_mirror(l, s);
    }
}

/* A twin's row is the share itself: no message of its own goes to the stages.
 */
void leader_mirror_twins(struct leader *l, const struct batch *t)
{
    const struct plan *p = &t->plan;
    struct error e;

    for (uint32_t i = 0; i < p->n_rows; i++) {
        if (p->rows[i].n_tokens == 0) {
            check_mirror(
                l,
                mirror_twin(&l->mirror, t->owners[p->rows[i].source]->grant,
                            t->owners[i]->grant, p->rows[i].position, &e),
                &e, "twin", t->owners[i]->grant);
        }
    }
}

void leader_mirror_remove(struct leader *l, const struct sequence *s)
{
    if (l->known) {
        mirror_remove(&l->mirror, s->grant);
    }
}

/* ---- the index's watch ---- */

static void on_added(void *self, uint32_t node, uint32_t parent, uint32_t end)
{
    struct leader *l = self;
    struct leader_added *a = &l->added;

    /* A node may have the number of one that is gone. */
    leader_send_gone(l);
    assert(a->n < a->capacity);
    a->node[a->n] = node;
    a->parent[a->n] = parent;
    a->end[a->n++] = end;
}

static bool on_keeps(void *self, uint32_t end)
{
    const struct leader *l = self;

    return !l->known || !mirror_has(&l->mirror, POOL_BLOCKS) ||
           mirror_keeps(&l->mirror, l->inserted->grant, end);
}

/* Steps of one assembly differ in their low 32 bits; 0: the stages have it. */
static uint32_t step_name(uint64_t step)
{
    return (uint32_t)step == 0 ? 1 : (uint32_t)step;
}

static void on_reserved(void *self, uint32_t checkpoint)
{
    struct leader *l = self;
    uint32_t page;
    struct error e;
    bool added;

    if (!l->known || !mirror_has(&l->mirror, POOL_SLOTS)) {
        return;
    }
    check_mirror(l, stage_cache_save(&l->mirror.cache, checkpoint, &page, &e),
                 &e, "checkpoint", checkpoint);
    /* Plans are made in order, so the next one saves it. */
    added = name_map_add(&l->saves, checkpoint,
                         step_name(l->sequences->batcher.step + 1));
    assert(added);
}

static void gone_checkpoint(struct leader *l, uint32_t checkpoint)
{
    struct leader_gone *g = &l->gone;
    struct error e;
    uint32_t step;

    if (!name_map_find(&l->saves, checkpoint, &step)) {
        return;
    }
    name_map_remove(&l->saves, checkpoint);
    check_mirror(l,
                 stage_cache_gone_checkpoint(&l->mirror.cache, checkpoint, &e),
                 &e, "checkpoint", checkpoint);
    if (step != 0) { /* no Forward has named it, and none will */
        return;
    }
    if (g->n_checkpoints == LEADER_NAMES_MAX) {
        leader_send_gone(l);
    }
    g->checkpoint[g->n_checkpoints++] = checkpoint;
}

static void gone_node(struct leader *l, uint32_t node)
{
    struct leader_gone *g = &l->gone;
    struct error e;

    if (!mirror_has(&l->mirror, POOL_BLOCKS)) {
        return;
    }
    check_mirror(l, stage_cache_gone_node(&l->mirror.cache, node, &e), &e,
                 "node", node);
    if (g->n_nodes == LEADER_NAMES_MAX) {
        leader_send_gone(l);
    }
    g->node[g->n_nodes++] = node;
}

static void on_gone(void *self, uint32_t node, uint32_t checkpoint)
{
    struct leader *l = self;

    if (l->known && checkpoint != SLOT_NONE) {
        gone_checkpoint(l, checkpoint);
    }
    if (l->known && node != PREFIX_NONE) {
        gone_node(l, node);
    }
}

/* While a Submit is opened, its need at the stages counts, which the index does
 * not have: it is asked with that of this stage. */
static bool on_fits(void *self, const struct pool_need *need)
{
    const struct leader *l = self;

    return !l->known ||
           mirror_fits(&l->mirror, l->opening != NULL ? l->opening : need,
                       NULL);
}

bool leader_saves(struct leader *l, uint64_t step, uint32_t checkpoint)
{
    uint32_t planned;

    if (!name_map_find(&l->saves, checkpoint, &planned) ||
        planned != step_name(step)) {
        return false;
    }
    name_map_remove(&l->saves, checkpoint);
    return name_map_add(&l->saves, checkpoint, 0);
}

/* ---- the entries of the role ---- */

/* The router counts the room of every stage, so that a Submit fits; otherwise
 * this one alone is refused, because a stage can only end the assembly. */
enum status leader_make_room(void *self, const Sluice__V1__SubmitRequest *m,
                             uint32_t spare, struct error *e)
{
    struct leader *l = self;
    struct pool_need own = {
        {m->need->blocks, m->need->slots, 0, m->need->windows}};
    struct pool_need need;
    uint32_t at = 0;

    if (!l->known || m->stages == NULL) {
        return ST_OK;
    }
    need = stages_need(l, m);
    l->opening = &need;
    prefix_make_room(l->sequences->reuse.index, &own, spare);
    l->opening = NULL;
    return mirror_fits(&l->mirror, &need, &at)
               ? ST_OK
               : error_set(e, ST_RESOURCE_EXHAUSTED,
                           "needs %u blocks and %u slots, stage %u has %u of "
                           "%u pages free",
                           need.n[POOL_BLOCKS], need.n[POOL_SLOTS], at + 1,
                           mirror_free(&l->mirror, at),
                           l->mirror.stages[at].n_pages);
}

void leader_restore(void *self, const struct sequence *s,
                    const struct role_restore *r)
{
    struct leader *l = self;
    struct stage_restore mine = {.position = r->position,
                                 .node = r->node,
                                 .checkpoint = r->checkpoint,
                                 .cut = r->cut,
                                 .windows = s->memory.n_windows};
    uint64_t from = r->from != NULL ? r->from->grant : 0;
    Sluice__V1__StageRestore m = SLUICE__V1__STAGE_RESTORE__INIT;
    struct error e;

    memset(&l->freed, 0, sizeof l->freed);
    if (!stages_are_open(&s->stages) || !assembly_is_up(l->assembly)) {
        return;
    }
    check_mirror(
        l, mirror_restore(&l->mirror, s->grant, &mine, from, &l->freed, &e), &e,
        "Restore", s->grant);
    m.grant = s->grant;
    m.position = r->position;
    m.has_node = r->node != PREFIX_NONE;
    m.node = r->node;
    m.has_checkpoint = r->checkpoint != SLOT_NONE;
    m.checkpoint = r->checkpoint;
    m.has_from = from != 0;
    m.from = from;
    m.has_cut = m.cut = r->cut;
    leader_send(l, METHOD_STAGE_RESTORE, &m.base);
}

uint32_t leader_freed(const void *self, uint32_t *blocks, uint32_t *slots,
                      uint32_t *windows)
{
    const struct leader *l = self;
    const struct mirror *m = &l->mirror;

    for (uint32_t i = 0; i < m->n_stages; i++) {
        blocks[i] =
            m->stages[i].pages_per_block > 0 ? l->freed.n[POOL_BLOCKS] : 0;
        slots[i] = m->stages[i].pages_per_slot > 0 ? l->freed.n[POOL_SLOTS] : 0;
        windows[i] = l->freed.n[POOL_WINDOWS] * m->stages[i].window_pages;
    }
    return m->n_stages;
}

static void send_keep(struct leader *l, uint64_t grant, uint32_t at, uint32_t n)
{
    Sluice__V1__StageKeep m = SLUICE__V1__STAGE_KEEP__INIT;

    m.grant = grant;
    m.n_node = m.n_parent = m.n_end = n;
    m.node = l->added.node + at;
    m.parent = l->added.parent + at;
    m.end = l->added.end + at;
    leader_send(l, METHOD_STAGE_KEEP, &m.base);
}

void leader_insert(void *self, const struct sequence *s)
{
    ((struct leader *)self)->inserted = s;
}

void leader_keep(void *self, const struct sequence *s)
{
    struct leader *l = self;
    struct leader_added *a = &l->added;
    struct error e;

    for (uint32_t i = 0; i < a->n && mirror_has(&l->mirror, POOL_BLOCKS); i++) {
        check_mirror(l,
                     mirror_keep(&l->mirror, s->grant, a->node[i], a->parent[i],
                                 a->end[i], &e),
                     &e, "Keep", s->grant);
    }
    for (uint32_t i = 0; i < a->n; i += LEADER_NAMES_MAX) {
        uint32_t left = a->n - i;

        send_keep(l, s->grant, i,
                  left < LEADER_NAMES_MAX ? left : LEADER_NAMES_MAX);
    }
    a->n = 0;
}

/* ---- Geometry ---- */

/* The Submits that came before are open at the stages too. */
static void learn(struct leader *l, const struct mirror_stage *stages,
                  uint32_t n, const Sluice__V1__StageGeometry *m)
{
    const struct sequence_table *t = &l->sequences->table;
    const struct worker_options *o = &l->assembly->base->o;

    if (!mirror_begin(&l->mirror, stages, n)) {
        assembly_break(l->assembly,
                       "out of memory for the accounts of %u "
                       "stages",
                       n);
        return;
    }
    prefix_set_classes(
        l->sequences->reuse.index,
        o->pool.pages_per_block > 0 || mirror_has(&l->mirror, POOL_BLOCKS),
        o->pool.pages_per_slot > 0 || mirror_has(&l->mirror, POOL_SLOTS));
    l->known = true;
    leader_drafts_learn(l, m);
    for (const struct sequence *s = t->all.head; s != NULL;
         s = sequence_next(s, LIST_ALL)) {
        if (stages_are_open(&s->stages)) {
            open_in_mirror(l, s);
        }
    }
}

static bool is_shape(const struct mirror_stage *g)
{
    return g->n_pages > 0 && g->n_pages <= SHARD_CLASS_MAX &&
           g->pages_per_block <= 1 && g->pages_per_slot <= POOL_EXTENT_MAX &&
           g->window_pages <= MODEL_LAYERS_MAX &&
           g->pages_per_block + g->pages_per_slot + g->window_pages > 0;
}

void leader_recv_geometry(struct leader *l, const Sluice__V1__StageGeometry *m)
{
    struct mirror_stage stages[STAGES_MAX];
    uint32_t n = l->assembly->n_stages - 1;

    if (!l->asked || l->known || m->n_n_pages != n ||
        m->n_pages_per_block != n || m->n_pages_per_slot != n ||
        !stage_column(m->n_window_pages, n) || m->n_keep_tokens > n) {
        assembly_break(l->assembly,
                       "Geometry of %zu, %zu and %zu stages, but %s",
                       m->n_n_pages, m->n_pages_per_block, m->n_pages_per_slot,
                       !l->asked  ? "it was not sent"
                       : l->known ? "it came before"
                                  : "there are others");
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        stages[i] = (struct mirror_stage){
            m->n_pages[i], m->pages_per_block[i], m->pages_per_slot[i],
            m->n_window_pages > 0 ? m->window_pages[i] : 0};
        if (!is_shape(&stages[i])) {
            assembly_break(l->assembly,
                           "Geometry: stage %u has %u pages, %u for a block "
                           "and %u for a slot",
                           i + 1, m->n_pages[i], m->pages_per_block[i],
                           m->pages_per_slot[i]);
            return;
        }
    }
    learn(l, stages, n, m);
}

/* ---- begin and end ---- */

static bool make_added(struct leader_added *a, uint32_t capacity)
{
    if (a->capacity > 0) {
        return true;
    }
    free(a->node);
    a->node = malloc(3 * (size_t)capacity * sizeof *a->node);
    if (a->node == NULL) {
        return false;
    }
    a->parent = a->node + capacity;
    a->end = a->parent + capacity;
    a->capacity = capacity;
    return true;
}

/* Checkpoints have the numbers of pages here, or of nodes where this stage has
 * none. */
static uint32_t saves_max(const struct worker_options *o)
{
    uint64_t nodes =
        (uint64_t)o->pool.n_pages * o->block_tokens / PREFIX_UNIT + 1;

    return o->pool.pages_per_slot > 0 ? o->pool.n_pages / o->pool.pages_per_slot
                                      : (uint32_t)nodes;
}

bool leader_reuse_begin(struct leader *l)
{
    static const struct prefix_watch empty;
    const struct worker_options *o = &l->assembly->base->o;
    uint32_t capacity = l->sequences->table.capacity;
    struct prefix_watch w = empty;

    if (l->notes == NULL) {
        mirror_init(&l->mirror, capacity, o->context, o->block_tokens);
        l->notes = calloc(capacity, sizeof *l->notes);
    }
    if (l->notes == NULL ||
        !make_added(&l->added, o->context / PREFIX_UNIT + 1) ||
        (l->saves.entries == NULL && !name_map_init(&l->saves, saves_max(o)))) {
        return false;
    }
    l->asked = l->known = false;
    w.self = l;
    w.added = on_added;
    w.keeps = on_keeps;
    w.reserved = on_reserved;
    w.gone = on_gone;
    w.fits = on_fits;
    prefix_set_watch(l->sequences->reuse.index, &w);
    return true;
}

/* Nothing of this assembly goes into the index any more. */
static void drop_rolling(struct leader *l)
{
    struct prefix *index = l->sequences->reuse.index;

    for (struct sequence *s = l->sequences->table.all.head; s != NULL;
         s = sequence_next(s, LIST_ALL)) {
        if (s->memory.rolling != SLOT_NONE) {
            prefix_drop(index, s->memory.rolling);
            s->memory.rolling = SLOT_NONE;
        }
    }
}

/* The stages drop what they keep by themselves. */
void leader_reuse_over(struct leader *l)
{
    l->asked = l->known = false;
    prefix_set_watch(l->sequences->reuse.index, NULL);
    drop_rolling(l);
    prefix_clear(l->sequences->reuse.index);
    mirror_end(&l->mirror);
    name_map_clear(&l->saves);
    l->added.n = 0;
    l->gone.n_nodes = l->gone.n_checkpoints = 0;
}

void leader_fini(struct leader *l)
{
    mirror_fini(&l->mirror);
    name_map_fini(&l->saves);
    free(l->notes);
    free(l->added.node);
}
