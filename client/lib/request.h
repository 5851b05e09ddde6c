/* request.h - a struct client_request as it travels.
 *
 * Threading: none.  Memory: the caller's storage; the message borrows from it
 * and from the request.  Limits: those of common/sampling/sampling.h. */
#ifndef CLIENT_LIB_REQUEST_H
#define CLIENT_LIB_REQUEST_H

#include "client/lib/client.h"
#include "proto/inference.pb-c.h"

struct request_message {
    Sluice__V1__GenerateRequest m;
    Sluice__V1__Sampling sampling;
    uint32_t bias_tokens[LOGIT_BIASES_MAX]; /* [n] ascending, as the rest */
    float biases[LOGIT_BIASES_MAX];
    uint32_t stop_tokens[STOP_TOKENS_MAX];
    ProtobufCBinaryData stop[STOP_STRINGS_MAX];
};

/* Under this request_id.  ST_INVALID_ARGUMENT: a list is too long or names a
 * token twice; the sentence says which. */
MUST_CHECK enum status request_message(struct request_message *out,
                                       const struct client_request *r,
                                       const uint8_t request_id[16],
                                       struct error *e);

#endif
