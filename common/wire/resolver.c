#include "common/wire/resolver.h"

#include <assert.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define HOST_BYTES (ENDPOINT_NAME_MAX + 2) /* a final dot, and a NUL */

enum state { FREE, WAITING, ANSWERED };

struct query {
    enum state state;
    uint32_t id;
    uint64_t order; /* of the asks */
    char host[HOST_BYTES];
    struct resolver_answer answer;
};

/* Shared with the threads.  The last one to leave frees it: a thread that hangs
 * in a lookup cannot be ended. */
struct resolver {
    pthread_mutex_t lock;
    int fd;
    bool closed; /* the owner has left, and fd is closed */
    unsigned n_threads;
    uint64_t n_asked;
    resolver_lookup_fn *lookup;
    void *arg;
    struct query queries[RESOLVER_QUERIES];
    char running[RESOLVER_THREADS][HOST_BYTES]; /* names; "": no lookup */
};

/* ---- one lookup ---- */

static void add_address(struct resolver_answer *out, const struct addrinfo *a)
{
    char *text = out->addresses[out->n];

    if (out->n < RESOLVER_ADDRESSES &&
        getnameinfo(a->ai_addr, a->ai_addrlen, text, RESOLVER_TEXT, NULL, 0,
                    NI_NUMERICHOST) == 0) {
        out->n++;
    }
}

/* AI_ADDRCONFIG is not set: it would hide addresses from a host that has no
 * other interface than loopback yet, and those that cannot be reached are last
 * in the list anyway (RFC 6724). */
static void lookup_name(void *arg, const char *host,
                        struct resolver_answer *out)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int rc = getaddrinfo(host, NULL, &hints, &list);

    (void)arg;
    out->n = 0;
    for (const struct addrinfo *a = list; rc == 0 && a != NULL;
         a = a->ai_next) {
        add_address(out, a);
    }
    snprintf(out->why, sizeof out->why, "%s",
             rc != 0 ? gai_strerror(rc) : "the name has no address");
    if (rc == 0) {
        freeaddrinfo(list);
    }
}

/* ---- the threads ---- */

