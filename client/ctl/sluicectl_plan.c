/* sluicectl_plan.c - The verb plan: which worker would get which layers, and
 * how many sequences would then fit.
 *
 * Plan, `sluice-worker --check` and the worker use the same functions for sizes
 * and splits (common/model/, common/split/), so their results agree. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/argument.h"
#include "client/ctl/columns.h"
#include "client/ctl/ctl.h"
#include "client/ctl/json_message.h"
#include "client/ctl/plan_explain.h"
#include "common/base/cpus.h"
#include "common/base/option_value.h"
#include "common/model/arithmetic.h"
#include "common/model/costs.h"
#include "common/model/directory.h"
#include "common/model/mixer.h"
#include "common/model/mtp.h"
#include "common/model/sizes.h"
#include "common/split/layer_split.h"

#define LOGIT_ROWS 64 /* as the backends' (kernels/kernels.h) */

struct plan {
    const struct ctl *ctl;
    struct model_config config;
    uint32_t drafts;
    bool from_text; /* --drafter ngram: the MTP layer is not loaded */
    struct mtp_found mtp;
    bool has_files;
    struct kv_format kv;
    struct argument_worker given[STAGES_MAX]; /* [n_workers] --workers */
    struct split_worker workers[STAGES_MAX];  /* for split_find() */
    size_t n_workers;
    uint32_t lengths[PLAN_LENGTHS_MAX]; /* [n_lengths] ascending */
    size_t n_lengths;
    struct split_model model;
    struct split_terms terms;
    struct costs_step step; /* the largest of each worker */
    struct split split;
    struct split_table table;
};

/* ---- options and model ---- */

static enum status read_workers(struct plan *p, struct error *e)
{
    const struct option_list *list = &p->ctl->o.workers;

    for (unsigned i = 0; i < list->n; i++) {
        enum status st = argument_workers(list->item[i], p->given, STAGES_MAX,
                                          &p->n_workers, e);

        if (st != ST_OK) {
            return error_wrap(e, "--workers");
        }
    }
    if (p->n_workers == 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--workers NAME=SIZE,... is required");
    }
    if (p->n_workers > 1 && p->terms.n_stages != 1) {
        p->step.tokens = costs_stage_tokens(&p->config, p->step.tokens);
    }
    for (size_t i = 0; i < p->n_workers; i++) {
        p->workers[i] = (struct split_worker){
            .name = p->given[i].name,
            .budget_bytes = p->given[i].bytes,
            .scratch_bytes = p->ctl->o.scratch > 0
                                 ? p->ctl->o.scratch
                                 : costs_scratch(&p->config, &p->step),
            .speed = p->given[i].speed,
        };
    }
    return ST_OK;
}

static int by_length(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

/* Reads --lengths, by default 1024, times 4, ... and the context.  The split
 * makes room for the longest length. */
static enum status read_lengths(struct plan *p, struct error *e)
{
    const struct option_list *list = &p->ctl->o.lengths;
    uint32_t context = p->terms.context;

    for (unsigned i = 0; i < list->n; i++) {
        if (argument_lengths(list->item[i], p->lengths, PLAN_LENGTHS_MAX,
                             &p->n_lengths, e) != ST_OK) {
            return error_wrap(e, "--lengths");
        }
    }
    for (size_t i = 0; i < p->n_lengths; i++) {
        if (p->lengths[i] == 0 || p->lengths[i] > context) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "--lengths %u: 1 to the context of %u is allowed",
                             p->lengths[i], context);
        }
    }
    if (p->n_lengths == 0) {
        for (uint32_t n = 1024; n < context; n *= 4) {
            p->lengths[p->n_lengths++] = n;
        }
        p->lengths[p->n_lengths++] = context;
    }
    qsort(p->lengths, p->n_lengths, sizeof p->lengths[0], by_length);
    p->terms.length = p->lengths[p->n_lengths - 1];
    return ST_OK;
}

