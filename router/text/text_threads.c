#include "router/text/text_threads.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "text/detokenizer.h"
#include "text/tokenizer.h"

/* A FIFO ring.  n_open bounds all jobs, so neither queue can overflow. */
struct job_queue {
    struct text_job *ring[TEXT_QUEUE_MAX];
    uint32_t first, n;
};

struct text_threads {
    struct text_seam seam;
    const struct text_model *models;
    uint32_t n_models;
    pthread_t threads[TEXT_THREADS_MAX];
    unsigned n_threads;
    int fd;

    pthread_mutex_t lock; /* guards all fields below */
    pthread_cond_t wake;
    struct job_queue waiting, done;
    uint32_t n_open; /* submitted and not yet polled */
    bool stopping;
};

static void queue_put(struct job_queue *queue, struct text_job *j)
{
    assert(queue->n < TEXT_QUEUE_MAX);
    queue->ring[(queue->first + queue->n++) % TEXT_QUEUE_MAX] = j;
}

static struct text_job *queue_take(struct job_queue *queue)
{
    struct text_job *j;

    if (queue->n == 0) {
        return NULL;
    }
    j = queue->ring[queue->first];
    queue->first = (queue->first + 1) % TEXT_QUEUE_MAX;
    queue->n--;
    return j;
}

static struct text_threads *threads_of(struct text_seam *s)
{
    return (struct text_threads *)s; /* seam is the first member */
}

static enum status no_memory(struct text_job *j)
{
    return error_set(&j->error, ST_RESOURCE_EXHAUSTED,
                     "no memory for a text of %zu bytes or %zu ids", j->n_text,
                     j->n_ids);
}

static enum status encode(const struct tokenizer *t, struct text_job *j)
{
    unsigned flags =
        TOKENIZE_ADD_SPECIAL | (j->parse_special ? TOKENIZE_PARSE_SPECIAL : 0);
    size_t cap = tokenizer_bound(t, j->n_text);

    j->ids = malloc((cap > 0 ? cap : 1) * sizeof *j->ids);
    if (j->ids == NULL) {
        return no_memory(j);
    }
    return tokenizer_encode(t, j->text, j->n_text, flags, j->ids, cap,
                            &j->n_ids, &j->error);
}

static enum status decode(const struct tokenizer *t, struct text_job *j)
{
    struct detokenizer d;
    size_t most = detokenizer_max(t), n = 0, cap = most;
    char *text;

    /* Two passes over the ids: the sum of their lengths is usually far below
     * n_ids times the longest token.  All ids are checked before any text is
     * made. */
    for (size_t i = 0; i < j->n_ids; i++) {
        size_t bytes = 0;

        if (tokenizer_token(t, j->ids[i], &bytes) == NULL) {
            return error_set(&j->error, ST_INVALID_ARGUMENT,
                             "ids[%zu] is %u, which is not a token of the "
                             "vocabulary",
                             i, j->ids[i]);
        }
        cap += 3 * bytes; /* an invalid byte becomes U+FFFD, 3 bytes */
    }
    /* Every push may write up to `most` bytes from its start. */
    text = malloc(cap + most);
    if (text == NULL) {
        return no_memory(j);
    }
    detokenizer_init(&d, t, 0);
    for (size_t i = 0; i < j->n_ids; i++) {
        n += detokenizer_push(&d, j->ids[i], text + n);
    }
    n += detokenizer_finish(&d, text + n);
    assert(n <= cap + most);
    free(j->text);
    j->text = text;
    j->n_text = n;
    return ST_OK;
}

static void run_job(const struct text_threads *t, struct text_job *j)
{
    const struct tokenizer *tokenizer = t->models[j->model].tokenizer;

    j->status =
        j->kind == TEXT_ENCODE ? encode(tokenizer, j) : decode(tokenizer, j);
}

/* A stop does not wait for the queue: text_threads_free() frees what is left.
 */
