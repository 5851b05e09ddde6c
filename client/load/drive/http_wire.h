/* http_wire.h - How requests reach an HTTP server: the seam between the HTTP
 * target and its two transports.
 *
 *   http_plain   http://, an HTTP/1.1 client of our own: libcurl costs about
 *                50 us of CPU for a request, which is 20,000 requests a second
 *                of a core with nothing left for the rest
 *   http_curl    https://, libcurl
 *
 * An exchange is started once.  Its events are sent, head, bytes.., done, in
 * this order; `done` may come at any time, and nothing follows it.  A stopped
 * exchange has no more events.  Every event may start or stop exchanges.
 *
 * Threading: one thread.  Memory: an exchange is the caller's, until it is done
 * or stopped. */
#ifndef CLIENT_LOAD_DRIVE_HTTP_WIRE_H
#define CLIENT_LOAD_DRIVE_HTTP_WIRE_H

#include "client/load/drive/http_url.h"
#include "client/load/drive/target.h"
#include "common/base/list.h"

struct http_exchange {
    const char *body; /* [n_body], borrowed */
    size_t n_body;
    /* Private to the transport: */
    void *link;          /* NULL: none yet, or done */
    struct list waiting; /* for a connection */
    bool sent, retried;
};

struct http_events {
    /* The first byte is handed to the system now; for a new connection, the
     * system is asked to connect now. */
    void (*sent)(struct http_exchange *x, int64_t now_us);
    void (*head)(struct http_exchange *x, int status, bool streams);
    void (*bytes)(struct http_exchange *x, const char *bytes, size_t n,
                  int64_t now_us);
    /* broken: a sentence; NULL if the response is complete. */
    void (*done)(struct http_exchange *x, const char *broken, int64_t now_us);
};

struct http_wire; /* a transport's own */

struct http_wire_ops {
    enum status (*open)(struct http_wire **out, const struct http_url *url,
                        const struct target_options *o,
                        const struct http_events *events, struct error *e);
    void (*close)(struct http_wire **w); /* exchanges have no event */
    void (*start)(struct http_wire *w, struct http_exchange *x);
    /* Closes the connection of the exchange. */
    void (*stop)(struct http_wire *w, struct http_exchange *x);
    /* Reads no more, or again. */
    void (*pause)(struct http_wire *w, struct http_exchange *x, bool paused);
    int (*fd)(const struct http_wire *w); /* poll it for POLLIN */
    int64_t (*due_us)(const struct http_wire *w);
    void (*turn)(struct http_wire *w);
};

extern const struct http_wire_ops http_plain;
extern const struct http_wire_ops http_curl;

/* Checks that an API key fits into a header line. */
MUST_CHECK enum status http_key_check(const char *key, struct error *e);

#endif
