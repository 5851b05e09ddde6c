#include "worker/sequences/suspend.h"

#include "common/base/log.h"
#include "common/base/minmax.h"
#include "common/base/plant.h"
#include "worker/plan/twins.h"
#include "worker/sequence/windows.h"
#include "worker/sequences/continue.h"
#include "worker/sequences/sequences.h"

/* Rates before anything is measured: 8 GB/s, 10,000 tokens/s. */
#define FIRST_BYTES_PER_US 8000.0
#define FIRST_TOKEN_US     100.0

void suspend_init(struct sequences *q)
{
    const struct worker_options *o = &q->base->o;
    double bytes =
        o->pool.n_pages > 0 ? (double)o->pool.bytes / o->pool.n_pages : 0;

    q->suspend.leaving.link = q->suspend.line.link = LIST_PLAN;
    q->suspend.page_us = bytes / FIRST_BYTES_PER_US;
    q->suspend.token_us = FIRST_TOKEN_US;
}

/* ---- sizes ---- */

static uint32_t blocks_for(const struct sequences *q, uint32_t n_tokens)
{
    const struct worker_options *o = &q->base->o;
    uint32_t bt = o->block_tokens;

    return o->pool.pages_per_block == 0 ? 0
                                        : n_tokens / bt + (n_tokens % bt != 0);
}

/* Returns the most blocks that s can use. */
static uint32_t greatest(const struct sequences *q, const struct sequence *s)
{
    return blocks_for(q, s->portable.n_prompt + s->portable.max_tokens);
}

/* Returns the window pages that n tokens hold at once. */
static uint32_t windows_for(const struct sequences *q, uint32_t n_tokens)
{
    const struct window_rules *r = &q->table.windows;

    return windows_blocks(r, n_tokens) * r->pages;
}

static uint32_t pages_per_slot(const struct sequences *q)
{
    return q->base->o.pool.pages_per_slot;
}

static uint64_t available(const struct sequences *q)
{
    struct pool_account a = pool_pages(&q->pool);

    return (uint64_t)a.free + a.cached;
}

static bool grant(struct sequences *q, const struct pool_need *need)
{
    struct error e;

    prefix_make_room(q->reuse.index, need, PREFIX_NONE);
    return pool_grant(&q->pool, need, &e) == ST_OK;
}

/* ---- Submit ---- */

enum status suspend_check(const struct sequences *q,
                          const Sluice__V1__SubmitRequest *m, struct error *e)
{
    const struct worker_options *o = &q->base->o;
    uint32_t n = m->n_prompt + m->max_tokens;
    uint64_t pages =
        (uint64_t)blocks_for(q, n) + o->pool.pages_per_slot + windows_for(q, n);

    if (!m->grows) {
        return ST_OK;
    }
    if (worker_options_role(o) != ROLE_ALONE) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "grows is set, but this worker has layers %u-%u of %u "
                         "only: a replica of several stages is granted whole "
                         "needs",
                         o->layer_begin, o->layer_end, o->n_layers);
    }
    return pages <= o->pool.n_pages
               ? ST_OK
               : error_set(e, ST_INVALID_ARGUMENT,
                           "n_prompt %u and max_tokens %u may use %llu pages, "
                           "the pool has %u; lower max_tokens",
                           m->n_prompt, m->max_tokens,
                           (unsigned long long)pages, o->pool.n_pages);
}

bool suspend_is_idle(const struct sequences *q)
{
    return q->table.in_state[SEQUENCE_SUSPENDED] == 0 &&
           q->suspend.leaving.n == 0;
}

void suspend_open(struct sequences *q, struct sequence *s,
                  const Sluice__V1__SubmitRequest *m)
{
    s->suspension.grows = m->grows;
    s->suspension.expected = m->need->blocks;
    q->table.n_growing += s->suspension.grows;
}

