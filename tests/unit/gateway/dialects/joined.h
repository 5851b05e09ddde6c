/* joined.h - Answers that are collected, and streams joined as a client does.
 */
#ifndef TESTS_UNIT_GATEWAY_DIALECTS_JOINED_H
#define TESTS_UNIT_GATEWAY_DIALECTS_JOINED_H

#include "gateway/dialects/answer.h"
#include "tests/unit/gateway/openai/bodies.h"

/* The bytes that an answer wrote. */
struct joined {
    struct json_out out; /* followed by a NUL */
    enum bodies_kind kind;
    struct openai_request *request;
    size_t n_writes;
};

/* Makes an answer to the least request of kind with members.  Its request id
 * ends in 7, its time is 9, and its tokens 0..3 are "a", "\xc3", "\xa9", "d".
 */
struct openai_answer *joined_answer(struct joined *j, enum bodies_kind kind,
                                    const char *members);

/* Frees the answer and what it wrote. */
void joined_free(struct joined *j, struct openai_answer **a);

/* Checks the bytes written. */
void joined_is(const struct joined *j, const char *expected);

/* Returns the value at a path such as "choices.0.text"; NULL if absent. */
json_t *joined_at(const json_t *tree, const char *path);
const char *joined_text(const json_t *tree, const char *path);

/* Joins the chunks of a stream to the body of a whole answer, and checks that
 * each choice has one role (of a chat), one reason, and nothing after it. */
json_t *joined_chunks(const struct joined *j);

#endif
