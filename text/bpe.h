/* bpe.h - Byte-pair encoding of one word.
 *
 *     word      = bytes b_0 .. b_{n-1}, each a token
 *     repeat      among all neighbours (l, r) with a merge, join the pair whose
 *                 merge has the lowest rank, the leftmost among equals
 *
 * A queue of (rank, position) over a linked list makes this O(n log n).  A
 * word is first cut between bytes that no merge ever joins, which saves
 * memory and changes nothing else.  A part longer than a window is encoded in
 * windows. Each window begins at a token of the window before, a little
 * before its end:
 *
 *     window A   .. | a | b | ? | ?
 *     window B          | b | c | d | ..
 *
 * A token b that both windows have at the same bytes joins them: .. a b c d
 * .. are the word's tokens.
 *
 * Proof: in A no merge crossed a border of a or b, so the bytes of a and b
 * alone encode to a and b.  The same holds for all neighbours in A and in B.
 * If it holds for all neighbours of a word, no merge of the whole word
 * crosses a border: the first merge that did would have been done, at the
 * same turn, among the bytes of its two neighbours alone.
 *
 * A vocabulary with byte_fallback starts from characters: one that is no token
 * is its byte tokens.  Parts and windows then begin at characters, and the
 * proof holds as before.
 *
 * If two windows have no token in common, the word is encoded again as a
 * whole.  That is one step, so such a part of more than TEXT_WHOLE_BYTES is
 * refused: only a vocabulary made for it has one.
 *
 * Threading: a bpe is read-only once filled; a bpe_work belongs to one call.
 * Memory: bpe_work grows to about 40 bytes (64 at most) per byte of the
 * longest word, or of a window if the word is longer and its windows meet.
 * It keeps that memory until bpe_work_fini(). */
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
    uint8_t joins[256][32]; /* bit [x][y]: some merge joins .. x with y .. */
    bool ignore_merges;     /* a word that is a token needs no merges */
    bool fallback;          /* byte_fallback: symbols start as characters */
};

/* Destination of ids: an array of the caller, or one that grows. */
struct id_sink {
    uint32_t *ids; /* [cap] */
    size_t cap, n;
    size_t most; /* the array grows up to this; 0: it does not grow */
    bool over;   /* an id was refused for `most` or a fixed cap */
};

/* Appends an id.  Returns ST_RESOURCE_EXHAUSTED if the array is full, or
 * cannot grow. */
MUST_CHECK enum status id_sink_put(struct id_sink *out, uint32_t id,
                                   struct error *e);

struct bpe_symbol;
struct bpe_token;

#define BPE_WINDOW 32768 /* in bytes; its work of 800 KiB fits a cache */

struct bpe_work {
    struct bpe_symbol *symbols; /* [cap] */
    size_t cap;
    uint32_t window;    /* in bytes, at least 16; 0: BPE_WINDOW */
    uint64_t n_windows; /* windows that met the previous one, over all words */
    uint64_t n_whole;   /* words whose windows did not meet */
    struct merge_queue queue; /* its steps count over all words */
};

/* Frees the work memory.  Zeroed storage is an empty bpe_work. */
void bpe_work_fini(struct bpe_work *w);

/* Finds the 256 byte tokens in vocab and makes room for n merges.  Returns
 * ST_INVALID_ARGUMENT if a byte has no token, or only a special one: text
 * with such a byte would look like a control token. */
MUST_CHECK enum status bpe_init(struct bpe *b, const struct vocab *vocab,
                                size_t n, uint64_t seed, struct error *e);
void bpe_fini(struct bpe *b);

/* Adds the merge of two spellings.  Returns ST_INVALID_ARGUMENT if a side or
 * the result is no token of the model, or the pair exists already.  Ignores a
 * merge whose result is a special token: text never spells one. */
MUST_CHECK enum status bpe_add(struct bpe *b, uint32_t rank, const char *left,
                               size_t n_left, const char *right, size_t n_right,
                               struct error *e);

/* The position in one word.  The work memory holds nothing of a word between
 * two steps. */
struct bpe_cursor {
    const uint8_t *word;    /* [n], borrowed */
    size_t n, at;           /* at: start of the part that is encoded */
    size_t end;             /* end of that part; 0: none yet */
    uint32_t begin;         /* start of the next window in the part */
    size_t n_out;           /* ids before the part */
    struct bpe_token *tail; /* [n_tail] the end of the previous window */
    uint32_t n_tail;
};

/* Starts to encode word[0..n), n < 2^31.  A zeroed cursor may be started, and
 * a used one again. */
void bpe_start(struct bpe_cursor *c, const uint8_t *word, size_t n);

/* Encodes the next window, or at least max_bytes, and sets *done at the end of
 * the word.  Returns ST_RESOURCE_EXHAUSTED if out is full, ST_OUT_OF_RANGE if a
 * part is over TEXT_WHOLE_BYTES and its windows do not meet. */
MUST_CHECK enum status bpe_step(const struct bpe *b, struct bpe_work *w,
                                struct bpe_cursor *c, size_t max_bytes,
                                struct id_sink *out, bool *done,
                                struct error *e);
void bpe_cursor_fini(struct bpe_cursor *c);

#endif