bool suspend_admit(const struct sequences *q, struct sequence *s,
                   const struct pool_need *need, struct error *e)
{
    uint64_t pages = pool_need_pages(&q->pool, need);

    if (suspend_is_idle(q) && q->table.n_growing == s->suspension.grows) {
        return false; /* no other sequence will make room */
    }
    if (pages > q->pool.o.n_pages) {
        error_set(e, ST_RESOURCE_EXHAUSTED, "needs %llu pages, the pool has %u",
                  (unsigned long long)pages, q->pool.o.n_pages);
        return false;
    }
    suspension_move(s, SUSPENSION_WAITS);
    s->suspension.expected = need->n[POOL_BLOCKS];
    return true;
}

/* Whole needs were promised, so what their victims gave goes to them first.
 * Sequences that have run come back before those that have not. */
static int rank(const struct sequence *s)
{
    if (!s->suspension.grows) {
        return 0;
    }
    return suspension_happened(&s->suspension) ? 1 : 2;
}

static bool is_before(const struct sequence *a, const struct sequence *b)
{
    return rank(a) != rank(b) ? rank(a) < rank(b) : a->number < b->number;
}

/* Puts s into the line before those that come back later. */
static void line_up(struct sequences *q, struct sequence *s)
{
    struct sequence_list *l = &q->suspend.line;
    struct sequence *at = l->tail, *behind = NULL;

    sequence_unlink(s, LIST_PLAN);
    while (at != NULL && is_before(s, at)) {
        behind = at;
        at = at->links[LIST_PLAN].prev;
    }
    sequence_insert(l, s, behind);
}

struct sequence *suspend_enter(struct sequences *q, struct sequence *s)
{
    sequence_move(&q->table, s, SEQUENCE_SUSPENDED);
    line_up(q, s);
    q->report.changed = true;
    return continue_leave(q, s);
}

/* ---- growth ---- */

/* Returns the pages that s has, and that are free or cached once it has given
 * them back. */
static uint32_t gives(const struct sequences *q, const struct sequence *s)
{
    uint32_t n = s->memory.need.n[POOL_BLOCKS] - s->memory.n_blocks;

    for (uint32_t i = 0; i < s->memory.n_blocks; i++) {
        n += q->pool.blocks[paged_get(&q->table.slab, &s->memory.blocks, i)]
                 .refs == 1;
    }
    return n + s->memory.need.n[POOL_SLOTS] * pages_per_slot(q) +
           s->memory.need.n[POOL_WINDOWS];
}

/* Lets s have `want` of a class of single pages.  Returns how many it lacks. */
static uint32_t grow_class(struct sequences *q, struct sequence *s,
                           enum pool_class c, uint32_t want)
{
    struct pool_need one = {{0}};

    one.n[c] = 1;
    while (s->memory.need.n[c] < want) {
        if (!grant(q, &one)) {
            return want - s->memory.need.n[c];
        }
        s->memory.need.n[c]++;
        q->report.changed = true;
    }
    return 0;
}

/* Gives s what its next row needs.  Returns the pages that it lacks. */
static uint32_t grow(struct sequences *q, struct sequence *s)
{
    uint32_t end = min_u32(s->plan.n_planned + 1,
                           s->portable.n_prompt + s->portable.max_tokens);

    return grow_class(q, s, POOL_BLOCKS, blocks_for(q, end)) +
           grow_class(q, s, POOL_WINDOWS, windows_for(q, end));
}

static uint32_t grow_all(struct sequences *q)
{
    uint32_t lacking = 0;

    for (struct sequence *s = q->batcher.decode.head; s != NULL;
         s = sequence_next(s, LIST_PLAN)) {
        lacking += s->suspension.grows ? grow(q, s) : 0;
    }
    return lacking;
}

/* ---- what a sequence needs to come back ---- */

/* A sequence that has used more than it was expected to is expected to use a
 * quarter more than it has. */
static uint32_t blocks_back(const struct sequences *q, const struct sequence *s)
{
    uint32_t next = blocks_for(q, sequence_known(s) + 1);
    uint32_t more = blocks_for(q, s->portable.n_generated / 4);

    if (!s->suspension.grows) {
        return s->suspension.expected;
    }
    return min_u32(greatest(q, s),
                   max_u32(s->suspension.expected, next + more));
}

