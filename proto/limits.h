/* limits.h - Limits that both ends of the wire share.
 *
 * Each limit is defined once, here.  The loader of models, the router, the
 * worker, the client and the text library use these names, so a model that
 * loads is also accepted by the router.  Limits of one program alone stay with
 * that program.  Each limit has a test at the limit and one past it.
 *
 * The header depends on no other header of the project.
 * common/wire/wire_limits.h exports the rows for --limits.
 *
 * Threading: constant data. */
#ifndef PROTO_LIMITS_H
#define PROTO_LIMITS_H

#include <stdint.h>

/* X(name, value, unit, what it bounds) */
#define PROTO_LIMITS(X)                                                       \
    /* frames and calls */                                                    \
    X(FRAME_BYTES_MAX, 2 << 20, "bytes", "a frame without its tensor")        \
    X(FRAME_TENSOR_MAX, 64 << 20, "bytes", "the tensor of a frame")           \
    X(FRAME_ENVELOPES_MAX, 1024, "", "envelopes of a frame")                  \
    X(PEER_CALLS_MAX, 1024, "calls", "open calls each way with one peer")     \
    /* names */                                                               \
    X(PEER_NAME_MAX, 64, "bytes", "the name or lineage of a peer")            \
    X(KEY_NAME_MAX, 32, "bytes", "the name of a key")                         \
    X(MODEL_NAME_MAX, 128, "bytes", "a model's name")                         \
    X(TENANT_NAME_MAX, 64, "bytes", "a tenant's name")                        \
    X(ROUTE_NAME_MAX, 32, "bytes", "the route of a request")                  \
    X(KV_FORMAT_MAX, 31, "bytes", "the name of a worker's KV format")         \
    X(ARITHMETIC_MAX, 31, "bytes", "a worker's arithmetic id")                \
    X(SHARD_DEVICE_MAX, 128, "bytes", "the name of a worker's device")        \
    X(CACHE_SALT_MAX, 64, "bytes", "the cache_salt of a request")             \
    X(ENDPOINT_MAX, 256, "bytes", "an endpoint, with its NUL")                \
    /* models and shards */                                                   \
    X(MODEL_LAYERS_MAX, 512, "layers", "a model")                             \
    X(MODEL_HIDDEN_MAX, 65536, "", "a model's hidden size")                   \
    X(MODEL_VOCAB_MAX, 1048576, "tokens", "a vocabulary; ids are smaller")    \
    X(MODEL_CONTEXT_MAX, 4194304, "tokens", "a sequence")                     \
    X(MODEL_EOS_MAX, 16, "tokens", "end-of-sequence ids of a model")          \
    X(STAGES_MAX, 16, "stages", "a replica")                                  \
    X(SHARD_BLOCK_TOKENS_MAX, 64, "tokens", "a block, whose size divides it") \
    X(SHARD_PAGES_MAX, 65536, "pages", "a block, slot or checkpoint")         \
    X(SHARD_CLASS_MAX, 1073741824, "", "blocks, slots, checkpoints or pages") \
    /* steps and sequences of a worker */                                     \
    X(STEP_ROWS_MAX, 512, "rows", "a step, and a StepOutput")                 \
    X(STEP_TOKENS_MAX, 8192, "tokens", "a step, and a StepOutput")            \
    X(DRAFTS_MAX, 8, "tokens", "drafts of a sequence in a step")              \
    X(STEP_LOGPROBS_MAX, 16384, "values", "logprobs of a StepOutput")         \
    X(SUBMIT_IDS_MAX, 12288, "tokens", "ids of a Submit or SubmitPart")       \
    X(OPEN_IDS_MAX, 8192, "tokens", "ids of an Open or OpenPart")             \
    X(INDEX_EVENTS_MAX, 1024, "events", "an Index message")                   \
    X(SPANS_MAX, 128, "", "runs of prompt and generated ids in a prompt")     \
    X(LIVE_ROWS_MAX, 2048, "rows", "a Live or Disown")                        \
    X(WORKER_ORPHANS_MAX, 4096, "", "sequences that outlive a session")       \
    X(KEEP_MS_MAX, 600000, "ms", "the time that a sequence is kept")          \
    X(GRACE_MS_MAX, 3600000, "ms", "the grace of a Drain or Leave")           \
    /* requests of a client */                                                \
    X(CHOICES_MAX, 64, "", "choices of a request")                            \
    X(GENERATE_MAX_TOKENS, 256, "tokens",                                     \
      "a choice, if the request sets none")                                   \
    X(LOGIT_BIASES_MAX, 1024, "tokens", "tokens with a bias in a request")    \
    X(STOP_TOKENS_MAX, 64, "tokens", "stop tokens of a request")              \
    X(STOP_STRINGS_MAX, 16, "", "stop strings of a request")                  \
    X(STOP_STRING_BYTES_MAX, 256, "bytes", "a stop string")                   \
    X(TOP_LOGPROBS_MAX, 20, "", "best candidates with each token")            \
    X(CHUNK_TOKENS_MAX, 4096, "tokens", "a GenerateChunk")                    \
    X(CHUNK_TEXT_MAX, 65536, "bytes", "text after which a chunk is closed")   \
    X(CHUNK_LOGPROBS_MAX, 4096, "values", "logprobs of a GenerateChunk")      \
    X(LIST_ROWS_MAX, 64, "rows", "a page of a listing")                       \
    X(LIST_WORKERS_MAX, 32, "rows", "a page of workers")

enum proto_limit {
#define X(name, value, unit, what) name = (value),
    PROTO_LIMITS(X)
#undef X
};

/* Bytes of any part of a shard or of a worker's memory: 1 PiB.  The value does
 * not fit an enumerator. */
#define SHARD_BYTES_MAX (UINT64_C(1) << 50)

#endif
