/* grammar_tokens.c - Tokens of text, without those of structure. */
#include "text/grammar/grammar_tokens.h"

static size_t token_text(void *arg, uint32_t id, const char **bytes)
{
    const struct tokenizer *t = arg;

    if (tokenizer_is_special(t, id) || tokenizer_is_structural(t, id)) {
        *bytes = NULL;
        return 0;
    }
    return tokenizer_token_of(arg, id, bytes);
}

enum status grammar_vocab_of(struct grammar_vocab **out, struct tokenizer *t,
                             const uint32_t *ends, size_t n_ends,
                             struct error *e)
{
    return grammar_vocab_new(out, tokenizer_vocab(t), token_text, t, ends,
                             n_ends, e);
}
