/* fixture.h - Tokenizers and files for the tests of text/. */
#ifndef TESTS_UNIT_TEXT_FIXTURE_H
#define TESTS_UNIT_TEXT_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "small.h"
#include "text/tokenizer.h"

#define QWEN3       SLUICE_TOKENIZERS "/qwen3.json"
#define GPT2        SLUICE_TOKENIZERS "/gpt2.json"
#define TINY_HYBRID "models/tiny-hybrid/tokenizer.json"

/* The splits of Qwen3.5 and Llama 3; neither has a normalizer. */
#define QWEN35_SPLIT                                                      \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|" \
    "\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"          \
    "\\s+(?!\\S)|\\s+"
#define LLAMA3_SPLIT                                              \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" \
    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"   \
    "\\s+(?!\\S)|\\s+"

/* Loads a tokenizer; fails the test on an error. */
struct tokenizer *fixture_load(const char *path);

/* Loads Qwen3's vocabulary with another split and no normalizer.
 * ignore_merges: a word that is a token is that token, as in Llama 3. */
struct tokenizer *fixture_resplit(const char *split, bool ignore_merges);
struct tokenizer *fixture_parse(const json_t *root);

/* Reads a file and adds a NUL; to free(). */
char *fixture_file(const char *path, size_t *n);

/* Removes root.path, which must exist. */
void fixture_unset(json_t *root, const char *path);

/* Sets root.path to value (stolen); path is like "model.vocab". */
void fixture_set(json_t *root, const char *path, json_t *value);

/* Adds {"id", "content", flags} to added_tokens; flags is a string of the
 * letters s(pecial) n(ormalized) w(ord) l(strip) r(strip). */
void fixture_add(json_t *root, int id, const char *content, const char *flags);

/* Encodes s and compares the ids with a list that ends in -1. */
void fixture_expect(const struct tokenizer *t, const char *s, unsigned flags,
                    ...);

/* Returns the status of parsing root, with its message. */
enum status fixture_refused(const json_t *root, struct error *e);

#endif
