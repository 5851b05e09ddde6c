#include "tests/unit/gateway/core/world.h"

#include <stdlib.h>
#include <string.h>

#include "gateway/openai/json_out.h"
#include "proto/health.pb-c.h"
#include "proto/inference.pb-c.h"
#include "proto/registry.pb-c.h"
#include "tests/unit/cmocka.h"

static void push(struct queue *q, struct frame **f)
{
    assert_true(q->tail - q->head < QUEUE);
    q->frames[q->tail++ % QUEUE] = *f;
    *f = NULL;
}

static struct frame *pop(struct queue *q)
{
    return q->head == q->tail ? NULL : q->frames[q->head++ % QUEUE];
}

static int64_t now_us(struct node_io *io)
{
    return ((struct world *)io->impl)->now_us;
}

static uint64_t random_u64(struct node_io *io)
{
    return ((struct world *)io->impl)->random += 0x9e3779b97f4a7c15u;
}

static enum status send_up(struct node_io *io, struct peer_id to,
                           struct frame **f)
{
    (void)to;
    push(&((struct world *)io->impl)->up, f);
    return ST_OK;
}

static enum status send_down(struct node_io *io, struct peer_id to,
                             struct frame **f)
{
    (void)to;
    push(&((struct world *)io->impl)->down, f);
    return ST_OK;
}

static struct peer_id open_one(struct node_io *io)
{
    return (struct peer_id){++((struct world *)io->impl)->opened};
}

static void close_one(struct node_io *io, struct peer_id who)
{
    (void)io;
    (void)who;
}

static void list_models(struct world *w, struct peer *p, uint64_t call)
{
    Sluice__V1__ListModelsReply reply = SLUICE__V1__LIST_MODELS_REPLY__INIT;
    Sluice__V1__ModelInfo row = SLUICE__V1__MODEL_INFO__INIT, *rows = &row;

    row.name = wire_text(w->model);
    row.n_workers = 1;
    row.context = WORLD_CONTEXT;
    row.vocab = 4096;
    reply.models = &rows;
    reply.n_models = 1;
    peer_end(p, call, &reply.base);
}

static void on_call(void *node, struct peer *p, const struct method_row *m,
                    uint64_t call, int64_t deadline_us,
                    const ProtobufCMessage *request)
{
    const Sluice__V1__GenerateRequest *g =
        (const Sluice__V1__GenerateRequest *)request;
    Sluice__V1__HealthReply health = SLUICE__V1__HEALTH_REPLY__INIT;
    struct world *w = node;

    if (m->number == METHOD_INFERENCE_GENERATE) {
        w->deadline_us = deadline_us;
        w->call = call;
        w->n_calls++;
        w->max_tokens = g->max_tokens;
        w->guaranteed = g->guaranteed;
        assert_true(g->route.len <= ROUTE_NAME_MAX);
        memcpy(w->route, g->route.data, g->route.len);
        w->route[g->route.len] = '\0';
        snprintf(w->prompt, sizeof w->prompt, "%.*s", (int)g->text.len,
                 (const char *)g->text.data);
    } else if (m->number == METHOD_HEALTH_CHECK) { /* the session lives */
        peer_end(p, call, &health.base);
    } else if (m->number == METHOD_INFERENCE_LIST_MODELS && w->model != NULL) {
        list_models(w, p, call);
    } /* no other call is answered */
}

static void on_cancel(void *node, struct peer *p, uint64_t call)
{
    struct world *w = node;

    (void)p;
    if (call == w->call) {
        w->call = 0;
        w->n_cancels++;
    }
}

static void on_dirty(void *node, struct peer *p)
{
    (void)node;
    (void)p;
}

static const struct peer_ops router_ops = {
    .on_call = on_call, .on_cancel = on_cancel, .on_dirty = on_dirty};

