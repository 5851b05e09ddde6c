/* sluicectl_worker.c - Search for one worker in ListWorkers. */
#include <string.h>

#include "client/ctl/ctl.h"
#include "proto/admin.pb-c.h"

struct search {
    const char *name;
    struct ctl_worker *out;
    uint64_t next; /* page; 0: the last page was read */
};

/* The reply has an arena's lifetime, so the figures are copied. */
static void find_in_page(void *arg, const ProtobufCMessage *reply)
{
    struct search *s = arg;
    const Sluice__V1__ListWorkersReply *m =
        (const Sluice__V1__ListWorkersReply *)reply;

    for (size_t i = 0; i < m->n_workers; i++) {
        const Sluice__V1__WorkerRow *w = m->workers[i];

        if (w->name.len == strlen(s->name) &&
            memcmp(w->name.data, s->name, w->name.len) == 0) {
            *s->out = (struct ctl_worker){
                true, w->n_sequences, *w->ledger->blocks, *w->ledger->slots};
        }
    }
    s->next = m->has_next ? m->next : 0;
}

enum status ctl_find_worker(const struct ctl *c, const char *name,
                            struct ctl_worker *out)
{
    Sluice__V1__ListRequest r = SLUICE__V1__LIST_REQUEST__INIT;
    struct search search = {.name = name, .out = out};
    enum status s;

    *out = (struct ctl_worker){.found = false};
    do {
        struct error e;

        r.has_after = search.next != 0;
        r.after = search.next;
        s = client_call(c->client, METHOD_ADMIN_LIST_WORKERS, &r.base,
                        (uint32_t)c->o.timeout, find_in_page, &search, &e);
    } while (s == ST_OK && !out->found && search.next != 0);
    return s;
}
