/* tokenizer_parts.h - The parts of a tokenizer; for text/ alone.
 *
 * tokenizer_file.c fills them, encoder.c runs them, tokenizer.c is the
 * interface. */
#ifndef TEXT_TOKENIZER_PARTS_H
#define TEXT_TOKENIZER_PARTS_H

#include <jansson.h>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pretokenizer.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

struct tokenizer {
    uint8_t hash[TOKENIZER_HASH_BYTES];
    struct vocab vocab;
    struct added_tokens added;
    struct normalizer normalizer;
    struct pretokenizer pretokenizer;
    struct bpe bpe;
    struct post_processor post;
};

/* Fills zeroed *t, except its hash, from the parsed file.  After a failure *t
 * must still be freed. */
MUST_CHECK enum status tokenizer_fill(struct tokenizer *t, const json_t *root,
                                      uint64_t seed, struct error *e);

#endif
