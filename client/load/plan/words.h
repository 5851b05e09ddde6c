/* words.h - Text with a given number of tokens.
 *
 * Words come from a file, in order from a random one, or from a list of common
 * English words.  Every word but the first of a text follows a blank, which
 * pre-tokenizers keep with the word, so that the tokens of a text are the sum
 * of its words'.  words_init() tests whether this holds for a tokenizer.
 *
 * Without a tokenizer a common word counts as one token, a word of a file as
 * one for each 6 bytes.
 *
 * Threading: one thread.  Memory: the words of a file take 8 bytes each. */
#ifndef CLIENT_LOAD_PLAN_WORDS_H
#define CLIENT_LOAD_PLAN_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/load/plan/prompt.h"
#include "text/tokenizer.h"

#define WORDS_FILE_BYTES_MAX ((size_t)64 << 20)
#define WORDS_WORD_BYTES_MAX 64 /* longer ones are cut */

/* A common word, or a word of the file. */
struct word {
    uint32_t at;   /* in the text */
    uint16_t n;    /* bytes */
    uint16_t cost; /* tokens after a blank; 0: not yet counted */
};

struct words {
    const struct tokenizer *tokenizer; /* borrowed; NULL: tokens are guessed */
    bool adds_up;        /* tokens of a text are the sum of its words' */
    struct word *common; /* [n_common >= 1] */
    size_t n_common;
    bool all_one;      /* each common word is one token, also as the first */
    char *file;        /* NULL: common words only */
    struct word *list; /* [n_list], of the file */
    size_t n_list;
    uint32_t *ids; /* scratch of the tokenizer */
    size_t ids_size;
};

/* Returns ST_INVALID_ARGUMENT if the file is no UTF-8 text or has no word, and
 * errors as file_read(). */
MUST_CHECK enum status words_init(struct words *w, const struct tokenizer *t,
                                  const char *file, struct error *e);
void words_fini(struct words *w);

/* Appends a text of n tokens, or of the nearest number that words can have.
 * first: the text begins without a blank.  Equal seeds give equal words. */
void words_write(struct words *w, uint64_t seed, uint32_t n, bool first,
                 struct prompt *out);

/* Returns the tokens of a text; without a tokenizer a guess. */
size_t words_count(struct words *w, const char *text, size_t n);

/* Encodes a text.  *ids is borrowed until the next call.  Returns false if
 * there is no tokenizer or it refuses the text. */
bool words_encode(struct words *w, const char *text, size_t n,
                  const uint32_t **ids, size_t *n_ids);

#endif
