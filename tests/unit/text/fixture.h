/* fixture.h - tokenizers and files for the tests of text/. */
#ifndef TESTS_UNIT_TEXT_FIXTURE_H
#define TESTS_UNIT_TEXT_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "small.h"
#include "text/tokenizer.h"

#define QWEN3       SLUICE_TOKENIZERS "/qwen3.json"
#define GPT2        SLUICE_TOKENIZERS "/gpt2.json"
#define TINY_HYBRID "models/tiny-hybrid/tokenizer.json"

/* Fails the test if it cannot. */
struct tokenizer *fixture_load(const char *path);
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
