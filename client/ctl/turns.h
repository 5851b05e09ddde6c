/* turns.h - texts that come mixed, shown one after the other.
 *
 * The choices of a generation come in any order, and a terminal has one
 * place.  The first text is shown as it comes; what comes of the others is
 * held back until those before it have ended, and then shown at once and
 * from there on as it comes.
 *
 * Threading: none.  Memory: what is held back, on the heap. */
#ifndef CLIENT_CTL_TURNS_H
#define CLIENT_CTL_TURNS_H

#include <stddef.h>
#include <stdint.h>

struct turns;

struct turns_ops {
    void (*begin)(void *arg, uint32_t i); /* before text i; may be NULL */
    void (*show)(void *arg, const char *text, size_t n);
    void (*end)(void *arg, uint32_t i); /* after text i; may be NULL */
};

/* Of n texts, 1 at least; begins the first. */
struct turns *turns_new(uint32_t n, const struct turns_ops *ops, void *arg);
void turns_free(struct turns **t);

/* More of text i; nothing more comes of it after turns_end(), which may be
 * said again. */
void turns_put(struct turns *t, uint32_t i, const char *text, size_t n);
void turns_end(struct turns *t, uint32_t i);

/* No more comes: end what has not ended. */
void turns_finish(struct turns *t);

#endif
