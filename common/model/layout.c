#include "common/model/layout.h"

#include <stdlib.h>
#include <string.h>

#include "common/model/maker.h"

/* Gemma has a norm on both sides of mixer and feed-forward: what other
 * families call post_attention_layernorm is the mixer's output there. */
static void norms(struct maker *m, struct layer_weights *w)
{
    uint32_t hidden = m->config->shape.hidden;

    maker_norm(m, &w->input_norm, "input_layernorm.weight", hidden);
    if (!m->config->output_norms) {
        maker_norm(m, &w->post_norm, "post_attention_layernorm.weight", hidden);
        return;
    }
    maker_norm(m, &w->mixer_norm, "post_attention_layernorm.weight", hidden);
    maker_norm(m, &w->post_norm, "pre_feedforward_layernorm.weight", hidden);
    maker_norm(m, &w->ffn_norm, "post_feedforward_layernorm.weight", hidden);
}

static void layer(struct maker *m, struct layer_weights *w)
{
    w->kind = m->config->mixers[m->layer];
    w->ffn = m->config->ffns[m->layer];
    norms(m, w);
    if (mixer_attends(w->kind)) {
        maker_attention(m, &w->mixer.attention);
    } else {
        maker_deltanet(m, &w->mixer.deltanet);
    }
    if (w->ffn == FFN_EXPERTS) {
        maker_experts(m, &w->experts);
    } else {
        maker_mlp(m, &w->mlp, "mlp", m->config->shape.intermediate);
    }
}

/* Lays out the embedding of a first stage, and norm and head of a last stage.
 * A last stage of a tied model that is not also the first reads the embedding
 * as its head. */
static void ends(struct maker *m, struct shard_weights *w)
{
    const struct model_config *c = m->config;
    const struct model_shape *s = &c->shape;

    if (w->begin == 0) {
        maker_whole(m, &w->embed, maker_find(m, "embed_tokens.weight"),
                    s->vocab, s->hidden);
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
    } else if (w->begin > 0) {
        maker_whole(m, &w->head, maker_find(m, "embed_tokens.weight"), s->vocab,
                    s->hidden);
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
    if (strncmp(key, "layers.", 7) != 0) {
        return false;
    }
    n = strtoul(key + 7, &end, 10);
    return *end == '.' && n < w->shape.n_layers &&
           (n < w->begin || n >= w->end);
}

/* Unknown tensors are only counted: many checkpoints carry leftovers of
 * training. */
static void count_unknown(struct maker *m, const struct shard_weights *w)
{
    const struct checkpoint *c = m->checkpoint;
    struct layout *l = m->layout;

    for (uint32_t i = 0; i < c->n_tensors; i++) {
        if (!m->used[i] && !elsewhere(w, c->tensors[i].key)) {
            l->unknown =
                l->n_unknown++ > 0 ? l->unknown : c->tensors[i].info->name;
        }
    }
}

enum status layout_make(struct layout *l, struct shard_weights *w,
                        struct layer_weights *layers,
                        const struct model_config *config,
                        const struct checkpoint *checkpoint, struct error *e)
{
    struct maker m = {.layout = l,
                      .config = config,
                      .checkpoint = checkpoint,
                      .error = e,
                      .status = ST_OK};

    memset(l, 0, sizeof *l);
    m.used = calloc(checkpoint->n_tensors + 1, sizeof *m.used);
    if (m.used == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "no memory for a layout");
    }
    m.shift = norm_shift(&m);
    ends(&m, w);
    for (m.layer = w->begin; m.status == ST_OK && m.layer < w->end; m.layer++) {
        layer(&m, &layers[m.layer - w->begin]);
    }
    count_unknown(&m, w);
    free(m.used);
    return m.status;
}

enum status layout_of_model(struct layout *l, const struct model_config *config,
                            const struct checkpoint *checkpoint,
                            struct error *e)
{
    struct shard_weights w = {.shape = config->shape,
                              .end = config->shape.n_layers};
    struct layer_weights *layers = calloc(w.end, sizeof *layers);
    enum status st;

    memset(l, 0, sizeof *l);
    if (layers == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "no memory for a layout");
    }
    st = layout_make(l, &w, layers, config, checkpoint, e);
    /* The weights are freed below, so no pointer to them may remain. */
    l->n_anchors = 0;
    free(layers);
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
    if (config->tied && w->begin == 0 && w->end == w->shape.n_layers) {
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
