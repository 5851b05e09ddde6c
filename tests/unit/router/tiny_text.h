/* tiny_text.h - a router that has a real tokenizer, small enough to spell
 * every token by hand, and a worker that says what a test tells it.
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

/* Made before the tests of a group and freed after them. */
extern struct tokenizer *tiny_tokenizer;
int tiny_load(void **state);
int tiny_unload(void **state);

#define NO_STRING UINT32_MAX

struct tiny {
    struct fake_text text;
    struct rig *rig;
    struct fake *w, *c;
};

/* Of the chunks that "c1" of the newest struct tiny got. */
struct tiny_seen {
    uint32_t stop_string; /* of the last, or NO_STRING */
    uint32_t n_last;      /* with finish */
};
extern struct tiny_seen tiny_seen;

/* A router with worker "w1" and client "c1". */
void tiny_set(struct tiny *s, const struct tokenizer *t);
void tiny_end(struct tiny *s);
struct fake *tiny_worker(struct tiny *s, const char *name);

/* A Generate with stop strings, up to NULL; m may be filled in before. */
struct record *tiny_generate(struct tiny *s, uint8_t id, uint32_t max_tokens,
                             const char *const *stop,
                             Sluice__V1__GenerateRequest *m);

/* Sequences that the router has at w1. */
uint32_t tiny_held(const struct tiny *s);

/* The client hears again, till the router has sent anew what was lost. */
void tiny_let_read(struct tiny *s);

void tiny_check_text(const struct record *x, const char *text);

/* It ended with its n-th token at that stop string, or none. */
void tiny_check_stopped(const struct record *x, uint32_t string, uint32_t n,
                        const char *text);

/* w says ids[first..first + n) and then finish (0: none) of the sequence of a
 * grant, or of the last, and everybody hears it. */
void tiny_say_of(struct fake *w, uint64_t grant, const uint32_t *ids,
                 uint32_t first, uint32_t n, uint32_t finish);
void tiny_say(struct fake *w, const uint32_t *ids, uint32_t first, uint32_t n,
              uint32_t finish);

#endif
