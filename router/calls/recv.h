/* recv.h - The handlers of incoming messages: one per message, one file each.
 *
 * A handler gets a message that its peer may send, decoded and within its size
 * cap, but otherwise unchecked.  It must compare every number in the message
 * with a limit before using it.  It answers the call at once or opens a struct
 * pending.
 *
 * Threading: the core's thread only.  Memory: messages live until the handler
 * returns. */
#ifndef ROUTER_CALLS_RECV_H
#define ROUTER_CALLS_RECV_H

#include "common/wire/method_message.h"
#include "router/calls/refuse.h"
#include "router/fleet/workers.h"

struct request;
struct router_core;
struct text_job;

/* Method and handler: void handler(r, in, m), where m is the request with the
 * type of the method. dispatch.c calls them. */
#define ROUTER_HANDLERS(X)                             \
    X(REGISTRY_REPORT, recv_report)                    \
    X(REGISTRY_LEAVE, recv_leave)                      \
    X(REGISTRY_STEP_OUTPUT, recv_step_output)          \
    X(REGISTRY_LIVE, recv_live)                        \
    X(REGISTRY_BROKEN, recv_broken)                    \
    X(REGISTRY_INDEX, recv_index)                      \
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
    X(ADMIN_UNDRAIN, recv_admin_undrain)               \
    X(ADMIN_EXPLAIN, recv_admin_explain)

#define X(method, handler)                                         \
    void handler(struct router_core *r, const struct incoming *in, \
                 const request_of_##method *m);
ROUTER_HANDLERS(X)
#undef X

/* Handles a frame that belongs to no session; only Hello is accepted. */
void recv_hello(struct router_core *r, struct peer_id from,
                const struct frame *f, const struct frame_header *h);

/* Judges a call like recv_generate(), which has counted it already. */
void generate_judge(struct router_core *r, const struct incoming *in,
                    const request_of_INFERENCE_GENERATE *m);

/* Handles the answer of w to Audit; reply is NULL and e set if w did not
 * answer. */
void audit_answered(struct router_core *r, struct worker *w, uint64_t tag,
                    const reply_of_WORKER_AUDIT *reply, const struct error *e);
/* Closes the row of w in every audit; its session is over. */
void audit_worker_lost(struct router_core *r, struct worker *w);

/* Takes the ids of the prompt from the finished text job j, and enqueues the
 * request or refuses it. */
void generate_encoded(struct router_core *r, struct request *request,
                      struct text_job *j);

/* Refuses a call that names no model, because none is served, or several: then
 * the sentence lists them. */
void refuse_unnamed(struct router_core *r, const struct incoming *in);

/* Finds the number of the model at the text seam, which needs the tokenizer and
 * no worker.  Returns false if it refused the call. */
bool find_text(struct router_core *r, const struct incoming *in,
               ProtobufCBinaryData name, uint32_t *model);

/* Gives a job to the text seam, and counts its bytes until it is done.  Returns
 * ST_RESOURCE_EXHAUSTED, and leaves *j to the caller, without room. */
MUST_CHECK enum status text_submit(struct router_core *r, struct text_job **j,
                                   size_t bytes, struct error *e);

/* Submits *j to the text seam for a Tokenize or Detokenize.  Takes over *j, and
 * refuses the call if there is no room. */
void text_call(struct router_core *r, const struct incoming *in,
               struct text_job **j);

/* Handles the text jobs that are done. */
void text_poll(struct router_core *r);

#endif
