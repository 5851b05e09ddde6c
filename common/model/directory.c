#include "common/model/directory.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/affix.h"
#include "common/model/document.h"
#include "common/model/gguf_model.h"

#define ENTRIES_MAX 4096 /* of a directory, looked at for other formats */
#define END_BYTES   64   /* of a JSON file, looked at for its end */

static const char pointer_start[] = "version https://git-lfs";

bool directory_is_pointer(const char *bytes, size_t n)
{
    size_t len = sizeof pointer_start - 1;

    return n >= len && memcmp(bytes, pointer_start, len) == 0;
}

enum status directory_pointer(struct error *e)
{
    return error_set(e, ST_DATA_LOSS,
                     "this is a Git LFS pointer, not the file itself; run "
                     "\"git lfs pull\" in the directory, or download the "
                     "file again");
}

/* ---- the path ---- */

/* Returns whether a path that does not exist may be OWNER/MODEL of a hub. */
static bool is_hub_name(const char *path)
{
    const char *slash = strchr(path, '/');

    return slash != NULL && slash != path && slash[1] != '\0' &&
           path[0] != '.' && strchr(slash + 1, '/') == NULL;
}

static enum status check_file(const char *path, struct error *e)
{
    if (gguf_files_exist(path)) {
        return ST_OK;
    }
    return error_set(e, ST_INVALID_ARGUMENT,
                     "this is a file; give the model's directory, which holds "
                     "config.json, *.safetensors and tokenizer.json, or a "
                     "*.gguf file");
}

static enum status check_path(const char *path, struct error *e)
{
    struct stat s;

    if (stat(path, &s) == 0) {
        return S_ISDIR(s.st_mode) ? ST_OK : check_file(path, e);
    }
    if (errno == ENOENT && is_hub_name(path)) {
        return error_set(e, ST_NOT_FOUND,
                         "no such directory; if this is the name of a model "
                         "on a hub, download the model and give its "
                         "directory: sluice downloads nothing");
    }
    return error_set(e, errno == ENOENT ? ST_NOT_FOUND : ST_UNAVAILABLE,
                     "%s; give the directory of a model", strerror(errno));
}

/* ---- other formats ---- */

#define PYTORCH                                                         \
    "the weights are in PyTorch's format, whose files can run code; "   \
    "convert them to model.safetensors, or download the model in that " \
    "format"

/* A kind of file that models come in.  Earlier rows win. */
static const struct format {
    const char *start, *end; /* of the name */
    const char *text;
} formats[] = {
    {"adapter_config.json", "",
     "this is an adapter (adapter_config.json), not a model; merge it into its "
     "base model, and give the directory of the result"},
    {"pytorch_model", ".bin", PYTORCH},
    {"pytorch_model", ".json", PYTORCH},
    {"", ".pth", PYTORCH},
    {"", ".incomplete", "a download is incomplete (*.incomplete); finish it"},
};

/* Returns the row of the best match among the names in dir; NULL if none. */
static const struct format *find_format(const char *dir)
{
    size_t n_formats = sizeof formats / sizeof formats[0], best = n_formats;
    DIR *d = opendir(dir);
    struct dirent *entry;

    for (int i = 0;
         d != NULL && i < ENTRIES_MAX && (entry = readdir(d)) != NULL; i++) {
        for (size_t f = 0; f < best; f++) {
            if (starts_with(entry->d_name, formats[f].start) &&
                ends_with(entry->d_name, formats[f].end)) {
                best = f;
            }
        }
    }
    if (d != NULL) {
        closedir(d);
    }
    return best < n_formats ? &formats[best] : NULL;
}

bool directory_has(const char *dir, const char *name)
{
    char path[PATH_MAX];

    return snprintf(path, sizeof path, "%s/%s", dir, name) < PATH_MAX &&
           access(path, F_OK) == 0;
}

enum status directory_weights(const char *dir, bool *found, struct error *e)
{
    const struct format *f;

