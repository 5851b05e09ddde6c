/* quantise_model.c - Quantisation of a model directory into a new directory.
 *
 * A safetensors file begins with a header that has the offsets of all tensors.
 * Shapes determine the quantised sizes, so each header is written first, and
 * the tensors follow in one pass. */
#include "client/ctl/quantise_model.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/quote.h"
#include "common/model/document.h"
#include "common/model/half.h"
#include "common/model/layout.h"
#include "common/model/quantise.h"

#define STEP 1048576 /* bytes of a tensor copied at a time */

struct work {
    const char *in, *out;
    const struct quantise_options *options;
    struct quantise_report *report;
    struct model_config config;
    struct checkpoint *files;
    int *fds;
    bool *matrix; /* [files->n_tensors] the tensor is to be quantised */
    uint64_t done, total;
    struct error *error;
};

/* ---- choice of the matrices ---- */

static enum status no_memory(struct work *w)
{
    return error_set(w->error, ST_RESOURCE_EXHAUSTED, "out of memory");
}

/* Chooses the tensors to quantise.  A load widens vectors to float32 and keeps
 * matrices as stored, so a tensor that it does not widen is a matrix. */
static enum status choose_matrices(struct work *w)
{
    struct layout l;
    enum status st = layout_of_model(&l, &w->config, w->files, w->error);

    w->matrix = calloc(w->files->n_tensors + 1, sizeof *w->matrix);
    if (st == ST_OK && w->matrix == NULL) {
        st = no_memory(w);
    }
    for (uint32_t i = 0; i < l.n && st == ST_OK; i++) {
        const struct slice *s = &l.slices[i];

        if (!s->widen && s->source->info->dims[1] % w->options->group == 0) {
            w->matrix[s->source - w->files->tensors] = true;
        }
    }
    layout_fini(&l);
    return st;
}

/* Maps a tensor of a file's header to the checkpoint's list.  The search is
 * linear: it runs a few times per tensor, and each tensor is read from disk. */
static bool is_matrix(const struct work *w, const struct safetensors_tensor *t)
{
    for (uint32_t i = 0; i < w->files->n_tensors; i++) {
        if (w->files->tensors[i].info == t) {
            return w->matrix[i];
        }
    }
    return false; /* a tensor that the model does not use */
}

/* ---- a file's header ---- */

static void add_entry(json_t *header, const char *name, const char *dtype,
                      const uint64_t *dims, uint32_t rank, uint64_t bytes,
                      uint64_t *at)
{
    json_t *shape = json_array();

    for (uint32_t i = 0; i < rank; i++) {
        json_array_append_new(shape, json_integer((json_int_t)dims[i]));
    }
    json_object_set_new(header, name,
                        json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype,
                                  "shape", shape, "data_offsets",
                                  (json_int_t)*at, (json_int_t)(*at + bytes)));
    *at += bytes;
}

/* Writes X.scales or X.biases for X.weight to the caller's buffer. */
static const char *renamed(char *to, size_t room, const char *name,
                           const char *end)
{
    size_t stem = strlen(name) - strlen(".weight");

    snprintf(to, room, "%.*s%s", (int)stem, name, end);
    return to;
}

static enum dtype dtype_of(const struct safetensors_tensor *t)
{
    return t->dtype == SAFETENSORS_F32    ? DTYPE_F32
           : t->dtype == SAFETENSORS_BF16 ? DTYPE_BF16
                                          : DTYPE_F16;
}

/* Returns the shape of the quantised tensor, without pointers to data. */
static struct tensor shape_of(const struct work *w,
                              const struct safetensors_tensor *t)
{
    return (struct tensor){.format = WEIGHT_AFFINE,
                           .dtype = dtype_of(t),
                           .rows = (uint32_t)t->dims[0],
                           .cols = (uint32_t)t->dims[1],
                           .bits = w->options->bits,
                           .group = w->options->group};
}

static void add_quantised(const struct work *w, json_t *header,
                          const struct safetensors_tensor *t, uint64_t *at)
{
    static const char *const ends[] = {".scales", ".biases"};
    const struct tensor s = shape_of(w, t);
    const uint64_t words[] = {s.rows, (uint64_t)s.cols * s.bits / 32};
    const uint64_t groups[] = {s.rows, s.cols / s.group};
    char name[SAFETENSORS_NAME_MAX + 8];

    add_entry(header, t->name, "U32", words, 2, s.rows * tensor_row_bytes(&s),
              at);
    for (int i = 0; i < 2; i++) {
        add_entry(header, renamed(name, sizeof name, t->name, ends[i]),
                  safetensors_dtype_name(t->dtype), groups, 2,
                  s.rows * tensor_scale_bytes(&s), at);
    }
}

