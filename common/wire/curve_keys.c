#include "common/wire/curve_keys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zmq.h>

#include "common/base/memory.h"
#include "common/base/writers.h"
#include "common/wire/curve_cert.h"
#include "common/wire/method.h"

#define PATH_BYTES 4096
#define SUFFIX     ".cert"

/* The result of one load. */
struct key_set {
    struct curve_cert own;
    struct curve_cert *trusted; /* [n], by name */
    uint16_t *by_key;           /* [n], indices of trusted, by key */
    unsigned n;
};

struct curve_keys {
    char *key_file, *trust_dir; /* NULL: made by curve_keys_alone() */
    struct key_set set;
};

/* ---- files ---- */

static void wipe(struct key_set *s)
{
    explicit_bzero(&s->own, sizeof s->own);
    free(s->trusted);
    free(s->by_key);
    *s = (struct key_set){0};
}

static enum status check_mode(const struct stat *st, const char *path,
                              bool secret, struct error *e)
{
    if (!S_ISREG(st->st_mode) || st->st_size > CURVE_CERT_BYTES_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: is not a file of at most %d bytes", path,
                         CURVE_CERT_BYTES_MAX);
    }
    if (secret && (st->st_mode & 027) != 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: mode %03o lets others use the secret key; set "
                         "0600, or 0640 for a group that reads it",
                         path, (unsigned)st->st_mode & 0777);
    }
    return ST_OK;
}

/* Reads a file into text.  O_NONBLOCK: a FIFO must not stop the program. */
static enum status read_file(const char *path, bool secret,
                             char text[CURVE_CERT_BYTES_MAX + 1], size_t *n,
                             struct error *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat info;
    enum status st;
    ssize_t got = -1;

    if (fd < 0 || fstat(fd, &info) != 0) {
        st = error_set(e, ST_INVALID_ARGUMENT, "%s: %s", path, strerror(errno));
    } else {
        st = check_mode(&info, path, secret, e);
    }
    if (st == ST_OK) {
        got = read(fd, text, CURVE_CERT_BYTES_MAX);
        st = got >= 0 ? ST_OK
                      : error_set(e, ST_INVALID_ARGUMENT, "%s: %s", path,
                                  strerror(errno));
    }
    if (fd >= 0) {
        close(fd);
    }
    *n = got > 0 ? (size_t)got : 0;
    text[*n] = '\0';
    return st;
}

static enum status read_cert(struct curve_cert *c, const char *path,
                             bool secret, struct error *e)
{
    char text[CURVE_CERT_BYTES_MAX + 1];
    size_t n;
    enum status st = read_file(path, secret, text, &n, e);

    if (st == ST_OK) {
        st = curve_cert_parse(c, text, n, e);
        st = st == ST_OK ? st : error_wrap(e, "%s", path);
    }
    explicit_bzero(text, sizeof text);
    return st;
}

static enum status read_own(struct key_set *s, const char *path,
                            struct error *e)
{
    enum status st = read_cert(&s->own, path, true, e);

    if (st == ST_OK && !s->own.has_secret) {
        st = error_set(e, ST_INVALID_ARGUMENT,
                       "%s: has no secret key; give the .key file of "
                       "sluicectl keygen",
                       path);
    }
    return st;
}

static enum status check_writers(const char *path, struct error *e)
{
    return writers_check(path, e) == ST_OK ? ST_OK : error_wrap(e, "%s", path);
}

static enum status add(struct key_set *s, const char *dir, const char *file,
                       struct error *e)
{
    char path[PATH_BYTES];
    struct curve_cert *c;
    enum status st;

