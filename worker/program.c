#include "worker/program.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log_output.h"
#include "common/base/memory.h"
#include "common/base/quote.h"
#include "common/wire/door_rules.h"
#include "common/wire/method.h"
#include "kernels/backends/backend.h"
#include "kernels/backends/canary.h"
#include "text/model_tokenizer.h"
#include "worker/base/advertise.h"
#include "worker/cache/host.h"
#include "worker/model/progress.h"
#include "worker/worker_core.h"

#define DEVICE_SHARE "0.9" /* of a GPU's memory, by default */
#define STAGE_LISTEN "tcp://127.0.0.1:0"
#define MIB          (1024.0 * 1024.0)

/* Returns the pages that no sequence has, those of kept prefixes included. */
static uint64_t pages_free(const struct program *p,
                           const struct worker_account *a)
{
    uint64_t slots = (uint64_t)a->slots.held + a->slots.granted +
                     a->checkpoints.held + a->checkpoints.granted;

    return p->budget.pool.n_pages - slots * p->pages.pages_per_slot -
           a->blocks.held - a->blocks.granted;
}

static void serving_status(const struct program *p, char *text, size_t cap)
{
    struct worker_account a;

    worker_account(p->core, &a);
    snprintf(text, cap, "%s: %s, %u sequences, %u %% of pages free",
             p->config.name,
             worker_is_up(p->core) ? "connected" : "waiting for the router",
             a.n_sequences,
             (unsigned)(pages_free(p, &a) * 100 / p->budget.pool.n_pages));
}

void program_status(void *arg, char *text, size_t cap)
{
    const struct program *p = arg;

    if (p->core != NULL) {
        serving_status(p, text, cap);
    } else if (p->n_to_read > 0) {
        snprintf(text, cap, "%s, %u %%", p->phase,
                 (unsigned)(p->n_read * 100 / p->n_to_read));
    } else {
        snprintf(text, cap, "%s", p->phase);
    }
}

void program_phase(struct program *p, const char *phase)
{
    p->phase = phase;
    p->n_read = p->n_to_read = 0;
    notify_turn(&p->daemon.notify, loop_now_us());
}

/* Returns whether a signal to stop has come, for the time before the loop
 * handles signals. */
static bool is_stopped(struct program *p)
{
    p->stopped = p->stopped || daemon_signal(&p->daemon);
    return p->stopped;
}

static enum status check_stopped(struct program *p, struct error *e)
{
    return is_stopped(p) ? error_set(e, ST_CANCELLED, "stopped") : ST_OK;
}

struct weights_reading {
    struct program *program;
    struct progress progress;
};

static bool on_progress(void *ctx, uint64_t done, uint64_t total)
{
    struct weights_reading *r = ctx;

    if (is_stopped(r->program)) {
        return false;
    }
    r->program->n_read = done;
    r->program->n_to_read = total;
    notify_turn(&r->program->daemon.notify, loop_now_us());
    progress_update(&r->progress, loop_now_us(), done, total);
    return true;
}

/* Reads --layers; the default is all layers. */
static enum status layers_read(struct program *p, struct error *e)
{
    const char *text = p->args.layers;
    uint32_t n = p->config.shape.n_layers;

    p->begin = 0;
    p->end = n;
    if (text == NULL) {
        return ST_OK;
    }
    if (args_layers(text, &p->begin, &p->end, e) != ST_OK) {
        return e->code;
    }
    return p->end <= n ? ST_OK
                       : error_set(e, ST_INVALID_ARGUMENT,
                                   "--layers %s: the model has %u layers, so "
                                   "B must be at most %u",
                                   text, n, n);
}

