/* recv.h - what comes in: one handler a message, one file a handler.
 *
 * A handler gets a message that its peer may send, decoded and within its
 * size, but otherwise unchecked: every number in it is compared with a limit
 * before it is used.  It answers the call now or opens a struct pending.
 *
 * Threading: the core's.  Memory: messages live until the handler returns. */
#ifndef ROUTER_CALLS_RECV_H
#define ROUTER_CALLS_RECV_H

#include "router/fleet/pending.h"

struct request;

extern const struct peer_ops router_peer_ops;

/* A call, as dispatch.c hands it on. */
struct incoming {
    struct router_peer *peer;
    uint64_t call;
    int64_t deadline_us;
    const ProtobufCMessage *message;
};

/* A frame outside any session. */
void recv_hello(struct router_core *r, struct peer_id from,
                const struct frame *f, const struct frame_header *h);

void recv_generate(struct router_core *r, const struct incoming *in);
/* The same of one that is counted already. */
void generate_judge(struct router_core *r, const struct incoming *in);
void recv_cancel(struct router_core *r, const struct incoming *in);
void recv_remove(struct router_core *r, const struct incoming *in);

void recv_tokenize(struct router_core *r, const struct incoming *in);
void recv_detokenize(struct router_core *r, const struct incoming *in);
void recv_list_models(struct router_core *r, const struct incoming *in);
void recv_health(struct router_core *r, const struct incoming *in);

void recv_admin_status(struct router_core *r, const struct incoming *in);
void recv_admin_watch(struct router_core *r, const struct incoming *in);
void recv_admin_list_workers(struct router_core *r, const struct incoming *in);
void recv_admin_list_sequences(struct router_core *r,
                               const struct incoming *in);
void recv_admin_audit(struct router_core *r, const struct incoming *in);
void recv_admin_drain(struct router_core *r, const struct incoming *in);
void recv_admin_undrain(struct router_core *r, const struct incoming *in);

void recv_leave(struct router_core *r, const struct incoming *in);
void recv_broken(struct router_core *r, const struct incoming *in);
void recv_live(struct router_core *r, const struct incoming *in);
void recv_report(struct router_core *r, const struct incoming *in);
void recv_step_output(struct router_core *r, const struct incoming *in);

/* Their caller gave up or is gone; the pending is closed already. */
void generate_dropped(struct router_core *r, struct pending *c, bool gone);
void waiter_dropped(struct router_core *r, struct pending *c);
void text_dropped(struct router_core *r, struct pending *c);
void watch_dropped(struct router_core *r, struct pending *c);
void audit_dropped(struct router_core *r, struct pending *c);
void drain_dropped(struct router_core *r, struct pending *c);
void early_dropped(struct router_core *r, struct pending *c);

/* A worker answered Audit, or did not: reply is NULL. */
void audit_answered(struct router_core *r, struct worker *w, uint64_t tag,
                    const ProtobufCMessage *reply, const struct error *e);
/* Audits that ask it hear no more from it. */
void audit_worker_lost(struct router_core *r, struct worker *w);

/* What a worker said cannot be: its session is over, its name is kept out
 * for a while, and the reason is logged. */
void worker_lied(struct router_core *r, struct worker *w,
                 const struct error *e);

/* A finished text job: the ids of a prompt. */
struct text_job;
void generate_encoded(struct router_core *r, struct request *request,
                      struct text_job *j);

/* The model's number at the text seam: needs assets, not a worker.  False:
 * refused. */
bool find_text(struct router_core *r, const struct incoming *in,
               ProtobufCBinaryData name, uint32_t *model);

/* Hand a job to the text seam for a call of p: Tokenize, Detokenize.  Takes
 * *j; refuses the call if there is no room. */
void text_call(struct router_core *r, const struct incoming *in,
               struct text_job **j);

/* Look for text jobs that are done. */
void text_poll(struct router_core *r);

/* Answer a call with a refusal. */
void refuse(const struct incoming *in, enum status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* request_id: 16 bytes, not all zero.  False: refused. */
bool check_request_id(const struct incoming *in, ProtobufCBinaryData id);

#endif
