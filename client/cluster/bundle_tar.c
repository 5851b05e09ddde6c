/* bundle_tar.c - Bundles as tar files, by libarchive.
 *
 * Owner, group, mode and time come from the rules of bundle.h when a bundle is
 * written, and are ignored when it is read. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <archive.h>
#include <archive_entry.h>

#include "client/cluster/bundle.h"
#include "common/base/memory.h"
#include "common/base/quote.h"

#define TAR_BLOCK 512

/* ---- writing ---- */

struct output {
    char *bytes;
    size_t n, capacity;
};

static la_ssize_t on_write(struct archive *a, void *arg, const void *bytes,
                           size_t n)
{
    struct output *o = arg;

    (void)a;
    if (o->n + n > o->capacity) {
        o->capacity = 2 * (o->n + n);
        o->bytes = memory_must(realloc(o->bytes, o->capacity));
    }
    memcpy(o->bytes + o->n, bytes, n);
    o->n += n;
    return (la_ssize_t)n;
}

static bool put(struct archive *a, const char *path, bool secret,
                const char *bytes, size_t n)
{
    struct archive_entry *entry = archive_entry_new();
    bool ok;

    if (entry == NULL) {
        (void)memory_must(NULL);
    }
    archive_entry_set_pathname(entry, path);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, secret ? 0640 : 0644);
    archive_entry_set_uname(entry, "root");
    archive_entry_set_gname(entry, secret ? "sluice" : "root");
    archive_entry_set_mtime(entry, 0, 0);
    archive_entry_set_size(entry, (la_int64_t)n);
    ok = archive_write_header(a, entry) == ARCHIVE_OK &&
         (n == 0 || archive_write_data(a, bytes, n) == (la_ssize_t)n);
    archive_entry_free(entry);
    return ok;
}

static bool put_all(struct archive *a, const struct bundle *b)
{
    char *text;
    size_t n;
    bool ok;

    bundle_manifest(b, &text, &n);
    ok = put(a, "manifest", false, text, n);
    free(text);
    for (size_t i = 0; ok && i < b->n; i++) {
        const struct bundle_file *f = &b->file[i];

        ok = put(a, f->path, f->secret, f->bytes, f->n);
    }
    return ok;
}

enum status bundle_write(const struct bundle *b, char **bytes, size_t *n,
                         struct error *e)
{
    struct archive *a = archive_write_new();
    struct output o = {0};
    enum status st = ST_OK;

    if (a == NULL) {
        (void)memory_must(NULL);
    }
    archive_write_set_format_ustar(a);
    archive_write_set_bytes_in_last_block(a, TAR_BLOCK);
    if (archive_write_open(a, &o, NULL, on_write, NULL) != ARCHIVE_OK ||
        !put_all(a, b) || archive_write_close(a) != ARCHIVE_OK) {
        const char *why = archive_error_string(a);

        st = error_set(e, ST_INTERNAL, "cannot write the bundle of %s: %s",
                       b->host, why != NULL ? why : "unknown fault");
        free(o.bytes);
        o.bytes = NULL;
    }
    archive_write_free(a);
    *bytes = o.bytes;
    *n = o.n;
    return st;
}

/* ---- reading ---- */

static enum status take_data(struct archive *a, struct archive_entry *entry,
                             char **bytes, size_t *n, struct error *e)
{
    const char *path = archive_entry_pathname(entry);
    la_int64_t size = archive_entry_size(entry);

    if (archive_entry_filetype(entry) != AE_IFREG ||
        archive_entry_hardlink(entry) != NULL ||
        archive_entry_symlink(entry) != NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s is a link, a folder or a device; a bundle has "
                         "plain files only",
                         quote(path).text);
    }
    if (size < 0 || size > BUNDLE_FILE_BYTES) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s has %lld bytes; at most %u are allowed",
                         quote(path).text, (long long)size, BUNDLE_FILE_BYTES);
    }
    *n = (size_t)size;
    *bytes = memory_must(malloc(*n + 1));
    (*bytes)[*n] = '\0';
    if (archive_read_data(a, *bytes, *n) != (la_ssize_t)*n) {
        free(*bytes);
        return error_set(e, ST_INVALID_ARGUMENT, "%s is cut off",
                         quote(path).text);
    }
    return ST_OK;
}

