/* stops.h - The stop strings of a choice: found in its tokens as they arrive,
 * and kept out of the text that its client gets.
 *
 * Tokens are scanned on arrival, so a client that reads slowly does not delay
 * the end.  The text is made again, from the same tokens, when a chunk is made.
 * Text that may yet be part of a stop string is held back:
 *
 *     tokens arrived   t t t t t t t t t        scanned, once
 *     certain          ------------|
 *     tokens sent      t t t t t t t
 *     text given       ------------|-held-|     at most the longest string
 *
 * An incomplete character, and bytes that are not UTF-8, are scanned as they
 * appear in the text: as U+FFFD, once that is certain.
 *
 * Threading: the core's thread only.  Memory: one heap block.  The automaton
 * belongs to the request, the tokenizer to the text seam. */
#ifndef ROUTER_REQUESTS_STOPS_H
#define ROUTER_REQUESTS_STOPS_H

#include "text/detokenizer.h"
#include "text/stop_strings.h"

struct stops {
    const struct stop_strings *strings;
    uint32_t n_tokens;        /* tokens scanned */
    struct detokenizer detok; /* state after these tokens */
    struct stop_scan scan;
    uint64_t n_given; /* bytes of text that are in chunks */
    uint32_t n_held;
    char held[STOP_STRING_BYTES_MAX]; /* [n_held] text made but not given */
};

/* Returns the state of a new choice, owned by the caller; NULL without memory.
 * strings and t must outlive it.  flags: those of the choice's own detokenizer.
 */
struct stops *stops_new(const struct stop_strings *strings,
                        const struct tokenizer *t, unsigned flags);
void stops_free(struct stops **s);

/* Returns true if a stop string has been found. s may be NULL. */
static inline bool stops_found(const struct stops *s)
{
    return s != NULL && s->scan.found;
}

/* Scans tokens[0, n) from the first that was not scanned, up to the one in
 * which the first stop string ends; n_tokens is the position reached.  Returns
 * true if a string is found, now or before. scratch: [detokenizer_max()]
 * bytes. */
bool stops_scan(struct stops *s, const uint32_t *tokens, uint32_t n,
                char *scratch);

/* Scans the bytes of an incomplete character; call it after the last token.
 * Returns true if a string is found, now or before. */
bool stops_end(struct stops *s, char *scratch);

/* Resumes the text of a chunk: copies the bytes held back into text and returns
 * their number.  The text of the chunk's tokens goes behind them. stops_cut()
 * then cuts text[n) where it is not certain.  It holds back the rest, or drops
 * it if it is past the end. last: no more text follows.  Returns the bytes of n
 * that remain. */
size_t stops_resume(struct stops *s, char *text);
size_t stops_cut(struct stops *s, const char *text, size_t n, bool last);

#endif