/* Sets the step of a worker with these options and otherwise its defaults. */
static enum status read_step(struct plan *p, struct error *e)
{
    const struct ctl_options *o = &p->ctl->o;
    bool opencl = strcmp(o->device, "opencl") == 0;
    uint32_t tokens = opencl ? STEP_TOKENS_GPU : STEP_TOKENS_CPU;
    uint32_t chunk = opencl ? CHUNK_TOKENS_GPU : CHUNK_TOKENS_CPU;
    bool int8 =
        o->products != NULL ? strcmp(o->products, "int8") == 0 : !opencl;

    if (!opencl && strcmp(o->device, "cpu") != 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--device %s: cpu or opencl is required", o->device);
    }
    if (o->products != NULL && !int8 && strcmp(o->products, "float") != 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--products %s: give int8 or float", o->products);
    }
    if (opencl && int8) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--products int8: only the CPU has integer products; "
                         "leave it out");
    }
    p->step = (struct costs_step){
        .tokens = o->step_tokens > 0 ? o->step_tokens : tokens,
        .rows = o->max_rows,
        .threads = o->threads > 0 ? o->threads : cpus_allowed(),
        .logits = LOGIT_ROWS,
        .plans = opencl ? 3 : 2, /* the engine's depth and one more */
        .block_tokens = o->block_tokens,
        .context = p->terms.context,
        .keep_tokens = costs_keep_tokens(p->drafts, o->max_rows),
        .kept = p->kv.dtype,
        .opencl = opencl,
        .int8 = int8};
    chunk = o->chunk_tokens > 0 ? o->chunk_tokens : chunk;
    p->terms.chunk_tokens = chunk < p->step.tokens ? chunk : p->step.tokens;
    return ST_OK;
}

static enum status read_terms(struct plan *p, struct error *e)
{
    const struct ctl_options *o = &p->ctl->o;
    const struct kv_request kv = {.dtype = o->kv_dtype,
                                  .scheme = o->kv_scheme,
                                  .bits = o->kv_bits,
                                  .group = o->kv_group};
    uint32_t context = p->config.shape.context;

    if ((o->block_tokens & (o->block_tokens - 1)) != 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--block-tokens %u: 1, 2, 4, 8, 16, 32 or 64 is "
                         "required",
                         o->block_tokens);
    }
    if (o->context > context) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--context %u: the model allows at most %u tokens",
                         o->context, context);
    }
    if (sizes_check_slots(&p->config, o->slots, e) != ST_OK ||
        kv_format_choose(&p->kv, &p->config, &kv, e) != ST_OK) {
        return e->code;
    }
    p->terms =
        (struct split_terms){.n_stages = o->stages,
                             .block_tokens = o->block_tokens,
                             .context = o->context > 0 ? o->context : context,
                             .max_rows = o->max_rows,
                             .slots = o->slots,
                             .window_tokens = p->config.shape.window,
                             .in_order = o->in_order};
    return ST_OK;
}

/* Reads --drafter: writes whether drafts come from the text alone. */
static enum status read_drafter(const struct plan *p, bool *from_text,
                                struct error *e)
{
    const char *text = p->ctl->o.drafter;

    *from_text = text != NULL && strcmp(text, "ngram") == 0;
    if (text == NULL || *from_text || strcmp(text, "auto") == 0 ||
        strcmp(text, "mtp") == 0) {
        return ST_OK;
    }
    return error_set(e, ST_INVALID_ARGUMENT,
                     "--drafter %s: give auto, mtp or ngram", text);
}

/* Finds the MTP layer, which counts if it can be used. */
static enum status find_mtp(struct plan *p, const char *dir, struct error *e)
{
    const char *text = p->ctl->o.drafter;
    bool from_text;
    enum status st = read_drafter(p, &from_text, e);

    if (st != ST_OK || p->drafts == 0) {
        return st;
    }
    st = mtp_find_in(&p->mtp, &p->config, dir, e);
    if (st == ST_OK && !p->mtp.usable && text != NULL &&
        strcmp(text, "mtp") == 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--drafter mtp: %s; give --drafter ngram, or leave "
                         "--drafts out",
                         p->mtp.text);
    }
    p->from_text = from_text;
    p->config.drafts = p->mtp.usable && !from_text;
    return st;
}

