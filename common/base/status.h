/* status.h - the one error vocabulary of router, worker and client.
 *
 * Threading: no state.  Memory: an error is the caller's storage. */
#ifndef COMMON_BASE_STATUS_H
#define COMMON_BASE_STATUS_H

/* gRPC's codes, by number. */
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

/* What went wrong, outermost context first: "load shard 3: read: EOF". */
struct error {
    enum status code;
    char text[ERROR_TEXT];
};

/* A sentence for people; never NULL. */
const char *status_text(enum status code);

/* "RESOURCE_EXHAUSTED"; "UNKNOWN" for a number that is none. */
const char *status_name(enum status code);

/* Set e to code and a formatted message; returns code. e may be NULL. */
enum status error_set(struct error *e, enum status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Prefix the message already in e with fmt and ": "; returns e->code, or
 * ST_UNKNOWN if e is NULL. */
enum status error_wrap(struct error *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
