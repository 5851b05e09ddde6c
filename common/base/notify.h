/* notify.h - Reports a daemon's state to its service manager.
 *
 * The protocol is that of sd_notify(3): datagrams of VARIABLE=VALUE lines to
 * the socket in $NOTIFY_SOCKET.  Without that variable nothing is sent.
 *
 *     notify_open --> [starting] --notify_ready--> [ready] --notify_stopping-->
 *         [stopping]; notify_turn in every state, after each turn of a loop
 *
 *     starting   EXTEND_TIMEOUT_USEC, so that a start may take as long as the
 *                loop turns
 *     ready      READY=1 once; WATCHDOG=1 every half of $WATCHDOG_USEC;
 *                RELOADING=1 with MONOTONIC_USEC, then READY=1
 *     stopping   STOPPING=1 once; then EXTEND_TIMEOUT_USEC, for a long drain
 *     all        STATUS=: a new text, once a second at most and at a change of
 *                state
 *
 * Nothing here blocks or allocates.  A message that the manager's socket has no
 * room for is sent by a later turn, in order; a status that has no room is
 * replaced by a newer one.
 *
 * Threading: one thread.  Memory: the caller's storage.  Limits: base_limits
 * (NOTIFY_*). */
#ifndef COMMON_BASE_NOTIFY_H
#define COMMON_BASE_NOTIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/base/status.h"

#define NOTIFY_TEXT_MAX       256 /* bytes of a message and its NUL */
#define NOTIFY_STATUS_MAX     192 /* bytes of a status text and its NUL */
#define NOTIFY_PENDING        4   /* messages that wait for room */
#define NOTIFY_STATUS_US      1000000
#define NOTIFY_RETRY_US       10000     /* pause if the manager has no room */
#define NOTIFY_START_US       120000000 /* extension of a start */
#define NOTIFY_STOP_US        20000000  /* extension of a stop */
#define NOTIFY_WATCHDOG_LEAST 2000      /* shortest period of a watchdog, us */

/* Writes a status text, at most cap bytes with its NUL.  Control characters in
 * it are sent as blanks. */
typedef void notify_status_fn(void *arg, char *text, size_t cap);

struct notify {
    int fd; /* -1: no manager */
    struct sockaddr_un to;
    socklen_t n_to;
    int64_t watchdog_us; /* 0: none */
    int64_t fed_us;      /* time of the last WATCHDOG or EXTEND_TIMEOUT */
    int64_t status_us;   /* time of the last status */
    int64_t full_us;     /* if is_full: when the manager had no room */
    bool has_fed, has_status, is_full, ready, stopping;
    notify_status_fn *status; /* NULL: none */
    void *arg;
    char last[NOTIFY_STATUS_MAX]; /* the status that the manager has */
    char pending[NOTIFY_PENDING][NOTIFY_TEXT_MAX];
    unsigned n_pending;
};

/* Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and removes them from
 * the environment.  Returns ST_INVALID_ARGUMENT if the socket's name cannot be
 * used, and ST_UNAVAILABLE if no socket can be made; *n is then a notify
 * without manager. */
MUST_CHECK enum status notify_open(struct notify *n, struct error *e);
void notify_close(struct notify *n);

/* Sets the function that notify_turn() asks for the status. */
void notify_status(struct notify *n, notify_status_fn *status, void *arg);

/* Reports that the daemon serves. */
void notify_ready(struct notify *n);
/* Report that the daemon reads its configuration again, and that it has done
 * so.  now_us is of CLOCK_MONOTONIC. */
void notify_reloading(struct notify *n, int64_t now_us);
void notify_reloaded(struct notify *n);
/* Reports that the daemon drains or stops. */
void notify_stopping(struct notify *n);

/* Sends what waits or is due at now_us. */
void notify_turn(struct notify *n, int64_t now_us);

/* Returns the longest time until the next notify_turn(), INT64_MAX if there is
 * no manager. */
int64_t notify_wait_us(const struct notify *n, int64_t now_us);

#endif
