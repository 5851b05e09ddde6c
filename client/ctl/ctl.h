/* ctl.h - Options, connection and output shared by the verbs of
 * sluicectl.
 *
 * Each group of verbs has one file.  A verb is a function that receives the
 * parsed options and operands, opens the connection if it needs one, and
 * returns the exit code.
 *
 * Threading: one thread.  Memory: struct ctl lives in main(). */
#ifndef CLIENT_CTL_CTL_H
#define CLIENT_CTL_CTL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "client/ctl/json_message.h"
#include "client/ctl/pages.h"
#include "client/lib/client.h"
#include "common/base/option.h"
#include "common/model/kv_format.h"
#include "common/split/layer_split.h"
#include "proto/common.pb-c.h"

#define CTL_NAME            "sluicectl"
#define CTL_DEFAULT_ROUTER  "tcp://127.0.0.1:7071"
#define CTL_INPUT_BYTES_MAX (8u << 20) /* limit of standard input */
#define CTL_LIST_MS         60000      /* for a list without --timeout */
#define PLAN_LENGTHS_MAX    16

enum ctl_exit {
    CTL_OK = 0,
    CTL_FAILED = 1,
    CTL_USAGE = 2,
    CTL_NO_ROUTER = 3,
    CTL_NO_ROOM = 4,
    CTL_INTERRUPTED = 130
};

/* Options of every verb. */
#define CTL_COMMON(X)                                                          \
    X(router, STRING, "ENDPOINT", NULL,                                        \
      "router endpoint (default: $SLUICE_ROUTER, or that of a running sluice " \
      "serve, or " CTL_DEFAULT_ROUTER ")",                                     \
      0, 0)                                                                    \
    X(key, STRING, "FILE", NULL,                                               \
      "certificate with the secret key (default: $SLUICE_KEY); needs --trust", \
      0, 0)                                                                    \
    X(trust, STRING, "DIR", NULL,                                              \
      "folder with the router's certificate (default: $SLUICE_TRUST)", 0, 0)   \
    X(timeout, MS, "TIME", NULL,                                               \
      "time limit of the verb; of generate and drain: to connect (default: "   \
      "5s for each reply, 10s for a receipt, 60s for a list)",                 \
      1, 86400000)                                                             \
    X(json, FLAG, NULL, NULL, "output as JSON", 0, 0)                          \
    X(help, FLAG, NULL, NULL, "this help, or the help of VERB", 0, 0)          \
    X(version, FLAG, NULL, NULL, "version of the program", 0, 0)               \
    X(limits, FLAG, NULL, NULL, "table of all limits", 0, 0)

#define CTL_MODEL(X)               \
    X(model, STRING, "NAME", NULL, \
      "model name (default: the only model served)", 0, 0)

#define CTL_TEXT(X)                                        \
    X(parse_special, FLAG, NULL, NULL,                     \
      "parsing of special tokens spelt in the text", 0, 0) \
    X(raw, FLAG, NULL, NULL,                               \
      "unmodified text: no escapes for a terminal, no added newline", 0, 0)

#define CTL_DECODE(X) \
    X(decode, FLAG, NULL, NULL, "conversion of ids to text instead", 0, 0)

#define CTL_DRAIN(X)                                                      \
    X(grace, MS, "TIME", "30s",                                           \
      "grace period, after which sequences that still run move to other " \
      "workers",                                                          \
      0, 3600000)                                                         \
    X(now, FLAG, NULL, NULL, "immediate move: the same as --grace 0", 0, 0)

