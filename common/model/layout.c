#include "common/model/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/quote.h"

#define KEY_MAX     80
#define GROUP_PARTS 4 /* of a grouped projection, at most */

/* State shared by the functions below.  The first fault is kept, and later
 * calls are no-ops. */
struct maker {
    struct layout *layout;
    const struct model_config *config;
    const struct checkpoint *checkpoint;
    bool *used;  /* [checkpoint->n_tensors] */
    float shift; /* added to norms that may be stored as gamma - 1 */
    uint32_t layer;
    struct error *error;
    enum status status;
};

#define FAULT(m, code, ...)                                         \
    do {                                                            \
        if ((m)->status == ST_OK) {                                 \
            (m)->status = error_set((m)->error, code, __VA_ARGS__); \
        }                                                           \
    } while (0)

/* Both shapes are printed: the reader has to decide which of the two files is
 * wrong. */
static void shape_fault(struct maker *m, const struct checkpoint_tensor *t,
                        uint64_t rows, uint64_t cols)
{
    char have[SAFETENSORS_RANK_MAX * 21 + 1] = "";
    char want[48];
    size_t n = 0;

    for (uint32_t i = 0; i < t->info->rank; i++) {
        n += (size_t)snprintf(have + n, sizeof have - n, "%s%llu",
                              i > 0 ? ", " : "",
                              (unsigned long long)t->info->dims[i]);
    }
    if (cols == 0) {
        snprintf(want, sizeof want, "[%llu]", (unsigned long long)rows);
    } else {
        snprintf(want, sizeof want, "[%llu, %llu]", (unsigned long long)rows,
                 (unsigned long long)cols);
    }
    FAULT(m, ST_INVALID_ARGUMENT,
          "%s: tensor %s is [%s], the configuration needs %s",
          quote(m->checkpoint->files[t->file].name).text,
          quote(t->info->name).text, have, want);
}

/* U32 words alone are a common sight: an MLX checkpoint whose config.json
 * lost its quantization. */
static bool dtype_of(struct maker *m, const struct checkpoint_tensor *t,
                     enum dtype *out)
{
    switch ((int)t->info->dtype) {
    case SAFETENSORS_F32:
        *out = DTYPE_F32;
        return true;
    case SAFETENSORS_BF16:
        *out = DTYPE_BF16;
        return true;
    case SAFETENSORS_F16:
        *out = DTYPE_F16;
        return true;
    default:
        FAULT(m, ST_INVALID_ARGUMENT,
              "%s: tensor %s is %s; F32, BF16 and F16 are supported%s",
              quote(m->checkpoint->files[t->file].name).text,
              quote(t->info->name).text, safetensors_dtype_name(t->info->dtype),
              t->info->dtype != SAFETENSORS_U32 ? ""
              : m->config->quant.bits > 0
                  ? ", or U32 beside scales and biases"
                  : ", and config.json has no quantization");
        return false;
    }
}

/* Tensors that stay unused are reported at the end. */
static void use(struct maker *m, const struct checkpoint_tensor *t)
{
    m->used[t - m->checkpoint->tensors] = true;
    m->layout->n_tensors++;
}

/* Finds the tensor of a key and marks it as used. */
static const struct checkpoint_tensor *find(struct maker *m, const char *key)
{
    const struct checkpoint_tensor *t =
        m->status == ST_OK ? checkpoint_find(m->checkpoint, key) : NULL;

    if (t == NULL) {
        FAULT(m, ST_NOT_FOUND, "tensor \"%s\" is missing", key);
        return NULL;
    }
    use(m, t);
    return t;
}

static const struct checkpoint_tensor *find_in_layer(struct maker *m,
                                                     const char *name)
{
    char key[KEY_MAX];

    snprintf(key, sizeof key, "layers.%u.%s", m->layer, name);
    return find(m, key);
}

/* Reserves bytes in the shard's memory and returns their place. */
static uint64_t reserve(struct maker *m, uint64_t bytes)
{
    uint64_t place = m->layout->bytes;

    /* Rounds up, so that every tensor starts on a cache line. */
    bytes += LAYOUT_ALIGN - 1;
    m->layout->bytes += bytes - bytes % LAYOUT_ALIGN;
    return place;
}

