/* grammar_fixture.h - Vocabularies and texts for the tests of text/grammar. */
#ifndef TESTS_UNIT_TEXT_GRAMMAR_GRAMMAR_FIXTURE_H
#define TESTS_UNIT_TEXT_GRAMMAR_GRAMMAR_FIXTURE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "text/grammar/grammar.h"

#define FIXTURE_END 0u /* the id that ends an answer */

extern const struct grammar_style fixture_strict, fixture_free;

/* Returns a vocabulary of all bytes and of words that JSON texts are made of;
 * tokens are those of fixture_token(). */
struct grammar_vocab *fixture_vocab(void);
uint32_t fixture_n_vocab(void);
size_t fixture_token(void *arg, uint32_t id, const char **bytes);

/* Compiles; fails the test on an error. */
struct grammar *fixture_grammar(const struct grammar_vocab *v,
                                enum grammar_kind kind, const char *text,
                                const struct grammar_style *style);

/* Returns whether text is a whole text of g. */
bool fixture_matches(struct grammar *g, const char *text);

#endif