#define CTL_SAMPLING(X)                                                        \
    X(temperature, F64, "T", "1", "sampling temperature, 0: greedy", 0,        \
      TEMPERATURE_MAX)                                                         \
    X(top_k, U32, "K", NULL,                                                   \
      "limit to the K likeliest tokens (default: none)", 0, 0)                 \
    X(top_p, F64, "P", "1",                                                    \
      "limit to the likeliest tokens that together have probability P, 1: "    \
      "none",                                                                  \
      0, 1)                                                                    \
    X(min_p, F64, "P", NULL,                                                   \
      "limit to tokens with at least P times the likeliest token's "           \
      "probability (default: none)",                                           \
      0, 1)                                                                    \
    X(repetition_penalty, F64, "R", "1",                                       \
      "factor for tokens of prompt and output: logits above 0 are divided by " \
      "R, others multiplied by R; 1: none",                                    \
      0.01, REPETITION_PENALTY_MAX)                                            \
    X(presence_penalty, F64, "P", "0",                                         \
      "decrease of the logit of each token in the output; negative: tokens "   \
      "are favoured",                                                          \
      -PENALTY_MAX, PENALTY_MAX)                                               \
    X(frequency_penalty, F64, "P", "0",                                        \
      "decrease of a token's logit for each time it occurs in the output",     \
      -PENALTY_MAX, PENALTY_MAX)                                               \
    X(logit_bias, LIST, "ID=BIAS", NULL,                                       \
      "number added to a token's logit, -100 to 100; also "                    \
      "ID=BIAS,ID=BIAS,...",                                                   \
      0, 0)                                                                    \
    X(seed, STRING, "N", NULL,                                                 \
      "random seed: the same seed gives the same text (default: random)", 0,   \
      0)                                                                       \
    X(draw_index, U32, "N", "0",                                               \
      "tokens generated before, from which on to draw; 0: from the start, or " \
      "on from the kept request",                                              \
      0, 4294967295.0)                                                         \
    X(draw_choice, U32, "N", "0", "choice that generated them", 0, 4294967295.0)

#define CTL_GENERATE(X)                                                        \
    X(max_tokens, U32, "N", NULL, "limit of generated tokens (default: 256)",  \
      1, 4294967295.0)                                                         \
    X(n, U32, "N", "1", "choices per prompt", 1, CHOICES_MAX)                  \
    X(stop, LIST, "TEXT", NULL,                                                \
      "text that ends the output and is omitted; \\n \\t \\r \\\\ are read "   \
      "as in C",                                                               \
      0, STOP_STRINGS_MAX)                                                     \
    X(stop_token, LIST, "ID", NULL,                                            \
      "token id that ends the output; also ID,ID,...", 0, STOP_TOKENS_MAX)     \
    X(ignore_eos, FLAG, NULL, NULL, "output beyond the model's end token", 0,  \
      0)                                                                       \
    X(logprobs, FLAG, NULL, NULL,                                              \
      "table of each token's log probability, on standard error after the "    \
      "text",                                                                  \
      0, 0)                                                                    \
    X(top_logprobs, U32, "K", "0", "likeliest tokens added to each line", 0,   \
      TOP_LOGPROBS_MAX)                                                        \
    X(ids, FLAG, NULL, NULL, "token ids as prompt and as output", 0, 0)        \
    X(special_text, FLAG, NULL, NULL, "special tokens as part of the text", 0, \
      0)                                                                       \
    X(tenant, STRING, "NAME", NULL,                                            \
      "tenant to count the request for (default: none)", 0, 0)                 \
    X(guaranteed, FLAG, NULL, NULL,                                            \
      "start when all of --max-tokens has room, and never be suspended", 0, 0) \
    X(tier, STRING, "TIER", NULL,                                              \
      "place among the requests of the tenant that wait: priority, default "   \
      "or flex",                                                               \
      0, 0)                                                                    \
    X(cache_salt, STRING, "TEXT", NULL,                                        \
      "reuse only among the tenant's requests of this salt (default: none)",   \
      0, 0)                                                                    \
    X(no_cache, FLAG, NULL, NULL,                                              \
      "no reuse of computed prefixes, and none of this one", 0, 0)             \
    X(continue_from, STRING, "ID", NULL,                                       \
      "kept request of the same --tenant and --cache-salt, ID or ID/CHOICE, "  \
      "whose text the prompt continues",                                       \
      0, 0)                                                                    \
    X(deadline, MS, "TIME", NULL, "time limit of the request (default: none)", \
      1, 86400000)                                                             \
    X(keep, MS, "TIME", NULL,                                                  \
      "time for which memory stays held after the end (default: none)", 0,     \
      KEEP_MS_MAX)                                                             \
    X(no_resume, FLAG, NULL, NULL,                                             \
      "end of the request if the connection breaks", 0, 0)                     \
    X(resume, MS, "TIME", "30s",                                               \
      "time to resume at a router after the connection broke", 1000, 86400000) \
    X(request_id, STRING, "ID", NULL,                                          \
      "request id, 32 hex digits (default: random)", 0, 0)                     \
    X(figures, FLAG, NULL, NULL,                                               \
      "time to first token, tokens per second, blocks and slots held and "     \
      "released; on standard error",                                           \
      0, 0)                                                                    \
    X(quiet, FLAG, NULL, NULL,                                                 \
      "no receipt and no connection messages on standard error", 0, 0)