    if (s->n == CURVE_KEYS_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: has more than %d certificates", dir,
                         CURVE_KEYS_MAX);
    }
    if (snprintf(path, sizeof path, "%s/%s", dir, file) >= (int)sizeof path) {
        return error_set(e, ST_INVALID_ARGUMENT, "%s: the path is too long",
                         dir);
    }
    c = &s->trusted[s->n];
    st = check_writers(path, e);
    st = st == ST_OK ? read_cert(c, path, false, e) : st;
    explicit_bzero(c->secret, sizeof c->secret);
    if (st == ST_OK && c->identity.roles == 0) {
        st = error_set(e, ST_INVALID_ARGUMENT,
                       "%s: metadata has no role; use router, worker, client "
                       "or admin",
                       path);
    }
    s->n += st == ST_OK;
    return st;
}

static bool is_cert(const char *file)
{
    size_t n = strlen(file), suffix = strlen(SUFFIX);

    return file[0] != '.' && n > suffix &&
           strcmp(file + n - suffix, SUFFIX) == 0;
}

static enum status read_trusted(struct key_set *s, const char *dir,
                                struct error *e)
{
    enum status st = check_writers(dir, e);
    struct dirent *entry;
    DIR *d;

    if (st != ST_OK) {
        return st;
    }
    d = opendir(dir);
    if (d == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT, "%s: %s", dir,
                         strerror(errno));
    }
    s->trusted = calloc(CURVE_KEYS_MAX, sizeof *s->trusted);
    s->by_key = calloc(CURVE_KEYS_MAX, sizeof *s->by_key);
    if (s->trusted == NULL || s->by_key == NULL) {
        st = error_set(e, ST_RESOURCE_EXHAUSTED, "%s: out of memory", dir);
    }
    while (st == ST_OK && (entry = readdir(d)) != NULL) {
        st = is_cert(entry->d_name) ? add(s, dir, entry->d_name, e) : ST_OK;
    }
    closedir(d);
    return st;
}

/* ---- order ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct curve_cert *)a)->name,
                  ((const struct curve_cert *)b)->name);
}

static int by_key(const void *a, const void *b, void *set)
{
    const struct curve_cert *all = ((struct key_set *)set)->trusted;

    return memcmp(all[*(const uint16_t *)a].identity.key,
                  all[*(const uint16_t *)b].identity.key, KEY_BYTES);
}

/* Sorts the certificates.  Returns an error if a name or a key is there
 * twice. */
static enum status arrange(struct key_set *s, const char *dir, struct error *e)
{
    const struct curve_cert *a, *b;

    qsort(s->trusted, s->n, sizeof *s->trusted, by_name);
    for (unsigned i = 0; i < s->n; i++) {
        s->by_key[i] = (uint16_t)i;
    }
    qsort_r(s->by_key, s->n, sizeof *s->by_key, by_key, s);
    for (unsigned i = 1; i < s->n; i++) {
        if (by_name(&s->trusted[i - 1], &s->trusted[i]) == 0) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "%s: two certificates have the name %s; remove "
                             "one, or add '+' and digits to one for a "
                             "rotation",
                             dir, s->trusted[i].name);
        }
        a = &s->trusted[s->by_key[i - 1]];
        b = &s->trusted[s->by_key[i]];
        if (memcmp(a->identity.key, b->identity.key, KEY_BYTES) == 0) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "%s: %s and %s have the same key; make a new one",
                             dir, a->name, b->name);
        }
    }
    return ST_OK;
}

static enum status load(struct key_set *s, const char *key_file,
                        const char *trust_dir, struct error *e)
{
    enum status st = read_own(s, key_file, e);

    st = st == ST_OK ? st : error_wrap(e, "--key");
    if (st == ST_OK) {
        st = read_trusted(s, trust_dir, e);
        st = st == ST_OK ? arrange(s, trust_dir, e) : st;
        st = st == ST_OK ? st : error_wrap(e, "--trust");
    }
    if (st != ST_OK) {
        wipe(s);
    }
    return st;
}

/* ---- the module ---- */

