/* maker_mixer.c - The tensors of attention and of a Gated DeltaNet. */
#include "common/base/quote.h"
#include "common/model/maker.h"

#define GROUP_PARTS 4 /* of a grouped projection, at most */

void maker_attention(struct maker *m, struct attention_weights *a)
{
    const struct model_config *c = m->config;
    const struct model_shape *s = &c->shape;
    uint32_t q = s->n_heads * s->head_dim * (s->attn_gated ? 2 : 1);
    uint32_t kv = s->n_kv_heads * s->head_dim;

    maker_matrix(m, &a->q, "self_attn.q_proj", q, s->hidden);
    maker_matrix(m, &a->k, "self_attn.k_proj", kv, s->hidden);
    maker_matrix(m, &a->v, "self_attn.v_proj", kv, s->hidden);
    maker_matrix(m, &a->o, "self_attn.o_proj", s->hidden,
                 s->n_heads * s->head_dim);
    if (c->qkv_bias) {
        maker_vector(m, &a->q_bias, "self_attn.q_proj.bias", q);
        maker_vector(m, &a->k_bias, "self_attn.k_proj.bias", kv);
        maker_vector(m, &a->v_bias, "self_attn.v_proj.bias", kv);
    }
    if (c->o_bias) {
        maker_vector(m, &a->o_bias, "self_attn.o_proj.bias", s->hidden);
    }
    if (c->qk_norm) {
        maker_norm(m, &a->q_norm, "self_attn.q_norm.weight", s->head_dim);
        maker_norm(m, &a->k_norm, "self_attn.k_norm.weight", s->head_dim);
    }
    if (c->sinks) {
        maker_vector(m, &a->sinks, "self_attn.sinks", s->n_heads);
    }
}

/* The layouts [C, K, 1] and [C, 1, K] are the same bytes. */
static void convolution(struct maker *m, const float **out, uint32_t channels,
                        uint32_t taps)
{
    const struct checkpoint_tensor *t =
        maker_find_in_layer(m, "linear_attn.conv1d.weight");
    const uint64_t *d = t == NULL ? NULL : t->info->dims;
    bool mlx = m->config->norms == NORM_GAMMA_MINUS_1 && m->shift == 0;

    if (t == NULL) {
        return;
    }
    if (t->info->rank != 3 || d[0] != channels || d[mlx ? 1 : 2] != taps ||
        d[mlx ? 2 : 1] != 1) {
        MAKER_FAULT(
            m, ST_INVALID_ARGUMENT,
            "%s: tensor %s is not [%u, %u, %u], as this configuration and "
            "the other convolutions need",
            quote(m->checkpoint->files[t->file].name).text,
            quote(t->info->name).text, channels, mlx ? taps : 1,
            mlx ? 1 : taps);
        return;
    }
    maker_elements(m, out, t, channels * taps, 0);
}

/* Rows of a grouped projection that belong to one matrix: from each group the
 * rows [first, ..), group by group. */
struct group_part {
    struct tensor *out;
    uint32_t rows;  /* rows per group */
    uint32_t first; /* row of out for group 0 */
};

/* Returns the rows of out over all parts; NULL: of all matrices. */
static uint32_t rows_of(const struct maker *m, const struct group_part *parts,
                        int n_parts, const struct tensor *out)
{
    uint32_t rows = 0;

    for (int i = 0; i < n_parts; i++) {
        rows += parts[i].out == out || out == NULL ? parts[i].rows : 0;
    }
    return rows * m->config->shape.n_k_heads;
}

/* Takes one plane of a grouped projection apart.  Slices follow each other in
 * the file, group by group, so each byte is read once. */
static void take_apart(struct maker *m, const struct maker_stored *s,
                       uint32_t plane, const struct group_part *parts,
                       const struct maker_target *targets, int n_parts)
{
    uint32_t from = 0;

    for (uint32_t g = 0; g < m->config->shape.n_k_heads; g++) {
        for (int i = 0; i < n_parts; i++) {
            const struct group_part *p = &parts[i];

            maker_put_plane(
                m, &targets[i], s, plane,
                (struct maker_rows){from, p->first + g * p->rows, p->rows});
            from += p->rows;
        }
    }
}

static void grouped(struct maker *m, const char *name,
                    const struct group_part *parts, int n_parts)
{
    const struct maker_form form = {.rows = rows_of(m, parts, n_parts, NULL),
                                    .cols = m->config->shape.hidden};
    struct maker_target targets[GROUP_PARTS];
    struct maker_stored s;

    if (!maker_find_stored(m, &s, maker_find_in_layer(m, name), &form)) {
        return;
    }
    for (int i = 0; i < n_parts; i++) {
        /* Parts of one matrix follow each other and share its place. */
        if (parts[i].first > 0) {
            targets[i] = targets[i - 1];
        } else {
            maker_begin(m, &targets[i], parts[i].out, &s,
                        rows_of(m, parts, n_parts, parts[i].out));
        }
    }
    for (uint32_t i = 0; i < s.n; i++) {
        take_apart(m, &s, i, parts, targets, n_parts);
    }
}

static void grouped_projections(struct maker *m, struct deltanet_weights *d)
{
    const struct model_shape *s = &m->config->shape;
    uint32_t r = s->n_v_heads / s->n_k_heads;
    uint32_t keys = s->n_k_heads * s->k_dim;
    /* The order of the rows in a group, as stored by the reference. */
    const struct group_part qkvz[GROUP_PARTS] = {
        {&d->qkv, s->k_dim, 0},
        {&d->qkv, s->k_dim, keys},
        {&d->qkv, r * s->v_dim, 2 * keys},
        {&d->z, r * s->v_dim, 0},
    };
    const struct group_part ba[] = {{&d->b, r, 0}, {&d->a, r, 0}};

    grouped(m, "linear_attn.in_proj_qkvz.weight", qkvz, GROUP_PARTS);
    grouped(m, "linear_attn.in_proj_ba.weight", ba, 2);
}

void maker_deltanet(struct maker *m, struct deltanet_weights *d)
{
    const struct model_shape *s = &m->config->shape;
    uint32_t values = s->n_v_heads * s->v_dim;
    uint32_t channels = 2 * s->n_k_heads * s->k_dim + values;

    if (m->config->linear == LINEAR_GROUPED) {
        grouped_projections(m, d);
    } else {
        maker_matrix(m, &d->qkv, "linear_attn.in_proj_qkv", channels,
                     s->hidden);
        maker_matrix(m, &d->z, "linear_attn.in_proj_z", values, s->hidden);
        maker_matrix(m, &d->b, "linear_attn.in_proj_b", s->n_v_heads,
                     s->hidden);
        maker_matrix(m, &d->a, "linear_attn.in_proj_a", s->n_v_heads,
                     s->hidden);
    }
    maker_matrix(m, &d->out, "linear_attn.out_proj", s->hidden, values);
    convolution(m, &d->conv, channels, s->conv);
    maker_vector(m, &d->a_log, "linear_attn.A_log", s->n_v_heads);
    maker_vector(m, &d->dt_bias, "linear_attn.dt_bias", s->n_v_heads);
    maker_vector(m, &d->norm, "linear_attn.norm.weight", s->v_dim);
}
