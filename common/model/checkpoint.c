#include "common/model/checkpoint.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/affix.h"
#include "common/base/quote.h"
#include "common/model/directory.h"
#include "common/model/document.h"
#include "common/model/gguf_model.h"

#define SINGLE "model.safetensors"
#define INDEX  "model.safetensors.index.json"

#define MTP "mtp." /* of keys */

#define HEAD_BYTES 64 /* of a file: the header's length, or a pointer */

/* Recognised parts that sluice does not compute, so that they do not count as
 * unknown tensors. */
static bool set_aside(const char *key)
{
    static const char *const parts[] = {
        "visual.", "vision_tower.", "vision_model.", "multi_modal_projector."};
    static const char tail[] = ".rotary_emb.inv_freq";
    size_t n = strlen(key), m = sizeof tail - 1;

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (starts_with(key, parts[i])) {
            return true;
        }
    }
    return n > m && strcmp(key + n - m, tail) == 0;
}

/* The longest prefixes come first: "model." also starts
 * "model.language_model.". */
const char *checkpoint_key(const char *name)
{
    static const char *const prefixes[] = {"model.language_model.",
                                           "language_model.model.", "model.",
                                           "language_model."};

    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (starts_with(name, prefixes[i])) {
            name += strlen(prefixes[i]);
            break;
        }
    }
    return set_aside(name) ? NULL : name;
}

bool checkpoint_is_mtp(const char *key)
{
    return starts_with(key, MTP);
}

/* Nanoseconds: a file rewritten within the same second must differ. */
static int64_t changed_ns(const struct stat *s)
{
    return (int64_t)s->st_mtim.tv_sec * 1000000000 + s->st_mtim.tv_nsec;
}

static enum status read_header(struct checkpoint_file *f, int fd,
                               struct error *e)
{
    char first[HEAD_BYTES] = {0};
    uint64_t n = 0;
    char *header;
    enum status st;

    st = document_pread(
        fd, first, f->bytes < sizeof first ? (size_t)f->bytes : sizeof first, 0,
        e);
    if (st == ST_OK && directory_is_pointer(first, sizeof first)) {
        return directory_pointer(e);
    }
    if (st == ST_OK) {
        st = safetensors_header_bytes(&n, first, f->bytes, e);
    }
    if (st != ST_OK) {
        return st;
    }
    header = malloc((size_t)n);
    if (header == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "no memory for a header of %llu bytes",
                         (unsigned long long)n);
    }
    st = document_pread(fd, header, (size_t)n, SAFETENSORS_PREFIX, e);
    if (st == ST_OK) {
        st = safetensors_parse(&f->header, header, n,
                               f->bytes - SAFETENSORS_PREFIX - n, e);
    }
    free(header);
    return st;
}

/* Names the tensors of part i of a GGUF model.  The first part has the
 * architecture. */
static enum status read_gguf(struct checkpoint *c, struct checkpoint_file *f,
                             int fd, struct error *e)
{
    uint32_t part = (uint32_t)(f - c->files);
    struct gguf g;
    enum status st = gguf_read(&g, fd, f->bytes, e);

    if (st != ST_OK) {
        return st;
    }
    st = gguf_check_part(&g, part, c->n_files, e);
    if (st == ST_OK && part == 0) {
        st = gguf_arch_read(&c->arch, &g, e);
        c->arch.file = NULL; /* released below */
    }
    if (st == ST_OK) {
        st = gguf_tensors_make(&f->gguf, &g, &c->arch, e);
    }
    if (st == ST_OK) {
        f->header.data = g.data;
        f->header.n = f->gguf.n;
        f->header.tensors = f->gguf.infos;
    }
    gguf_fini(&g);
    return st;
}

/* The file is closed again: a model may have more shards than descriptors are
 * free. */
static enum status open_file(struct checkpoint *c, struct checkpoint_file *f,
                             struct error *e)
{
    struct stat s;
    int fd;
    enum status st = document_open(&fd, &f->bytes, c->dir, f->name, e);

