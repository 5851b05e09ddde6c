/* stops.h - the stop strings of a choice: found in its tokens as they come,
 * kept out of the text that its client gets.
 *
 * Tokens are looked at when they arrive, so that a client which reads slowly
 * does not delay the end; the text is made again, from the same tokens, when
 * a chunk is.  What of it may yet be part of a stop string is held back:
 *
 *     tokens arrived   t t t t t t t t t        looked at, once
 *     certain          ------------|
 *     tokens sent      t t t t t t t
 *     text given       ------------|-held-|     at most the longest string
 *
 * A character of which the bytes are not all there, and what is no UTF-8, is
 * looked at as the text has it: as U+FFFD, once that is certain.
 *
 * Threading: the core's.  Memory: one block on the heap; the machine is the
 * generation's, the tokenizer the text seam's. */
#ifndef ROUTER_REQUESTS_STOPS_H
#define ROUTER_REQUESTS_STOPS_H

#include "text/detokenizer.h"
#include "text/stop_strings.h"

struct stops {
    const struct stop_strings *strings;
    uint32_t n_tokens;        /* looked at */
    struct detokenizer detok; /* of these */
    struct stop_scan scan;
    uint64_t n_given; /* bytes of text that went into chunks */
    uint32_t n_held;
    char held[STOP_STRING_BYTES_MAX]; /* [n_held] made, not given */
};

struct stops *stops_new(const struct stop_strings *strings,
                        const struct tokenizer *t);
void stops_free(struct stops **s);

static inline bool stops_found(const struct stops *s)
{
    return s != NULL && s->scan.found;
}

/* Look at tokens[0, n) from the first on that was not looked at, up to the
 * one in which the first string ends: n_tokens says how far.  True: it is
 * found, now or before.  scratch: [detokenizer_max()]. */
bool stops_look(struct stops *s, const uint32_t *tokens, uint32_t n,
                char *scratch);

/* There are no more tokens: look at what was held back of a character.  True:
 * a string is found, now or before. */
bool stops_end(struct stops *s, char *scratch);

/* A chunk's text is made: first put the bytes held back into text, which are
 * returned; behind them goes what the chunk's tokens give.  Then cut text[n)
 * where it is not certain, and hold back the rest, or drop it if it is past
 * the end.  last: no more is to come.  Returns what is left of n. */
size_t stops_resume(struct stops *s, char *text);
size_t stops_cut(struct stops *s, const char *text, size_t n, bool last);

#endif
