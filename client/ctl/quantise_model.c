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

#include "client/ctl/quantise_data.h"
#include "common/base/json_words.h"
#include "common/base/quote.h"
#include "common/model/document.h"
#include "common/model/mtp.h"

struct work {
    const char *in, *out;
    const struct quantise_options *options;
    struct quantise_report *report;
    struct model_config config;
    struct checkpoint *files;
    int *fds;
    struct quantise_list list;
    struct quantise_reader reader;
    uint64_t done, total;
    struct error *error;
};

/* ---- a file's header ---- */

struct entry {
    const char *dtype;
    const uint64_t *dims; /* [rank] */
    uint32_t rank;
    uint64_t bytes;
};

static void add_entry(json_t *header, const char *name, const struct entry *t,
                      uint64_t *at)
{
    json_t *shape = json_array();

    for (uint32_t i = 0; i < t->rank; i++) {
        json_array_append_new(shape, json_integer((json_int_t)t->dims[i]));
    }
    json_object_set_new(header, name,
                        json_pack("{s:s, s:o, s:[I, I]}", "dtype", t->dtype,
                                  "shape", shape, "data_offsets",
                                  (json_int_t)*at,
                                  (json_int_t)(*at + t->bytes)));
    *at += t->bytes;
}

/* Writes X.scales or X.biases for X.weight to the caller's buffer. */
static const char *renamed(char *to, size_t room, const char *name,
                           const char *end)
{
    size_t stem = strlen(name) - strlen(".weight");

    snprintf(to, room, "%.*s%s", (int)stem, name, end);
    return to;
}

static const char *dtype_name(enum dtype t)
{
    return safetensors_dtype_name(t == DTYPE_F32    ? SAFETENSORS_F32
                                  : t == DTYPE_BF16 ? SAFETENSORS_BF16
                                                    : SAFETENSORS_F16);
}

/* Adds the three planes of an affine matrix, whose first dimensions are those
 * of t. */
static void add_affine(const struct work *w, json_t *header,
                       const struct quantise_tensor *t, uint64_t *at)
{
    static const char *const ends[] = {".scales", ".biases"};
    const struct tensor s = quantise_data_shape(&w->reader, t);
    char name[SAFETENSORS_NAME_MAX + 8];
    uint64_t dims[3];

    memcpy(dims, t->dims, sizeof dims);
    dims[t->rank - 1] = (uint64_t)s.cols * s.bits / 32;
    add_entry(
        header, t->name,
        &(struct entry){"U32", dims, t->rank, s.rows * tensor_row_bytes(&s)},
        at);
    dims[t->rank - 1] = s.cols / s.group;
    for (int i = 0; i < 2; i++) {
        add_entry(header, renamed(name, sizeof name, t->name, ends[i]),
                  &(struct entry){dtype_name(t->dtype), dims, t->rank,
                                  s.rows * tensor_scale_bytes(&s)},
                  at);
    }
}

/* Adds a tensor to the header of the new file at offset *at, which moves past
 * it, and counts it. */