/* Returns whether the worker has, or will have, some of the layers. */
static bool is_stage(const struct program *p)
{
    return p->args.stages > 1 || p->end - p->begin < p->config.shape.n_layers;
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
    st = st == ST_OK ? sizes_check_slots(&p->config, a->slots, e) : st;
    if (st == ST_OK && a->context > p->config.shape.context) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--context %u: the model allows at most %u tokens",
                         a->context, p->config.shape.context);
    }
    if (st == ST_OK && is_stage(p)) {
        p->args.step_tokens = costs_stage_tokens(&p->config, a->step_tokens);
    }
    /* A shorter context makes each sequence cheaper, and the pool hold more. */
    if (st == ST_OK && a->context > 0) {
        p->config.shape.context = a->context;
    }
    return st;
}

static enum status format_choose(struct program *p, struct error *e)
{
    struct kv_request r = args_kv(&p->args);
    enum status st = kv_format_choose(&p->kv, &p->config, &r, e);

    kv_format_name(&p->kv, p->stated.kv_format);
    args_arithmetic(&p->args, p->config.quant.format, p->stated.arithmetic);
    return st;
}

/* A model without a tokenizer is served by token ids alone. */
static enum status tokenizer_read(struct program *p, struct error *e)
{
    enum status st = model_tokenizer_load(&p->tokenizer, p->args.model, e);

    if (st == ST_NOT_FOUND) {
        log_warn("no-tokenizer",
                 "model=%s why=\"there is no tokenizer.json: only requests "
                 "with token ids can be served\"",
                 quote(p->config.name).text);
        return ST_OK;
    }
    return st;
}

enum status program_read(struct program *p, struct shard **out, uint32_t begin,
                         uint32_t end, struct error *e)
{
    struct weights_reading r = {.program = p};
    struct shard_options o = {.progress = on_progress,
                              .ctx = &r,
                              .known = p->has_known ? &p->known : NULL};
    enum status st;

    program_phase(p, "reading weights");
    progress_init(&r.progress, stderr, isatty(STDERR_FILENO), loop_now_us());
    st = shard_load(out, &p->config, p->args.model, begin, end, &o, e);
    progress_end(&r.progress);
    if (st == ST_OK) {
        struct kernels_options k = program_kernels(p);

        st = backend_pack(shard_own(*out), &k, e);
    }
    return st;
}

static enum status weights_read(struct program *p, struct error *e)
{
    enum status st = program_read(p, &p->shard, p->begin, p->end, e);
    const struct shard_report *r;

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

struct kernels_options program_kernels(const struct program *p)
{
    const struct worker_args *a = &p->args;

    return (struct kernels_options){.device = a->device,
                                    .kv = p->kv,
                                    .block_tokens = a->block_tokens,
                                    .max_tokens = a->step_tokens,
                                    .max_rows = a->max_rows,
                                    .max_logits = KERNELS_LOGIT_ROWS,
                                    .keep_tokens = args_keep_tokens(a),
                                    .n_threads = a->threads,
                                    .pin = a->pin,
                                    .isa = a->isa,
                                    .products = args_int8(a) ? PRODUCTS_INT8
                                                             : PRODUCTS_FLOAT,
                                    .kernel_cache = a->kernel_cache,
                                    .portable = a->portable,
                                    .profile = a->profile};
}

/* One more plan of hidden states than are in flight: the result that was polled
 * last is still being sent. */
static enum status forward_make(struct program *p, struct error *e)
{
    const struct worker_args *a = &p->args;
    enum status st;

    p->kernels = program_kernels(p);
    st = forward_new(&p->forward, shard_weights(p->shard), &p->kernels, e);
    log_debug("kernels", "device=%s isa=%s arithmetic=%s", a->device,
              a->isa != NULL ? a->isa : "best", p->stated.arithmetic);
    return st == ST_OK ? forward_alloc_hidden(p->forward, a->engine_depth + 1,
                                              a->step_tokens, e)
                       : st;
}

/* Runs the canary before the first plan.  After that, the host's copy of the
 * weights is not needed any more. */
static enum status device_try(struct program *p,
                              const struct kernels_sizes *sizes,
                              struct error *e)
{
    enum status st;

