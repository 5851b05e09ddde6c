/* connection.h - Connections of a server and their exchanges, inside the room.
 *
 *     IDLE --first byte--> RECEIVING --whole--> HANDLED --end--> IDLE
 *       (no exchange)       (exchange)          (exchange)
 *
 * Flags overlay these states:
 *   deaf      input is discarded: a response will end the connection
 *   closing   close once the output is taken
 *   doomed    close at the next tick, whatever is left
 *
 * A connection that changed is put on the server's dirty list with
 * connection_touch().  The tick then settles it: output, closing, pausing and
 * its timer are handled there, and only there connections are freed, other
 * than by http_server_lost() and _free().
 *
 * Threading: the server's.  Memory: one allocation a connection and one an
 * exchange, and their buffers. */
#ifndef GATEWAY_HTTP_CONNECTION_H
#define GATEWAY_HTTP_CONNECTION_H

#include "common/base/list.h"
#include "common/base/memory.h"
#include "common/base/table.h"
#include "common/base/timer.h"
#include "gateway/http/http.h"
#include "gateway/http/http_metrics.h"
#include "gateway/http/request.h"

struct http_server {
    struct http_options options; /* without zeros */
    struct http_io io;
    struct http_handler handler;
    void *arg;
    struct table by_id;
    struct list all, dirty;
    struct timers timers;
    struct memory_budget budget;  /* requests */
    struct memory_budget outputs; /* responses */
    struct http_metrics metrics;
    int64_t now_us; /* time of the last tick */
    int64_t date_s; /* when date was made */
    char date[40];  /* the header's line */
    bool draining;
};

/* Reasons to wait; each has its timeout. */
enum http_wait {
    HTTP_WAIT_NONE,
    HTTP_WAIT_IDLE,
    HTTP_WAIT_HEAD,
    HTTP_WAIT_BODY,
    HTTP_WAIT_WRITE
};

struct http_connection {
    struct table_node node;
    struct list all, dirty;
    struct timer timer;
    struct http_server *server;
    struct http_exchange *x;  /* NULL: idle */
    struct http_buffer out;   /* output */
    struct http_buffer ahead; /* input that waits for its turn */
    struct http_conn_id id;
    uint32_t progress; /* bytes since the timer was armed */
    uint16_t requests; /* in this turn */
    uint8_t wait;      /* enum http_wait, of the armed timer */
    bool deaf, closing, doomed;
    bool blocked; /* http_server_writable() will follow */
    bool paused;
    bool renew;           /* arm the timer again */
    bool short_of_memory; /* output is missing: no more is written */
};

struct http_exchange {
    struct http_connection *c;
    void *user;
    struct http_request request;
    bool known;   /* the handler has it */
    bool handled; /* received whole, or answered before */
    bool chunked; /* the response */
    bool dead;    /* over output_bytes_max */
};

/* Makes a connection of s. */
struct http_connection *connection_new(struct http_server *s,
                                       struct http_conn_id id);

/* Frees the connection, with gone() for its exchange. */
void connection_free(struct http_connection *c);

/* Marks the connection to be settled. */
void connection_touch(struct http_connection *c);

/* Receives bytes of the client, or the end of them. */
void connection_bytes(struct http_connection *c, const char *data, size_t n);
void connection_eof(struct http_connection *c);

/* Writes, closes, pauses and arms the timer.  May free the connection. */
void connection_settle(struct http_connection *c);

/* Applies the timeout that the connection waited for. */
void connection_expire(struct http_connection *c);

/* Writes to io what it takes of the output. */
void connection_write(struct http_connection *c);

/* Writes the address of the client, "-" if it is not known. */
void connection_client(const struct http_connection *c,
                       char text[HTTP_CLIENT_TEXT]);

/* Ends the exchange after its response.  keep: the connection goes on. */
void exchange_end(struct http_exchange *x, bool keep);

/* Writes the answer to a faulty request, or to one that came too slowly. */
void response_refuse(struct http_connection *c, const struct http_refusal *r,
                     bool head_only);

#endif
