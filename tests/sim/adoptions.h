/* adoptions.h - Sequences that outlive a session: reported, adopted and
 * disowned.
 *
 * Counts adoptions, both on the wire and in the workers' counters.  Checks that
 * the router disowns a reported sequence in the same session if the sequence
 * runs elsewhere. */
#ifndef SIM_ADOPTIONS_H
#define SIM_ADOPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "proto/registry.pb-c.h"
#include "proto/worker.pb-c.h"

#define ADOPTIONS_SEEN 256 /* newest unanswered Submits */
#define UNWANTED_SEEN  512 /* newest sequences to be disowned */

struct sim;

struct adoption_seen {
    uint64_t call; /* 0: none */
    uint32_t conn;
    int state; /* protocol state of the sequence when the Submit arrived */
    bool logprobs, penalties;
};

struct unwanted_seen {
    uint32_t conn; /* 0: none */
    uint32_t choice;
    uint8_t id[16];
};

/* Counters of a worker at the last look. */
struct orphans_seen {
    uint32_t life;
    uint64_t expired, disowned;
};

struct adoptions {
    struct adoption_seen seen[ADOPTIONS_SEEN];
    struct unwanted_seen unwanted[UNWANTED_SEEN];
    uint32_t next, next_unwanted;
};

/* Inspect messages before they are delivered. */
void adoptions_live(struct sim *s, uint32_t conn,
                    const Sluice__V1__LiveMessage *m);
void adoptions_submit(struct sim *s, uint32_t conn, uint64_t call,
                      const Sluice__V1__SubmitRequest *m);
void adoptions_answer(struct sim *s, uint32_t conn, uint64_t call,
                      enum status status);
void adoptions_disown(struct sim *s, uint32_t conn,
                      const Sluice__V1__DisownMessage *m);

/* Counts adoptions after a tick of worker w. */
void adoptions_count(struct sim *s, uint32_t w);

/* Checks, once the cluster is idle, that nothing remains to be disowned. */
void adoptions_end(struct sim *s);

#endif
