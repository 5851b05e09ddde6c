#include "common/model/layout.h"

#include <stdlib.h>
#include <string.h>

#include "common/model/ffn.h"
#include "common/model/maker.h"
#include "common/model/mixer.h"

/* Gemma has a norm on both sides of mixer and feed-forward: what other
 * families call post_attention_layernorm is the mixer's output there, and in
 * families that norm outputs alone. */
static void norms(struct maker *m, struct layer_weights *w)
{
    const struct model_config *c = m->config;
    uint32_t hidden = c->shape.hidden;

    if (!c->bare_inputs) {
        maker_norm(m, &w->input_norm, "input_layernorm.weight", hidden);
    }
    if (!c->output_norms) {
        maker_norm(m, &w->post_norm, "post_attention_layernorm.weight", hidden);
        return;
    }
    maker_norm(m, &w->mixer_norm, "post_attention_layernorm.weight", hidden);
    if (!c->bare_inputs) {
        maker_norm(m, &w->post_norm, "pre_feedforward_layernorm.weight",
                   hidden);
    }
    maker_norm(m, &w->ffn_norm, "post_feedforward_layernorm.weight", hidden);
}

/* Lays out layer i of the model, m->layer in keys. */
static void layer(struct maker *m, struct layer_weights *w, uint32_t i)
{
    w->kind = m->config->mixers[i];
    w->ffn = m->config->ffns[i];
    norms(m, w);
    if (mixer_rows[w->kind]->tensors != NULL) {
        mixer_rows[w->kind]->tensors(m, w);
    }
    ffn_rows[w->ffn]->tensors(m, w);
}

static void embedding(struct maker *m, struct tensor *out)
{
    const struct model_shape *s = &m->config->shape;

    maker_whole(m, out, maker_find(m, "embed_tokens.weight"), s->vocab,
                s->hidden);
}

/* Lays out the embedding of a first stage or for drafts, and norm and head of a
 * last stage.  A tied head is the embedding: a last stage without it reads it
 * as its head. */
static void ends(struct maker *m, struct shard_weights *w)
{
    const struct model_config *c = m->config;
    const struct model_shape *s = &c->shape;
    bool embeds = w->begin == 0 || config_drafts_at(c, w->end);

    if (embeds) {
        embedding(m, &w->embed);
    }
    /* Only the stage with the last layer has norm and head. */
    if (w->end < s->n_layers) {
        return;
    }
    maker_vector_of(m, &w->final_norm, maker_find(m, "norm.weight"), s->hidden,
                    m->shift);
    if (!c->tied) {
        maker_whole(m, &w->head, maker_find(m, "lm_head.weight"), s->vocab,
                    s->hidden);
    } else if (!embeds) {
        embedding(m, &w->head);
    }
}

/* Every convolution of the checkpoint decides, also one outside the range, so
 * that all layer ranges agree. */
static float norm_shift(const struct maker *m)
{
    const struct checkpoint *c = m->checkpoint;
    static const char tail[] = "linear_attn.conv1d.weight";
    size_t n = sizeof tail - 1;

    if (m->config->norms == NORM_GAMMA) {
        return 0;
    }
    for (uint32_t i = 0; i < c->n_tensors; i++) {
        const struct checkpoint_tensor *t = &c->tensors[i];
        size_t len = strlen(t->key);

        if (len > n && strcmp(t->key + len - n, tail) == 0) {
            return t->info->rank == 3 && t->info->dims[2] == 1 ? 0 : 1;
        }
    }
    return 1;
}

/* Checkpoints in the form of the reference store gamma - 1 in every norm. MLX
 * conversions have converted the norms whose names they recognise, or none, and
 * companion files were made with or without a conversion. */
static bool must_guess(const struct maker *m)
{
    const struct checkpoint_tensor *t =
        checkpoint_find(m->checkpoint, "mtp.norm.weight");

    return m->config->norms == NORM_GAMMA_MINUS_1 &&
           (m->shift == 0 ||
            (t != NULL && m->checkpoint->files[t->file].companion));
}

static void mtp_norm(struct maker *m, const float **out, const char *key)
{
    maker_vector_of(m, out, maker_find(m, key), m->config->shape.hidden,
                    m->shift);
}

static void mtp(struct maker *m, struct shard_weights *w,
                struct layout_parts *parts)
{
    uint32_t hidden = m->config->shape.hidden;
    struct mtp_weights *p = &parts->mtp;

