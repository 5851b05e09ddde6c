#include "tests/unit/worker/model/rewrite.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/model/safetensors.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"

static struct rewrite_tensor *more(struct rewrite *r)
{
    if (r->n == r->room) {
        r->room = r->room * 2 + 64;
        r->tensors = realloc(r->tensors, r->room * sizeof *r->tensors);
        assert_non_null(r->tensors);
    }
    r->tensors[r->n] = (struct rewrite_tensor){.rank = 0};
    return &r->tensors[r->n++];
}

void rewrite_open(struct rewrite *r, const char *dir)
{
    struct safetensors s;
    struct error e;
    char path[512], *file;
    size_t len;

    *r = (struct rewrite){.n = 0};
    snprintf(r->dir, sizeof r->dir, "%s", dir);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    file = fixture_read(path, &len);
    assert_int_equal(safetensors_parse_file(&s, file, len, &e), ST_OK);
    for (uint32_t i = 0; i < s.n; i++) {
        const struct safetensors_tensor *from = &s.tensors[i];
        struct rewrite_tensor *t = more(r);

        snprintf(t->name, sizeof t->name, "%s", from->name);
        snprintf(t->dtype, sizeof t->dtype, "%s",
                 safetensors_dtype_name(from->dtype));
        t->rank = from->rank;
        memcpy(t->dims, from->dims, sizeof t->dims);
        t->n = from->end - from->begin;
        t->bytes = malloc(t->n + 1);
        assert_non_null(t->bytes);
        memcpy(t->bytes, file + s.data + from->begin, t->n);
    }
    safetensors_fini(&s);
    free(file);
}

void rewrite_close(struct rewrite *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        free(r->tensors[i].bytes);
    }
    free(r->tensors);
    *r = (struct rewrite){.n = 0};
}

static struct rewrite_tensor *look(const struct rewrite *r, const char *name)
{
    for (uint32_t i = 0; i < r->n; i++) {
        if (strcmp(r->tensors[i].name, name) == 0) {
            return &r->tensors[i];
        }
    }
    return NULL;
}

struct rewrite_tensor *rewrite_find(const struct rewrite *r, const char *name)
{
    struct rewrite_tensor *t = look(r, name);

    if (t == NULL) {
        fail_msg("%s has no tensor %s", r->dir, name);
    }
    return t;
}

struct rewrite_tensor *rewrite_add(struct rewrite *r, const char *name,
                                   const struct rewrite_tensor *a, size_t n)
{
    struct rewrite_tensor like = *a; /* the list may move */
    struct rewrite_tensor *t = more(r);

    *t = like;
    snprintf(t->name, sizeof t->name, "%s", name);
    t->n = n;
    t->bytes = calloc(1, n + 1);
    assert_non_null(t->bytes);
    return t;
}

void rewrite_remove(struct rewrite *r, const char *name)
{
    struct rewrite_tensor *t = rewrite_find(r, name);
    size_t i = (size_t)(t - r->tensors);

    free(t->bytes);
    memmove(t, t + 1, (r->n - i - 1) * sizeof *t);
    r->n--;
}

static json_t *header_of(const struct rewrite *r)
{
    json_t *header = json_object();
    size_t at = 0;

    for (uint32_t i = 0; i < r->n; i++) {
        const struct rewrite_tensor *t = &r->tensors[i];
        json_t *shape = json_array();

        for (uint32_t k = 0; k < t->rank; k++) {
            json_array_append_new(shape, json_integer((json_int_t)t->dims[k]));
        }
        json_object_set_new(header, t->name,
                            json_pack("{s:s, s:o, s:[I, I]}", "dtype", t->dtype,
                                      "shape", shape, "data_offsets",
                                      (json_int_t)at, (json_int_t)(at + t->n)));
        at += t->n;
    }
    return header;
}