/* As many as the positions of those blocks take; without blocks, as all may. */
static uint32_t windows_back(const struct sequences *q,
                             const struct sequence *s)
{
    const struct worker_options *o = &q->base->o;
    uint32_t all = s->portable.n_prompt + s->portable.max_tokens;

    return windows_for(q,
                       o->pool.pages_per_block > 0 && s->suspension.grows
                           ? min_u32(all, blocks_back(q, s) * o->block_tokens)
                           : all);
}

static struct pool_need need_back(const struct sequences *q,
                                  const struct sequence *s)
{
    return (struct pool_need){{blocks_back(q, s), pages_per_slot(q) > 0 ? 1 : 0,
                               0, windows_back(q, s)}};
}

/* Returns the pages that the head of the line lacks, if it has a whole need. */
static uint64_t head_lacks(const struct sequences *q)
{
    const struct sequence *s = q->suspend.line.head;
    struct pool_need need;
    uint64_t pages;

    if (s == NULL || s->suspension.grows) {
        return 0;
    }
    need = need_back(q, s);
    pages = pool_need_pages(&q->pool, &need);
    return pages > available(q) ? pages - available(q) : 0;
}

/* ---- the victim ---- */

/* Returns the window pages that the next row of s sees. */
static uint32_t window_pages(const struct sequences *q,
                             const struct sequence *s)
{
    const struct window_rules *r = &q->table.windows;

    return windows_seen(r, s->plan.n_planned) * r->pages;
}

/* Returns the host pages that s takes, and in *k the blocks before them that
 * need none: whole units that the index has and another table names, or, if s
 * is kept, that the index has. */
static uint32_t swap_pages(const struct sequences *q, const struct sequence *s,
                           uint32_t *k)
{
    uint32_t n = min_u32(blocks_for(q, s->plan.n_planned), s->memory.n_blocks);
    uint32_t unit = PREFIX_UNIT / q->base->o.block_tokens;

    for (*k = 0; *k < n; (*k)++) {
        uint32_t block = paged_get(&q->table.slab, &s->memory.blocks, *k);
        const struct pool_block *b = &q->pool.blocks[block];

        if ((b->refs < 2 && s->state != SEQUENCE_KEPT) || !b->indexed) {
            break;
        }
    }
    *k -= *k % unit;
    return n - *k + pages_per_slot(q) + window_pages(q, s);
}

static double swap_us(const struct sequences *q, uint32_t pages)
{
    return 2 * pages * q->suspend.page_us;
}

static double again_us(const struct sequences *q, const struct sequence *s)
{
    return s->plan.n_planned * q->suspend.token_us;
}

/* Returns whether s can be swapped: all that it has was computed, and its pages
 * have a place. */
static bool can_swap(const struct sequences *q, const struct sequence *s,
                     uint32_t pages)
{
    return s->plan.n_planned > 0 && s->plan.n_computed == s->plan.n_planned &&
           pages > 0 && windows_reach(&q->table, s, s->plan.n_planned) &&
           pages <= host_free(&q->host) + prefix_host_pages(q->reuse.index) &&
           pages + pages_per_slot(q) <= SWAP_PAGES_MAX;
}

static double loss_us(const struct sequences *q, const struct sequence *s)
{
    uint32_t k, pages = swap_pages(q, s, &k);
    double again = again_us(q, s), swap = swap_us(q, pages);

    /* It came back, and is still on the host. */
    if (s->memory.n_host > 0) {
        return 0;
    }
    return swap < again && can_swap(q, s, pages) ? swap : again;
}

static bool is_candidate(const struct sequences *q, const struct sequence *s)
{
    bool runs = s->state == SEQUENCE_QUEUED || s->state == SEQUENCE_PREFILL ||
                s->state == SEQUENCE_DECODE;

    return s->suspension.grows && runs && s->plan.recompute == RECOMPUTE_NONE &&
           !continuation_pends(&s->continuation) &&
           sequence_is_linked(s, LIST_PLAN) &&
           s->links[LIST_PLAN].list != &q->suspend.leaving;
}