static void add_slice(struct maker *m, const struct slice *s)
{
    struct layout *l = m->layout;

    if (m->status != ST_OK) {
        return;
    }
    if (l->n == l->room) {
        uint32_t room = l->room * 2 + 64;
        struct slice *grown = realloc(l->slices, room * sizeof *grown);

        if (grown == NULL) {
            FAULT(m, ST_RESOURCE_EXHAUSTED, "no memory for a layout");
            return;
        }
        l->slices = grown;
        l->room = room;
    }
    l->slices[l->n++] = *s;
    l->file_bytes += s->bytes;
}

static bool is_matrix(const struct checkpoint_tensor *t, uint32_t rows,
                      uint32_t cols)
{
    return t->info->rank == 2 && t->info->dims[0] == rows &&
           t->info->dims[1] == cols;
}

/* The planes of a matrix: itself, or its words, scales and biases. */
#define PLANES_MAX 3

struct stored {
    uint32_t n;
    struct {
        const struct checkpoint_tensor *source;
        uint64_t row_bytes;
    } planes[PLANES_MAX];
    struct tensor shape; /* its pointers are not set */
};

/* Finds the tensor whose key differs from t's in its ending, or NULL. */
static const struct checkpoint_tensor *beside(const struct maker *m,
                                              const struct checkpoint_tensor *t,
                                              const char *end)
{
    static const char weight[] = ".weight";
    size_t n = strlen(t->key), tail = sizeof weight - 1;
    char key[KEY_MAX];

    if (n <= tail || strcmp(t->key + n - tail, weight) != 0) {
        return NULL;
    }
    snprintf(key, sizeof key, "%.*s%s", (int)(n - tail), t->key, end);
    return checkpoint_find(m->checkpoint, key);
}

/* Returns the bits of a value if a row of cols values fills that many words,
 * else 0. */
static uint32_t bits_of(uint64_t words, uint32_t cols)
{
    return words * 8 == cols ? 4 : words * 4 == cols ? 8 : 0;
}

/* A checkpoint may mix groups, so the configuration does not decide. */
static uint32_t group_of(uint64_t groups, uint32_t cols)
{
    for (uint32_t g = MODEL_GROUP_MIN; g <= MODEL_GROUP_MAX; g *= 2) {
        if (groups * g == cols) {
            return g;
        }
    }
    return 0;
}

/* One message for every fault of the three planes: any of them may be the
 * wrong one. */
static void quant_fault(struct maker *m, const struct checkpoint_tensor *t,
                        uint32_t rows, uint32_t cols)
{
    FAULT(m, ST_INVALID_ARGUMENT,
          "%s: tensor %s, its scales and its biases are no [%u, %u] matrix: "
          "U32 of 4 or 8 bits a column is supported, with a scale and a bias "
          "of one dtype for each 32, 64 or 128 columns",
          quote(m->checkpoint->files[t->file].name).text,
          quote(t->info->name).text, rows, cols);
}

/* Reads the three planes of a quantised matrix; their shapes give bits and
 * group. */
static bool find_quantised(struct maker *m, struct stored *s,
                           const struct checkpoint_tensor *scales)
{
    const struct checkpoint_tensor *words = s->planes[0].source;
    const struct checkpoint_tensor *biases = beside(m, words, ".biases");
    struct tensor *t = &s->shape;

    if (biases == NULL) {
        FAULT(m, ST_NOT_FOUND, "tensor %s has scales and no biases",
              quote(words->info->name).text);
        return false;
    }
    if (!dtype_of(m, scales, &t->dtype)) {
        return false;
    }
    if (words->info->rank == 2 && scales->info->rank == 2) {
        t->format = WEIGHT_AFFINE;
        t->bits = bits_of(words->info->dims[1], t->cols);
        t->group = group_of(scales->info->dims[1], t->cols);
    }
    if (words->info->dtype != SAFETENSORS_U32 || t->bits == 0 ||
        t->group == 0 || words->info->dims[0] != t->rows ||
        !is_matrix(scales, t->rows, t->cols / t->group) ||
        !is_matrix(biases, t->rows, t->cols / t->group) ||
        biases->info->dtype != scales->info->dtype) {
        quant_fault(m, words, t->rows, t->cols);
        return false;
    }
    s->n = PLANES_MAX;
    s->planes[1].source = scales;
    s->planes[2].source = biases;
    for (uint32_t i = 1; i < s->n; i++) {
        s->planes[i].row_bytes = tensor_scale_bytes(t);
        use(m, s->planes[i].source);
    }
    s->planes[0].row_bytes = tensor_row_bytes(t);
    return true;
}

