#include "common/wire/curve_cert.h"

#include <ctype.h>
#include <string.h>

#include <czmq.h>

#include "common/wire/method.h"

#define Z85_KEY 40 /* characters of a key */
#define INDENT  4

static const struct {
    const char *name;
    uint8_t roles;
} roles[] = {{"router", BY_ROUTER},
             {"worker", BY_WORKER},
             {"client", BY_CLIENT},
             {"admin", BY_ADMIN | BY_CLIENT}};

/* ---- syntax ---- */

/* Checks a value: quoted, or printable without quotes and comments. */
static bool is_value(const char *at, const char *end)
{
    const char quote = at < end ? *at : '\0';

    if (quote == '"' || quote == '\'') {
        return end - at >= 2 && end[-1] == quote &&
               memchr(at + 1, quote, (size_t)(end - at - 2)) == NULL;
    }
    for (; at < end; at++) {
        if (!isgraph((unsigned char)*at) || strchr("\"'#", *at) != NULL) {
            return false;
        }
    }
    return quote != '\0';
}

/* Checks `name` or `name = value`.  Returns the depth of the line in *depth. */
static bool is_entry(const char *at, const char *end, int *depth)
{
    const char *start = at;

    while (at < end && *at == ' ') {
        at++;
    }
    *depth = (int)(at - start) / INDENT;
    if ((at - start) % INDENT != 0 || at == end ||
        !isalpha((unsigned char)*at)) {
        return false;
    }
    while (at < end && (isalnum((unsigned char)*at) || *at == '-')) {
        at++;
    }
    if (at == end) {
        return true;
    }
    return end - at > 3 && memcmp(at, " = ", 3) == 0 && is_value(at + 3, end);
}

/* czmq prints faults of syntax to stdout, so it gets text without faults. */
static enum status check_syntax(const char *text, size_t n, struct error *e)
{
    const char *at = text, *stop = text + n;
    int depth = -1, next;

    for (unsigned line = 1; at < stop; line++) {
        const char *newline = memchr(at, '\n', (size_t)(stop - at));
        const char *end = newline != NULL ? newline : stop;
        bool blank = strspn(at, " ") >= (size_t)(end - at) || *at == '#';

        if (memchr(at, '\0', (size_t)(end - at)) != NULL ||
            (!blank && (!is_entry(at, end, &next) || next > depth + 1))) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "line %u is not as in a certificate: "
                             "name = \"value\", indented by %d spaces below "
                             "its section",
                             line, INDENT);
        }
        depth = blank ? depth : next;
        at = end + 1;
    }
    return ST_OK;
}

/* ---- content ---- */

static bool is_name(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)s[i]) && strchr("._-", s[i]) == NULL) {
            return false;
        }
    }
    return n > 0 && n <= KEY_NAME_MAX;
}

static enum status take_name(struct curve_cert *c, const char *name,
                             struct error *e)
{
    const char *plus = strchr(name, '+');
    size_t n = plus != NULL ? (size_t)(plus - name) : strlen(name);
    size_t digits = plus != NULL ? strspn(plus + 1, "0123456789") : 0;

    if (*name == '\0') {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "metadata has no name; make the certificate with "
                         "sluicectl keygen");
    }
    if (!is_name(name, n) ||
        (plus != NULL && (digits == 0 || digits >= CURVE_SUFFIX_MAX ||
                          plus[1 + digits] != '\0'))) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the name is not of 1 to %d letters, digits, '.', "
                         "'_' and '-', with at most '+' and %d digits after "
                         "them",
                         KEY_NAME_MAX, CURVE_SUFFIX_MAX - 1);
    }
    snprintf(c->name, sizeof c->name, "%s", name);
    memcpy(c->identity.name, name, n);
    return ST_OK;
}

static uint8_t role_of(const char *word, size_t n)
{
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (strlen(roles[i].name) == n && memcmp(roles[i].name, word, n) == 0) {
            return roles[i].roles;
        }
    }
    return 0;
}

static enum status take_roles(struct curve_cert *c, const char *list,
                              struct error *e)
{
    const char *at = list;

    while (*at != '\0') {
        size_t n;

        at += strspn(at, ", ");
        n = strcspn(at, ", ");
        if (n > 0 && role_of(at, n) == 0) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "role %.*s is unknown; use router, worker, "
                             "client or admin",
                             n > 32 ? 32 : (int)n, at);
        }
        c->identity.roles |= n > 0 ? role_of(at, n) : 0;
        at += n;
    }
    return ST_OK;
}

static enum status take_key(uint8_t key[KEY_BYTES], const char *what,
                            const char *text, struct error *e)
{
    if (strlen(text) == Z85_KEY && zmq_z85_decode(key, text) != NULL) {
        return ST_OK;
    }
    return error_set(e, ST_INVALID_ARGUMENT,
                     "%s is not a key of %d characters in Z85", what, Z85_KEY);
}

/* Checks that the two keys are a pair: libzmq does not. */
static enum status check_pair(const struct curve_cert *c, const char *secret,
                              const char *public, struct error *e)
{
    char own[Z85_KEY + 1];

    if (c->has_secret &&
        (zmq_curve_public(own, secret) != 0 || strcmp(own, public) != 0)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the public key does not belong to the secret key");
    }
    return ST_OK;
}

static enum status take(struct curve_cert *c, zconfig_t *root, struct error *e)
{
    const char *public = zconfig_get(root, "/curve/public-key", "");
    const char *secret = zconfig_get(root, "/curve/secret-key", "");
    enum status st = take_name(c, zconfig_get(root, "/metadata/name", ""), e);

    st = st == ST_OK ? take_roles(c, zconfig_get(root, "/metadata/role", ""), e)
                     : st;
    st = st == ST_OK ? take_key(c->identity.key, "public-key", public, e) : st;
    c->has_secret = *secret != '\0';
    if (st == ST_OK && c->has_secret) {
        st = take_key(c->secret, "secret-key", secret, e);
    }
    return st == ST_OK ? check_pair(c, secret, public, e) : st;
}

enum status curve_cert_parse(struct curve_cert *out, const char *text, size_t n,
                             struct error *e)
{
    enum status st = check_syntax(text, n, e);
    zconfig_t *root;

    *out = (struct curve_cert){0};
    if (st != ST_OK) {
        return st;
    }
    root = zconfig_str_load(text);
    if (root == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT, "it is no certificate");
    }
    st = take(out, root, e);
    zconfig_destroy(&root);
    return st;
}
