#include "worker/stages/mirror.h"

#include <string.h>

void mirror_init(struct mirror *m, uint32_t capacity, uint32_t context,
                 uint32_t block_tokens)
{
    memset(m, 0, sizeof *m);
    m->capacity = capacity;
    m->context = context;
    m->block_tokens = block_tokens;
}

/* The shadow is a pool in which a block and a state take one page each.  It
 * counts what all stages hold; pages_used() then weighs the counts with the
 * sizes of each stage. */
static void unmake(struct mirror *m)
{
    stage_cache_fini(&m->cache);
    sequence_table_fini(&m->table);
    pool_fini(&m->pool);
    m->made = false;
}

void mirror_fini(struct mirror *m)
{
    if (m->made) {
        unmake(m);
    }
    memset(m, 0, sizeof *m);
}

static uint32_t per_of(const struct mirror_stage *g, enum pool_class c)
{
    switch (c) {
    case POOL_BLOCKS:
        return g->pages_per_block;
    case POOL_WINDOWS:
        return g->window_pages;
    default:
        return g->pages_per_slot;
    }
}

/* The shadow must never run out before a stage does, so it has room for the
 * stage with the most of each class.  mirror_fits() finds the stage that is
 * full first. */
/* Returns the most of a class that any stage holds. */
static uint32_t most_of(const struct mirror_stage *stages, uint32_t n,
                        enum pool_class c)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t per = per_of(&stages[i], c);
        uint32_t total = per > 0 ? stages[i].n_pages / per : 0;

        most = total > most ? total : most;
    }
    return most;
}

static struct pool_options shadow_of(const struct mirror_stage *stages,
                                     uint32_t n)
{
    uint32_t n_blocks = most_of(stages, n, POOL_BLOCKS);
    uint32_t n_states = most_of(stages, n, POOL_SLOTS);
    uint32_t n_windows = most_of(stages, n, POOL_WINDOWS);

    return (struct pool_options){
        .n_pages = n_blocks + n_states + n_windows,
        .pages_per = {n_blocks > 0, n_states > 0, n_states > 0, n_windows > 0}};
}

static bool make(struct mirror *m, const struct pool_options *o)
{
    uint32_t longest = m->context / m->block_tokens + 2;
    uint64_t values = (uint64_t)m->capacity * longest;
    struct sequence_limits l = {
        .capacity = m->capacity,
        .longest = longest,
        .values = values < MIRROR_BLOCKS_MAX ? values : MIRROR_BLOCKS_MAX,
        .n_rings = 1};

    if (!pool_init(&m->pool, o, false)) {
        return false;
    }
    if (!sequence_table_init(&m->table, &l, &m->pool)) {
        pool_fini(&m->pool);
        return false;
    }
    m->made = stage_cache_init(&m->cache, &m->table, m->block_tokens);
    if (!m->made) {
        unmake(m);
    }
    return m->made;
}

/* An assembly of the same shape uses the memory again, because assemblies end
 * and begin with each lost edge. */
bool mirror_begin(struct mirror *m, const struct mirror_stage *stages,
                  uint32_t n)
{
    struct pool_options o = shadow_of(stages, n);

    if (m->made &&
        (m->pool.o.n_pages != o.n_pages ||
         memcmp(m->pool.o.pages_per, o.pages_per, sizeof o.pages_per) != 0)) {
        unmake(m);
    }
    if (!m->made && !make(m, &o)) {
        return false;
    }
    memcpy(m->stages, stages, n * sizeof *stages);
    m->n_stages = n;
    return true;
}

static void forget(struct mirror *m, struct sequence *s)
{
    sequence_release(&m->table, s);
    sequence_set_grant(&m->table, s, 0);
    sequence_free(&m->table, &s);
}

/* Stages free everything at the end of an assembly, and so does the shadow. */
void mirror_end(struct mirror *m)
{
    m->n_stages = 0;
    if (!m->made) {
        return;
    }
    stage_cache_clear(&m->cache);
    while (m->table.all.head != NULL) {
        forget(m, m->table.all.head);
    }
}

/* ---- room ---- */

bool mirror_has(const struct mirror *m, enum pool_class c)
{
    return m->n_stages > 0 && m->pool.o.pages_per[c] > 0;
}

static uint64_t stage_pages(const struct mirror_stage *g,
                            const struct pool_need *n)
{
    return (uint64_t)n->n[POOL_BLOCKS] * g->pages_per_block +
           ((uint64_t)n->n[POOL_SLOTS] + n->n[POOL_CHECKPOINTS]) *
               g->pages_per_slot +
           (uint64_t)n->n[POOL_WINDOWS] * g->window_pages;
}

static uint64_t pages_used(const struct mirror *m, uint32_t stage)
{
    const struct mirror_stage *g = &m->stages[stage];

    return stage_pages(g, &m->pool.held) + stage_pages(g, &m->pool.cached) +
           stage_pages(g, &m->pool.granted);
}

/* Grants count as used: a stage has promised their pages, although no block has
 * been taken. */
uint32_t mirror_free(const struct mirror *m, uint32_t stage)
{
    uint64_t used = pages_used(m, stage);
    uint32_t n = m->stages[stage].n_pages;

    return used < n ? n - (uint32_t)used : 0;
}

