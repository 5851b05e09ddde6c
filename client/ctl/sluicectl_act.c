/* sluicectl_act.c - The verbs cancel, remove, audit and ping. */
#include <stdlib.h>
#include <string.h>

#include "client/ctl/argument.h"
#include "client/ctl/columns.h"
#include "client/ctl/ctl.h"
#include "client/ctl/escape.h"
#include "common/wire/request_id.h"
#include "proto/admin.pb-c.h"
#include "proto/health.pb-c.h"

#define ID_DIGITS  (REQUEST_ID_TEXT - 1)
#define LOOKUP_MAX 4 /* ids listed for an ambiguous prefix */

static const char *state_word(int state)
{
    switch (state) {
    case SLUICE__V1__SEQUENCE_STATE__SEQUENCE_QUEUED:
        return "queued";
    case SLUICE__V1__SEQUENCE_STATE__SEQUENCE_PREFILL:
        return "in prefill";
    case SLUICE__V1__SEQUENCE_STATE__SEQUENCE_DECODE:
        return "in decode";
    case SLUICE__V1__SEQUENCE_STATE__SEQUENCE_SUSPENDED:
        return "suspended";
    case SLUICE__V1__SEQUENCE_STATE__SEQUENCE_KEPT:
        return "kept";
    case SLUICE__V1__SEQUENCE_STATE__SEQUENCE_FINISHED:
        return "finished";
    default:
        return "unknown";
    }
}

void ctl_print_receipt(FILE *to, const struct client_receipt *r)
{
    char took[MICROS_TEXT];

    micros_write(took, r->micros);
    fprintf(to, "was %s, %u token%s generated; released %u block%s, ",
            state_word(r->state), r->n_generated, ctl_plural(r->n_generated),
            r->blocks, ctl_plural(r->blocks));
    if (r->windows > 0) {
        fprintf(to, "%u window page%s, ", r->windows, ctl_plural(r->windows));
    }
    fprintf(to, "%u slot%s in %s", r->slots, ctl_plural(r->slots), took);
    if (r->worker[0] != '\0') {
        fputs(" at ", to);
        escape_print(to, r->worker, strlen(r->worker), false);
    }
    fputc('\n', to);
}

/* Uses the field names and words of the schema's Receipt, like json_message().
 * A state that this version does not have becomes "unknown". */
json_t *ctl_json_receipt(const struct client_receipt *r)
{
    static const char *const words[] = {"unknown",  "queued", "prefill",
                                        "decode",   "kept",   "finished",
                                        "suspended"};
    bool known =
        r->state >= 0 && r->state < (int)(sizeof words / sizeof words[0]);
    json_t *j = json_object();
    char id[REQUEST_ID_TEXT];

    request_id_format(r->request_id, id);
    json_object_set_new(j, "request_id", json_string(id));
    json_object_set_new(j, "state", json_string(words[known ? r->state : 0]));
    json_object_set_new(j, "n_generated", json_integer(r->n_generated));
    json_object_set_new(j, "blocks", json_integer(r->blocks));
    json_object_set_new(j, "slots", json_integer(r->slots));
    json_object_set_new(j, "checkpoints", json_integer(r->checkpoints));
    json_object_set_new(j, "windows", json_integer(r->windows));
    json_object_set_new(j, "position", json_integer(r->position));
    json_object_set_new(j, "micros", json_integer((json_int_t)r->micros));
    json_object_set_new(j, "worker", json_text(r->worker, strlen(r->worker)));
    return j;
}

/* A search for the request whose id begins with a prefix. */
struct lookup {
    const char *prefix; /* [n_prefix] */
    size_t n_prefix;
    size_t n_found; /* different ids, at most LOOKUP_MAX; the choices of a
                       request share one */
    struct pages pages;
    uint8_t ids[LOOKUP_MAX][16]; /* [n_found] */
};

