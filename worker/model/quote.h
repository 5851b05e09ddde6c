/* quote.h - what a file said, made fit for a message.
 *
 * Names in model files are a stranger's bytes: they never reach a terminal
 * or a log as they are.
 *
 * Threading: none.  Memory: the caller's. */
#ifndef WORKER_MODEL_QUOTE_H
#define WORKER_MODEL_QUOTE_H

#define QUOTE_TEXT 100

struct quoted {
    char text[QUOTE_TEXT]; /* in double quotes */
};

/* s in double quotes, at most QUOTE_TEXT - 1 characters of printable ASCII:
 * other bytes become \xNN, and a long s ends in "...".  NULL gives (none). */
struct quoted quote(const char *s);

#endif
