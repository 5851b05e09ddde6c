/* argument.h - Parsing of option values that are lists or escaped text.
 *
 * A list function may be called several times for a repeated option: each call
 * appends its items to out[most] and advances *n, the number of items so far.
 *
 * Threading: none.  Memory: the caller's arrays.  Errors: all functions return
 * ST_INVALID_ARGUMENT, with a text that quotes the value and names the
 * accepted form. */
#ifndef CLIENT_CTL_ARGUMENT_H
#define CLIENT_CTL_ARGUMENT_H

#include "client/lib/client.h"
#include "proto/limits.h"

/* Appends token ids: "451" or "451,362". */
MUST_CHECK enum status argument_ids(const char *text, uint32_t *out,
                                    size_t most, size_t *n, struct error *e);

/* Appends lengths in tokens: "4096" or "4096,32768". */
MUST_CHECK enum status argument_lengths(const char *text, uint32_t *out,
                                        size_t most, size_t *n,
                                        struct error *e);

/* Appends logit biases: "451=-100" or "451=-100,362=2.5".  Each id goes to
 * tokens, its bias to biases. */
MUST_CHECK enum status argument_biases(const char *text, uint32_t *tokens,
                                       float *biases, size_t most, size_t *n,
                                       struct error *e);

struct argument_worker {
    char name[PEER_NAME_MAX + 1];
    uint64_t bytes;
    double speed; /* 1 if the value names none */
};

/* Appends workers: "w1=24GiB" or "w1=24GiB@2,w2=16GiB".  Rejects a name that
 * is already in out. */
MUST_CHECK enum status argument_workers(const char *text,
                                        struct argument_worker *out,
                                        size_t most, size_t *n,
                                        struct error *e);

/* Writes text to out with \n, \t, \r and \\ replaced by newline, tab, carriage
 * return and backslash.  Any other backslash is an error.  out has
 * strlen(text) + 1 bytes, *n receives the length without the final NUL. */
MUST_CHECK enum status argument_text(const char *text, char *out, size_t *n,
                                     struct error *e);

#endif
