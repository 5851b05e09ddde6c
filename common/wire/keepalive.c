#include "common/wire/keepalive.h"

void keepalive_heard(struct keepalive *k, int64_t now_us)
{
    k->heard_us = now_us;
    k->asked_us = 0;
}

bool keepalive_silent(struct keepalive *k, struct peer *p, bool listens,
                      int64_t now_us)
{
    /* The silence is measured from the moment the node begins to listen. */
    if (!listens || !k->listening) {
        k->listening = listens;
        keepalive_heard(k, now_us);
    } else if (k->asked_us != 0) {
        return now_us - k->asked_us >= SESSION_SILENT_US - SESSION_QUIET_US;
    } else if (now_us - k->heard_us >= SESSION_QUIET_US) {
        (void)peer_ping(
            p); /* an older ping may be open, which serves as well */
        k->asked_us = now_us;
    }
    return false;
}

int64_t keepalive_due(const struct keepalive *k)
{
    if (!k->listening) {
        return NODE_IDLE;
    }
    return k->asked_us != 0 ? k->asked_us + SESSION_SILENT_US - SESSION_QUIET_US
                            : k->heard_us + SESSION_QUIET_US;
}
