#include "client/cluster/certificate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <zmq.h>

#include "client/cluster/new_file.h"
#include "common/base/memory.h"
#include "common/base/quote.h"
#include "common/wire/method.h"

static const struct {
    const char *name;
    uint8_t set, shown; /* shown if all of these are set */
} role_rows[] = {
    {"router", BY_ROUTER, BY_ROUTER},
    {"worker", BY_WORKER, BY_WORKER},
    {"client", BY_CLIENT, BY_CLIENT},
    {"admin", BY_ADMIN | BY_CLIENT, BY_ADMIN},
};

#define N_ROLES (sizeof role_rows / sizeof *role_rows)

static uint8_t role_of(const char *word, size_t n)
{
    for (size_t i = 0; i < N_ROLES; i++) {
        if (strlen(role_rows[i].name) == n &&
            memcmp(role_rows[i].name, word, n) == 0) {
            return role_rows[i].set;
        }
    }
    return 0;
}

enum status certificate_roles(const char *text, uint8_t *roles, struct error *e)
{
    const char *at = text;

    *roles = 0;
    do {
        size_t n = strcspn(at, ",");
        uint8_t role = role_of(at, n);

        if (role == 0) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "role %s: router, worker, client or admin is "
                             "required, or several with commas",
                             quote_bytes(at, n).text);
        }
        *roles |= role;
        at += n + (at[n] == ',' ? 1 : 0);
    } while (*at != '\0' || (at > text && at[-1] == ','));
    return ST_OK;
}

const char *certificate_roles_text(char out[CERTIFICATE_ROLES_TEXT],
                                   uint8_t roles)
{
    size_t n = 0;

    out[0] = '\0';
    for (size_t i = 0; i < N_ROLES; i++) {
        bool shown = (roles & role_rows[i].shown) != 0 &&
                     (role_rows[i].set != BY_CLIENT || (roles & BY_ADMIN) == 0);

        if (shown) {
            n += (size_t)snprintf(out + n, CERTIFICATE_ROLES_TEXT - n, "%s%s",
                                  n > 0 ? "," : "", role_rows[i].name);
        }
    }
    return out;
}

const char *certificate_key_text(char out[CERTIFICATE_KEY_TEXT],
                                 const uint8_t key[KEY_BYTES])
{
    if (zmq_z85_encode(out, key, KEY_BYTES) == NULL) {
        abort(); /* only for a length that is no multiple of four */
    }
    return out;
}

unsigned certificate_number(const char *name)
{
    const char *plus = strchr(name, '+');
    unsigned long n = plus != NULL ? strtoul(plus + 1, NULL, 10) : 1;

    return n > CERTIFICATE_NUMBER_MAX ? CERTIFICATE_NUMBER_MAX : (unsigned)n;
}

/* ---- writing ---- */

static enum status exists_already(const char *path, struct error *e)
{
    return error_set(e, ST_ALREADY_EXISTS,
                     "%s exists; --force replaces it, --rotate makes a second "
                     "key of the name",
                     path);
}

/* A secret is never readable by others: its file has its mode from the
 * start. */
static enum status write_file(const char *path, const char *text, mode_t mode,
                              bool force, struct error *e)
{
    enum status st = force ? new_file_replace(path, text, strlen(text), mode, e)
                           : new_file_write(path, text, strlen(text), mode, e);

    return st != ST_ALREADY_EXISTS ? st : exists_already(path, e);
}

static void now_text(char *out, size_t size)
{
    time_t now = time(NULL);
    struct tm utc;

    gmtime_r(&now, &utc);
    strftime(out, size, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

/* The two files of a new certificate. */
struct texts {
    char public_key[CERTIFICATE_KEY_TEXT], secret_key[CERTIFICATE_KEY_TEXT];
    char cert[1024], key[1024];
};

static void make_texts(struct texts *t, const char *name, uint8_t roles)
{
    char created[32], list[CERTIFICATE_ROLES_TEXT];
    int n;

    if (zmq_curve_keypair(t->public_key, t->secret_key) != 0) {
        abort(); /* a libzmq without CURVE: the build requires it */
    }
    now_text(created, sizeof created);
    n = snprintf(t->cert, sizeof t->cert,
                 "metadata\n    name = \"%s\"\n    role = \"%s\"\n"
                 "    created = \"%s\"\ncurve\n    public-key = \"%s\"\n",
                 name, certificate_roles_text(list, roles), created,
                 t->public_key);
    snprintf(t->key, sizeof t->key, "%.*s    secret-key = \"%s\"\n", n, t->cert,
             t->secret_key);
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* Writes the secret first: a public key alone has no use. */
static enum status write_both(const struct texts *t, const char *dir,
                              const char *name, bool force, struct error *e)
{
    char key[CERTIFICATE_PATH_MAX], cert[CERTIFICATE_PATH_MAX];
    enum status st;

    if ((size_t)snprintf(key, sizeof key, "%s/%s.key", dir, name) >=
            sizeof key ||
        (size_t)snprintf(cert, sizeof cert, "%s/%s.cert", dir, name) >=
            sizeof cert) {
        return error_set(e, ST_INVALID_ARGUMENT, "%s: the path is too long",
                         dir);
    }
    if (!force && exists(cert)) {
        return exists_already(cert, e);
    }
    st = write_file(key, t->key, 0600, force, e);
    return st == ST_OK ? write_file(cert, t->cert, 0644, force, e) : st;
}

enum status certificate_write(struct curve_cert *out, const char *dir,
                              const char *name, uint8_t roles, bool force,
                              struct error *e)
{
    struct texts t;
    enum status st;

    make_texts(&t, name, roles);
    st = new_folder_make(dir, CERTIFICATE_IGNORED, e);
    st = st == ST_OK ? write_both(&t, dir, name, force, e) : st;
    if (st == ST_OK) {
        st = curve_cert_parse(out, t.cert, strlen(t.cert), e);
    }
    explicit_bzero(&t, sizeof t);
    return st;
}

/* ---- reading ---- */

static enum status check_mode(int fd, const char *path, struct error *e)
{
    struct stat s;

    if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) ||
        s.st_size > CURVE_CERT_BYTES_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: is not a file of at most %d bytes", path,
                         CURVE_CERT_BYTES_MAX);
    }
    return ST_OK;
}

