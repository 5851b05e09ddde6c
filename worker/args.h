/* args.h - The options of sluice-worker, and the checks that need no model.
 *
 * Threading: none.  Memory: strings point into argv and the sources. */
#ifndef WORKER_ARGS_H
#define WORKER_ARGS_H

#include "common/base/limit.h"
#include "common/base/log_output.h"
#include "common/base/option.h"
#include "common/base/option_sources.h"
#include "common/model/arithmetic.h"
#include "common/model/costs.h"
#include "common/model/kv_format.h"
#include "common/split/layer_split.h"
#include "common/wire/curve_keys.h"
#include "worker/worker_core.h"

/* Connections at --stage-listen, where one stage connects at a time. */
#define STAGE_CONNECTIONS_MAX 64

#define WORKER_OPTIONS(X)                                                      \
    X(model, STRING, "DIR", NULL,                                              \
      "directory of the model: config.json, *.safetensors, tokenizer.json; "   \
      "or a GGUF file; also -m DIR, or DIR alone",                             \
      0, 0)                                                                    \
    X(router, STRING, "ENDPOINT", "tcp://127.0.0.1:7070",                      \
      "the router's port for workers", 0, 0)                                   \
    X(name, STRING, "NAME", NULL, "name of the worker (default: HOST-PID)", 0, \
      0)                                                                       \
    CURVE_KEYS_OPTIONS(X)                                                      \
    X(model_name, STRING, "NAME", NULL,                                        \
      "model name for clients (default: the last part of DIR)", 0, 0)          \
    X(device, STRING, "NAME", "cpu",                                           \
      "compute device: cpu, opencl (the first GPU), opencl:N (GPU N, from "    \
      "0), or the number or part of the name of an OpenCL device; list "       \
      "prints them",                                                           \
      0, 0)                                                                    \
    X(memory, STRING, "SIZE", NULL,                                            \
      "weights, scratch and pool: a size such as 4GiB or a share of the "      \
      "available memory such as 0.5 (default: on the CPU 64 whole contexts, "  \
      "at most 0.25; on a GPU 0.9)",                                           \
      0, 0)                                                                    \
    X(host_memory, STRING, "SIZE", "0",                                        \
      "pinned memory of the host for evicted prefixes and for suspended and "  \
      "kept sequences, beside --memory: a size such as 16GiB",                 \
      0, 0)                                                                    \
    X(context, U32, "N", NULL,                                                 \
      "longest sequence in tokens (default: the model's limit)", 0,            \
      MODEL_CONTEXT_MAX)                                                       \
    X(block_tokens, U32, "N", "32", "tokens in a KV block", 1,                 \
      SHARD_BLOCK_TOKENS_MAX)                                                  \
    KV_OPTIONS(X)                                                              \
    X(threads, U32, "N", NULL, "compute threads (default: all CPUs)", 0, 256)  \
    X(pin, FLAG, NULL, NULL, "one exclusive CPU for each compute thread", 0,   \
      0)                                                                       \
    X(products, STRING, "int8|float", NULL,                                    \
      "products of quantised weights on the CPU; int8 rounds operands to 8 "   \
      "bits, and is faster (default: int8; on an OpenCL device float)",        \
      0, 0)                                                                    \
    X(isa, STRING, "NAME", NULL,                                               \
      "instruction set on the CPU: avx512, avx2 or generic (default: the "     \
      "best)",                                                                 \
      0, 0)                                                                    \
    X(kernel_cache, STRING, "DIR", NULL,                                       \
      "cache of built OpenCL programs, \"\" for none (default: the user's "    \
      "cache)",                                                                \
      0, 0)                                                                    \
    X(portable, FLAG, NULL, NULL, "portable OpenCL kernels only", 0, 0)        \
    X(profile, FLAG, NULL, NULL,                                               \
      "at the end, a profile of the OpenCL device's time", 0, 0)               \
    X(max_rows, U32, "N", "64", "sequences in a step", 1, PLAN_ROWS_MAX)       \
    X(slots, U32, "N", NULL,                                                   \
      "most slots, and so sequences that hold memory, at once (default: "      \
      "--max-rows)",                                                           \
      0, WORKER_SEQUENCES_MAX)                                                 \
    X(no_reuse, FLAG, NULL, NULL, "keep and reuse no computed prefixes", 0, 0) \
    X(cache_checkpoints, F64, "SHARE", "1",                                    \
      "most of the pool for saved states of prefixes, as a share", 0, 1)       \
    X(cache_tenant, F64, "SHARE", "1",                                         \
      "most of the pool for the prefixes of one tenant, as a share", 0, 1)     \
    X(step_tokens, U32, "N", NULL,                                             \
      "tokens in a step (default: 512 on a CPU, 2048 on a GPU)", 1,            \
      PLAN_TOKENS_MAX)                                                         \
    X(chunk_tokens, U32, "N", NULL,                                            \
      "prompt tokens of one sequence in a step (default: 256 on a CPU, 1024 "  \
      "on a GPU)",                                                             \
      1, PLAN_TOKENS_MAX)                                                      \
    X(itl_target, STRING, "TIME|auto", "auto",                                 \
      "longest step while sequences decode, which bounds the time between "    \
      "tokens, such as 50ms; 0: none; auto: as short as costs prompts at "     \
      "most 1/16 of their speed",                                              \
      0, 0)                                                                    \
    X(engine_depth, U32, "N", NULL,                                            \
      "plans in flight, 1 or 2 (default: 1 on the CPU, 2 on a GPU)", 0,        \
      ENGINE_DEPTH_MAX)                                                        \
    X(drafts, STRING, "N|auto", "0",                                           \
      "drafts of a sequence in a step, 0 to 8, or auto: as many as pay", 0, 0) \
    X(drafter, STRING, "NAME", "auto",                                         \
      "source of drafts: mtp, ngram, or auto: the model's MTP layer if it "    \
      "has "                                                                   \
      "one, else the text itself",                                             \
      0, 0)                                                                    \
    X(layers, STRING, "A-B", NULL,                                             \
      "layers A to B - 1 of the model, counted from 0 (default: all)", 0, 0)   \
    X(stages, U32, "N", NULL,                                                  \
      "number of stages in the replica; the router assigns the layers", 1,     \
      STAGES_MAX)                                                              \
    X(stage_listen, STRING, "ENDPOINT", NULL,                                  \
      "port for the previous stage (default: tcp://127.0.0.1:0, a free port)", \
      0, 0)                                                                    \
    X(advertise, STRING, "HOST[:PORT]", NULL,                                  \
      "host, or whole endpoint, at which the previous stage reaches that "     \
      "port (default: as it listens; of [::] this machine's address)",         \
      0, 0)                                                                    \
    X(grace, MS, "TIME", "30s",                                                \
      "grace period on SIGTERM; longer sequences move to other workers", 0,    \
      GRACE_MS_MAX)                                                            \
    X(check, STRING, "DIR", NULL,                                              \
      "check whether a model would load, print its sizes and exit", 0, 0)      \
    X(metrics, STRING, "HOST:PORT", NULL,                                      \
      "loopback address of http://HOST:PORT/metrics (default: none)", 0, 0)    \
    X(metrics_anyone, FLAG, NULL, NULL,                                        \
      "any address for --metrics, whose readers need no key", 0, 0)            \
    LOG_OPTIONS(X)                                                             \
    CONFIG_OPTIONS(X, "worker")                                                \
    X(limits, FLAG, NULL, NULL, "print all limits and exit", 0, 0)             \
    X(list_metrics, FLAG, NULL, NULL, "print all metrics and exit", 0, 0)      \
    X(version, FLAG, NULL, NULL, "print the version and exit", 0, 0)           \
    X(help, FLAG, NULL, NULL, "print this text and exit", 0, 0)

