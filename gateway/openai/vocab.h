/* vocab.h - The texts of tokens, for answers that show them.
 *
 * Threading: none.  Memory: texts are borrowed for the time of one call. */
#ifndef GATEWAY_OPENAI_VOCAB_H
#define GATEWAY_OPENAI_VOCAB_H

#include <stddef.h>
#include <stdint.h>

/* Returns the length of a token's text and sets *bytes, which need not be
 * UTF-8, for the time of one call.  0: no such token. */
typedef size_t openai_token_fn(void *arg, uint32_t token, const char **bytes);

struct openai_vocab {
    openai_token_fn *bytes;
    void *arg;
};

#endif
