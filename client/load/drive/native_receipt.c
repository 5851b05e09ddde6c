#include "client/load/drive/native_receipt.h"

#include <stdio.h>
#include <string.h>

void native_receipt_take(struct native_receipt *out,
                         const Sluice__V1__Receipt *m)
{
    *out = (struct native_receipt){.state = m->state,
                                   .n_generated = m->n_generated,
                                   .blocks = m->blocks,
                                   .slots = m->slots,
                                   .windows = m->windows,
                                   .has_worker = m->has_worker != 0};
    if (m->sequence->request_id.len == sizeof out->request_id) {
        memcpy(out->request_id, m->sequence->request_id.data,
               sizeof out->request_id);
    }
}

static bool frees_nothing(const struct native_receipt *r)
{
    return r->state == SLUICE__V1__SEQUENCE_STATE__SEQUENCE_UNKNOWN ||
           r->state == SLUICE__V1__SEQUENCE_STATE__SEQUENCE_FINISHED;
}

static bool ran(const struct native_receipt *r)
{
    return r->has_worker &&
           (r->state == SLUICE__V1__SEQUENCE_STATE__SEQUENCE_PREFILL ||
            r->state == SLUICE__V1__SEQUENCE_STATE__SEQUENCE_DECODE);
}

static bool memory_fits(const struct native_receipt *r,
                        const struct native_shown *s, char *why, size_t size)
{
    bool exact = s->has_figures && s->n_choices == 1 && !s->moved && ran(r);

    if (frees_nothing(r) && (r->blocks > 0 || r->slots > 0 || r->windows > 0)) {
        snprintf(why, size,
                 "the receipt frees %u blocks and %u slots of a request that "
                 "had ended",
                 r->blocks, r->slots);
        return false;
    }
    if (ran(r) && r->blocks == 0 && r->windows == 0) {
        snprintf(why, size, "the receipt frees no block of a running request");
        return false;
    }
    if (s->has_figures &&
        (r->windows > s->windows || (exact && r->windows < s->windows))) {
        snprintf(why, size,
                 "the receipt frees %u window pages, the request held %u",
                 r->windows, s->windows);
        return false;
    }
    if (s->has_figures &&
        (r->blocks > s->blocks || r->slots > s->slots ||
         (exact && (r->blocks < s->blocks || r->slots < s->slots)))) {
        snprintf(why, size,
                 "the receipt frees %u blocks and %u slots, the request held "
                 "%u and %u",
                 r->blocks, r->slots, s->blocks, s->slots);
        return false;
    }
    return true;
}

bool native_receipt_fits(const struct native_receipt *r,
                         const struct native_shown *s, char *why, size_t size)
{
    if (memcmp(r->request_id, s->request_id, sizeof r->request_id) != 0) {
        snprintf(why, size, "the receipt names another request");
        return false;
    }
    if (r->state != SLUICE__V1__SEQUENCE_STATE__SEQUENCE_UNKNOWN &&
        r->n_generated < s->n_received) {
        snprintf(why, size, "the receipt counts %u tokens, but %u have arrived",
                 r->n_generated, s->n_received);
        return false;
    }
    return memory_fits(r, s, why, size);
}