/* Reads --drafts and --drafter.  A worker that chooses drafts itself has at
 * most DRAFTS_MAX. */
static enum status read_drafts(struct plan *p, const char *dir, struct error *e)
{
    const char *text = p->ctl->o.drafts;
    bool given, automatic = text != NULL && strcmp(text, "auto") == 0;
    enum status st = option_u32("drafts", automatic ? NULL : text, DRAFTS_MAX,
                                &given, &p->drafts, e);

    p->drafts = automatic ? DRAFTS_MAX : p->drafts;
    return st == ST_OK ? find_mtp(p, dir, e) : st;
}

/* Computes the sizes from config.json, then replaces them by the exact sizes in
 * the headers of the weight files, if there are any. */
static enum status read_costs(struct plan *p, const char *dir, struct error *e)
{
    struct checkpoint *files = NULL;
    enum status st;

    costs_of_shapes(&p->model, &p->config, &p->kv);
    if (p->ctl->o.scratch == 0) {
        p->model.head_scratch_bytes = costs_head_scratch(&p->config, &p->step);
        p->model.hidden_scratch_bytes =
            costs_hidden_scratch(&p->config, &p->step);
        costs_add_kept(&p->model, &p->config, &p->step);
    }
    st = directory_weights(dir, &p->has_files, e);
    if (st != ST_OK || !p->has_files) {
        return st;
    }
    st = checkpoint_open(&files, dir, e);
    if (st == ST_OK && p->config.drafts) {
        st = checkpoint_add_mtp(files, e);
    }
    if (st == ST_OK) {
        st = costs_of_files(&p->model, &p->config, files, e);
    }
    checkpoint_close(&files);
    return st;
}

/* The order matters: lengths and scratch depend on the context and the model,
 * the costs on the block size. */
static enum status read_all(struct plan *p, struct error *e)
{
    const char *dir =
        p->ctl->o.model != NULL ? p->ctl->o.model : p->ctl->operands[0];
    enum status st = config_load(&p->config, dir, e);

    if (st != ST_OK) {
        return error_wrap(e, "%s", dir);
    }
    st = read_drafts(p, dir, e);
    st = st == ST_OK ? read_terms(p, e) : st;
    st = st == ST_OK ? read_step(p, e) : st;
    st = st == ST_OK ? read_lengths(p, e) : st;
    st = st == ST_OK ? read_workers(p, e) : st;
    if (st == ST_OK && read_costs(p, dir, e) != ST_OK) {
        return error_wrap(e, "%s", dir);
    }
    return st;
}

/* ---- the result ---- */

static struct plan_explain explain_of(const struct plan *p)
{
    return (struct plan_explain){.config = &p->config,
                                 .kv = &p->kv,
                                 .split = &p->split,
                                 .workers = p->workers,
                                 .lengths = p->lengths,
                                 .n_lengths = p->n_lengths,
                                 .block_tokens = p->terms.block_tokens,
                                 .max_rows = p->terms.max_rows};
}

static const char *name_of(const struct plan *p, const struct split_stage *s)
{
    return ctl_name(
        (ProtobufCBinaryData){strlen(p->given[s->worker].name),
                              (uint8_t *)(uintptr_t)p->given[s->worker].name});
}

/* Returns whether the cap on the stage's slots, and not its pages, limits the
 * count. */
static bool lacks_slots(const struct split_stage *s, uint32_t length)
{
    return s->need.pages_per_slot > 0 &&
           s->pool.slot_cap <
               s->pool.n_pages / pool_split_pages(&s->need, length);
}

