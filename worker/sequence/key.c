#include "worker/sequence/key.h"

#include <stdio.h>
#include <string.h>

#include "common/base/plant.h"

const char *sequence_name(const struct sequence_key *key,
                          char out[SEQUENCE_NAME])
{
    request_id_format(key->request_id, out);
    snprintf(out + REQUEST_ID_TEXT - 1, SEQUENCE_NAME - REQUEST_ID_TEXT + 1,
             "/%u", key->choice);
    return out;
}

bool sequence_key_read(struct sequence_key *out,
                       const Sluice__V1__SequenceRef *ref, struct error *e)
{
    if (ref->request_id.len != REQUEST_ID_BYTES) {
        error_set(e, ST_INVALID_ARGUMENT,
                  "request_id has %zu bytes, it must have %d",
                  ref->request_id.len, REQUEST_ID_BYTES);
        return false;
    }
    if (request_id_is_zero(ref->request_id.data)) {
        error_set(e, ST_INVALID_ARGUMENT,
                  "request_id is all zero, it must be %d random bytes",
                  REQUEST_ID_BYTES);
        return false;
    }
    memcpy(out->request_id, ref->request_id.data, sizeof out->request_id);
    out->choice = PLANT(CHOICE_MIXED) ? 0 : ref->choice;
    return true;
}
