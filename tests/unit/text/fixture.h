/* fixture.h - tokenizers and files for the tests of text/. */
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

/* How Qwen3.5 and Llama 3 split a text; neither has a normalizer. */
#define QWEN35_SPLIT                                                      \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|" \
    "\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"          \
    "\\s+(?!\\S)|\\s+"
#define LLAMA3_SPLIT                                              \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" \
    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"   \
    "\\s+(?!\\S)|\\s+"

/* Fails the test if it cannot. */
struct tokenizer *fixture_load(const char *path);

/* Qwen3's vocabulary behind another split and no normalizer; the same when a
 * word that is a token is to be that token, as Llama 3 has it. */
struct tokenizer *fixture_resplit(const char *split, bool ignore_merges);
struct tokenizer *fixture_parse(const json_t *root);

/* A file's bytes with a NUL behind, to free(). */
char *fixture_file(const char *path, size_t *n);

/* Remove root.path; it must be there. */
void fixture_unset(json_t *root, const char *path);

/* Set root.path to value (stolen), path like "model.vocab" */
void fixture_set(json_t *root, const char *path, json_t *value);

/* Add {"id", "content", flags} to added_tokens; flags is a string of the
 * letters s(pecial) n(ormalized) w(ord) l(strip) r(strip). */
void fixture_add(json_t *root, int id, const char *content, const char *flags);

/* Encode s and compare with a list of ids ended by -1. */
void fixture_expect(const struct tokenizer *t, const char *s, unsigned flags,
                    ...);

/* The status of parsing root, and its message. */
enum status fixture_refused(const json_t *root, struct error *e);

#endif