static json_t *json_stage(const struct plan *p, const struct split_stage *s)
{
    const struct argument_worker *w = &p->given[s->worker];
    json_t *j = json_object();

    json_object_set_new(j, "worker", json_text(w->name, strlen(w->name)));
    json_set_count(j, "layer_begin", s->begin);
    json_set_count(j, "layer_end", s->end);
    json_set_count(j, "budget_bytes", w->bytes);
    json_set_count(j, "weight_bytes", s->weight_bytes);
    json_set_count(j, "scratch_bytes", s->scratch_bytes);
    json_set_count(j, "pool_bytes", s->pool.bytes);
    json_set_count(j, "token_bytes", s->token_bytes);
    json_set_count(j, "block_bytes", s->token_bytes * s->need.block_tokens);
    json_set_count(j, "window_bytes",
                   s->n_window * sizes_window_kv(&p->config.shape, &p->kv) *
                       s->need.block_tokens);
    json_set_count(j, "slot_bytes", s->slot_bytes);
    json_set_count(j, "page_bytes", s->need.page_bytes);
    json_set_count(j, "pages_per_block", s->need.pages_per_block);
    json_set_count(j, "window_pages", s->need.window_pages);
    json_set_count(j, "pages_per_slot", s->need.pages_per_slot);
    json_set_count(j, "n_pages", s->pool.n_pages);
    json_set_count(j, "n_slots", s->pool.slot_cap);
    json_set_count(j, "step_bytes", s->step_bytes);
    json_object_set_new(j, "step_share", json_real(s->step_share));
    return j;
}

/* Returns the stages of a split, and for each length the number of sequences
 * and the stage that limits it. */
static json_t *json_split(const struct plan *p, const struct split *split)
{
    json_t *j = json_object(), *stages = json_array(), *counts = json_array();

    for (uint32_t i = 0; i < split->n_stages; i++) {
        json_array_append_new(stages, json_stage(p, &split->stages[i]));
    }
    for (size_t i = 0; i < p->n_lengths; i++) {
        json_t *count = json_object();
        uint32_t stage;
        uint64_t n = split_sequences(split, p->lengths[i], &stage);

        json_set_count(count, "n_tokens", p->lengths[i]);
        json_set_count(count, "n_sequences", n);
        json_set_count(count, "stage", stage);
        json_object_set_new(
            count, "lacks",
            json_string(lacks_slots(&split->stages[stage], p->lengths[i])
                            ? "slots"
                            : "pages"));
        json_array_append_new(counts, count);
    }
    json_object_set_new(j, "stages", stages);
    json_object_set_new(j, "concurrency", counts);
    return j;
}

static void print_stages(const struct plan *p, const struct split *split)
{
    bool windows = p->config.shape.window > 0;
    struct columns t;

    columns_init(&t, "STAGE", "WORKER", "LAYERS", "WEIGHTS", "SCRATCH", "POOL",
                 "PAGES", "PER SLOT", "SLOTS", "STEP",
                 windows ? "PER WINDOW BLOCK" : NULL, NULL);
    for (uint32_t i = 0; i < split->n_stages; i++) {
        const struct split_stage *s = &split->stages[i];
        const uint64_t bytes[] = {s->weight_bytes, s->scratch_bytes,
                                  s->pool.bytes};

        columns_cell(&t, "%u", i);
        columns_cell(&t, "%s", name_of(p, s));
        columns_cell(&t, "%u-%u", s->begin, s->end);
        for (int k = 0; k < 3; k++) {
            char text[BYTES_TEXT];

            bytes_write(text, bytes[k]);
            columns_cell(&t, "%s", text);
        }
        columns_cell(&t, "%u", s->pool.n_pages);
        columns_cell(&t, "%" PRIu64, s->need.pages_per_slot);
        columns_cell(&t, "%u", s->pool.slot_cap);
        columns_cell(&t, "%.1f %%", 100 * s->step_share);
        if (windows) {
            columns_cell(&t, "%u", s->need.window_pages);
        }
    }
    columns_print(&t, stdout);
    columns_fini(&t);
}

static void print_counts(const struct plan *p)
{
    struct columns t;

    columns_init(&t, "LENGTH", "SEQUENCES", "BOUND BY", NULL);
    for (size_t i = 0; i < p->n_lengths; i++) {
        uint32_t stage;
        uint64_t n = split_sequences(&p->split, p->lengths[i], &stage);
        const struct split_stage *s = &p->split.stages[stage];

        columns_cell(&t, "%u", p->lengths[i]);
        columns_cell(&t, "%" PRIu64, n);
        columns_cell(&t, "%s of stage %u, %s",
                     lacks_slots(s, p->lengths[i]) ? "slots" : "pages", stage,
                     name_of(p, s));
    }
    columns_print(&t, stdout);
    columns_fini(&t);
}

