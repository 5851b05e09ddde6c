/* failpoint.h - Points at which a process can be made to die, stop or fail.
 *
 * In the product FP(NAME) and FP_FAILS(NAME) expand to nothing: no code, no
 * string in the binary.  tests/faults builds the programs once more with
 * SLUICE_FAILPOINTS.  In those programs an environment variable sets what
 * happens at which point:
 *
 *     SLUICE_FAILPOINTS='worker.step.before_result=kill@3;
 *                        router.submit.sent=sleep(200)%1/50#7'
 *
 *     rules  = rule (';' rule)*           at most FAILPOINT_RULES
 *     rule   = point '=' action when?
 *     action = kill | stop | segv | abort | exit(CODE) | sleep(MS) | spin
 *            | error                      spin: loop forever in this thread
 *     when   = '@' N                      only the N-th time, from 1
 *            | '%' P '/' Q ('#' SEED)?    P times out of Q, by chance
 *
 * Without a `when` the action happens every time.  Chance is a function of
 * seed, point and count, so a run that reaches a point in the same order
 * meets the same faults.  `error` is for the points of FP_FAILS(): the code
 * takes the path that it takes when that step fails.  Other points do not
 * accept `error`.  Each action is reported on standard error before it
 * happens.
 *
 *     FP(WORKER_RESULT);
 *     if (FP_FAILS(WORKER_PLAN_REFUSED) || submit(p) != ST_OK) ...
 *
 * Threading: any thread.  Memory: none.  The counts are per process. */
#ifndef COMMON_BASE_FAILPOINT_H
#define COMMON_BASE_FAILPOINT_H

#include <stdbool.h>

/* X(id, name, whether it can fail, when the point is reached) */
#define FAILPOINT_MAP(X)                                                     \
    X(TRANSPORT_SEND, "transport.send", true,                                \
      "a frame is about to be sent; error: there is no room for it")         \
    X(TRANSPORT_RECV, "transport.recv", true,                                \
      "a frame has come; error: it is lost")                                 \
    X(SESSION_HELLO, "session.hello.sent", false, "Hello was sent")          \
    X(WORKER_UP, "worker.session.up", false, "its Hello was answered")       \
    X(WORKER_SUBMIT, "worker.submit.accepted", false,                        \
      "a Submit and all its ids are taken in, the answer is queued")         \
    X(WORKER_PLAN, "worker.plan.before_submit", true,                        \
      "a plan is about to go to the engine; error: it is refused")           \
    X(WORKER_PLANNED, "worker.plan.submitted", false, "the engine has it")   \
    X(ENGINE_BEFORE, "worker.engine.before_forward", false,                  \
      "in the engine's thread, before a step")                               \
    X(ENGINE_LAYER, "worker.engine.layer", false, "after a layer of a step") \
    X(ENGINE_PREFILL_LAYER, "worker.engine.prefill_layer", false,            \
      "after a layer of a step that takes in a prompt")                      \
    X(ENGINE_STEP, "worker.engine.step", true,                               \
      "all layers are through; error: the step has failed")                  \
    X(ENGINE_ROW, "worker.engine.row", true,                                 \
      "a row was sampled; error: its logits were not finite")                \
    X(ENGINE_LOST, "worker.engine.lost", true,                               \
      "all of a plan is through; error: the device is lost")                 \
    X(ENGINE_AFTER, "worker.engine.after_forward", false,                    \
      "after a step, before its result can be polled")                       \
    X(WORKER_RESULT, "worker.step.before_result", false,                     \
      "a result was polled and is not used yet")                             \
    X(WORKER_OUTPUT, "worker.output.before_send", true,                      \
      "a StepOutput is about to be sent; error: no room in the link")        \
    X(WORKER_REPORT_SENT, "worker.report.sent", false,                       \
      "a StepOutput or Report was handed to the socket")                     \
    X(WORKER_ACKNOWLEDGE, "worker.acknowledge.came", true,                   \
      "an Acknowledge has come; error: it is overlooked")                    \
    X(WORKER_RELEASE, "worker.cancel.before_release", false,                 \
      "a Cancel has come, nothing is freed yet")                             \
    X(WORKER_RECEIPT, "worker.receipt.before_send", false,                   \
      "the memory is free, the receipt is not sent yet")                     \
    X(ROUTER_HELLO, "router.hello.answered", false,                          \
      "the answer to a Hello was handed to the socket")                      \
    X(ROUTER_GENERATE, "router.generate.came", false,                        \
      "a Generate has come, nothing is held for it yet")                     \
    X(ROUTER_SUBMIT, "router.submit.before_send", false,                     \
      "a Submit is about to be queued for a worker")                         \
    X(ROUTER_SUBMIT_SENT, "router.submit.sent", false, "it is queued")       \
    X(ROUTER_STEP, "router.step.taken", false,                               \
      "the rows of a StepOutput are taken, not acknowledged")                \
    X(ROUTER_ACKNOWLEDGE, "router.step.acknowledged", false,                 \
      "and now they are")                                                    \
    X(ROUTER_CHUNK, "router.chunk.before_send", false,                       \
      "a chunk is about to be queued for a client")                          \
    X(ROUTER_CHUNK_SENT, "router.chunk.sent", false, "it is queued")         \
    X(ROUTER_END, "router.generate.before_end", false,                       \
      "all chunks of a Generate are queued, its End is not")                 \
    X(ROUTER_CANCEL, "router.cancel.forwarded", false,                       \
      "a Cancel or RemoveSequence is queued for the worker")                 \
    X(ROUTER_REQUEUE, "router.worker.requeue", false,                        \
      "a sequence is about to go back to the queue")                         \
    X(ROUTER_FLUSHED, "router.turn.flushed", false,                          \
      "what was queued for a peer was handed to the socket")                 \
    X(CLIENT_CHUNK, "client.chunk.came", false,                              \
      "a chunk has come, the program has not seen it")

