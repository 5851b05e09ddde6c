/* tiny_text.h - A router with a real tokenizer, small enough to write every
 * token by hand, and a worker whose tokens the test chooses.
 *
 * Tokens: 0..255 are the bytes, "ab" 256, "abc" 257, " a" 258, "bca" 259,
 * "c\xE2\x82" 260 (the beginning of a euro sign), a special one "<s>" 261. */
#ifndef TESTS_UNIT_ROUTER_TINY_TEXT_H
#define TESTS_UNIT_ROUTER_TINY_TEXT_H

#include "tests/unit/router/rig.h"
#include "text/tokenizer.h"

#define TINY_BCA     259
#define TINY_C_EURO  260 /* but for its last byte, 0xAC */
#define TINY_SPECIAL 261
#define TINY_VOCAB   262

/* The tokenizer: a group's setup loads it, and its teardown frees it. */
extern struct tokenizer *tiny_tokenizer;
int tiny_load(void **state);
int tiny_unload(void **state);

#define NO_STRING UINT32_MAX

struct tiny {
    struct fake_text text;
    struct rig *rig;
    struct fake *w, *c;
};

/* The chunks that client "c1" of the newest struct tiny received. */
struct tiny_seen {
    uint32_t stop_string; /* in the last chunk, or NO_STRING */
    uint32_t n_last;      /* chunks with finish */
};
extern struct tiny_seen tiny_seen;

/* Creates a router with worker "w1" and client "c1". */
void tiny_set(struct tiny *s, const struct tokenizer *t);
void tiny_end(struct tiny *s);
struct fake *tiny_worker(struct tiny *s, const char *name);

/* Calls Generate with stop strings, up to NULL.  m may have other fields set.
 */
struct record *tiny_generate(struct tiny *s, uint8_t id, uint32_t max_tokens,
                             const char *const *stop,
                             Sluice__V1__GenerateRequest *m);

/* Returns the number of sequences that the router has at w1. */
uint32_t tiny_held(const struct tiny *s);

/* Ends the client's deafness, and runs until the router has resent all lost
 * frames. */
void tiny_let_read(struct tiny *s);

/* Asserts the text of x. */
void tiny_check_text(const struct record *x, const char *text);

/* Asserts that x ended with its n-th token at this stop string (NO_STRING:
 * none) and has this text. */
void tiny_check_stopped(const struct record *x, uint32_t string, uint32_t n,
                        const char *text);

/* Sends ids[first, first + n) and then finish (0: none) from w, for the
 * sequence of a grant or of the last grant, and runs the rig. */
void tiny_say_of(struct fake *w, uint64_t grant, const uint32_t *ids,
                 uint32_t first, uint32_t n, uint32_t finish);
void tiny_say(struct fake *w, const uint32_t *ids, uint32_t first, uint32_t n,
              uint32_t finish);

#endif
