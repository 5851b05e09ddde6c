/* bodies.h - Requests for the tests of gateway/openai. */
#ifndef TESTS_UNIT_GATEWAY_OPENAI_BODIES_H
#define TESTS_UNIT_GATEWAY_OPENAI_BODIES_H

#include "gateway/openai/request.h"

/* Parses a body that must be fine; fails the test with the error if not. */
struct openai_request *bodies_parse(enum openai_kind kind, const char *body);

/* Parses the least body of kind with members, as "\"n\":1", after its own. */
struct openai_request *bodies_with(enum openai_kind kind, const char *members);

/* Checks that a body is refused with 400, and that the error names param. */
void bodies_refused(enum openai_kind kind, const char *body, const char *param);
void bodies_refused_with(enum openai_kind kind, const char *members,
                         const char *param);

/* Returns the least body of kind, as a tree; to json_decref(). */
json_t *bodies_least(enum openai_kind kind);

/* Checks that the request's messages are this JSON text; frees it. */
void bodies_messages(struct openai_request *r, const char *expected);

#endif