/* Finds what t and the tensors beside it store of a [rows, cols] matrix. */
static bool find_stored(struct maker *m, struct stored *s,
                        const struct checkpoint_tensor *t, uint32_t rows,
                        uint32_t cols)
{
    const struct checkpoint_tensor *scales;

    *s = (struct stored){.n = 1, .shape = {.rows = rows, .cols = cols}};
    if (t == NULL) {
        return false;
    }
    s->planes[0].source = t;
    /* Without a quantisation in the configuration, scales are unknown
     * tensors. */
    scales = m->config->quant.bits > 0 ? beside(m, t, ".scales") : NULL;
    if (scales != NULL) {
        return find_quantised(m, s, scales);
    }
    if (!dtype_of(m, t, &s->shape.dtype)) {
        return false;
    }
    if (!is_matrix(t, rows, cols)) {
        shape_fault(m, t, rows, cols);
        return false;
    }
    s->planes[0].row_bytes = tensor_row_bytes(&s->shape);
    return true;
}

/* Returns the pointer to plane i of a matrix. */
static const void **plane_of(struct tensor *t, uint32_t i)
{
    return i == 0 ? &t->data : i == 1 ? &t->scales : &t->biases;
}

static void whole_matrix(struct maker *m, struct tensor *out,
                         const struct checkpoint_tensor *t, uint32_t rows,
                         uint32_t cols)
{
    struct stored s;

    if (!find_stored(m, &s, t, rows, cols)) {
        return;
    }
    *out = s.shape;
    for (uint32_t i = 0; i < s.n; i++) {
        uint64_t bytes = rows * s.planes[i].row_bytes;

        add_slice(m, &(struct slice){.source = s.planes[i].source,
                                     .bytes = bytes,
                                     .place = reserve(m, bytes),
                                     .matrix = plane_of(out, i)});
    }
}

static void matrix(struct maker *m, struct tensor *out, const char *name,
                   uint32_t rows, uint32_t cols)
{
    whole_matrix(m, out, find_in_layer(m, name), rows, cols);
}

/* Vectors are widened: they are small, and kernels add and multiply them in
 * float32. */
static void whole_vector(struct maker *m, const float **out,
                         const struct checkpoint_tensor *t, uint32_t n,
                         float add)
{
    struct slice s = {.source = t, .widen = true, .add = add, .vector = out};

    if (t == NULL || !dtype_of(m, t, &s.dtype)) {
        return;
    }
    s.bytes = (uint64_t)n * dtype_bytes(s.dtype);
    s.place = reserve(m, (uint64_t)n * sizeof **out);
    add_slice(m, &s);
}

static void vector_of(struct maker *m, const float **out,
                      const struct checkpoint_tensor *t, uint32_t n, float add)
{
    if (t != NULL && (t->info->rank != 1 || t->info->dims[0] != n)) {
        shape_fault(m, t, n, 0);
        return;
    }
    whole_vector(m, out, t, n, add);
}

static void vector(struct maker *m, const float **out, const char *name,
                   uint32_t n)
{
    vector_of(m, out, find_in_layer(m, name), n, 0);
}

/* Norms inside an attention layer are shifted too; only a Gated DeltaNet's
 * own norm is not. */
static void norm(struct maker *m, const float **out, const char *name,
                 uint32_t n)
{
    vector_of(m, out, find_in_layer(m, name), n, m->shift);
}

/* The layouts [C, K, 1] and [C, 1, K] are the same bytes. */
static void convolution(struct maker *m, const float **out, uint32_t channels,
                        uint32_t taps)
{
    const struct checkpoint_tensor *t =
        find_in_layer(m, "linear_attn.conv1d.weight");
    const uint64_t *d = t == NULL ? NULL : t->info->dims;
    bool mlx = m->config->norms == NORM_GAMMA_MINUS_1 && m->shift == 0;

    if (t == NULL) {
        return;
    }
    if (t->info->rank != 3 || d[0] != channels || d[mlx ? 1 : 2] != taps ||
        d[mlx ? 2 : 1] != 1) {
        FAULT(m, ST_INVALID_ARGUMENT,
              "%s: tensor %s is not [%u, %u, %u], as this configuration and "
              "the other convolutions need",
              quote(m->checkpoint->files[t->file].name).text,
              quote(t->info->name).text, channels, mlx ? taps : 1,
              mlx ? 1 : taps);
        return;
    }
    whole_vector(m, out, t, channels * taps, 0);
}

