/* faults.h - All that is wrong with a cluster file, each fault with its place.
 *
 * A reader adds every fault that it finds and continues, so that one run of
 * `sluicectl cluster check` lists all of them.
 *
 * Threading: none.  Memory: the caller's; texts are copied.  Limits:
 * FAULTS_MAX; further faults are counted only. */
#ifndef CLIENT_CLUSTER_FAULTS_H
#define CLIENT_CLUSTER_FAULTS_H

#include <stddef.h>
#include <stdint.h>

#define FAULTS_MAX 64
#define FAULT_TEXT 640

/* A place in the file, counted from 1; line 0: the file as a whole. */
struct place {
    unsigned line, column;
};

struct fault {
    struct place at;
    char text[FAULT_TEXT];
};

struct faults {
    struct fault item[FAULTS_MAX]; /* [n] */
    size_t n;
    size_t n_more; /* faults past FAULTS_MAX */
};

/* Adds a fault; a text that is too long is cut. */
void faults_add(struct faults *f, struct place at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Sorts by place; faults of one place keep their order. */
void faults_sort(struct faults *f);

/* Writes "FILE:LINE:COLUMN: TEXT", or "FILE: TEXT" for the file as a whole. */
#define FAULT_LINE (FAULT_TEXT + 512)
void faults_line(char out[FAULT_LINE], const char *file, const struct fault *f);

#endif
