/* early.h - calls of Generate that come before the first worker does.
 *
 * A router that has just begun knows only the models whose workers are back.
 * While it is young, for options.worker_wait_us from its start, a Generate of
 * a model that it does not serve yet is held, not refused:
 *
 *     Generate --no such model yet--> held --a worker of it--> judged anew
 *                                      |
 *                                      +--young no more------> judged anew
 *
 * Judged anew is what it would have met had it come then, in order of
 * arrival: so it goes into the queue of its model, or gets the answer of a
 * router that is not young.
 *
 * Any name is waited for, also one that no --model told of: a router learns
 * of models from workers as well, and cannot tell a model that is coming from
 * a slip of the pen.  So a wrong name is NOT_FOUND only once the router is not
 * young.  No name, "the only one there is", waits for the first worker.
 *
 * Of a call only its id, choices and model are looked at before; what else is
 * wrong with it is said when it is judged.  It counts in Status as waiting,
 * and is in no list of sequences.  Cancelled, it ends without the text that
 * was held back of a resumed choice: that is made when it is judged.
 *
 * Threading: the core's.  Memory: the request as it is packed, on the heap.
 * Limits: options.max_waiting choices and EARLY_BYTES_MAX; past them a call
 * is refused, UNAVAILABLE with a retry_after_ms; of more choices than may
 * ever wait, RESOURCE_EXHAUSTED without. */
#ifndef ROUTER_CALLS_EARLY_H
#define ROUTER_CALLS_EARLY_H

#include "proto/inference.pb-c.h"
#include "router/calls/refuse.h"

struct router_core;

struct early {
    struct list calls;  /* struct early_call, in order of arrival */
    struct table by_id; /* the same, by the hash of request_id */
    uint32_t n_choices; /* of all */
    size_t bytes;       /* packed, of all */
    struct event end;   /* of being young */
};

void early_init(struct router_core *r);
/* After the last peer has gone, and its calls with it. */
void early_fini(struct router_core *r);

/* Would a Generate of this model be held now? */
bool early_waits(struct router_core *r, ProtobufCBinaryData model);

/* Hold it: early_waits(), and no other of its id is held.  False: there is no
 * room, it is refused. */
bool early_hold(struct router_core *r, const struct incoming *in,
                const Sluice__V1__GenerateRequest *m);

/* Is its id not that of one that is held?  One that is resumed takes the
 * place of what another session left here.  False: refused. */
bool early_check_id(struct router_core *r, const struct incoming *in,
                    const Sluice__V1__GenerateRequest *m);

/* A worker has come: judge again what waited for its model. */
void early_run(struct router_core *r);

/* Cancel or RemoveSequence of one that is held, or of a choice of it: QUEUED,
 * nothing was held.  The call ends with its last choice; a choice before that
 * has its last chunk when the call is judged.  False: it is none of these. */
bool early_removed(struct router_core *r, struct router_peer *p, uint64_t call,
                   const Sluice__V1__SequenceRef *sequence);

#endif
