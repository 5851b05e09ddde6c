/* http_curl.c - HTTPS through libcurl.
 *
 * libcurl must not be called from its callbacks, but events may start and stop
 * exchanges.  So callbacks only note what happened and when, and deliver()
 * passes it on after libcurl has returned. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <curl/curl.h>

#include "client/load/drive/http_text.h"
#include "client/load/drive/http_wire.h"
#include "common/base/memory.h"
#include "common/base/monotonic.h"

#define TURN_EVENTS     32
#define CONNECTIONS_MAX 65536L

struct http_wire {
    const struct http_events *events;
    CURLM *multi;
    struct curl_slist *headers;
    int epoll;
    int64_t due_us;
    char url[HTTP_URL_MAX + 320];
    bool insecure;
    uint32_t connect_ms;
    struct list busy, spares; /* handles */
    struct list news;         /* handles with events to deliver, by `fresh` */
    bool delivers;
};

struct handle {
    struct http_wire *w;
    struct http_exchange *x;
    CURL *easy;
    struct list node, fresh;
    bool added, told_head, is_done;
    int64_t sent_us; /* 0: not yet, or delivered */
    int64_t now_us;  /* of the newest bytes */
    struct http_text bytes;
    CURLcode result;
    char why[CURL_ERROR_SIZE];
};

/* ---- callbacks of libcurl ---- */

static void note(struct handle *h)
{
    if (!list_linked(&h->fresh)) {
        list_append(&h->w->news, &h->fresh);
    }
}

static void note_sent(struct handle *h)
{
    if (!h->x->sent) {
        h->x->sent = true;
        h->sent_us = monotonic_us();
        note(h);
    }
}

static curl_socket_t on_open(void *arg, curlsocktype purpose,
                             struct curl_sockaddr *a)
{
    (void)purpose;
    note_sent(arg);
    return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static int on_request(void *arg, char *to, char *from, int to_port,
                      int from_port)
{
    (void)to, (void)from, (void)to_port, (void)from_port;
    note_sent(arg);
    return CURL_PREREQFUNC_OK;
}

static size_t on_bytes(char *bytes, size_t one, size_t n, void *arg)
{
    struct handle *h = arg;

    http_text_put(&h->bytes, bytes, n * one);
    h->now_us = monotonic_us();
    note(h);
    return n * one;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg,
                     void *known)
{
    struct http_wire *w = arg;
    struct epoll_event ev = {.events =
                                 ((what & CURL_POLL_IN) != 0 ? EPOLLIN : 0u) |
                                 ((what & CURL_POLL_OUT) != 0 ? EPOLLOUT : 0u),
                             .data.fd = fd};

    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(w->epoll, EPOLL_CTL_DEL, fd, NULL);
    } else if (known != NULL) {
        epoll_ctl(w->epoll, EPOLL_CTL_MOD, fd, &ev);
    } else {
        epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &ev);
        curl_multi_assign(w->multi, fd, w);
    }
    return 0;
}

static int on_timer(CURLM *multi, long ms, void *arg)
{
    struct http_wire *w = arg;

    (void)multi;
    w->due_us = ms < 0 ? INT64_MAX : monotonic_us() + ms * 1000;
    return 0;
}

/* ---- handles ---- */

static void set_options(struct http_wire *w, struct handle *h)
{
    CURL *c = h->easy;

    curl_easy_setopt(c, CURLOPT_URL, w->url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, w->headers);
    curl_easy_setopt(c, CURLOPT_DNS_CACHE_TIMEOUT, -1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)w->connect_ms);
    curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, w->insecure ? 0L : 1L);
    curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, w->insecure ? 0L : 2L);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, h->why);
    curl_easy_setopt(c, CURLOPT_PRIVATE, h);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, h);
    curl_easy_setopt(c, CURLOPT_PREREQFUNCTION, on_request);
    curl_easy_setopt(c, CURLOPT_PREREQDATA, h);
    curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, on_open);
    curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, h);
}

static struct handle *take_handle(struct http_wire *w)
{
    struct list *node = list_take(&w->spares);
    struct handle *h;