/* Returns NULL if there is none.  The only one left is spared unless another
 * sequence waits for its pages: it would make room for itself. */
static struct sequence *choose(const struct sequences *q, bool for_head)
{
    struct sequence *best = NULL, *spared = NULL;
    uint32_t n = 0;
    double least_us = 0;

    for (struct sequence *s = q->table.all.head; s != NULL;
         s = sequence_next(s, LIST_ALL)) {
        double us;

        if (!is_candidate(q, s)) {
            continue;
        }
        n++;
        if (s->number == q->suspend.last) {
            spared = s;
            continue;
        }
        us = loss_us(q, s);
        /* The youngest of equals has waited least. */
        if (best == NULL || us <= least_us) {
            best = s;
            least_us = us;
        }
    }
    if (n == 1 && !for_head) {
        return NULL;
    }
    return best != NULL ? best : spared;
}

/* ---- suspension ---- */

/* Returns the i-th of the pages that swap_pages() counted: of the slot, of the
 * blocks from the k-th on, of the window blocks. */
static uint32_t swapped_page(const struct sequences *q,
                             const struct sequence *s, uint32_t k, uint32_t i,
                             uint32_t n)
{
    const struct window_rules *r = &q->table.windows;
    uint32_t n_slot = pages_per_slot(q), windows = n - window_pages(q, s);
    uint32_t first =
        windows_first(r, s->plan.n_planned) - s->memory.window_first;

    if (i < n_slot) {
        return s->memory.slot + i;
    }
    return pool_page(
        &q->pool,
        i < windows
            ? paged_get(&q->table.slab, &s->memory.blocks, k + i - n_slot)
            : windows_nth(&q->table, s, first * r->pages + i - windows));
}

/* Copies the n pages of the pool that swap_pages() counted to a chain.  Returns
 * false, with nothing changed, if the next plan has no room for the copies. */
static bool copy_out(struct sequences *q, struct sequence *s, uint32_t k,
                     uint32_t n)
{
    uint32_t host, first;

    if (pool_swaps_left(&q->pool) < n + POOL_SWAPS_MAX / 2 ||
        !prefix_host_room(q->reuse.index, n) ||
        !host_take(&q->host, n, &first)) {
        return false;
    }
    host = first;
    for (uint32_t i = 0; i < n; i++, host = host_next(&q->host, host)) {
        pool_copy_out(&q->pool, swapped_page(q, s, k, i, n), host);
    }
    s->memory.host = first;
    s->memory.n_host = n;
    s->memory.n_host_windows = window_pages(q, s);
    s->memory.n_dropped = k;
    q->base->metrics.pages_out += n;
    return true;
}

bool suspend_store(struct sequences *q, struct sequence *s)
{
    uint32_t k, pages = swap_pages(q, s, &k);

    return can_swap(q, s, pages) && copy_out(q, s, k, pages);
}

/* Returns whether s is on the host afterwards. */
static bool swap_out(struct sequences *q, struct sequence *s)
{
    uint32_t k, pages = swap_pages(q, s, &k);

    if (s->memory.n_host > 0) {
        return true;
    }
    return can_swap(q, s, pages) && swap_us(q, pages) <= again_us(q, s) &&
           copy_out(q, s, k, pages);
}

/* Everything of s is to be computed again. */
static void lose_all(struct sequence *s)
{
    if (s->plan.lost == 0) {
        s->plan.lost = s->plan.n_computed;
        s->plan.waste = WASTE_SUSPENDED;
    }
    s->plan.n_planned = s->plan.n_computed = 0;
}

