/* vocabulary.h - the tokens of the simulator's models, and a tokenizer made
 * of them.
 *
 *     0..        a, b, c in runs of 1 to 3; the first or the last bytes of a
 *                character of 2, 3 or 4 bytes, with such a run before or after
 *     255        a special token, no text
 *     256..      each single byte that is not there yet
 *
 * Ids past those are no tokens and give no text.  Generated ids are as good
 * as random, so characters are cut across tokens, whole again and broken, and
 * short texts over a, b, c appear soon.
 *
 * The plain_ functions are a second opinion on text/detokenizer.h: they share
 * nothing with it. */
#ifndef SIM_VOCABULARY_H
#define SIM_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VOCABULARY_BYTES 5 /* of the longest token */

struct tokenizer;

/* Made at the first call, by tokenizer_parse(); lives as long as the process.
 * Borrowed. */
const struct tokenizer *vocabulary_tokenizer(void);

/* The bytes that id stands for, *n of them: 0 if none. */
const uint8_t *vocabulary_bytes(uint32_t id, size_t *n);

/* Tokens to text, one at a time. */
struct plain_text {
    uint8_t held[VOCABULARY_BYTES + 3];
    size_t n_held;
};

/* What is certain now; out has room for PLAIN_MAX. */
#define PLAIN_MAX ((VOCABULARY_BYTES + 3) * 3)
size_t plain_push(struct plain_text *t, uint32_t id, char *out);
/* What was held back, as it is no character. */
size_t plain_finish(struct plain_text *t, char *out);

#endif
