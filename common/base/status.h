/* status.h - Status codes and errors of router, worker and client.
 *
 * Threading: no state.  Memory: an error is the caller's storage. */
#ifndef COMMON_BASE_STATUS_H
#define COMMON_BASE_STATUS_H

/* The codes of gRPC, with the same numbers. */
#define STATUS_MAP(X)                                            \
    X(OK, 0, "ok")                                               \
    X(CANCELLED, 1, "cancelled")                                 \
    X(UNKNOWN, 2, "unknown error")                               \
    X(INVALID_ARGUMENT, 3, "the request is wrong")               \
    X(DEADLINE_EXCEEDED, 4, "the deadline has passed")           \
    X(NOT_FOUND, 5, "no such thing")                             \
    X(ALREADY_EXISTS, 6, "it exists already")                    \
    X(PERMISSION_DENIED, 7, "not allowed")                       \
    X(RESOURCE_EXHAUSTED, 8, "no room now, retry later")         \
    X(FAILED_PRECONDITION, 9, "not in a state that allows this") \
    X(ABORTED, 10, "given up because of a conflict")             \
    X(OUT_OF_RANGE, 11, "past the end of what is valid")         \
    X(UNIMPLEMENTED, 12, "not built")                            \
    X(INTERNAL, 13, "our fault")                                 \
    X(UNAVAILABLE, 14, "nobody to serve it now")                 \
    X(DATA_LOSS, 15, "data is lost or broken")                   \
    X(UNAUTHENTICATED, 16, "who are you?")

enum status {
#define X(code, number, text) ST_##code = number,
    STATUS_MAP(X)
#undef X
        ST_NR
};

#define MUST_CHECK __attribute__((warn_unused_result))

#define ERROR_TEXT 512

/* An error's text, outermost context first: "load shard 3: read: EOF". */
struct error {
    enum status code;
    char text[ERROR_TEXT];
};

/* Returns a sentence about code; never NULL. */
const char *status_text(enum status code);

/* Returns the name, such as "RESOURCE_EXHAUSTED"; "UNKNOWN" for an unknown
 * code. */
const char *status_name(enum status code);

/* Sets *e to code and a formatted message.  Returns code.  e may be NULL. */
enum status error_set(struct error *e, enum status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Wraps the message in *e: puts fmt and ": " in front of it.  Returns
 * e->code, or ST_UNKNOWN if e is NULL. */
enum status error_wrap(struct error *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
