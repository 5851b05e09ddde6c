/* sluicectl_explain.c - The verb explain. */
#include <stdlib.h>
#include <string.h>

#include "client/ctl/columns.h"
#include "client/ctl/ctl.h"
#include "client/ctl/escape.h"
#include "common/wire/request_id.h"
#include "proto/admin.pb-c.h"

#define LINE_MAX_BYTES 512

static void print_head(const Sluice__V1__ExplainReply *m)
{
    char id[REQUEST_ID_TEXT] = "-", queued[MICROS_TEXT];

    if (m->sequence->request_id.len == REQUEST_ID_BYTES) {
        request_id_format(m->sequence->request_id.data, id);
    }
    micros_write(queued, m->queued_us);
    printf("choice    %s/%u, %s\n", id, m->sequence->choice,
           ctl_name(m->state));
    printf("prompt    %u tokens", m->n_prompt);
    if (m->has_n_cached) {
        printf(", %u restored", m->n_cached);
    }
    if (m->has_n_expected && m->has_max_tokens) {
        printf("\noutput    %u of at most %u tokens expected", m->n_expected,
               m->max_tokens);
    }
    printf("\nqueued    %s", queued);
    if (m->has_position) {
        printf(", %u before it", m->position);
    }
    if (m->has_worker) {
        printf("\nworker    %s", ctl_name(m->worker));
    }
    puts("");
}

/* The text has one sentence a line; each is printed without control
 * characters. */
static void print_text(ProtobufCBinaryData text)
{
    char line[LINE_MAX_BYTES * ESCAPE_GROWTH + 1];
    size_t at = 0;

    while (at < text.len) {
        const uint8_t *begin = text.data + at;
        const uint8_t *end = memchr(begin, '\n', text.len - at);
        size_t n = end == NULL ? text.len - at : (size_t)(end - begin);
        size_t shown = n < LINE_MAX_BYTES ? n : LINE_MAX_BYTES;

        line[escape_line((const char *)begin, shown, line)] = '\0';
        puts(line);
        at += n + 1;
    }
}

/* The score of a possible place is 1 / (1 + expected ms to the end). */
static void add_place(struct columns *t, const Sluice__V1__ExplainPlace *p)
{
    columns_cell(t, "%s", ctl_name(p->worker));
    if (p->score > 0) {
        columns_cell(t, "%.0f ms", 1 / (double)p->score - 1);
    } else {
        columns_cell(t, "-");
    }
    columns_cell(t, "%u", p->restorable);
    if (p->has_most_pages) {
        columns_cell(t, "%llu to %llu", (unsigned long long)p->need_pages,
                     (unsigned long long)p->most_pages);
    } else {
        columns_cell(t, "%llu", (unsigned long long)p->need_pages);
    }
    columns_cell(t, "%llu", (unsigned long long)p->room_pages);
    columns_cell(t, "%u", p->n_running);
    columns_cell(t, "%s", p->has_reason ? ctl_name(p->reason) : "possible");
}

static void print_explain(void *arg, const ProtobufCMessage *reply)
{
    const struct ctl *c = arg;
    const Sluice__V1__ExplainReply *m = (const Sluice__V1__ExplainReply *)reply;
    struct columns t;

    if (c->o.json) {
        ctl_print_json(json_message(reply));
        return;
    }
    print_head(m);
    puts("");
    print_text(m->text);
    if (m->n_places == 0) {
        return;
    }
    puts("");
    columns_init(&t, "WORKER", "END", "RESTORABLE", "NEED PAGES", "FREE PAGES",
                 "SEQUENCES", "NOTE", NULL);
    for (size_t i = 0; i < m->n_places; i++) {
        add_place(&t, m->places[i]);
    }
    columns_print(&t, stdout);
    columns_fini(&t);
}

int ctl_explain(struct ctl *c)
{
    Sluice__V1__ExplainRequest m = SLUICE__V1__EXPLAIN_REQUEST__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    uint32_t choice;
    uint8_t id[16];
    int rc;

    rc = ctl_find_sequence(c, id, &choice);
    if (rc != CTL_OK) {
        return rc;
    }
    ref.request_id = (ProtobufCBinaryData){sizeof id, id};
    ref.has_choice = choice != CLIENT_ALL_CHOICES;
    ref.choice = ref.has_choice ? choice : 0;
    m.sequence = &ref;
    return ctl_call(c, METHOD_ADMIN_EXPLAIN, &m.base, print_explain, c);
}
