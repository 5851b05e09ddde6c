#include "tests/golden/golden_file.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/safetensors.h"

static uint32_t read_ids(const json_t *list, uint32_t *out, uint32_t most)
{
    uint32_t n = 0;

    for (; n < json_array_size(list) && n < most; n++) {
        out[n] = (uint32_t)json_integer_value(json_array_get(list, n));
    }
    return n;
}

static void add_top(struct golden_prompt *p, uint32_t position,
                    const json_t *pairs)
{
    struct golden_top *t = &p->tops[p->n_tops++];

    t->position = position;
    for (; t->n < json_array_size(pairs) && t->n < GOLDEN_TOP; t->n++) {
        const json_t *pair = json_array_get(pairs, t->n);

        t->ids[t->n] = (uint32_t)json_integer_value(json_array_get(pair, 0));
        t->logits[t->n] = (float)json_number_value(json_array_get(pair, 1));
    }
}

static void read_tops(struct golden_prompt *p, json_t *prompt)
{
    json_t *first = json_object_get(prompt, "top10_first");
    json_t *by_position = json_object_get(prompt, "logits_top10"), *pairs;
    const char *position;

    if (first) {
        add_top(p, p->n_ids - 1, first);
    }
    json_object_foreach(by_position, position, pairs)
    {
        if (p->n_tops < GOLDEN_TOPS_MAX) {
            add_top(p, (uint32_t)strtoul(position, NULL, 10), pairs);
        }
    }
}

/* The file counts its drafts, and those that the next token accepts. */
static enum status read_drafts(struct golden_prompt *p, const json_t *mtp,
                               struct error *e)
{
    json_int_t of = json_integer_value(json_object_get(mtp, "of"));
    json_int_t accepted = json_integer_value(json_object_get(mtp, "accepted"));

    p->n_drafts =
        read_ids(json_object_get(mtp, "draft_ids"), p->drafts, p->steps - 1);
    for (uint32_t i = 0; i < p->n_drafts; i++) {
        accepted -= p->drafts[i] == p->expect[i + 1];
    }
    if (p->n_drafts != of || accepted != 0) {
        return error_set(e, ST_DATA_LOSS, "golden.json: %s: drafts miscounted",
                         p->name);
    }
    return ST_OK;
}

static enum status read_prompt(struct golden_prompt *p, json_t *prompt,
                               struct error *e)
{
    const json_t *ids = json_object_get(prompt, "prompt_ids");
    const json_t *expect = json_object_get(prompt, "continuation_ids");
    const json_t *margins = json_object_get(prompt, "margins");
    const char *name = json_string_value(json_object_get(prompt, "name"));
    uint32_t n = (uint32_t)json_array_size(ids);

    if (name == NULL || n == 0 || json_array_size(expect) == 0 ||
        json_array_size(expect) != json_array_size(margins)) {
        return error_set(e, ST_DATA_LOSS, "golden.json: a broken prompt");
    }
    snprintf(p->name, sizeof p->name, "%s", name);
    p->ids = calloc(n, sizeof *p->ids);
    if (p->ids == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "no memory");
    }
    p->n_ids = read_ids(ids, p->ids, n);
    p->steps = read_ids(expect, p->expect, GOLDEN_STEPS_MAX);
    for (uint32_t i = 0; i < p->steps; i++) {
        p->margin[i] = json_number_value(json_array_get(margins, i));
    }
    read_tops(p, prompt);
    p->noise =
        json_number_value(json_object_get(prompt, "cached_vs_full_max_abs"));
    return read_drafts(p, json_object_get(prompt, "mtp"), e);
}

static enum status read_prompts(struct golden *g, const json_t *root,
                                struct error *e)
{
    const json_t *list = json_object_get(root, "prompts");
    double noise = json_number_value(json_object_get(root, "float32_noise"));
    enum status st = ST_OK;

    for (size_t i = 0; i < json_array_size(list) && st == ST_OK; i++) {
        if (g->n == GOLDEN_PROMPTS_MAX) {
            return error_set(e, ST_DATA_LOSS, "golden.json: over %d prompts",
                             GOLDEN_PROMPTS_MAX);
        }
        st = read_prompt(&g->prompts[g->n], json_array_get(list, i), e);
        noise = fmax(noise, g->prompts[g->n++].noise);
    }
    for (uint32_t i = 0; i < g->n; i++) { /* one prompt alone shows little */
        g->prompts[i].noise = noise;
    }
    if (st == ST_OK && g->n == 0) {
        st = error_set(e, ST_DATA_LOSS, "golden.json: no prompts");
    }
    return st;
}

