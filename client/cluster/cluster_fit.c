#include "client/cluster/cluster_fit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cluster/cluster_stages.h"
#include "client/cluster/daemon_options.h"
#include "common/base/memory.h"
#include "common/base/option.h"
#include "common/model/costs.h"
#include "common/model/directory.h"
#include "common/model/gguf_model.h"
#include "common/model/mtp.h"
#include "common/model/sizes.h"
#include "common/split/layer_split.h"

#define LOGIT_ROWS 64 /* as the backends' (kernels/kernels.h) */
#define PATH_MAX_  4096

struct fit {
    const struct layout *layout;
    struct faults *faults;
    const struct cluster_model *model;
    char dir[PATH_MAX_];
    struct model_config config;
    struct mtp_found mtp;
    struct split_model costs;
    struct split_table table;
    struct split split;
};

/* ---- options ---- */

/* Returns the last value of an option, or NULL. */
static const char *option_of(const struct cluster_unit *u, const char *name)
{
    for (size_t i = u->options.n; i > 0; i--) {
        if (daemon_option_same(u->options.item[i - 1].name.text, name)) {
            return u->options.item[i - 1].value.text;
        }
    }
    return NULL;
}

static uint32_t number_of(const struct cluster_unit *u, const char *name,
                          uint32_t fallback)
{
    const char *text = option_of(u, name);

    return text != NULL ? (uint32_t)strtoul(text, NULL, 10) : fallback;
}

static bool on_cpu(const struct cluster_worker *w)
{
    return w->device.text == NULL || strcmp(w->device.text, "cpu") == 0;
}

/* Returns the most drafts of a sequence; "auto" means at most DRAFTS_MAX. */
static uint32_t drafts_of(const struct cluster_worker *w)
{
    const char *text = option_of(&w->unit, "drafts");

    return text != NULL && strcmp(text, "auto") == 0
               ? DRAFTS_MAX
               : number_of(&w->unit, "drafts", 0);
}

/* Sets whether the MTP layer counts, for a worker with these options. */
static void use_drafts(struct fit *f, const struct cluster_worker *w)
{
    const char *drafter = option_of(&w->unit, "drafter");

    f->config.drafts = drafts_of(w) > 0 && f->mtp.usable &&
                       (drafter == NULL || strcmp(drafter, "ngram") != 0);
}

/* Returns the budget that the file gives a worker, or 0 if it cannot be
 * computed here: a share of a device, or of a host of unknown memory. */
static uint64_t budget_of(const struct fit *f, const struct cluster_worker *w)
{
    const struct cluster_host *h =
        cluster_host_find(f->layout->cluster, w->host.text);
    const char *text = w->memory.text;
    uint64_t bytes = 0;
    char *end;
    double share;

    if (text == NULL || h == NULL) {
        return 0;
    }
    share = strtod(text, &end);
    if (*end == '\0' && strchr(text, '.') != NULL) {
        return on_cpu(w) ? (uint64_t)(share * (double)h->memory.v) : 0;
    }
    return option_bytes(text, &bytes) ? bytes : 0;
}

static struct split_terms
terms_of(const struct fit *f, const struct cluster_worker *w, uint32_t stages)
{
    uint32_t most = f->config.shape.context;
    uint32_t context = number_of(&w->unit, "context", 0);
    bool opencl = !on_cpu(w);
    uint32_t step = number_of(&w->unit, "step_tokens",
                              opencl ? STEP_TOKENS_GPU : STEP_TOKENS_CPU);
    uint32_t chunk = number_of(&w->unit, "chunk_tokens",
                               opencl ? CHUNK_TOKENS_GPU : CHUNK_TOKENS_CPU);

    context = context == 0 || context > most ? most : context;
    return (struct split_terms){.n_stages = stages,
                                .block_tokens =
                                    number_of(&w->unit, "block_tokens", 32),
                                .context = context,
                                .max_rows = number_of(&w->unit, "max_rows", 64),
                                .slots = number_of(&w->unit, "slots", 0),
                                .length = context,
                                .window_tokens = f->config.shape.window,
                                .chunk_tokens = chunk < step ? chunk : step};
}

