/* vocabulary.h - The tokens of the simulator's models, and a tokenizer for
 * them.
 *
 *     0..        a, b, c in runs of 1 to 3; the first or the last bytes of a
 *                character of 2, 3 or 4 bytes, with such a run before or after
 *     255        a special token, no text
 *     256..      each single byte that is not there yet
 *
 * Higher ids are not tokens and have no text.  Generated ids are effectively
 * random.  Characters are therefore cut across tokens, completed and broken,
 * and short texts over a, b, c appear soon.
 *
 * The plain_ functions are an independent check of text/detokenizer.h, and
 * share no code with it. */
#ifndef SIM_VOCABULARY_H
#define SIM_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VOCABULARY_BYTES 5 /* bytes of the longest token */

struct text_assets;
struct tokenizer;

/* Returns the tokenizer.  Made by tokenizer_parse() at the first call; lives as
 * long as the process.  Borrowed. */
const struct tokenizer *vocabulary_tokenizer(void);

/* Returns the files of a model with this tokenizer and VOCABULARY_TEMPLATE.
 * Loaded at the first call, from a directory that is removed again; they live
 * as long as the process. */
struct text_assets *vocabulary_assets(void);

/* The prompt of a chat is the text of its messages. */
#define VOCABULARY_TEMPLATE "{% for m in messages %}{{ m.content }}{% endfor %}"

/* Returns the bytes of id, *n of them: 0 if none. */
const uint8_t *vocabulary_bytes(uint32_t id, size_t *n);

/* Converts tokens to text, one at a time. */
struct plain_text {
    uint8_t held[VOCABULARY_BYTES + 3];
    size_t n_held;
};

/* Appends the text that is settled; out has room for PLAIN_MAX. */
#define PLAIN_MAX ((VOCABULARY_BYTES + 3) * 3)
size_t plain_push(struct plain_text *t, uint32_t id, char *out);
/* Appends the bytes that were held back, because they are not a character. */
size_t plain_finish(struct plain_text *t, char *out);

#endif