/* No plan names s. */
static void suspend(struct sequences *q, struct sequence *s)
{
    char name[SEQUENCE_NAME];
    bool swapped;

    reuse_end(&q->reuse, s);
    swapped = swap_out(q, s);
    if (!swapped) {
        lose_all(s);
    }
    s->suspension.resumes = s->state;
    suspension_move(s, SUSPENSION_OUT);
    sequence_give_back(&q->table, s);
    sequence_move(&q->table, s, SEQUENCE_SUSPENDED);
    line_up(q, s);
    q->base->metrics.suspended++;
    q->report.changed = true;
    log_info("sequence-suspended", "request=%s by=%s positions=%u pages=%u",
             sequence_name(&s->key, name), swapped ? "swap" : "recompute",
             swapped ? s->plan.n_planned : s->plan.lost, s->memory.n_host);
}

static void suspend_ready(struct sequences *q)
{
    struct sequence *s = q->suspend.leaving.head, *next;

    for (; s != NULL; s = next) {
        next = sequence_next(s, LIST_PLAN);
        if (s->plan.inflight == 0) {
            suspend(q, s);
        }
    }
}

static void leave(struct sequences *q, struct sequence *s)
{
    batcher_drop(&q->batcher, s);
    sequence_push(&q->suspend.leaving, s);
    q->suspend.last = s->number;
}

static uint64_t coming(const struct sequences *q)
{
    uint64_t n = 0;

    for (const struct sequence *s = q->suspend.leaving.head; s != NULL;
         s = sequence_next(s, LIST_PLAN)) {
        n += gives(q, s);
    }
    return n;
}

/* Suspends until every row has its pages, or they are on their way.  Returns
 * whether some are not there. */
static bool make_room(struct sequences *q)
{
    struct sequence *victim;
    uint64_t rows, head;

    for (;;) {
        rows = grow_all(q);
        head = head_lacks(q);
        if (rows + head <= coming(q)) {
            return rows + head > 0;
        }
        victim = choose(q, head > 0);
        if (victim == NULL) {
            return true;
        }
        leave(q, victim);
        suspend_ready(q);
    }
}

/* ---- coming back ---- */

/* Returns the pages that are left free for sequences that grow. */
static uint32_t margin(const struct sequences *q)
{
    uint32_t n = 0;

    for (const struct sequence *s = q->batcher.decode.head; s != NULL;
         s = sequence_next(s, LIST_PLAN)) {
        uint32_t all =
            windows_for(q, s->portable.n_prompt + s->portable.max_tokens);

        n += s->suspension.grows &&
             s->memory.need.n[POOL_BLOCKS] < greatest(q, s);
        n += s->suspension.grows && s->memory.need.n[POOL_WINDOWS] < all
                 ? q->table.windows.pages
                 : 0;
    }
    return n;
}

static bool has_room(const struct sequences *q, const struct sequence *s,
                     const struct pool_need *need)
{
    struct pool_account slots = pool_account(&q->pool, POOL_SLOTS);
    uint64_t pages = pool_need_pages(&q->pool, need);

    return pages + (s->suspension.grows ? margin(q) : 0) <= available(q) &&
           need->n[POOL_SLOTS] + slots.held + slots.granted <= slots.total;
}

/* Shares the blocks that were not copied.  Returns false if the index has lost
 * one, or has it in the host tier only. */
static bool find_dropped(struct sequences *q, struct sequence *s)
{
    uint32_t *blocks = q->reuse.blocks, n_tokens, node;
    uint32_t want = s->memory.n_dropped * q->base->o.block_tokens;

    if (s->memory.n_dropped == 0) {
        return true;
    }
    node = prefix_path(q->reuse.index, s->portable.scope, s->portable.n_scope,
                       &q->table.slab, &s->portable.tokens, want, &n_tokens);
    if (node == PREFIX_NONE || n_tokens < want ||
        !prefix_is_inside(q->reuse.index, node)) {
        return false;
    }
    prefix_blocks(q->reuse.index, node, blocks);
    for (uint32_t i = 0; i < s->memory.n_dropped; i++) {
        pool_share(&q->pool, blocks[i], false);
    }
    paged_write(&q->table.slab, &s->memory.blocks, 0, blocks,
                s->memory.n_dropped);
    s->memory.n_blocks = s->memory.n_dropped;
    drafts_add_hole(&s->drafts, prefix_has_hole(q->reuse.index, node));
    return true;
}

