/* sluicectl_worker.c - Search for one worker in ListWorkers. */
#include <string.h>

#include "client/ctl/ctl.h"
#include "common/wire/loop.h"
#include "proto/admin.pb-c.h"

struct search {
    const char *name;
    struct ctl_worker *out;
    struct pages pages;
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
            *s->out = (struct ctl_worker){true, w->n_sequences,
                                          *w->ledger->blocks, *w->ledger->slots,
                                          SLUICE__V1__CLASS_LEDGER__INIT};
            if (w->ledger->windows != NULL) {
                s->out->windows = *w->ledger->windows;
            }
        }
    }
    pages_take(&s->pages, m->has_next && !s->out->found, m->next);
}

enum status ctl_find_worker(const struct ctl *c, const char *name,
                            struct ctl_worker *out)
{
    struct search search = {.name = name, .out = out};
    int64_t ms = c->o.timeout > 0 ? (int64_t)c->o.timeout : CTL_LIST_MS;
    struct error e;

    *out = (struct ctl_worker){.found = false};
    return ctl_pages(c, METHOD_ADMIN_LIST_WORKERS, &search.pages, find_in_page,
                     &search, loop_now_us() + ms * 1000, &e);
}
