/* sluice-worker: options, weights, engine, pool, the loop. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/failpoint.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/loop.h"
#include "common/model/sizes.h"
#include "common/option.h"
#include "kernels/canary.h"
#include "kernels/opencl/device.h"
#include "text/tokenizer.h"
#include "worker/budget.h"
#include "worker/cache/logprobs.h"
#include "worker/core.h"
#include "worker/engine_thread.h"
#include "worker/metrics.h"
#include "worker/model/check.h"
#include "worker/model/progress.h"
#include "worker/model/shard.h"
#include "worker/watch.h"

#define EXIT_SETUP     2
#define EXIT_ENGINE    5
#define EXIT_DEVICE    6
#define DEVICE_SHARE   "0.9" /* of a GPU's memory, by default */
#define NAME_MAX_BYTES 64    /* as Hello allows */
#define MIB            (1024.0 * 1024.0)

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
      "weights, scratch and pool: 4GiB, or 0.5 of what is available (a GPU: "  \
      "0.9 of it)",                                                            \
      0, 0)                                                                    \
    X(context, U32, "N", "0", "longest sequence (what the model allows)", 0,   \
      16777216)                                                                \
    X(block_tokens, U32, "N", "32", "tokens of a KV block", 1, 64)             \
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
    X(engine_depth, U32, "N", "1", "plans in flight", 1, ENGINE_DEPTH_MAX)     \
    X(layers, STRING, "A-B", NULL,                                             \
      "the shard: layers A to B - 1, counted from 0 (all)", 0, 0)              \
    X(grace, MS, "SECONDS", "30",                                              \
      "on SIGTERM: what runs longer moves to another worker", 0,               \
      LEAVE_GRACE_MS_MAX)                                                      \
    X(check, STRING, "DIR", NULL,                                              \
      "say whether and how a model would load, and exit", 0, 0)                \
    X(log_level, STRING, "LEVEL", "warn", "debug, info, warn, error or off",   \
      0, 0)                                                                    \
    X(limits, FLAG, NULL, NULL, "print all limits and exit", 0, 0)             \
    X(list_metrics, FLAG, NULL, NULL, "print what is counted and exit", 0, 0)  \
    X(version, FLAG, NULL, NULL, "print the version and exit", 0, 0)           \
    X(help, FLAG, NULL, NULL, "print this and exit", 0, 0)

OPTION_TABLE(worker_args, WORKER_OPTIONS);

static const struct limit_row worker_limits[] = {
    LIMIT_ROW(PLAN_ROWS_MAX, "", "sequences in a step"),
    LIMIT_ROW(PLAN_TOKENS_MAX, "tokens", "in a step"),
    LIMIT_ROW(ENGINE_DEPTH_MAX, "", "plans in flight"),
    LIMIT_ROW(WORKER_SEQUENCES_MAX, "", "sequences not yet forgotten"),
    LIMIT_ROW(WORKER_EOS_MAX, "tokens", "that end a sequence"),
    LIMIT_ROW(TOMBSTONES_MAX, "", "cancels that wait for their Submit"),
    LIMIT_ROW(LIVE_ROWS_MAX, "", "rows of a Live, of a Disown"),
    LIMIT_ROW(ORPHAN_US, "us", "a sequence outlives its session, twice"),
    LIMIT_ROW(KEEP_MS_MAX, "ms", "that a finished sequence may be kept"),
    LIMIT_ROW(LEAVE_GRACE_MS_MAX, "ms", "of --grace"),
    LIMIT_ROW(LEAVE_US, "us", "past --grace, for the router's answer"),
    LIMIT_ROW(STEP_TOKENS_MAX, "tokens", "in a StepOutput"),
    LIMIT_ROW(STEP_ROW_TOKENS_MAX, "tokens", "of a row of a StepOutput"),
    LIMIT_ROW(STEP_LOGPROBS_MAX, "values", "of logprobs in a StepOutput"),
    LIMIT_ROW(LOGPROB_WINDOW, "tokens", "with logprobs not acknowledged"),
    LIMIT_ROW(REPORT_US, "us", "between two reports, at most"),
    LIMIT_ROW(ENGINE_STILL_US, "us", "without a tick: no new session"),
    LIMIT_ROW(ENGINE_DEAD_US, "us", "without a tick: exit code 5"),
    LIMIT_ROW(KERNELS_STEP_TOKENS_MAX, "tokens", "in a pass of the kernels"),
    LIMIT_ROW(KERNELS_BLOCK_MAX, "tokens", "of a KV block"),
    LIMIT_ROW(KERNELS_HEAD_DIM_MAX, "", "dimensions of a head they compute"),
    LIMIT_ROW(KERNELS_STATE_DIM_MAX, "", "key and value dimensions of a state"),
    LIMIT_ROW(KERNELS_GROUP_MAX, "", "query heads of a key/value head"),
    LIMIT_ROW(KERNELS_CONV_MAX, "taps", "a convolution they compute"),
    LIMIT_ROW(KERNELS_THREADS_MAX, "", "threads that compute"),
};

