/* post_processor.h - what a tokenizer puts around a text: bos, eos.
 *
 * ByteLevel (adds nothing), TemplateProcessing (its "single" template) and
 * sequences of these, outermost last; any other is refused by name.
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

/* From the file's "post_processor" (NULL is none); every id it names must be
 * a token of vocab. */
MUST_CHECK enum status post_processor_parse(struct post_processor *p,
                                            const json_t *v,
                                            const struct vocab *vocab,
                                            struct error *e);

#endif
