#include "common/wire/frame_spare.h"

#include <pthread.h>
#include <stdlib.h>

#define CLASSES 12

_Static_assert(FRAME_SPARE_LEAST << (CLASSES - 1) == FRAME_SPARE_MOST,
               "a class for each power of two");

struct piece {
    struct piece *next;
};

static struct {
    pthread_mutex_t lock;
    struct piece *first[CLASSES];
    unsigned n[CLASSES];
} spare = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Returns the size class that holds this many bytes, CLASSES if none does. */
static unsigned class_of(size_t bytes)
{
    unsigned c = 0;

    while (c < CLASSES && (size_t)FRAME_SPARE_LEAST << c < bytes) {
        c++;
    }
    return c;
}

static unsigned most_of(unsigned c)
{
    unsigned fit = FRAME_SPARE_BYTES / (FRAME_SPARE_LEAST << c);

    return fit < FRAME_SPARE_MAX ? fit : FRAME_SPARE_MAX;
}

static struct piece *take(unsigned c)
{
    struct piece *p;

    pthread_mutex_lock(&spare.lock);
    p = spare.first[c];
    if (p != NULL) {
        spare.first[c] = p->next;
        spare.n[c]--;
    }
    pthread_mutex_unlock(&spare.lock);
    return p;
}

static bool give(struct piece *p, unsigned c)
{
    bool kept;

    pthread_mutex_lock(&spare.lock);
    kept = spare.n[c] < most_of(c);
    if (kept) {
        p->next = spare.first[c];
        spare.first[c] = p;
        spare.n[c]++;
    }
    pthread_mutex_unlock(&spare.lock);
    return kept;
}

void *spare_take(size_t bytes, size_t *room)
{
    unsigned c = FRAME_SPARE_KEEPS ? class_of(bytes) : CLASSES;
    void *p = c < CLASSES ? take(c) : NULL;

    /* The full class size, so that the piece fits any later request of its
     * class. */
    *room = c < CLASSES ? (size_t)FRAME_SPARE_LEAST << c : bytes;
    if (p == NULL) {
        p = malloc(*room);
    }
    return p;
}

void spare_give(void *memory, size_t room)
{
    unsigned c = FRAME_SPARE_KEEPS ? class_of(room) : CLASSES;

    if (memory != NULL && (c == CLASSES || !give(memory, c))) {
        free(memory);
    }
}
