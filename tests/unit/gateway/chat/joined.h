/* joined.h - A whole answer, joined from the events of a parser.
 *
 * Every event is checked: text is UTF-8 and not empty, calls begin and end in
 * order, and never overlap.  A violation ends the program.
 *
 * Threading: none.  Memory: joined_fini() frees the texts. */
#ifndef TESTS_UNIT_GATEWAY_CHAT_JOINED_H
#define TESTS_UNIT_GATEWAY_CHAT_JOINED_H

#include "gateway/chat/output_parser.h"

struct joined_text {
    char *text; /* [n], then NUL; NULL if n is 0 */
    size_t n;
};

/* An answer, as one that is not streamed has it: a call that is cut is taken
 * back, and its text is content.  Without the parser's option `keep` its text
 * is "", and what calls has of it stays.
 *
 * The members: its content and reasoning, then name and arguments of each call
 * in a single text, with control bytes as separators. */
struct joined {
    struct joined_text content, reasoning, calls;
    uint32_t n_calls, n_cut; /* calls that ended; that were cut */
    bool open;               /* a call has begun and not ended */
    size_t call_at;          /* where the last call begins in calls */
    uint32_t n_events;
};

/* Adds an event; the type is output_fn. */
void joined_add(void *arg, const struct output_event *event);

/* Parses text[0..n) in pieces.  cut() returns the length of the next piece,
 * given its offset; a piece ends with a whole character.  NULL: one piece. */
void joined_parse(struct joined *out,
                  const struct output_parser_options *options, const char *text,
                  size_t n, size_t (*cut)(void *arg, size_t at), void *arg);

/* Returns whether both answers are the same. */
bool joined_same(const struct joined *a, const struct joined *b);

/* Adds text[0..n) to *out. */
void joined_append(struct joined_text *out, const char *text, size_t n);

void joined_fini(struct joined *j);

#endif
