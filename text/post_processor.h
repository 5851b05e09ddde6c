/* post_processor.h - Tokens that a tokenizer adds around a text: bos, eos.
 *
 * Accepts ByteLevel (adds nothing), TemplateProcessing (its "single"
 * template) and sequences of these, outermost last; refuses any other by
 * name.
 *
 * Threading: read-only once parsed.  Limits: TEXT_TEMPLATE_IDS on each side,
 * TEXT_NESTING. */
#ifndef TEXT_POST_PROCESSOR_H
#define TEXT_POST_PROCESSOR_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "common/base/status.h"
#include "text/text_limits.h"
#include "text/vocab.h"

struct post_processor {
    uint32_t before[TEXT_TEMPLATE_IDS];
    uint32_t after[TEXT_TEMPLATE_IDS];
    size_t n_before, n_after;
};

/* Reads the file's "post_processor"; NULL means none.  Every id in it must be
 * a token of vocab. */
MUST_CHECK enum status post_processor_parse(struct post_processor *p,
                                            const json_t *v,
                                            const struct vocab *vocab,
                                            struct error *e);

#endif
