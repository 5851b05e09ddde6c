/* zap.h - Authentication of peers: ZeroMQ's protocol ZAP (RFC 27), and who may
 * connect where.
 *
 * libzmq sends a request for each CURVE handshake, after the client has proved
 * its key; the handshake waits for the reply:
 *
 *     request   version, request id, domain, address, routing id, mechanism,
 *               key [KEY_BYTES]
 *     reply     version, request id, status code, status text, user id,
 *               metadata
 *
 * The domain is the number of the port.  The user id is the key in hex, and
 * comes with each message of the connection (zmq_msg_gets(), "User-Id").
 *
 * Threading: none.  Memory: the caller's storage. */
#ifndef COMMON_WIRE_ZAP_H
#define COMMON_WIRE_ZAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/curve_keys.h"
#include "common/wire/node_io.h"

#define ZAP_ENDPOINT     "inproc://zeromq.zap.01"
#define ZAP_REQUEST      7 /* parts */
#define ZAP_REPLY        6
#define ZAP_ID_MAX       64
#define ZAP_USER_ID      (2 * KEY_BYTES) /* characters */
#define ZAP_DOMAIN_BYTES 4

struct zap_part {
    const uint8_t *data;
    size_t n;
};

struct zap_request {
    uint8_t id[ZAP_ID_MAX];
    size_t n_id;
    unsigned port;
    uint8_t key[KEY_BYTES];
};

enum zap_verdict {
    ZAP_ACCEPTED,
    ZAP_UNKNOWN_KEY, /* the key is not trusted */
    ZAP_WRONG_ROLE,  /* the key has no role that may connect at this port */
};

/* Writes the domain of a port. */
void zap_domain(char out[ZAP_DOMAIN_BYTES], unsigned port);

/* Parses the parts of a request.  Returns false if they are no request for
 * CURVE at a port below n_ports. */
bool zap_parse(struct zap_request *out, const struct zap_part *parts, size_t n,
               unsigned n_ports);

/* Judges a key at a port that allows these roles, a set of BY_*.  *who: the
 * identity of a trusted key, else NULL; valid until curve_keys_reload(). */
enum zap_verdict zap_judge(const struct curve_keys *keys, const uint8_t *key,
                           uint8_t allowed, const struct identity **who);

struct zap_reply {
    struct zap_part parts[ZAP_REPLY];
    char user_id[ZAP_USER_ID + 1];
};

/* Writes the reply; it borrows from r. */
void zap_reply(struct zap_reply *out, const struct zap_request *r,
               enum zap_verdict v);

/* Converts a key to a user id, and back; false if text is none. */
void zap_user_id(char out[ZAP_USER_ID + 1], const uint8_t *key);
bool zap_user_key(uint8_t key[KEY_BYTES], const char *text);

#endif