static void *read_file(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    long end = 0;
    void *bytes = NULL;

    if (f == NULL) {
        return NULL;
    }
    if (fseek(f, 0, SEEK_END) == 0) {
        end = ftell(f);
    }
    if (end > 0 && fseek(f, 0, SEEK_SET) == 0) {
        bytes = malloc((size_t)end);
    }
    if (bytes && fread(bytes, 1, (size_t)end, f) != (size_t)end) {
        free(bytes);
        bytes = NULL;
    }
    fclose(f);
    *len = bytes ? (size_t)end : 0;
    return bytes;
}

/* Assigns "hidden.NAME" and the like to the prompt of that name. */
static void place(struct golden *g, const struct safetensors_tensor *t,
                  const float *data)
{
    const char *dot = strchr(t->name, '.');

    for (uint32_t i = 0; dot && i < g->n; i++) {
        struct golden_prompt *p = &g->prompts[i];
        size_t kind = (size_t)(dot - t->name);

        if (strcmp(dot + 1, p->name) != 0 || t->dtype != SAFETENSORS_F32) {
            continue;
        }
        if (strncmp(t->name, "hidden", kind) == 0) {
            p->hidden = data;
            p->n_hidden = (uint32_t)t->dims[0];
        } else if (strncmp(t->name, "last_logits", kind) == 0) {
            p->last = data;
        } else if (strncmp(t->name, "all_logits", kind) == 0) {
            p->all = data;
        }
    }
}

/* Moves the data to the front of the block, where floats are aligned. */
static enum status read_tensors(struct golden *g, const char *dir,
                                struct error *e)
{
    char path[1024];
    size_t len;
    struct safetensors s;
    enum status st;

    snprintf(path, sizeof path, "%s/golden.safetensors", dir);
    g->tensors = read_file(path, &len);
    if (g->tensors == NULL) {
        return ST_OK;
    }
    st = safetensors_parse_file(&s, g->tensors, len, e);
    if (st != ST_OK) {
        return st;
    }
    memmove(g->tensors, (char *)g->tensors + s.data, len - s.data);
    for (uint32_t i = 0; i < s.n; i++) {
        place(g, &s.tensors[i],
              (const float *)g->tensors + s.tensors[i].begin / sizeof(float));
    }
    safetensors_fini(&s);
    return ST_OK;
}

enum status golden_load(struct golden *g, const char *dir, struct error *e)
{
    char path[1024];
    json_error_t fault;
    json_t *root;
    enum status st;

    memset(g, 0, sizeof *g);
    snprintf(path, sizeof path, "%s/golden.json", dir);
    root = json_load_file(path, 0, &fault);
    if (root == NULL) {
        return error_set(e, ST_NOT_FOUND, "%s: %s", path, fault.text);
    }
    st = read_prompts(g, root, e);
    json_decref(root);
    if (st == ST_OK) {
        st = read_tensors(g, dir, e);
    }
    if (st != ST_OK) {
        golden_free(g);
    }
    return st;
}

void golden_free(struct golden *g)
{
    for (uint32_t i = 0; i < g->n; i++) {
        free(g->prompts[i].ids);
    }
    free(g->tensors);
    memset(g, 0, sizeof *g);
}

double golden_largest(const float *a, const float *b, size_t n)
{
    double most = 0.0;

    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);

        most = d > most || d != d ? d : most;
    }
    return most;
}

double golden_distance(const struct golden_prompt *p, uint32_t position,
                       const float *logits, size_t vocab)
{
    double d = 0.0;

    if (p->last && position == p->n_ids - 1) {
        d = golden_largest(logits, p->last, vocab);
    } else if (p->all && position < p->n_ids) {
        d = golden_largest(logits, p->all + position * vocab, vocab);
    }
    for (uint32_t i = 0; i < p->n_tops; i++) {
        const struct golden_top *t = &p->tops[i];

        for (uint32_t j = 0; t->position == position && j < t->n; j++) {
            double x = fabs((double)logits[t->ids[j]] - (double)t->logits[j]);

            d = x > d || x != x ? x : d;
        }
    }
    return d;
}
