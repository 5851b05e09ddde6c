/* http_limits.h - Limits of the HTTP server.
 *
 * Threading: constant data. */
#ifndef GATEWAY_HTTP_HTTP_LIMITS_H
#define GATEWAY_HTTP_HTTP_LIMITS_H

#include "common/base/limit.h"

/* X(name, value, unit, what it bounds) */
#define HTTP_LIMITS(X)                                                        \
    /* requests */                                                            \
    X(HTTP_LINE_BYTES_MAX, 8192, "bytes", "a request line")                   \
    X(HTTP_METHOD_BYTES_MAX, 32, "bytes", "a method's name")                  \
    X(HTTP_HEADERS_BYTES_MAX, 32768, "bytes", "the headers of a request")     \
    X(HTTP_HEADERS_MAX, 100, "headers", "a request, or its trailers")         \
    X(HTTP_CHUNK_DIGITS_MAX, 16, "digits", "the size of a chunk")             \
    X(HTTP_EXTENSIONS_BYTES_MAX, 4096, "bytes", "chunk extensions of a body") \
    X(HTTP_TRAILERS_BYTES_MAX, 8192, "bytes", "the trailers of a body")       \
    X(HTTP_BODY_BYTES_MAX, 8 << 20, "bytes", "a body, by default")            \
    X(HTTP_BODY_WEIGHT, 4, "bytes", "memory of a request, by byte of a body") \
    X(HTTP_REQUESTS_BYTES_MAX, 512 << 20, "bytes", "all requests, at most")   \
    X(HTTP_OUTPUTS_BYTES_MAX, 512 << 20, "bytes", "all outputs, at most")     \
    X(HTTP_OUTPUT_EXEMPT, 4096, "bytes", "output that is always accepted")    \
    X(HTTP_PROXIES_MAX, 16, "proxies", "named as trusted")                    \
    /* connections */                                                         \
    X(HTTP_CONNECTIONS_MAX, 16384, "connections", "a server, by default")     \
    X(HTTP_CONNECTIONS_MOST, 65536, "connections", "a server, at most")       \
    X(HTTP_READ_BYTES_MAX, 16384, "bytes", "one read of a connection")        \
    X(HTTP_AHEAD_BYTES_MAX, 65536, "bytes", "input that waits for its turn")  \
    X(HTTP_OUTPUT_BYTES_MAX, 256 << 10, "bytes", "output not yet taken")      \
    X(HTTP_OUTPUT_LOW, 16384, "bytes", "output before a next request")        \
    X(HTTP_TURN_REQUESTS, 64, "requests", "a connection in one turn")         \
    X(HTTP_PROGRESS_BYTES, 1024, "bytes", "progress that renews a timeout")   \
    /* times */                                                               \
    X(HTTP_HEAD_MS, 10000, "ms", "from a head's first byte to its end")       \
    X(HTTP_BODY_MS, 30000, "ms", "without progress of a body")                \
    X(HTTP_IDLE_MS, 75000, "ms", "a connection without a request")            \
    X(HTTP_WRITE_MS, 30000, "ms", "without progress of the output")           \
    /* sockets */                                                             \
    X(HTTP_BACKLOG, 1024, "connections", "waiting to be accepted")            \
    X(HTTP_ACCEPT_BUDGET, 64, "connections", "accepted in one turn")          \
    X(HTTP_EVENT_BUDGET, 256, "events", "handled in one turn")                \
    X(HTTP_ACCEPT_PAUSE_MS, 100, "ms", "of accepting without descriptors")    \
    X(HTTP_HANDSHAKES_MAX, 1024, "connections", "in a TLS handshake")         \
    X(HTTP_HANDSHAKE_MS, 10000, "ms", "a TLS handshake")                      \
    X(HTTP_UNSENT_BYTES, 16384, "bytes", "output of a client in the system")  \
    X(HTTP_LINGER_MS, 5000, "ms", "discarding input of a closed connection")  \
    X(HTTP_LINGER_BYTES_MAX, 16 << 20, "bytes",                               \
      "discarded on a closed "                                                \
      "connection")

enum http_limit {
#define X(name, value, unit, what) name = (value),
    HTTP_LIMITS(X)
#undef X
};

extern const struct limit_row http_limits[];
extern const size_t http_limits_n;

#endif
