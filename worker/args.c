#include "worker/args.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cpus.h"
#include "common/model/model_limits.h"
#include "common/model/sizes.h"
#include "common/sampling/sampling.h"
#include "common/scrape/scrape.h"
#include "kernels/backends/backend.h"
#include "kernels/kernels.h"
#include "kernels/opencl/host/device.h"
#include "worker/base/advertise.h"
#include "worker/base/metrics.h"
#include "worker/base/watch.h"
#include "worker/cache/logprobs.h"
#include "worker/cache/prefix.h"
#include "worker/plan/batch.h"
#include "worker/plan/drafts.h"
#include "worker/plan/ngram.h"
#include "worker/plan/prompt_share.h"
#include "worker/sequence/sequence.h"
#include "worker/sequences/ranges.h"
#include "worker/stages/assembly.h"
#include "worker/stages/keeps.h"
#include "worker/stages/leader.h"
#include "worker/stages/mirror.h"

static_assert(KERNELS_BLOCK_MAX == SHARD_BLOCK_TOKENS_MAX,
              "the router accepts every size of block that the kernels do");

static_assert(SIZES_SLOT_PAGES_MAX == POOL_EXTENT_MAX,
              "the pool holds every slot that a model is checked for");

typedef struct worker_args option_this;

static const struct option_row rows[] = {WORKER_OPTIONS(OPTION_ROW)};

/* Limits of common/ and of the model files are in tables of their own. */
static const struct limit_row worker_limits[] = {
    LIMIT_ROW(PLAN_ROWS_MAX, "", "sequences in a step"),
    LIMIT_ROW(PLAN_TOKENS_MAX, "tokens", "in a step"),
    LIMIT_ROW(PROMPT_SHARES, "plans", "until the oldest prompt has its share"),
    LIMIT_ROW(ITL_TARGET_MS_MAX, "ms", "of --itl-target"),
    LIMIT_ROW(ENGINE_DEPTH_MAX, "", "plans in flight"),
    LIMIT_ROW(WORKER_SEQUENCES_MAX, "", "sequences not yet forgotten"),
    LIMIT_ROW(WORKER_EOS_MAX, "tokens", "that end a sequence"),
    LIMIT_ROW(STAGE_CONNECTIONS_MAX, "", "connections at --stage-listen"),
    LIMIT_ROW(TOMBSTONES_MAX, "", "cancels that wait for their Submit"),
    LIMIT_ROW(ORPHAN_US, "us", "lifetime of an orphan, at most twice"),
    LIMIT_ROW(LEAVE_US, "us", "after --grace, wait for the router"),
    LIMIT_ROW(STEP_ROW_TOKENS_MAX, "tokens", "in a row of a StepOutput"),
    LIMIT_ROW(LOGPROB_WINDOW, "tokens", "with logprobs, unacknowledged"),
    LIMIT_ROW(REPORT_US, "us", "longest interval between reports"),
    LIMIT_ROW(ENGINE_STILL_US, "us", "without a tick: no new session"),
    LIMIT_ROW(ENGINE_DEAD_US, "us", "without a tick: exit code 5"),
    LIMIT_ROW(KERNELS_STEP_TOKENS_MAX, "tokens", "in a pass of the kernels"),
    LIMIT_ROW(KERNELS_KEEP_TOKENS_MAX, "tokens", "kept while drafts wait"),
    LIMIT_ROW(KERNELS_BLOCK_MAX, "tokens", "in a KV block"),
    LIMIT_ROW(KERNELS_HEAD_DIM_MAX, "", "dimensions of a head"),
    LIMIT_ROW(KERNELS_STATE_DIM_MAX, "", "key and value dimensions of a state"),
    LIMIT_ROW(KERNELS_GROUP_MAX, "", "query heads per key/value head"),
    LIMIT_ROW(KERNELS_EXPERTS_MAX, "experts", "in a layer"),
    LIMIT_ROW(KERNELS_TOP_K_MAX, "experts", "of a token in a layer"),
    LIMIT_ROW(KERNELS_CONV_MAX, "taps", "in a convolution"),
    LIMIT_ROW(EDGES_US, "us", "from Assemble until both edges are up"),
    LIMIT_ROW(KERNELS_THREADS_MAX, "", "compute threads"),
    LIMIT_ROW(POOL_EXTENT_MAX, "pages", "of a slot or checkpoint"),
    LIMIT_ROW(PREFIX_TENANTS_MAX, "", "tenants in the prefix index"),
    LIMIT_ROW(PREFIX_EVENTS_MAX, "", "events of the index, before a snapshot"),
    LIMIT_ROW(PREFIX_TAKEN_BACK_MAX, "", "checkpoints taken back, in plans"),
    LIMIT_ROW(SEQUENCE_WANTS_MAX, "", "checkpoints of a prompt"),
    LIMIT_ROW(PLAN_SAVES_MAX, "", "checkpoints that a row saves"),
    LIMIT_ROW(PLAN_COPIES_MAX, "", "copies of a plan"),
    LIMIT_ROW(BATCH_COPIES_MAX, "", "copies of a plan that is made here"),
    LIMIT_ROW(PLAN_BLOCKS_MAX, "blocks", "in the tables of a plan"),
    LIMIT_ROW(DRAFTS_PROBE, "rows", "without drafts between two probes"),
    LIMIT_ROW(DRAFTS_IDLE, "rows", "without drafts: the MTP layer may stop"),
    LIMIT_ROW(NGRAM_MIN, "tokens", "of a suffix that drafts follow, at least"),
    LIMIT_ROW(NGRAM_MAX, "tokens", "of a suffix that is compared"),
    LIMIT_ROW(NGRAM_WINDOW, "tokens", "that are searched for a suffix"),
    LIMIT_ROW(KEEPS_MAX, "rows", "with drafts, under way at several stages"),
    LIMIT_ROW(LOADS_MAX, "", "ranges removed before a plan"),
    LIMIT_ROW(POOL_SWAPS_MAX, "", "copies of a plan to and from the host tier"),
    LIMIT_ROW(SWAP_PAGES_MAX, "pages", "of a suspended sequence and its slot"),
    LIMIT_ROW(HOST_PAGES_MAX, "pages", "of the host tier"),
    LIMIT_ROW(EMPTY_KEPT_MAX, "", "kept sequences at position 0"),
    LIMIT_ROW(LEADER_NAMES_MAX, "", "nodes or checkpoints of a Keep or Gone"),
    LIMIT_ROW(KEEPS_MAX, "rows", "with drafts under way over the stages"),
    LIMIT_ROW(RESULT_VALUES_MAX, "values",
              "logprobs of a step over the stages"),
    LIMIT_ROW(MIRROR_BLOCKS_MAX, "blocks", "in the leader's account of stages"),
};
static const size_t worker_limits_n = OPTION_COUNT(worker_limits);

