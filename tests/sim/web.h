/* web.h - HTTP clients of the gateways, and the connections to them.
 *
 *     script ──pieces──▶ http_server ──write──▶ pipe ──reads──▶ web_reader
 *
 * A connection sends the bytes of its requests in pieces at drawn times, one
 * request after the other or all at once.  What the server writes waits in a
 * pipe of bounded size until the client reads it.  Clients read at any speed,
 * stop reading, leave at any moment, or send only half of a request.
 *
 * The prompts of a request that generates are struct sim_request, so that the
 * rules for requests hold for them too.  tests/sim/web_check.h checks the
 * response. */
#ifndef SIM_WEB_H
#define SIM_WEB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/http/http.h"
#include "proto/inference.pb-c.h"
#include "tests/sim/web_reader.h"

struct sim;

#define WEB_CONNS_MAX   400
#define WEB_CALLS_MAX   4 /* requests of a connection */
#define WEB_PROMPTS_MAX 3

/* Behaviour of a client, besides sending and reading. */
enum web_way {
    WEB_READS,
    WEB_LEAVES, /* ends the connection at some moment */
    WEB_STALLS, /* stops reading for good */
    WEB_HALF,   /* sends only part of its last request */
    WEB_WAYS
};

enum web_kind { WEB_COMPLETION, WEB_CHAT, WEB_OTHER };

/* One request of a connection and its response. */
struct web_call {
    uint32_t conn;
    enum web_kind kind;
    bool stream, include_usage;
    bool cut;          /* without its whole response */
    bool echo;         /* the text begins with the prompt */
    size_t end;        /* where its bytes end in the script */
    int status;        /* WEB_OTHER: expected */
    bool ends_conn;    /* WEB_OTHER: the server closes after it */
    bool lists;        /* WEB_OTHER: 503 before a router has named its models */
    bool head_only;    /* no body follows */
    bool old_version;  /* HTTP/1.0 */
    bool padded;       /* its body is long */
    uint32_t first, n; /* requests of its prompts */
};

struct web_conn {
    struct sim *sim;
    uint32_t number, gateway;
    int64_t since_us;
    enum web_way way;
    bool early; /* opened before a router had named its models */
    bool half;  /* its script is cut: the last request never arrives whole */
    bool pipelined;
    struct web_call calls[WEB_CALLS_MAX];
    uint32_t n_calls, n_over;

    char *script; /* [n_script], owned */
    size_t n_script, sent;
    bool sending, paused; /* a piece is scheduled; the server reads nothing */

    bool open;    /* at the server */
    bool blocked; /* the server waits for room in the pipe */
    bool reading; /* a read is scheduled */
    bool closed;  /* by the server */
    bool broken;  /* its gateway has died */
    bool drained; /* its gateway has drained */
    bool left;    /* its client has gone */
    bool stalled; /* ... reads no more */
    bool slow;    /* the server closed while its pipe was full */
    bool over;
    int64_t freed_us;               /* when its pipe had room again */
    char *pipe;                     /* [n_pipe] of pipe_bytes, owned */
    size_t n_pipe, n_read, stop_at; /* it stalls or leaves after stop_at */
    struct web_reader reader;
};

struct web {
    struct web_conn *conns; /* [n_conns] of WEB_CONNS_MAX, owned */
    uint32_t n_conns, n_open;
    uint64_t n_bytes; /* read by all clients: progress */
};

void web_start(struct sim *s);
void web_fini(struct sim *s);

/* Returns the io of the HTTP servers. */
struct http_io web_io(struct sim *s);

/* Opens a drawn connection, with its requests. */
void web_connect(struct sim *s);

/* Breaks the connections of a gateway that dies. */
void web_gateway_dies(struct sim *s, uint32_t gateway);

/* Marks the connections of a gateway that drains. */
void web_gateway_stops(struct sim *s, uint32_t gateway);

/* Returns the request whose prompt r has: its gateway calls Generate for it for
 * the first time.  UINT32_MAX: there is none. */
uint32_t web_named(struct sim *s, uint32_t gateway,
                   const Sluice__V1__GenerateRequest *r);

/* Returns whether all connections are over, else why not. */
bool web_quiet(struct sim *s, char *why, size_t cap);

#endif