static const char usage[] =
    "usage: sluice-worker --model DIR [options]\n"
    "       sluice-worker --check DIR [--memory SIZE] [--layers A-B]\n\n"
    "Owns a model, or some of its layers, and a cache pool; serves a "
    "router.\n\n";

static const char examples[] =
    "\nexamples:\n"
    "  sluice-worker --model models/tiny-hybrid\n"
    "  sluice-worker --model models/tiny-hybrid --memory 256MiB --threads 2\n"
    "  sluice-worker --check models/tiny-hybrid --memory 1GiB\n"
    "  sluice-worker --check models/tiny-hybrid --layers 0-4\n\n"
    "On SIGTERM or SIGINT it takes nothing new, and ends when what runs has\n"
    "ended or moved; on a second one at once.\n\n"
    "exit codes: 0 stopped by SIGTERM or SIGINT, 2 could not start,\n"
    "            5 its engine stood still for 10 s: start it again\n"
    "            6 its device failed: start it again\n";

/* Everything the worker is made of, in the order it is made. */
struct program {
    struct worker_args args;
    enum dtype kv_dtype;
    struct kernels_options kernels;
    uint64_t available;
    struct model_config config;
    uint32_t begin, end; /* layers of the shard */
    struct tokenizer *tokenizer;
    struct shard *shard;
    struct forward *forward;
    struct engine_thread *engine;
    struct budget_need need;
    struct budget budget;
    struct sizes sizes;
    struct transport *transport;
    struct worker_core *core;
    struct loop loop;
    int signals;
    char name[128], lineage[128];
};

static void on_progress(void *ctx, uint64_t done, uint64_t total)
{
    progress_tell(ctx, loop_now_us(), done, total);
}

/* "0-12": layers 0 to 11. */
static enum status layers_parse(const char *text, uint32_t *begin,
                                uint32_t *end, struct error *e)
{
    char *at = "";
    unsigned long long a = 0, b = 0;

    if (text[0] >= '0' && text[0] <= '9') {
        a = strtoull(text, &at, 10);
    }
    if (at[0] == '-' && at[1] >= '0' && at[1] <= '9') {
        b = strtoull(at + 1, &at, 10);
    }
    if (at[0] != '\0' || a >= b || b > UINT32_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--layers %s: A-B with A < B is wanted; 0-12 are "
                         "layers 0 to 11",
                         text);
    }
    *begin = (uint32_t)a;
    *end = (uint32_t)b;
    return ST_OK;
}

/* --layers, or all there are. */
static enum status layers_read(struct program *p, struct error *e)
{
    const char *text = p->args.layers;
    uint32_t n = p->config.shape.n_layers;

    p->begin = 0;
    p->end = n;
    if (text == NULL) {
        return ST_OK;
    }
    if (layers_parse(text, &p->begin, &p->end, e) != ST_OK) {
        return e->code;
    }
    return p->end <= n ? ST_OK
                       : error_set(e, ST_INVALID_ARGUMENT,
                                   "--layers %s: the model has %u layers, so "
                                   "B is at most %u",
                                   text, n, n);
}

static enum status config_read(struct program *p, struct error *e)
{
    const struct worker_args *a = &p->args;
    enum status st = config_load(&p->config, a->model, e);

    if (st == ST_OK && a->model_name != NULL) {
        st = config_set_name(&p->config, a->model_name, e);
    }
    if (st == ST_OK) {
        st = layers_read(p, e);
    }
    if (st == ST_OK && a->context > p->config.shape.context) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--context %u: the model allows at most %u tokens",
                         a->context, p->config.shape.context);
    }
    if (st == ST_OK && a->context > 0) {
        p->config.shape.context = a->context;
    }
    return st;
}

/* A model without a tokenizer is served by ids. */
static enum status tokenizer_read(struct program *p, struct error *e)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/tokenizer.json", p->args.model);
    if (access(path, F_OK) != 0) {
        return ST_OK;
    }
    return tokenizer_load(&p->tokenizer, path, e);
}

static enum status weights_read(struct program *p, struct error *e)
{
    struct progress progress;
    struct shard_options o = {.progress = on_progress, .ctx = &progress};
    const struct shard_report *r;
    enum status st;

