/* web_reader.h - Reads the responses of a connection, byte by byte.
 *
 * It shares no code with gateway/http/.  A response must have the one form that
 * RFC 9112 allows a server: a status line, headers, and a body by
 * Content-Length, by chunks, or to the end of the connection. */
#ifndef SIM_WEB_READER_H
#define SIM_WEB_READER_H

#include <stdbool.h>
#include <stddef.h>

#define WEB_HEAD_MAX 8192

enum web_at {
    WEB_AT_HEAD,
    WEB_AT_BODY,  /* `left` bytes follow */
    WEB_AT_END,   /* ... or all up to the end of the connection */
    WEB_AT_SIZE,  /* line with the size of a chunk */
    WEB_AT_CHUNK, /* `left` bytes, then an end of line */
    WEB_AT_BREAK,
    WEB_AT_LAST, /* the empty line after the last chunk */
    WEB_AT_DONE
};

struct web_reader {
    enum web_at at;
    bool head_only; /* the request is a HEAD */
    int status;
    bool closes;    /* Connection: close */
    bool is_events; /* text/event-stream */
    size_t left;
    char line[WEB_HEAD_MAX]; /* [n_line] head or size */
    size_t n_line;
    char *body; /* [n_body], owned, with a NUL */
    size_t n_body, capacity;
    const char *wrong; /* NULL: nothing */
};

/* Begins the next response. */
void web_reader_begin(struct web_reader *r, bool head_only);

/* Reads up to n bytes and returns how many belong to this response: fewer if it
 * is DONE, or wrong. */
size_t web_reader_feed(struct web_reader *r, const char *data, size_t n);

void web_reader_fini(struct web_reader *r);

#endif