    if (node != NULL) {
        h = LIST_OF(node, struct handle, node);
    } else {
        h = memory_must(calloc(1, sizeof *h));
        h->easy = curl_easy_init();
        assert(h->easy != NULL);
        h->w = w;
        list_init(&h->node);
        list_init(&h->fresh);
        set_options(w, h);
    }
    list_append(&w->busy, &h->node);
    h->told_head = false;
    h->is_done = false;
    h->sent_us = 0;
    h->bytes.n = 0;
    h->why[0] = '\0';
    return h;
}

/* Removing a handle from the multi handle in the middle of a response closes
 * its connection. */
static void put_back(struct handle *h)
{
    if (h->added) {
        h->added = false;
        curl_multi_remove_handle(h->w->multi, h->easy);
    }
    h->x = NULL;
    list_remove(&h->fresh);
    list_remove(&h->node);
    list_append(&h->w->spares, &h->node);
}

static void free_handles(struct list *handles)
{
    struct list *node;

    while ((node = list_take(handles)) != NULL) {
        struct handle *h = LIST_OF(node, struct handle, node);

        if (h->added) {
            curl_multi_remove_handle(h->w->multi, h->easy);
        }
        curl_easy_cleanup(h->easy);
        http_text_fini(&h->bytes);
        free(h);
    }
}

/* ---- events ---- */

static void tell_head(struct handle *h)
{
    static const char stream[] = "text/event-stream";
    char *type = NULL;
    long status = 0;

    h->told_head = true;
    curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(h->easy, CURLINFO_CONTENT_TYPE, &type);
    if (status > 0) {
        h->w->events->head(
            h->x, (int)status,
            type != NULL && strncasecmp(type, stream, sizeof stream - 1) == 0);
    }
}

static void tell_done(struct handle *h)
{
    char why[CURL_ERROR_SIZE + 16];
    struct http_exchange *x = h->x;
    struct http_wire *w = h->w;
    bool ok = h->result == CURLE_OK;

    snprintf(why, sizeof why, "%s",
             h->why[0] != '\0' ? h->why : curl_easy_strerror(h->result));
    x->link = NULL;
    put_back(h);
    w->events->done(x, ok ? NULL : why, monotonic_us());
}

/* Delivers the events of a handle, until the exchange is stopped. */
static void tell(struct handle *h)
{
    struct http_exchange *x = h->x;

    if (h->sent_us != 0) {
        int64_t sent_us = h->sent_us;

        h->sent_us = 0;
        h->w->events->sent(x, sent_us);
    }
    if (h->x == x && !h->told_head && (h->bytes.n > 0 || h->is_done)) {
        tell_head(h);
    }
    if (h->x == x && h->bytes.n > 0) {
        /* The event may stop the exchange and start another on the handle. */
        struct http_text bytes = h->bytes;

        h->bytes = (struct http_text){0};
        h->w->events->bytes(x, bytes.bytes, bytes.n, h->now_us);
        http_text_fini(&bytes);
    }
    if (h->x == x && h->is_done) {
        tell_done(h);
    }
}

static void collect_done(struct http_wire *w)
{
    CURLMsg *m;
    int left;

    while ((m = curl_multi_info_read(w->multi, &left)) != NULL) {
        struct handle *h = NULL;

        if (m->msg == CURLMSG_DONE &&
            curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &h) ==
                CURLE_OK) {
            h->result = m->data.result;
            h->is_done = true;
            note(h);
        }
    }
}

static void deliver(struct http_wire *w)
{
    struct list *node;

    if (w->delivers) {
        return;
    }
    w->delivers = true;
    collect_done(w);
    while ((node = list_take(&w->news)) != NULL) {
        tell(LIST_OF(node, struct handle, fresh));
        collect_done(w);
    }
    w->delivers = false;
}

/* ---- the transport ---- */