    *found = directory_has(dir, "model.safetensors") ||
             directory_has(dir, "model.safetensors.index.json") ||
             gguf_files_exist(dir);
    f = *found ? NULL : find_format(dir);
    return f == NULL ? ST_OK : error_set(e, ST_INVALID_ARGUMENT, "%s", f->text);
}

/* ---- files ---- */

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Checks that a JSON text is not cut off.  Only its last byte is looked at,
 * as a tokenizer has millions. */
static enum status check_end(int fd, uint64_t bytes, struct error *e)
{
    char end[END_BYTES];
    size_t n = bytes < sizeof end ? (size_t)bytes : sizeof end;
    enum status st = document_pread(fd, end, n, bytes - n, e);

    while (st == ST_OK && n > 0 && is_space(end[n - 1])) {
        n--;
    }
    if (st == ST_OK && (n == 0 || (end[n - 1] != '}' && end[n - 1] != ']'))) {
        st = error_set(e, ST_DATA_LOSS,
                       "the file does not end as JSON does, after %llu bytes: "
                       "the download is incomplete; repeat it",
                       (unsigned long long)bytes);
    }
    return st;
}

/* Checks a JSON file; the readers report one that cannot be opened. */
static enum status check_json(const char *dir, const char *name,
                              struct error *e)
{
    char start[sizeof pointer_start];
    uint64_t bytes = 0;
    size_t n;
    int fd;
    enum status st = document_open(&fd, &bytes, dir, name, NULL);

    if (st != ST_OK) {
        return ST_OK;
    }
    n = bytes < sizeof start ? (size_t)bytes : sizeof start;
    st = document_pread(fd, start, n, 0, e);
    if (st == ST_OK && directory_is_pointer(start, n)) {
        st = directory_pointer(e);
    }
    st = st == ST_OK ? check_end(fd, bytes, e) : st;
    close(fd);
    return st == ST_OK ? ST_OK : error_wrap(e, "%s", name);
}

/* Returns the sentence for a missing file, or for what the directory holds
 * instead of a model.  A file that cannot be looked at is not missing. */
static enum status missing(const char *dir, const char *name, const char *text,
                           struct error *e)
{
    const struct format *f =
        directory_has(dir, "config.json") ? NULL : find_format(dir);
    uint64_t bytes;
    int fd;
    enum status st = document_open(&fd, &bytes, dir, name, e);

    if (st == ST_OK) {
        close(fd); /* it has just appeared */
    } else if (st != ST_NOT_FOUND) {
        return error_wrap(e, "%s", name);
    }
    return f != NULL ? error_set(e, ST_INVALID_ARGUMENT, "%s", f->text)
                     : error_set(e, ST_NOT_FOUND, "%s", text);
}

enum status directory_check(const char *dir, unsigned need, struct error *e)
{
    enum status st = check_path(dir, e);
    bool found = true;

    /* GGUF files have a configuration, weights and a tokenizer. */
    if (st == ST_OK && gguf_files_exist(dir)) {
        struct gguf_files files;

        st = gguf_files_find(&files, dir, e);
        gguf_files_fini(&files);
        return st;
    }

    if (st == ST_OK && (need & DIRECTORY_CONFIG) != 0 &&
        !directory_has(dir, "config.json")) {
        st = missing(dir, "config.json",
                     "there is no config.json; give a directory with "
                     "config.json, *.safetensors and tokenizer.json",
                     e);
    }
    st = st == ST_OK ? check_json(dir, "config.json", e) : st;
    if (st == ST_OK && (need & DIRECTORY_WEIGHTS) != 0) {
        st = directory_weights(dir, &found, e);
    }
    if (st == ST_OK && !found) {
        st = missing(dir, "model.safetensors",
                     "no weights: neither model.safetensors nor "
                     "model.safetensors.index.json; download them",
                     e);
    }
    if (st == ST_OK && (need & DIRECTORY_TOKENIZER) != 0 &&
        !directory_has(dir, "tokenizer.json")) {
        st = missing(dir, "tokenizer.json",
                     "there is no tokenizer.json; download it from where the "
                     "model comes from: texts cannot be encoded without it",
                     e);
    }
    return st == ST_OK ? check_json(dir, "tokenizer.json", e) : st;
}
