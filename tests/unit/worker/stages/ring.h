/* ring.h - the other stages of a replica, played for the leader on the bench
 * (rig.h): one end that the leader connects to, one that connects to it, over
 * the same sessions and greeters as a stage has.
 *
 * What the leader sends waits in one queue.  ring_step() plays all stages for
 * the oldest message: a Forward becomes a Result, a Remove goes round.  On the
 * way everything is held against the contract: grants in order without gaps, no
 * row of what was not opened or is removed, positions without gaps, no more
 * microbatches under way than stages, ids complete before the row that samples.
 *
 * The leader's engine hides what it would have sampled in the hidden state of
 * the row's last token; that is where the tokens come from. */
#ifndef TESTS_UNIT_WORKER_RING_H
#define TESTS_UNIT_WORKER_RING_H

#include "common/wire/greeter.h"
#include "common/wire/session.h"
#include "proto/stage.pb-c.h"
#include "tests/unit/worker/rig.h"

#define RING_HIDDEN 4u /* floats a token */
#define RING_QUEUE  8192
#define RING_FRAMES 8192
#define RING_ROWS   16
#define RING_IDS    RIG_CONTEXT

/* A message of the leader. */
struct ring_said {
    enum method method;
    uint64_t grant; /* of Open, OpenPart, Remove */
    bool is_void;
    uint32_t n_ids; /* of Open, OpenPart */
    uint64_t step;  /* of Forward, with its rows */
    bool failed;
    uint32_t n_rows;
    uint64_t grants[RING_ROWS];
    uint32_t position[RING_ROWS], count[RING_ROWS], kind[RING_ROWS];
    uint32_t index[RING_ROWS], token[RING_ROWS];
};

/* What the stages know of a grant. */
struct ring_grant {
    bool opened, is_void, removed;
    uint32_t blocks, slots,
        checkpoints; /* of the first stage past the leader */
    uint32_t n_prompt, n_generated, next; /* the position */
    uint32_t ids[RING_IDS], n_ids;        /* the first of them */
    bool penalises;
    uint32_t width; /* of logprobs */
};

struct ring {
    struct rig *rig;
    uint32_t n_stages;
    struct node_io io;
    struct arena arena;
    struct greeter next;
    struct session before;
    struct peer *to_leader; /* of `before`, when it is up */
    uint64_t assembly, random;
    struct peer_id next_id, before_id;
    bool next_opening, before_opening;

    struct {
        struct peer_id from;
        struct frame *frame;
    } to_worker[RING_FRAMES], from_worker[RING_FRAMES];
    uint32_t n_to_worker, n_from_worker;

    struct ring_said said[RING_QUEUE]; /* all there ever was */
    uint32_t n_said, n_done;           /* those that went round */
    uint32_t n_forwards, n_results, most_under_way;
    uint64_t first_open, last_open;
    struct ring_grant grants[RIG_GRANTS];
    const char *fail_next; /* the next Forward fails at a stage with this */
};

/* A leader of n stages on a bench, assembled; o: NULL for the defaults. */
struct rig *ring_rig(uint32_t n_stages, const struct worker_options *o);
void ring_options(struct worker_options *o);
/* And the end of both. */
void ring_rig_free(struct rig **r);

/* Assemble them (again). */
void ring_assemble(struct ring *g);
/* The edge from the last stage breaks. */
void ring_cut(struct ring *g);

/* Play the oldest message of the leader's; false: there is none. */
bool ring_step(struct ring *g);
/* Until nothing is under way. */
void ring_run(struct ring *g);

/* The n-th message said, of all; fails if there are fewer. */
const struct ring_said *ring_said(const struct ring *g, uint32_t n);
/* Messages that wait. */
uint32_t ring_waiting(const struct ring *g);
/* How many Removes of a grant were sent. */
uint32_t ring_removes(const struct ring *g, uint64_t grant);

/* Say what one likes; then turn. */
void ring_say(struct ring *g, enum method m, const ProtobufCMessage *message);

/* Columns of a Result, to be changed before they are said. */
struct ring_result {
    Sluice__V1__StageResult m;
    uint32_t tokens[RING_ROWS], width[RING_ROWS];
    float logprobs[RING_ROWS * LOGPROB_VALUES_MAX];
    uint32_t top[RING_ROWS * LOGPROB_VALUES_MAX];
    uint32_t device_us[16];
};

/* The right one for the oldest message, which is a Forward and stays. */
void ring_result(const struct ring *g, struct ring_result *out);

/* Are all grants that were opened removed, once each? */
void ring_check_empty(const struct ring *g);

/* The same, and free the rig. */
void ring_rig_end(struct rig **r);

/* The call of this tag ended so, with a sentence that has text in it. */
void ring_check_refused(const struct rig *r, uint64_t tag, enum status status,
                        const char *text);

/* ---- for the rig ---- */

struct peer_id ring_open_to(struct ring *g);
bool ring_has(const struct ring *g, struct peer_id id);
void ring_take(struct ring *g, struct peer_id to, struct frame *f);
void ring_close(struct ring *g, struct peer_id who);
bool ring_deliver(struct ring *g);
void ring_fill_stages(const struct ring *g, const Sluice__V1__Need *need,
                      struct rig_stages *out);

#endif