    progress_init(&progress, stderr, isatty(STDERR_FILENO), loop_now_us());
    st = shard_load(&p->shard, &p->config, p->args.model, p->begin, p->end, &o,
                    e);
    progress_end(&progress);
    if (st != ST_OK) {
        return st;
    }
    r = shard_report(p->shard);
    if (r->n_unknown > 0) {
        log_warn("tensors-ignored", "n=%u first=%s", r->n_unknown,
                 r->unknown.text);
    }
    return ST_OK;
}

static enum status forward_make(struct program *p, struct error *e)
{
    const struct worker_args *a = &p->args;
    struct kernels_options o = {.device = a->device,
                                .kv_dtype = p->kv_dtype,
                                .block_tokens = a->block_tokens,
                                .max_tokens = a->step_tokens,
                                .max_rows = a->max_rows,
                                .n_threads = a->threads,
                                .pin = a->pin,
                                .kernel_cache = a->kernel_cache,
                                .portable = a->portable,
                                .profile = a->profile};

    enum status st;

    p->kernels = o;
    st = forward_new(&p->forward, shard_weights(p->shard), &p->kernels, e);
    return st == ST_OK ? forward_alloc_hidden(p->forward, a->engine_depth + 1,
                                              a->step_tokens, e)
                       : st;
}

/* Before a plan runs on it.  Then the host's copy of the weights has had its
 * use. */
static enum status device_try(struct program *p,
                              const struct kernels_sizes *sizes,
                              struct error *e)
{
    enum status st;

    if (sizes->weight_bytes == 0) {
        return ST_OK;
    }
    st = canary_run(forward_kernels(p->forward), shard_weights(p->shard),
                    &p->kernels, e);
    if (st == ST_OK) {
        shard_forget(p->shard);
    }
    return st;
}

/* A device's memory is its own; without one it is the host's. */
static enum status budget_make(struct program *p,
                               const struct kernels_sizes *sizes,
                               struct error *e)
{
    const char *memory = p->args.memory;
    uint64_t available = p->available;

    if (sizes->device_bytes > 0) {
        memory = memory ? memory : DEVICE_SHARE;
        available = sizes->device_bytes;
    }
    return budget_divide(&p->budget, memory, available, &p->need, e);
}

static enum status pool_make(struct program *p, struct error *e)
{
    const struct worker_args *a = &p->args;
    struct kernels_sizes k;
    struct budget_need need;
    enum status st;

    forward_sizes(p->forward, &k);
    p->sizes =
        sizes_of(&p->config, p->begin, p->end, a->block_tokens, p->kv_dtype);
    need = (struct budget_need){
        .weight_bytes =
            k.weight_bytes > 0 ? k.weight_bytes : shard_report(p->shard)->bytes,
        .scratch_bytes = k.scratch_bytes,
        .pool = {.block_bytes = k.block_bytes,
                 .slot_bytes = k.slot_bytes,
                 .block_tokens = a->block_tokens,
                 .context = p->config.shape.context,
                 .max_rows = a->max_rows}};
    p->need = need;
    st = budget_make(p, &k, e);
    if (st == ST_OK) {
        st = forward_alloc(p->forward, p->budget.pool.n_blocks,
                           p->budget.pool.n_slots, 0, e);
    }
    st = st == ST_OK ? device_try(p, &k, e) : st;
    if (st == ST_OK) {
        st = engine_thread_new(&p->engine, p->forward, a->engine_depth, e);
    }
    return st;
}

static struct worker_options core_options(const struct program *p)
{
    const struct worker_args *a = &p->args;
    const struct model_shape *s = &p->config.shape;
    struct worker_options o = {
        .name = p->name,
        .lineage = p->lineage,
        .model = p->config.name,
        .device = a->device,
        .has_tokenizer = p->tokenizer != NULL,
        .layer_begin = p->begin,
        .layer_end = p->end,
        .n_layers = s->n_layers,
        .block_tokens = a->block_tokens,
        .block_bytes = p->need.pool.block_bytes,
        .slot_bytes = p->need.pool.slot_bytes,
        .checkpoint_bytes = p->need.pool.slot_bytes,
        .n_blocks = p->budget.pool.n_blocks,
        .n_slots = p->budget.pool.n_slots,
        .pages_per_block = p->sizes.pages_per_block,
        .pages_per_slot = p->sizes.pages_per_slot,
        .pages_per_checkpoint = p->sizes.pages_per_checkpoint,
        .weight_bytes = p->need.weight_bytes,
        .scratch_bytes = p->need.scratch_bytes,
        .pool_bytes = p->budget.pool.bytes,
        .context = s->context,
        .vocab = s->vocab,
        .n_eos = p->config.n_eos,
        .max_rows = a->max_rows,
        .step_tokens = a->step_tokens,
        .chunk_tokens = a->chunk_tokens,
        .engine_depth = a->engine_depth,
    };