/* Gives the bytes to the manifest's file of that path. */
static enum status place_data(struct bundle *b, const char *path, char *bytes,
                              size_t n, struct error *e)
{
    struct bundle real = {0};
    struct bundle_file *file =
        (struct bundle_file *)(uintptr_t)bundle_find(b, path);
    bool same;

    if (file == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s is not in the manifest; a bundle has no other "
                         "files",
                         quote(path).text);
    }
    if (file->bytes != NULL) {
        return error_set(e, ST_INVALID_ARGUMENT, "%s is there twice",
                         quote(path).text);
    }
    bundle_add(&real, path, bytes, n);
    same = strcmp(real.file[0].hash, file->hash) == 0;
    if (same) {
        file->bytes = real.file[0].bytes;
        file->n = n;
        real.file[0].bytes = NULL;
    }
    bundle_free(&real);
    return same ? ST_OK
                : error_set(e, ST_INVALID_ARGUMENT,
                            "%s has another hash than in the manifest",
                            quote(path).text);
}

/* Takes one entry; the first one is the manifest. */
static enum status take_entry(struct bundle *b, struct archive *a,
                              struct archive_entry *entry, bool first,
                              struct error *e)
{
    const char *path = archive_entry_pathname(entry);
    char *bytes = NULL;
    size_t n = 0;
    enum status st;

    if (path == NULL || first != (strcmp(path, "manifest") == 0)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: the first file must be the manifest, once",
                         quote(path).text);
    }
    if (!first && !bundle_path_allowed(path)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: a bundle may not write there", quote(path).text);
    }
    st = take_data(a, entry, &bytes, &n, e);
    if (st != ST_OK) {
        return st;
    }
    st = first ? bundle_manifest_parse(b, bytes, n, e)
               : place_data(b, path, bytes, n, e);
    explicit_bzero(bytes, n);
    free(bytes);
    return st;
}

static enum status check_complete(const struct bundle *b, struct error *e)
{
    for (size_t i = 0; i < b->n; i++) {
        if (b->file[i].bytes == NULL) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "%s is in the manifest, but not in the bundle",
                             b->file[i].path);
        }
    }
    return ST_OK;
}

static enum status read_all(struct bundle *b, struct archive *a,
                            struct error *e)
{
    struct archive_entry *entry;
    enum status st = ST_OK;
    bool first = true;
    int rc;

    while ((rc = archive_read_next_header(a, &entry)) == ARCHIVE_OK) {
        st = take_entry(b, a, entry, first, e);
        if (st != ST_OK) {
            return st;
        }
        first = false;
    }
    if (rc != ARCHIVE_EOF) {
        const char *why = archive_error_string(a);

        return error_set(e, ST_INVALID_ARGUMENT, "no tar file: %s",
                         why != NULL ? why : "unknown fault");
    }
    return first ? error_set(e, ST_INVALID_ARGUMENT, "the bundle is empty")
                 : check_complete(b, e);
}

enum status bundle_read(struct bundle *out, const char *bytes, size_t n,
                        struct error *e)
{
    struct archive *a = archive_read_new();
    enum status st;

    *out = (struct bundle){0};
    if (n > BUNDLE_BYTES_MAX) {
        archive_read_free(a);
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the bundle has %zu bytes; at most %u are allowed", n,
                         BUNDLE_BYTES_MAX);
    }
    if (a == NULL) {
        (void)memory_must(NULL);
    }
    archive_read_support_format_tar(a);
    st = archive_read_open_memory(a, bytes, n) == ARCHIVE_OK
             ? read_all(out, a, e)
             : error_set(e, ST_INVALID_ARGUMENT, "no tar file");
    archive_read_free(a);
    if (st != ST_OK) {
        bundle_free(out);
    }
    return st;
}
