/* adoptions.h - what outlives a session, as it is told, adopted and disowned
 * on the wire and as the workers count it.
 *
 * What a worker tells of that runs elsewhere must be disowned in the same
 * session. */
#ifndef SIM_ADOPTIONS_H
#define SIM_ADOPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "proto/registry.pb-c.h"
#include "proto/worker.pb-c.h"

#define ADOPTIONS_SEEN 256 /* Submits not answered, the newest */
#define UNWANTED_SEEN  512 /* to be disowned, the newest */

struct sim;

struct adoption_seen {
    uint64_t call; /* 0: none */
    uint32_t conn;
    int state; /* proto's, of the sequence when the Submit came */
    bool logprobs, penalties;
};

struct unwanted_seen {
    uint32_t conn; /* 0: none */
    uint32_t choice;
    uint8_t id[16];
};

/* What a worker's counters were. */
struct orphans_seen {
    uint32_t life;
    uint64_t expired, disowned;
};

struct adoptions {
    struct adoption_seen seen[ADOPTIONS_SEEN];
    struct unwanted_seen unwanted[UNWANTED_SEEN];
    uint32_t next, next_unwanted;
};

/* Read along, before it is delivered. */
void adoptions_live(struct sim *s, uint32_t conn,
                    const Sluice__V1__LiveMessage *m);
void adoptions_submit(struct sim *s, uint32_t conn, uint64_t call,
                      const Sluice__V1__SubmitRequest *m);
void adoptions_answer(struct sim *s, uint32_t conn, uint64_t call,
                      enum status status);
void adoptions_disown(struct sim *s, uint32_t conn,
                      const Sluice__V1__DisownMessage *m);

/* After a tick of worker w. */
void adoptions_count(struct sim *s, uint32_t w);

/* When all is quiet. */
void adoptions_end(struct sim *s);

#endif