    w->mtp = p;
    m->guess = must_guess(m);
    m->shift = m->guess ? 1 : m->shift;
    maker_whole(m, &p->fc, maker_find(m, "mtp.fc.weight"), hidden, 2 * hidden);
    mtp_norm(m, &p->embed_norm, "mtp.pre_fc_norm_embedding.weight");
    mtp_norm(m, &p->hidden_norm, "mtp.pre_fc_norm_hidden.weight");
    mtp_norm(m, &p->norm, "mtp.norm.weight");
    m->root = "mtp.";
    m->layer = 0;
    layer(m, &parts->layers[w->end - w->begin], w->shape.n_layers);
}

/* Returns whether an unused tensor belongs to another range or to another
 * stage's embedding or head. */
static bool elsewhere(const struct shard_weights *w, const char *key)
{
    /* The first and the last stage use these, so they are no strangers
     * elsewhere. */
    static const char *const of_ends[] = {"embed_tokens.", "norm.", "lm_head."};
    unsigned long n;
    char *end;

    for (int i = 0; i < 3; i++) {
        if (strncmp(key, of_ends[i], strlen(of_ends[i])) == 0) {
            return true;
        }
    }
    if (checkpoint_is_mtp(key)) {
        return w->mtp == NULL;
    }
    if (strncmp(key, "layers.", 7) != 0) {
        return false;
    }
    n = strtoul(key + 7, &end, 10);
    return *end == '.' && n < w->shape.n_layers &&
           (n < w->begin || n >= w->end);
}

/* Returns whether an unused tensor is of an MTP layer that is not wanted. */
static bool is_aside(const struct maker *m, const char *key)
{
    return !m->config->drafts && checkpoint_is_mtp(key);
}

/* Unknown tensors are only counted: many checkpoints carry leftovers of
 * training. */
static void count_unused(struct maker *m, const struct shard_weights *w)
{
    const struct checkpoint *c = m->checkpoint;
    struct layout *l = m->layout;

    l->n_aside = c->n_aside;
    for (uint32_t i = 0; i < c->n_tensors; i++) {
        if (m->used[i]) {
            continue;
        }
        if (is_aside(m, c->tensors[i].key)) {
            l->n_aside++;
        } else if (!elsewhere(w, c->tensors[i].key)) {
            l->unknown =
                l->n_unknown++ > 0 ? l->unknown : c->tensors[i].info->name;
        }
    }
}

enum status layout_make(struct layout *l, struct shard_weights *w,
                        struct layout_parts *parts,
                        const struct model_config *config,
                        const struct checkpoint *checkpoint, struct error *e)
{
    struct maker m = {.layout = l,
                      .config = config,
                      .checkpoint = checkpoint,
                      .root = "",
                      .error = e,
                      .status = ST_OK};

    memset(l, 0, sizeof *l);
    m.used = calloc(checkpoint->n_tensors + 1, sizeof *m.used);
    if (m.used == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "no memory for a layout");
    }
    w->layers = parts->layers;
    m.shift = norm_shift(&m);
    ends(&m, w);
    for (m.layer = w->begin; m.status == ST_OK && m.layer < w->end; m.layer++) {
        layer(&m, &parts->layers[m.layer - w->begin], m.layer);
    }
    if (m.status == ST_OK && config_drafts_at(config, w->end)) {
        mtp(&m, w, parts);
    }
    count_unused(&m, w);
    free(m.used);
    return m.status;
}

enum status layout_of_model(struct layout *l, const struct model_config *config,
                            const struct checkpoint *checkpoint,
                            struct error *e)
{
    struct shard_weights w = {.shape = config->shape,
                              .end = config->shape.n_layers};
    struct layout_parts parts = {
        .layers = calloc(w.end + (size_t)1, sizeof *parts.layers)};
    enum status st;

    memset(l, 0, sizeof *l);
    if (parts.layers == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "no memory for a layout");
    }
    st = layout_make(l, &w, &parts, config, checkpoint, e);
    /* The weights are freed below, so no pointer to them may remain. */
    l->n_anchors = 0;
    free(parts.layers);
    return st;
}

void layout_place(const struct layout *l, struct shard_weights *w,
                  const struct model_config *config, const void *memory)
{
    for (uint32_t i = 0; i < l->n_anchors; i++) {
        const struct anchor *a = &l->anchors[i];
        const char *at = (const char *)memory + a->place;

        if (a->matrix != NULL) {
            *a->matrix = at;
        } else {
            *a->vector = (const float *)(const void *)at;
        }
    }
    if (config->tied && w->embed.data != NULL && w->end == w->shape.n_layers) {
        w->head = w->embed;
    }
}

void layout_fini(struct layout *l)
{
    free(l->slices);
    free(l->spreads);
    free(l->anchors);
    memset(l, 0, sizeof *l);
}