/* Chooses the format of a worker's KV cache. */
static enum status format_of(const struct fit *f,
                             const struct cluster_worker *w,
                             struct kv_format *kv, struct error *e)
{
    const char *bits = option_of(&w->unit, "kv_bits");
    struct kv_request r = {.dtype = option_of(&w->unit, "kv_dtype"),
                           .scheme = option_of(&w->unit, "kv_scheme"),
                           .bits = bits != NULL ? strtod(bits, NULL) : 0,
                           .group = number_of(&w->unit, "kv_group", 0)};

    return kv_format_choose(kv, &f->config, &r, e);
}

/* Returns that format, which check_formats() found valid. */
static struct kv_format kv_of(const struct fit *f,
                              const struct cluster_worker *w)
{
    struct kv_format kv;
    struct error e;

    return format_of(f, w, &kv, &e) == ST_OK ? kv : kv_format_plain(DTYPE_F32);
}

static struct costs_step step_of(const struct fit *f,
                                 const struct cluster_worker *w)
{
    struct split_terms t = terms_of(f, w, 0);
    const char *products = option_of(&w->unit, "products");
    bool opencl = !on_cpu(w);

    return (struct costs_step){
        .tokens = number_of(&w->unit, "step_tokens",
                            opencl ? STEP_TOKENS_GPU : STEP_TOKENS_CPU),
        .rows = t.max_rows,
        .threads = number_of(&w->unit, "threads", 1),
        .logits = LOGIT_ROWS,
        .plans = number_of(&w->unit, "engine_depth", opencl ? 2 : 1) + 1,
        .block_tokens = t.block_tokens,
        .context = t.context,
        .keep_tokens = costs_keep_tokens(drafts_of(w), t.max_rows),
        .kept = kv_of(f, w).dtype,
        .opencl = opencl,
        .int8 = products != NULL ? strcmp(products, "int8") == 0 : !opencl};
}

/* ---- a worker with fixed layers ---- */

static struct pool_budget need_of(const struct fit *f,
                                  const struct cluster_worker *w,
                                  const struct layer_range *r)
{
    struct split_terms t = terms_of(f, w, 0);
    struct costs_step step = step_of(f, w);
    struct kv_format kv = kv_of(f, w);
    struct sizes z =
        sizes_of(&f->config, r->begin, r->end, t.block_tokens, &kv);

    step.tokens = costs_stage_tokens(&f->config, step.tokens);
    return (struct pool_budget){.weight_bytes = z.weight_bytes,
                                .scratch_bytes = costs_stage_scratch(
                                    &f->config, &step, r->begin, r->end),
                                .pool = {.page_bytes = z.page_bytes,
                                         .pages_per_slot = z.pages_per_slot,
                                         .pages_per_block = z.pages_per_block,
                                         .block_tokens = t.block_tokens,
                                         .context = t.context,
                                         .max_rows = t.max_rows,
                                         .slots = t.slots,
                                         .window_pages = z.window_pages,
                                         .window_tokens = t.window_tokens,
                                         .chunk_tokens = t.chunk_tokens}};
}

static void check_layers(struct fit *f, const struct cluster_worker *w)
{
    uint32_t n = f->config.shape.n_layers;
    struct layer_range r;
    struct pool_budget need;
    struct pool_split pool;
    struct error e;

    if (!cluster_layers_parse(w->layers.text, &r)) {
        return; /* reported */
    }
    if (r.end > n) {
        faults_add(f->faults, w->layers.at,
                   "layers %s: model %s has %u layers; the last part ends at "
                   "%u",
                   w->layers.text, f->model->name.text, n, n);
        return;
    }
    need = need_of(f, w, &r);
    if (budget_of(f, w) > 0 &&
        pool_split_budget(&pool, &need, budget_of(f, w), &e) != ST_OK) {
        faults_add(f->faults, w->memory.at, "worker %s, layers %s of %s: %s",
                   w->name.text, w->layers.text, f->model->name.text, e.text);
    }
}

/* Reports parts that stop before the last layer. */
static void check_last(struct fit *f)
{
    const struct cluster *c = f->layout->cluster;
    const struct cluster_worker *last = NULL;
    struct layer_range r, most = {0, 0};

    for (size_t i = 0; i < c->n_workers; i++) {
        const struct cluster_worker *w = &c->workers[i];

        if (w->layers.text != NULL &&
            cluster_model_find(c, w->model.text) == f->model &&
            cluster_layers_parse(w->layers.text, &r) && r.end > most.end) {
            most = r;
            last = w;
        }
    }
    if (last != NULL && most.end < f->config.shape.n_layers) {
        faults_add(f->faults, last->layers.at,
                   "layers %s: model %s has %u layers, and no worker has layer "
                   "%u and those after it",
                   last->layers.text, f->model->name.text,
                   f->config.shape.n_layers, most.end);
    }
}

