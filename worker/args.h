/* args.h - the options of sluice-worker, and what follows from them alone.
 *
 * Threading: none.  Memory: strings are those of argv. */
#ifndef WORKER_ARGS_H
#define WORKER_ARGS_H

#include "common/base/option.h"
#include "common/split/layer_split.h"
#include "worker/worker_core.h"

#define WORKER_OPTIONS(X)                                                      \
    X(model, STRING, "DIR", NULL,                                              \
      "the model: config.json, *.safetensors, tokenizer.json", 0, 0)           \
    X(router, STRING, "ENDPOINT", "tcp://127.0.0.1:7070",                      \
      "the router's port for workers", 0, 0)                                   \
    X(name, STRING, "NAME", NULL, "its own name (HOST-PID)", 0, 0)             \
    X(model_name, STRING, "NAME", NULL,                                        \
      "what clients call the model (DIR's last part)", 0, 0)                   \
    X(device, STRING, "NAME", "cpu",                                           \
      "where it computes: cpu, opencl (the first GPU), or an OpenCL device "   \
      "by number or part of its name; list prints them",                       \
      0, 0)                                                                    \
    X(memory, STRING, "SIZE", NULL,                                            \
      "weights, scratch and pool: 4GiB, or 0.5 of what is available (the "     \
      "CPU: 64 whole contexts, 0.25 of it at most; a GPU: 0.9 of it)",         \
      0, 0)                                                                    \
    X(context, U32, "N", "0", "longest sequence (what the model allows)", 0,   \
      MODEL_CONTEXT_MAX)                                                       \
    X(block_tokens, U32, "N", "32", "tokens of a KV block", 1,                 \
      SHARD_BLOCK_TOKENS_MAX)                                                  \
    X(kv_dtype, STRING, "DTYPE", "auto", "of the KV cache: auto or f32", 0, 0) \
    X(threads, U32, "N", "0", "that compute (the CPUs it may run on)", 0, 256) \
    X(pin, FLAG, NULL, NULL,                                                   \
      "each of them to a CPU of its own, which nobody else computes on", 0, 0) \
    X(kernel_cache, STRING, "DIR", NULL,                                       \
      "built OpenCL programs; \"\" keeps none (the user's cache)", 0, 0)       \
    X(portable, FLAG, NULL, NULL,                                              \
      "no OpenCL kernels made for one maker's devices", 0, 0)                  \
    X(profile, FLAG, NULL, NULL,                                               \
      "at the end, print where an OpenCL device's time went", 0, 0)            \
    X(max_rows, U32, "N", "64", "sequences in a step", 1, PLAN_ROWS_MAX)       \
    X(step_tokens, U32, "N", "512", "tokens in a step", 1, PLAN_TOKENS_MAX)    \
    X(chunk_tokens, U32, "N", "256",                                           \
      "prompt tokens of one sequence in a "                                    \
      "step",                                                                  \
      1, PLAN_TOKENS_MAX)                                                      \
    X(engine_depth, U32, "N", "0",                                             \
      "plans in flight: 1 or 2 (1; of an OpenCL device 2)", 0,                 \
      ENGINE_DEPTH_MAX)                                                        \
    X(layers, STRING, "A-B", NULL,                                             \
      "the shard: layers A to B - 1, counted from 0 (all)", 0, 0)              \
    X(stages, U32, "N", NULL,                                                  \
      "be one of the N stages of a replica; the router says which layers", 1,  \
      STAGES_MAX)                                                              \
    X(stage_listen, STRING, "ENDPOINT", NULL,                                  \
      "where the stage before it connects to, of a worker of some layers "     \
      "(tcp://127.0.0.1:0, a free port)",                                      \
      0, 0)                                                                    \
    X(stage_advertise, STRING, "ENDPOINT", NULL,                               \
      "how that one reaches it, through a tunnel (as it listens)", 0, 0)       \
    X(grace, MS, "SECONDS", "30",                                              \
      "on SIGTERM: what runs longer moves to another worker", 0, GRACE_MS_MAX) \
    X(check, STRING, "DIR", NULL,                                              \
      "say whether and how a model would load, and exit", 0, 0)                \
    X(log_level, STRING, "LEVEL", "warn", "debug, info, warn, error or off",   \
      0, 0)                                                                    \
    X(limits, FLAG, NULL, NULL, "print all limits and exit", 0, 0)             \
    X(list_metrics, FLAG, NULL, NULL, "print what is counted and exit", 0, 0)  \
    X(version, FLAG, NULL, NULL, "print the version and exit", 0, 0)           \
    X(help, FLAG, NULL, NULL, "print this and exit", 0, 0)

struct worker_args {
    WORKER_OPTIONS(OPTION_FIELD)
};

/* An OpenCL device has two plans in flight unless told otherwise: while it
 * computes one, the other is made ready, and it never waits for this thread.
 * Two on the processors would only make newcomers wait for longer. */
MUST_CHECK enum status args_parse(struct worker_args *a, int argc, char **argv,
                                  struct error *e);

/* True if they asked for a text and nothing else, which is printed then. */
bool args_print(const struct worker_args *a);

/* What can be said without the model; ST_INVALID_ARGUMENT: a sentence. */
MUST_CHECK enum status args_check(const struct worker_args *a, struct error *e);

/* "0-12": layers 0 to 11. */
MUST_CHECK enum status args_layers(const char *text, uint32_t *begin,
                                   uint32_t *end, struct error *e);

#endif