    if (sizes->weight_bytes == 0) {
        return ST_OK;
    }
    st = check_stopped(p, e);
    if (st != ST_OK) {
        return st;
    }
    st = canary_run(forward_kernels(p->forward), shard_weights(p->shard),
                    &p->kernels, e);
    if (st == ST_OK) {
        shard_forget(p->shard);
    }
    return st;
}

struct budget_memory program_memory(const struct program *p,
                                    uint64_t device_bytes)
{
    struct budget_memory m = {.text = p->args.memory,
                              .available = p->available};

    if (device_bytes > 0) {
        m.text = m.text != NULL ? m.text : DEVICE_SHARE;
        m.available = device_bytes;
        m.device = true;
    }
    return m;
}

/* Sets the bytes of weights and scratch to those that every program computes
 * (common/model/costs.h), or to those of the backend if they are more. */
static void count_fixed(struct program *p, const struct kernels_sizes *k)
{
    struct costs_step step = program_step(p);
    uint64_t own =
        k->weight_bytes > 0 ? k->weight_bytes : shard_report(p->shard)->bytes;
    struct pool_budget *n = &p->need;

    step.threads = k->n_threads;
    n->weight_bytes = shard_report(p->shard)->bytes;
    n->scratch_bytes = costs_stage_scratch(&p->config, &step, p->begin, p->end);
    log_debug("fixed-memory",
              "weights=%" PRIu64 " scratch=%" PRIu64 " of_backend=%" PRIu64
              "+%zu",
              n->weight_bytes, n->scratch_bytes, own, k->scratch_bytes);
    if (own + k->scratch_bytes > n->weight_bytes + n->scratch_bytes) {
        log_warn("budget-exceeded",
                 "computed=%" PRIu64 " weights=%" PRIu64 " scratch=%zu",
                 n->weight_bytes + n->scratch_bytes, own, k->scratch_bytes);
        n->weight_bytes = own;
        n->scratch_bytes = k->scratch_bytes;
    }
}

static enum status budget_make(struct program *p,
                               const struct kernels_sizes *sizes,
                               struct error *e)
{
    struct budget_memory m = program_memory(p, sizes->device_bytes);

    count_fixed(p, sizes);
    return budget_divide(&p->budget, &m, &p->need, e);
}

/* Reads --host-memory.  The system would kill a process that pins more than
 * there is. */
static enum status host_read(const struct program *p, uint64_t *bytes,
                             struct error *e)
{
    const char *text = p->args.host_memory;

    if (!option_bytes(text, bytes)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--host-memory %s: give a size such as 16GiB", text);
    }
    if (*bytes > 0 && is_stage(p)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--host-memory %s: a worker with some of the layers "
                         "suspends no sequence; leave it out",
                         text);
    }
    return *bytes <= p->available
               ? ST_OK
               : error_set(e, ST_INVALID_ARGUMENT,
                           "--host-memory %s: only %.1f MiB are available; "
                           "lower it",
                           text, (double)p->available / MIB);
}

static enum status host_make(struct program *p, uint64_t page_bytes,
                             struct error *e)
{
    uint64_t bytes, n;
    enum status st = host_read(p, &bytes, e);

    n = st == ST_OK ? bytes / page_bytes : 0;
    p->host_pages = n < HOST_PAGES_MAX ? (uint32_t)n : HOST_PAGES_MAX;
    if (p->host_pages > 0) {
        st = forward_alloc_host(p->forward, p->host_pages, e);
        log_info("host-tier", "pages=%u page_bytes=%" PRIu64, p->host_pages,
                 page_bytes);
    }
    return st;
}

static enum status pool_make(struct program *p, struct error *e)
{
    const struct worker_args *a = &p->args;
    struct kernels_sizes k;
    enum status st;