static void answer_hello(struct world *w)
{
    Sluice__V1__HelloReply reply = SLUICE__V1__HELLO_REPLY__INIT;
    struct peer_config config = {.io = &w->router_io,
                                 .id = {w->opened},
                                 .session = 700,
                                 .self = BY_ROUTER,
                                 .other = BY_CLIENT,
                                 .ops = &router_ops,
                                 .node = w,
                                 .arena = &w->arena};
    struct frame *f;

    w->peer = peer_new(&config);
    reply.session = config.session;
    reply.version_major = WIRE_VERSION_MAJOR;
    reply.name = wire_text("router");
    f = hello_answer(config.session, &reply.base, NULL, 0);
    push(&w->down, &f);
}

static void router_takes(struct world *w, struct frame *f)
{
    struct frame_header h;

    assert_int_equal(frame_check(f->data, f->bytes, &h, NULL), ST_OK);
    if (h.session == 0) {
        if (!w->away) {
            answer_hello(w);
        }
    } else if (w->peer != NULL) {
        assert_int_not_equal(peer_recv(w->peer, f, &h, w->now_us), PEER_OUT);
    }
    frame_free(&f);
}

void world_run(struct world *w, int64_t ms)
{
    for (int64_t end = w->now_us + ms * 1000; w->now_us <= end;
         w->now_us += 5000) {
        struct frame *f;

        (void)gateway_node_ops.tick(w->core, w->now_us);
        if (w->told < w->opened) {
            w->told = w->opened;
            gateway_node_ops.opened(w->core, (struct peer_id){w->told});
        }
        while ((f = pop(&w->up)) != NULL) {
            router_takes(w, f);
        }
        if (w->peer != NULL) {
            peer_flush(w->peer, w->now_us);
        }
        while ((f = pop(&w->down)) != NULL) {
            gateway_node_ops.recv(w->core, (struct peer_id){w->opened}, &f);
        }
    }
}

static size_t http_write(struct http_io *io, struct http_conn_id id,
                         const char *data, size_t n)
{
    struct world *w = io->impl;

    (void)id;
    json_out_raw(&w->bytes, data, n);
    *json_out_reserve(&w->bytes, 1) = '\0';
    return n;
}

static void http_close(struct http_io *io, struct http_conn_id id)
{
    (void)io;
    (void)id;
}

static void http_pause(struct http_io *io, struct http_conn_id id, bool paused)
{
    (void)io;
    (void)id;
    (void)paused;
}

static enum status submit(struct prompt_seam *s, struct prompt_job **j)
{
    struct world *w =
        (struct world *)((char *)s - offsetof(struct world, prompts));

    if (w->job != NULL) {
        return ST_RESOURCE_EXHAUSTED;
    }
    w->job = *j;
    *j = NULL;
    return ST_OK;
}

static void http_peer(struct http_io *io, struct http_conn_id id,
                      char text[HTTP_CLIENT_TEXT])
{
    (void)io;
    (void)id;
    memcpy(text, "10.0.0.7", sizeof "10.0.0.7");
}

static struct prompt_job *poll_job(struct prompt_seam *s)
{
    struct world *w =
        (struct world *)((char *)s - offsetof(struct world, prompts));
    struct prompt_job *j = w->job;

    w->job = NULL;
    while (j != NULL && !prompt_job_step(j, SIZE_MAX)) {
    }
    return j;
}

static int64_t unix_s(void *arg)
{
    (void)arg;
    return 9;
}

struct world *world_new(const struct world_options *given)
{
    static const struct prompt_seam_ops jobs = {.submit = submit,
                                                .poll = poll_job};
    static struct world world;
    struct world *w = &world;
    struct http_io http = {.impl = w,
                           .write = http_write,
                           .close = http_close,
                           .pause = http_pause,
                           .peer = http_peer};
    struct gateway_options o = {
        .name = "gateway",
        .n_sessions = 1,
        .service = {.models = &w->models,
                    .prompts = &w->prompts,
                    .dialects = given->dialects,
                    .format = given->format,
                    .chat_tokens = given->chat_tokens,
                    .refuse_unknown = given->refuse_unknown,
                    .unix_s = unix_s},
        .http = {.proxies = &w->proxies}};
    struct error e;

