/* bodies.h - Requests for the tests of gateway/openai. */
#ifndef TESTS_UNIT_GATEWAY_OPENAI_BODIES_H
#define TESTS_UNIT_GATEWAY_OPENAI_BODIES_H

#include "gateway/dialects/dialect.h"

enum bodies_kind {
    BODIES_COMPLETION, /* /v1/completions */
    BODIES_CHAT,       /* /v1/chat/completions */
    BODIES_RESPONSES,  /* /v1/responses */
    BODIES_MESSAGES,   /* /v1/messages */
    BODIES_OLLAMA,     /* /api/chat */
    BODIES_GENERATE,   /* /api/generate */
    BODIES_TOKENIZE,   /* /tokenize */
    BODIES_DETOKENIZE, /* /detokenize */
    BODIES_NR
};

/* Returns the row of a kind; NULL: it is no dialect. */
const struct dialect *bodies_dialect(enum bodies_kind kind);

/* Returns the parser of a kind. */
openai_parse_fn *bodies_parser(enum bodies_kind kind);

/* Parses a body that must be fine; fails the test with the error if not. */
struct openai_request *bodies_parse(enum bodies_kind kind, const char *body);

/* Parses the least body of kind with members, as "\"n\":1", after its own. */
struct openai_request *bodies_with(enum bodies_kind kind, const char *members);

/* Checks that a body is refused with 400, and that the error names param. */
void bodies_refused(enum bodies_kind kind, const char *body, const char *param);
void bodies_refused_with(enum bodies_kind kind, const char *members,
                         const char *param);

/* Returns the least body of kind, as a tree; to json_decref(). */
json_t *bodies_least(enum bodies_kind kind);

/* Checks that the request's messages are this JSON text; frees it. */
void bodies_messages(struct openai_request *r, const char *expected);

/* Returns a JSON list of n times the element; to free(). */
char *bodies_list(const char *element, size_t n);

#endif
