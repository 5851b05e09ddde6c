#include "router/requests/request_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/wire/request_id.h"

#define TENANT_TEXT (sizeof " tenant=" + LOG_NAME_TEXT)

/* Sums and extremes over the choices of a request, in microseconds. */
struct figures {
    uint32_t tokens, made; /* made: here, not before a resumption */
    uint32_t moves;
    int64_t queue_us, first_us, total_us, ended_us;
    Sluice__V1__Finish end;
};

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void add(struct figures *f, const struct choice *choice, int64_t now_us)
{
    int64_t arrived_us = choice->request->arrived_us;
    int64_t ended_us = choice->ended_us != 0 ? choice->ended_us : now_us;
    int64_t granted_us =
        choice->granted_us != 0 ? choice->granted_us : ended_us;

    f->tokens += choice->n_generated;
    f->made += choice->n_generated - choice->n_client_has;
    f->moves += choice->n_moves;
    f->queue_us = later(f->queue_us, granted_us - arrived_us);
    f->total_us = later(f->total_us, ended_us - arrived_us);
    f->ended_us = later(f->ended_us, ended_us);
    if (choice->first_us != 0 &&
        (f->first_us == 0 || choice->first_us < f->first_us)) {
        f->first_us = choice->first_us;
    }
    /* The values are ordered from the best ending to the worst. */
    if (choice->finish > f->end) {
        f->end = choice->finish;
    }
}

/* Returns tokens per second after the first one. */
static double rate(const struct figures *f)
{
    int64_t us = f->ended_us - f->first_us;

    return f->first_us != 0 && f->made > 1 && us > 0
               ? (f->made - 1) * 1e6 / (double)us
               : 0;
}

static const char *end_name(Sluice__V1__Finish end)
{
    switch (end) {
    case SLUICE__V1__FINISH__FINISH_STOP:
        return "stop";
    case SLUICE__V1__FINISH__FINISH_LENGTH:
        return "length";
    case SLUICE__V1__FINISH__FINISH_FAILED:
        return "failed";
    default:
        return "cancelled"; /* also a choice that its client gave up */
    }
}

/* Writes ` tenant=NAME`, or nothing if the request has no tenant. */
static void tenant_text(const struct requests *r, uint32_t slot,
                        char out[TENANT_TEXT])
{
    const char *name = metric_slot_name(&r->base->tenant_names, slot);
    char part[LOG_NAME_TEXT];

    out[0] = '\0';
    if (slot != METRIC_DEFAULT && name != NULL) {
        log_name(part, name);
        snprintf(out, TENANT_TEXT, " tenant=%s", part);
    }
}

static void write_end(const struct requests *r, const struct request *request,
                      const struct error *e)
{
    char id[REQUEST_ID_TEXT], tenant[TENANT_TEXT], why[ERROR_TEXT + 64];
    struct figures f = {0};

    for (uint32_t c = 0; c < request->n_choices; c++) {
        add(&f, &request->choices[c], r->base->now_us);
    }
    request_id_format(request->id, id);
    tenant_text(r, request->tenant, tenant);
    why[0] = '\0';
    if (e != NULL) {
        snprintf(why, sizeof why, " status=%s why=\"%s\"", status_name(e->code),
                 e->text);
    }
    log_info("request-end",
             "request=%s model=%s%s choices=%" PRIu32 " prompt=%" PRIu32
             " tokens=%" PRIu32 " queue_ms=%.1f first_ms=%.1f total_ms=%.1f "
             "rate=%.1f moves=%" PRIu32 " worker=%s end=%s%s",
             id, request->model->name, tenant, request->n_choices,
             request->n_prompt, f.tokens, (double)f.queue_us / 1e3,
             f.first_us == 0 ? 0
                             : (double)(f.first_us - request->arrived_us) / 1e3,
             (double)f.total_us / 1e3, rate(&f), f.moves,
             request->choices[0].worker_name[0] != '\0'
                 ? request->choices[0].worker_name
                 : "none",
             e != NULL ? "failed" : end_name(f.end), why);
}

void request_log_end(const struct requests *r, struct request *request,
                     const struct error *e)
{
    if (!request->logged && log_wants_request(e != NULL)) {
        write_end(r, request, e);
    }
    request->logged = true;
}

void request_log_refused(const uint8_t *id, size_t n, const struct error *e)
{
    char text[REQUEST_ID_TEXT] = "none";

    if (!log_wants_request(true)) {
        return;
    }
    if (n == REQUEST_ID_BYTES) {
        request_id_format(id, text);
    }
    log_info("request-refused", "request=%s status=%s why=\"%s\"", text,
             status_name(e->code), e->text);
}
