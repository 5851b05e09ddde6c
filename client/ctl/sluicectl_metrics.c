/* sluicectl metrics: the router's counters and gauges. */
#include "client/ctl/ctl.h"
#include "client/ctl/metrics_reply.h"

#define PREFIX "sluice_router" /* as in sluice-router --list-metrics */

static void print_metrics(void *arg, const ProtobufCMessage *reply)
{
    const struct ctl *c = arg;
    const Sluice__V1__StatusReply *m = (const Sluice__V1__StatusReply *)reply;
    json_t *j;

    if (!c->o.json) {
        metrics_reply_print(m, PREFIX, stdout);
        return;
    }
    j = json_object();
    json_object_set_new(j, "metrics", metrics_reply_json(m));
    ctl_print_json(j);
}

int ctl_metrics(struct ctl *c)
{
    Sluice__V1__StatusRequest m = SLUICE__V1__STATUS_REQUEST__INIT;

    m.has_metrics = m.metrics = true;
    return ctl_call(c, METHOD_ADMIN_STATUS, &m.base, print_metrics, c);
}