static void attention(struct maker *m, struct attention_weights *a)
{
    const struct model_config *c = m->config;
    const struct model_shape *s = &c->shape;
    uint32_t q = s->n_heads * s->head_dim * (s->attn_gated ? 2 : 1);
    uint32_t kv = s->n_kv_heads * s->head_dim;

    matrix(m, &a->q, "self_attn.q_proj.weight", q, s->hidden);
    matrix(m, &a->k, "self_attn.k_proj.weight", kv, s->hidden);
    matrix(m, &a->v, "self_attn.v_proj.weight", kv, s->hidden);
    matrix(m, &a->o, "self_attn.o_proj.weight", s->hidden,
           s->n_heads * s->head_dim);
    if (c->qkv_bias) {
        vector(m, &a->q_bias, "self_attn.q_proj.bias", q);
        vector(m, &a->k_bias, "self_attn.k_proj.bias", kv);
        vector(m, &a->v_bias, "self_attn.v_proj.bias", kv);
    }
    if (c->o_bias) {
        vector(m, &a->o_bias, "self_attn.o_proj.bias", s->hidden);
    }
    if (c->qk_norm) {
        norm(m, &a->q_norm, "self_attn.q_norm.weight", s->head_dim);
        norm(m, &a->k_norm, "self_attn.k_norm.weight", s->head_dim);
    }
}

/* Rows of a grouped projection that belong to one matrix: from each group the
 * rows [first, ..), group by group. */
struct group_part {
    struct tensor *out;
    uint32_t rows;  /* rows per group */
    uint32_t first; /* row of out for group 0 */
};

/* Returns the rows of out over all parts. */
static uint32_t rows_of(const struct maker *m, const struct group_part *parts,
                        int n_parts, const struct tensor *out)
{
    uint32_t rows = 0;

    for (int i = 0; i < n_parts; i++) {
        rows += parts[i].out == out || out == NULL ? parts[i].rows : 0;
    }
    return rows * m->config->shape.n_k_heads;
}

/* Takes one plane of a grouped projection apart.  A matrix gets its place
 * when its first row is met. */
static void take_apart(struct maker *m, const struct stored *s, uint32_t plane,
                       const struct group_part *parts, int n_parts)
{
    const uint64_t row_bytes = s->planes[plane].row_bytes;
    struct slice slice = {.source = s->planes[plane].source};
    uint64_t place[GROUP_PARTS] = {0};

    for (int i = 0; i < n_parts; i++) {
        /* = parts[i].first > 0] Parts of one matrix share its place; the
         * first part reserves it. */
        place[i] = parts[i].first > 0
                       ? place[i - 1]
                       : reserve(m, row_bytes * rows_of(m, parts, n_parts,
                                                        parts[i].out));
    }
    for (uint32_t g = 0; g < m->config->shape.n_k_heads; g++) {
        for (int i = 0; i < n_parts; i++) {
            const struct group_part *p = &parts[i];
            bool begins = g == 0 && p->first == 0;

            slice.bytes = p->rows * row_bytes;
            slice.place =
                place[i] + (p->first + (uint64_t)g * p->rows) * row_bytes;
            slice.matrix = begins ? plane_of(p->out, plane) : NULL;
            add_slice(m, &slice);
            /* Slices follow each other in the file, group by group, so each
             * byte is read once. */
            slice.offset += slice.bytes;
        }
    }
}

/* The matrices get their shapes before their slices, which need the rows. */
static void grouped(struct maker *m, const char *name,
                    const struct group_part *parts, int n_parts)
{
    struct stored s;

    if (!find_stored(m, &s, find_in_layer(m, name),
                     rows_of(m, parts, n_parts, NULL),
                     m->config->shape.hidden)) {
        return;
    }
    for (int i = 0; i < n_parts; i++) {
        *parts[i].out = s.shape;
        parts[i].out->rows = rows_of(m, parts, n_parts, parts[i].out);
    }
    for (uint32_t i = 0; i < s.n; i++) {
        take_apart(m, &s, i, parts, n_parts);
    }
}