static const char usage[] =
    "usage: sluice-worker --model DIR [--layers A-B | --stages N] [options]\n"
    "       sluice-worker --check DIR [--memory SIZE] [--layers A-B]\n\n"
    "Serves a model, or some of its layers, to a router.\n\n";

static const char examples[] =
    "\nexamples:\n"
    "  sluice-worker --model models/tiny-hybrid\n"
    "  sluice-worker --model models/tiny-hybrid --memory 256MiB --threads 2\n"
    "  sluice-worker --model models/tiny-hybrid --stages 2   (and another)\n"
    "  sluice-worker --model models/tiny-hybrid --layers 0-4 (and 4-8)\n"
    "  sluice-worker --check models/tiny-hybrid --memory 1GiB\n"
    "  sluice-worker --check models/tiny-hybrid --layers 0-4\n\n"
    "On SIGTERM or SIGINT the worker drains: it accepts no new sequences, and\n"
    "exits when the running ones have finished or moved.  A second signal "
    "stops\n"
    "it at once.\n\n"
    "exit codes: 0 stopped by SIGTERM or SIGINT, 2 could not start,\n"
    "            5 the engine made no progress for 10 s: restart it,\n"
    "            6 the device failed: restart it\n";

const struct option_program args_program = {
    .name = "sluice-worker",
    .summary = "run a language model, or some of its layers, for a router",
    .role = "worker",
    .section = 8,
    .operand = "model",
    .usage = usage,
    .more = examples,
    .rows = rows,
    .n_rows = OPTION_COUNT(rows)};