static void curl_turn(struct http_wire *w)
{
    struct epoll_event events[TURN_EVENTS];
    int n = epoll_wait(w->epoll, events, TURN_EVENTS, 0);
    int running;

    for (int i = 0; i < n; i++) {
        uint32_t e = events[i].events;

        curl_multi_socket_action(
            w->multi, events[i].data.fd,
            ((e & EPOLLIN) != 0 ? CURL_CSELECT_IN : 0) |
                ((e & EPOLLOUT) != 0 ? CURL_CSELECT_OUT : 0) |
                ((e & (EPOLLERR | EPOLLHUP)) != 0 ? CURL_CSELECT_ERR : 0),
            &running);
    }
    if (monotonic_us() >= w->due_us) {
        w->due_us = INT64_MAX;
        curl_multi_socket_action(w->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
    deliver(w);
}

static void curl_start(struct http_wire *w, struct http_exchange *x)
{
    struct handle *h = take_handle(w);
    int running;

    h->x = x;
    x->link = h;
    curl_easy_setopt(h->easy, CURLOPT_POSTFIELDS, x->body);
    curl_easy_setopt(h->easy, CURLOPT_POSTFIELDSIZE_LARGE,
                     (curl_off_t)x->n_body);
    h->added = curl_multi_add_handle(w->multi, h->easy) == CURLM_OK;
    if (!h->added) {
        h->result = CURLE_FAILED_INIT;
        h->is_done = true;
        note(h);
    }
    curl_multi_socket_action(w->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    deliver(w);
}

static void curl_stop(struct http_wire *w, struct http_exchange *x)
{
    (void)w;
    if (x->link != NULL) {
        put_back(x->link);
        x->link = NULL;
    }
}

static void curl_pause(struct http_wire *w, struct http_exchange *x,
                       bool paused)
{
    struct handle *h = x->link;

    if (h != NULL && !h->is_done) {
        curl_easy_pause(h->easy, paused ? CURLPAUSE_RECV : CURLPAUSE_CONT);
        deliver(w);
    }
}

static int curl_fd(const struct http_wire *w)
{
    return w->epoll;
}

static int64_t curl_due_us(const struct http_wire *w)
{
    return w->due_us;
}

static void curl_close(struct http_wire **self)
{
    struct http_wire *w = *self;

    *self = NULL;
    free_handles(&w->busy);
    free_handles(&w->spares);
    curl_multi_cleanup(w->multi);
    curl_slist_free_all(w->headers);
    if (w->epoll >= 0) {
        close(w->epoll);
    }
    free(w);
    curl_global_cleanup();
}

static void make_headers(struct http_wire *w, const struct target_options *o)
{
    struct http_text key = {0};

    w->headers = curl_slist_append(NULL, "Content-Type: application/json");
    w->headers = curl_slist_append(w->headers, "Expect:");
    w->headers = curl_slist_append(w->headers,
                                   "User-Agent: sluice-load/" SLUICE_VERSION);
    if (o->key != NULL) {
        http_text_puts(&key, "Authorization: Bearer ");
        http_text_put(&key, o->key, strlen(o->key) + 1);
        w->headers = curl_slist_append(w->headers, key.bytes);
        http_text_fini(&key);
    }
    assert(w->headers != NULL);
}

static enum status curl_open(struct http_wire **out, const struct http_url *url,
                             const struct target_options *o,
                             const struct http_events *events, struct error *e)
{
    struct http_wire *w = memory_must(calloc(1, sizeof *w));

    curl_global_init(CURL_GLOBAL_DEFAULT);
    w->events = events;
    w->due_us = INT64_MAX;
    w->insecure = o->insecure;
    w->connect_ms = o->connect_ms;
    list_init(&w->busy);
    list_init(&w->spares);
    list_init(&w->news);
    make_headers(w, o);
    snprintf(w->url, sizeof w->url, "%s://%s%s%s",
             url->secure ? "https" : "http", url->authority, url->base,
             o->chat ? "/chat/completions" : "/completions");
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    w->multi = curl_multi_init();
    if (w->epoll < 0 || w->multi == NULL) {
        curl_close(&w);
        return error_set(e, ST_RESOURCE_EXHAUSTED, "libcurl cannot start");
    }
    curl_multi_setopt(w->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(w->multi, CURLMOPT_SOCKETDATA, w);
    curl_multi_setopt(w->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(w->multi, CURLMOPT_TIMERDATA, w);
    curl_multi_setopt(w->multi, CURLMOPT_MAXCONNECTS, CONNECTIONS_MAX);
    curl_multi_setopt(w->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS,
                      (long)o->n_connections);
    *out = w;
    return ST_OK;
}

const struct http_wire_ops http_curl = {curl_open,   curl_close, curl_start,
                                        curl_stop,   curl_pause, curl_fd,
                                        curl_due_us, curl_turn};
