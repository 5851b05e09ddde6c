/* windows.h - The window tables of a sequence.
 *
 * A window layer sees the last `window` positions.  A sequence therefore holds
 * the window blocks from that of the first position which its next row sees to
 * that of its last position.  Those before it gives back
 *
 *     when its results have come: by then the index could take them
 *     before a row that would otherwise hold more than its need.  Plans run in
 *         order, so a page may be in another table of the next plan at once
 *
 *        behind the window      seen       the row
 *     |   given back  | | | [ | | | | ] | [ | | ]     |
 *                     ^ window_first                  ^ window_first +
 * n_windows
 *
 * A window block is `pages` pages, one for each table of the shard
 * (common/model/page_layout.h).  The tables are a ring of `window_room` blocks.
 * A shard without window layers has 0 pages: then only positions are counted,
 * which are the same at every stage of a replica.
 *
 * A sequence may take again the pages that it gave back: its need stays
 * (worker/cache/pool.h).  If the index has the page, something else is evicted
 * for that promise, or the index loses the page.
 *
 * Threading: the core's.  Memory: windows_make() takes it from the table's
 * slab. */
#ifndef WORKER_SEQUENCE_WINDOWS_H
#define WORKER_SEQUENCE_WINDOWS_H

#include "worker/base/options.h"
#include "worker/sequence/sequence_table.h"

/* Returns the rules that follow from the options. */
struct window_rules windows_rules(const struct worker_options *o);

/* Returns the most window blocks that a sequence of n tokens holds at once:
 * those of n tokens, at most ceil((window + chunk_tokens) / block_tokens) + 1.
 * 0 without window layers in the model. */
uint32_t windows_blocks(const struct window_rules *r, uint32_t n_tokens);

/* Returns the first block that a row at `position` sees. */
uint32_t windows_first(const struct window_rules *r, uint32_t position);

/* Makes tables of n blocks for s, which has none.  Returns false if the slab is
 * full. */
MUST_CHECK bool windows_make(struct sequence_table *t, struct sequence *s,
                             uint32_t n_blocks);

/* Returns the logical number of a page of s: that of `block`, which s holds, in
 * a table. */
uint32_t windows_page(const struct sequence_table *t, const struct sequence *s,
                      uint32_t block, uint32_t table);

/* Returns the i-th window page of s, block by block, table by table. */
uint32_t windows_nth(const struct sequence_table *t, const struct sequence *s,
                     uint32_t i);

/* Returns whether s holds all that a row at `position` sees before it, and the
 * block that the position goes on in. */
bool windows_reach(const struct sequence_table *t, const struct sequence *s,
                   uint32_t position);

/* Makes s hold what a row of positions [position, end) needs: takes what lacks,
 * and gives back as much behind its window as its need asks for.  Returns false
 * if that was not granted, or full blocks before the position are not there. */
MUST_CHECK bool windows_move(struct sequence_table *t, struct sequence *s,
                             uint32_t position, uint32_t end);

/* Gives back what a row at `position` does not see.  Returns false if the pool
 * cannot keep its promise; the account is broken then. */
MUST_CHECK bool windows_trim(struct sequence_table *t, struct sequence *s,
                             uint32_t position);

/* Takes the blocks that a row at n_planned sees before it, for s, which holds
 * none: their contents come from the host tier.  Returns false if they were not
 * granted. */
MUST_CHECK bool windows_restore(struct sequence_table *t, struct sequence *s);

/* Returns how many those are. */
uint32_t windows_seen(const struct window_rules *r, uint32_t position);

/* Gives s, which holds none, the full blocks of `from` that a row at `position`
 * sees.  whole: and the one that is partly filled below it. */
void windows_share(struct sequence_table *t, const struct sequence *from,
                   struct sequence *s, uint32_t position, bool whole);

/* Gives back all that s holds: its next row begins anew. */
MUST_CHECK bool windows_clear(struct sequence_table *t, struct sequence *s);

/* Gives s, which holds none, pages of the index: what a row at `position`, the
 * end of a block, sees before it, [windows_seen(), pages].  Those in the host
 * tier are copied to pages of the grant. */
void windows_adopt(struct sequence_table *t, struct sequence *s,
                   uint32_t position, const uint32_t *pages);

/* Returns whether another table or the index has a page of that block. */
bool windows_shared(const struct sequence_table *t, const struct sequence *s,
                    uint32_t block);

/* Releases the blocks that hold no position below `position` or are behind its
 * window, and lowers the need of s by them.  Returns their pages. */
uint32_t windows_cut(struct sequence_table *t, struct sequence *s,
                     uint32_t position);

/* Releases all of them.  The caller sees to the need. */
void windows_release(struct sequence_table *t, struct sequence *s);

#endif
