/* grammar.h - Grammars that restrict what a model writes, token by token.
 *
 * A vocabulary is prepared once for a model, a grammar is compiled once for a
 * schema, and each sequence has a constraint.  After each token the constraint
 * has a state, which depends on the accepted text alone: a sequence that moves
 * or resumes accepts its text again.  A mask allows exactly the tokens after
 * which some text of the grammar can still be completed.
 *
 * Threading: a vocabulary has any number of readers.  A grammar makes its
 * states when they are reached, under a lock of its own, so constraints of one
 * grammar may be used by several threads, one thread at a time each.  Compile
 * on any thread. Memory: a vocabulary outlives its grammars, a grammar its
 * constraints.  A grammar holds at most GRAMMAR_BYTES_MAX and MASK_BYTES_MAX, a
 * constraint 12 bytes for each token and the accepted bytes. Limits:
 * grammar_limits.h, each refused with ST_RESOURCE_EXHAUSTED. */
#ifndef TEXT_GRAMMAR_GRAMMAR_H
#define TEXT_GRAMMAR_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "text/grammar/objects.h"
#include "text/grammar/vocab_trie.h"

struct grammar_vocab;
struct grammar;
struct constraint;

/* Prepares the ids [0, n_vocab).  ends[n_ends]: ids that end an answer.  token
 * returns the bytes of an id, none for control tokens.  *out is the caller's.
 */
MUST_CHECK enum status grammar_vocab_new(struct grammar_vocab **out,
                                         uint32_t n_vocab,
                                         vocab_token_fn *token, void *arg,
                                         const uint32_t *ends, size_t n_ends,
                                         struct error *e);
void grammar_vocab_free(struct grammar_vocab **v);

/* Returns the words of a mask: bit i % 64 of word i / 64 stands for id i. */
size_t grammar_vocab_words(const struct grammar_vocab *v);

enum grammar_kind {
    GRAMMAR_SCHEMA, /* a JSON Schema */
    GRAMMAR_OBJECT, /* any JSON object; the text is ignored */
    GRAMMAR_REGEX,  /* a regular expression of ECMA-262 for the whole text */
    GRAMMAR_CHOICE, /* a JSON array of strings, one of which is the text */
};

/* Compiles text[0..n).  *out is the caller's, NULL on failure.  Returns
 * ST_INVALID_ARGUMENT: wrong, or nothing can match; ST_UNIMPLEMENTED: a
 * construct that cannot be honoured, with its name and place;
 * ST_RESOURCE_EXHAUSTED: a limit, by name. */
MUST_CHECK enum status
grammar_compile(struct grammar **out, const struct grammar_vocab *v,
                enum grammar_kind kind, const char *text, size_t n,
                const struct grammar_style *style, struct error *e);
void grammar_free(struct grammar **g);

/* The memory and the parts of a grammar now. */
struct grammar_sizes {
    size_t bytes, mask_bytes;
    uint32_t rules, states;
};
void grammar_sizes(struct grammar *g, struct grammar_sizes *out);

/* Begins a text.  *out is the caller's. */
MUST_CHECK enum status constraint_new(struct constraint **out,
                                      struct grammar *g, struct error *e);
void constraint_free(struct constraint **c);

/* Sets bits[grammar_vocab_words()] to the allowed ids; ends are allowed if the
 * text is complete.  After an end nothing is. */
MUST_CHECK enum status constraint_mask(struct constraint *c, uint64_t *bits,
                                       struct error *e);

/* Takes a token.  Returns ST_INVALID_ARGUMENT, and changes nothing, if the mask
 * does not allow it. */
MUST_CHECK enum status constraint_accept(struct constraint *c, uint32_t id,
                                         struct error *e);

/* Takes bytes as if they were one token.  Sets *n_taken to the bytes that fit;
 * fewer than n is ST_INVALID_ARGUMENT, and changes nothing. */
MUST_CHECK enum status constraint_accept_text(struct constraint *c,
                                              const char *text, size_t n,
                                              size_t *n_taken, struct error *e);

/* Takes back the last n tokens; n is at most those accepted. */
void constraint_rollback(struct constraint *c, size_t n);

/* Returns whether the accepted text is a whole one. */
bool constraint_complete(const struct constraint *c);

/* Returns the accepted text and its bytes.  Borrowed until the next change. */
const char *constraint_text(const struct constraint *c, size_t *n);

#endif