static bool is_listed(const struct lookup *l, const uint8_t *id)
{
    for (size_t i = 0; i < l->n_found; i++) {
        if (memcmp(l->ids[i], id, sizeof l->ids[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Compares a page of sequences. */
static void match_page(void *arg, const ProtobufCMessage *reply)
{
    struct lookup *l = arg;
    const Sluice__V1__ListSequencesReply *m =
        (const Sluice__V1__ListSequencesReply *)reply;

    for (size_t i = 0; i < m->n_sequences; i++) {
        ProtobufCBinaryData id = m->sequences[i]->sequence->request_id;
        char text[REQUEST_ID_TEXT];

        if (id.len != sizeof l->ids[0] || l->n_found == LOOKUP_MAX) {
            continue;
        }
        request_id_format(id.data, text);
        if (strncasecmp(text, l->prefix, l->n_prefix) == 0 &&
            !is_listed(l, id.data)) {
            memcpy(l->ids[l->n_found++], id.data, sizeof l->ids[0]);
        }
    }
    pages_take(&l->pages, m->has_next, m->next);
}

/* Prints the ids that begin with the prefix, so that one can be copied. */
static int ambiguous(const struct ctl *c, const struct lookup *l,
                     const char *prefix)
{
    char why[ERROR_TEXT], text[REQUEST_ID_TEXT];
    int n =
        snprintf(why, sizeof why, "several request ids begin with %s:", prefix);

    for (size_t i = 0; i < l->n_found; i++) {
        request_id_format(l->ids[i], text);
        n += snprintf(why + n, sizeof why - (size_t)n, "%s %s",
                      i > 0 ? "," : "", text);
    }
    snprintf(why + n, sizeof why - (size_t)n, "%s; give more digits",
             l->n_found == LOOKUP_MAX ? " and perhaps more" : "");
    return ctl_fail(c, ST_INVALID_ARGUMENT, why, 0);
}

/* Converts a whole id text[0..n), or finds the only id with that prefix.  A
 * whole id is not looked up: the router may have forgotten the request, and
 * cancel then returns a receipt of the state unknown. */
static int find_id(struct ctl *c, const char *text, size_t n, uint8_t id[16])
{
    struct lookup l = {.prefix = text, .n_prefix = n};
    char whole[REQUEST_ID_TEXT], why[ERROR_TEXT];
    int rc;

    if (n == 0 || n > ID_DIGITS ||
        strspn(text, "0123456789abcdefABCDEF") != n) {
        return ctl_misuse(c,
                          "\"%s\" is not a request id: 32 hex digits, or the "
                          "first digits; append /CHOICE for one choice",
                          text);
    }
    snprintf(whole, sizeof whole, "%.*s", (int)n, text);
    if (request_id_parse(whole, id)) {
        return ctl_open(c);
    }
    rc = ctl_list(c, METHOD_ADMIN_LIST_SEQUENCES, &l.pages, match_page, &l);
    if (rc == CTL_OK && l.n_found == 0) {
        snprintf(why, sizeof why,
                 "no request id begins with %s; \"sluicectl sequences\" lists "
                 "the ids",
                 whole);
        return ctl_fail(c, ST_NOT_FOUND, why, 0);
    }
    if (rc == CTL_OK && l.n_found > 1) {
        return ambiguous(c, &l, whole);
    }
    memcpy(id, l.ids[0], sizeof l.ids[0]);
    return rc;
}

int ctl_find_sequence(struct ctl *c, uint8_t id[16], uint32_t *choice)
{
    const char *text = c->n_operands == 1 ? c->operands[0] : "";
    const char *slash = strchr(text, '/');
    size_t n = slash == NULL ? strlen(text) : (size_t)(slash - text), one = 0;
    struct error e;

    if (c->n_operands != 1) {
        return ctl_misuse(c, "one request id is required; \"sluicectl "
                             "sequences\" lists the ids");
    }
    *choice = CLIENT_ALL_CHOICES;
    if (slash != NULL &&
        (argument_ids(slash + 1, choice, 1, &one, &e) != ST_OK ||
         *choice >= CHOICES_MAX)) {
        return ctl_misuse(c, "\"%s\": a choice is a number from 0 to %d", text,
                          CHOICES_MAX - 1);
    }
    return find_id(c, text, n, id);
}

/* client_cancel() or client_remove(). */
typedef enum status receipt_fn(struct client *c, const uint8_t request_id[16],
                               uint32_t choice, uint32_t timeout_ms,
                               struct client_receipt *out, struct error *e);

/* Runs cancel or remove on the operand, and prints the receipt. */
static int with_receipt(struct ctl *c, receipt_fn *act)
{
    struct client_receipt r;
    struct error e = {0};
    enum status s;
    uint8_t id[16];
    uint32_t choice;
    int rc;

    rc = ctl_find_sequence(c, id, &choice);
    if (rc != CTL_OK) {
        return rc;
    }
    s = act(c->client, id, choice, ctl_left_ms(c), &r, &e);
    if (s != ST_OK) {
        return ctl_fail(c, s, e.text, 0);
    }
    if (c->o.json) {
        ctl_print_json(ctl_json_receipt(&r));
    } else {
        ctl_print_receipt(stdout, &r);
    }
    return CTL_OK;
}

int ctl_cancel(struct ctl *c)
{
    return with_receipt(c, client_cancel);
}

/* With a position, a removal is of one choice. */
static int remove_from(struct ctl *c)
{
    struct client_receipt r;
    struct error e = {0};
    enum status s;
    uint8_t id[16];
    uint32_t choice;
    int rc = ctl_find_sequence(c, id, &choice);

    if (rc != CTL_OK) {
        return rc;
    }
    choice = choice == CLIENT_ALL_CHOICES ? 0 : choice;
    s = client_remove_from(c->client, id, choice, c->o.from, &r, &e);
    if (s != ST_OK) {
        return ctl_fail(c, s, e.text, 0);
    }
    if (c->o.json) {
        ctl_print_json(ctl_json_receipt(&r));
        return CTL_OK;
    }
    printf("kept up to token %u: ", r.position);
    ctl_print_receipt(stdout, &r);
    return CTL_OK;
}

int ctl_remove(struct ctl *c)
{
    return c->o.from > 0 ? remove_from(c) : with_receipt(c, client_remove);
}

struct audit {
    const struct ctl *ctl;
    uint32_t n_differences, n_silent; /* n_silent: workers without an answer */
};

static void print_windows(const Sluice__V1__ClassLedger *l)
{
    if (l != NULL) {
        printf("; window pages %u held, %u cached, %u granted", l->held,
               l->cached, l->granted);
    }
}

static void print_audit_row(const Sluice__V1__WorkerAudit *w)
{
    printf("%s: %u difference%s", ctl_name(w->worker), w->n_differences,
           ctl_plural(w->n_differences));
    if (w->ledger != NULL) {
        const Sluice__V1__ClassLedger *p = w->ledger->pages;
        const Sluice__V1__ClassLedger *b = w->ledger->blocks;
        const Sluice__V1__ClassLedger *s = w->ledger->slots;

        printf("; %u pages = %u free + %u held + %u cached + %u granted; "
               "blocks %u held, %u cached, %u granted; slots %u held, %u "
               "granted; checkpoints %u cached",
               p->total, p->free, p->held, p->cached, p->granted, b->held,
               b->cached, b->granted, s->held, s->granted,
               w->ledger->checkpoints->cached);
        print_windows(w->ledger->windows);
    } else {
        fputs("; no answer", stdout);
    }
    putchar('\n');
    if (w->has_text && w->text.len > 0) {
        escape_print(stdout, (const char *)w->text.data, w->text.len, true);
        putchar('\n');
    }
}

static void print_audit(void *arg, const ProtobufCMessage *reply)
{
    struct audit *a = arg;
    const Sluice__V1__AuditAllReply *m =
        (const Sluice__V1__AuditAllReply *)reply;

    a->n_differences = m->n_differences;
    for (size_t i = 0; i < m->n_workers; i++) {
        a->n_silent += m->workers[i]->ledger == NULL;
        if (!a->ctl->o.json) {
            print_audit_row(m->workers[i]);
        }
    }
    if (a->ctl->o.json) {
        ctl_print_json(json_message(reply));
    } else {
        printf("%zu worker%s audited, %u difference%s\n", m->n_workers,
               ctl_plural((uint32_t)m->n_workers), m->n_differences,
               ctl_plural(m->n_differences));
    }
}

/* A silent worker fails the audit too: its pool is unchecked. */
int ctl_audit(struct ctl *c)
{
    Sluice__V1__Nothing nothing = SLUICE__V1__NOTHING__INIT;
    struct audit a = {.ctl = c};
    int rc = ctl_call(c, METHOD_ADMIN_AUDIT, &nothing.base, print_audit, &a);

    return rc == CTL_OK && a.n_differences + a.n_silent > 0 ? CTL_FAILED : rc;
}

struct health {
    const struct ctl *ctl;
    bool serving;
};

static void print_health(void *arg, const ProtobufCMessage *reply)
{
    struct health *h = arg;
    const Sluice__V1__HealthReply *m = (const Sluice__V1__HealthReply *)reply;

    h->serving = m->serving;
    if (h->ctl->o.json) {
        ctl_print_json(json_message(reply));
        return;
    }
    if (m->has_text && m->text.len > 0) {
        escape_print(stdout, (const char *)m->text.data, m->text.len, false);
    } else {
        fputs(m->serving ? "serving" : "not serving", stdout);
    }
    putchar('\n');
}

int ctl_ping(struct ctl *c)
{
    Sluice__V1__Nothing nothing = SLUICE__V1__NOTHING__INIT;
    struct health h = {.ctl = c};
    int rc = ctl_call(c, METHOD_HEALTH_CHECK, &nothing.base, print_health, &h);

    return rc == CTL_OK && !h.serving ? CTL_FAILED : rc;
}
