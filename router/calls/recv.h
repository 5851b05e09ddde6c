/* recv.h - what comes in: one handler a message, one file a handler.
 *
 * A handler gets a message that its peer may send, decoded and within its
 * size, but otherwise unchecked: every number in it is compared with a limit
 * before it is used.  It answers the call now or opens a struct pending.
 *
 * Threading: the core's.  Memory: messages live until the handler returns. */
#ifndef ROUTER_CALLS_RECV_H
#define ROUTER_CALLS_RECV_H

#include "common/wire/method_message.h"
#include "router/calls/refuse.h"
#include "router/fleet/workers.h"

struct request;
struct router_core;
struct text_job;

extern const struct peer_ops router_peer_ops;

/* method, its handler: void handler(r, in, m), m being the request of the
 * method by its own type.  dispatch.c calls them. */
#define ROUTER_HANDLERS(X)                             \
    X(REGISTRY_REPORT, recv_report)                    \
    X(REGISTRY_LEAVE, recv_leave)                      \
    X(REGISTRY_STEP_OUTPUT, recv_step_output)          \
    X(REGISTRY_LIVE, recv_live)                        \
    X(REGISTRY_BROKEN, recv_broken)                    \
    X(INFERENCE_GENERATE, recv_generate)               \
    X(INFERENCE_CANCEL, recv_cancel)                   \
    X(INFERENCE_REMOVE, recv_remove)                   \
    X(INFERENCE_TOKENIZE, recv_tokenize)               \
    X(INFERENCE_DETOKENIZE, recv_detokenize)           \
    X(INFERENCE_LIST_MODELS, recv_list_models)         \
    X(HEALTH_CHECK, recv_health)                       \
    X(ADMIN_CANCEL, recv_cancel)                       \
    X(ADMIN_REMOVE, recv_remove)                       \
    X(ADMIN_STATUS, recv_admin_status)                 \
    X(ADMIN_WATCH, recv_admin_watch)                   \
    X(ADMIN_LIST_WORKERS, recv_admin_list_workers)     \
    X(ADMIN_LIST_SEQUENCES, recv_admin_list_sequences) \
    X(ADMIN_AUDIT, recv_admin_audit)                   \
    X(ADMIN_DRAIN, recv_admin_drain)                   \
    X(ADMIN_UNDRAIN, recv_admin_undrain)

#define X(method, handler)                                         \
    void handler(struct router_core *r, const struct incoming *in, \
                 const request_of_##method *m);
ROUTER_HANDLERS(X)
#undef X

/* Handles a frame outside any session. */
void recv_hello(struct router_core *r, struct peer_id from,
                const struct frame *f, const struct frame_header *h);

/* As recv_generate(), of a call that is counted already. */
void generate_judge(struct router_core *r, const struct incoming *in,
                    const request_of_INFERENCE_GENERATE *m);

/* Takes the worker's answer to Audit; reply is NULL if it did not answer. */
void audit_answered(struct router_core *r, struct worker *w, uint64_t tag,
                    const reply_of_WORKER_AUDIT *reply, const struct error *e);
/* w's session is over: closes its row in every audit. */
void audit_worker_lost(struct router_core *r, struct worker *w);

/* Takes a finished text job: the ids of a prompt. */
void generate_encoded(struct router_core *r, struct request *request,
                      struct text_job *j);

/* Finds the model's number at the text seam, which needs assets, not a worker.
 * Returns false if it was refused. */
bool find_text(struct router_core *r, const struct incoming *in,
               ProtobufCBinaryData name, uint32_t *model);

/* Hands a job to the text seam for a Tokenize or Detokenize.  Takes *j and
 * refuses the call if there is no room. */
void text_call(struct router_core *r, const struct incoming *in,
               struct text_job **j);

/* Takes in the text jobs that are done. */
void text_poll(struct router_core *r);

#endif