#define CTL_DRAFTS(X)                                                  \
    X(drafts, STRING, "K", NULL,                                       \
      "most tokens drafted in a step, 0 to 8; the output is the same " \
      "(default: the worker's choice; plan: 0)",                       \
      0, 0)

#define CTL_REMOVE(X)                                                     \
    X(from, U32, "N", NULL,                                               \
      "first token to remove of a kept request, counted over prompt and " \
      "output; the rest stays kept (default: remove all)",                \
      1, MODEL_CONTEXT_MAX)

#define CTL_PLAN(X)                                                            \
    X(workers, LIST, "NAME=SIZE", NULL,                                        \
      "a worker and its memory; NAME=SIZE@SPEED if speeds differ; also "       \
      "NAME=SIZE,...",                                                         \
      0, 0)                                                                    \
    X(stages, U32, "N", NULL,                                                  \
      "number of stages, on the N best workers (default: all workers)", 1,     \
      STAGES_MAX)                                                              \
    X(in_order, FLAG, NULL, NULL, "stages in the order of --workers", 0, 0)    \
    X(explain_blocks, FLAG, NULL, NULL,                                        \
      "what an engine with aligned blocks would need instead", 0, 0)           \
    X(lengths, LIST, "N", NULL,                                                \
      "sequence lengths to count for, N or N,N,... (default: 1024, 4096, "     \
      "..., context)",                                                         \
      0, 0)                                                                    \
    X(context, U32, "N", NULL,                                                 \
      "longest sequence in tokens (default: the model's limit)", 1,            \
      MODEL_CONTEXT_MAX)                                                       \
    X(block_tokens, U32, "N", "32", "tokens per KV block", 1, 64)              \
    KV_OPTIONS(X)                                                              \
    X(drafter, STRING, "KIND", NULL,                                           \
      "with --drafts: auto, mtp or ngram; ngram loads no MTP layer (default: " \
      "auto)",                                                                 \
      0, 0)                                                                    \
    X(max_rows, U32, "N", "64", "sequences per step", 1, 512)                  \
    X(slots, U32, "N", NULL,                                                   \
      "most slots of each worker at once (default: --max-rows)", 0,            \
      WORKER_ORPHANS_MAX)                                                      \
    X(device, STRING, "KIND", "cpu",                                           \
      "device of the workers, cpu or opencl: sets scratch, and with "          \
      "opencl --step-tokens 2048",                                             \
      0, 0)                                                                    \
    X(step_tokens, U32, "N", NULL,                                             \
      "tokens per step (default: 512 on the cpu, 2048 on opencl)", 1,          \
      STEP_TOKENS_MAX)                                                         \
    X(chunk_tokens, U32, "N", NULL,                                            \
      "prompt tokens of one sequence per step, which bounds its window "       \
      "blocks (default: 256 on the cpu, 1024 on opencl)",                      \
      1, STEP_TOKENS_MAX)                                                      \
    X(threads, U32, "N", NULL,                                                 \
      "compute threads of each worker (default: the CPUs of this machine)", 1, \
      256)                                                                     \
    X(products, STRING, "int8|float", NULL,                                    \
      "products of quantised weights, which set scratch (default: int8 on "    \
      "the cpu, float on opencl)",                                             \
      0, 0)                                                                    \
    X(scratch, BYTES, "SIZE", NULL,                                            \
      "scratch memory per worker for the largest step (default: as a worker "  \
      "counts it)",                                                            \
      0, 0)

#define CTL_QUANTISE(X)                                          \
    X(bits, U32, "N", "4", "bits per weight: 4 or 8", 4, 8)      \
    X(group, U32, "N", "64", "weights per scale: 32, 64 or 128", \
      MODEL_GROUP_MIN, MODEL_GROUP_MAX)

