/* request.h - Conversion of a struct client_request to its protobuf message.
 *
 * Threading: none.  Memory: the caller's storage; the message borrows from it
 * and from the request.  Limits: common/sampling/sampling.h. */
#ifndef CLIENT_LIB_REQUEST_H
#define CLIENT_LIB_REQUEST_H

#include "client/lib/client.h"
#include "proto/inference.pb-c.h"

struct request_message {
    Sluice__V1__GenerateRequest m;
    Sluice__V1__Sampling sampling;
    uint32_t bias_tokens[LOGIT_BIASES_MAX]; /* [n_biases] ascending */
    float biases[LOGIT_BIASES_MAX];
    uint32_t stop_tokens[STOP_TOKENS_MAX];
    ProtobufCBinaryData stop[STOP_STRINGS_MAX];
    Sluice__V1__SequenceRef continue_from;
};

/* Converts r, with this request_id instead of its own.  Returns
 * ST_INVALID_ARGUMENT if a list is too long or contains a token twice, or if n
 * exceeds CHOICES_MAX; *e names the list. */
MUST_CHECK enum status request_message(struct request_message *out,
                                       const struct client_request *r,
                                       const uint8_t request_id[16],
                                       struct error *e);

#endif
