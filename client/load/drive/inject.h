/* inject.h - Which requests are cancelled, disconnected or read slowly, and
 * when.
 *
 * The kind is a function of the seed and the request's number, so every run
 * with that seed injects into the same requests.  The moment is drawn too: half
 * of them uniformly over the time that similar requests took, half after a
 * number of chunks.  Similar: max_tokens in the same power of two.
 *
 * Threading: none.  Memory: no pointers.  Pure. */
#ifndef CLIENT_LOAD_DRIVE_INJECT_H
#define CLIENT_LOAD_DRIVE_INJECT_H

#include <stdint.h>

enum inject_kind { INJECT_NONE, INJECT_CANCEL, INJECT_DISCONNECT, INJECT_SLOW };

#define INJECT_CLASSES      33
#define INJECT_EVENTS_FIRST 16 /* chunks to draw from before any has ended */

/* Running means of requests that ended OK. */
struct inject_class {
    double us, events;
    uint64_t n;
};

struct inject {
    double cancel, disconnect, slow; /* shares of the requests */
    uint64_t seed;
    struct inject_class classes[INJECT_CLASSES];
};

struct inject_moment {
    int64_t after_us;      /* from its send; INT64_MAX: by chunks */
    uint32_t after_events; /* UINT32_MAX: by time */
};

void inject_init(struct inject *in, double cancel, double disconnect,
                 double slow, uint64_t seed);
enum inject_kind inject_kind_of(const struct inject *in, uint64_t number);
struct inject_moment inject_moment_of(const struct inject *in, uint64_t number,
                                      uint32_t max_tokens);

/* Takes the time and chunks of a request that ended OK. */
void inject_learn(struct inject *in, uint32_t max_tokens, int64_t took_us,
                  uint32_t n_events);

#endif
