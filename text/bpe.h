/* bpe.h - byte-pair encoding of one word.
 *
 *     word      = bytes b_0 .. b_{n-1}, each a token
 *     repeat      of all neighbours (l, r) with a merge, join the pair whose
 *                 merge has the lowest rank, the leftmost of equals
 *
 * by a queue of (rank, position) over a linked list: O(n log n).  A word is
 * first cut between bytes that no merge ever joins, which changes nothing but
 * the memory needed.  What is still longer than a window is done in windows,
 * each begun at a token of the one before, a little before its end:
 *
 *     window A   .. | a | b | ? | ?
 *     window B          | b | c | d | ..
 *
 * A token b that both have, at the same bytes, joins them: .. a b c d .. are
 * the word's tokens.  For in A no merge crossed a border of a or b, so the
 * bytes of a and b alone give a and b; so do all neighbours in A and in B.
 * And where that holds for all neighbours of a word, no merge of the whole
 * word crosses a border: the first that did would have been done, at the same
 * turn, among the bytes of its two neighbours alone.  Where the windows have
 * no token in common, the word is done again as a whole.
 *
 * Threading: a bpe is read-only once filled; a bpe_work belongs to one call.
 * Memory: bpe_work grows to about 40 bytes (64 at worst) per byte of the
 * longest word, or of a window if the word is longer and its windows meet,
 * and keeps that until bpe_work_fini(). */
#ifndef TEXT_BPE_H
#define TEXT_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "text/merge_queue.h"
#include "text/pair_map.h"
#include "text/vocab.h"

struct bpe {
    const struct vocab *vocab; /* borrowed */
    struct pair_map merges;    /* (left, right) -> (rank, id) */
    uint32_t *made;            /* [merges]: id by rank */
    uint32_t byte_id[256];
    uint8_t joins[256][32]; /* bit [x][y]: some merge joins .. x and y .. */
    bool ignore_merges;     /* a word that is a token is that token */
};

/* Where ids go: the caller's array. */
struct id_sink {
    uint32_t *ids; /* [cap] */
    size_t cap, n;
};

/* ST_RESOURCE_EXHAUSTED if the array is full. */
MUST_CHECK enum status id_sink_put(struct id_sink *out, uint32_t id,
                                   struct error *e);

struct bpe_symbol;
struct bpe_token;

#define BPE_WINDOW 32768 /* bytes; some 800 KiB of work, within a cache */

struct bpe_work {
    struct bpe_symbol *symbols; /* [cap] */
    size_t cap;
    struct bpe_token *tail;   /* [window / 16]: the end of the window before */
    uint32_t window;          /* bytes, 16 or more; 0: BPE_WINDOW */
    uint64_t n_windows;       /* that met the one before, over all words */
    uint64_t n_whole;         /* words whose windows did not meet */
    struct merge_queue queue; /* its steps count over all words */
};

/* Zeroed storage is an empty bpe_work. */
void bpe_work_fini(struct bpe_work *w);

/* Find the 256 byte tokens in vocab and make room for n merges.
 * ST_INVALID_ARGUMENT if a byte has no token, or only a special one: such a
 * byte could not be told from a control token. */
MUST_CHECK enum status bpe_init(struct bpe *b, const struct vocab *vocab,
                                size_t n, uint64_t seed, struct error *e);
void bpe_fini(struct bpe *b);

/* Add the merge of two spellings.  ST_INVALID_ARGUMENT if a side or the
 * result is no token of the model, or the pair is there already.  A merge
 * that would make a special token is left out: text never spells one. */
MUST_CHECK enum status bpe_add(struct bpe *b, uint32_t rank, const char *left,
                               size_t n_left, const char *right, size_t n_right,
                               struct error *e);

/* Encode word[0..n), n < 2^31. */
MUST_CHECK enum status bpe_word(const struct bpe *b, struct bpe_work *w,
                                const uint8_t *word, size_t n,
                                struct id_sink *out, struct error *e);

#endif
