/* world.h - An HTTP server with one client, without sockets.
 *
 * The handler records each request in `log` as "POST /path?query body\n", and
 * answers it at once with the path, unless `hold` keeps it open.
 *
 * Threading: none.  Memory: the caller's storage; world_end() frees. */
#ifndef TESTS_UNIT_GATEWAY_HTTP_WORLD_H
#define TESTS_UNIT_GATEWAY_HTTP_WORLD_H

#include "gateway/http/buffer.h"
#include "gateway/http/http.h"
#include "gateway/http/http_limits.h"
#include "gateway/http/http_metrics.h"

#define WORLD_ID ((struct http_conn_id){7})

struct world {
    struct http_server *server;
    int64_t now_us;
    struct http_buffer log, output;
    size_t room; /* bytes that io takes until world_take() */
    bool hold;   /* keep exchanges open, in x */
    bool closed, paused, gone;
    struct http_exchange *x;
    int refuse_heads;  /* status with which heads are answered, 0: none */
    bool hold_heads;   /* keep the last two exchanges without body, in heads */
    bool stream_heads; /* and begin their responses */
    struct http_exchange *heads[2];
};

/* Makes a server with one connection; options may be NULL. */
void world_begin(struct world *w, const struct http_options *options);
void world_end(struct world *w);

/* Gives bytes in pieces of at most `piece`, with a tick after each. */
void world_send(struct world *w, const char *data, size_t n, size_t piece);
void world_send_text(struct world *w, const char *text);

void world_tick(struct world *w);

/* Advances the clock and ticks. */
void world_wait(struct world *w, uint32_t ms);

/* Lets io take n more bytes. */
void world_take(struct world *w, size_t n);

/* Returns what was recorded, or sent, so far; "" if nothing. */
const char *world_log(struct world *w);
const char *world_output(struct world *w);

/* Returns the status of the first response, 0 without one. */
int world_status(struct world *w);

#endif