struct worker_args {
    WORKER_OPTIONS(OPTION_FIELD)
};

extern const struct option_program args_program;

/* The tables of --limits. */
extern const struct limit_table args_limits[];

/* Prints the metrics of --list-metrics. */
void args_list_metrics(FILE *to);

/* Sets --engine-depth, if it is not given, by the device.
 *
 * By default an OpenCL device has two plans in flight: while it computes one,
 * the other is prepared, so the device never waits for this thread.  On the CPU
 * a second plan would only delay new sequences. */
void args_choose_depth(struct worker_args *a);

/* Returns whether --device names a GPU or an accelerator.  An OpenCL device
 * that is a CPU is neither, nor is one that does not exist: the backend reports
 * that later. */
bool args_on_gpu(const struct worker_args *a);

/* The values of --drafts and --drafter. */
struct args_drafts {
    uint32_t most; /* drafts of a sequence in a step; 0: none */
    bool automatic;
    enum worker_drafter drafter;
};

/* Reads both.  Returns ST_INVALID_ARGUMENT with the option, the value and what
 * is allowed. */
MUST_CHECK enum status args_drafts(const struct worker_args *a,
                                   struct args_drafts *out, struct error *e);

/* Reads --itl-target.  Returns ST_INVALID_ARGUMENT with the value and what is
 * allowed. */
MUST_CHECK enum status args_itl(const struct worker_args *a,
                                struct worker_itl_options *out,
                                struct error *e);

/* Returns the tokens whose inputs are kept for drafts.  The options are valid.
 */
uint32_t args_keep_tokens(const struct worker_args *a);

/* Sets the tokens of steps and chunks that the options leave open. */
void args_choose_steps(struct worker_args *a, bool gpu);

/* Returns whether quantised weights have integer products, the default on the
 * CPU. */
bool args_int8(const struct worker_args *a);

/* Writes the arithmetic id of a worker with these options, for a model whose
 * quantised weights have the format f: "" if there is no such device. */
void args_arithmetic(const struct worker_args *a, enum weight_format f,
                     char out[ARITHMETIC_SIZE]);

/* Returns the largest step that the options allow, for a model of that
 * context, but for the dtype of kept inputs.  Its threads are those of the
 * options, or all CPUs. */
struct costs_step args_step(const struct worker_args *a, uint32_t context);

/* Returns the most tokens of a sequence in a step. */
uint32_t args_chunk(const struct worker_args *a);

/* Returns the options of the KV cache. */
struct kv_request args_kv(const struct worker_args *a);

/* Checks what does not depend on the model.  Returns ST_INVALID_ARGUMENT with
 * the option, the value and what is allowed. */
MUST_CHECK enum status args_check(const struct worker_args *a, struct error *e);

/* Parses "0-12" as layers 0 to 11.  Returns ST_INVALID_ARGUMENT if text is not
 * of that form. */
MUST_CHECK enum status args_layers(const char *text, uint32_t *begin,
                                   uint32_t *end, struct error *e);

#endif
