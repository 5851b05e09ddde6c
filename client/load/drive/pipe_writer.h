/* pipe_writer.h - Records for another process, through a pipe that never
 * blocks the writer.
 *
 * A record is a struct pipe_record and `size` bytes, a multiple of 8.
 *
 * Threading: one thread.  Memory: blocks of PIPE_BLOCK bytes, at most
 * bytes_max; they are reused. */
#ifndef CLIENT_LOAD_DRIVE_PIPE_WRITER_H
#define CLIENT_LOAD_DRIVE_PIPE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PIPE_BLOCK (64u << 10)

struct pipe_record {
    uint32_t kind, size;
};

struct pipe_block {
    struct pipe_block *next;
    size_t n;
    char bytes[PIPE_BLOCK];
};

struct pipe_writer {
    int fd;
    size_t bytes_max, n;             /* n: bytes that wait */
    size_t written;                  /* bytes of the first block */
    struct pipe_block *first, *last; /* NULL if nothing waits */
    struct pipe_block *spare;
    bool full;   /* a record did not fit: it and later ones are dropped */
    bool broken; /* the reader is gone */
};

void pipe_writer_init(struct pipe_writer *w, int fd, size_t bytes_max);
void pipe_writer_fini(struct pipe_writer *w);

/* Adds a record of two parts, the second may be empty.  A record that does not
 * fit within bytes_max is dropped, with all that follow. */
void pipe_writer_add(struct pipe_writer *w, uint32_t kind, const void *a,
                     size_t n_a, const void *b, size_t n_b);

/* Writes what the pipe takes now.  fd must be non-blocking. */
void pipe_writer_flush(struct pipe_writer *w);

#endif
