#include "common/model/gguf_model.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/affix.h"
#include "common/base/quote.h"
#include "common/model/directory.h"
#include "common/model/document.h"

#define ENTRIES_MAX 4096 /* of a directory */
#define PART_BYTES  20   /* of "-00001-of-00002.gguf" */
#define CONTROL     3    /* tokenizer.ggml.token_type of a control token */

/* ---- names ---- */

/* Reads five digits. */
static bool digits(const char *p, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 5; i++) {
        if (p[i] < '0' || p[i] > '9') {
            return false;
        }
        *out = *out * 10 + (uint32_t)(p[i] - '0');
    }
    return true;
}

/* Returns whether a name is that of a part, numbered from 1. */
static bool is_part(const char *name, uint32_t *part, uint32_t *n)
{
    size_t len = strlen(name);
    const char *p = name + len - PART_BYTES;

    return len > PART_BYTES && p[0] == '-' && digits(p + 1, part) &&
           strncmp(p + 6, "-of-", 4) == 0 && digits(p + 10, n) && *part >= 1 &&
           *part <= *n;
}

size_t gguf_files_name(const char *name, size_t n)
{
    static const char end[] = ".gguf";
    const size_t len = sizeof end - 1;
    uint32_t part;

    if (n <= len || memcmp(name + n - len, end, len) != 0) {
        return n;
    }
    if (n > PART_BYTES && name[n - PART_BYTES] == '-' &&
        digits(name + n - PART_BYTES + 1, &part) &&
        strncmp(name + n - PART_BYTES + 6, "-of-", 4) == 0 &&
        digits(name + n - PART_BYTES + 10, &part)) {
        return n - PART_BYTES;
    }
    return n - len;
}

static enum status no_memory(struct error *e)
{
    return error_set(e, ST_RESOURCE_EXHAUSTED, "no memory for file names");
}

/* Lists the file, or all parts of its model. */
static enum status list(struct gguf_files *f, const char *dir, const char *name,
                        struct error *e)
{
    uint32_t part, n = 1;
    bool parts = is_part(name, &part, &n);
    size_t room = strlen(name) + 1;

    if (n > INDEX_FILES_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s is one of %u parts, %d are allowed",
                         quote(name).text, n, INDEX_FILES_MAX);
    }
    f->dir = strdup(dir);
    f->names = calloc(n, sizeof *f->names);
    if (f->dir == NULL || f->names == NULL) {
        return no_memory(e);
    }
    for (; f->n < n; f->n++) {
        f->names[f->n] = malloc(room);
        if (f->names[f->n] == NULL) {
            return no_memory(e);
        }
        if (parts) {
            snprintf(f->names[f->n], room, "%.*s-%05u-of-%05u.gguf",
                     (int)(room - 1 - PART_BYTES), name, f->n + 1, n);
        } else {
            memcpy(f->names[f->n], name, room);
        }
    }
    return ST_OK;
}

/* ---- directories ---- */

/* Models of a directory: the first two names. */
struct found {
    uint32_t n;
    char names[2][256];
};

static void scan(struct found *f, const char *path)
{
    DIR *d = opendir(path);
    struct dirent *entry;
    uint32_t part = 0, n;

    *f = (struct found){0};
    for (int i = 0;
         d != NULL && i < ENTRIES_MAX && (entry = readdir(d)) != NULL; i++) {
        const char *name = entry->d_name;

        if (!ends_with(name, ".gguf") || strncmp(name, "mmproj", 6) == 0 ||
            (is_part(name, &part, &n) && part > 1)) {
            continue;
        }
        if (f->n < 2) {
            snprintf(f->names[f->n], sizeof f->names[0], "%s", name);
        }
        f->n++;
    }
    if (d != NULL) {
        closedir(d);
    }
}

static bool has_safetensors(const char *dir)
{
    return directory_has(dir, "model.safetensors") ||
           directory_has(dir, "model.safetensors.index.json");
}

static bool is_file(const char *path, struct stat *s)
{
    return ends_with(path, ".gguf") && S_ISREG(s->st_mode);
}

bool gguf_files_exist(const char *path)
{
    struct found f;
    struct stat s;

    if (stat(path, &s) != 0) {
        return false;
    }
    if (!S_ISDIR(s.st_mode)) {
        return is_file(path, &s);
    }
    if (has_safetensors(path)) {
        return false;
    }
    scan(&f, path);
    return f.n > 0;
}

static enum status find_in(struct gguf_files *f, const char *dir,
                           struct error *e)
{
    struct found found;

    if (has_safetensors(dir)) {
        return ST_OK;
    }
    scan(&found, dir);
    if (found.n > 1) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the directory holds %u models, such as %s and %s; "
                         "give the path of one",
                         found.n, quote(found.names[0]).text,
                         quote(found.names[1]).text);
    }
    return found.n == 1 ? list(f, dir, found.names[0], e) : ST_OK;
}

static enum status find_file(struct gguf_files *f, const char *path,
                             struct error *e)
{
    const char *slash = strrchr(path, '/');
    enum status st;
    char *dir;

    if (slash == NULL) {
        return list(f, ".", path, e);
    }
    dir = strndup(path, slash == path ? 1 : (size_t)(slash - path));
    st = dir == NULL ? no_memory(e) : list(f, dir, slash + 1, e);
    free(dir);
    return st;
}

enum status gguf_files_find(struct gguf_files *f, const char *path,
                            struct error *e)
{
    struct stat s;

