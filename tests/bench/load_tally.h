/* load_tally.h - Counts and times of the streams of a load.
 *
 * A load keeps `streams` requests open, each restarted when it ends.  Figures
 * are taken in a window of `seconds`, which begins when every stream has had
 * its first text:
 *
 *     TTFT     from sending a request to its first text, for the requests that
 *              were sent in the window
 *     gap      between two texts of one request
 *     bytes    of text, which grow with tokens: all requests are greedy and
 *              have one prompt, so that their texts are equal
 *
 * A text that differs from the first complete one ends the program with exit
 * code 1, and so does one that does not spell the alphabet with `alphabet`.
 *
 * Threading: one thread.  Memory: 8 bytes per request of the window. */
#ifndef TESTS_BENCH_LOAD_TALLY_H
#define TESTS_BENCH_LOAD_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOAD_GAPS 256 /* bars of the histogram of gaps, eight a doubling */

struct load_options {
    const char *endpoint, *model;
    uint32_t streams, tokens, words; /* words of the prompt */
    uint32_t ramp; /* requests that may wait for their first text at first */
    uint32_t stalled, idle; /* connections beside the streams, HTTP only */
    double seconds;
    bool alphabet;
    int pid; /* process whose cost is measured, or 0 */
};

struct load_stream {
    double sent_at, last_at; /* last_at: of a text; 0: none yet */
    uint64_t hash;           /* this request's text */
    size_t n_text, in_window;
    bool live; /* had a text, in any request */
};

/* Cost of the process at one time. */
struct load_cost {
    double at, cpu_s, rss;
};

struct load_tally {
    const struct load_options *o;
    struct load_stream *streams; /* [o->streams] */
    uint32_t n_live;
    struct load_cost before, from, to; /* from.at: 0 before the window */
    uint64_t n_events, n_bytes;        /* in the window */
    uint32_t n_requests;               /* ended in the window */
    double *ttft;                      /* [n_ttft] of size, seconds */
    size_t n_ttft, size;
    uint64_t gaps[LOAD_GAPS]; /* microseconds, logarithmic */
    double gap_max;           /* seconds */
    bool has_text;            /* the next two are those of a complete text */
    uint64_t hash;
    size_t n_text;
    long n_prompt; /* tokens, as the server counts; 0: not reported */
};

/* Prepares the streams; o is borrowed. */
void tally_init(struct load_tally *t, const struct load_options *o);

/* Frees the streams. */
void tally_fini(struct load_tally *t);

/* Notes that a stream's request has been sent. */
void tally_send(struct load_tally *t, struct load_stream *s);

/* Adds text that a stream received; n may be 0. */
void tally_add(struct load_tally *t, struct load_stream *s, const char *text,
               size_t n);

/* Ends a stream's request and compares its text. */
void tally_end(struct load_tally *t, struct load_stream *s);

/* Returns whether the window is over. */
bool tally_is_over(struct load_tally *t);

/* Prints one line of JSON. */
void tally_print(const struct load_tally *t);

/* Writes the prompt of all requests, in words, to buf of cap bytes. */
void load_prompt(const struct load_options *o, char *buf, size_t cap);

/* Prints an error and ends the program with exit code 1. */
_Noreturn void load_die(const char *what, const char *why);

/* Run the load until its window is over. */
void http_load(const struct load_options *o, struct load_tally *t);
void native_load(const struct load_options *o, struct load_tally *t);

#endif
