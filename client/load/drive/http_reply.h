/* http_reply.h - The framing of an HTTP/1.1 response, from bytes that are split
 * anywhere.
 *
 * Follows RFC 9112: a body ends by Content-Length, by its last chunk, or with
 * the connection.  Interim responses (1xx) are skipped.  Fields other than
 * those of framing and Content-Type are ignored.
 *
 * Threading: none.  Memory: HTTP_HEAD_MAX in the struct.  Pure. */
#ifndef CLIENT_LOAD_DRIVE_HTTP_REPLY_H
#define CLIENT_LOAD_DRIVE_HTTP_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_HEAD_MAX                                      \
    16384 /* bytes of a head, of trailers, of a chunk line \
           */

enum reply_part {
    REPLY_HEAD,
    REPLY_BODY,  /* by length, or up to the end of the connection */
    REPLY_SIZE,  /* the line in front of a chunk */
    REPLY_CHUNK, /* its bytes and its line end */
    REPLY_TRAILERS,
    REPLY_DONE,
    REPLY_BAD
};

struct http_reply {
    enum reply_part part;
    int status;
    bool keeps;   /* the connection can be used again */
    bool streams; /* Content-Type: text/event-stream */
    bool chunked, has_length;
    bool encoded;    /* a Content-Encoding that was not asked for */
    uint64_t left;   /* bytes of the body, or of the chunk */
    const char *why; /* REPLY_BAD: a sentence */
    size_t n_line;
    char line[HTTP_HEAD_MAX];
};

struct http_reply_ops {
    void (*on_head)(void *arg, const struct http_reply *r);
    void (*on_body)(void *arg, const char *bytes, size_t n);
};

void http_reply_begin(struct http_reply *r);

/* Takes bytes until the response ends.  Returns how many it took.  Stops early
 * if *stop becomes true. */
size_t http_reply_push(struct http_reply *r, const char *bytes, size_t n,
                       const struct http_reply_ops *ops, void *arg,
                       const bool *stop);

/* Ends the response with the connection.  Returns whether it is complete. */
bool http_reply_close(struct http_reply *r);

#endif
