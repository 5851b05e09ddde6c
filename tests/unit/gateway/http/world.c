#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t io_write(struct http_io *io, struct http_conn_id id,
                       const char *data, size_t n)
{
    struct world *w = io->impl;

    (void)id;
    n = n < w->room ? n : w->room;
    w->room -= n;
    http_buffer_append(&w->output, data, n);
    return n;
}

static void io_close(struct http_io *io, struct http_conn_id id)
{
    (void)id;
    ((struct world *)io->impl)->closed = true;
}

static void io_pause(struct http_io *io, struct http_conn_id id, bool paused)
{
    (void)id;
    ((struct world *)io->impl)->paused = paused;
}

static void on_head(void *arg, struct http_exchange *x)
{
    struct world *w = arg;

    if (w->refuse_heads != 0) {
        http_answer_error(x, w->refuse_heads, "not today");
    } else if (w->hold_heads) {
        w->heads[1] = w->heads[0];
        w->heads[0] = x;
        if (w->stream_heads) {
            http_stream_begin(x, &(struct http_answer){.status = 200});
        }
    }
}

static void record(struct world *w, struct http_exchange *x)
{
    static const char *const methods[] = {"GET", "HEAD", "POST", "OPTIONS",
                                          "OTHER"};
    size_t n;
    const char *body = http_body(x, &n);

    http_buffer_text(&w->log, methods[http_method_of(x)]);
    http_buffer_text(&w->log, " ");
    http_buffer_text(&w->log, http_path(x));
    http_buffer_text(&w->log, "?");
    http_buffer_text(&w->log, http_query(x));
    http_buffer_text(&w->log, " ");
    http_buffer_append(&w->log, body, n);
    http_buffer_text(&w->log, "\n");
}

static void on_request(void *arg, struct http_exchange *x)
{
    struct world *w = arg;
    const char *path = http_path(x);

    record(w, x);
    if (w->hold) {
        w->x = x;
        return;
    }
    http_answer(x, &(struct http_answer){.status = 200,
                                         .content_type = "text/plain",
                                         .body = path,
                                         .n = strlen(path)});
}

static void on_gone(void *arg, struct http_exchange *x)
{
    struct world *w = arg;

    w->gone = true;
    w->x = NULL;
    /* One exchange takes another with it. */
    for (int i = 0; i < 2; i++) {
        struct http_exchange *other = w->heads[i];

        w->heads[i] = NULL;
        if (other != NULL && other != x) {
            http_answer_error(other, 503, "gone with the other");
        }
    }
}

void world_begin(struct world *w, const struct http_options *options)
{
    static const char *const names[] = {"/other/", "/names/", NULL};
    static const struct http_options defaults = {.names_under = names};
    static const struct http_handler handler = {
        .head = on_head, .request = on_request, .gone = on_gone};
    const struct http_io io = {
        .impl = w, .write = io_write, .close = io_close, .pause = io_pause};

    *w = (struct world){.now_us = 1000000, .room = SIZE_MAX};
    w->server = http_server_new(options != NULL ? options : &defaults, &io,
                                &handler, w);
    if (!http_server_accept(w->server, WORLD_ID)) {
        abort();
    }
    world_tick(w);
}

void world_end(struct world *w)
{
    http_server_free(&w->server);
    http_buffer_fini(&w->log);
    http_buffer_fini(&w->output);
}

/* Ticks until nothing is due at once, as a loop does. */
void world_tick(struct world *w)
{
    while (http_server_tick(w->server, w->now_us) <= w->now_us) {
    }
}

void world_wait(struct world *w, uint32_t ms)
{
    w->now_us += 1000 * (int64_t)ms;
    world_tick(w);
}

/* The bytes are copied to an allocation of their own, so that a sanitizer
 * detects a read past them. */
void world_send(struct world *w, const char *data, size_t n, size_t piece)
{
    while (n > 0 && !w->closed) {
        size_t k = n < piece ? n : piece;
        char *copy;

        k = k < HTTP_READ_BYTES_MAX ? k : HTTP_READ_BYTES_MAX;
        copy = malloc(k);
        if (copy == NULL) {
            abort();
        }
        memcpy(copy, data, k);
        http_server_bytes(w->server, WORLD_ID, copy, k);
        free(copy);
        world_tick(w);
        data += k;
        n -= k;
    }
}

void world_send_text(struct world *w, const char *text)
{
    world_send(w, text, strlen(text), SIZE_MAX);
}

void world_take(struct world *w, size_t n)
{
    w->room += n;
    http_server_writable(w->server, WORLD_ID);
    world_tick(w);
}

static const char *text_of(struct http_buffer *b)
{
    if (b->n == 0) {
        return "";
    }
    http_buffer_append(b, "", 1);
    b->n--;
    return http_buffer_data(b);
}

const char *world_log(struct world *w)
{
    return text_of(&w->log);
}

const char *world_output(struct world *w)
{
    return text_of(&w->output);
}

int world_status(struct world *w)
{
    int status = 0;

    (void)!sscanf(world_output(w), "HTTP/1.1 %d", &status);
    return status;
}