    if (st == ST_NOT_FOUND) {
        st = error_set(e, ST_NOT_FOUND,
                       "the file is missing, although the %s lists it among "
                       "%u; the download is incomplete: repeat it",
                       c->gguf ? "name of another part" : "index", c->n_files);
    }
    if (st == ST_OK && fstat(fd, &s) == 0) {
        f->changed_ns = changed_ns(&s);
        st = c->gguf ? read_gguf(c, f, fd, e) : read_header(f, fd, e);
    }
    if (fd >= 0) {
        close(fd);
    }
    return st == ST_OK ? st : error_wrap(e, "%s", quote(f->name).text);
}

static enum status no_memory(struct error *e)
{
    return error_set(e, ST_RESOURCE_EXHAUSTED,
                     "no memory for a checkpoint's names");
}

/* Takes ownership of the index's names. */
static enum status name_files(struct checkpoint *c, struct safetensors_index *x,
                              struct error *e)
{
    c->files = calloc(x->n_files + 1, sizeof *c->files);
    if (c->files == NULL) {
        return no_memory(e);
    }
    c->n_files = x->n_files;
    for (uint32_t i = 0; i < x->n_files; i++) {
        c->files[i].name = x->files[i];
        x->files[i] = NULL;
    }
    return ST_OK;
}

static enum status name_single(struct checkpoint *c, struct error *e)
{
    c->files = calloc(1, sizeof *c->files);
    if (c->files == NULL) {
        return no_memory(e);
    }
    c->n_files = 1;
    c->files[0].name = strdup(SINGLE);
    return c->files[0].name == NULL ? no_memory(e) : ST_OK;
}

/* Takes ownership of the names. */
static enum status name_gguf(struct checkpoint *c, struct gguf_files *g,
                             struct error *e)
{
    c->files = calloc(g->n + 1, sizeof *c->files);
    if (c->files == NULL) {
        return no_memory(e);
    }
    free(c->dir);
    c->dir = g->dir;
    g->dir = NULL;
    c->n_files = g->n;
    c->gguf = true;
    for (uint32_t i = 0; i < g->n; i++) {
        c->files[i].name = g->names[i];
        g->names[i] = NULL;
    }
    return ST_OK;
}

/* Lists one file if model.safetensors exists, else the files of the index. */
static enum status list_safetensors(struct checkpoint *c, struct error *e)
{
    struct safetensors_index x;
    char *text;
    size_t len;
    uint64_t bytes;
    int fd;
    enum status st = document_open(&fd, &bytes, c->dir, SINGLE, e);

    if (st == ST_OK) {
        close(fd);
        return name_single(c, e);
    }
    if (st != ST_NOT_FOUND) {
        return error_wrap(e, SINGLE);
    }
    st = document_read(&text, &len, c->dir, INDEX, INDEX_BYTES_MAX, e);
    if (st == ST_NOT_FOUND) {
        st = directory_check(c->dir, DIRECTORY_WEIGHTS, e);
        /* OK: the files have just appeared. */
        return st != ST_OK ? st : error_set(e, ST_ABORTED, "try again");
    }
    if (st == ST_OK) {
        st = safetensors_index_parse(&x, text, len, e);
        free(text);
    }
    if (st != ST_OK) {
        return error_wrap(e, INDEX);
    }
    st = name_files(c, &x, e);
    safetensors_index_fini(&x);
    return st;
}

static enum status list_files(struct checkpoint *c, struct error *e)
{
    struct gguf_files g;
    enum status st = gguf_files_find(&g, c->dir, e);

    if (st == ST_OK) {
        st = g.n > 0 ? name_gguf(c, &g, e) : list_safetensors(c, e);
    }
    gguf_files_fini(&g);
    return st;
}

static int by_key(const void *a, const void *b)
{
    const struct checkpoint_tensor *x = a, *y = b;

    return strcmp(x->key, y->key);
}

const char *checkpoint_key_of(const struct checkpoint *c,
                              const struct checkpoint_file *f, uint32_t i)
{
    return f->companion ? f->keys[i]
           : c->gguf    ? f->gguf.named[i].key
                        : checkpoint_key(f->header.tensors[i].name);
}

static void add_tensor(struct checkpoint *c, uint32_t file, uint32_t i)
{
    const struct safetensors_tensor *info = &c->files[file].header.tensors[i];
    const struct gguf_named *named =
        c->gguf ? &c->files[file].gguf.named[i] : NULL;
    const char *key = checkpoint_key_of(c, &c->files[file], i);
    struct checkpoint_tensor *t = &c->tensors[c->n_tensors];

    if (key == NULL) {
        c->n_aside++;
        return;
    }
    t->key = key;
    t->info = info;
    t->form = c->gguf && named->has_form ? &named->form : NULL;
    t->file = file;
    t->offset = c->files[file].header.data + info->begin;
    t->bytes = info->end - info->begin;
    c->n_tensors++;
}

