/* recording_line.h - A line of a recording, field by field.
 *
 * The first error stays; later fields are 0.  line_end() returns it.
 *
 * Threading: none.  Memory: words point into the line, which is changed. */
#ifndef ROUTER_REPLAY_RECORDING_LINE_H
#define ROUTER_REPLAY_RECORDING_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

struct record_line {
    char *at; /* the rest; NULL: nothing is left */
    int64_t at_us;
    bool lax;  /* lines before this one are lost, and */
    bool lost; /* this one refers to one of them */
    struct error error;
};

/* Begins a line, without its newline. */
void line_begin(struct record_line *l, char *text);

/* Return the next field: a word, a number in a range, a name of least..most
 * bytes. */
const char *line_word(struct record_line *l, const char *what);
uint64_t line_u64(struct record_line *l, const char *what, uint64_t least,
                  uint64_t most);
int64_t line_i64(struct record_line *l, const char *what, int64_t least,
                 int64_t most);
uint32_t line_u32(struct record_line *l, const char *what, uint32_t least,
                  uint32_t most);
void line_name(struct record_line *l, const char *what, char *out, size_t least,
               size_t most);

/* Returns whether fields are left: those that newer recordings have. */
bool line_goes_on(const struct record_line *l);

/* Returns the index of a thing that the next field numbers, of n from 1 on. */
uint32_t line_ref(struct record_line *l, const char *what, uint32_t n);

/* Returns the index of a new thing, after n others: the field is n + 1, or more
 * if lines are lost, but at most `most`. */
uint32_t line_next(struct record_line *l, const char *what, uint32_t n,
                   uint32_t most);

/* Sets the error "WHAT HOW", if there is none. */
void line_wrong(struct record_line *l, const char *what, const char *how);

/* Checks that no field is left.  Returns the first error of the line. */
MUST_CHECK enum status line_end(struct record_line *l, struct error *e);

#endif
