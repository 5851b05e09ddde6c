#include "client/cluster/bundle.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "client/cluster/certificate.h"
#include "client/cluster/cluster_file.h"
#include "common/base/memory.h"
#include "common/base/quote.h"

/* ---- paths ---- */

/* Returns whether text[0..n) is a name, with a suffix such as "+2" if
 * `numbered`. */
static bool is_name(const char *text, size_t n, bool numbered)
{
    char name[BUNDLE_NAME_MAX];
    size_t plus;

    if (n >= sizeof name) {
        return false;
    }
    memcpy(name, text, n);
    name[n] = '\0';
    plus = strcspn(name, "+");
    if (numbered && name[plus] == '+') {
        size_t digits = strspn(name + plus + 1, "0123456789");

        if (digits == 0 || digits > 4 || name[plus + 1 + digits] != '\0') {
            return false;
        }
        name[plus] = '\0';
    }
    return cluster_name_check(name, NULL) == ST_OK;
}

/* Returns whether path is before, a name, and after. */
static bool is_between(const char *path, const char *before, const char *after,
                       bool numbered)
{
    size_t n = strlen(path), a = strlen(before), z = strlen(after);

    return n > a + z && strncmp(path, before, a) == 0 &&
           strcmp(path + n - z, after) == 0 &&
           is_name(path + a, n - a - z, numbered);
}

static bool is_one_of(const char *path)
{
    static const char *const fixed[] = {
        "etc/sluice/router.conf",
        "etc/sluice/gateway.conf",
        "etc/sluice/api-keys",
        "etc/systemd/system/sluice-router.service.d/50-cluster.conf",
        "etc/systemd/system/sluice-gateway.service.d/50-cluster.conf",
    };

    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        if (strcmp(path, fixed[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool bundle_path_allowed(const char *path)
{
    return strlen(path) < BUNDLE_PATH_MAX &&
           (is_one_of(path) ||
            is_between(path, "etc/sluice/worker-", ".conf", false) ||
            is_between(path, "etc/sluice/keys/", ".key", false) ||
            is_between(path, "etc/sluice/trust/", ".cert", true) ||
            is_between(path, "etc/systemd/system/sluice-worker@",
                       ".service.d/50-cluster.conf", false));
}

static bool is_secret(const char *path)
{
    return strcmp(path, "etc/sluice/api-keys") == 0 ||
           strncmp(path, "etc/sluice/keys/", 16) == 0;
}

static bool unit_allowed(const char *unit)
{
    return strcmp(unit, "sluice-router.service") == 0 ||
           strcmp(unit, "sluice-gateway.service") == 0 ||
           is_between(unit, "sluice-worker@", ".service", false);
}

/* ---- contents ---- */

static void *grown(void *items, size_t n, size_t size)
{
    /* Doubles at powers of two. */
    if ((n & (n - 1)) == 0) {
        items = realloc(items, (n == 0 ? 1 : 2 * n) * size);
    }
    if (items == NULL) {
        (void)memory_must(NULL);
    }
    return items;
}

static void hash_of(char out[BUNDLE_HASH_TEXT], const char *bytes, size_t n)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned length = 0;

    if (!EVP_Digest(bytes, n, hash, &length, EVP_sha256(), NULL)) {
        (void)memory_must(NULL);
    }
    for (unsigned i = 0; i < length; i++) {
        snprintf(out + 2 * i, 3, "%02x", hash[i]);
    }
}

static struct bundle_file *add_path(struct bundle *b, const char *path)
{
    struct bundle_file *file;

    b->file = grown(b->file, b->n, sizeof *b->file);
    file = &b->file[b->n++];
    memset(file, 0, sizeof *file);
    snprintf(file->path, sizeof file->path, "%s", path);
    file->secret = is_secret(path);
    return file;
}

static void set_bytes(struct bundle_file *file, const char *bytes, size_t n)
{
    file->bytes = memory_must(malloc(n + 1));
    memcpy(file->bytes, bytes, n);
    file->bytes[n] = '\0';
    file->n = n;
}

void bundle_add(struct bundle *b, const char *path, const char *bytes, size_t n)
{
    struct bundle_file *file = add_path(b, path);

    set_bytes(file, bytes, n);
    hash_of(file->hash, bytes, n);
}

void bundle_add_unit(struct bundle *b, const char *unit)
{
    b->unit = grown(b->unit, b->n_units, sizeof *b->unit);
    snprintf(b->unit[b->n_units++], BUNDLE_NAME_MAX, "%s", unit);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct bundle_file *)a)->path,
                  ((const struct bundle_file *)b)->path);
}

void bundle_sort(struct bundle *b)
{
    if (b->n > 0) {
        qsort(b->file, b->n, sizeof *b->file, by_path);
    }
}

const struct bundle_file *bundle_find(const struct bundle *b, const char *path)
{
    for (size_t i = 0; i < b->n; i++) {
        if (strcmp(b->file[i].path, path) == 0) {
            return &b->file[i];
        }
    }
    return NULL;
}

