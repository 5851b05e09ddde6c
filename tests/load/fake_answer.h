/* fake_answer.h - Answers of the fake server: delays, failures and texts are
 * functions of the number of a request or of its body.
 *
 * Threading: none.  Memory: a buffer grows and is kept. */
#ifndef TESTS_LOAD_FAKE_ANSWER_H
#define TESTS_LOAD_FAKE_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake_text {
    char *bytes;
    size_t n, size;
};

void fake_put(struct fake_text *t, const void *bytes, size_t n);
void fake_print(struct fake_text *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

enum fake_fault { FAKE_NO_FAULT, FAKE_503, FAKE_500, FAKE_CUT };

/* A request, as far as the server reads it. */
struct fake_request {
    bool chat, stream, usage;
    uint32_t n_tokens, n_choices, n_prompt;
    uint64_t number; /* from 0, in order of arrival */
    uint64_t hash;   /* equal bodies have equal answers */
    enum fake_fault fault;
};

/* Reads a JSON body by its key words. */
void fake_request_read(struct fake_request *q, const char *body, size_t n);

/* Returns the delay of a request, uniform over low..high by a hash of its
 * number, and its fault: a third of the share each. */
int64_t fake_delay_us(uint64_t number, int64_t low_us, int64_t high_us);
enum fake_fault fake_fault_of(uint64_t number, double share);

/* Append parts of an HTTP response. */
void fake_head(struct fake_text *out);
void fake_token(struct fake_text *out, const struct fake_request *q,
                uint32_t i);
void fake_end(struct fake_text *out, const struct fake_request *q);
void fake_whole(struct fake_text *out, const struct fake_request *q);
void fake_error(struct fake_text *out, int status, const char *message);
void fake_models(struct fake_text *out);

#endif
