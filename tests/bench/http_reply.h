/* http_reply.h - Replies of an HTTP/1.1 server, read for a load of streams.
 *
 * The parser takes the bytes of one connection in pieces of any size:
 *
 *     status line --> headers --> body --> DONE --http_reply_next()--> ..
 *                                   \--> BAD, for ever
 *
 * A body has a Content-Length or is chunked.  Its lines are passed on, each
 * without its line end.  The server is trusted to send no interim reply and no
 * folded header.
 *
 * Threading: one thread.  Memory: a line of the body and a line of the
 * protocol, at most HTTP_REPLY_LINE bytes each. */
#ifndef TESTS_BENCH_HTTP_REPLY_H
#define TESTS_BENCH_HTTP_REPLY_H

#include <stdbool.h>
#include <stddef.h>

#define HTTP_REPLY_LINE 1048576

enum http_reply_state {
    HTTP_REPLY_STATUS,
    HTTP_REPLY_HEADER,
    HTTP_REPLY_SIZE,
    HTTP_REPLY_BODY,
    HTTP_REPLY_AFTER, /* the line end after a chunk */
    HTTP_REPLY_TRAILER,
    HTTP_REPLY_DONE,
    HTTP_REPLY_BAD
};

/* Receives a line of the body, ended by a NUL that n does not count. */
typedef void http_reply_fn(void *arg, const char *line, size_t n);

struct http_line {
    char *text; /* [n] and a NUL, of cap; NULL before the first byte */
    size_t n, cap;
};

struct http_reply {
    enum http_reply_state state;
    int status;
    bool chunked;
    size_t left;                 /* bytes of the body or of the chunk */
    struct http_line head, body; /* apart: a line may span chunks */
};

/* Starts with the first reply of a connection. */
void http_reply_init(struct http_reply *r);

/* Frees the lines. */
void http_reply_fini(struct http_reply *r);

/* Prepares for the next reply of a connection. */
void http_reply_next(struct http_reply *r);

/* Takes n bytes and passes the lines of the body to fn.  Returns the number of
 * bytes taken, fewer only if the reply has ended or is bad. */
size_t http_reply_push(struct http_reply *r, const char *data, size_t n,
                       http_reply_fn *fn, void *arg);

/* Finds the first string that follows `"key":` in a line of JSON, and writes
 * it to out without escapes.  Returns its length, at most cap; 0 if there is
 * none.  Works without a parser of JSON, because a load has little processor
 * time for one. */
size_t http_reply_string(const char *line, const char *key, char *out,
                         size_t cap);

/* Returns the first number that follows `"key":`, or -1. */
long http_reply_number(const char *line, const char *key);

#endif
