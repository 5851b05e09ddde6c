/* mixer_deltanet.c - The row of a Gated DeltaNet. */
#include "common/base/quote.h"
#include "common/model/mixer.h"

#define GROUP_PARTS 4 /* of a grouped projection, at most */

static uint64_t keys(const struct model_shape *s)
{
    return (uint64_t)s->n_k_heads * s->k_dim;
}

static uint64_t values(const struct model_shape *s)
{
    return (uint64_t)s->n_v_heads * s->v_dim;
}

static uint64_t channels(const struct model_shape *s)
{
    return 2 * keys(s) + values(s);
}

/* ---- config.json ---- */

static void check(const struct model_config *c, struct fields *f,
                  const struct family *family, uint32_t i)
{
    (void)c;
    (void)i;
    if (!family->hybrid) {
        field_fault(f, ST_UNIMPLEMENTED,
                    "linear_attention layers in a %s model are not "
                    "supported; in qwen3_5 and qwen3_next they are",
                    family->type);
    }
}

static void parse(struct model_config *c, struct fields *f,
                  const struct family *family)
{
    struct model_shape *s = &c->shape;

    (void)family;
    s->n_k_heads = field_u32(f, "linear_num_key_heads", FIELD_REQUIRED, 1,
                             MODEL_HEADS_MAX);
    s->n_v_heads = field_u32(f, "linear_num_value_heads", FIELD_REQUIRED, 1,
                             MODEL_HEADS_MAX);
    s->k_dim = field_u32(f, "linear_key_head_dim", 128, 1, MODEL_KEY_DIM_MAX);
    s->v_dim =
        field_u32(f, "linear_value_head_dim", 128, 1, MODEL_VALUE_DIM_MAX);
    s->conv = field_u32(f, "linear_conv_kernel_dim", 4, MODEL_CONV_MIN,
                        MODEL_CONV_MAX);
    if (s->n_v_heads % s->n_k_heads != 0) {
        field_fault(f, ST_INVALID_ARGUMENT,
                    "linear_num_value_heads %u is no multiple of "
                    "linear_num_key_heads %u",
                    s->n_v_heads, s->n_k_heads);
    }
}

/* ---- tensors ---- */

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

static void tensors(struct maker *m, struct layer_weights *w)
{
    struct deltanet_weights *d = &w->mixer.deltanet;
    const struct model_shape *s = &m->config->shape;
    uint32_t n_values = s->n_v_heads * s->v_dim;
    uint32_t channels = 2 * s->n_k_heads * s->k_dim + n_values;

    if (m->config->linear == LINEAR_GROUPED) {
        grouped_projections(m, d);
    } else {
        maker_matrix(m, &d->qkv, "linear_attn.in_proj_qkv", channels,
                     s->hidden);
        maker_matrix(m, &d->z, "linear_attn.in_proj_z", n_values, s->hidden);
        maker_matrix(m, &d->b, "linear_attn.in_proj_b", s->n_v_heads,
                     s->hidden);
        maker_matrix(m, &d->a, "linear_attn.in_proj_a", s->n_v_heads,
                     s->hidden);
    }
    maker_matrix(m, &d->out, "linear_attn.out_proj", s->hidden, n_values);
    convolution(m, &d->conv, channels, s->conv);
    maker_vector(m, &d->a_log, "linear_attn.A_log", s->n_v_heads);
    maker_vector(m, &d->dt_bias, "linear_attn.dt_bias", s->n_v_heads);
    maker_vector(m, &d->norm, "linear_attn.norm.weight", s->v_dim);
}

/* The tensors: qkv, z, b, a, out, conv, a_log, dt_bias, norm. */
static void tally(struct tally *t, const struct model_config *c)
{
    const struct model_shape *s = &c->shape;
    uint32_t n_values = s->n_v_heads * s->v_dim;

    tally_matrix(t, (uint32_t)channels(s), s->hidden, TALLY_LAYER);
    tally_matrix(t, n_values, s->hidden, TALLY_LAYER);
    tally_matrix(t, s->n_v_heads, s->hidden, TALLY_NARROW);
    tally_matrix(t, s->n_v_heads, s->hidden, TALLY_NARROW);
    tally_matrix(t, s->hidden, n_values, TALLY_LAYER);
    tally_vector(t, (uint64_t)(uint32_t)channels(s) * s->conv);
    tally_vector(t, s->n_v_heads);
    tally_vector(t, s->n_v_heads);
    tally_vector(t, s->v_dim);
}

/* ---- memory ---- */

/* The state accumulates over the whole sequence, so it stays float32. */
static void slot(const struct model_shape *s, enum dtype dtype,
                 struct mixer_slot *out)
{
    if (s->n_v_heads > 0) {
        out->parts[0] = values(s) * s->k_dim * sizeof(float);
        out->parts[1] = (s->conv - 1) * channels(s) * dtype_bytes(dtype);
    }
}

static uint64_t kept(const struct model_shape *s, enum dtype dtype)
{
    uint64_t gates = 2 * (uint64_t)s->n_v_heads;

    return keys(s) * dtype_bytes(dtype) +
           (keys(s) + values(s) + gates) * sizeof(float);
}

/* ---- costs ---- */

static uint64_t cpu(const struct model_shape *s, uint64_t tokens)
{
    return (2 * channels(s) + 2 * values(s) + 2 * (uint64_t)s->n_v_heads) *
           tokens * sizeof(float);
}

/* Fused kernels keep keys, queries and chunk matrices of 64 tokens beside the
 * values (kernels/opencl/nv/deltanet_nv.c). */
static uint64_t opencl(const struct model_shape *s, uint64_t tokens)
{
    return (2 * channels(s) + 2 * values(s) +
            (uint64_t)s->n_v_heads * (2 * 64 + 2 + 4)) *
           tokens;
}

/* The weights of a convolution are kept a second time, transposed. */
static uint64_t cpu_layer(const struct model_shape *s)
{
    return (channels(s) * s->conv + 16) * sizeof(float);
}

static uint64_t rows(const struct model_shape *s)
{
    return channels(s) + values(s) + 2 * (uint64_t)s->n_v_heads;
}

const struct mixer mixer_deltanet = {
    .type = "linear_attention",
    .name = "linear",
    .a_layer = "a linear layer",
    .always = true,
    .check = check,
    .parse = parse,
    .tensors = tensors,
    .tally = tally,
    .slot = slot,
    .kept = kept,
    .costs =
        {
            .cpu = cpu,
            .opencl = opencl,
            .cpu_layer = cpu_layer,
            .columns = values,
            .rows = rows,
        },
};
