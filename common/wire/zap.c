#include "common/wire/zap.h"

#include <stdio.h>
#include <string.h>

/* RFC 27: a request has these parts in this order, and its reply has the first
 * two again. */
#define VERSION   "1.0"
#define MECHANISM "CURVE"

enum part {
    P_VERSION,
    P_ID,
    P_DOMAIN,
    P_ADDRESS,
    P_ROUTING,
    P_MECHANISM,
    P_KEY
};

void zap_domain(char out[ZAP_DOMAIN_BYTES], unsigned port)
{
    snprintf(out, ZAP_DOMAIN_BYTES, "%u", port & 0xff);
}

static bool is(const struct zap_part *p, const char *text)
{
    return p->n == strlen(text) && memcmp(p->data, text, p->n) == 0;
}

bool zap_parse(struct zap_request *out, const struct zap_part *parts, size_t n,
               unsigned n_ports)
{
    char domain[ZAP_DOMAIN_BYTES];

    if (n != ZAP_REQUEST || !is(&parts[P_VERSION], VERSION) ||
        parts[P_ID].n > ZAP_ID_MAX || !is(&parts[P_MECHANISM], MECHANISM) ||
        parts[P_KEY].n != KEY_BYTES) {
        return false;
    }
    memcpy(out->id, parts[P_ID].data, parts[P_ID].n);
    out->n_id = parts[P_ID].n;
    memcpy(out->key, parts[P_KEY].data, KEY_BYTES);
    for (out->port = 0; out->port < n_ports; out->port++) {
        zap_domain(domain, out->port);
        if (is(&parts[P_DOMAIN], domain)) {
            return true;
        }
    }
    return false;
}

enum zap_verdict zap_judge(const struct curve_keys *keys, const uint8_t *key,
                           uint8_t allowed, const struct identity **who)
{
    /* The key alone decides.  The address of the peer does not: hosts move,
     * and an address proves nothing. */
    *who = curve_keys_find(keys, key);
    return *who == NULL                     ? ZAP_UNKNOWN_KEY
           : ((*who)->roles & allowed) == 0 ? ZAP_WRONG_ROLE
                                            : ZAP_ACCEPTED;
}

void zap_user_id(char out[ZAP_USER_ID + 1], const uint8_t *key)
{
    for (int i = 0; i < KEY_BYTES; i++) {
        snprintf(out + 2 * i, 3, "%02x", key[i]);
    }
}

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

bool zap_user_key(uint8_t key[KEY_BYTES], const char *text)
{
    if (text == NULL || strlen(text) != ZAP_USER_ID) {
        return false;
    }
    for (int i = 0; i < KEY_BYTES; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

        if (high < 0 || low < 0) {
            return false;
        }
        key[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static struct zap_part text_part(const char *text)
{
    return (struct zap_part){(const uint8_t *)text, strlen(text)};
}

void zap_reply(struct zap_reply *out, const struct zap_request *r,
               enum zap_verdict v)
{
    /* The User-Id is the key and not its name: libzmq attaches it to every
     * message, and a name may pass to another key while the connection
     * stands. */
    out->user_id[0] = '\0';
    if (v == ZAP_ACCEPTED) {
        zap_user_id(out->user_id, r->key);
    }
    out->parts[0] = text_part(VERSION);
    out->parts[1] = (struct zap_part){r->id, r->n_id};
    out->parts[2] = text_part(v == ZAP_ACCEPTED ? "200" : "400");
    /* One text for every denial: a stranger does not learn which keys
     * exist. */
    out->parts[3] = text_part(v == ZAP_ACCEPTED ? "OK" : "refused");
    out->parts[4] = text_part(out->user_id);
    out->parts[5] = text_part("");
}