void bundle_mark(struct bundle *b, const char *path)
{
    struct bundle_file *file =
        (struct bundle_file *)(uintptr_t)bundle_find(b, path);

    file = file != NULL ? file : add_path(b, path);
    memset(file->hash, '0', BUNDLE_HASH_TEXT - 1);
    file->hash[BUNDLE_HASH_TEXT - 1] = '\0';
}

bool bundle_has_unit(const struct bundle *b, const char *unit)
{
    for (size_t i = 0; i < b->n_units; i++) {
        if (strcmp(b->unit[i], unit) == 0) {
            return true;
        }
    }
    return false;
}

void bundle_free(struct bundle *b)
{
    for (size_t i = 0; i < b->n; i++) {
        if (b->file[i].bytes != NULL) {
            explicit_bzero(b->file[i].bytes, b->file[i].n);
        }
        free(b->file[i].bytes);
    }
    free(b->file);
    free(b->unit);
    *b = (struct bundle){0};
}

/* ---- manifest ---- */

void bundle_manifest(const struct bundle *b, char **text, size_t *n)
{
    FILE *to = memory_must(open_memstream(text, n));

    fprintf(to, "sluice-bundle 1\ncluster %s\nhost %s\n", b->cluster, b->host);
    for (size_t i = 0; i < b->n_units; i++) {
        fprintf(to, "unit %s\n", b->unit[i]);
    }
    for (size_t i = 0; i < b->n; i++) {
        const struct bundle_file *f = &b->file[i];

        fprintf(to, "file %s %s %s %s\n", f->secret ? "0640" : "0644",
                f->secret ? "sluice" : "root", f->hash, f->path);
    }
    if (fclose(to) != 0) {
        (void)memory_must(NULL);
    }
}

static bool take_file(struct bundle *b, const char *rest)
{
    char hash[BUNDLE_HASH_TEXT], path[BUNDLE_PATH_MAX];
    char mode[5], group[8];
    int end = 0;

    if (sscanf(rest, "%4s %7s %64[0-9a-f] %159s%n", mode, group, hash, path,
               &end) != 4 ||
        rest[end] != '\0' || strlen(hash) != 64 || !bundle_path_allowed(path) ||
        strcmp(mode, is_secret(path) ? "0640" : "0644") != 0 ||
        strcmp(group, is_secret(path) ? "sluice" : "root") != 0 ||
        bundle_find(b, path) != NULL || b->n == BUNDLE_FILES_MAX) {
        return false;
    }
    memcpy(add_path(b, path)->hash, hash, sizeof hash);
    return true;
}

static bool take_name(char out[BUNDLE_NAME_MAX], const char *name)
{
    if (out[0] != '\0' || !is_name(name, strlen(name), false)) {
        return false;
    }
    snprintf(out, BUNDLE_NAME_MAX, "%s", name);
    return true;
}

static bool take_line(struct bundle *b, const char *line, unsigned number)
{
    if (number == 1) {
        return strcmp(line, "sluice-bundle 1") == 0;
    }
    if (strncmp(line, "cluster ", 8) == 0) {
        return take_name(b->cluster, line + 8);
    }
    if (strncmp(line, "host ", 5) == 0) {
        return take_name(b->host, line + 5);
    }
    if (strncmp(line, "unit ", 5) == 0 && unit_allowed(line + 5) &&
        strlen(line + 5) < BUNDLE_NAME_MAX && b->n_units < BUNDLE_FILES_MAX) {
        bundle_add_unit(b, line + 5);
        return true;
    }
    return strncmp(line, "file ", 5) == 0 && take_file(b, line + 5);
}

enum status bundle_manifest_parse(struct bundle *out, const char *text,
                                  size_t n, struct error *e)
{
    char *copy = memory_must(strndup(text, n)), *at = copy;
    enum status st = ST_OK;
    unsigned number = 0;

    *out = (struct bundle){0};
    while (st == ST_OK && *at != '\0') {
        char *end = strchrnul(at, '\n');
        char *next = *end == '\n' ? end + 1 : end;

        *end = '\0';
        if (!take_line(out, at, ++number)) {
            st = error_set(e, ST_INVALID_ARGUMENT,
                           "manifest, line %u: %s is not of a bundle", number,
                           quote(at).text);
        }
        at = next;
    }
    if (st == ST_OK && (number == 0 || strlen(copy) == 0)) {
        st = error_set(e, ST_INVALID_ARGUMENT, "the manifest is empty");
    }
    if (st == ST_OK && (out->cluster[0] == '\0' || out->host[0] == '\0')) {
        st = error_set(e, ST_INVALID_ARGUMENT,
                       "the manifest names no cluster or no host");
    }
    free(copy);
    if (st != ST_OK) {
        bundle_free(out);
    }
    return st;
}
