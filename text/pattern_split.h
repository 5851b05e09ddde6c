/* pattern_split.h - One Split of a pre-tokenizer.
 *
 * An expression cuts a text; a behaviour decides what becomes of the matches.
 *
 *     "ab, c" by ","   isolated  ab|,| c     removed  ab| c
 *     merged with previous  ab,| c     merged with next  ab|, c
 *     contiguous: neighbours of one kind are one piece
 *
 * Threading: a split is read-only; a pattern_split_work belongs to one call.
 * Memory: the split owns the compiled code; the work owns match data and a
 * JIT stack of at most 32 MiB.  Limits: one match takes at most
 * TEXT_SPLIT_STEPS steps per byte of text plus TEXT_SPLIT_FLOOR. */
#ifndef TEXT_PATTERN_SPLIT_H
#define TEXT_PATTERN_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "common/base/status.h"

enum pattern_split_behaviour {
    PATTERN_SPLIT_ISOLATED,
    PATTERN_SPLIT_REMOVED,
    PATTERN_SPLIT_MERGED_WITH_PREVIOUS,
    PATTERN_SPLIT_MERGED_WITH_NEXT,
    PATTERN_SPLIT_CONTIGUOUS,
};

struct pattern_split {
    pcre2_code *code;
    enum pattern_split_behaviour behaviour;
    bool invert; /* matches and gaps are exchanged */
};

/* Compiles an expression as Oniguruma reads it or, if literal, a string that
 * is searched as it is.  pattern is valid UTF-8. */
MUST_CHECK enum status pattern_split_init(struct pattern_split *s,
                                          const char *pattern, size_t n,
                                          bool literal, struct error *e);
void pattern_split_fini(struct pattern_split *s);

/* Parses "Isolated", "Removed", ...; returns false for another name. */
bool pattern_split_behaviour_named(const char *name,
                                   enum pattern_split_behaviour *b);

/* Returns the steps that one match in a text of n bytes may take. */
uint32_t pattern_split_steps(size_t n);

struct pattern_split_work {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    uint64_t matches; /* calls of the matcher, over all texts */
};

MUST_CHECK enum status pattern_split_work_init(struct pattern_split_work *w,
                                               struct error *e);
void pattern_split_work_fini(struct pattern_split_work *w);

/* A match, or the gap before one. */
struct pattern_segment {
    size_t start, end;
    bool match;
};

/* The position of a split in a text.  Split and text are borrowed. */
struct pattern_cursor {
    const struct pattern_split *split;
    const char *text; /* [n] */
    size_t n;
    size_t at, done, last_end; /* positions of the search, of segments */
    struct pattern_segment segments[2]; /* [n_segments] found, not yet used */
    unsigned n_segments, i_segment;
    size_t start, end; /* the piece that may still grow */
    bool pending;      /* there is one */
    bool matched;      /* the previous segment was a match */
    bool ended;        /* no match is left */
};

/* Starts to cut text[0..n), valid UTF-8. */
void pattern_cursor_init(struct pattern_cursor *c,
                         const struct pattern_split *s, const char *text,
                         size_t n);

/* Sets *s and *n to the next piece.  *n is 0 if the last match gave none, and
 * *s NULL at the end.  Returns ST_OUT_OF_RANGE if a match needs more than its
 * steps, ST_RESOURCE_EXHAUSTED without memory. */
MUST_CHECK enum status pattern_cursor_next(struct pattern_cursor *c,
                                           struct pattern_split_work *w,
                                           const char **s, size_t *n,
                                           struct error *e);

#endif