    *f = (struct gguf_files){0};
    if (stat(path, &s) != 0) {
        return ST_OK;
    }
    if (S_ISDIR(s.st_mode)) {
        return find_in(f, path, e);
    }
    return is_file(path, &s) ? find_file(f, path, e) : ST_OK;
}

void gguf_files_fini(struct gguf_files *f)
{
    for (uint32_t i = 0; i < f->n; i++) {
        free(f->names[i]);
    }
    free(f->names);
    free(f->dir);
    *f = (struct gguf_files){0};
}

/* ---- headers ---- */

enum status gguf_check_part(const struct gguf *g, uint32_t i, uint32_t n,
                            struct error *e)
{
    const struct gguf_value *count = gguf_find(g, "split.count");
    int64_t number = 0, parts = 1;

    if ((count != NULL && !gguf_whole(count, 0, &parts)) ||
        (gguf_find(g, "split.no") != NULL &&
         !gguf_whole(gguf_find(g, "split.no"), 0, &number))) {
        return error_set(e, ST_DATA_LOSS,
                         "split.count or split.no is no whole number");
    }
    if (parts != n || number != i) {
        return error_set(e, ST_DATA_LOSS,
                         "this is part %lld of %lld by its header, part %u of "
                         "%u by its name: give it the name that it came with",
                         (long long)number + 1, (long long)parts, i + 1, n);
    }
    return ST_OK;
}

static enum status open_part(struct gguf_model *m, uint32_t i, struct error *e)
{
    uint64_t bytes = 0;
    int fd;
    enum status st =
        document_open(&fd, &bytes, m->files.dir, m->files.names[i], e);

    if (st == ST_OK) {
        st = gguf_read(&m->parts[i], fd, bytes, e);
    }
    if (st == ST_OK) {
        st = gguf_check_part(&m->parts[i], i, m->files.n, e);
    }
    if (fd >= 0) {
        close(fd);
    }
    return st == ST_OK ? ST_OK
                       : error_wrap(e, "%s", quote(m->files.names[i]).text);
}

enum status gguf_model_open(struct gguf_model *m, const char *path, bool *found,
                            struct error *e)
{
    enum status st;

    *m = (struct gguf_model){.parts = NULL};
    st = gguf_files_find(&m->files, path, e);
    *found = m->files.n > 0;
    if (st != ST_OK || !*found) {
        return st;
    }
    m->parts = calloc(m->files.n, sizeof *m->parts);
    if (m->parts == NULL) {
        return no_memory(e);
    }
    for (uint32_t i = 0; st == ST_OK && i < m->files.n; i++) {
        st = open_part(m, i, e);
    }
    return st;
}

void gguf_model_fini(struct gguf_model *m)
{
    for (uint32_t i = 0; m->parts != NULL && i < m->files.n; i++) {
        gguf_fini(&m->parts[i]);
    }
    free(m->parts);
    m->parts = NULL;
    gguf_files_fini(&m->files);
}

const struct gguf_tensor *gguf_model_tensor(const struct gguf_model *m,
                                            const char *name, uint32_t *part)
{
    const struct gguf_tensor *t = NULL;

    for (uint32_t i = 0; t == NULL && i < m->files.n; i++) {
        t = gguf_find_tensor(&m->parts[i], name);
        if (t != NULL && part != NULL) {
            *part = i;
        }
    }
    return t;
}

bool gguf_model_has_tokenizer(const char *path)
{
    struct gguf_model m;
    struct error ignored;
    bool found, has;

    if (directory_has(path, "tokenizer.json")) {
        return true;
    }
    has = gguf_model_open(&m, path, &found, &ignored) == ST_OK && found &&
          gguf_find(&m.parts[0], "tokenizer.ggml.tokens") != NULL;
    gguf_model_fini(&m);
    return has;
}

/* ---- end tokens ---- */

static uint32_t add_end(uint32_t *ids, uint32_t n, int64_t id)
{
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] == id) {
            return n;
        }
    }
    if (n < MODEL_EOS_MAX && id >= 0 && id < MODEL_VOCAB_MAX) {
        ids[n++] = (uint32_t)id;
    }
    return n;
}

static bool ends_a_turn(const char *text, size_t n)
{
    static const char *const spellings[] = {
        "<|im_end|>", "<|eot_id|>",    "<|eom_id|>", "<end_of_turn>",
        "<|return|>", "<|endoftext|>", "<|call|>",
    };

    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        if (strlen(spellings[i]) == n && memcmp(spellings[i], text, n) == 0) {
            return true;
        }
    }
    return false;
}

/* Files rarely name more than one end token, so spellings count, too. */
enum status gguf_end_tokens(const struct gguf *g, uint32_t ids[MODEL_EOS_MAX],
                            uint32_t *n, struct error *e)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id",
                                       "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    const struct gguf_value *tokens = gguf_find(g, "tokenizer.ggml.tokens");
    const struct gguf_value *types = gguf_find(g, "tokenizer.ggml.token_type");
    size_t at = 0, len;
    const char *text;
    int64_t id, type;

    *n = 0;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        id = -1;
        if (gguf_get_whole(g, keys[i], &id, e) != ST_OK) {
            return ST_INVALID_ARGUMENT;
        }
        *n = add_end(ids, *n, id);
    }
    for (id = 0; gguf_next_text(tokens, &at, &text, &len); id++) {
        if (gguf_whole(types, (uint64_t)id, &type) && type == CONTROL &&
            ends_a_turn(text, len)) {
            *n = add_end(ids, *n, id);
        }
    }
    return ST_OK;
}