#define CTL_KEYGEN(X)                                                         \
    X(role, STRING, "ROLE[,ROLE]", NULL,                                      \
      "roles of the key: router, worker, client, admin", 0, 0)                \
    X(dir, STRING, "DIR", ".", "folder of the key and the certificate", 0, 0) \
    X(rotate, FLAG, NULL, NULL,                                               \
      "a later key of the same name, NAME+2, with the roles of the last", 0,  \
      0)                                                                      \
    X(force, FLAG, NULL, NULL, "replacement of files that exist", 0, 0)

#define CTL_GRAMMAR(X)                                                        \
    X(kind, STRING, "KIND", "schema",                                         \
      "contents of the file: schema, object, regex or choice", 0, 0)          \
    X(text, STRING, "FILE", NULL,                                             \
      "text to check, with the place where it leaves the grammar", 0, 0)      \
    X(any_order, FLAG, NULL, NULL,                                            \
      "members of objects in any order, not only in the schema's", 0, 0)      \
    X(compact, FLAG, NULL, NULL, "no white space between the tokens of JSON", \
      0, 0)

#define CTL_REPLAY(X)                                                         \
    X(policy, STRING, "POLICY", "fair",                                       \
      "fair: tenants take turns; fifo: all tenants are one", 0, 0)            \
    X(admission, STRING, "RULE", NULL,                                        \
      "expected or strict (default: as recorded)", 0, 0)                      \
    X(tenant_weight, LIST, "TENANT=N", NULL,                                  \
      "share of a tenant in each queue (default: as recorded)", 0,            \
      OPTION_LIST_MAX)                                                        \
    X(queue_timeout, STRING, "TIME", NULL,                                    \
      "time in which a request without a deadline must start, 0: no limit "   \
      "(default: as recorded)",                                               \
      0, 0)                                                                   \
    X(pages, U32, "N", NULL,                                                  \
      "pages of the pool of each worker (default: as recorded)", 1,           \
      UINT32_MAX)                                                             \
    X(good, MS, "TIME", "10s", "time to the first token that goodput allows", \
      1, 86400000)

#define CTL_CLUSTER(X)                                                        \
    X(models_here, FLAG, NULL, NULL,                                          \
      "check: every model must be on this machine, with its weights", 0, 0)   \
    X(out, STRING, "DIR", NULL,                                               \
      "render: folder of the bundles (default: bundles beside FILE)", 0, 0)   \
    X(apply, STRING, "HOST", NULL,                                            \
      "render: installation of the bundle of HOST, which is this machine", 0, \
      0)                                                                      \
    X(root, STRING, "DIR", "/", "apply: root of the machine", 0, 0)           \
    X(dry_run, FLAG, NULL, NULL, "apply: list of the changes only", 0, 0)

/* Values of the options of all verbs; each verb accepts its own rows only. */
struct ctl_options {
    CTL_COMMON(OPTION_FIELD)
    CTL_MODEL(OPTION_FIELD)
    CTL_TEXT(OPTION_FIELD)
    CTL_DECODE(OPTION_FIELD)
    CTL_DRAIN(OPTION_FIELD)
    CTL_REMOVE(OPTION_FIELD)
    CTL_SAMPLING(OPTION_FIELD)
    CTL_GENERATE(OPTION_FIELD)
    CTL_DRAFTS(OPTION_FIELD)
    CTL_PLAN(OPTION_FIELD)
    CTL_QUANTISE(OPTION_FIELD)
    CTL_KEYGEN(OPTION_FIELD)
    CTL_GRAMMAR(OPTION_FIELD)
    CTL_REPLAY(OPTION_FIELD)
    CTL_CLUSTER(OPTION_FIELD)
};

struct ctl {
    struct ctl_options o;
    struct client *client; /* NULL until ctl_open() */
    int64_t end_us;        /* end of the verb by --timeout; 0: not given */
    int n_operands;
    char **operands; /* [n_operands] words after the verb */
};

/* A verb: returns the exit code. */
typedef int ctl_verb_fn(struct ctl *c);

int ctl_generate(struct ctl *c);
int ctl_status(struct ctl *c);
int ctl_workers(struct ctl *c);
int ctl_sequences(struct ctl *c);
int ctl_explain(struct ctl *c);
int ctl_metrics(struct ctl *c);
int ctl_models(struct ctl *c);
int ctl_cancel(struct ctl *c);
int ctl_remove(struct ctl *c);
int ctl_audit(struct ctl *c);
int ctl_drain(struct ctl *c);
int ctl_undrain(struct ctl *c);
int ctl_ping(struct ctl *c);
int ctl_plan(struct ctl *c);
int ctl_quantise(struct ctl *c);
int ctl_keygen(struct ctl *c);
int ctl_keys(struct ctl *c);
int ctl_replay(struct ctl *c);
int ctl_grammar(struct ctl *c);
int ctl_cluster(struct ctl *c);
int ctl_tokenize(struct ctl *c);
int ctl_detokenize(struct ctl *c);