/* Adds a tensor to the header of the new file at offset *at, which moves past
 * it, and counts it. */
static void add_tensor(const struct work *w, json_t *header,
                       const struct safetensors_tensor *t, uint64_t *at)
{
    uint64_t before = *at;

    if (is_matrix(w, t)) {
        add_quantised(w, header, t, at);
        w->report->n_quantised++;
    } else {
        add_entry(header, t->name, safetensors_dtype_name(t->dtype), t->dims,
                  t->rank, t->end - t->begin, at);
        w->report->n_copied++;
    }
    w->report->bytes_in += t->end - t->begin;
    w->report->bytes_out += *at - before;
}

/* Writes the header: its length in 8 bytes little-endian, the JSON, and blanks
 * up to a multiple of eight, so that the tensors are aligned. */
static bool write_header(const json_t *header, FILE *to)
{
    char *text = json_dumps(header, JSON_COMPACT);
    size_t n = text == NULL ? 0 : strlen(text), blanks = -n % 8 & 7;
    unsigned char length[8];
    bool ok;

    for (int i = 0; i < 8; i++) {
        length[i] = (unsigned char)((uint64_t)(n + blanks) >> (8 * i));
    }
    ok = text != NULL && fwrite(length, 1, 8, to) == 8 &&
         fwrite(text, 1, n, to) == n &&
         fwrite("        ", 1, blanks, to) == blanks;
    free(text);
    return ok;
}

/* ---- a tensor's data ---- */

static void report_progress(struct work *w, uint64_t bytes)
{
    w->done += bytes;
    if (w->options->progress != NULL) {
        w->options->progress(w->options->ctx, w->done, w->total);
    }
}

static enum status cannot_write(struct work *w)
{
    return error_set(w->error, ST_UNAVAILABLE, "cannot write: %s",
                     strerror(errno));
}

static enum status copy_tensor(struct work *w, int fd, uint64_t from,
                               uint64_t bytes, FILE *to)
{
    char *part = malloc(STEP);
    enum status st = part == NULL ? no_memory(w) : ST_OK;

    for (uint64_t at = 0; at < bytes && st == ST_OK; at += STEP) {
        size_t n = bytes - at < STEP ? (size_t)(bytes - at) : STEP;

        st = document_pread(fd, part, n, from + at, w->error);
        if (st == ST_OK && fwrite(part, 1, n, to) != n) {
            st = cannot_write(w);
        }
        report_progress(w, n);
    }
    free(part);
    return st;
}

static void widen_row(float *out, const char *in, enum dtype t, size_t n)
{
    uint16_t half;

    for (size_t i = 0; i < n; i++) {
        if (t == DTYPE_F32) {
            memcpy(&out[i], in + i * sizeof *out, sizeof *out);
        } else {
            memcpy(&half, in + i * sizeof half, sizeof half);
            out[i] =
                t == DTYPE_BF16 ? half_from_bf16(half) : half_from_f16(half);
        }
    }
}

/* Buffers: one row as stored, as float32 and as words; and the scales and
 * biases of all rows, because the file has them after the words. */
struct row {
    char *stored;
    float *wide;
    uint8_t *words;
    char *scales, *biases;
};

static bool row_new(struct row *r, const struct tensor *s)
{
    uint64_t scales = s->rows * tensor_scale_bytes(s);

    *r = (struct row){malloc(s->cols * sizeof(float)),
                      malloc(s->cols * sizeof(float)), malloc(s->cols),
                      malloc(scales), malloc(scales)};
    return r->stored != NULL && r->wide != NULL && r->words != NULL &&
           r->scales != NULL && r->biases != NULL;
}

static void row_free(struct row *r)
{
    free(r->stored);
    free(r->wide);
    free(r->words);
    free(r->scales);
    free(r->biases);
}

