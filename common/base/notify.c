#include "common/base/notify.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FEEDS_EACH 4 /* an extension is renewed after this part of it */

/* Own code instead of libsystemd's sd_notify(): that one makes a socket for
 * each message and blocks while the manager's queue is full, in a thread that
 * streams tokens. */
static bool send_text(const struct notify *n, const char *text)
{
    ssize_t sent =
        sendto(n->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT,
               (const struct sockaddr *)&n->to, n->n_to);

    /* Any other failure is that of a manager that is gone. */
    return sent >= 0 ||
           (errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS);
}

static void flush(struct notify *n)
{
    unsigned sent = 0;

    while (sent < n->n_pending && send_text(n, n->pending[sent])) {
        sent++;
    }
    n->n_pending -= sent;
    memmove(n->pending, n->pending[sent], n->n_pending * sizeof n->pending[0]);
}

/* Sends a message of a state, now or by a later turn.  Reloads alone can fill
 * the queue: then the newest message takes the last place, because it states
 * how the sequence ended. */
static void queue(struct notify *n, const char *text)
{
    if (n->fd < 0) {
        return;
    }
    if (n->n_pending == NOTIFY_PENDING) {
        n->n_pending--;
    }
    snprintf(n->pending[n->n_pending++], NOTIFY_TEXT_MAX, "%s", text);
    flush(n);
}

/* ---- opening ---- */

/* An abstract name begins with @ in the variable and with NUL in an address. */
static enum status address_set(struct notify *n, const char *name,
                               struct error *e)
{
    size_t size = strlen(name);

    if ((name[0] != '/' && name[0] != '@') || size < 2 ||
        size >= sizeof n->to.sun_path) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "NOTIFY_SOCKET=%.80s: must be a path or @NAME of at "
                         "most %zu bytes",
                         name, sizeof n->to.sun_path - 1);
    }
    n->to.sun_family = AF_UNIX;
    memcpy(n->to.sun_path, name, size);
    if (name[0] == '@') {
        n->to.sun_path[0] = '\0';
    }
    n->n_to = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
    return ST_OK;
}

/* Returns the period of the watchdog, 0 if there is none for this process. */
static int64_t watchdog_read(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    char *end;
    long long value;

    if (usec == NULL || (pid != NULL && atoll(pid) != (long long)getpid())) {
        return 0;
    }
    errno = 0;
    value = strtoll(usec, &end, 10);
    if (errno != 0 || end == usec || *end != '\0' || value <= 0) {
        return 0;
    }
    return value < NOTIFY_WATCHDOG_LEAST ? NOTIFY_WATCHDOG_LEAST : value;
}

enum status notify_open(struct notify *n, struct error *e)
{
    const char *name = getenv("NOTIFY_SOCKET");
    enum status st;

    *n = (struct notify){.fd = -1};
    if (name == NULL || name[0] == '\0') {
        return ST_OK;
    }
    st = address_set(n, name, e);
    if (st == ST_OK) {
        n->watchdog_us = watchdog_read();
        n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (n->fd < 0) {
            st = error_set(e, ST_UNAVAILABLE, "NOTIFY_SOCKET: %s",
                           strerror(errno));
        }
    }
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    return st;
}

void notify_close(struct notify *n)
{
    if (n->fd >= 0) {
        close(n->fd);
    }
    n->fd = -1;
}

/* ---- states ---- */

void notify_status(struct notify *n, notify_status_fn *status, void *arg)
{
    n->status = status;
    n->arg = arg;
}

void notify_ready(struct notify *n)
{
    if (!n->ready && !n->stopping) {
        n->ready = true;
        n->has_fed = n->has_status = false; /* both follow at once */
        queue(n, "READY=1");
    }
}

void notify_reloading(struct notify *n, int64_t now_us)
{
    char text[NOTIFY_TEXT_MAX];

    if (n->ready && !n->stopping) {
        snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%" PRId64,
                 now_us);
        queue(n, text);
    }
}

