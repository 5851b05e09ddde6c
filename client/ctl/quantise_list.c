#include "client/ctl/quantise_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/quote.h"
#include "common/model/layout.h"

#define KEY_ROOM 128

enum role {
    ROLE_NONE,   /* a vector, or not part of the model */
    ROLE_MATRIX, /* as stored, or its codes */
    ROLE_SCALES  /* of FP8 blocks */
};

struct lister {
    struct quantise_list *list;
    const struct model_config *config;
    const struct checkpoint *files;
    uint32_t group;
    enum role *roles; /* [files->n_tensors] */
    uint32_t file;
    struct error *error;
    enum status status;
};

static void fail_memory(struct lister *l)
{
    if (l->status == ST_OK) {
        l->status = error_set(l->error, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
}

/* A load widens vectors to float32 and keeps matrices as stored, so a tensor
 * that it does not widen is a matrix.  Scales of blocks go to its scratch. */
static enum status find_roles(struct lister *l)
{
    struct layout y;
    enum status st = layout_of_model(&y, l->config, l->files, l->error);

    l->roles = calloc(l->files->n_tensors + 1, sizeof *l->roles);
    if (l->roles == NULL) {
        fail_memory(l);
        st = st == ST_OK ? l->status : st;
    }
    for (uint32_t i = 0; i < y.n && st == ST_OK; i++) {
        const struct slice *s = &y.slices[i];

        if (s->scratch || !s->widen) {
            l->roles[s->source - l->files->tensors] =
                s->scratch ? ROLE_SCALES : ROLE_MATRIX;
        }
    }
    layout_fini(&y);
    return st;
}

static enum role role_of(const struct lister *l,
                         const struct checkpoint_tensor *t)
{
    return t == NULL ? ROLE_NONE : l->roles[t - l->files->tensors];
}

/* Adds a tensor with room for n parts, or returns NULL. */
static struct quantise_tensor *add(struct lister *l, const char *name,
                                   uint32_t n)
{
    struct quantise_list *list = l->list;
    struct quantise_tensor *t;

    if (list->n == list->room) {
        uint32_t room = list->room * 2 + 64;

        t = realloc(list->tensors, room * sizeof *t);
        if (t == NULL) {
            fail_memory(l);
            return NULL;
        }
        list->tensors = t;
        list->room = room;
    }
    t = &list->tensors[list->n++];
    *t = (struct quantise_tensor){.name = strdup(name),
                                  .file = l->file,
                                  .parts = calloc(n + 1, sizeof *t->parts)};
    if (t->name == NULL || t->parts == NULL) {
        fail_memory(l);
        return NULL;
    }
    return t;
}

static void copy(struct lister *l, const struct safetensors_tensor *info)
{
    struct quantise_tensor *t = add(l, info->name, 0);

    if (t != NULL) {
        t->info = info;
    }
}

/* ---- matrices ---- */

static const struct checkpoint_tensor *find(const struct lister *l,
                                            const char *stem, const char *end)
{
    char key[KEY_ROOM];

    snprintf(key, sizeof key, "%s%s", stem, end);
    return checkpoint_find(l->files, key);
}

static enum dtype dtype_of(const struct lister *l,
                           const struct checkpoint_tensor *t)
{
    switch ((int)t->info->dtype) {
    case SAFETENSORS_F32:
        return DTYPE_F32;
    case SAFETENSORS_BF16:
        return DTYPE_BF16;
    case SAFETENSORS_F16:
        return DTYPE_F16;
    default:
        return l->config->shape.dtype;
    }
}

static void add_part(struct lister *l, struct quantise_tensor *to,
                     const struct checkpoint_tensor *t, uint64_t first,
                     uint32_t rows)
{
    bool fp8 = t->info->dtype == SAFETENSORS_F8_E4M3;

    to->parts[to->n_parts++] = (struct quantise_part){
        .source = t,
        .scales = fp8 ? find(l, t->key, "_scale_inv") : NULL,
        .first = first,
        .rows = rows,
    };
}

/* Routers decide by small differences, and are small themselves.  So is mtp.fc,
 * which reads an embedding and a hidden state side by side. */
static bool stays_plain(const char *key)
{
    static const char *const ends[] = {".mlp.gate.weight", ".mlp.router.weight",
                                       ".mlp.shared_expert_gate.weight",
                                       "mtp.fc.weight"};
    size_t n = strlen(key);

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t m = strlen(ends[i]);

        if (n >= m && strcmp(key + n - m, ends[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void describe(const struct lister *l, struct quantise_tensor *t,
                     const struct checkpoint_tensor *like)
{
    t->form = t->dims[t->rank - 1] % l->group == 0 && !stays_plain(like->key)
                  ? QUANTISE_AFFINE
                  : QUANTISE_PLAIN;
    t->dtype = dtype_of(l, like);
}

/* A matrix that is plain already and stays so is a copy. */
static void matrix(struct lister *l, const struct checkpoint_tensor *t)
{
    struct quantise_tensor *to = add(l, t->info->name, 1);

    if (to == NULL) {
        return;
    }
    to->rank = 2;
    to->dims[0] = t->info->dims[0];
    to->dims[1] = t->info->dims[1];
    describe(l, to, t);
    if (to->form == QUANTISE_PLAIN && t->info->dtype != SAFETENSORS_F8_E4M3) {
        to->form = QUANTISE_COPY;
        to->info = t->info;
        return;
    }
    add_part(l, to, t, 0, (uint32_t)to->dims[0]);
}

/* ---- experts ---- */

/* Splits "P.mlp.KIND.REST" of a stored name or key.  Returns REST and sets
 * *stem to the length of "P.mlp.", or returns NULL. */
static const char *after(const char *name, const char *kind, size_t *stem)
{
    const char *at = strstr(name, kind);

    if (at == NULL) {
        return NULL;
    }
    *stem = (size_t)(at - name) + strlen(".mlp.");
    return at + strlen(kind);
}

/* Begins "P.mlp.switch_mlp.KIND_proj.weight" beside a stored tensor. */
static struct quantise_tensor *switched(struct lister *l,
                                        const struct checkpoint_tensor *t,
                                        size_t stem, const char *kind)
{
    const struct model_shape *s = &l->config->shape;
    bool down = strcmp(kind, "down") == 0;
    size_t room = strlen(t->info->name) + 64;
    char *name = malloc(room);
    struct quantise_tensor *to = NULL;

    if (name == NULL) {
        fail_memory(l);
        return NULL;
    }
    /* The stem of a stored name has a prefix that its key has not. */
    stem += strlen(t->info->name) - strlen(t->key);
    snprintf(name, room, "%.*sswitch_mlp.%s_proj.weight", (int)stem,
             t->info->name, kind);
    to = add(l, name, s->n_experts);
    free(name);
    if (to != NULL) {
        to->rank = 3;
        to->dims[0] = s->n_experts;
        to->dims[1] = down ? s->hidden : s->expert_dim;
        to->dims[2] = down ? s->expert_dim : s->hidden;
        describe(l, to, t);
    }
    return to;
}

/* Gathers the tensors of all experts where that of the first is met. */
static void apart(struct lister *l, const struct checkpoint_tensor *t,
                  size_t stem, const char *rest)
{
    static const char *const kinds[] = {"gate", "up", "down"};
    char *end;
    unsigned long e = strtoul(rest, &end, 10);

    for (int i = 0; e == 0 && i < 3; i++) {
        struct quantise_tensor *to;
        char tail[32];

        snprintf(tail, sizeof tail, ".%s_proj.weight", kinds[i]);
        if (strcmp(end, tail) != 0) {
            continue;
        }
        to = switched(l, t, stem, kinds[i]);
        for (uint32_t k = 0; to != NULL && k < l->config->shape.n_experts;
             k++) {
            char key[KEY_ROOM];

            snprintf(key, sizeof key, "%.*sexperts.%u%s", (int)stem, t->key, k,
                     tail);
            add_part(l, to, checkpoint_find(l->files, key), 0,
                     (uint32_t)to->dims[1]);
        }
    }
}

/* Adds matrix i of n in each expert of a tensor of all experts. */
static void split(struct lister *l, const struct checkpoint_tensor *t,
                  size_t stem, const char *kind, uint32_t i, uint32_t n)
{
    struct quantise_tensor *to = switched(l, t, stem, kind);

    for (uint32_t e = 0; to != NULL && e < l->config->shape.n_experts; e++) {
        uint32_t rows = (uint32_t)to->dims[1];

        add_part(l, to, t, ((uint64_t)e * n + i) * rows, rows);
    }
}

static void experts(struct lister *l, const struct checkpoint_tensor *t)
{
    size_t stem = 0;
    const char *rest = after(t->key, ".mlp.experts.", &stem);

    if (rest == NULL) {
        rest = after(t->key, ".mlp.switch_mlp.", &stem);
        split(l, t, stem,
              rest[0] == 'g'   ? "gate"
              : rest[0] == 'u' ? "up"
                               : "down",
              0, 1);
    } else if (strcmp(rest, "gate_up_proj") == 0) {
        split(l, t, stem, "gate", 0, 2);
        split(l, t, stem, "up", 1, 2);
    } else if (strcmp(rest, "down_proj") == 0) {
        split(l, t, stem, "down", 0, 1);
    } else {
        apart(l, t, stem, rest);
    }
}

static bool is_of_experts(const struct checkpoint_tensor *t)
{
    return strstr(t->key, ".mlp.experts.") != NULL ||
           strstr(t->key, ".mlp.switch_mlp.") != NULL;
}

/* ---- the list ---- */

static void list_tensor(struct lister *l, const struct checkpoint_file *f,
                        uint32_t i)
{
    const struct safetensors_tensor *info = &f->header.tensors[i];
    const char *key = checkpoint_key_of(l->files, f, i);
    const struct checkpoint_tensor *t =
        key == NULL ? NULL : checkpoint_find(l->files, key);

    switch (role_of(l, t)) {
    case ROLE_SCALES:
        return;
    case ROLE_MATRIX:
        if (is_of_experts(t)) {
            experts(l, t);
        } else {
            matrix(l, t);
        }
        return;
    default:
        copy(l, info);
    }
}

static enum status check(const struct model_config *c,
                         const struct checkpoint *files, struct error *e)
{
    if (files->gguf) {
        return error_set(e, ST_UNIMPLEMENTED,
                         "GGUF files cannot be quantised here; quantise the "
                         "safetensors that they were made of, or serve the "
                         "files as they are");
    }
    if (c->quant.format == WEIGHT_AFFINE && c->quant.bits > 0) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "the model is already quantised, at %u bits",
                         c->quant.bits);
    }
    if (c->quant.format == WEIGHT_MXFP4) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "the model is already quantised: its experts are "
                         "MXFP4, of 4.25 bits; serve it as it is");
    }
    return c->shape.gate_up_alternate
               ? error_set(e, ST_UNIMPLEMENTED,
                           "experts of %s, whose gate and up rows alternate, "
                           "cannot be quantised; use the checkpoint with MXFP4 "
                           "experts",
                           c->family)
               : ST_OK;
}

enum status quantise_list_make(struct quantise_list *list,
                               const struct model_config *config,
                               const struct checkpoint *files, uint32_t group,
                               struct error *e)
{
    struct lister l = {.list = list,
                       .config = config,
                       .files = files,
                       .group = group,
                       .error = e,
                       .status = ST_OK};

    *list = (struct quantise_list){.n = 0};
    l.status = check(config, files, e);
    if (l.status == ST_OK) {
        l.status = find_roles(&l);
    }
    for (; l.status == ST_OK && l.file < files->n_files; l.file++) {
        const struct checkpoint_file *f = &files->files[l.file];

        for (uint32_t i = 0; i < f->header.n && l.status == ST_OK; i++) {
            list_tensor(&l, f, i);
        }
    }
    free(l.roles);
    return l.status;
}

void quantise_list_fini(struct quantise_list *l)
{
    for (uint32_t i = 0; i < l->n; i++) {
        free(l->tensors[i].name);
        free(l->tensors[i].parts);
    }
    free(l->tensors);
    *l = (struct quantise_list){.n = 0};
}
