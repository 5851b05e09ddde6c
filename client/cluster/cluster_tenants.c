#include "client/cluster/cluster_tenants.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "client/cluster/certificate.h"
#include "client/cluster/new_file.h"
#include "common/base/memory.h"
#include "gateway/keys/keys.h"
#include "text/file.h"

#define KEY_FILE_BYTES  256
#define KEY_BYTES_LEAST 16

static void path_of(char out[CERTIFICATE_PATH_MAX], const char *dir,
                    const char *tenant)
{
    snprintf(out, CERTIFICATE_PATH_MAX, "%.3900s/%s.apikey", dir, tenant);
}

enum status cluster_tenants_make(const struct cluster *c, const char *dir,
                                 void (*made)(void *arg, const char *path),
                                 void *arg, struct error *e)
{
    enum status st = ST_OK;

    if (c->n_tenants > 0) {
        st = new_folder_make(dir, CERTIFICATE_IGNORED, e);
    }
    for (size_t i = 0; i < c->n_tenants && st == ST_OK; i++) {
        char path[CERTIFICATE_PATH_MAX], text[KEY_FILE_BYTES];
        struct keys_new key;

        path_of(path, dir, c->tenants[i].name.text);
        /* A new key would lock out the tenant that has the old one. */
        if (access(path, F_OK) == 0) {
            continue;
        }
        st = keys_new_line(&key, c->tenants[i].name.text, e);
        if (st == ST_OK) {
            snprintf(text, sizeof text, "%s\n", key.key);
            st = new_file_write(path, text, strlen(text), 0600, e);
        }
        if (st == ST_OK) {
            made(arg, path);
        }
        explicit_bzero(&key, sizeof key);
        explicit_bzero(text, sizeof text);
    }
    return st;
}

/* Reads a key, without its line's end. */
static enum status read_key(const char *path, char **key, size_t *n,
                            struct error *e)
{
    enum status st = file_read(path, KEY_FILE_BYTES, key, n, e);

    if (st != ST_OK) {
        return error_wrap(e, "%s", path);
    }
    while (*n > 0 && (*key)[*n - 1] <= ' ') {
        --*n;
    }
    if (*n < KEY_BYTES_LEAST) {
        free(*key);
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: is no API key; remove the file to get a new one",
                         path);
    }
    return ST_OK;
}

static void put_hash(FILE *to, const char *key, size_t n)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned length = 0;

    if (!EVP_Digest(key, n, hash, &length, EVP_sha256(), NULL)) {
        (void)memory_must(NULL);
    }
    for (unsigned i = 0; i < length; i++) {
        fprintf(to, "%02x", hash[i]);
    }
}

static void put_limits(FILE *to, const struct cluster_tenant *t)
{
    if (t->requests.given) {
        fprintf(to, " requests=%" PRIu64 "/min", t->requests.v);
    }
    if (t->tokens.given) {
        fprintf(to, " tokens=%" PRIu64 "/min", t->tokens.v);
    }
    if (t->streams.given) {
        fprintf(to, " streams=%" PRIu64, t->streams.v);
    }
    fputc('\n', to);
}

enum status cluster_tenants_text(const struct cluster *c, const char *dir,
                                 char **text, struct error *e)
{
    size_t size;
    FILE *to = open_memstream(text, &size);
    enum status st = ST_OK;

    if (to == NULL) {
        (void)memory_must(NULL);
    }
    fputs("# Written by sluicectl cluster render: hashes of API keys.\n", to);
    for (size_t i = 0; i < c->n_tenants && st == ST_OK; i++) {
        const struct cluster_tenant *t = &c->tenants[i];
        char path[CERTIFICATE_PATH_MAX];
        char *key;
        size_t n;

        path_of(path, dir, t->name.text);
        st = read_key(path, &key, &n, e);
        if (st == ST_OK) {
            put_hash(to, key, n);
            fprintf(to, " %s", t->name.text);
            put_limits(to, t);
            explicit_bzero(key, n);
            free(key);
        }
    }
    if (fclose(to) != 0) {
        (void)memory_must(NULL);
    }
    if (st != ST_OK) {
        free(*text);
        *text = NULL;
    }
    return st;
}