void notify_reloaded(struct notify *n)
{
    if (n->ready && !n->stopping) {
        queue(n, "READY=1");
    }
}

void notify_stopping(struct notify *n)
{
    if (!n->stopping) {
        n->stopping = true;
        n->has_fed = n->has_status = false;
        queue(n, "STOPPING=1");
    }
}

/* ---- turns ---- */

/* Returns the extension of the state's time limit, 0 if it has none. */
static int64_t extension_us(const struct notify *n)
{
    return n->stopping ? NOTIFY_STOP_US : n->ready ? 0 : NOTIFY_START_US;
}

/* Returns the time between two feeds, INT64_MAX without any. */
static int64_t period_us(const struct notify *n)
{
    int64_t extension = extension_us(n);
    int64_t period = extension > 0 ? extension / FEEDS_EACH : INT64_MAX;

    if (n->watchdog_us > 0 && n->watchdog_us / 2 < period) {
        period = n->watchdog_us / 2;
    }
    return period;
}

static int64_t left_us(bool has, int64_t last_us, int64_t period,
                       int64_t now_us)
{
    int64_t left;

    if (period == INT64_MAX) {
        return INT64_MAX;
    }
    left = has ? last_us + period - now_us : 0;
    return left > 0 ? left : 0;
}

static void feed(struct notify *n, int64_t now_us)
{
    char text[NOTIFY_TEXT_MAX] = "";
    int at = 0;

    if (n->watchdog_us > 0) {
        at = snprintf(text, sizeof text, "WATCHDOG=1\n");
    }
    if (extension_us(n) > 0) {
        snprintf(text + at, sizeof text - (size_t)at,
                 "EXTEND_TIMEOUT_USEC=%" PRId64 "\n", extension_us(n));
    }
    if (send_text(n, text)) {
        n->has_fed = true;
        n->fed_us = now_us;
    } else {
        n->is_full = true;
    }
}

/* Replaces control characters: after a line feed, the rest of a model's name
 * would be another variable. */
static void make_line(char *text)
{
    for (; *text != '\0'; text++) {
        *text = iscntrl((unsigned char)*text) ? ' ' : *text;
    }
}

static void send_status(struct notify *n, int64_t now_us)
{
    char text[NOTIFY_TEXT_MAX];
    char status[NOTIFY_STATUS_MAX] = "";

    n->status(n->arg, status, sizeof status);
    make_line(status);
    n->has_status = true;
    n->status_us = now_us;
    if (status[0] == '\0' || strcmp(status, n->last) == 0) {
        return;
    }
    snprintf(text, sizeof text, "STATUS=%s", status);
    if (send_text(n, text)) {
        memcpy(n->last, status, sizeof n->last);
    }
}

static void send_due(struct notify *n, int64_t now_us)
{
    flush(n);
    n->is_full = n->n_pending > 0; /* nothing overtakes what waits */
    if (!n->is_full &&
        left_us(n->has_fed, n->fed_us, period_us(n), now_us) == 0) {
        feed(n, now_us);
    }
    if (!n->is_full && n->status != NULL &&
        left_us(n->has_status, n->status_us, NOTIFY_STATUS_US, now_us) == 0) {
        send_status(n, now_us);
    }
    n->full_us = now_us;
}

void notify_turn(struct notify *n, int64_t now_us)
{
    if (n->fd >= 0 &&
        left_us(n->is_full, n->full_us, NOTIFY_RETRY_US, now_us) == 0) {
        send_due(n, now_us);
    }
}

int64_t notify_wait_us(const struct notify *n, int64_t now_us)
{
    return n->fd < 0    ? INT64_MAX
           : n->is_full ? left_us(true, n->full_us, NOTIFY_RETRY_US, now_us)
                        : left_us(n->has_fed, n->fed_us, period_us(n), now_us);
}