#ifdef SLUICE_FAILPOINTS

#include <stdint.h>

#include "common/base/status.h"

#define FAILPOINT_RULES 16

enum failpoint {
#define X(id, name, fails, text) FAILPOINT_##id,
    FAILPOINT_MAP(X)
#undef X
        FAILPOINTS
};

enum failpoint_action {
    FAILPOINT_KILL,
    FAILPOINT_STOP,
    FAILPOINT_SEGV,
    FAILPOINT_ABORT,
    FAILPOINT_EXIT,  /* exit code in `of`, 0..255 */
    FAILPOINT_SLEEP, /* milliseconds in `of`, at most one hour */
    FAILPOINT_SPIN,
    FAILPOINT_ERROR,
    FAILPOINT_ACTIONS
};

struct failpoint_rule {
    enum failpoint point;
    enum failpoint_action action;
    uint32_t of;
    uint64_t nth;  /* 0: p and q decide */
    uint32_t p, q; /* q = 0: every time */
    uint64_t seed;
};

struct failpoint_rules {
    struct failpoint_rule rule[FAILPOINT_RULES];
    unsigned n;
};

/* Parses rules.  text may be NULL or empty: no rules.  Returns
 * ST_INVALID_ARGUMENT and a sentence if text does not follow the grammar
 * above. */
MUST_CHECK enum status
failpoint_parse(const char *text, struct failpoint_rules *out, struct error *e);

/* Returns whether the rule applies the count-th time, counted from 1. */
bool failpoint_due(const struct failpoint_rule *r, uint64_t count);

/* Starts fail points; call first in main().  Takes the rules from the
 * environment.  Exits with 2 and a sentence if the rules are wrong, with 0
 * and a list for --list-failpoints. */
void failpoint_start(int argc, char **argv);

/* Counts one pass of the point and performs the action of a matching rule.
 * Returns true if the step is to fail. */
bool failpoint_hit(enum failpoint point);

#define FAILPOINT_START(argc, argv) failpoint_start(argc, argv)
#define FP(id)                      ((void)failpoint_hit(FAILPOINT_##id))
#define FP_FAILS(id)                failpoint_hit(FAILPOINT_##id)

#else

#define FAILPOINT_START(argc, argv) ((void)0)
#define FP(id)                      ((void)0)
#define FP_FAILS(id)                false

#endif

#endif
