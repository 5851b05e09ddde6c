#include "gateway/calls/parse_body.h"

#include <stdlib.h>

#include "gateway/calls/access.h"
#include "gateway/calls/respond.h"
#include "gateway/http/buffer.h"

/* A body that is parsed on a thread. */
struct parsing {
    struct waiter waiter; /* first */
    struct service *service;
    struct http_exchange *x; /* NULL: its client has gone */
    parse_then_fn *then;
    openai_parse_fn *parse;
    /* Taken from the exchange: the client may go while a thread reads it. */
    struct http_buffer body;
    struct openai_limits limits;
    struct openai_request *request; /* result; NULL: `error` */
    struct openai_error error;
};

static void parsing_run(void *arg)
{
    struct parsing *p = arg;

    (void)!openai_request_parse(p->parse, http_buffer_data(&p->body), p->body.n,
                                &p->limits, &p->request, &p->error);
}

static void parsing_free(void *arg)
{
    struct parsing *p = arg;

    openai_request_free(&p->request);
    http_buffer_fini(&p->body);
    free(p);
}

static void refuse(struct service *c, struct http_exchange *x,
                   const struct openai_error *e)
{
    c->metrics->counts.body_errors++;
    respond_error(c, x, e, NULL, e->http == 503 ? RESPOND_MEMORY_MS : 0);
}

static struct openai_limits limits_of(const struct service *c)
{
    return (struct openai_limits){.memory = http_server_memory(c->http),
                                  .refuse_unknown = c->options.refuse_unknown};
}

/* Hands a request on. */
static void give(struct service *c, struct http_exchange *x,
                 struct tenant *tenant, parse_then_fn *then,
                 struct openai_request **r)
{
    c->metrics->counts.ignored_fields += (*r)->values.ignored.n;
    then(c, x, tenant, r);
}

static void on_gone(struct waiter *w)
{
    ((struct parsing *)w)->x = NULL; /* freed with the job */
}

/* The key is looked up again: a reload may have removed its tenant. */
static void on_parsed(struct waiter *w, struct prompt_job *j)
{
    struct parsing *p = (struct parsing *)w;
    struct service *c = p->service;
    struct openai_error e;
    struct tenant *tenant;

    c->n_open--;
    if (p->x != NULL && p->request == NULL) {
        refuse(c, p->x, &p->error);
    } else if (p->x != NULL) {
        tenant = access_tenant(c, p->x);
        if (tenant != NULL) {
            give(c, p->x, tenant, p->then, &p->request);
        } else {
            openai_error_set(&e, 401, NULL, "invalid_api_key",
                             "the API key is no longer valid");
            respond_error(c, p->x, &e, NULL, 0);
        }
    }
    prompt_job_free(&j); /* and p */
}

static void parse_on_thread(struct service *c, struct http_exchange *x,
                            const struct tenant *tenant, openai_parse_fn *parse,
                            parse_then_fn *then)
{
    struct parsing *p = calloc(1, sizeof *p);
    struct prompt_job *j = p != NULL ? prompt_job_new(PROMPT_CALL) : NULL;
    struct openai_error e;

    if (j == NULL) {
        free(p);
        respond_memory(c, x);
        return;
    }
    *p = (struct parsing){.waiter = {on_gone, on_parsed},
                          .service = c,
                          .x = x,
                          .then = then,
                          .parse = parse,
                          .limits = limits_of(c)};
    http_body_take(x, &p->body);
    j->call = parsing_run;
    j->call_free = parsing_free;
    j->call_arg = p;
    http_set_user(x, &p->waiter);
    if (service_submit(c, &p->waiter, x, tenant, &j) == ST_OK) {
        c->n_open++;
        return;
    }
    http_set_user(x, NULL);
    openai_error_set(&e, 503, NULL, NULL,
                     "too many requests wait to be parsed; try again");
    respond_error(c, x, &e, NULL, 1000);
}

void parse_body(struct service *c, struct http_exchange *x,
                struct tenant *tenant, openai_parse_fn *parse,
                parse_then_fn *then)
{
    struct openai_limits limits = limits_of(c);
    struct openai_request *r;
    struct openai_error e;
    size_t n;
    const char *body = http_body(x, &n);

    if (n > SERVICE_PARSE_BYTES) {
        parse_on_thread(c, x, tenant, parse, then);
    } else if (openai_request_parse(parse, body, n, &limits, &r, &e)) {
        give(c, x, tenant, then, &r);
    } else {
        refuse(c, x, &e);
    }
}