enum status curve_keys_load(struct curve_keys **out, const char *key_file,
                            const char *trust_dir, struct error *e)
{
    struct key_set set = {0};
    enum status st;

    *out = NULL;
    if (key_file == NULL && trust_dir == NULL) {
        return ST_OK;
    }
    if (key_file == NULL || trust_dir == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--key and --trust go together; give both");
    }
    st = load(&set, key_file, trust_dir, e);
    if (st != ST_OK) {
        return st;
    }
    *out = calloc(1, sizeof **out);
    if (*out != NULL) {
        (*out)->key_file = strdup(key_file);
        (*out)->trust_dir = strdup(trust_dir);
    }
    if (*out == NULL || (*out)->key_file == NULL || (*out)->trust_dir == NULL) {
        wipe(&set);
        curve_keys_free(out);
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    (*out)->set = set;
    return ST_OK;
}

enum status curve_keys_reload(struct curve_keys *k, struct error *e)
{
    struct key_set set = {0};
    enum status st = load(&set, k->key_file, k->trust_dir, e);

    if (st == ST_OK) {
        wipe(&k->set);
        k->set = set;
    }
    explicit_bzero(&set, sizeof set);
    return st;
}

enum status curve_keys_alone(struct curve_keys **out, struct error *e)
{
    char public[41], secret[41];
    struct curve_keys *k;

    *out = NULL;
    if (zmq_curve_keypair(public, secret) != 0) {
        return error_set(e, ST_INTERNAL, "this libzmq has no CURVE: %s",
                         zmq_strerror(errno));
    }
    k = memory_must(calloc(1, sizeof *k));
    snprintf(k->set.own.name, sizeof k->set.own.name, "self");
    snprintf(k->set.own.identity.name, KEY_NAME_MAX, "self");
    k->set.own.identity.roles = BY_ALL;
    zmq_z85_decode(k->set.own.identity.key, public);
    zmq_z85_decode(k->set.own.secret, secret);
    explicit_bzero(secret, sizeof secret);
    k->set.trusted = memory_must(calloc(1, sizeof *k->set.trusted));
    k->set.by_key = memory_must(calloc(1, sizeof *k->set.by_key));
    k->set.trusted[0].identity = k->set.own.identity;
    k->set.n = 1;
    *out = k;
    return ST_OK;
}

void curve_keys_free(struct curve_keys **pk)
{
    struct curve_keys *k = *pk;

    *pk = NULL;
    if (k != NULL) {
        wipe(&k->set);
        free(k->key_file);
        free(k->trust_dir);
        free(k);
    }
}

const char *curve_keys_name(const struct curve_keys *k)
{
    return k->set.own.identity.name;
}

const uint8_t *curve_keys_public(const struct curve_keys *k)
{
    return k->set.own.identity.key;
}

const uint8_t *curve_keys_secret(const struct curve_keys *k)
{
    return k->set.own.secret;
}

uint8_t curve_keys_roles(const struct curve_keys *k)
{
    return k->set.own.identity.roles;
}

unsigned curve_keys_n(const struct curve_keys *k)
{
    return k->set.n;
}

const struct identity *curve_keys_find(const struct curve_keys *k,
                                       const uint8_t *key)
{
    unsigned low = 0, high = k->set.n;

    while (low < high) {
        unsigned at = low + (high - low) / 2;
        const struct identity *id = &k->set.trusted[k->set.by_key[at]].identity;
        int order = memcmp(key, id->key, KEY_BYTES);

        if (order == 0) {
            return id;
        }
        low = order > 0 ? at + 1 : low;
        high = order < 0 ? at : high;
    }
    return NULL;
}

const struct identity *curve_keys_nth(const struct curve_keys *k,
                                      uint8_t allowed, unsigned i)
{
    for (unsigned at = 0; at < k->set.n; at++) {
        if ((k->set.trusted[at].identity.roles & allowed) != 0 && i-- == 0) {
            return &k->set.trusted[at].identity;
        }
    }
    return NULL;
}
