#include "common/model/costs.h"

#include <string.h>

#include "common/model/layout.h"
#include "common/model/sizes.h"

static void set_ends(struct split_model *m, const struct model_config *c,
                     uint64_t embed, uint64_t head, uint64_t norm)
{
    m->embed_bytes = embed;
    m->head_bytes = head + norm;
    m->shared_bytes = c->tied ? embed : 0;
}

void costs_of_shapes(struct split_model *m, const struct model_config *c,
                     enum dtype kv)
{
    uint64_t embed = sizes_embedding(c);

    memset(m, 0, sizeof *m);
    m->n_layers = c->shape.n_layers;
    for (uint32_t i = 0; i < m->n_layers; i++) {
        struct sizes z = sizes_of(c, i, i + 1, 1, kv);

        m->layers[i] = (struct split_layer){.weight_bytes = sizes_layer(c, i),
                                            .token_bytes = z.token_bytes,
                                            .slot_bytes = z.slot_bytes};
    }
    set_ends(m, c, embed, embed, sizes_last_norm(c));
}

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + LAYOUT_ALIGN - 1) / LAYOUT_ALIGN * LAYOUT_ALIGN;
}

static uint64_t placed(const struct tensor *t)
{
    return aligned(t->rows * tensor_row_bytes(t)) +
           2 * aligned(t->rows * tensor_scale_bytes(t));
}

enum status costs_of_files(struct split_model *m, const struct model_config *c,
                           const struct checkpoint *files, struct error *e)
{
    uint64_t embed = 0, head = 0, norm = sizes_last_norm(c);
    enum status st = ST_OK;

    for (uint32_t i = 0; i < m->n_layers && st == ST_OK; i++) {
        struct shard_weights w = {.shape = c->shape, .begin = i, .end = i + 1};
        struct layer_weights layer = {0};
        struct layout l;

        st = layout_make(&l, &w, &layer, c, files, e);
        embed = i == 0 ? placed(&w.embed) : embed;
        head = placed(&w.head); /* 0 except for the last layer */
        m->layers[i].weight_bytes = l.bytes - head - (i == 0 ? embed : 0) -
                                    (i + 1 == m->n_layers ? norm : 0);
        layout_fini(&l);
    }
    set_ends(m, c, embed, c->tied ? embed : head, norm);
    return st;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#define PANEL_ROWS \
    12 /* rows of a quantised matrix that a thread widens at a time */

/* All values are float32: x and its norm, the widest output of attention,
 * Gated DeltaNet or MLP, and one panel per thread. */
uint64_t costs_scratch(const struct model_config *c,
                       const struct costs_step *step)
{
    const struct model_shape *s = &c->shape;
    uint64_t q = (uint64_t)s->n_heads * s->head_dim;
    uint64_t kv = (uint64_t)s->n_kv_heads * s->head_dim;
    uint64_t values = (uint64_t)s->n_v_heads * s->v_dim;
    uint64_t channels = 2 * (uint64_t)s->n_k_heads * s->k_dim + values;
    uint64_t attention = q * (s->attn_gated ? 5 : 3) + 2 * kv;
    uint64_t linear = 2 * channels + 2 * values + 2 * (uint64_t)s->n_v_heads;
    uint64_t mlp = 2 * (uint64_t)s->intermediate;
    uint64_t wide = most(most(s->hidden, s->intermediate), most(q, values));
    uint64_t panels = c->quant.bits > 0 ? PANEL_ROWS * wide * step->threads : 0;

    return ((2 * (uint64_t)s->hidden + most(mlp, most(attention, linear))) *
                step->tokens +
            panels) *
           sizeof(float);
}

/* Logits, and for each thread one row's logits, probabilities and order. */
uint64_t costs_head_scratch(const struct model_config *c,
                            const struct costs_step *step)
{
    return ((uint64_t)step->logits + 3 * (uint64_t)step->threads) *
           c->shape.vocab * sizeof(float);
}