/* Sorts all tensors by key, so that lookups are binary and two names of one
 * key are neighbours. */
static enum status merge(struct checkpoint *c, struct error *e)
{
    size_t n = 0;

    for (uint32_t i = 0; i < c->n_files; i++) {
        n += c->files[i].header.n;
    }
    free(c->tensors);
    c->n_tensors = c->n_aside = 0;
    c->tensors = calloc(n + 1, sizeof *c->tensors);
    if (c->tensors == NULL) {
        return no_memory(e);
    }
    for (uint32_t i = 0; i < c->n_files; i++) {
        for (uint32_t j = 0; j < c->files[i].header.n; j++) {
            add_tensor(c, i, j);
        }
    }
    qsort(c->tensors, c->n_tensors, sizeof *c->tensors, by_key);
    for (uint32_t i = 1; i < c->n_tensors; i++) {
        const struct checkpoint_tensor *t = &c->tensors[i];

        if (strcmp(t[-1].key, t->key) == 0) {
            return error_set(
                e, ST_DATA_LOSS, "tensors %s and %s are the same one",
                quote(t[-1].info->name).text, quote(t->info->name).text);
        }
    }
    return ST_OK;
}

uint32_t checkpoint_count_mtp(const struct checkpoint *c)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n_tensors; i++) {
        n += checkpoint_is_mtp(c->tensors[i].key);
    }
    return n;
}

/* Gives each tensor of a companion a key, NULL to those that are set aside. */
static enum status name_companion(struct checkpoint_file *f, struct error *e)
{
    f->companion = true;
    f->keys = calloc(f->header.n + 1, sizeof *f->keys);
    for (uint32_t i = 0; f->keys != NULL && i < f->header.n; i++) {
        const char *key = checkpoint_key(f->header.tensors[i].name);
        size_t n = key != NULL ? strlen(key) + sizeof MTP : 0;

        if (key == NULL) {
            continue;
        }
        f->keys[i] = malloc(n);
        if (f->keys[i] == NULL) {
            return no_memory(e);
        }
        snprintf(f->keys[i], n, "%s%s", checkpoint_is_mtp(key) ? "" : MTP, key);
    }
    return f->keys != NULL ? ST_OK : no_memory(e);
}

/* Opens a companion as one more file. */
static enum status open_companion(struct checkpoint *c, const char *name,
                                  struct error *e)
{
    struct checkpoint_file *f =
        realloc(c->files, (c->n_files + (size_t)1) * sizeof *f);
    enum status st;

    if (f == NULL) {
        return no_memory(e);
    }
    c->files = f;
    f += c->n_files++;
    *f = (struct checkpoint_file){.name = strdup(name)};
    st = f->name != NULL ? open_file(c, f, e) : no_memory(e);
    return st == ST_OK ? name_companion(f, e) : st;
}

enum status checkpoint_add_mtp(struct checkpoint *c, struct error *e)
{
    static const char *const names[] = {
        "model-mtp.safetensors", "mtp.safetensors", "mtp/weights.safetensors"};
    size_t n = sizeof names / sizeof names[0], i = 0;
    enum status st = ST_NOT_FOUND;
    uint64_t bytes;
    int fd = -1;

    if (c->gguf || c->dir == NULL || checkpoint_count_mtp(c) > 0) {
        return ST_OK;
    }
    while (i < n && (st = document_open(&fd, &bytes, c->dir, names[i], e)) ==
                        ST_NOT_FOUND) {
        i++;
    }
    if (st == ST_OK) {
        close(fd);
        st = open_companion(c, names[i], e);
        return st == ST_OK ? merge(c, e) : st;
    }
    return st == ST_NOT_FOUND ? ST_OK : error_wrap(e, "%s", names[i]);
}

/* Merges the files, which were opened with st.  Takes c. */
static enum status finish(struct checkpoint **out, struct checkpoint *c,
                          enum status st, struct error *e)
{
    if (st == ST_OK) {
        st = merge(c, e);
    }
    if (st != ST_OK) {
        checkpoint_close(&c);
        return st;
    }
    *out = c;
    return ST_OK;
}

