#include "gateway/calls/service.h"

#include "gateway/text/prompt_threads.h"

const struct limit_row service_limits[] = {
    LIMIT_ROW(SERVICE_OPEN_US, "us", "until a stream begins without a token"),
    LIMIT_ROW(SERVICE_PING_US, "us", "between comments of a stream"),
    LIMIT_ROW(SERVICE_RESUME_MS, "ms", "a request without a router"),
    LIMIT_ROW(SERVICE_COMPLETION_TOKENS, "tokens",
              "a completion, if the request sets none"),
    LIMIT_ROW(SERVICE_CHAT_TOKENS, "tokens",
              "an answer, if neither request nor --max-tokens set a number"),
    LIMIT_ROW(SERVICE_PARSE_BYTES, "bytes",
              "a body that is parsed in the event loop"),
    LIMIT_ROW(SERVED_MODELS_MAX, "", "models with a chat template"),
    LIMIT_ROW(PROMPT_QUEUE_MAX, "prompts", "waiting for --text-threads"),
    LIMIT_ROW(UPSTREAM_SESSIONS_MAX, "", "sessions with the router"),
};
const size_t service_limits_n =
    sizeof service_limits / sizeof service_limits[0];

int64_t service_now_us(const struct service *c)
{
    struct node_io *io = upstream_io(c->upstream);

    return io->now_us(io);
}

/* Chooses the output format of each model, once. */
static void choose_formats(struct service *c)
{
    const struct served_models *models = c->options.models;

    for (uint32_t i = 0; i < models->n; i++) {
        const struct served_model *m = &models->models[i];
        struct model_format *f = &c->formats[i];

        if (m->source != NULL) {
            f->format = output_format_of_template(m->source, m->n_source,
                                                  &f->has_reasoning);
        }
        if (c->options.format != NULL) {
            f->format = *c->options.format;
        }
    }
}

void service_init(struct service *c, const struct service_options *o,
                  struct upstream *u, struct gateway_metrics *m)
{
    *c = (struct service){.options = *o, .upstream = u, .metrics = m};
    if (c->options.chat_tokens == 0) {
        c->options.chat_tokens = SERVICE_CHAT_TOKENS;
    }
    model_list_init(&c->list, u);
    timers_init(&c->timers);
    list_init(&c->generations);
    list_init(&c->ended);
    choose_formats(c);
}

enum status service_submit(struct service *c, struct waiter *w,
                           const struct http_exchange *x,
                           const struct tenant *tenant, struct prompt_job **j)
{
    struct prompt_seam *s = c->options.prompts;
    enum status st;

    (*j)->owner = w;
    (*j)->job.turn.client = keys_are_open(c->options.keys)
                                ? http_connection_number(x)
                                : (uint64_t)(uintptr_t)tenant;
    st = s->ops->submit(s, j);
    if (st != ST_OK) {
        prompt_job_free(j);
    }
    return st;
}

bool service_is_ready(const struct service *c)
{
    return model_list_ready(&c->list) && !c->draining;
}

struct model_format service_format(const struct service *c,
                                   const struct served_model *m)
{
    return c->formats[m - c->options.models->models];
}