static void add_tensor(const struct work *w, json_t *header,
                       const struct quantise_tensor *t, uint64_t *at)
{
    const struct safetensors_tensor *i = t->info;
    uint64_t before = *at;

    if (t->form == QUANTISE_AFFINE) {
        add_affine(w, header, t, at);
        w->report->n_quantised++;
    } else if (t->form == QUANTISE_PLAIN) {
        const struct tensor s = quantise_data_shape(&w->reader, t);

        add_entry(header, t->name,
                  &(struct entry){dtype_name(t->dtype), t->dims, t->rank,
                                  tensor_bytes(&s)},
                  at);
        w->report->n_copied++;
    } else {
        add_entry(header, t->name,
                  &(struct entry){safetensors_dtype_name(i->dtype), i->dims,
                                  i->rank, i->end - i->begin},
                  at);
        w->report->n_copied++;
    }
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

/* ---- files ---- */

static enum status write_tensors(struct work *w, uint32_t file, FILE *to)
{
    enum status st = ST_OK;

    for (uint32_t i = 0; i < w->list.n && st == ST_OK; i++) {
        const struct quantise_tensor *t = &w->list.tensors[i];

        if (t->file == file) {
            st = quantise_data_write(&w->reader, t, to);
            if (st != ST_OK) {
                st = error_wrap(w->error, "tensor %s", quote(t->name).text);
            }
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

    if (strchr(name, '/') != NULL) { /* mtp/weights.safetensors */
        snprintf(path, sizeof path, "%s/%.*s", w->out, (int)strcspn(name, "/"),
                 name);
        (void)mkdir(path, 0777); /* or else fopen() fails */
    }
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
    return fclose(f) != 0 && st == ST_OK ? quantise_data_cannot_write(w->error)
                                         : st;
}

/* Writes a weight file, and adds its tensors, with the new scales and biases,
 * to the index.  A companion is found without an index. */
static enum status write_file(struct work *w, uint32_t file, json_t *index)
{
    const struct checkpoint_file *f = &w->files->files[file];
    json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    uint64_t at = 0;
    const char *key;
    json_t *v;
    enum status st;
    FILE *to = create_file(w, f->name, &st);

    for (uint32_t i = 0; i < w->list.n && st == ST_OK; i++) {
        if (w->list.tensors[i].file == file) {
            add_tensor(w, header, &w->list.tensors[i], &at);
        }
    }
    json_object_foreach(header, key, v)
    {
        if (key[0] != '_' && !f->companion) {
            json_object_set_new(index, key, json_string(f->name));
        }
    }
    if (st == ST_OK && !write_header(header, to)) {
        st = quantise_data_cannot_write(w->error);
    }
    json_decref(header);
    if (st == ST_OK) {
        st = write_tensors(w, file, to);
    }
    return to == NULL ? st : close_file(w, to, st);
}

/* Strings that json_words_mark() made are words again in the file. */
static enum status write_json(struct work *w, const char *name, const json_t *j)
{
    char *text = json_dumps(j, JSON_INDENT(2));
    enum status st;
    FILE *to;

    if (text == NULL) {
        return error_set(w->error, ST_RESOURCE_EXHAUSTED, "no memory for %s",
                         name);
    }
    json_words_unmark(text);
    to = create_file(w, name, &st);
    if (st == ST_OK) {
        if (fputs(text, to) == EOF || fputc('\n', to) == EOF) {
            st = quantise_data_cannot_write(w->error);
        }
        st = close_file(w, to, st);
    }
    free(text);
    return st;
}

static enum status write_weights(struct work *w)
{
    bool single = strcmp(w->files->files[0].name, "model.safetensors") == 0 &&
                  (w->files->n_files == 1 || w->files->files[1].companion);
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

/* Reads config.json, with marks where it has Infinity or NaN. */
static enum status read_config(struct work *w, json_t **doc)
{
    char *text, *marked = NULL;
    size_t len, n;
    enum status st = document_read(&text, &len, w->in, "config.json",
                                   CONFIG_BYTES_MAX, w->error);

    if (st != ST_OK) {
        return st;
    }
    st = json_words_mark(&marked, &n, text, len, w->error);
    if (st == ST_OK) {
        st = document_parse(doc, marked != NULL ? marked : text, n, w->error);
    }
    free(marked);
    free(text);
    return st;
}

/* Writes config.json with the field `quantization` of the MLX format, whose
 * mode "affine" is the one that sluice reads. */
static enum status write_config(struct work *w)
{
    json_t *doc;
    enum status st = read_config(w, &doc);

    if (st != ST_OK) {
        return st;
    }
    json_object_del(doc, "quantization_config"); /* of FP8 */
    json_object_del(json_object_get(doc, "text_config"), "quantization_config");
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
        st = fwrite(bytes, 1, len, to) == len
                 ? ST_OK
                 : quantise_data_cannot_write(w->error);
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

static void report_progress(void *ctx, uint64_t bytes)
{
    struct work *w = ctx;

    w->done += bytes;
    if (w->options->progress != NULL) {
        w->options->progress(w->options->ctx, w->done, w->total);
    }
}

static enum status open_weights(struct work *w)
{
    struct mtp_found mtp;
    enum status st = checkpoint_open(&w->files, w->in, w->error);

    if (st == ST_OK) {
        st = checkpoint_add_mtp(w->files, w->error);
    }
    if (st == ST_OK) {
        mtp_find(&mtp, &w->config, w->files);
        w->config.drafts = mtp.usable;
    }
    return st;
}

static enum status open_all(struct work *w)
{
    enum status st = config_load(&w->config, w->in, w->error);

    st = st == ST_OK ? open_weights(w) : st;
    if (st == ST_OK) {
        st = quantise_list_make(&w->list, &w->config, w->files,
                                w->options->group, w->error);
    }
    if (st == ST_OK) {
        st = checkpoint_open_files(w->files, &w->fds, w->error);
    }
    w->reader = (struct quantise_reader){.files = w->files,
                                         .fds = w->fds,
                                         .bits = w->options->bits,
                                         .group = w->options->group,
                                         .read = report_progress,
                                         .ctx = w,
                                         .error = w->error};
    return st;
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
        r->bytes_in = w.total;
        st = write_all(&w);
    }
    if (w.files != NULL) {
        checkpoint_close_files(w.files, &w.fds);
    }
    checkpoint_close(&w.files);
    quantise_list_fini(&w.list);
    return st;
}
