/* vocab.h - Tokens of a tokenizer: id <-> spelling, id -> bytes.
 *
 * A spelling is the string in the file ("Ġthe").  The bytes are what the
 * token stands for in text (" the"): the byte letters read back, or the
 * spelling itself if any character is no byte letter, as in the reference
 * decoder.  In a vocabulary with byte_fallback they are those of
 * byte_fallback.h.
 *
 * Threading: any number of readers once it is filled.  Memory: 24 bytes per
 * id up to the highest, and all spellings twice.  Limits: MODEL_VOCAB_MAX,
 * TEXT_TOKEN_BYTES. */
#ifndef TEXT_VOCAB_H
#define TEXT_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

enum vocab_flag {
    VOCAB_USED = 1,    /* the id is a token */
    VOCAB_MODEL = 2,   /* merges may produce it */
    VOCAB_SPECIAL = 4, /* a control token */
    VOCAB_ADDED = 8,   /* an added token that the model has too */
};

struct vocab_entry {
    uint32_t spelling, spelling_len; /* in arena */
    uint32_t bytes, bytes_len;       /* in arena */
    uint8_t flags;
};

struct vocab {
    struct vocab_entry *entries; /* [n_ids] */
    uint32_t n_ids;              /* one past the highest id */
    uint32_t cap_ids;
    char *arena;
    size_t arena_len, arena_cap;
    uint32_t *slots; /* id + 1 by hash of the spelling; 0: a free slot */
    size_t mask;
    size_t room;      /* tokens that may still be added */
    uint64_t seed;    /* see pair_map_init() */
    uint32_t longest; /* bytes of the longest token; with byte_fallback of its
                       * spelling, which is no shorter */
    bool fallback;    /* byte_fallback; set before the first token */
};

/* Makes room for n tokens.  Zeroes v first, so vocab_fini() is always legal. */
MUST_CHECK enum status vocab_init(struct vocab *v, size_t n, uint64_t seed,
                                  struct error *e);
void vocab_fini(struct vocab *v);

/* Adds a token; at most n calls.  Returns ST_INVALID_ARGUMENT: id or spelling
 * taken, spelling empty or a broken "<0xNN>"; ST_OUT_OF_RANGE: past a limit. */
MUST_CHECK enum status vocab_add(struct vocab *v, const char *s, size_t n,
                                 int64_t id, unsigned flags, struct error *e);

/* Finds the id with spelling s[0..n).  Returns false if there is none. */
bool vocab_find(const struct vocab *v, const char *s, size_t n, uint32_t *id);

/* Returns the flags of any number; 0 if it is no token. */
unsigned vocab_flags(const struct vocab *v, uint32_t id);

/* Return spelling and bytes of a token; NULL if id is none.  Borrowed,
 * without NUL. */
const char *vocab_spelling(const struct vocab *v, uint32_t id, size_t *len);
const char *vocab_bytes(const struct vocab *v, uint32_t id, size_t *len);

#endif
