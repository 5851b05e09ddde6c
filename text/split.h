/* split.h - one Split of a pre-tokenizer: an expression cuts a text up, a
 * behaviour says what becomes of what it matched.
 *
 *     "ab, c" by ","   isolated  ab|,| c     removed  ab| c
 *     merged with previous  ab,| c     merged with next  ab|, c
 *     contiguous: neighbours of one kind are one piece
 *
 * Threading: a split is read-only; a split_work belongs to one call.
 * Memory: compiled code is the split's; match data and a JIT stack of at most
 * 32 MiB are the work's.
 * Limits: one match takes at most TEXT_SPLIT_STEPS steps per byte of text and
 * TEXT_SPLIT_FLOOR in any case. */
#ifndef TEXT_SPLIT_H
#define TEXT_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "common/base/status.h"

enum split_behaviour {
    SPLIT_ISOLATED,
    SPLIT_REMOVED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS,
};

struct split {
    pcre2_code *code;
    enum split_behaviour behaviour;
    bool invert; /* what did not match counts as matched, and the reverse */
};

/* Compile an expression as Oniguruma would read it, or, if literal, a string
 * that is searched for as it is.  pattern is valid UTF-8. */
MUST_CHECK enum status split_init(struct split *s, const char *pattern,
                                  size_t n, bool literal, struct error *e);
void split_fini(struct split *s);

/* "Isolated", "Removed", ...; false for another name. */
bool split_behaviour_named(const char *name, enum split_behaviour *b);

/* The steps that one match in a text of n bytes may take. */
uint32_t split_steps(size_t n);

struct split_work {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    uint64_t matches; /* calls of the matcher, over all texts */
};

MUST_CHECK enum status split_work_init(struct split_work *w, struct error *e);
void split_work_fini(struct split_work *w);

/* A piece, never empty, borrowed for the call; any status but ST_OK ends the
 * split and is returned. */
typedef enum status (*piece_fn)(void *ctx, const char *s, size_t n,
                                struct error *e);

/* Cut up text[0..n), valid UTF-8; fn sees the pieces in order.
 * ST_RESOURCE_EXHAUSTED if a match needs more than its steps or memory. */
MUST_CHECK enum status split_run(const struct split *s, struct split_work *w,
                                 const char *text, size_t n, piece_fn fn,
                                 void *ctx, struct error *e);

#endif