    forward_sizes(p->forward, &k);
    if (p->drafts.most > 0 && !k.drafts) {
        log_warn("no-drafts", "why=\"the device cannot verify drafts yet\"");
        p->drafts.most = 0;
    }
    p->sizes = sizes_of(&p->config, p->begin, p->end, a->block_tokens, &p->kv);
    p->pages = k;
    p->need.pool =
        (struct pool_split_need){.page_bytes = k.page_bytes,
                                 .pages_per_slot = k.pages_per_slot,
                                 .pages_per_block = k.pages_per_block,
                                 .window_pages = k.window_pages,
                                 .window_tokens = program_window(p),
                                 .chunk_tokens = args_chunk(a),
                                 .block_tokens = a->block_tokens,
                                 .context = p->config.shape.context,
                                 .max_rows = a->max_rows,
                                 .slots = a->slots,
                                 .pages_max = k.pages_max};
    st = sizes_check_pages(k.pages_per_slot, a->block_tokens, e);
    st = st == ST_OK ? budget_make(p, &k, e) : st;
    if (st == ST_OK && p->budget.pool.n_pages == k.pages_max) {
        log_warn("pool-limited",
                 "pages=%" PRIu32 " why=\"the device allocates no more at "
                 "once\"",
                 k.pages_max);
    }
    if (st == ST_OK) {
        st = forward_alloc(p->forward, p->budget.pool.n_pages, e);
    }
    st = st == ST_OK ? device_try(p, &k, e) : st;
    st = st == ST_OK ? host_make(p, k.page_bytes, e) : st;
    if (st == ST_OK) {
        st = engine_thread_new(&p->engine, p->forward, a->engine_depth, e);
    }
    return st;
}

static void on_result(void *arg, int fd)
{
    struct program *p = arg;

    (void)fd;
    engine_thread_quiet(p->engine); /* the next tick polls the result */
}

static void name_worker(struct program *p)
{
    const struct worker_args *a = &p->args;
    char host[64] = "worker";

    gethostname(host, sizeof host - 1);
    /* The lineage survives a restart, unlike a process number, so that the
     * router can recognise a worker that keeps crashing. */
    if (a->name != NULL) {
        snprintf(p->name, sizeof p->name, "%s", a->name);
        snprintf(p->lineage, sizeof p->lineage, "%s", a->name);
    } else if (p->daemon.keys != NULL) {
        snprintf(p->name, sizeof p->name, "%s",
                 curve_keys_name(p->daemon.keys));
        snprintf(p->lineage, sizeof p->lineage, "%s", p->name);
    } else {
        snprintf(p->name, sizeof p->name, "%.40s-%d", host, (int)getpid());
        snprintf(p->lineage, sizeof p->lineage, "%.40s-%.20s", host, a->device);
    }
}

/* A worker with some of the layers has a port for the previous stage. */
static enum status ports_make(struct program *p, struct error *e)
{
    const char *listen = p->args.stage_listen;
    struct transport_port port = {.endpoint =
                                      listen != NULL ? listen : STAGE_LISTEN,
                                  .allowed = BY_WORKER,
                                  .tensors = true};
    enum status st;

    /* A worker with all layers opens no port at all. */
    if (!is_stage(p)) {
        return transport_connect(&p->daemon.transport, p->args.router,
                                 p->daemon.keys, e);
    }
    st = transport_new(&p->daemon.transport, p->args.router, &port, 1,
                       p->daemon.keys, e);
    if (st == ST_OK) {
        transport_limit(p->daemon.transport, 0, STAGE_CONNECTIONS_MAX,
                        door_share(STAGE_CONNECTIONS_MAX));
        st = advertise_endpoint(p->advertised, p->args.advertise,
                                transport_endpoint(p->daemon.transport, 0),
                                p->daemon.keys != NULL, e);
        p->stage_endpoint = p->advertised;
    }
    return st;
}

enum status program_begin(struct program *p, struct error *e)
{
    enum status st;
    uint64_t host_bytes;

