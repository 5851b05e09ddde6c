/* The heap of a process with threads that pass memory on. */
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/daemon/malloc_bounds.h"
#include "tests/unit/cmocka.h"

#define MIB  ((size_t)1 << 20)
#define OPEN 256  /* results that live at once, */
#define MOST 6000 /* and the bytes of the largest */

static bool taken; /* malloc has the bounds: no sanitizer replaces it */

static void needs_bounds(void)
{
    if (!taken) {
        skip();
    }
}

static size_t resident(void)
{
    unsigned long size = 0, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu %lu", &size, &pages), 2);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* ---- a thread that works for the main one ---- */

struct worker {
    pthread_t thread;
    sem_t asked, done;
    size_t bytes;
    void *result;
    bool stop;
};

/* As a prompt job: temporary buffers, and a result that outlives them. */
static void *work(void *arg)
{
    struct worker *w = arg;

    for (;;) {
        void *scratch[3];

        sem_wait(&w->asked);
        if (w->stop) {
            return NULL;
        }
        for (int i = 0; i < 3; i++) {
            scratch[i] = malloc(65600 + 7 * w->bytes);
            memset(scratch[i], 1, w->bytes);
        }
        w->result = malloc(w->bytes);
        for (int i = 0; i < 3; i++) {
            free(scratch[i]);
        }
        sem_post(&w->done);
    }
}

static void worker_init(struct worker *w)
{
    *w = (struct worker){.bytes = 0};
    sem_init(&w->asked, 0, 0);
    sem_init(&w->done, 0, 0);
    assert_int_equal(pthread_create(&w->thread, NULL, work, w), 0);
}

static void worker_fini(struct worker *w)
{
    w->stop = true;
    sem_post(&w->asked);
    pthread_join(w->thread, NULL);
    sem_destroy(&w->asked);
    sem_destroy(&w->done);
}

static void *ask(struct worker *w, size_t bytes)
{
    w->bytes = bytes;
    sem_post(&w->asked);
    sem_wait(&w->done);
    return w->result;
}

static unsigned draw(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 8;
}

/* Lets n results pass from two threads to this one, which frees each after some
 * others, in an order that is drawn. */
static void pass(struct worker w[2], void *open[OPEN], unsigned *seed, int n)
{
    for (int i = 0; i < n; i++) {
        unsigned at = draw(seed) % OPEN;

        free(open[at]);
        open[at] = ask(&w[i % 2], 16 + draw(seed) % MOST);
    }
}

/* Twice what is in use on average. */
static void what_threads_pass_on_does_not_grow_the_heap(void **state)
{
    void *open[OPEN] = {NULL};
    struct worker w[2];
    unsigned seed = 7;
    size_t heap;

    (void)state;
    needs_bounds();
    worker_init(&w[0]);
    worker_init(&w[1]);
    pass(w, open, &seed, 6000);
    heap = mallinfo2().arena;
    worker_fini(&w[0]);
    worker_fini(&w[1]);
    for (int i = 0; i < OPEN; i++) {
        free(open[i]);
    }
    assert_true(heap < 2 * OPEN * (MOST / 2)); /* by default 2.4 times */
}

static void threads_share_one_arena(void **state)
{
    struct worker w[4];
    char *text = NULL;
    size_t n = 0;
    FILE *f;

    (void)state;
    needs_bounds();
    for (int i = 0; i < 4; i++) {
        worker_init(&w[i]);
        free(ask(&w[i], 500));
    }
    f = open_memstream(&text, &n);
    assert_int_equal(malloc_info(0, f), 0);
    fclose(f);
    for (int i = 0; i < 4; i++) {
        worker_fini(&w[i]);
    }
    assert_non_null(strstr(text, "<heap nr=\"0\">"));
    assert_null(strstr(text, "<heap nr=\"1\">"));
    free(text);
}

/* By default malloc takes the second from the arena. */
static void large_pieces_always_come_from_the_kernel(void **state)
{
    (void)state;
    needs_bounds();
    for (int i = 0; i < 3; i++) {
        size_t before = mallinfo2().hblks;
        char *volatile p = malloc(MIB); /* else the compiler drops it */

        assert_int_equal(mallinfo2().hblks, before + 1);
        free(p);
        assert_int_equal(mallinfo2().hblks, before);
    }
}

static void a_trim_returns_what_a_burst_has_left(void **state)
{
    enum { PIECES = 32768 };
    static void *pieces[PIECES];
    size_t most, left;

    (void)state;
    needs_bounds();
    for (int i = 0; i < PIECES; i++) {
        pieces[i] = malloc(1024);
        memset(pieces[i], 1, 1024);
    }
    most = resident();
    for (int i = 0; i < PIECES - 1; i++) { /* the last keeps the end */
        free(pieces[i]);
    }
    assert_true(resident() + MIB > most);
    malloc_bounds_trim();
    left = resident();
    free(pieces[PIECES - 1]);
    assert_true(most - left > 24 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_pieces_always_come_from_the_kernel),
        cmocka_unit_test(threads_share_one_arena),
        cmocka_unit_test(what_threads_pass_on_does_not_grow_the_heap),
        cmocka_unit_test(a_trim_returns_what_a_burst_has_left),
    };

    taken = malloc_bounds_set();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
