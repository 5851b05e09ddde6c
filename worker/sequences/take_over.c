#include "worker/sequences/take_over.h"

#include "worker/cache/windows.h"
#include "worker/sequences/batcher.h"

/* Returns whether the state of `kept` is that behind its last position, and at
 * least one id of s follows. */
static bool is_usable(const struct batcher *b, const struct sequence *kept,
                      const struct sequence *s)
{
    return kept->n_planned > 0 && kept->n_computed == kept->n_planned &&
           kept->n_planned < sequence_known(s) &&
           (kept->away || windows_reach(b->table, kept, kept->n_planned));
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
    uint32_t full = kept->n_planned / b->limits.block_tokens;
    uint32_t n = full + (kept->n_planned % b->limits.block_tokens != 0);

    for (uint32_t i = 0; b->limits.has_blocks && i < n; i++) {
        uint32_t block = paged_get(&b->table->slab, &kept->blocks, i);

        if (i == full && is_shared(pool, block)) {
            *copied = block;
            return;
        }
        pool_share(pool, block, true);
        paged_write(&b->table->slab, &s->blocks, s->n_blocks++, &block, 1);
    }
}

/* As blocks: the partly filled one is copied if others have it too. */
static void take_windows(struct batcher *b, const struct sequence *kept,
                         struct sequence *s, struct take_over_copies *copies)
{
    uint32_t at = kept->n_planned, last = at / b->limits.block_tokens;
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
    uint32_t want = kept->n_dropped * b->limits.block_tokens, n_tokens, node;
    struct prefix *index = b->reuse->index;

    if (want == 0) {
        return true;
    }
    node = prefix_path(index, kept->scope, kept->n_scope, &b->table->slab,
                       &kept->tokens, want, &n_tokens);
    if (node == PREFIX_NONE || n_tokens < want ||
        !prefix_share(index, node, b->reuse->blocks)) {
        return false;
    }
    paged_write(&b->table->slab, &s->blocks, 0, b->reuse->blocks,
                kept->n_dropped);
    kept->drafts.hole = kept->drafts.hole || prefix_has_hole(index, node);
    s->n_blocks = kept->n_dropped;
    return true;
}

static bool hand_over(struct batcher *b, struct sequence *kept,
                      struct sequence *s)
{
    if (!share_dropped(b, kept, s)) {
        return false;
    }
    s->host = kept->host;
    s->n_host = kept->n_host;
    s->n_host_windows = kept->n_host_windows;
    s->n_dropped = kept->n_dropped;
    kept->n_host = 0;
    sequence_give_host(b->table, kept);
    return true;
}

/* Takes blocks, windows and slot over.  Returns false if they are lost. */
static bool take_memory(struct batcher *b, struct sequence *kept,
                        struct sequence *s, struct take_over_copies *copies)
{
    static const struct pool_need slot = {{0, 1, 0}};

    if (kept->away) {
        return hand_over(b, kept, s);
    }
    take_blocks(b, kept, s, &copies->block);
    take_windows(b, kept, s, copies);
    if (b->limits.pages_per_slot > 0) {
        /* The slot changes hands, so that of the grant is free. */
        s->slot = kept->slot;
        kept->slot = SLOT_NONE;
        kept->need.n[POOL_SLOTS] = 0;
        pool_ungrant(b->table->pool, &slot);
    }
    return true;
}

void take_over_begin(struct batcher *b, struct sequence *s,
                     struct take_over_copies *copies)
{
    struct sequence *kept = s->from;

    s->from = NULL;
    kept->heir = NULL;
    sequence_push(&b->spent, kept);
    if (!is_usable(b, kept, s) || !take_memory(b, kept, s, copies)) {
        return;
    }
    s->n_planned = s->n_computed = s->reused = kept->n_planned;
    s->drafts.hole = kept->drafts.hole;
    b->n_continued++;
    if (b->reuse != NULL) {
        reuse_tell(b->reuse, s,
                   &(struct role_restore){.position = s->n_planned,
                                          .node = PREFIX_NONE,
                                          .checkpoint = SLOT_NONE,
                                          .from = kept});
    }
    if (reuse_has(b->reuse, s)) {
        reuse_continue(b->reuse, s);
    }
}
