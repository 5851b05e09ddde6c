#include "worker/plan/take_over.h"

#include "worker/plan/batcher.h"
#include "worker/sequence/windows.h"

/* Returns whether the state of `kept` is that behind its last position, and at
 * least one id of s follows. */
static bool is_usable(const struct batcher *b, const struct sequence *kept,
                      const struct sequence *s)
{
    return kept->plan.n_planned > 0 &&
           kept->plan.n_computed == kept->plan.n_planned &&
           kept->plan.n_planned < sequence_known(s) &&
           (kept_is_away(&kept->kept) ||
            windows_reach(b->table, kept, kept->plan.n_planned));
}

/* Returns whether another table or the index has the block: then it is not
 * written any more. */
static bool is_shared(const struct pool *p, uint32_t block)
{
    return p->blocks[block].refs > 1 || p->blocks[block].indexed;
}

static void take_blocks(struct batcher *b, const struct sequence *kept,
                        struct sequence *s, uint32_t *copied)
{
    struct pool *pool = b->table->pool;
    uint32_t full = kept->plan.n_planned / b->limits.block_tokens;
    uint32_t n = full + (kept->plan.n_planned % b->limits.block_tokens != 0);

    for (uint32_t i = 0; b->limits.has_blocks && i < n; i++) {
        uint32_t block = paged_get(&b->table->slab, &kept->memory.blocks, i);

        if (i == full && is_shared(pool, block)) {
            *copied = block;
            return;
        }
        pool_share(pool, block, true);
        paged_write(&b->table->slab, &s->memory.blocks, s->memory.n_blocks++,
                    &block, 1);
    }
}

/* As blocks: the partly filled one is copied if others have it too. */
static void take_windows(struct batcher *b, const struct sequence *kept,
                         struct sequence *s, struct take_over_copies *copies)
{
    uint32_t at = kept->plan.n_planned, last = at / b->limits.block_tokens;
    bool partial =
        b->table->windows.window > 0 && at % b->limits.block_tokens != 0;
    bool shared = partial && windows_shared(b->table, kept, last);

    windows_share(b->table, kept, s, at, !shared);
    copies->windows = shared ? kept : NULL;
}

/* Shares the blocks that only the index has. */
static bool share_dropped(struct batcher *b, struct sequence *kept,
                          struct sequence *s)
{
    uint32_t want = kept->memory.n_dropped * b->limits.block_tokens, n_tokens,
             node;
    struct prefix *index = b->reuse->index;

    if (want == 0) {
        return true;
    }
    node =
        prefix_path(index, kept->portable.scope, kept->portable.n_scope,
                    &b->table->slab, &kept->portable.tokens, want, &n_tokens);
    if (node == PREFIX_NONE || n_tokens < want ||
        !prefix_share(index, node, b->reuse->blocks)) {
        return false;
    }
    paged_write(&b->table->slab, &s->memory.blocks, 0, b->reuse->blocks,
                kept->memory.n_dropped);
    drafts_add_hole(&kept->drafts, prefix_has_hole(index, node));
    s->memory.n_blocks = kept->memory.n_dropped;
    return true;
}

static bool hand_over(struct batcher *b, struct sequence *kept,
                      struct sequence *s)
{
    if (!share_dropped(b, kept, s)) {
        return false;
    }
    s->memory.host = kept->memory.host;
    s->memory.n_host = kept->memory.n_host;
    s->memory.n_host_windows = kept->memory.n_host_windows;
    s->memory.n_dropped = kept->memory.n_dropped;
    kept->memory.n_host = 0;
    sequence_give_host(b->table, kept);
    return true;
}

/* Takes blocks, windows and slot over.  Returns false if they are lost. */
static bool take_memory(struct batcher *b, struct sequence *kept,
                        struct sequence *s, struct take_over_copies *copies)
{
    static const struct pool_need slot = {{0, 1, 0}};

    if (kept_is_away(&kept->kept)) {
        return hand_over(b, kept, s);
    }
    take_blocks(b, kept, s, &copies->block);
    take_windows(b, kept, s, copies);
    if (b->limits.pages_per_slot > 0) {
        /* The slot changes hands, so that of the grant is free. */
        s->memory.slot = kept->memory.slot;
        kept->memory.slot = SLOT_NONE;
        kept->memory.need.n[POOL_SLOTS] = 0;
        pool_ungrant(b->table->pool, &slot);
    }
    return true;
}

bool take_over_waits(const struct sequence *s)
{
    return s->continuation.from->plan.inflight > 0;
}

uint32_t take_over_position(const struct sequence *s)
{
    return s->continuation.from->plan.n_planned;
}

void take_over_begin(struct batcher *b, struct sequence *s,
                     struct take_over_copies *copies)
{
    struct sequence *kept = s->continuation.from;

    s->continuation.from = NULL;
    kept->continuation.heir = NULL;
    sequence_push(&b->spent, kept);
    if (!is_usable(b, kept, s) || !take_memory(b, kept, s, copies)) {
        return;
    }
    s->plan.n_planned = s->plan.n_computed = kept->plan.n_planned;
    reuse_given(&s->reuse, kept->plan.n_planned);
    drafts_copy_hole(&s->drafts, &kept->drafts);
    b->n_continued++;
    if (b->reuse != NULL) {
        reuse_tell(b->reuse, s,
                   &(struct role_restore){.position = s->plan.n_planned,
                                          .node = PREFIX_NONE,
                                          .checkpoint = SLOT_NONE,
                                          .from = kept});
    }
    if (reuse_has(b->reuse, s)) {
        reuse_continue(b->reuse, s);
    }
}