static void leave_dropped(struct sequences *q, struct sequence *s)
{
    for (; s->memory.n_blocks > 0; s->memory.n_blocks--) {
        pool_release(&q->pool, POOL_BLOCKS,
                     paged_get(&q->table.slab, &s->memory.blocks,
                               s->memory.n_blocks - 1));
    }
}

/* Gives a swapped sequence its need.  Its pages follow with its first row. */
static bool back_by_swap(struct sequences *q, struct sequence *s)
{
    struct pool_need need = need_back(q, s), rest = need;

    rest.n[POOL_BLOCKS] -= s->memory.n_dropped;
    if (!has_room(q, s, &rest)) {
        return false;
    }
    if (!find_dropped(q, s)) {
        sequence_give_host(&q->table, s);
        lose_all(s);
        return true; /* it is looked at again, for its whole need */
    }
    /* Blocks that were cached are not, now that they are shared. */
    if (!has_room(q, s, &rest) || !grant(q, &rest)) {
        leave_dropped(q, s);
        return false;
    }
    s->memory.need = need;
    sequence_unlink(s, LIST_PLAN);
    suspension_move(s, SUSPENSION_BACK);
    sequence_move(&q->table, s, s->suspension.resumes);
    if (s->state == SEQUENCE_DECODE) {
        sequence_push(&q->batcher.decode, s);
    } else {
        sequence_insert(&q->batcher.prefill, s, q->batcher.prefill.head);
    }
    q->base->metrics.resumed_swap++;
    return true;
}

static bool back_by_recompute(struct sequences *q, struct sequence *s)
{
    struct pool_need need = need_back(q, s);

    if (!has_room(q, s, &need) || !grant(q, &need)) {
        return false;
    }
    s->memory.need = need;
    q->base->metrics.resumed_recompute += suspension_happened(&s->suspension);
    suspension_move(s, suspension_waits(&s->suspension) ? SUSPENSION_NONE
                                                        : SUSPENSION_BACK);
    sequence_unlink(s, LIST_PLAN);
    sequence_move(&q->table, s, SEQUENCE_QUEUED);
    if (!twins_join(&q->batcher, s)) {
        sequence_insert(&q->batcher.prefill, s, q->batcher.prefill.head);
    }
    return true;
}

/* Oldest first: none overtakes the one before it. */
static void bring_back(struct sequences *q)
{
    struct sequence *s;
    bool went = true;

    while (went && (s = q->suspend.line.head) != NULL) {
        went =
            s->memory.n_host > 0 ? back_by_swap(q, s) : back_by_recompute(q, s);
        if (went && s->state != SEQUENCE_SUSPENDED) {
            char name[SEQUENCE_NAME];

            log_info("sequence-resumed", "request=%s by=%s positions=%u",
                     sequence_name(&s->key, name),
                     s->memory.n_host > 0 ? "swap" : "recompute",
                     s->plan.n_planned);
            q->report.changed = true;
        }
    }
}

void suspend_turn(struct sequences *q)
{
    if (q->table.n_growing == 0 && suspend_is_idle(q)) {
        return;
    }
    suspend_ready(q);
    if (!make_room(q) && q->suspend.leaving.n == 0) {
        bring_back(q);
    }
}

/* ---- plans ---- */

/* A sequence whose pages were to come back has a row in that plan, which is
 * computed again: from its ids, because its pages are not there.  Copies out go
 * with the next plan. */
void suspend_lost(struct sequences *q, uint64_t step)
{
    for (struct sequence *s = q->table.all.head; s != NULL;
         s = sequence_next(s, LIST_ALL)) {
        if (s->suspension.swap_step == step) {
            s->plan.n_computed = 0;
        }
    }
}
