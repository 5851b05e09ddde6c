/* The impure part of keys.h: files and random numbers. */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/base/writers.h"
#include "gateway/keys/keys.h"
#include "gateway/keys/keys_line.h"
#include "text/file.h"

/* Reads a key file that nobody else may write. */
static enum status read_keys(const char *path, char **text, size_t *n,
                             struct error *e)
{
    enum status st = writers_check(path, e);

    return st == ST_OK ? file_read(path, KEYS_FILE_BYTES, text, n, e) : st;
}

enum status keys_load(struct keys **out, const char *path, struct error *e)
{
    char *text;
    size_t n;
    enum status st = read_keys(path, &text, &n, e);

    *out = NULL;
    if (st == ST_OK) {
        st = keys_parse(out, text, n, e);
        free(text);
    }
    if (st != ST_OK) {
        error_wrap(e, "%s", path);
    }
    return st;
}

enum status keys_reload(struct keys *k, const char *path, struct error *e)
{
    char *text;
    size_t n;
    enum status st = read_keys(path, &text, &n, e);

    if (st == ST_OK) {
        st = keys_replace(k, text, n, e);
        free(text);
    }
    if (st != ST_OK) {
        error_wrap(e, "%s", path);
    }
    return st;
}

static void hex_write(const uint8_t *bytes, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * n] = '\0';
}

enum status keys_new_line(struct keys_new *out, const char *tenant,
                          struct error *e)
{
    static const char prefix[] = "sk-sluice-";
    uint8_t random[KEYS_HASH_BYTES], hash[KEYS_HASH_BYTES];
    char name[TENANT_NAME_MAX + 1], hex[2 * KEYS_HASH_BYTES + 1];
    enum status st = keys_name_parse(tenant, strlen(tenant), name, e);

    memset(out, 0, sizeof *out);
    if (st != ST_OK) {
        return st;
    }
    /* At most 256 bytes come whole, and no signal interrupts the call. */
    if (getrandom(random, sizeof random, 0) != sizeof random) {
        return error_set(e, ST_UNAVAILABLE, "no random numbers: %s",
                         strerror(errno));
    }
    memcpy(out->key, prefix, sizeof prefix - 1);
    hex_write(random, sizeof random, out->key + sizeof prefix - 1);
    OPENSSL_cleanse(random, sizeof random);
    if (SHA256((const unsigned char *)out->key, strlen(out->key), hash) ==
        NULL) {
        return error_set(e, ST_UNAVAILABLE, "SHA-256 is not available");
    }
    hex_write(hash, sizeof hash, hex);
    snprintf(out->line, sizeof out->line, "%s %s", hex, name);
    return ST_OK;
}