/* Plans for one worker with the whole model. */
static enum status split_alone(struct plan *p, size_t worker, struct split *out,
                               struct error *e)
{
    struct split_terms terms = p->terms;
    enum status st;

    terms.n_stages = 1;
    /* p->table is scratch here: p->split keeps no pointer into it. */
    st = split_find(out, &p->table, &p->model, &p->workers[worker], 1, &terms,
                    e);
    out->stages[0].worker = (uint32_t)worker;
    return st;
}

/* Workers of one size give the same result, so only the first is shown. */
static bool is_first_of_size(const struct plan *p, size_t worker)
{
    for (size_t i = 0; i < worker; i++) {
        if (p->given[i].bytes == p->given[worker].bytes) {
            return false;
        }
    }
    return true;
}

static void print_one(const struct plan *p, const struct split *one)
{
    const struct split_stage *s = &one->stages[0];
    uint32_t stage;

    printf("single     %s with all layers: %u pages, at most %u slots; "
           "sequences:",
           name_of(p, s), s->pool.n_pages, s->pool.slot_cap);
    for (size_t k = 0; k < p->n_lengths; k++) {
        printf("%s %" PRIu64 " of %u", k > 0 ? "," : "",
               split_sequences(one, p->lengths[k], &stage), p->lengths[k]);
    }
    puts(" tokens");
}

/* Prints each size of worker that can hold the whole model, or why the largest
 * worker cannot. */
static void print_alone(struct plan *p)
{
    struct split one;
    struct error e;
    size_t largest = 0;
    bool any = false;

    for (size_t i = 0; i < p->n_workers; i++) {
        largest = p->given[i].bytes > p->given[largest].bytes ? i : largest;
        if (is_first_of_size(p, i) && split_alone(p, i, &one, &e) == ST_OK) {
            print_one(p, &one);
            any = true;
        }
    }
    if (!any) { /* again, for the text of the error */
        (void)!split_alone(p, largest, &one, &e);
        printf("single     no worker holds all layers: %s\n", e.text);
    }
}

/* Returns the bytes of a token in all layers. */
static uint64_t token_bytes(const struct plan *p)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < p->model.n_layers; i++) {
        sum += p->model.layers[i].token_bytes;
    }
    return sum + p->model.mtp.token_bytes;
}

static void print_experts(const struct plan *p)
{
    const struct model_shape *s = &p->config.shape;

    if (s->n_experts > 0) {
        printf("experts    %u of %u a token; STEP counts what %d rows choose\n",
               s->top_k, s->n_experts, COSTS_STEP_ROWS);
    }
}

static void print_cache(const struct plan *p)
{
    const struct model_shape *s = &p->config.shape;
    char format[KV_NAME_MAX];

    printf("KV cache   %s: %" PRIu64 " bytes a token",
           kv_format_name(&p->kv, format), token_bytes(p));
    if (s->window > 0) {
        printf(", and %" PRIu64 " in windows of %u tokens",
               config_count(&p->config, MIXER_IN_WINDOWS, 0, s->n_layers) *
                   sizes_window_kv(s, &p->kv),
               s->window);
    }
    putchar('\n');
}

/* Prints the MTP layer, and what the linear layers keep. */
static void print_drafts(const struct plan *p)
{
    if (p->drafts == 0) {
        return;
    }
    printf("MTP layer  %s%s\n", p->mtp.text,
           p->mtp.usable && p->from_text ? "; not loaded with --drafter ngram"
                                         : "");
    if (config_count(&p->config, MIXER_IN_SLOT, 0, p->model.n_layers) > 0) {
        printf("kept       inputs of %u tokens: SCRATCH counts %" PRIu64
               " bytes for all linear layers\n",
               p->step.keep_tokens,
               p->ctl->o.scratch > 0
                   ? 0
                   : costs_kept(&p->config, &p->step, 0, p->model.n_layers));
    }
}