static void grouped_projections(struct maker *m, struct deltanet_weights *d)
{
    const struct model_shape *s = &m->config->shape;
    uint32_t r = s->n_v_heads / s->n_k_heads;
    uint32_t keys = s->n_k_heads * s->k_dim;
    /* = {] The order of the rows in a group, as stored by the reference. */
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

static void deltanet(struct maker *m, struct deltanet_weights *d)
{
    const struct model_shape *s = &m->config->shape;
    uint32_t values = s->n_v_heads * s->v_dim;
    uint32_t channels = 2 * s->n_k_heads * s->k_dim + values;

    if (m->config->linear == LINEAR_GROUPED) {
        grouped_projections(m, d);
    } else {
        matrix(m, &d->qkv, "linear_attn.in_proj_qkv.weight", channels,
               s->hidden);
        matrix(m, &d->z, "linear_attn.in_proj_z.weight", values, s->hidden);
        matrix(m, &d->b, "linear_attn.in_proj_b.weight", s->n_v_heads,
               s->hidden);
        matrix(m, &d->a, "linear_attn.in_proj_a.weight", s->n_v_heads,
               s->hidden);
    }
    matrix(m, &d->out, "linear_attn.out_proj.weight", s->hidden, values);
    convolution(m, &d->conv, channels, s->conv);
    vector(m, &d->a_log, "linear_attn.A_log", s->n_v_heads);
    vector(m, &d->dt_bias, "linear_attn.dt_bias", s->n_v_heads);
    vector(m, &d->norm, "linear_attn.norm.weight", s->v_dim);
}

static void layer(struct maker *m, struct layer_weights *w)
{
    const struct model_shape *s = &m->config->shape;

    w->kind = m->config->mixers[m->layer];
    norm(m, &w->input_norm, "input_layernorm.weight", s->hidden);
    if (w->kind == MIXER_ATTENTION) {
        attention(m, &w->mixer.attention);
    } else {
        deltanet(m, &w->mixer.deltanet);
    }
    norm(m, &w->post_norm, "post_attention_layernorm.weight", s->hidden);
    matrix(m, &w->mlp.gate, "mlp.gate_proj.weight", s->intermediate, s->hidden);
    matrix(m, &w->mlp.up, "mlp.up_proj.weight", s->intermediate, s->hidden);
    matrix(m, &w->mlp.down, "mlp.down_proj.weight", s->hidden, s->intermediate);
}

/* Lays out the embedding of a first stage, and norm and head of a last stage.
 * A last stage of a tied model that is not also the first reads the embedding
 * as its head. */
static void ends(struct maker *m, struct shard_weights *w)
{
    const struct model_config *c = m->config;
    const struct model_shape *s = &c->shape;

    if (w->begin == 0) {
        whole_matrix(m, &w->embed, find(m, "embed_tokens.weight"), s->vocab,
                     s->hidden);
    }
    /* Only the stage with the last layer has norm and head. */
    if (w->end < s->n_layers) {
        return;
    }
    vector_of(m, &w->final_norm, find(m, "norm.weight"), s->hidden, m->shift);
    if (!c->tied) {
        whole_matrix(m, &w->head, find(m, "lm_head.weight"), s->vocab,
                     s->hidden);
    } else if (w->begin > 0) {
        whole_matrix(m, &w->head, find(m, "embed_tokens.weight"), s->vocab,
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
    /* ] The first and the last stage use these, so they are no strangers
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
    for (uint32_t i = 0; i < l->n; i++) {
        /* .matrix = NULL;] The weights are freed below, so no pointer to them
         * may remain. */
        l->slices[i].matrix = NULL;
        l->slices[i].vector = NULL;
    }
    free(layers);
    return st;
}

void layout_place(const struct layout *l, struct shard_weights *w,
                  const struct model_config *config, const void *memory)
{
    for (uint32_t i = 0; i < l->n; i++) {
        const struct slice *s = &l->slices[i];
        const char *at = (const char *)memory + s->place;

        if (s->matrix != NULL) {
            *s->matrix = at;
        }
        if (s->vector != NULL) {
            *s->vector = (const float *)(const void *)at;
        }
    }
    if (config->tied && w->begin == 0 && w->end == w->shape.n_layers) {
        w->head = w->embed;
    }
}

void layout_fini(struct layout *l)
{
    free(l->slices);
    memset(l, 0, sizeof *l);
}
