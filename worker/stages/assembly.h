/* assembly.h - This worker's place in a replica of several stages, and the
 * stream that it sends to the next stage: proto/README.md, "Shards".
 *
 *     NONE --Assemble--> JOINING --both edges are up--> UP
 *       ^                   |                           |
 *       |  EDGES_US passed, |                           | an edge ended, the
 *       |  call cancelled   |                           | stream is broken
 *       +-------------------+---------------------------+
 *            another Assemble, the end of the router's session
 *
 *     edge in    the previous stage connects here      common/wire/greeter.h
 *     edge out   this worker connects to the next one  common/wire/session.h
 *
 * In JOINING an edge may come and go: the worker retries the outgoing one until
 * EDGES_US have passed.  The router gives the leader no work before all stages
 * have reported UP.  From then on the end of an edge ends the assembly:
 * everything held is freed at once, or when the plan that names it returns, and
 * no sequence becomes an orphan.  The router is notified with Registry/Broken,
 * unless the router ended the assembly.
 *
 * Back-pressure: no sender waits for room, because the outgoing link is sized
 * for everything that may be under way.  That is at most n_stages tensors of
 * step_tokens rows of H float32, the ids of all sequences that the pool holds
 * (ASSEMBLY_ID_BYTES each), and what every link has.  A message that finds no
 * room breaks the assembly.
 *
 * Threading: the core's.  Memory: the struct's.  Limits: below. */
#ifndef WORKER_STAGES_ASSEMBLY_H
#define WORKER_STAGES_ASSEMBLY_H

#include "proto/limits.h"
#include "proto/stage.pb-c.h"
#include "worker/base/base.h"
#include "worker/sequence/sequence_table.h"

/* From Assemble until both edges are up.  Shorter than the router's timeout, so
 * that the stage's own error comes first. */
#define EDGES_US          5000000
#define ASSEMBLY_ID_BYTES 6 /* largest encoding of an id */

/* Logprobs of a Result: more drafts than fit are not requested. */
#define RESULT_VALUES_MAX (STEP_ROWS_MAX * (1 + TOP_LOGPROBS_MAX))

enum assembly_state {
    ASSEMBLY_NONE,
    ASSEMBLY_JOINING,
    ASSEMBLY_UP,
    ASSEMBLY_STATES
};

/* The member of an assembly: leader.h or stage.h.  `self` is its struct. */
struct member_ops {
    /* An Assemble came.  Returns false if memory runs out. */
    bool (*begin)(void *self);
    /* Both edges are up. */
    void (*up)(void *self);
    /* The assembly is over.  Drops what is under way; all sequences are dropped
     * next. */
    void (*over)(void *self);
    /* A message of the stream came, in an assembly that is up. */
    void (*recv)(void *self, struct peer *p, const struct method_row *m,
                 const ProtobufCMessage *message);
};

struct assembly {
    struct worker_base *base;
    const struct member_ops *member; /* NULL at a worker with all layers */
    void *self;

    enum assembly_state state;
    uint64_t id;
    uint32_t stage, n_stages;
    uint32_t max_rows, step_tokens; /* limits of a step at every stage */
    bool keyed; /* the neighbours must prove the keys of Assemble */
    uint8_t previous_key[KEY_BYTES];
    uint64_t call;  /* the Assemble that is not answered yet, 0: none */
    int64_t due_us; /* end of JOINING */

    struct peer *out, *in;  /* NULL: that edge is not up */
    struct frame *arriving; /* within `recv`: the frame of the message */

    bool broken; /* the next tick ends it, for the reason in why */
    char why[256];
};

/* Makes an assembly in NONE. */
void assembly_init(struct assembly *a, struct worker_base *b,
                   const struct member_ops *member, void *self);

/* Changes the state; checked against the table of successors, and logged. */
void assembly_move(struct assembly *a, enum assembly_state to);

/* Returns whether the assembly is up and not about to end.  Otherwise nothing
 * is sent or accepted. */
bool assembly_is_up(const struct assembly *a);

/* Return the number of the stage after or before this one. */
uint32_t assembly_after(const struct assembly *a);
uint32_t assembly_before(const struct assembly *a);

/* Returns the most bytes of messages without tensors that are under way to one
 * stage, given the sequences that the table holds. */
size_t assembly_stream_bytes(const struct sequence_table *t);

/* Sends a message to the next stage, in order; does nothing unless
 * assembly_is_up().  A message that finds no room, or is too large for its
 * method, breaks the assembly. */
void assembly_send(struct assembly *a, enum method m,
                   const ProtobufCMessage *message);
/* Sends a Forward with its tensor.  hidden [n_tokens, H] float32 is copied;
 * NULL if m has a failure. */
void assembly_send_forward(struct assembly *a,
                           const Sluice__V1__StageForward *m,
                           const float *hidden, uint32_t n_tokens);

/* Gives the assembly up because an account or the stream is wrong; the text
 * names what and the value.  Nothing is sent or accepted from now on.  The tick
 * of this turn ends the assembly; sequences stay as they are until then. */
__attribute__((format(printf, 2, 3))) void assembly_break(struct assembly *a,
                                                          const char *fmt, ...);

/* The same because an edge of an assembly in UP ended. */
__attribute__((format(printf, 2, 3))) void
assembly_edge_down(struct assembly *a, const char *fmt, ...);

#endif