/* Only a file with a secret must be closed to others. */
static enum status check_secret(int fd, const char *path, struct error *e)
{
    struct stat s;

    if (fstat(fd, &s) != 0 || (s.st_mode & 027) != 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: mode %03o lets others use the secret key; set "
                         "0600",
                         path, (unsigned)s.st_mode & 0777);
    }
    return ST_OK;
}

enum status certificate_read(struct curve_cert *out, const char *path,
                             struct error *e)
{
    char text[CURVE_CERT_BYTES_MAX + 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    enum status st;
    ssize_t n;

    if (fd < 0) {
        return error_set(e, errno == ENOENT ? ST_NOT_FOUND : ST_UNAVAILABLE,
                         "%s: cannot open: %s", path, strerror(errno));
    }
    st = check_mode(fd, path, e);
    n = st == ST_OK ? read(fd, text, sizeof text - 1) : 0;
    if (st == ST_OK && n < 0) {
        st = error_set(e, ST_UNAVAILABLE, "%s: cannot read: %s", path,
                       strerror(errno));
    }
    if (st == ST_OK) {
        text[n] = '\0';
        st = curve_cert_parse(out, text, (size_t)n, e);
        st = st == ST_OK ? ST_OK : error_wrap(e, "%s", path);
        explicit_bzero(text, sizeof text);
    }
    if (st == ST_OK && out->has_secret) {
        st = check_secret(fd, path, e);
    }
    close(fd);
    return st;
}

/* ---- a directory ---- */

static bool ends_in(const char *file, const char *suffix)
{
    size_t n = strlen(file), m = strlen(suffix);

    return n > m && strcmp(file + n - m, suffix) == 0 && file[0] != '.';
}

/* Returns the length of a file's name without number and suffix. */
static size_t stem(const char *file)
{
    const char *plus = strchr(file, '+');

    return (size_t)((plus != NULL ? plus : strrchr(file, '.')) - file);
}

/* Orders by name, then by number: w1, w1+2, w1+10, w2. */
static int by_name(const void *a, const void *b)
{
    const char *x = ((const struct certificate_entry *)a)->file;
    const char *y = ((const struct certificate_entry *)b)->file;
    bool same = stem(x) == stem(y) && memcmp(x, y, stem(x)) == 0;

    if (same && certificate_number(x) != certificate_number(y)) {
        return certificate_number(x) < certificate_number(y) ? -1 : 1;
    }
    return strcmp(x, y);
}

static void add_entry(struct certificate_list *l, const char *dir,
                      const char *file)
{
    char path[CERTIFICATE_PATH_MAX];
    struct certificate_entry *entry;
    struct error e;

    l->item = memory_must(realloc(l->item, (l->n + 1) * sizeof *l->item));
    entry = &l->item[l->n++];
    memset(entry, 0, sizeof *entry);
    snprintf(entry->file, sizeof entry->file, "%s", file);
    snprintf(path, sizeof path, "%s/%s", dir, file);
    entry->readable = certificate_read(&entry->cert, path, &e) == ST_OK;
    if (!entry->readable) {
        memcpy(entry->fault, e.text, sizeof entry->fault);
    }
}

enum status certificate_list(struct certificate_list *out, const char *dir,
                             const char *suffix, struct error *e)
{
    DIR *d = opendir(dir);
    struct dirent *entry;

    *out = (struct certificate_list){0};
    if (d == NULL) {
        return error_set(e, errno == ENOENT ? ST_NOT_FOUND : ST_UNAVAILABLE,
                         "%s: cannot open the directory: %s", dir,
                         strerror(errno));
    }
    while ((entry = readdir(d)) != NULL) {
        if (ends_in(entry->d_name, suffix)) {
            add_entry(out, dir, entry->d_name);
        }
    }
    closedir(d);
    if (out->n > 0) {
        qsort(out->item, out->n, sizeof *out->item, by_name);
    }
    return ST_OK;
}

void certificate_list_free(struct certificate_list *l)
{
    if (l->item != NULL) {
        explicit_bzero(l->item, l->n * sizeof *l->item);
    }
    free(l->item);
    *l = (struct certificate_list){0};
}

const struct certificate_entry *
certificate_newest(const struct certificate_list *l, const char *name)
{
    const struct certificate_entry *newest = NULL;
    size_t n = strlen(name);

    for (size_t i = 0; i < l->n; i++) {
        const char *file = l->item[i].file;

        if (stem(file) == n && memcmp(file, name, n) == 0) {
            newest = &l->item[i]; /* the list is in order of the numbers */
        }
    }
    return newest;
}