    *w = (struct world){.now_us = 1000000,
                        .prompts = {&jobs},
                        .away = given->away,
                        .model = given->model};
    w->gateway_io = (struct node_io){.impl = w,
                                     .now_us = now_us,
                                     .random = random_u64,
                                     .send = send_up,
                                     .open = open_one,
                                     .close = close_one};
    w->router_io = w->gateway_io;
    w->router_io.send = send_down;
    arena_init(&w->arena);
    if (given->keys == NULL) {
        assert_int_equal(keys_open(&w->keys, &e), ST_OK);
    } else {
        assert_int_equal(
            keys_parse(&w->keys, given->keys, strlen(given->keys), &e), ST_OK);
    }
    if (given->served != NULL &&
        served_models_add(&w->models, given->served, given->template_file,
                          &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    if (given->proxy != NULL) {
        assert_true(http_proxies_add(&w->proxies, given->proxy));
    }
    o.service.keys = w->keys;
    w->core = gateway_new(&o, &w->gateway_io, &http);
    assert_true(http_server_accept(gateway_http(w->core), CLIENT));
    world_run(w, 100);
    assert_int_equal(gateway_is_up(w->core), !given->away);
    return w;
}

void world_free(struct world *w)
{
    struct frame *f;

    prompt_job_free(&w->job);
    gateway_free(&w->core);
    served_models_fini(&w->models);
    keys_free(&w->keys);
    peer_free(&w->peer);
    while ((f = pop(&w->up)) != NULL || (f = pop(&w->down)) != NULL) {
        frame_free(&f);
    }
    arena_fini(&w->arena);
    json_out_fini(&w->bytes);
}

void world_send(struct world *w, const char *method, const char *path,
                const char *lines, const char *body)
{
    char text[4096];
    int n = snprintf(text, sizeof text,
                     "%s %s HTTP/1.1\r\nhost: localhost\r\n%s"
                     "content-length: %zu\r\n\r\n%s",
                     method, path, lines, strlen(body), body);

    assert_true(n > 0 && (size_t)n < sizeof text);
    http_server_bytes(gateway_http(w->core), CLIENT, text, (size_t)n);
    world_run(w, 20);
}

void world_post(struct world *w, const char *path, const char *body)
{
    world_send(w, "POST", path, "", body);
}

void world_chunk(struct world *w, uint32_t first_index, const char *text,
                 int finish)
{
    Sluice__V1__GenerateChunk m = SLUICE__V1__GENERATE_CHUNK__INIT;
    Sluice__V1__GenerateFigures figures = SLUICE__V1__GENERATE_FIGURES__INIT;
    uint32_t token = 11;

    m.first_index = first_index;
    m.tokens = &token;
    m.n_tokens = 1;
    m.has_text = 1;
    m.text = wire_text(text);
    if (finish != SLUICE__V1__FINISH__FINISH_RUNNING) {
        m.has_finish = 1;
        m.finish = (Sluice__V1__Finish)finish;
        figures.n_prompt = 3;
        figures.n_generated = first_index + 1;
        m.figures = &figures;
    }
    assert_int_equal(peer_reply(w->peer, w->call, &m.base), ST_OK);
    if (finish != SLUICE__V1__FINISH__FINISH_RUNNING) {
        peer_end(w->peer, w->call, NULL);
    }
    world_run(w, 20);
}

void world_has(const struct world *w, const char *text)
{
    if (w->bytes.n == 0 || strstr(w->bytes.data, text) == NULL) {
        fail_msg("\"%s\" is not in:\n%s", text,
                 w->bytes.n > 0 ? w->bytes.data : "");
    }
}

void world_lacks(const struct world *w, const char *text)
{
    if (w->bytes.n > 0 && strstr(w->bytes.data, text) != NULL) {
        fail_msg("\"%s\" is in:\n%s", text, w->bytes.data);
    }
}

void world_forget(struct world *w)
{
    w->bytes.n = 0;
}
