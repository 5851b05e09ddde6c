/* http.h - The server side of HTTP/1.1, without sockets and clocks.
 *
 * A server turns the bytes of connections into exchanges, and answers into
 * bytes.  The owner of the sockets reports events; struct http_io does the
 * writing:
 *
 *     http_server_accept, _bytes, _eof     --> handler.head, handler.request
 *     http_answer, http_stream_*           --> io.write, at the next tick
 *     http_server_lost, _eof, a timeout    --> handler.gone
 *
 * An exchange is one request and its response:
 *
 *     head arrives --> [head] --> body arrives --> request --> response ends
 *                                                     |
 *                          client gone or stalled --> gone
 *
 * Rules:
 *   - Requests of one connection are handled in order, one at a time.  Bytes
 *     of later requests wait, and reading is paused.
 *   - The server itself answers faulty requests, in the form of OpenAI's
 *     errors, and closes the connection.  The parser accepts one spelling of
 *     each thing: a request that two servers could read differently is
 *     refused.
 *   - A client that closes its sending side during an exchange has gone.
 *   - Output is collected until the next tick: one write a connection.
 *   - Any split of the same bytes gives the same exchanges and answers.
 *
 * Threading: one thread.  No function may run inside io's functions.  Those of
 * an exchange may run inside the handler's; those of the server may not.
 * Memory: an idle connection has no buffers and costs less than 1 KiB.  A
 * response without its request (http_body_free) costs less than 2 KiB and
 * the output that the client has not yet taken.
 * Limits: gateway/http/http_limits.h, and struct http_options. */
#ifndef GATEWAY_HTTP_HTTP_H
#define GATEWAY_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

struct http_buffer;
struct http_server;
struct http_exchange;
struct http_metrics;
struct memory_budget;
struct http_proxies;

/* Names a connection.  The owner of the sockets chooses the number. */
struct http_conn_id {
    uint32_t v;
};

/* Bytes of an address as text, with its NUL. */
#define HTTP_CLIENT_TEXT 48

struct http_io {
    void *impl;
    /* Sends at most n bytes and returns how many were taken.  If fewer are,
     * http_server_writable() follows.  A broken connection takes any number,
     * and http_server_lost() follows. */
    size_t (*write)(struct http_io *io, struct http_conn_id id,
                    const char *data, size_t n);
    /* Closes a connection whose output was taken; no event of it follows. */
    void (*close)(struct http_io *io, struct http_conn_id id);
    /* Stops or restarts reading.  http_server_eof() may come while paused. */
    void (*pause)(struct http_io *io, struct http_conn_id id, bool paused);
    /* Writes the address of the peer, without its port; NULL: none is known. */
    void (*peer)(struct http_io *io, struct http_conn_id id,
                 char text[HTTP_CLIENT_TEXT]);
};

#define HTTP_REFUSED_LINES 128

struct http_handler {
    /* Receives an exchange whose body has not arrived; may be NULL.  It may
     * answer, for example 401: the body is then not read. */
    void (*head)(void *arg, struct http_exchange *x);
    /* Receives a whole request. */
    void (*request)(void *arg, struct http_exchange *x);
    /* Receives an exchange whose response will reach nobody.  x ends on
     * return.  Not called after the response's end, nor before head or
     * request was called. */
    void (*gone)(void *arg, struct http_exchange *x);
    /* Receives the status with which the server itself refuses a request, and
     * the client's address.  It may write whole header lines of the answer;
     * may be NULL. */
    void (*refused)(void *arg, int status, const char *client,
                    char lines[HTTP_REFUSED_LINES]);
};

/* A value of 0 means the default of http_limits.h. */
struct http_options {
    size_t body_bytes_max;     /* body of one request */
    size_t requests_bytes_max; /* memory of all requests together */
    size_t outputs_bytes_max;  /* for all outputs but short ones */
    size_t output_bytes_max;   /* streamed output that a client has not taken */
    uint32_t connections_max;
    /* Prefixes of paths that end in a name, in which a slash may be encoded;
     * they end with NULL and are borrowed.  NULL: none. */
    const char *const *names_under;
    const struct http_proxies *proxies; /* trusted; borrowed.  NULL: none */
    uint32_t head_ms;  /* from a head's first byte to its end */
    uint32_t body_ms;  /* without progress of a body */
    uint32_t idle_ms;  /* without a request */
    uint32_t write_ms; /* without progress of the output */
    /* Seconds since 1970, for the Date header; NULL: no such header. */
    int64_t (*unix_s)(void *);
    void *unix_arg;
};

/* ---- the server ---- */

/* Makes a server; options, io and handler are copied, io->impl and arg are
 * borrowed. */
struct http_server *http_server_new(const struct http_options *options,
                                    const struct http_io *io,
                                    const struct http_handler *handler,
                                    void *arg);

