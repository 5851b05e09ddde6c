/* flight.h - The record of one request, from its due time to its sample.
 *
 * Gaps: the times between chunks.  Beyond FLIGHT_GAPS_MAX of them, the last
 * one kept is the longest of the rest, so the longest pause is exact and
 * n_events counts all.
 *
 * output_hash: XXH64 of the ids (32-bit, host order) if any came, otherwise of
 * the text's bytes; 0 without output.  The cuts between chunks do not matter.
 *
 * Threading: none.  Memory: the gaps and the output; buffers are reused. */
#ifndef CLIENT_LOAD_DRIVE_FLIGHT_H
#define CLIENT_LOAD_DRIVE_FLIGHT_H

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "client/load/drive/target.h"

#define FLIGHT_GAPS_MAX    65536
#define FLIGHT_GAPS_KEPT   1024    /* a larger buffer is not reused */
#define FLIGHT_OUTPUT_MAX  4194304 /* bytes of text */
#define FLIGHT_OUTPUT_KEPT 65536   /* a larger buffer is not reused */

struct flight {
    struct sample sample;
    uint32_t *gaps; /* [gaps_size] */
    uint32_t gaps_size;
    bool has_ids, has_text;
    char *output; /* [n_output], by flight_keep() */
    size_t n_output, output_size;
    XXH64_state_t ids, text;
};

/* Begins the record of a request that is due at due_us.  All zeros is a valid
 * record before.  The caller sets the fields that identify the request. */
void flight_begin(struct flight *f, int64_t due_us);

/* Notes a chunk of n tokens. */
void flight_output(struct flight *f, int64_t at_us, uint32_t n);
void flight_hash(struct flight *f, const uint32_t *ids, size_t n_ids,
                 const char *text, size_t n_text);

/* Keeps text of the output, to count its tokens at the end; a longer one than
 * FLIGHT_OUTPUT_MAX is dropped. */
void flight_keep(struct flight *f, const char *text, size_t n);

/* Completes the sample.  The server's counts replace ours if it has them. */
void flight_end(struct flight *f, int64_t at_us, const struct call_end *end);

/* Gives back a large buffer.  The record can begin again. */
void flight_clear(struct flight *f);
void flight_fini(struct flight *f);

#endif
