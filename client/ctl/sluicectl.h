/* sluicectl.h - what the verbs of sluicectl share.
 *
 * One file a group of verbs; each is a function that gets the parsed options
 * and its operands, opens the connection when it needs it, and returns the
 * exit code.
 *
 * Threading: one thread.  Memory: struct ctl lives in main(). */
#ifndef CLIENT_CTL_SLUICECTL_H
#define CLIENT_CTL_SLUICECTL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "client/ctl/json_message.h"
#include "client/lib/client.h"
#include "common/base/option.h"
#include "common/model/model_limits.h"
#include "common/split/layer_split.h"
#include "proto/common.pb-c.h"

#define CTL_NAME            "sluicectl"
#define CTL_DEFAULT_ROUTER  "tcp://127.0.0.1:7071"
#define CTL_INPUT_BYTES_MAX (8u << 20) /* read from standard input */
#define PLAN_LENGTHS_MAX    16

enum ctl_exit {
    CTL_OK = 0,
    CTL_FAILED = 1,
    CTL_USAGE = 2,
    CTL_NO_ROUTER = 3,
    CTL_NO_ROOM = 4,
    CTL_INTERRUPTED = 130
};

/* What every verb takes. */
#define CTL_COMMON(X)                                                       \
    X(router, STRING, "ENDPOINT", NULL,                                     \
      "of the router; else $SLUICE_ROUTER, else\n"                          \
      "                             " CTL_DEFAULT_ROUTER,                   \
      0, 0)                                                                 \
    X(timeout, MS, "TIME", NULL,                                            \
      "how long to wait for an answer (5s),\n"                              \
      "                             for a receipt (10s)",                   \
      1, 86400000)                                                          \
    X(json, FLAG, NULL, NULL, "print JSON", 0, 0)                           \
    X(help, FLAG, NULL, NULL, "print help, with a verb on that verb", 0, 0) \
    X(version, FLAG, NULL, NULL, "print the version", 0, 0)                 \
    X(limits, FLAG, NULL, NULL, "print every limit", 0, 0)

#define CTL_MODEL(X) \
    X(model, STRING, "NAME", NULL, "the model, where there are several", 0, 0)

#define CTL_TEXT(X)                                           \
    X(parse_special, FLAG, NULL, NULL,                        \
      "control tokens spelt in the text count as such", 0, 0) \
    X(raw, FLAG, NULL, NULL,                                  \
      "text as it is: nothing escaped for a terminal,\n"      \
      "                             no newline added",        \
      0, 0)

#define CTL_DECODE(X) \
    X(decode, FLAG, NULL, NULL, "the other way: ids to text", 0, 0)

#define CTL_DRAIN(X)                                                          \
    X(grace, MS, "SECONDS", "30", "what runs longer moves to another worker", \
      0, 3600000)                                                             \
    X(now, FLAG, NULL, NULL, "all that runs moves at once: --grace 0", 0, 0)

#define CTL_SAMPLING(X)                                                        \
    X(temperature, F64, "T", "1", "0 is greedy", 0, TEMPERATURE_MAX)           \
    X(top_k, U32, "K", "0", "choose among the K likeliest, 0: all", 0, 0)      \
    X(top_p, F64, "P", "1", "choose among the likeliest of this share", 0, 1)  \
    X(min_p, F64, "P", "0",                                                    \
      "choose among those with this share of the\n"                            \
      "                             likeliest's probability, 0: all",          \
      0, 1)                                                                    \
    X(repetition_penalty, F64, "R", "1",                                       \
      "tokens of prompt and text: logits are divided\n"                        \
      "                             by R, those below 0 multiplied, 1: none",  \
      0.01, REPETITION_PENALTY_MAX)                                            \
    X(presence_penalty, F64, "P", "0",                                         \
      "tokens of the text: logits less P; below 0:\n"                          \
      "                             they come more often",                     \
      -PENALTY_MAX, PENALTY_MAX)                                               \
    X(frequency_penalty, F64, "P", "0",                                        \
      "the same, less P for each time it came", -PENALTY_MAX, PENALTY_MAX)     \
    X(logit_bias, LIST, "ID=BIAS", NULL,                                       \
      "added to a token's logit, -100..100;\n"                                 \
      "                             ID=BIAS,ID=BIAS,... too",                  \
      0, 0)                                                                    \
    X(seed, STRING, "N", NULL, "the same seed gives the same text (drawn)", 0, \
      0)

#define CTL_GENERATE(X)                                                        \
    X(max_tokens, U32, "N", NULL, "tokens to generate at most", 1,             \
      4294967295.0)                                                            \
    X(n, U32, "N", "1", "choices of one prompt", 1, CHOICES_MAX)               \
    X(stop, LIST, "TEXT", NULL,                                                \
      "end where this text comes, without it;\n"                               \
      "                             \\n \\t \\r \\\\ are read as in C",        \
      0, STOP_STRINGS_MAX)                                                     \
    X(stop_token, LIST, "ID", NULL, "end with this token; ID,ID,... too", 0,   \
      STOP_TOKENS_MAX)                                                         \
    X(ignore_eos, FLAG, NULL, NULL, "go on past the end token", 0, 0)          \
    X(logprobs, FLAG, NULL, NULL,                                              \
      "each token's log probability, as a table on\n"                          \
      "                             stderr after the text",                    \
      0, 0)                                                                    \
    X(top_logprobs, U32, "K", "0", "and of the K likeliest", 0,                \
      TOP_LOGPROBS_MAX)                                                        \
    X(ids, FLAG, NULL, NULL, "the prompt is ids, and ids are printed", 0, 0)   \
    X(deadline, MS, "TIME", NULL, "give up after this long", 1, 86400000)      \
    X(keep_ms, U32, "MS", "0", "hold the memory this long after the end", 0,   \
      600000)                                                                  \
    X(no_resume, FLAG, NULL, NULL, "end when the connection breaks", 0, 0)     \
    X(resume_seconds, U32, "N", "30",                                          \
      "else look for the next router this long", 1, 86400)                     \
    X(request_id, STRING, "ID", NULL, "its name, 32 hex digits (drawn)", 0, 0) \
    X(figures, FLAG, NULL, NULL,                                               \
      "time to first token, tokens per second, blocks\n"                       \
      "                             and slots held and given back; on stderr", \
      0, 0)                                                                    \
    X(quiet, FLAG, NULL, NULL, "no receipt on standard error", 0, 0)