static void print_plan(struct plan *p)
{
    const struct model_config *c = &p->config;
    const char *name = c->name;
    uint32_t n = c->shape.n_layers;
    char counts[MIXER_TEXT_MAX];

    printf("model      %s: %u layers, %s",
           ctl_name(
               (ProtobufCBinaryData){strlen(name), (uint8_t *)(uintptr_t)name}),
           n, mixer_counts(c, 0, n, counts));
    printf("%s; context %u\n", c->drafts ? ", 1 MTP" : "", p->terms.context);
    print_experts(p);
    print_drafts(p);
    printf("weights    %s\n", p->has_files
                                  ? "sizes from the weight files"
                                  : "sizes computed from config.json (no "
                                    "weight files found)");
    print_cache(p);
    if (!p->split.every_order) {
        puts("order      as given; other orders were not tried");
    }
    putchar('\n');
    print_stages(p, &p->split);
    putchar('\n');
    print_counts(p);
    if (p->n_workers > 1) {
        putchar('\n');
        print_alone(p);
    }
    if (p->ctl->o.explain_blocks) {
        struct plan_explain x = explain_of(p);

        plan_explain_print(&x);
    }
}

static void print_json(struct plan *p)
{
    json_t *j = json_split(p, &p->split), *alone = json_array();
    char format[KV_NAME_MAX], id[ARITHMETIC_SIZE];

    for (size_t i = 0; i < p->n_workers; i++) {
        struct split one;

        if (is_first_of_size(p, i) && split_alone(p, i, &one, NULL) == ST_OK) {
            json_array_append_new(alone, json_split(p, &one));
        }
    }
    json_object_set_new(j, "model",
                        json_text(p->config.name, strlen(p->config.name)));
    json_set_count(j, "n_layers", p->config.shape.n_layers);
    json_object_set_new(j, "kv_format",
                        json_string(kv_format_name(&p->kv, format)));
    json_object_set_new(j, "arithmetic",
                        p->step.opencl
                            ? json_null()
                            : json_string(arithmetic_cpu(
                                  id, p->config.quant.format, p->step.int8)));
    json_set_count(j, "context", p->terms.context);
    json_set_count(j, "window_tokens", p->terms.window_tokens);
    json_set_count(j, "chunk_tokens", p->terms.chunk_tokens);
    json_set_count(j, "drafts", p->drafts);
    json_set_count(j, "n_mtp", p->config.drafts);
    json_set_count(j, "keep_tokens", p->step.keep_tokens);
    json_set_count(j, "n_experts", p->config.shape.n_experts);
    json_set_count(j, "top_k", p->config.shape.top_k);
    json_object_set_new(j, "from_files", json_boolean(p->has_files));
    json_object_set_new(j, "every_order", json_boolean(p->split.every_order));
    json_object_set_new(j, "alone", alone);
    if (p->ctl->o.explain_blocks) {
        struct plan_explain x = explain_of(p);

        json_object_set_new(j, "blocks", plan_explain_json(&x));
    }
    ctl_print_json(j);
}

int ctl_plan(struct ctl *c)
{
    struct plan *p;
    struct error e = {0};
    int rc = CTL_OK;

    if (c->n_operands + (c->o.model != NULL) != 1) {
        return ctl_misuse(c, "plan requires one model directory or GGUF file");
    }
    p = calloc(1, sizeof *p); /* too large for the stack */
    if (p == NULL) {
        return ctl_fail(c, ST_RESOURCE_EXHAUSTED, "out of memory", 0);
    }
    p->ctl = c;
    if (read_all(p, &e) != ST_OK) {
        rc = ctl_misuse(c, "%s", e.text);
    } else if (split_find(&p->split, &p->table, &p->model, p->workers,
                          (uint32_t)p->n_workers, &p->terms, &e) != ST_OK) {
        /* Bad options give exit code 2, too little memory 4. */
        rc = e.code == ST_INVALID_ARGUMENT ? ctl_misuse(c, "%s", e.text)
                                           : ctl_fail(c, e.code, e.text, 0);
    } else if (c->o.json) {
        print_json(p);
    } else {
        print_plan(p);
    }
    free(p);
    return rc;
}
