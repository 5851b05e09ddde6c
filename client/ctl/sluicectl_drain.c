/* sluicectl_drain.c - The verbs drain and undrain.
 *
 * The router's Drain call stays open until the worker is empty.  Meanwhile
 * ListWorkers is polled, to show how many sequences still run. */
#include <string.h>
#include <unistd.h>

#include "client/ctl/columns.h"
#include "client/ctl/ctl.h"
#include "common/wire/wire.h"
#include "proto/admin.pb-c.h"

#define POLL_MS 500
#define TURN_MS 50

struct drain {
    struct ctl *ctl;
    const char *worker;
    bool ended;
    enum status status;
    struct error error;
    uint32_t retry_after_ms;
    Sluice__V1__DrainReply reply;
    struct ctl_worker now; /* the worker's last row in ListWorkers */
    uint32_t n_shown;      /* sequences in the last line of progress */
    bool shown;            /* a line of progress was printed */
};

static void on_end(void *arg, enum status status, const ProtobufCMessage *reply,
                   const struct error *e, uint32_t retry_after_ms)
{
    struct drain *d = arg;

    d->ended = true;
    d->status = status;
    d->retry_after_ms = retry_after_ms;
    if (status != ST_OK) {
        error_set(&d->error, status, "%s",
                  e != NULL ? e->text : status_text(status));
    } else if (reply != NULL) {
        d->reply = *(const Sluice__V1__DrainReply *)reply;
    }
}

/* Shows progress: on a terminal one line that is overwritten (ESC[K clears its
 * rest), otherwise a line for each change. */
static void show_progress(struct drain *d)
{
    bool terminal = isatty(STDERR_FILENO);
    uint32_t n = d->now.n_sequences;

    if (d->ctl->o.json || !d->now.found || (d->shown && d->n_shown == n)) {
        return;
    }
    fprintf(stderr, "%s%s: %u sequence%s still running%s", terminal ? "\r" : "",
            ctl_name(wire_text(d->worker)), n, ctl_plural(n),
            terminal ? " \x1b[K" : "\n");
    d->n_shown = n;
    d->shown = true;
}

static void clear_progress(const struct drain *d)
{
    if (d->shown && isatty(STDERR_FILENO)) {
        fputs("\r\x1b[K", stderr);
    }
}

/* Waits for the end of the call.  Returns false after Ctrl-C, which the next
 * poll notices: client_turn() does not look for an interrupt. */
static bool wait_end(struct drain *d)
{
    while (!d->ended) {
        if (ctl_find_worker(d->ctl, d->worker, &d->now) == ST_CANCELLED &&
            !d->ended) {
            return false;
        }
        if (!d->ended) {
            show_progress(d);
        }
        for (int ms = 0; ms < POLL_MS && !d->ended; ms += TURN_MS) {
            client_turn(d->ctl->client, TURN_MS);
        }
    }
    return true;
}

static void print_done(const struct drain *d)
{
    const Sluice__V1__DrainReply *m = &d->reply;
    char took[MICROS_TEXT];

    if (d->ctl->o.json) {
        json_t *j = json_message(&m->base);

        json_object_set_new(j, "worker",
                            json_text(d->worker, strlen(d->worker)));
        ctl_print_json(j);
        return;
    }
    micros_write(took, m->micros);
    printf("drained %s in %s: of %u running sequences, %u finished there and "
           "%u moved\n",
           ctl_name(wire_text(d->worker)), took, m->n_running, m->n_finished,
           m->n_moved);
}

static int interrupted(const struct drain *d)
{
    char text[ERROR_TEXT];

    snprintf(text, sizeof text,
             "interrupted: %s keeps draining; \"%s undrain %s\" ends the "
             "draining",
             d->worker, CTL_NAME, d->worker);
    return ctl_fail(d->ctl, ST_CANCELLED, text, 0);
}

static int drain(struct ctl *c, Sluice__V1__DrainRequest *r)
{
    static const struct client_call_ops ops = {NULL, on_end};
    struct drain d = {.ctl = c, .worker = c->operands[0]};
    uint64_t id;
    bool ended;

    ctl_catch_interrupt(c->client);
    d.status =
        client_begin(c->client, METHOD_ADMIN_DRAIN, &r->base, 0, &ops, &d, &id);
    if (d.status != ST_OK) {
        return ctl_fail(c, d.status, status_text(d.status), 0);
    }
    client_turn(c->client, TURN_MS); /* a refusal arrives before any poll */
    ended = wait_end(&d);
    clear_progress(&d);
    if (!ended) {
        client_give_up(c->client, id); /* ends the call, not the draining */
        return interrupted(&d);
    }
    if (d.status != ST_OK) {
        return ctl_fail(c, d.status, d.error.text, d.retry_after_ms);
    }
    print_done(&d);
    return CTL_OK;
}

static int needs_worker(const struct ctl *c)
{
    return c->n_operands == 1
               ? CTL_OK
               : ctl_misuse(c, "the name of one worker is required; "
                               "\"" CTL_NAME " workers\" lists the names");
}

int ctl_drain(struct ctl *c)
{
    Sluice__V1__DrainRequest r = SLUICE__V1__DRAIN_REQUEST__INIT;
    int rc = needs_worker(c);

    if (rc == CTL_OK) {
        rc = ctl_open(c);
    }
    if (rc != CTL_OK) {
        return rc;
    }
    r.worker = wire_text(c->operands[0]);
    r.has_grace_ms = true;
    r.grace_ms = c->o.now ? 0 : (uint32_t)c->o.grace;
    return drain(c, &r);
}

static void print_undrained(void *arg, const ProtobufCMessage *reply)
{
    const struct ctl *c = arg;
    const char *worker = c->operands[0];

    (void)reply;
    if (c->o.json) {
        json_t *j = json_object();

        json_object_set_new(j, "worker", json_text(worker, strlen(worker)));
        ctl_print_json(j);
    } else {
        printf("%s accepts sequences again\n", ctl_name(wire_text(worker)));
    }
}

int ctl_undrain(struct ctl *c)
{
    Sluice__V1__WorkerRequest r = SLUICE__V1__WORKER_REQUEST__INIT;
    int rc = needs_worker(c);

    if (rc != CTL_OK) {
        return rc;
    }
    r.worker = wire_text(c->operands[0]);
    return ctl_call(c, METHOD_ADMIN_UNDRAIN, &r.base, print_undrained, c);
}