#define CTL_PLAN(X)                                                            \
    X(workers, LIST, "NAME=SIZE", NULL,                                        \
      "a worker and its memory; NAME=SIZE@SPEED where\n"                       \
      "                             some are faster; ...,NAME=SIZE too",       \
      0, 0)                                                                    \
    X(stages, U32, "N", NULL, "of these workers, the N best (all)", 1,         \
      STAGES_MAX)                                                              \
    X(in_order, FLAG, NULL, NULL, "workers stand in the order given", 0, 0)    \
    X(lengths, LIST, "N", NULL,                                                \
      "count sequences of N tokens; N,N,... too\n"                             \
      "                             (1024, 4096, ... and the context)",        \
      0, 0)                                                                    \
    X(context, U32, "N", NULL, "longest sequence (what the model allows)", 1,  \
      MODEL_CONTEXT_MAX)                                                       \
    X(block_tokens, U32, "N", "32", "tokens of a KV block", 1, 64)             \
    X(kv_dtype, STRING, "DTYPE", "auto", "of the KV cache: auto or f32", 0, 0) \
    X(max_rows, U32, "N", "64", "sequences in a step", 1, 512)                 \
    X(scratch, BYTES, "SIZE", NULL,                                            \
      "of the largest step, at each worker (estimated)", 0, 0)

#define CTL_QUANTISE(X)                                 \
    X(bits, U32, "N", "4", "of a weight: 4 or 8", 4, 8) \
    X(group, U32, "N", "64",                            \
      "weights that share a scale and a bias: 32, 64\n" \
      "                             or 128",            \
      MODEL_GROUP_MIN, MODEL_GROUP_MAX)

/* Of all verbs; each verb's rows say which of them it takes. */
struct ctl_options {
    CTL_COMMON(OPTION_FIELD)
    CTL_MODEL(OPTION_FIELD)
    CTL_TEXT(OPTION_FIELD)
    CTL_DECODE(OPTION_FIELD)
    CTL_DRAIN(OPTION_FIELD)
    CTL_SAMPLING(OPTION_FIELD)
    CTL_GENERATE(OPTION_FIELD)
    CTL_PLAN(OPTION_FIELD)
    CTL_QUANTISE(OPTION_FIELD)
};

struct ctl {
    struct ctl_options o;
    struct client *client; /* NULL until ctl_open() */
    int n_operands;
    char **operands; /* [n_operands] what stands after the verb */
};

typedef int ctl_verb_fn(struct ctl *c);

int ctl_generate(struct ctl *c);
int ctl_status(struct ctl *c);
int ctl_workers(struct ctl *c);
int ctl_sequences(struct ctl *c);
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
int ctl_tokenize(struct ctl *c);
int ctl_detokenize(struct ctl *c);

/* CTL_OK, or the sentence is printed and the result is the exit code. */
int ctl_open(struct ctl *c);

/* Say what went wrong (one JSON object with --json); the exit code. */
int ctl_fail(const struct ctl *c, enum status status, const char *text,
             uint32_t retry_after_ms);

/* A mistake of the caller's, found here: says it; CTL_USAGE. */
int ctl_misuse(const struct ctl *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Open, call, hand the reply to print; the exit code. */
int ctl_call(struct ctl *c, enum method m, const ProtobufCMessage *request,
             client_reply_fn *print, void *arg);

/* Write out what was printed; false: some of it is lost, now or before. */
bool ctl_flush(void);

/* The last of all: flush, or say why not.  rc, or what is to be instead. */
int ctl_end_output(int rc);

/* Print and free j: one line. */
void ctl_print_json(json_t *j);

/* What a peer calls itself, escaped, in a small ring of buffers. */
const char *ctl_name(ProtobufCBinaryData name);

/* The text of a verb: its operands with blanks between, or all of standard
 * input if there are none.  NULL: said why.  *text is the caller's. */
char *ctl_text(const struct ctl *c, size_t *n);

/* The ids of a verb in the same way: decimal numbers with blanks, commas or
 * brackets between them.  false: said why. */
bool ctl_ids(const struct ctl *c, uint32_t **ids, size_t *n);

/* "was decode, 17 tokens generated; 4 blocks and 1 slot given back in 3 ms" */
void ctl_print_receipt(FILE *to, const struct client_receipt *r);
json_t *ctl_json_receipt(const struct client_receipt *r);

/* What the router says of one worker. */
struct ctl_worker {
    bool found;
    uint32_t n_sequences;
    Sluice__V1__ClassLedger blocks, slots;
};

/* Look for it through all pages of ListWorkers. */
enum status ctl_find_worker(const struct ctl *c, const char *name,
                            struct ctl_worker *out);

/* Where Ctrl-C and SIGTERM go; NULL: they end the program, as at first. */
void ctl_catch_interrupt(struct client *client);

#endif
