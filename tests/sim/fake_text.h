/* fake_text.h - router/text/text_seam.h in virtual time.
 *
 * A text prompt encodes to the ids of its bytes, a slice at a time.  Jobs take
 * drawn times and finish in any order; the queue is bounded.  The streaming
 * tokenizer is a real tokenizer with the tokens of vocabulary.h. */
#ifndef SIM_FAKE_TEXT_H
#define SIM_FAKE_TEXT_H

#include "router/text/text_seam.h"

struct sim;
struct fake_text;

struct fake_text *fake_text_new(struct sim *s);
void fake_text_free(struct fake_text **t);
struct text_seam *fake_text_seam(struct fake_text *t);

#endif