    memcpy(o.fingerprint, shard_fingerprint(p->shard), sizeof o.fingerprint);
    if (p->tokenizer != NULL) {
        memcpy(o.tokenizer, tokenizer_hash(p->tokenizer), sizeof o.tokenizer);
    }
    memcpy(o.eos, p->config.eos, p->config.n_eos * sizeof o.eos[0]);
    return o;
}

static void on_result(void *arg, int fd)
{
    struct program *p = arg;

    (void)fd;
    engine_thread_quiet(p->engine); /* the tick that follows polls it */
}

/* The first asks, the second does not. */
static void on_signal(void *arg, int fd)
{
    struct program *p = arg;

    if (loop_signal_read(fd) != 0) {
        worker_leave(p->core, (uint32_t)p->args.grace);
    }
}

static enum status assemble(struct program *p, struct error *e)
{
    struct worker_options o;
    enum status st = transport_connect(&p->transport, p->args.router, e);

    p->available = budget_available();
    st = st == ST_OK ? config_read(p, e) : st;
    st = st == ST_OK ? tokenizer_read(p, e) : st;
    st = st == ST_OK ? weights_read(p, e) : st;
    if (st == ST_OK) {
        p->kv_dtype =
            sizes_kv_dtype(&p->config, strcmp(p->args.kv_dtype, "f32") == 0);
        st = forward_make(p, e);
    }
    st = st == ST_OK ? pool_make(p, e) : st;
    if (st != ST_OK) {
        return error_wrap(e, "%s", p->args.model);
    }
    o = core_options(p);
    p->core = worker_new(&o, transport_io(p->transport),
                         engine_thread_engine(p->engine));
    if (p->core == NULL) {
        return error_set(e, ST_INTERNAL,
                         "no worker can be made of these options: pool of %u "
                         "blocks and %u slots",
                         o.n_blocks, o.n_slots);
    }
    loop_init(&p->loop, p->transport, &worker_node_ops, p->core);
    loop_add(&p->loop, engine_thread_fd(p->engine), on_result, p);
    loop_add(&p->loop, p->signals, on_signal, p);
    return ST_OK;
}

/* The core may have a plan in flight that the engine reads: it goes after. */
static void dismantle(struct program *p)
{
    engine_thread_free(&p->engine);
    if (p->forward != NULL) {
        kernels_profile(forward_kernels(p->forward), stderr);
    }
    worker_free(&p->core);
    transport_free(&p->transport);
    forward_free(&p->forward);
    shard_free(&p->shard);
    tokenizer_free(&p->tokenizer);
}

static void say_ready(const struct program *p)
{
    const struct budget_need *n = &p->need;
    uint32_t n_layers = p->config.shape.n_layers;
    char layers[64] = "";

    if (p->end - p->begin < n_layers) {
        snprintf(layers, sizeof layers, "layers %u-%u of %u of ", p->begin,
                 p->end, n_layers);
    }
    printf("sluice-worker %s ready: %s serves %s%s on %s for %s; weights %.1f "
           "MiB, scratch %.1f MiB, pool %.1f MiB: %u blocks of %u tokens "
           "(%.1f KiB each), %u slots (%.1f KiB each); sequences up to %u "
           "tokens\n",
           SLUICE_VERSION, p->name, layers, p->config.name, p->args.device,
           p->args.router, (double)n->weight_bytes / MIB,
           (double)n->scratch_bytes / MIB, (double)p->budget.pool.bytes / MIB,
           p->budget.pool.n_blocks, n->pool.block_tokens,
           (double)n->pool.block_bytes / 1024, p->budget.pool.n_slots,
           (double)n->pool.slot_bytes / 1024, n->pool.context);
    fflush(stdout);
}

static void say_counts(const struct worker_core *core)
{
    char text[LOG_LINE / 2];
    struct worker_metrics m;

    worker_counts(core, &m);
    metric_text(text, sizeof text, worker_metrics_rows,
                METRIC_COUNT(worker_metrics_rows), &m);
    log_info("counted", "%s", text);
}

