/* virtual_target.h - A server in virtual time with known delays.
 *
 * Request `number` has its first token virtual_first_us() after its start, then
 * a token each chunk_us.  In a stall nothing goes on: requests that come in it
 * begin at its end, open ones are late by its length.
 *
 * Everything is a function of the seed and the request's number. */
#ifndef TESTS_UNIT_CLIENT_LOAD_DRIVE_VIRTUAL_TARGET_H
#define TESTS_UNIT_CLIENT_LOAD_DRIVE_VIRTUAL_TARGET_H

#include "client/load/drive/target.h"

struct virtual_rules {
    uint64_t seed;
    int64_t first_min_us, first_max_us; /* uniform */
    uint32_t n_chunks;                  /* each of one token */
    int64_t chunk_us;
    int64_t stall_from_us, stall_us; /* monotonic; 0: none */
    /* Shares of the requests. */
    double unmakeable; /* prepare() returns NULL */
    double refused;    /* on_end within start() */
    double broken;     /* fails after its first token */
    double deaf;       /* goes on when given up */
    size_t call_bytes; /* reported by prepare() for each prompt token */
    bool uneven;       /* ... times 1..10, as drawn */
    bool sends_ids;
};

struct virtual_counts {
    uint64_t n_prepared, n_dropped, n_started, n_ended, n_given_up;
    size_t bytes, bytes_peak; /* prepared, not started */
};

struct target *virtual_new(const struct virtual_rules *r);
void virtual_free(struct target **t);
struct virtual_counts virtual_counts(const struct target *t);
int64_t virtual_first_us(const struct virtual_rules *r, uint64_t number);

/* When the next bytes come, monotonic; INT64_MAX: none. */
int64_t virtual_due(const struct target *t);

/* Delivers what has come; it is read at now_us. */
void virtual_run(struct target *t, int64_t now_us);

extern const struct target_ops virtual_target;

#endif
