/* grammar_tokens.h - The vocabulary of a tokenizer, for grammars.
 *
 * Tokens that stand for structure of a conversation and not for text are never
 * allowed, even where a string could spell them.
 *
 * Threading and memory: as grammar.h; the tokenizer outlives the vocabulary. */
#ifndef TEXT_GRAMMAR_GRAMMAR_TOKENS_H
#define TEXT_GRAMMAR_GRAMMAR_TOKENS_H

#include "text/grammar/grammar.h"
#include "text/tokenizer.h"

/* Prepares the ids of t as grammar_vocab_new(). */
MUST_CHECK enum status grammar_vocab_of(struct grammar_vocab **out,
                                        struct tokenizer *t,
                                        const uint32_t *ends, size_t n_ends,
                                        struct error *e);

#endif
