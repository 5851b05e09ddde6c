/* have.h - what a client has of the choices of a call that it resumes. */
#ifndef TESTS_UNIT_ROUTER_HAVE_H
#define TESTS_UNIT_ROUTER_HAVE_H

#include "proto/inference.pb-c.h"
#include "tests/unit/router/rig.h"

struct have {
    uint32_t n, count[CHOICES_MAX], text[CHOICES_MAX], tokens[RIG_CONTEXT];
    protobuf_c_boolean ended[CHOICES_MAX];
    uint32_t n_tokens;
};

/* One choice: ids[0, count) and `text` bytes of text. */
struct have have_one(const uint32_t *ids, uint32_t count, uint32_t text);

/* A Generate that says nothing yet. */
Sluice__V1__GenerateRequest have_nothing(void);

/* m says so; h is borrowed. */
void have_put(Sluice__V1__GenerateRequest *m, struct have *h);

#endif
