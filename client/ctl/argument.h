/* argument.h - values of options that are lists or escaped text.
 *
 * Threading: none.  Memory: the caller's arrays.  Errors are
 * ST_INVALID_ARGUMENT with a sentence that quotes what was wrong and says
 * what would be right. */
#ifndef CLIENT_CTL_ARGUMENT_H
#define CLIENT_CTL_ARGUMENT_H

#include "client/lib/client.h"
#include "proto/limits.h"

/* "451" or "451,362": appended to out[most], which holds *n. */
MUST_CHECK enum status argument_ids(const char *text, uint32_t *out,
                                    size_t most, size_t *n, struct error *e);

/* "4096" or "4096,32768", in the same way. */
MUST_CHECK enum status argument_lengths(const char *text, uint32_t *out,
                                        size_t most, size_t *n,
                                        struct error *e);

/* "451=-100" or "451=-100,362=2.5", in the same way: each id goes to tokens,
 * its bias to biases. */
MUST_CHECK enum status argument_biases(const char *text, uint32_t *tokens,
                                       float *biases, size_t most, size_t *n,
                                       struct error *e);

struct argument_worker {
    char name[PEER_NAME_MAX + 1];
    uint64_t bytes;
    double speed; /* 1 if not given */
};

/* "w1=24GiB" or "w1=24GiB@2,w2=16GiB", in the same way; each name once. */
MUST_CHECK enum status argument_workers(const char *text,
                                        struct argument_worker *out,
                                        size_t most, size_t *n,
                                        struct error *e);

/* Text in which \n, \t, \r and \\ stand for newline, tab, carriage return
 * and backslash; out is [strlen(text) + 1], *n its length. */
MUST_CHECK enum status argument_text(const char *text, char *out, size_t *n,
                                     struct error *e);

#endif