enum status checkpoint_parse(struct checkpoint **out, const char *header,
                             uint64_t header_bytes, uint64_t data_bytes,
                             struct error *e)
{
    struct checkpoint *c = calloc(1, sizeof *c);
    enum status st = c != NULL ? name_single(c, e) : no_memory(e);

    *out = NULL;
    if (st == ST_OK) {
        c->files[0].bytes = SAFETENSORS_PREFIX + header_bytes + data_bytes;
        st = safetensors_parse(&c->files[0].header, header, header_bytes,
                               data_bytes, e);
    }
    return finish(out, c, st, e);
}

enum status checkpoint_open(struct checkpoint **out, const char *dir,
                            struct error *e)
{
    struct error ignored;
    struct checkpoint *c = calloc(1, sizeof *c);
    enum status st;

    e = e != NULL ? e : &ignored;
    *out = NULL;
    if (c == NULL || (c->dir = strdup(dir)) == NULL) {
        free(c);
        return no_memory(e);
    }
    st = list_files(c, e);
    for (uint32_t i = 0; st == ST_OK && i < c->n_files; i++) {
        st = open_file(c, &c->files[i], e);
    }
    return finish(out, c, st, e);
}

static void free_keys(struct checkpoint_file *f)
{
    for (uint32_t i = 0; f->keys != NULL && i < f->header.n; i++) {
        free(f->keys[i]);
    }
    free(f->keys);
}

void checkpoint_close(struct checkpoint **self)
{
    struct checkpoint *c = *self;

    *self = NULL;
    if (c == NULL) {
        return;
    }
    for (uint32_t i = 0; i < c->n_files; i++) {
        free_keys(&c->files[i]);
        if (c->gguf) {
            gguf_tensors_fini(&c->files[i].gguf);
        } else {
            safetensors_fini(&c->files[i].header);
        }
        free(c->files[i].name);
    }
    free(c->files);
    free(c->tensors);
    free(c->dir);
    free(c);
}

const char *checkpoint_dtype_name(const struct checkpoint_tensor *t)
{
    return t->form != NULL ? gguf_type(t->form->type)->name
                           : safetensors_dtype_name(t->info->dtype);
}

const struct checkpoint_tensor *checkpoint_find(const struct checkpoint *c,
                                                const char *key)
{
    struct checkpoint_tensor k = {.key = key};

    return bsearch(&k, c->tensors, c->n_tensors, sizeof k, by_key);
}

enum status checkpoint_unchanged(const struct checkpoint *c, const int *fds,
                                 struct error *e)
{
    for (uint32_t i = 0; i < c->n_files; i++) {
        const struct checkpoint_file *f = &c->files[i];
        struct stat s;

        if (fstat(fds[i], &s) != 0 || (uint64_t)s.st_size != f->bytes ||
            changed_ns(&s) != f->changed_ns) {
            return error_set(e, ST_ABORTED, "%s changed while it was read",
                             quote(f->name).text);
        }
    }
    return ST_OK;
}

enum status checkpoint_open_files(const struct checkpoint *c, int **fds,
                                  struct error *e)
{
    enum status st = ST_OK;
    uint64_t bytes;

    *fds = malloc((c->n_files + 1) * sizeof **fds);
    if (*fds == NULL) {
        return no_memory(e);
    }
    for (uint32_t i = 0; i < c->n_files; i++) {
        (*fds)[i] = -1;
    }
    for (uint32_t i = 0; st == ST_OK && i < c->n_files; i++) {
        const char *name = c->files[i].name;

        st = document_open(&(*fds)[i], &bytes, c->dir, name, e);
        if (st != ST_OK) {
            st = error_wrap(e, "%s", quote(name).text);
        }
    }
    if (st == ST_OK) {
        st = checkpoint_unchanged(c, *fds, e);
    }
    if (st != ST_OK) {
        checkpoint_close_files(c, fds);
    }
    return st;
}

void checkpoint_close_files(const struct checkpoint *c, int **fds)
{
    for (uint32_t i = 0; *fds != NULL && i < c->n_files; i++) {
        if ((*fds)[i] >= 0) {
            close((*fds)[i]);
        }
    }
    free(*fds);
    *fds = NULL;
}