/* Closes all connections, with gone() for open exchanges. */
void http_server_close(struct http_server *s);

/* Does so, and frees the server with its budgets, in which nothing may count
 * any more.  NULL is legal. */
void http_server_free(struct http_server **s);

/* Adds a connection.  Returns false if there are connections_max or id is in
 * use; the caller then closes it. */
bool http_server_accept(struct http_server *s, struct http_conn_id id);

/* Receives bytes, at most HTTP_READ_BYTES_MAX.  This event and the next three
 * are ignored for an unknown id. */
void http_server_bytes(struct http_server *s, struct http_conn_id id,
                       const char *data, size_t n);

/* Reports that the client sends no more. */
void http_server_eof(struct http_server *s, struct http_conn_id id);

/* Reports that the connection takes output again. */
void http_server_writable(struct http_server *s, struct http_conn_id id);

/* Reports a broken connection; io->close is not called for it. */
void http_server_lost(struct http_server *s, struct http_conn_id id);

/* Writes collected output, closes, and applies timeouts; call it after each
 * round of events.  Returns when it must run next; INT64_MAX: after the next
 * event. */
int64_t http_server_tick(struct http_server *s, int64_t now_us);

/* Drains: closes idle connections now and others after their response. */
void http_server_drain(struct http_server *s);

/* Returns the number of open connections. */
uint32_t http_server_connections(const struct http_server *s);

/* Returns the counters (gateway/http/http_metrics.h), which live as long as
 * the server.  The owner of the sockets adds its own counts. */
struct http_metrics *http_server_metrics(struct http_server *s);

/* Returns the budget of requests_bytes_max, for what a request holds beside its
 * head and body.  It lives as long as the server. */
struct memory_budget *http_server_memory(struct http_server *s);

/* ---- a request ---- */

enum http_method { HTTP_GET, HTTP_HEAD, HTTP_POST, HTTP_OPTIONS, HTTP_OTHER };

enum http_method http_method_of(const struct http_exchange *x);

/* Returns the path with percent-encoding resolved and without the query: "*"
 * or an absolute path without empty and dot segments, in UTF-8. */
const char *http_path(const struct http_exchange *x);

/* Returns what follows the first "?", as sent; "" if there is none. */
const char *http_query(const struct http_exchange *x);

/* Returns a header's value without outer spaces, with a NUL; name in lower
 * case.  Returns NULL if there is none, and the first of several.  n may be
 * NULL. */
const char *http_header(const struct http_exchange *x, const char *name,
                        size_t *n);

/* Returns the body.  A NUL follows its n bytes. */
const char *http_body(const struct http_exchange *x, size_t *n);

/* Moves the body to *to, all zeros before, which then outlives the exchange;
 * the exchange has an empty one.  A NUL follows if it has any byte. */
void http_body_take(struct http_exchange *x, struct http_buffer *to);

/* Returns a number that the exchanges of one connection share. */
uint64_t http_connection_number(const struct http_exchange *x);

/* Writes the address of the client, "-" if it is not known.  Behind a trusted
 * proxy it is the one that the proxy states (proxies.h). */
void http_client(const struct http_exchange *x, char text[HTTP_CLIENT_TEXT]);

/* Frees path, query, headers and body before the exchange ends; they are then
 * empty. */
void http_body_free(struct http_exchange *x);

void http_set_user(struct http_exchange *x, void *user);
void *http_user(const struct http_exchange *x);

/* ---- a response ---- */

struct http_answer {
    int status;
    const char *content_type; /* NULL: no body */
    const char *body;         /* [n] */
    size_t n;
    const char *headers; /* whole lines "Name: value\r\n"; NULL: none */
};

/* Sends a whole response of any length; the exchange ends.  A HEAD request
 * gets the headers only. */
void http_answer(struct http_exchange *x, const struct http_answer *answer);

/* Sends an error in the form of OpenAI's, of type invalid_request_error, or
 * server_error for 5xx.  The exchange ends. */
void http_answer_error(struct http_exchange *x, int status,
                       const char *message);

/* Begins a response whose length is unknown; answer's body is ignored. */
void http_stream_begin(struct http_exchange *x,
                       const struct http_answer *answer);

/* Adds to a response.  Returns false if the client had output left to take, and
 * would have more than output_bytes_max with data: data is dropped, and gone()
 * follows at the next tick. */
bool http_stream_write(struct http_exchange *x, const char *data, size_t n);

/* Ends a response that http_stream_begin() began, and the exchange.  If
 * http_stream_write() returned false, it has no effect. */
void http_stream_end(struct http_exchange *x);

/* Cuts a response that http_stream_begin() began: the connection closes without
 * the body's end.  gone() follows. */
void http_stream_cut(struct http_exchange *x);

#endif
