/* ngram.h - Drafts from the text itself (prompt lookup).
 *
 * The longest suffix of the ids that occurred before, of NGRAM_MIN to NGRAM_MAX
 * ids, is taken to go on as it did the last time:
 *
 *     ids   .. a b c d e f .. a b c      suffix a b c, drafts d e f
 *
 * A text that repeats its last ids goes on repeating them.
 *
 * Threading: none.  Memory: the caller's.  Limits: the last NGRAM_WINDOW ids
 * are searched, which bounds the time of a call. */
#ifndef WORKER_PLAN_NGRAM_H
#define WORKER_PLAN_NGRAM_H

#include <stdint.h>

#define NGRAM_MIN    2
#define NGRAM_MAX    8
#define NGRAM_WINDOW 4096

/* Writes up to `most` drafts behind ids[0..n), n <= NGRAM_WINDOW, to out.
 * Returns how many: `most`, or 0 if no suffix occurred before. */
uint32_t ngram_find(const uint32_t *ids, uint32_t n, uint32_t *out,
                    uint32_t most);

#endif
