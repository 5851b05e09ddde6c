/* turns.h - Printing of interleaved texts one after the other.
 *
 * The choices of a request arrive interleaved, but a terminal shows one text
 * at a time.  The first text is shown as it arrives.  Pieces of a later text
 * are held until all texts before it have ended.  The held pieces are then
 * shown together, and the rest of that text as it arrives.
 *
 * Threading: none.  Memory: the held texts, on the heap; aborts without
 * memory. */
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

/* Creates turns for n texts, n >= 1, and begins text 0.  ops is borrowed. */
struct turns *turns_new(uint32_t n, const struct turns_ops *ops, void *arg);
void turns_free(struct turns **t);

/* Adds text[0..n) to text i.  Ignored after turns_end() of text i. */
void turns_put(struct turns *t, uint32_t i, const char *text, size_t n);

/* Ends text i; a second call has no effect. */
void turns_end(struct turns *t, uint32_t i);

/* Ends every text that has not ended. */
void turns_finish(struct turns *t);

#endif