static void *thread_main(void *arg)
{
    static const uint64_t one = 1;
    struct text_threads *t = arg;
    struct text_job *j;

    pthread_mutex_lock(&t->lock);
    while (!t->stopping) {
        j = queue_take(&t->waiting);
        if (j == NULL) {
            pthread_cond_wait(&t->wake, &t->lock);
            continue;
        }
        /* Jobs run without the lock: each belongs to one thread here. */
        pthread_mutex_unlock(&t->lock);
        run_job(t, j);
        pthread_mutex_lock(&t->lock);
        queue_put(&t->done, j);
        if (write(t->fd, &one, sizeof one) != sizeof one) {
            /* The counter is full, so the descriptor is readable already. */
            continue;
        }
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

static enum status seam_submit(struct text_seam *s, struct text_job **j)
{
    struct text_threads *t = threads_of(s);
    enum status st = ST_RESOURCE_EXHAUSTED;

    assert((*j)->model < t->n_models);
    pthread_mutex_lock(&t->lock);
    /* Open jobs count until they are polled, so that a core which does not poll
     * is pushed back too. */
    if (t->n_open < TEXT_QUEUE_MAX) {
        t->n_open++;
        queue_put(&t->waiting, *j);
        *j = NULL;
        pthread_cond_signal(&t->wake);
        st = ST_OK;
    }
    pthread_mutex_unlock(&t->lock);
    return st;
}

/* The eventfd only wakes the core; poll() may be called without it. */
static struct text_job *seam_poll(struct text_seam *s)
{
    struct text_threads *t = threads_of(s);
    struct text_job *j;

    pthread_mutex_lock(&t->lock);
    j = queue_take(&t->done);
    t->n_open -= j != NULL;
    pthread_mutex_unlock(&t->lock);
    return j;
}

static bool seam_find(struct text_seam *s, const char *name, size_t n,
                      uint32_t *model)
{
    const struct text_threads *t = threads_of(s);

    for (uint32_t i = 0; i < t->n_models; i++) {
        if (strlen(t->models[i].name) == n &&
            memcmp(t->models[i].name, name, n) == 0) {
            *model = i;
            return true;
        }
    }
    return false;
}

static const struct tokenizer *seam_tokenizer(struct text_seam *s,
                                              uint32_t model)
{
    return threads_of(s)->models[model].tokenizer;
}

static const uint8_t *seam_hash(struct text_seam *s, uint32_t model)
{
    return tokenizer_hash(threads_of(s)->models[model].tokenizer);
}

static const struct text_seam_ops seam_ops = {
    .submit = seam_submit,
    .poll = seam_poll,
    .find = seam_find,
    .tokenizer = seam_tokenizer,
    .hash = seam_hash,
};

enum status text_threads_new(struct text_threads **out,
                             const struct text_model *models, uint32_t n_models,
                             unsigned n_threads, struct error *e)
{
    struct text_threads *t = calloc(1, sizeof *t);
    int rc = 0;

    assert(t != NULL && n_threads > 0 && n_threads <= TEXT_THREADS_MAX);
    t->seam.ops = &seam_ops;
    t->models = models;
    t->n_models = n_models;
    t->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    for (unsigned i = 0; t->fd >= 0 && rc == 0 && i < n_threads; i++) {
        rc = pthread_create(&t->threads[i], NULL, thread_main, t);
        t->n_threads += rc == 0;
    }
    if (t->fd < 0 || rc != 0) {
        text_threads_free(&t);
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "start %u text threads: no resources left; lower "
                         "--text-threads",
                         n_threads);
    }
    *out = t;
    return ST_OK;
}

static void queue_drop(struct job_queue *queue)
{
    struct text_job *j;

    while ((j = queue_take(queue)) != NULL) {
        text_job_free(&j);
    }
}

void text_threads_free(struct text_threads **pt)
{
    struct text_threads *t = *pt;

    if (t == NULL) {
        return;
    }
    pthread_mutex_lock(&t->lock);
    t->stopping = true;
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
    for (unsigned i = 0; i < t->n_threads; i++) {
        pthread_join(t->threads[i], NULL);
    }
    queue_drop(&t->waiting);
    queue_drop(&t->done);
    if (t->fd >= 0) {
        close(t->fd);
    }
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
    free(t);
    *pt = NULL;
}

struct text_seam *text_threads_seam(struct text_threads *t)
{
    return &t->seam;
}

int text_threads_fd(const struct text_threads *t)
{
    return t->fd;
}

void text_threads_quiet(struct text_threads *t)
{
    uint64_t n;

    while (read(t->fd, &n, sizeof n) == sizeof n) {
    }
}
