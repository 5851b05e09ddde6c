/* reference.h - Streams of the catalogue recorded on an undisturbed cluster,
 * and their comparison with streams of another one.
 *
 * A file of lines: "sluice-streams 1 LONGEST", then for each choice of each
 * entry its numbers, ids, a hash of the logprobs of each token, and its text
 * in hex.
 *
 * Threading: streams_read() and streams_write() one at a time; afterwards
 * constant.  A struct reading belongs to one thread.  Memory: the tables are
 * the caller's, their contents are on the heap until streams_free(). */
#ifndef TESTS_FAULTS_REFERENCE_H
#define TESTS_FAULTS_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lib/client.h"
#include "proto/common.pb-c.h"
#include "tests/faults/catalogue.h"

struct stream_of_choice {
    int finish, stop_string;
    uint32_t *tokens;   /* [n_tokens] */
    uint64_t *logprobs; /* [n_tokens] hashes; 0 without logprobs */
    size_t n_tokens, tokens_room;
    char *text; /* [n_text] */
    size_t n_text, text_room;
};

struct streams {
    struct stream_of_choice of[CATALOGUE][CATALOGUE_CHOICES];
};

MUST_CHECK enum status streams_read(struct streams *s, const char *path,
                                    uint32_t longest, struct error *e);
MUST_CHECK enum status streams_write(const struct streams *s,
                                     const struct entry *entries,
                                     const char *path, uint32_t longest,
                                     struct error *e);
void streams_free(struct streams *s);

/* Appends a chunk to a stream that is being recorded. */
void stream_append(struct stream_of_choice *to, const struct client_chunk *c);

/* Position in a stream that is being checked, and its differences. */
struct reading {
    size_t n_tokens, n_text;
    uint64_t lost, doubled, wrong; /* tokens; wrong: also texts and ends */
};

/* Checks a chunk; stops are the stop strings of the entry.  A cancelled stream
 * also receives the held text, which may be the beginning of a stop string. */
void reading_chunk(struct reading *r, const struct stream_of_choice *wanted,
                   const struct client_stop *stops,
                   const struct client_chunk *c);
/* Checks that no token of a completed stream is missing. */
void reading_end(struct reading *r, const struct stream_of_choice *wanted,
                 int finish, int stop_string);

#endif
