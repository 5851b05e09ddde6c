#include "gateway/calls/service.h"

#include "common/base/log.h"
#include "gateway/text/prompt_threads.h"

const struct limit_row service_limits[] = {
    LIMIT_ROW(SERVICE_OPEN_US, "us", "until a stream begins without a token"),
    LIMIT_ROW(SERVICE_WAIT_US, "us",
              "between comments of a stream without a token yet"),
    LIMIT_ROW(SERVICE_PING_US, "us", "between comments of a stream"),
    LIMIT_ROW(SERVICE_RESUME_MS, "ms", "a request without a router"),
    LIMIT_ROW(SERVICE_COMPLETION_TOKENS, "tokens",
              "a completion, if the request sets none"),
    LIMIT_ROW(SERVICE_CHAT_TOKENS, "tokens",
              "charged until the end of an answer without a number"),
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

static struct model_format format_of(const struct served_model *m,
                                     const enum output_format *given)
{
    struct model_format f = {.has_chat = m->chat != NULL};
    struct output_found found;

    if (m->source != NULL) {
        found = output_format_of_template(m->source, m->n_source);
        f.format = found.format;
        f.has_reasoning = found.reasoning;
        f.unread = found.unread;
    }
    f.shows_tools = served_model_shows_tools(m);
    f.reads_calls = f.format != OUTPUT_PLAIN;
    if (given != NULL) { /* plain too: the operator wants calls as text */
        f.format = *given;
        f.reads_calls = true;
        f.unread = NULL;
    }
    return f;
}

/* Logs what a model's template and parser do: people look here first where
 * tools do not work. */
static void log_model(const struct served_model *m, struct model_format f)
{
    log_info("model-text", "model=%s chat=%d tools=%s reasoning=%d unread=%s",
             m->name, f.has_chat,
             f.shows_tools && f.reads_calls ? output_format_name(f.format)
                                            : "none",
             f.has_reasoning, f.unread != NULL ? f.unread : "none");
}

/* Chooses the output format of each model, once. */
static void choose_formats(struct service *c)
{
    const struct served_models *models = c->options.models;

    for (uint32_t i = 0; i < models->n; i++) {
        c->formats[i] = format_of(&models->models[i], c->options.format);
        log_model(&models->models[i], c->formats[i]);
    }
}

void service_init(struct service *c, const struct service_options *o,
                  struct upstream *u, struct gateway_metrics *m)
{
    *c = (struct service){.options = *o, .upstream = u, .metrics = m};
    route_table_init(&c->routes, o->dialects != NULL ? o->dialects : dialects);
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

void service_job_error(struct openai_error *e, const struct prompt_job *j)
{
    enum status st = j->status;

    if (st == ST_RESOURCE_EXHAUSTED) {
        openai_error_memory(e);
        return;
    }
    /* The conversation alone showed a construct that templates lack. */
    openai_error_of_status(e, st == ST_UNIMPLEMENTED ? ST_INVALID_ARGUMENT : st,
                           &j->error);
    if (j->code != NULL) {
        e->code = j->code;
    }
}

bool service_is_ready(const struct service *c)
{
    return model_list_ready(&c->list) && !c->draining;
}

struct model_format service_format(const struct service *c,
                                   const struct served_model *m)
{
    const struct model_format none = {.format = OUTPUT_PLAIN};

    return m == NULL ? none : c->formats[m - c->options.models->models];
}

bool service_takes_tools(const struct service *c, const struct served_model *m,
                         bool answers, struct openai_error *e)
{
    struct model_format f = service_format(c, m);

    if (!f.shows_tools) {
        openai_error_set(e, 400, "tools", NULL,
                         "the model's chat template has no tools, so the model "
                         "would not see them; leave tools out");
        return false;
    }
    if (answers && !f.reads_calls) {
        openai_error_set(e, 400, "tools", NULL,
                         "the model writes its calls in a format that the "
                         "gateway does not read (%s), so they would come back "
                         "as text; leave tools out, or start the gateway with "
                         "--tool-format",
                         f.unread != NULL ? f.unread
                                          : "its template names "
                                            "none");
        return false;
    }
    return true;
}
