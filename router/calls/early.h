/* early.h - Holds Generate calls that arrive before the first worker of a
 * model.
 *
 * A router that has just started only has the models whose workers have
 * reconnected.  For options.worker_wait_us from its start it is *young*: it
 * holds a Generate for a model that it does not serve yet, instead of refusing
 * it.
 *
 *     Generate --no such model yet--> held --a worker of it--> judged again
 *                                      |
 *                                      +--no longer young----> judged again
 *
 * Held calls are judged in order of arrival, as if they arrived then.  Each one
 * enters the queue of its model, or gets the answer of a router that is not
 * young.
 *
 * A call waits for any model name, including one without --model: routers learn
 * models from workers too, and cannot distinguish an absent model from a
 * misspelt one.  A wrong name is therefore NOT_FOUND only when the router is no
 * longer young.  A call without a name, for "the only model served", waits for
 * the first worker.
 *
 * Before it is judged, only the id, the number of choices and the model of a
 * call are checked; other errors follow then.  A held call counts as waiting in
 * Status and is in no list of sequences.  If it is cancelled, it ends without
 * the text that was held back of a resumed choice, since that text is made when
 * the call is judged.
 *
 * Threading: the core's thread only.  Memory: each packed call on the heap.
 * Limits: options.max_waiting choices and EARLY_BYTES_MAX bytes.  Beyond them a
 * call is refused, UNAVAILABLE with a retry_after_ms; a call with more choices
 * than may ever wait is RESOURCE_EXHAUSTED without one. */
#ifndef ROUTER_CALLS_EARLY_H
#define ROUTER_CALLS_EARLY_H

#include "proto/inference.pb-c.h"
#include "router/calls/refuse.h"

struct router_core;

struct early {
    struct list calls;  /* struct early_call, in order of arrival */
    struct table by_id; /* the same, by the hash of request_id */
    uint32_t n_choices; /* choices of all held calls */
    size_t bytes;       /* bytes of all packed calls */
    struct event end;   /* end of the router's youth */
};

/* Initialises the empty state of r->early. */
void early_init(struct router_core *r);
/* Frees the state.  Call it after the last peer, and its calls, are gone. */
void early_fini(struct router_core *r);

/* Returns true if a Generate for this model would be held now. */
bool early_waits(struct router_core *r, ProtobufCBinaryData model);

/* Holds the call m; early_waits() must be true and no call of its id held.
 * Returns false if there is no room: the call is refused. */
bool early_hold(struct router_core *r, const struct incoming *in,
                const Sluice__V1__GenerateRequest *m);

/* Checks that no held call has the id of m.  A resumed call replaces the call
 * that another session left here.  Returns false if m was refused. */
bool early_check_id(struct router_core *r, const struct incoming *in,
                    const Sluice__V1__GenerateRequest *m);

/* Judges the held calls again whose model has a worker now, or all of them if
 * the router is no longer young. */
void early_run(struct router_core *r);

/* Handles Cancel or RemoveSequence of a held call or of one of its choices:
 * QUEUED, nothing was held.  The call ends with its last choice; a choice
 * before that gets its last chunk when the call is judged.  Returns false if
 * sequence is in no held call. */
bool early_removed(struct router_core *r, struct router_peer *p, uint64_t call,
                   const Sluice__V1__SequenceRef *sequence);

#endif