/* Opens the connection unless it is open.  Returns CTL_OK, or prints the error
 * and returns the exit code. */
int ctl_open(struct ctl *c);

/* Prints an error of a call, with --json as one JSON object.  Returns the exit
 * code of the status. */
int ctl_fail(const struct ctl *c, enum status status, const char *text,
             uint32_t retry_after_ms);

/* Prints an error in the command line.  Returns CTL_USAGE. */
int ctl_misuse(const struct ctl *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Opens the connection and parses the operand, ID or ID/CHOICE, where the
 * first digits of an id suffice.  *choice is CLIENT_ALL_CHOICES without a
 * choice.  Returns CTL_OK, or prints the error and returns the exit code. */
int ctl_find_sequence(struct ctl *c, uint8_t id[16], uint32_t *choice);

/* Opens the connection, calls m, and passes the reply to print.  Returns
 * CTL_OK, or prints the error and returns the exit code. */
int ctl_call(struct ctl *c, enum method m, const ProtobufCMessage *request,
             client_reply_fn *print, void *arg);

/* Returns the time that --timeout leaves to the verb, at least 1 ms; 0 without
 * --timeout, which means the default of a call. */
uint32_t ctl_left_ms(const struct ctl *c);

/* Calls m, ListWorkers or ListSequences, for each page until p->more is false.
 * take() passes each reply to pages_take().  Stops at end_us.  Returns the
 * status of the last call or of p, and its text in *e. */
enum status ctl_pages(const struct ctl *c, enum method m, struct pages *p,
                      client_reply_fn *take, void *arg, int64_t end_us,
                      struct error *e);

/* Opens the connection and reads a list, within --timeout or CTL_LIST_MS.
 * Returns CTL_OK, or prints the error and returns the exit code. */
int ctl_list(struct ctl *c, enum method m, struct pages *p,
             client_reply_fn *take, void *arg);

/* Flushes standard output.  Returns false if any output was lost, by this
 * flush or an earlier one. */
bool ctl_flush(void);

/* Flushes standard output at the end of the program.  Returns rc, or prints
 * why output was lost and returns the exit code to use instead. */
int ctl_end_output(int rc);

/* Prints j on one line and frees it. */
void ctl_print_json(json_t *j);

/* Returns a peer's name, escaped, in a ring of eight static buffers: the ninth
 * call reuses the first one. */
const char *ctl_name(ProtobufCBinaryData name);

/* Returns the text of a verb, owned by the caller: its operands joined by
 * blanks, or all of standard input if there are none or only "-".  *n receives
 * its length.  Returns NULL after printing the error. */
char *ctl_text(const struct ctl *c, size_t *n);

/* Reads the token ids of a verb from the same text: decimal numbers separated
 * by blanks, commas or brackets.  The caller owns *ids.  Returns false after
 * printing the error. */
bool ctl_ids(const struct ctl *c, uint32_t **ids, size_t *n);

/* Returns the ending of a noun after the number n: "" or "s". */
const char *ctl_plural(uint32_t n);

/* Prints a receipt on one line. */
void ctl_print_receipt(FILE *to, const struct client_receipt *r);

/* Returns a receipt as JSON, owned by the caller. */
json_t *ctl_json_receipt(const struct client_receipt *r);

/* A worker's figures in ListWorkers. */
struct ctl_worker {
    bool found;
    uint32_t n_sequences;
    Sluice__V1__ClassLedger blocks, slots, windows;
};

/* Looks for a worker through all pages of ListWorkers, and sets out->found.
 * Returns the status of the last call. */
enum status ctl_find_worker(const struct ctl *c, const char *name,
                            struct ctl_worker *out);

/* Sets the target of SIGINT and SIGTERM: client_interrupt() of client; NULL
 * restores their default, which ends the program. */
void ctl_catch_interrupt(struct client *client);

#endif