/* ---- workers whose layers the router assigns, and workers with all ---- */

/* Adds a worker to a replica.  Returns false if its budget is not known. */
static bool add_worker(const struct fit *f, const struct cluster_worker *w,
                       bool stage, struct split_worker *out)
{
    struct costs_step step = step_of(f, w);

    if (stage) {
        step.tokens = costs_stage_tokens(&f->config, step.tokens);
    }
    *out =
        (struct split_worker){.name = w->name.text,
                              .budget_bytes = budget_of(f, w),
                              .scratch_bytes = costs_scratch(&f->config, &step),
                              .speed = 1};
    return out->budget_bytes > 0;
}

/* Sets what depends on the worker's options. */
static void set_costs(struct fit *f, const struct cluster_worker *w)
{
    struct costs_step step = step_of(f, w);
    struct kv_format kv = kv_of(f, w);

    costs_of_shapes(&f->costs, &f->config, &kv);
    f->costs.head_scratch_bytes = costs_head_scratch(&f->config, &step);
    f->costs.hidden_scratch_bytes = costs_hidden_scratch(&f->config, &step);
    costs_add_kept(&f->costs, &f->config, &step);
}

static void check_alone(struct fit *f, const struct cluster_worker *w)
{
    struct split_terms terms = terms_of(f, w, 1);
    struct split_worker worker;
    struct error e;

    set_costs(f, w);
    if (add_worker(f, w, false, &worker) &&
        split_find(&f->split, &f->table, &f->costs, &worker, 1, &terms, &e) !=
            ST_OK) {
        faults_add(f->faults, w->memory.at, "model %s on worker %s: %s",
                   f->model->name.text, w->name.text, e.text);
    }
}

/* Checks the replica of the workers that have the stages and the model of w,
 * once, at the first of them. */
static void check_replica(struct fit *f, const struct cluster_worker *w)
{
    const struct cluster *c = f->layout->cluster;
    struct split_terms terms = terms_of(f, w, (uint32_t)w->stages.v);
    struct split_worker workers[STAGES_MAX];
    uint32_t n = 0;
    struct error e;

    for (size_t i = 0; i < c->n_workers; i++) {
        const struct cluster_worker *v = &c->workers[i];

        if (v->stages.v != w->stages.v ||
            cluster_model_find(c, v->model.text) != f->model) {
            continue;
        }
        if (n == 0 && v != w) {
            return;
        }
        for (uint64_t k = 0; k < v->count.v && n < STAGES_MAX; k++) {
            if (!add_worker(f, v, true, &workers[n++])) {
                return;
            }
        }
    }
    set_costs(f, w);
    if (n >= w->stages.v && split_find(&f->split, &f->table, &f->costs, workers,
                                       n, &terms, &e) != ST_OK) {
        faults_add(f->faults, w->stages.at,
                   "model %s in %" PRIu64 " stages: %s", f->model->name.text,
                   w->stages.v, e.text);
    }
}

/* Checks the KV formats of the model's workers, which must agree.  Returns
 * whether all are valid. */
static bool check_formats(struct fit *f)
{
    const struct cluster *c = f->layout->cluster;
    const struct cluster_worker *first = NULL;
    bool valid = true;

    for (size_t i = 0; i < c->n_workers; i++) {
        const struct cluster_worker *w = &c->workers[i];
        char name[KV_NAME_MAX], other[KV_NAME_MAX];
        struct kv_format kv, before;
        struct error e;

        if (cluster_model_find(c, w->model.text) != f->model ||
            w->name.text == NULL) {
            continue;
        }
        if (format_of(f, w, &kv, &e) != ST_OK) {
            faults_add(f->faults, w->name.at, "worker %s: %s", w->name.text,
                       e.text);
            valid = false;
            continue;
        }
        before = first != NULL ? kv_of(f, first) : kv;
        if (!kv_format_same(&kv, &before)) {
            faults_add(f->faults, w->name.at,
                       "worker %s: its KV cache is %s, but that of worker %s "
                       "of the same model is %s; give all workers of a model "
                       "the same kv_* options",
                       w->name.text, kv_format_name(&kv, name),
                       first->name.text, kv_format_name(&before, other));
        }
        first = first != NULL ? first : w;
    }
    return valid;
}