static enum status quantise_rows(struct work *w, int fd, uint64_t from,
                                 const struct tensor *s, struct row *r,
                                 FILE *to)
{
    const size_t stored = (size_t)s->cols * dtype_bytes(s->dtype);
    const size_t words = (size_t)tensor_row_bytes(s);

    for (uint32_t i = 0; i < s->rows; i++) {
        const struct quantised_groups out = {
            .data = r->words,
            .scales = r->scales + i * tensor_scale_bytes(s),
            .biases = r->biases + i * tensor_scale_bytes(s),
            .dtype = s->dtype,
            .bits = s->bits,
            .group = s->group};
        enum status st =
            document_pread(fd, r->stored, stored, from + i * stored, w->error);

        if (st != ST_OK) {
            return st;
        }
        widen_row(r->wide, r->stored, s->dtype, s->cols);
        if (!quantise(&out, r->wide, s->cols)) {
            return error_set(w->error, ST_INVALID_ARGUMENT,
                             "row %u has a value that is not finite", i);
        }
        if (fwrite(r->words, 1, words, to) != words) {
            return cannot_write(w);
        }
        report_progress(w, stored);
    }
    return ST_OK;
}

static enum status quantise_tensor(struct work *w, int fd, uint64_t from,
                                   const struct safetensors_tensor *t, FILE *to)
{
    const struct tensor s = shape_of(w, t);
    const size_t scales = (size_t)(s.rows * tensor_scale_bytes(&s));
    struct row r;
    enum status st = row_new(&r, &s) ? ST_OK : no_memory(w);

    if (st == ST_OK) {
        st = quantise_rows(w, fd, from, &s, &r, to);
    }
    if (st == ST_OK && (fwrite(r.scales, 1, scales, to) != scales ||
                        fwrite(r.biases, 1, scales, to) != scales)) {
        st = cannot_write(w);
    }
    row_free(&r);
    return st;
}

/* ---- files ---- */

static enum status write_tensors(struct work *w, uint32_t file, FILE *to)
{
    const struct safetensors *h = &w->files->files[file].header;
    enum status st = ST_OK;

    for (uint32_t i = 0; i < h->n && st == ST_OK; i++) {
        const struct safetensors_tensor *t = &h->tensors[i];
        uint64_t from = h->data + t->begin;

        st = is_matrix(w, t)
                 ? quantise_tensor(w, w->fds[file], from, t, to)
                 : copy_tensor(w, w->fds[file], from, t->end - t->begin, to);
        if (st != ST_OK) {
            st = error_wrap(w->error, "tensor %s", quote(t->name).text);
        }
    }
    return st;
}

/* Creates a file of the new directory.  "x": never overwrites, even if another
 * process wrote into the directory meanwhile. */
static FILE *create_file(struct work *w, const char *name, enum status *st)
{
    char path[PATH_MAX];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", w->out, name);
    f = fopen(path, "wbx");
    *st = f != NULL ? ST_OK
                    : error_set(w->error, ST_UNAVAILABLE, "%s: %s",
                                quote(path).text, strerror(errno));
    return f;
}

/* Closes a file.  A full disk may show only now, when buffers are flushed. */
static enum status close_file(struct work *w, FILE *f, enum status st)
{
    return fclose(f) != 0 && st == ST_OK ? cannot_write(w) : st;
}

/* Writes a weight file, and adds its tensors, with the new scales and biases,
 * to the index. */
static enum status write_file(struct work *w, uint32_t file, json_t *index)
{
    const struct checkpoint_file *f = &w->files->files[file];
    json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    uint64_t at = 0;
    const char *key;
    json_t *v;
    enum status st;
    FILE *to = create_file(w, f->name, &st);

    for (uint32_t i = 0; i < f->header.n && st == ST_OK; i++) {
        add_tensor(w, header, &f->header.tensors[i], &at);
    }
    json_object_foreach(header, key, v)
    {
        if (key[0] != '_') {
            json_object_set_new(index, key, json_string(f->name));
        }
    }
    if (st == ST_OK && !write_header(header, to)) {
        st = cannot_write(w);
    }
    json_decref(header);
    if (st == ST_OK) {
        st = write_tensors(w, file, to);
    }
    return to == NULL ? st : close_file(w, to, st);
}

static enum status write_json(struct work *w, const char *name, json_t *j)
{
    enum status st;
    FILE *to = create_file(w, name, &st);

    if (st == ST_OK) {
        if (json_dumpf(j, to, JSON_INDENT(2)) != 0 || fputc('\n', to) == EOF) {
            st = cannot_write(w);
        }
        st = close_file(w, to, st);
    }
    return st;
}

static enum status write_weights(struct work *w)
{
    bool single = w->files->n_files == 1 &&
                  strcmp(w->files->files[0].name, "model.safetensors") == 0;
    json_t *map = json_object(), *index;
    enum status st = ST_OK;

    for (uint32_t i = 0; i < w->files->n_files && st == ST_OK; i++) {
        st = write_file(w, i, map);
    }
    index = json_pack("{s:o}", "weight_map", map);
    if (st == ST_OK && !single) {
        st = write_json(w, "model.safetensors.index.json", index);
    }
    json_decref(index);
    return st;
}