static bool is_running(const struct resolver *r, const char *host)
{
    for (int i = 0; i < RESOLVER_THREADS; i++) {
        if (strcmp(r->running[i], host) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns the oldest query whose name is in no lookup, NULL if there is none.
 */
static const struct query *next_query(const struct resolver *r)
{
    const struct query *oldest = NULL;

    for (int i = 0; i < RESOLVER_QUERIES; i++) {
        const struct query *q = &r->queries[i];

        if (q->state == WAITING && !is_running(r, q->host) &&
            (oldest == NULL || q->order < oldest->order)) {
            oldest = q;
        }
    }
    return oldest;
}

static void wake(const struct resolver *r)
{
    ssize_t n = write(r->fd, &(uint64_t){1}, sizeof(uint64_t));

    assert(n == sizeof(uint64_t));
    (void)n;
}

/* Gives the answer to all queries of the name. */
static void answer_all(struct resolver *r, const char *host,
                       const struct resolver_answer *answer)
{
    bool found = false;

    for (int i = 0; i < RESOLVER_QUERIES; i++) {
        struct query *q = &r->queries[i];

        if (q->state == WAITING && strcmp(q->host, host) == 0) {
            q->answer = *answer;
            q->answer.id = q->id;
            q->state = ANSWERED;
            found = true;
        }
    }
    if (found && !r->closed) {
        wake(r);
    }
}

static char *take_place(struct resolver *r)
{
    int i = 0;

    while (r->running[i][0] != '\0') {
        i++;
        assert(i < RESOLVER_THREADS);
    }
    return r->running[i];
}

/* Runs one lookup without the lock.  Returns false if there is none to run. */
static bool run_lookup(struct resolver *r)
{
    const struct query *q = r->closed ? NULL : next_query(r);
    struct resolver_answer answer = {.n = 0};
    char *host;

    if (q == NULL) {
        return false;
    }
    host = take_place(r);
    snprintf(host, HOST_BYTES, "%s", q->host);
    pthread_mutex_unlock(&r->lock);
    r->lookup(r->arg, host, &answer);
    pthread_mutex_lock(&r->lock);
    answer_all(r, host, &answer);
    host[0] = '\0';
    return true;
}

/* Unlocks.  Frees r if no thread is left and the owner has left too. */
static void leave(struct resolver *r)
{
    bool last = r->closed && r->n_threads == 0;

    pthread_mutex_unlock(&r->lock);
    if (last) {
        pthread_mutex_destroy(&r->lock);
        free(r);
    }
}

static void *thread_main(void *arg)
{
    struct resolver *r = arg;

    pthread_mutex_lock(&r->lock);
    while (run_lookup(r)) {
    }
    r->n_threads--;
    leave(r);
    return NULL;
}

/* Starts a detached thread that takes no signal of the program. */
static bool start_thread(struct resolver *r)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&thread, &attr, thread_main, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return rc == 0;
}

/* Starts a thread for a new query, unless one of those that run will take it. A
 * query that no thread can take is answered at once. */
static void serve(struct resolver *r, const char *host)
{
    struct resolver_answer none = {.why = "no thread can be started"};

    if (is_running(r, host) || r->n_threads == RESOLVER_THREADS) {
        return;
    }
    r->n_threads++;
    if (!start_thread(r)) {
        r->n_threads--;
        if (r->n_threads == 0) {
            answer_all(r, host, &none);
        }
    }
}

/* ---- the owner ---- */

enum status resolver_new(struct resolver **out, resolver_lookup_fn *lookup,
                         void *arg, struct error *e)
{
    struct resolver *r = calloc(1, sizeof *r);

    if (r != NULL) {
        r->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    }
    if (r == NULL || r->fd < 0) {
        free(r);
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "no memory or no file descriptor is left for the "
                         "resolver (see ulimit -n)");
    }
    pthread_mutex_init(&r->lock, NULL);
    r->lookup = lookup != NULL ? lookup : lookup_name;
    r->arg = arg;
    *out = r;
    return ST_OK;
}

void resolver_free(struct resolver **pr)
{
    struct resolver *r = *pr;

    *pr = NULL;
    if (r != NULL) {
        pthread_mutex_lock(&r->lock);
        close(r->fd);
        r->closed = true;
        leave(r);
    }
}

int resolver_fd(const struct resolver *r)
{
    return r->fd;
}

static struct query *find(struct resolver *r, enum state state)
{
    for (int i = 0; i < RESOLVER_QUERIES; i++) {
        if (r->queries[i].state == state) {
            return &r->queries[i];
        }
    }
    return NULL;
}

bool resolver_ask(struct resolver *r, uint32_t id, const char *host)
{
    struct query *q;

    if (strlen(host) >= HOST_BYTES) {
        return false;
    }
    pthread_mutex_lock(&r->lock);
    q = find(r, FREE);
    if (q != NULL) {
        q->state = WAITING;
        q->id = id;
        q->order = ++r->n_asked;
        snprintf(q->host, sizeof q->host, "%s", host);
        serve(r, host);
    }
    pthread_mutex_unlock(&r->lock);
    return q != NULL;
}

void resolver_cancel(struct resolver *r, uint32_t id)
{
    pthread_mutex_lock(&r->lock);
    for (int i = 0; i < RESOLVER_QUERIES; i++) {
        struct query *q = &r->queries[i];

        if (q->state != FREE && q->id == id) {
            q->state = FREE;
        }
    }
    pthread_mutex_unlock(&r->lock);
}

/* The descriptor is quiet after the last answer.  Threads write it under the
 * lock, so no answer is missed. */
bool resolver_take(struct resolver *r, struct resolver_answer *out)
{
    uint64_t n;
    struct query *q;

    pthread_mutex_lock(&r->lock);
    q = find(r, ANSWERED);
    if (q != NULL) {
        *out = q->answer;
        q->state = FREE;
    }
    if (find(r, ANSWERED) == NULL) {
        (void)!read(r->fd, &n, sizeof n);
    }
    pthread_mutex_unlock(&r->lock);
    return q != NULL;
}