    program_phase(p, "reading the model's configuration");
    st = daemon_keys(&p->daemon, e);
    if (st != ST_OK) {
        return st;
    }
    name_worker(p);
    /* Before the weights are read: afterwards they would count as used. */
    p->available = memory_left("");
    st = config_read(p, e);
    st = st == ST_OK ? program_drafts(p, e) : st;
    st = st == ST_OK ? format_choose(p, e) : st;
    st = st == ST_OK ? tokenizer_read(p, e) : st;
    if (st != ST_OK) {
        return error_wrap(e, "%s", p->args.model);
    }
    st = host_read(p, &host_bytes, e);
    if (st != ST_OK) {
        return st;
    }
    /* Before a long load; a device with its own memory answers only later. */
    if (strcmp(p->args.device, "cpu") == 0) {
        struct budget_memory m = program_memory(p, 0);
        uint64_t bytes;

        st = budget_bytes(&bytes, &m, e);
    }
    if (st != ST_OK) {
        return st;
    }
    st = ports_make(p, e);
    /* Bound now, so that a port in use is reported before a long load.  A
     * scrape during the load waits in the backlog. */
    return st == ST_OK ? daemon_metrics(&p->daemon, e) : st;
}

static enum status core_make(struct program *p, struct error *e)
{
    struct worker_options o = program_core_options(p);

    p->core = worker_new(&o, transport_io(p->daemon.transport),
                         engine_thread_engine(p->engine));
    return p->core != NULL
               ? ST_OK
               : error_set(e, ST_INTERNAL,
                           "cannot make a worker with a pool of %u pages",
                           o.pool.n_pages);
}

enum status program_load(struct program *p, struct error *e)
{
    enum status st = weights_read(p, e);

    st = st == ST_OK ? check_stopped(p, e) : st;
    program_phase(p, "preparing the device");
    st = st == ST_OK ? forward_make(p, e) : st;
    st = st == ST_OK ? pool_make(p, e) : st;
    if (st != ST_OK) {
        return error_wrap(e, "%s", p->args.model);
    }
    st = core_make(p, e);
    if (st == ST_OK) {
        daemon_node(&p->daemon, &worker_node_ops, p->core);
        /* A result wakes the loop, whose tick then polls the engine. */
        loop_add(&p->daemon.loop, engine_thread_fd(p->engine), on_result, p);
    }
    return st;
}

/* The engine ends before the core, because it reads plans in the core's
 * memory. */
void program_stop(struct program *p)
{
    engine_thread_free(&p->engine);
    if (p->forward != NULL) {
        kernels_profile(forward_kernels(p->forward), stderr);
    }
    worker_free(&p->core);
    daemon_disconnect(&p->daemon);
    forward_free(&p->forward);
    shard_free(&p->shard);
    tokenizer_free(&p->tokenizer);
}

void program_print(const struct program *p)
{
    const struct pool_budget *n = &p->need;
    uint32_t n_layers = p->config.shape.n_layers;
    /* Part of the line only if the worker has a part of the model. */
    char layers[64] = "";

    if (p->end - p->begin < n_layers) {
        snprintf(layers, sizeof layers, "layers %u-%u of %u of ", p->begin,
                 p->end, n_layers);
    }
    printf("%s serves %s%s on %s for %s; weights %.1f MiB, scratch %.1f MiB, "
           "pool %.1f MiB: %u pages of %.1f KiB",
           worker_known_as(p->core), layers, p->config.name, p->args.device,
           p->args.router, (double)n->weight_bytes / MIB,
           (double)n->scratch_bytes / MIB, (double)p->budget.pool.bytes / MIB,
           p->budget.pool.n_pages, (double)n->pool.page_bytes / 1024);
    if (n->pool.pages_per_block > 0) {
        printf(", a block of %u tokens takes 1", n->pool.block_tokens);
    }
    if (n->pool.window_pages > 0) {
        printf(", a window block %u", n->pool.window_pages);
    }
    if (n->pool.pages_per_slot > 0) {
        printf(", a slot %" PRIu64 ", at most %u slots", n->pool.pages_per_slot,
               p->budget.pool.slot_cap);
    }
    if (p->host_pages > 0) {
        printf("; %u pages in host memory", p->host_pages);
    }
    printf("; sequences up to %u tokens", n->pool.context);
}