static void write_file(const struct rewrite *r, const char *path)
{
    json_t *header = header_of(r);
    char *text = json_dumps(header, JSON_COMPACT);
    size_t n = strlen(text);
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    for (int i = 0; i < 8; i++) {
        fputc((int)(n >> (8 * i) & 0xff), f);
    }
    fputs(text, f);
    for (uint32_t i = 0; i < r->n; i++) {
        assert_int_equal(fwrite(r->tensors[i].bytes, 1, r->tensors[i].n, f),
                         r->tensors[i].n);
    }
    assert_int_equal(fclose(f), 0);
    free(text);
    json_decref(header);
}

const char *rewrite_write(const struct rewrite *r, const char *name)
{
    const char *dir = fixture_path(name);
    char path[512], *config;
    size_t len;

    (void)mkdir(dir, 0777);
    snprintf(path, sizeof path, "%s/config.json", r->dir);
    config = fixture_read(path, &len);
    snprintf(path, sizeof path, "%s/config.json", dir);
    fixture_write(path, config, len);
    free(config);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    write_file(r, path);
    return dir;
}

/* ---- experts ---- */

/* Returns expert e's tensor "prefix.experts.E.kind", or NULL. */
static struct rewrite_tensor *expert(const struct rewrite *r,
                                     const char *prefix, uint32_t e,
                                     const char *kind)
{
    char name[192];

    snprintf(name, sizeof name, "%s.experts.%u.%s", prefix, e, kind);
    return look(r, name);
}

/* Joins n kinds of all experts, expert by expert, to one tensor. */
static void join(struct rewrite *r, const char *prefix,
                 const char *const *kinds, uint32_t n, const char *name)
{
    const struct rewrite_tensor *first = expert(r, prefix, 0, kinds[0]);
    struct rewrite_tensor *out;
    uint32_t experts = 0;
    size_t at = 0;
    char full[192];

    if (first == NULL) {
        return;
    }
    while (expert(r, prefix, experts, kinds[0]) != NULL) {
        experts++;
    }
    snprintf(full, sizeof full, "%s.%s", prefix, name);
    out = rewrite_add(r, full, first, experts * n * first->n);
    out->dims[0] = experts;
    out->dims[1] = n * expert(r, prefix, 0, kinds[0])->dims[0];
    out->dims[2] = expert(r, prefix, 0, kinds[0])->dims[1];
    out->rank = 3;
    for (uint32_t e = 0; e < experts; e++) {
        for (uint32_t k = 0; k < n; k++) {
            const struct rewrite_tensor *t = expert(r, prefix, e, kinds[k]);

            memcpy(look(r, full)->bytes + at, t->bytes, t->n);
            at += t->n;
            rewrite_remove(r, t->name);
        }
    }
    assert_int_equal(at, look(r, full)->n);
}

/* Calls join() for each layer that has experts. */
static void join_layers(struct rewrite *r, const char *const *kinds, uint32_t n,
                        const char *name)
{
    for (uint32_t layer = 0; layer < 64; layer++) {
        char prefix[64];

        snprintf(prefix, sizeof prefix, "model.layers.%u.mlp", layer);
        join(r, prefix, kinds, n, name);
    }
}

void rewrite_fuse(struct rewrite *r)
{
    static const char *const two[] = {"gate_proj.weight", "up_proj.weight"};
    static const char *const one[] = {"down_proj.weight"};
    static const char *const scales[] = {"gate_proj.weight_scale_inv",
                                         "up_proj.weight_scale_inv"};
    static const char *const scale[] = {"down_proj.weight_scale_inv"};

    join_layers(r, two, 2, "experts.gate_up_proj");
    join_layers(r, one, 1, "experts.down_proj");
    join_layers(r, scales, 2, "experts.gate_up_proj_scale_inv");
    join_layers(r, scale, 1, "experts.down_proj_scale_inv");
}

void rewrite_switch(struct rewrite *r)
{
    static const char *const kinds[] = {
        "gate_proj.weight", "up_proj.weight", "down_proj.weight",
        "gate_proj.scales", "up_proj.scales", "down_proj.scales",
        "gate_proj.biases", "up_proj.biases", "down_proj.biases"};

    for (int i = 0; i < 9; i++) {
        char name[64];

        snprintf(name, sizeof name, "switch_mlp.%s", kinds[i]);
        join_layers(r, &kinds[i], 1, name);
    }
}