const struct limit_table args_limits[] = {
    {sampling_limits, &sampling_limits_n, NULL},
    {base_limits, &base_limits_n, NULL},
    {worker_limits, &worker_limits_n, NULL},
    {model_limits, &model_limits_n, NULL},
    {scrape_limits, &scrape_limits_n, NULL},
    {NULL, NULL, NULL},
};

void args_list_metrics(FILE *to)
{
    metric_list(to, &worker_metrics_set);
    metric_list(to, &worker_steps_set);
    metric_list(to, &worker_sequences_set);
    metric_list(to, &worker_pools_set);
    metric_list(to, &worker_denials_set);
    metric_list(to, &worker_drafts_set);
    metric_list(to, &worker_costs_set);
}

/* The default depends on the device, so the table cannot hold it. */
void args_choose_depth(struct worker_args *a)
{
    if (a->engine_depth == 0) {
        a->engine_depth = strcmp(a->device, "cpu") == 0 ? 1 : ENGINE_DEPTH_MAX;
    }
}

bool args_on_gpu(const struct worker_args *a)
{
    struct opencl_device d;

    return strcmp(a->device, "cpu") != 0 &&
           opencl_device_find(&d, a->device, NULL) == ST_OK &&
           (d.type & CL_DEVICE_TYPE_CPU) == 0;
}

void args_choose_steps(struct worker_args *a, bool gpu)
{
    if (a->step_tokens == 0) {
        a->step_tokens = gpu ? STEP_TOKENS_GPU : STEP_TOKENS_CPU;
    }
    if (a->chunk_tokens == 0) {
        a->chunk_tokens = gpu ? CHUNK_TOKENS_GPU : CHUNK_TOKENS_CPU;
    }
}

uint32_t args_chunk(const struct worker_args *a)
{
    return a->chunk_tokens < a->step_tokens ? a->chunk_tokens : a->step_tokens;
}

bool args_int8(const struct worker_args *a)
{
    return a->products != NULL ? strcmp(a->products, "int8") == 0
                               : strcmp(a->device, "cpu") == 0;
}

void args_arithmetic(const struct worker_args *a, enum weight_format f,
                     char out[ARITHMETIC_SIZE])
{
    char text[sizeof(struct opencl_device)];
    struct opencl_device d;

    out[0] = '\0';
    if (strcmp(a->device, "cpu") == 0) {
        arithmetic_cpu(out, f, args_int8(a));
    } else if (opencl_device_find(&d, a->device, NULL) == ST_OK) {
        /* The compiler of the driver may order and contract operations. */
        snprintf(text, sizeof text, "%s\n%s\n%s\n%s\n%s", d.platform_name,
                 d.name, d.version, d.driver,
                 a->portable ? "portable" : "best");
        arithmetic_device(out, text);
    }
}

/* Checks what decides the arithmetic of the CPU. */
static enum status check_cpu(const struct worker_args *a, struct error *e)
{
    bool cpu = strcmp(a->device, "cpu") == 0;

    if (a->products != NULL && !args_int8(a) &&
        strcmp(a->products, "float") != 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--products %s: give int8 or float", a->products);
    }
    if (!cpu && (args_int8(a) || a->isa != NULL)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--device %s: only the CPU has %s; leave it out",
                         a->device,
                         a->isa != NULL ? "--isa" : "--products int8");
    }
    if (a->isa != NULL && !backend_has_isa(a->isa)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--isa %s: this processor or build has no such "
                         "kernels; give avx512, avx2 or generic",
                         a->isa);
    }
    return ST_OK;
}

struct costs_step args_step(const struct worker_args *a, uint32_t context)
{
    return (struct costs_step){.tokens = a->step_tokens,
                               .rows = a->max_rows,
                               .threads =
                                   a->threads > 0 ? a->threads : cpus_allowed(),
                               .logits = KERNELS_LOGIT_ROWS,
                               .plans = a->engine_depth + 1,
                               .block_tokens = a->block_tokens,
                               .context = context,
                               .keep_tokens = args_keep_tokens(a),
                               .opencl = strcmp(a->device, "cpu") != 0,
                               .int8 = args_int8(a)};
}

