#include "common/wire/identity.h"

#include <string.h>

#include "common/wire/method.h"

const struct identity *identity_of(struct node_io *io, struct peer_id who)
{
    return io->identity == NULL ? NULL : io->identity(io, who);
}

const char *identity_role(uint8_t role)
{
    switch (role) {
    case BY_ROUTER:
        return "router";
    case BY_WORKER:
        return "worker";
    case BY_CLIENT:
        return "client";
    default:
        return "admin";
    }
}

enum status identity_check_role(const struct identity *id, uint8_t role,
                                struct error *e)
{
    uint8_t permitted = id == NULL ? BY_ALL : id->roles;

    /* sluicectl generates with the key that it drains with. */
    if ((permitted & BY_ADMIN) != 0) {
        permitted |= BY_CLIENT;
    }
    if ((permitted & role) != 0) {
        return ST_OK;
    }
    return error_set(e, ST_PERMISSION_DENIED,
                     "the key %s does not have the role %s; add it to the "
                     "certificate (sluicectl keygen --role)",
                     id->name, identity_role(role));
}

/* Names are not cut: two peers of a key could then have one name. */
static enum status too_long(const struct identity *id, const char *what,
                            size_t n, struct error *e)
{
    if (id == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the %s has %zu bytes, at most %d fit", what, n,
                         PEER_NAME_MAX);
    }
    return error_set(e, ST_INVALID_ARGUMENT,
                     "the %s has %zu bytes with its key, %s/..., at most %d "
                     "fit; shorten it to %zu bytes",
                     what, n, id->name, PEER_NAME_MAX,
                     PEER_NAME_MAX - strlen(id->name) - 1);
}

enum status identity_name(const struct identity *id, ProtobufCBinaryData own,
                          const char *what, char out[PEER_NAME_MAX + 1],
                          struct error *e)
{
    size_t n_key = id == NULL ? 0 : strlen(id->name), n = own.len;
    bool whole =
        id == NULL || (n == n_key && memcmp(own.data, id->name, n_key) == 0);
    size_t at = whole ? 0 : n_key + 1;

    if (at + n > PEER_NAME_MAX) {
        return too_long(id, what, at + n, e);
    }
    /* '/' is in no key's name, so no key gives another key's name. */
    if (!whole) {
        memcpy(out, id->name, n_key);
        out[n_key] = '/';
    }
    if (n > 0) {
        memcpy(out + at, own.data, n);
    }
    out[at + n] = '\0';
    return ST_OK;
}

bool identity_has_key(const struct identity *id, const uint8_t *key)
{
    return id != NULL && memcmp(id->key, key, KEY_BYTES) == 0;
}