/* True if the options asked for a text and nothing else. */
static bool printed(const struct worker_args *a)
{
    if (a->help) {
        fputs(usage, stdout);
        option_print(stdout, worker_args_rows, OPTION_COUNT(worker_args_rows));
        fputs(examples, stdout);
    } else if (strcmp(a->device, "list") == 0) {
        opencl_devices_print(stdout);
    } else if (a->version) {
        puts("sluice-worker " SLUICE_VERSION);
    } else if (a->limits) {
        limits_print(stdout, common_limits, common_limits_n);
        limits_print(stdout, worker_limits,
                     sizeof worker_limits / sizeof worker_limits[0]);
        limits_print(stdout, model_limits, model_limits_n);
    } else if (a->list_metrics) {
        metric_list(stdout, "sluice_worker", worker_metrics_rows,
                    METRIC_COUNT(worker_metrics_rows));
    } else {
        return false;
    }
    return true;
}

static enum status check_words(struct program *p, struct error *e)
{
    struct worker_args *a = &p->args;
    enum log_level level;
    char host[64] = "worker";

    if (!log_level_parse(a->log_level, &level)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--log-level %s: debug, info, warn, error or off",
                         a->log_level);
    }
    log_setup(level, NULL, NULL);
    if (strcmp(a->kv_dtype, "auto") != 0 && strcmp(a->kv_dtype, "f32") != 0) {
        return error_set(e, ST_INVALID_ARGUMENT, "--kv-dtype %s: auto or f32",
                         a->kv_dtype);
    }
    if ((a->block_tokens & (a->block_tokens - 1)) != 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--block-tokens %u: 1, 2, 4, 8, 16, 32 or 64",
                         a->block_tokens);
    }
    if (a->model == NULL && a->check == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--model DIR is needed; see --help");
    }
    if (a->name != NULL &&
        (a->name[0] == '\0' || strlen(a->name) > NAME_MAX_BYTES)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--name: 1 to %d bytes are wanted", NAME_MAX_BYTES);
    }
    gethostname(host, sizeof host - 1);
    if (a->name != NULL) {
        snprintf(p->name, sizeof p->name, "%s", a->name);
        snprintf(p->lineage, sizeof p->lineage, "%s", a->name);
    } else {
        snprintf(p->name, sizeof p->name, "%.40s-%d", host, (int)getpid());
        snprintf(p->lineage, sizeof p->lineage, "%.40s-%.20s", host, a->device);
    }
    return ST_OK;
}

static enum status configure(struct program *p, int argc, char **argv,
                             struct error *e)
{
    int n_words;
    enum status st =
        option_parse(worker_args_rows, OPTION_COUNT(worker_args_rows), &p->args,
                     argc, argv, &n_words, e);

    if (st == ST_OK && n_words > 0) {
        return error_set(e, ST_INVALID_ARGUMENT, "%s: no such word; see --help",
                         argv[1]);
    }
    return st;
}

/* --check DIR: --memory must then be bytes. */
static enum status check(const struct program *p, struct error *e)
{
    const struct worker_args *a = &p->args;
    struct check_options o = {.block_tokens = a->block_tokens,
                              .kv_f32 = strcmp(a->kv_dtype, "f32") == 0};

    if (a->memory != NULL && !option_bytes(a->memory, &o.budget_bytes)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--memory %s: with --check a size such as 4GiB is "
                         "wanted",
                         a->memory);
    }
    if (a->layers != NULL &&
        layers_parse(a->layers, &o.begin, &o.end, e) != ST_OK) {
        return e->code;
    }
    return model_check(stdout, a->check, &o, e);
}

static int fail(const struct error *e)
{
    fprintf(stderr, "sluice-worker: %s\n", e->text);
    return EXIT_SETUP;
}

int main(int argc, char **argv)
{
    static struct program p;
    struct error e;

    FAILPOINT_START(argc, argv);
    if (configure(&p, argc, argv, &e) != ST_OK) {
        return fail(&e);
    }
    if (printed(&p.args)) {
        return EXIT_SUCCESS;
    }
    if (check_words(&p, &e) != ST_OK) {
        return fail(&e);
    }
    if (p.args.check != NULL) {
        return check(&p, &e) == ST_OK ? EXIT_SUCCESS : fail(&e);
    }
    p.signals = loop_signals();
    if (assemble(&p, &e) != ST_OK) {
        dismantle(&p);
        return fail(&e);
    }
    say_ready(&p);
    loop_run(&p.loop);
    say_counts(p.core);
    if (worker_failed(p.core)) {
        transport_free(&p.transport); /* its Goodbye goes out */
        /* Nobody waits for the engine's thread. */
        _exit(worker_lost(p.core) ? EXIT_DEVICE : EXIT_ENGINE);
    }
    dismantle(&p);
    return EXIT_SUCCESS;
}
