#include "client/load/drive/pipe_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/memory.h"

void pipe_writer_init(struct pipe_writer *w, int fd, size_t bytes_max)
{
    *w = (struct pipe_writer){.fd = fd, .bytes_max = bytes_max};
}

static void free_blocks(struct pipe_block *b)
{
    while (b != NULL) {
        struct pipe_block *next = b->next;

        free(b);
        b = next;
    }
}

void pipe_writer_fini(struct pipe_writer *w)
{
    free_blocks(w->first);
    free_blocks(w->spare);
    *w = (struct pipe_writer){.fd = -1};
}

static void block_add(struct pipe_writer *w)
{
    struct pipe_block *b = w->spare;

    if (b != NULL) {
        w->spare = b->next;
    } else {
        b = memory_must(malloc(sizeof *b));
    }
    b->next = NULL;
    b->n = 0;
    if (w->last != NULL) {
        w->last->next = b;
    } else {
        w->first = b;
    }
    w->last = b;
}

static void append(struct pipe_writer *w, const void *from, size_t n)
{
    const char *bytes = from;

    while (n > 0) {
        size_t part;

        if (w->last == NULL || w->last->n == PIPE_BLOCK) {
            block_add(w);
        }
        part = PIPE_BLOCK - w->last->n < n ? PIPE_BLOCK - w->last->n : n;
        memcpy(w->last->bytes + w->last->n, bytes, part);
        w->last->n += part;
        w->n += part;
        bytes += part;
        n -= part;
    }
}

void pipe_writer_add(struct pipe_writer *w, uint32_t kind, const void *a,
                     size_t n_a, const void *b, size_t n_b)
{
    static const char zeros[8];
    size_t pad = (8 - (n_a + n_b) % 8) % 8;
    struct pipe_record head = {kind, (uint32_t)(n_a + n_b + pad)};

    if (w->full || w->n + sizeof head + head.size > w->bytes_max) {
        w->full = true;
        return;
    }
    append(w, &head, sizeof head);
    append(w, a, n_a);
    append(w, b, n_b);
    append(w, zeros, pad);
}

static void first_done(struct pipe_writer *w)
{
    struct pipe_block *b = w->first;

    w->first = b->next;
    w->last = w->first == NULL ? NULL : w->last;
    w->written = 0;
    b->next = w->spare;
    w->spare = b;
}

void pipe_writer_flush(struct pipe_writer *w)
{
    while (w->first != NULL && !w->broken) {
        ssize_t n = write(w->fd, w->first->bytes + w->written,
                          w->first->n - w->written);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            w->broken = errno != EAGAIN;
            return;
        }
        w->written += (size_t)n;
        w->n -= (size_t)n;
        if (w->written == w->first->n) {
            first_done(w);
        }
    }
}
