/* reply.h - A streamed chat completion, from the data of its events.
 *
 * Untrusted bytes: unknown fields are ignored, and wrong types count as
 * absent.  Only choice 0 is read.
 *
 * Threading: none.  Memory: in the struct.  Pure. */
#ifndef CLIENT_FRONT_REPLY_H
#define CLIENT_FRONT_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

enum reply_kind { REPLY_CONTENT, REPLY_REASONING };

/* All zeros is the start of a reply. */
struct reply {
    bool done;      /* [DONE] has come */
    bool failed;    /* the server has sent an error, or no JSON */
    struct error e; /* if failed */
    bool has_usage; /* the two counts are set */
    uint64_t n_prompt, n_generated;
    char finish[32]; /* finish_reason, or "" */
};

/* Receives a piece of valid UTF-8. */
typedef void reply_fn(void *arg, enum reply_kind kind, const char *text,
                      size_t n);

/* Takes the data of one event. */
void reply_take(struct reply *r, const char *data, size_t n, reply_fn *fn,
                void *arg);

/* Fills *e from the body of a response with an HTTP status of 400 or more:
 * OpenAI's error object, or the start of the body. */
void reply_error(long http, const char *body, size_t n, struct error *e);

/* Copies the id of the first model of a /v1/models body to id[size].  Returns
 * false if there is none or no room. */
bool reply_first_model(const char *body, size_t n, char *id, size_t size);

#endif
