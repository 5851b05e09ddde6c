/* record_file.c - A thread that writes what the core records.
 *
 * A file of the page cache rarely blocks, but a full queue of a disk or a
 * network file system does, for seconds.  The core would serve nobody
 * meanwhile, so it only copies lines to memory. */
#include "router/record_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/list.h"
#include "common/base/log.h"

/* Two of them change places, so that a write needs no lock. */
struct record_buffer {
    char *text; /* [RECORD_BUFFER_BYTES] */
    size_t n;
};

struct record_file {
    struct record_sink sink;
    const char *path; /* borrowed */
    int fd;
    uint64_t n_written; /* the thread's */
    bool has_thread;
    pthread_t thread;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t wake;
    struct record_buffer in, out; /* out: the thread's while it writes */
    bool stop, ended;
};

/* The lock is held for a copy of one line, or for a swap of two pointers. */
static bool put(struct record_sink *s, const char *text, size_t n)
{
    struct record_file *f = LIST_OF(s, struct record_file, sink);
    bool fits;

    pthread_mutex_lock(&f->lock);
    fits = !f->ended && n <= RECORD_BUFFER_BYTES - f->in.n;
    if (fits) {
        memcpy(f->in.text + f->in.n, text, n);
        f->in.n += n;
        pthread_cond_signal(&f->wake);
    }
    pthread_mutex_unlock(&f->lock);
    return fits;
}

/* Returns why the recording ends; NULL: it goes on. */
static const char *write_out(struct record_file *f)
{
    size_t at = 0;

    if (f->n_written + f->out.n > RECORD_BYTES_MOST) {
        return "it has reached RECORD_BYTES_MOST";
    }
    while (at < f->out.n) {
        ssize_t n = write(f->fd, f->out.text + at, f->out.n - at);

        if (n < 0 && errno != EINTR) {
            return strerror(errno);
        }
        at += n > 0 ? (size_t)n : 0;
    }
    f->n_written += f->out.n;
    return NULL;
}

/* Takes the lines that have come.  Returns false if none will come. */
static bool take(struct record_file *f)
{
    struct record_buffer full;

    pthread_mutex_lock(&f->lock);
    while (f->in.n == 0 && !f->stop) {
        pthread_cond_wait(&f->wake, &f->lock);
    }
    full = f->in;
    f->in = f->out;
    f->in.n = 0;
    f->out = full;
    pthread_mutex_unlock(&f->lock);
    return full.n > 0;
}

static void end(struct record_file *f, const char *why)
{
    log_warn("record-ended", "file=\"%s\" bytes=%llu why=\"%s\"", f->path,
             (unsigned long long)f->n_written, why);
    pthread_mutex_lock(&f->lock);
    f->ended = true;
    pthread_mutex_unlock(&f->lock);
}

/* Ends with the first error: half of a line may be in the file, and what came
 * after it could not be read. */
static void *run(void *arg)
{
    struct record_file *f = arg;

    while (take(f)) {
        const char *why = write_out(f);

        if (why != NULL) {
            end(f, why);
            break;
        }
    }
    return NULL;
}

/* Moves an earlier recording away.  Devices and pipes stay. */
static void keep_old(const char *path)
{
    struct stat st;
    char old[4096];

    if (lstat(path, &st) == 0 && S_ISREG(st.st_mode) &&
        snprintf(old, sizeof old, "%s.old", path) < (int)sizeof old) {
        (void)rename(path, old);
    }
}

/* A symbolic link is followed, as for --log-file: its folder belongs to the
 * operator.  The mode counts only for a file that is new, and keep_old() has
 * moved the earlier one away. */
static enum status start(struct record_file *f, struct error *e)
{
    f->fd = open(f->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY,
                 0600);
    if (f->fd < 0) {
        return error_set(e, ST_UNAVAILABLE, "--record %s: %s", f->path,
                         strerror(errno));
    }
    f->in.text = malloc(RECORD_BUFFER_BYTES);
    f->out.text = malloc(RECORD_BUFFER_BYTES);
    f->has_thread = f->in.text != NULL && f->out.text != NULL &&
                    pthread_create(&f->thread, NULL, run, f) == 0;
    return f->has_thread ? ST_OK
                         : error_set(e, ST_RESOURCE_EXHAUSTED,
                                     "--record: no memory or no thread");
}

enum status record_file_new(struct record_file **out, const char *path,
                            struct error *e)
{
    struct record_file *f = calloc(1, sizeof *f);
    enum status st;

    *out = f;
    if (f == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "--record: no memory");
    }
    f->sink.put = put;
    f->path = path;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->wake, NULL);
    keep_old(path);
    st = start(f, e);
    if (st != ST_OK) {
        record_file_free(out);
    }
    return st;
}

void record_file_free(struct record_file **pf)
{
    struct record_file *f = *pf;

    *pf = NULL;
    if (f == NULL) {
        return;
    }
    if (f->has_thread) {
        pthread_mutex_lock(&f->lock);
        f->stop = true;
        pthread_cond_signal(&f->wake);
        pthread_mutex_unlock(&f->lock);
        pthread_join(f->thread, NULL);
    }
    if (f->fd >= 0) {
        close(f->fd);
    }
    free(f->in.text);
    free(f->out.text);
    pthread_cond_destroy(&f->wake);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

struct record_sink *record_file_sink(struct record_file *f)
{
    return &f->sink;
}