bool mirror_fits(const struct mirror *m, const struct pool_need *need,
                 uint32_t *short_at)
{
    for (uint32_t i = 0; i < m->n_stages; i++) {
        if (stage_pages(&m->stages[i], need) > mirror_free(m, i)) {
            if (short_at != NULL) {
                *short_at = i;
            }
            return false;
        }
    }
    return true;
}

/* ---- messages ---- */

static struct sequence *find(struct mirror *m, uint64_t grant, struct error *e)
{
    struct sequence *s =
        grant == 0 ? NULL : sequence_by_grant(&m->table, grant);

    if (s == NULL) {
        error_set(e, ST_INTERNAL, "grant %llu is not open at the stages",
                  (unsigned long long)grant);
    }
    return s;
}

enum status mirror_open(struct mirror *m, uint64_t grant,
                        const struct pool_need *need, struct error *e)
{
    struct pool_need mine = *need;
    struct sequence *s;

    /* The leader may have a class that no later stage has. */
    for (int c = 0; c < POOL_CLASSES; c++) {
        mine.n[c] = m->pool.o.pages_per[c] > 0 ? mine.n[c] : 0;
    }
    if (pool_grant(&m->pool, &mine, e) != ST_OK) {
        return e->code;
    }
    s = sequence_new(&m->table, 0, mine.n[POOL_BLOCKS]);
    if (s == NULL) {
        pool_ungrant(&m->pool, &mine);
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "the block tables of %u sequences fill the memory",
                         m->table.n_live);
    }
    s->memory.need = mine;
    sequence_set_grant(&m->table, s, grant);
    return ST_OK;
}

/* A sequence that has computed [0, end) has its blocks and its slot; the shadow
 * takes them when that matters. */
static enum status take(struct mirror *m, struct sequence *s, uint32_t end,
                        struct error *e)
{
    bool slot = s->memory.need.n[POOL_SLOTS] > 0 && s->memory.slot == SLOT_NONE;

    if (stage_cache_take(&m->cache, s, end, e) != ST_OK) {
        return e->code;
    }
    return !slot || pool_take(&m->pool, POOL_SLOTS, 1, &s->memory.slot)
               ? ST_OK
               : error_set(e, ST_INTERNAL, "the granted slot was not there");
}

enum status mirror_restore(struct mirror *m, uint64_t grant,
                           const struct stage_restore *r, uint64_t from,
                           struct pool_need *freed, struct error *e)
{
    struct sequence *s = find(m, grant, e);
    struct stage_restore mine = *r;
    struct pool_need before;
    struct stage_copies copies;

    /* Grants name sequences here and on the wire: the pointers of the caller
     * are those of the leader's own table. */
    mine.from = NULL;
    if (s != NULL && from != 0) {
        mine.from = find(m, from, e);
    }
    if (s == NULL || (from != 0 && mine.from == NULL)) {
        return e->code;
    }
    if ((from != 0 && take(m, mine.from, r->position, e) != ST_OK) ||
        (r->cut && take(m, s, r->position, e) != ST_OK)) {
        return e->code;
    }
    /* A cut returns memory at every stage; the caller reports the sum. */
    before = s->memory.need;
    if (stage_cache_restore(&m->cache, s, &mine, &copies, e) != ST_OK) {
        return e->code;
    }
    for (int c = 0; c < POOL_CLASSES && freed != NULL; c++) {
        freed->n[c] = before.n[c] - s->memory.need.n[c];
    }
    return ST_OK;
}

enum status mirror_twin(struct mirror *m, uint64_t source, uint64_t grant,
                        uint32_t end, struct error *e)
{
    struct sequence *first = find(m, source, e);
    struct sequence *s = first == NULL ? NULL : find(m, grant, e);

    if (s == NULL || stage_cache_take(&m->cache, first, end, e) != ST_OK) {
        return e->code;
    }
    return stage_cache_twin(&m->cache, first, s, end, e);
}

/* Blocks that it has not taken here are new ones. */
bool mirror_keeps(const struct mirror *m, uint64_t grant, uint32_t end)
{
    const struct sequence *s =
        grant == 0 ? NULL : sequence_by_grant(&m->table, grant);
    uint32_t last = end / m->block_tokens;
    bool free = s != NULL;

    for (uint32_t i = last - PREFIX_UNIT / m->block_tokens;
         free && i < last && i < s->memory.n_blocks; i++) {
        uint32_t block = paged_get(&m->table.slab, &s->memory.blocks, i);

        free = !m->pool.blocks[block].indexed;
    }
    return free;
}

/* The sequence has taken these blocks at the stages by now. */
enum status mirror_keep(struct mirror *m, uint64_t grant, uint32_t node,
                        uint32_t parent, uint32_t end, struct error *e)
{
    struct sequence *s = find(m, grant, e);

    if (s == NULL || stage_cache_take(&m->cache, s, end, e) != ST_OK) {
        return e->code;
    }
    return stage_cache_keep(&m->cache, s, node, parent, end, e);
}

void mirror_remove(struct mirror *m, uint64_t grant)
{
    struct sequence *s =
        grant == 0 ? NULL : sequence_by_grant(&m->table, grant);

    if (s != NULL) {
        forget(m, s);
    }
}
