#include "common/base/log_output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FILE_MODE 0640

/* The mutex keeps the lines of several threads whole, and makes the check for
 * room valid until the write. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int fd = STDERR_FILENO;
static const char *path; /* NULL: standard error */
static uint64_t n_dropped;

/* O_NONBLOCK: a named pipe without a reader is an error, not a wait. */
static int open_file(const char *name)
{
    return open(
        name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
        FILE_MODE);
}

/* Standard error may be shared with other programs, so it cannot be made
 * non-blocking.  A pipe with room has room for PIPE_BUF bytes, which is more
 * than a line. */
static bool has_room(void)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};

    return poll(&p, 1, 0) == 1 && (p.revents & POLLOUT) != 0;
}

static bool put(const char *text, size_t n)
{
    return has_room() && write(fd, text, n) == (ssize_t)n;
}

/* Reports dropped lines once there is room. */
static bool put_dropped(void)
{
    char line[64], text[LOG_TEXT];

    if (n_dropped == 0) {
        return true;
    }
    snprintf(line, sizeof line, "log-dropped lines=%" PRIu64, n_dropped);
    if (!put(text, log_format(text, LOG_WARN, line))) {
        return false;
    }
    n_dropped = 0;
    return true;
}

void log_emit(const char *text, size_t n)
{
    int saved = errno;

    pthread_mutex_lock(&mutex);
    if (!put_dropped() || !put(text, n)) {
        n_dropped++;
    }
    pthread_mutex_unlock(&mutex);
    errno = saved;
}

static bool requests_parse(const char *word)
{
    static const char *const names[] = {[LOG_REQUESTS_ALL] = "all",
                                        [LOG_REQUESTS_FAILED] = "failed",
                                        [LOG_REQUESTS_NONE] = "none"};

    for (int i = LOG_REQUESTS_ALL; i <= LOG_REQUESTS_NONE; i++) {
        if (strcmp(word, names[i]) == 0) {
            log_requests = (enum log_requests)i;
            return true;
        }
    }
    return false;
}

enum status log_start(const struct log_options *o, struct error *e)
{
    enum log_level level;

    if (!log_level_parse(o->level, &level)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--log-level %s: must be debug, info, warn, error or "
                         "off",
                         o->level);
    }
    if (o->requests != NULL && !requests_parse(o->requests)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--log-requests %s: must be all, failed or none",
                         o->requests);
    }
    if (o->file != NULL) {
        int opened = open_file(o->file);

        if (opened < 0) {
            return error_set(e, ST_UNAVAILABLE,
                             "--log-file %s: cannot open: %s", o->file,
                             strerror(errno));
        }
        fd = opened;
        path = o->file;
    }
    log_setup(level, NULL, NULL);
    return ST_OK;
}

void log_reopen(void)
{
    int opened = path != NULL ? open_file(path) : -1;
    int why = errno;

    if (path == NULL) {
        log_info("log-reopened", "file=none");
        return;
    }
    /* dup3() replaces the descriptor at once, so that no thread ever writes to
     * one that is closed. */
    if (opened < 0 || dup3(opened, fd, O_CLOEXEC) < 0) {
        log_error("log-kept", "file=\"%s\" why=\"%s\"", path, strerror(why));
    } else {
        log_info("log-reopened", "file=\"%s\"", path);
    }
    if (opened >= 0) {
        close(opened);
    }
}
