#include "router/requests/request_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/minmax.h"
#include "common/wire/request_id.h"

/* Sums and extremes over the choices of a request, in microseconds. */
struct figures {
    uint32_t tokens, made; /* made: here, not before a resumption */
    uint32_t moves;
    int64_t queue_us, first_us, total_us, ended_us;
    Sluice__V1__Finish end;
};

static void add(struct figures *f, const struct choice *choice, int64_t now_us)
{
    int64_t arrived_us = choice->request->arrived_us;
    int64_t ended_us =
        choice->figures.ended_us != 0 ? choice->figures.ended_us : now_us;
    int64_t granted_us =
        choice->figures.granted_us != 0 ? choice->figures.granted_us : ended_us;

    f->tokens += choice->out.n_generated;
    f->made += choice->out.n_generated - choice->out.n_client_has;
    f->moves += choice->figures.n_moves;
    f->queue_us = max_i64(f->queue_us, granted_us - arrived_us);
    f->total_us = max_i64(f->total_us, ended_us - arrived_us);
    f->ended_us = max_i64(f->ended_us, ended_us);
    if (choice->figures.first_us != 0 &&
        (f->first_us == 0 || choice->figures.first_us < f->first_us)) {
        f->first_us = choice->figures.first_us;
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

static void write_end(const struct requests *r, const struct request *request,
                      const struct error *e)
{
    char id[REQUEST_ID_TEXT], tenant[LOG_NAME_TEXT], why[ERROR_TEXT + 64];
    struct figures f = {0};

    for (uint32_t c = 0; c < request->n_choices; c++) {
        add(&f, &request->choices[c], r->base->now_us);
    }
    request_id_format(request->id, id);
    log_name(tenant, request_tenant_name(request));
    why[0] = '\0';
    if (e != NULL) {
        snprintf(why, sizeof why, " status=%s why=\"%s\"", status_name(e->code),
                 e->text);
    }
    log_info("request-end",
             "request=%s client=%s model=%s tenant=%s choices=%" PRIu32
             " prompt=%" PRIu32 " tokens=%" PRIu32
             " queue_ms=%.1f first_ms=%.1f total_ms=%.1f "
             "rate=%.1f moves=%" PRIu32 " worker=%s end=%s%s",
             id, request->scope.client, request->model->name, tenant,
             request->n_choices, request->prompt.n, f.tokens,
             (double)f.queue_us / 1e3,
             f.first_us == 0 ? 0
                             : (double)(f.first_us - request->arrived_us) / 1e3,
             (double)f.total_us / 1e3, rate(&f), f.moves,
             request->choices[0].grant.worker_name[0] != '\0'
                 ? request->choices[0].grant.worker_name
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

/* Names are written as words; id is "none" if it is malformed. */
static void write_refused(const char *id, const char *client, const char *model,
                          const char *tenant, const struct error *e)
{
    log_info("request-refused",
             "request=%s client=%s model=%s tenant=%s status=%s why=\"%s\"", id,
             client, model, tenant, status_name(e->code), e->text);
}

void request_log_refused(const char *client,
                         const Sluice__V1__GenerateRequest *m,
                         const struct error *e)
{
    char id[REQUEST_ID_TEXT] = "none";
    char model[LOG_NAME_TEXT], tenant[LOG_NAME_TEXT];

    if (!log_wants_request(true)) {
        return;
    }
    if (m->request_id.len == REQUEST_ID_BYTES) {
        request_id_format(m->request_id.data, id);
    }
    log_name_bytes(model, m->model.data, m->model.len);
    log_name(tenant, TENANT_DEFAULT);
    if (m->has_tenant) {
        log_name_bytes(tenant, m->tenant.data, m->tenant.len);
    }
    write_refused(id, client, model, tenant, e);
}

void request_log_request_refused(const struct request *request,
                                 const struct error *e)
{
    char id[REQUEST_ID_TEXT], tenant[LOG_NAME_TEXT];

    if (!log_wants_request(true)) {
        return;
    }
    request_id_format(request->id, id);
    log_name(tenant, request_tenant_name(request));
    write_refused(id, request->scope.client, request->model->name, tenant, e);
}
