/* have.h - The parts of a call that a client already has when it resumes. */
#ifndef TESTS_UNIT_ROUTER_HAVE_H
#define TESTS_UNIT_ROUTER_HAVE_H

#include "proto/inference.pb-c.h"
#include "tests/unit/router/rig.h"

/* Per choice: tokens, bytes of text, and whether it has ended.  tokens has the
 * ids of all choices, one after another. */
struct have {
    uint32_t n, count[CHOICES_MAX], text[CHOICES_MAX], tokens[RIG_CONTEXT];
    protobuf_c_boolean ended[CHOICES_MAX];
    uint32_t n_tokens;
};

/* Returns one choice with ids[0, count) and `text` bytes of text. */
struct have have_one(const uint32_t *ids, uint32_t count, uint32_t text);

/* Returns an empty Generate request. */
Sluice__V1__GenerateRequest have_nothing(void);

/* Sets the resume fields of m to h, which is borrowed. */
void have_put(Sluice__V1__GenerateRequest *m, struct have *h);

#endif