/* Reads a number of one digit. */
static bool read_drafts(const char *text, struct args_drafts *out)
{
    out->automatic = strcmp(text, "auto") == 0;
    out->most = DRAFTS_MAX;
    if (out->automatic) {
        return true;
    }
    out->most = (uint32_t)(text[0] - '0');
    return text[0] >= '0' && text[0] - '0' <= DRAFTS_MAX && text[1] == '\0';
}

static bool read_drafter(const char *text, struct args_drafts *out)
{
    static const char *const names[] = {[DRAFTER_AUTO] = "auto",
                                        [DRAFTER_MTP] = "mtp",
                                        [DRAFTER_NGRAM] = "ngram"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i]) == 0) {
            out->drafter = (enum worker_drafter)i;
            return true;
        }
    }
    return false;
}

enum status args_drafts(const struct worker_args *a, struct args_drafts *out,
                        struct error *e)
{
    if (!read_drafts(a->drafts, out)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--drafts %s: give 0 to %d, or auto", a->drafts,
                         DRAFTS_MAX);
    }
    return read_drafter(a->drafter, out)
               ? ST_OK
               : error_set(e, ST_INVALID_ARGUMENT,
                           "--drafter %s: give auto, mtp or ngram", a->drafter);
}

enum status args_itl(const struct worker_args *a,
                     struct worker_itl_options *out, struct error *e)
{
    uint64_t ms = 0;
    bool automatic = strcmp(a->itl_target, "auto") == 0;

    if (!automatic &&
        (!option_ms(a->itl_target, &ms) || ms > ITL_TARGET_MS_MAX)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--itl-target %s: give auto, or a time of 0 to %ds "
                         "such as 50ms",
                         a->itl_target, ITL_TARGET_MS_MAX / 1000);
    }
    *out = (struct worker_itl_options){.bounded = automatic || ms > 0,
                                       .target_us = (uint32_t)ms * 1000};
    return ST_OK;
}

uint32_t args_keep_tokens(const struct worker_args *a)
{
    struct args_drafts d;
    struct error e;

    return args_drafts(a, &d, &e) == ST_OK
               ? costs_keep_tokens(d.most, a->max_rows)
               : 0;
}

enum status args_layers(const char *text, uint32_t *begin, uint32_t *end,
                        struct error *e)
{
    char *at = "";
    unsigned long long a = 0, b = 0;

    /* strtoull() alone would accept a sign and leading space. */
    if (text[0] >= '0' && text[0] <= '9') {
        a = strtoull(text, &at, 10);
    }
    if (at[0] == '-' && at[1] >= '0' && at[1] <= '9') {
        b = strtoull(at + 1, &at, 10);
    }
    if (at[0] != '\0' || a >= b || b > UINT32_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--layers %s: give A-B with A < B; 0-12 are layers "
                         "0 to 11",
                         text);
    }
    *begin = (uint32_t)a;
    *end = (uint32_t)b;
    return ST_OK;
}

struct kv_request args_kv(const struct worker_args *a)
{
    return (struct kv_request){.dtype = a->kv_dtype,
                               .scheme = a->kv_scheme,
                               .bits = a->kv_bits,
                               .group = a->kv_group};
}

enum status args_check(const struct worker_args *a, struct error *e)
{
    struct args_drafts drafts;
    struct worker_itl_options itl;

    if ((a->block_tokens & (a->block_tokens - 1)) != 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--block-tokens %u: give 1, 2, 4, 8, 16, 32 or 64",
                         a->block_tokens);
    }
    if (a->model == NULL && a->check == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--model DIR is missing; see --help");
    }
    if (args_drafts(a, &drafts, e) != ST_OK || args_itl(a, &itl, e) != ST_OK ||
        check_cpu(a, e) != ST_OK) {
        return e->code;
    }
    if (a->stages > 0 && a->layers != NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--stages lets the router assign layers, --layers "
                         "does not: give one of the two");
    }
    if (a->advertise != NULL &&
        advertise_check(a->advertise, a->key != NULL, e) != ST_OK) {
        return e->code;
    }
    if (a->name != NULL &&
        (a->name[0] == '\0' || strlen(a->name) > PEER_NAME_MAX)) {
        return error_set(e, ST_INVALID_ARGUMENT, "--name: give 1 to %d bytes",
                         PEER_NAME_MAX);
    }
    return ST_OK;
}