/* Writes config.json with the field `quantization` of the MLX format, whose
 * mode "affine" is the one that sluice reads. */
static enum status write_config(struct work *w)
{
    char *text;
    size_t len;
    json_t *doc;
    enum status st = document_read(&text, &len, w->in, "config.json",
                                   CONFIG_BYTES_MAX, w->error);

    if (st != ST_OK) {
        return st;
    }
    st = document_parse(&doc, text, len, w->error);
    free(text);
    if (st != ST_OK) {
        return st;
    }
    json_object_set_new(doc, "quantization",
                        json_pack("{s:I, s:I, s:s}", "group_size",
                                  (json_int_t)w->options->group, "bits",
                                  (json_int_t)w->options->bits, "mode",
                                  "affine"));
    st = write_json(w, "config.json", doc);
    json_decref(doc);
    return st;
}

/* Optional files that apply to the quantised model too: tokenizer, template,
 * licence.  Any other file is irrelevant, or describes the original weights. */
static const char *const others[] = {
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "chat_template.jinja",
    "chat_template.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "LICENSE",
};

static enum status copy_file(struct work *w, const char *name)
{
    char *bytes;
    size_t len;
    enum status st =
        document_read(&bytes, &len, w->in, name, INT32_MAX, w->error);
    FILE *to;

    if (st != ST_OK) {
        return st;
    }
    to = create_file(w, name, &st);
    if (st == ST_OK) {
        st = fwrite(bytes, 1, len, to) == len ? ST_OK : cannot_write(w);
        st = close_file(w, to, st);
    }
    free(bytes);
    return st;
}

static enum status copy_others(struct work *w)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        enum status st = copy_file(w, others[i]);

        if (st != ST_OK && st != ST_NOT_FOUND) {
            return error_wrap(w->error, "%s", others[i]);
        }
    }
    return ST_OK;
}

static enum status make_directory(struct work *w)
{
    if (mkdir(w->out, 0777) == 0) {
        return ST_OK;
    }
    return error_set(w->error,
                     errno == EEXIST ? ST_ALREADY_EXISTS : ST_UNAVAILABLE,
                     errno == EEXIST ? "%s exists; name a new directory"
                                     : "cannot create directory %s",
                     quote(w->out).text);
}

/* Writes config.json last: without it the directory is no model, so a run that
 * fails or is interrupted leaves nothing that a worker would load. */
static enum status write_all(struct work *w)
{
    enum status st = make_directory(w);

    if (st != ST_OK) {
        return st;
    }
    st = write_weights(w);
    if (st == ST_OK) {
        st = copy_others(w);
    }
    if (st == ST_OK) {
        st = checkpoint_unchanged(w->files, w->fds, w->error);
    }
    if (st == ST_OK) {
        st = write_config(w);
    }
    return st == ST_OK ? st
                       : error_wrap(w->error, "%s is incomplete; remove it",
                                    quote(w->out).text);
}

static enum status open_all(struct work *w)
{
    enum status st = config_load(&w->config, w->in, w->error);

    if (st == ST_OK && w->config.quant.bits > 0) {
        st = error_set(w->error, ST_FAILED_PRECONDITION,
                       "the model is already quantised, at %u bits",
                       w->config.quant.bits);
    }
    if (st == ST_OK) {
        st = checkpoint_open(&w->files, w->in, w->error);
    }
    if (st == ST_OK) {
        st = choose_matrices(w);
    }
    return st != ST_OK ? st
                       : checkpoint_open_files(w->files, &w->fds, w->error);
}

enum status quantise_model(struct quantise_report *r, const char *in,
                           const char *out, const struct quantise_options *o,
                           struct error *e)
{
    struct error ignored;
    struct work w = {.in = in,
                     .out = out,
                     .options = o,
                     .report = r,
                     .error = e != NULL ? e : &ignored};
    enum status st;

    *r = (struct quantise_report){0};
    st = open_all(&w);
    if (st != ST_OK) {
        st = error_wrap(w.error, "%s", quote(in).text);
    } else {
        for (uint32_t i = 0; i < w.files->n_files; i++) {
            w.total += w.files->files[i].bytes - w.files->files[i].header.data;
        }
        st = write_all(&w);
    }
    if (w.files != NULL) {
        checkpoint_close_files(w.files, &w.fds);
    }
    checkpoint_close(&w.files);
    free(w.matrix);
    return st;
}