static void check_workers(struct fit *f)
{
    const struct cluster *c = f->layout->cluster;

    for (size_t i = 0; i < c->n_workers; i++) {
        const struct cluster_worker *w = &c->workers[i];
        struct error e;

        if (cluster_model_find(c, w->model.text) != f->model ||
            w->name.text == NULL) {
            continue;
        }
        use_drafts(f, w);
        if (sizes_check_slots(&f->config, number_of(&w->unit, "slots", 0),
                              &e) != ST_OK) {
            faults_add(f->faults, w->name.at, "worker %s: %s", w->name.text,
                       e.text);
        } else if (w->layers.text != NULL) {
            check_layers(f, w);
        } else if (w->stages.v > 1) {
            check_replica(f, w);
        } else {
            check_alone(f, w);
        }
    }
}

/* ---- models ---- */

/* Writes the model's folder on this machine to f->dir.  Returns false if it is
 * not here. */
static bool find_dir(struct fit *f, const char *base)
{
    const struct cluster_model *m = f->model;

    if (m->here.text != NULL) {
        cluster_path(f->dir, sizeof f->dir, base, m->here.text);
        return true;
    }
    snprintf(f->dir, sizeof f->dir, "%s", m->path.text);
    return directory_has(f->dir, "config.json") || gguf_files_exist(f->dir);
}

static void check_model(struct fit *f, const struct fit_where *where,
                        struct faults *notes)
{
    const struct cluster_model *m = f->model;
    unsigned need = DIRECTORY_CONFIG;
    struct error e;

    if (m->path.text == NULL) {
        return;
    }
    if (m->path.text[0] != '/') {
        faults_add(f->faults, m->path.at,
                   "path %s: a folder from the root of each host is required, "
                   "such as /srv/models/%s",
                   m->path.text, m->name.text);
        return;
    }
    if (where->models_here) {
        need |= DIRECTORY_TOKENIZER | DIRECTORY_WEIGHTS;
    }
    if (!find_dir(f, where->base) && !where->models_here) {
        faults_add(notes, m->path.at,
                   "model %s: %s is not on this machine, so sizes were not "
                   "compared; `here` names a copy",
                   m->name.text, m->path.text);
        return;
    }
    if (directory_check(f->dir, need, &e) != ST_OK ||
        config_load(&f->config, f->dir, &e) != ST_OK) {
        faults_add(f->faults, m->here.text != NULL ? m->here.at : m->path.at,
                   "model %s: %s: %s", m->name.text, f->dir, e.text);
        return;
    }
    if (mtp_find_in(&f->mtp, &f->config, f->dir, &e) != ST_OK) {
        f->mtp.usable = false; /* a fault of the weights, not of the file */
    }
    if (check_formats(f)) {
        check_workers(f);
    }
    check_last(f);
}

/* ---- hosts ---- */

/* The budgets of a host's workers on the CPU share its memory. */
static void check_host(const struct fit *f, const struct cluster_host *h)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < f->layout->n; i++) {
        const struct instance *in = &f->layout->instances[i];

        if (in->host == h && on_cpu(in->worker)) {
            sum += budget_of(f, in->worker);
        }
    }
    if (h->memory.given && sum > h->memory.v) {
        faults_add(f->faults, h->memory.at,
                   "host %s has %.1f GiB, but its workers' memory adds up to "
                   "%.1f GiB; lower theirs",
                   h->name.text, (double)h->memory.v / 0x1p30,
                   (double)sum / 0x1p30);
    }
}

void cluster_fit_check(const struct layout *l, const struct fit_where *where,
                       struct faults *f, struct faults *notes)
{
    struct fit *fit = memory_must(calloc(1, sizeof *fit));

    fit->layout = l;
    fit->faults = f;
    for (size_t i = 0; i < l->cluster->n_models; i++) {
        fit->model = &l->cluster->models[i];
        check_model(fit, where, notes);
    }
    for (size_t i = 0; i < l->cluster->n_hosts; i++) {
        if (l->cluster->hosts[i].name.text != NULL) {
            check_host(fit, &l->cluster->hosts[i]);
        }
    }
    free(fit);
    faults_sort(f);
}
