#include <string.h>

#include "gateway/http/connection.h"
#include "gateway/http/proxies.h"

enum http_method http_method_of(const struct http_exchange *x)
{
    return (enum http_method)x->request.head.method;
}

const char *http_path(const struct http_exchange *x)
{
    return http_head_text(&x->request.head, 0);
}

/* Offset 0 is the path, so it can mean "no query". */
const char *http_query(const struct http_exchange *x)
{
    uint16_t at = x->request.head.query;

    return at == 0 ? "" : http_head_text(&x->request.head, at);
}

const char *http_header(const struct http_exchange *x, const char *name,
                        size_t *n)
{
    const struct http_field *f = http_head_find(&x->request.head, name, 0);

    if (n != NULL) {
        *n = f == NULL ? 0 : f->value_n;
    }
    return f == NULL ? NULL : http_head_text(&x->request.head, f->value);
}

const char *http_body(const struct http_exchange *x, size_t *n)
{
    const struct http_buffer *body = &x->request.body;

    /* The NUL is not part of the body. */
    *n = body->n == 0 ? 0 : body->n - 1;
    return body->n == 0 ? "" : body->data;
}

void http_body_take(struct http_exchange *x, struct http_buffer *to)
{
    struct http_buffer *body = &x->request.body;
    struct memory_budget *budget = body->budget;

    *to = *body;
    to->n -= to->n > 0; /* the NUL */
    *body = (struct http_buffer){.budget = budget};
}

uint64_t http_connection_number(const struct http_exchange *x)
{
    return x->c->id.v;
}

void connection_client(const struct http_connection *c,
                       char text[HTTP_CLIENT_TEXT])
{
    struct http_io *io = &c->server->io;

    memcpy(text, "-", sizeof "-");
    if (io->peer != NULL) {
        io->peer(io, c->id, text);
    }
}

void http_client(const struct http_exchange *x, char text[HTTP_CLIENT_TEXT])
{
    const struct http_proxies *proxies = x->c->server->options.proxies;

    connection_client(x->c, text);
    if (proxies != NULL) {
        http_proxies_client(proxies, x, text);
    }
}

/* Method, version and framing stay: the response depends on them. */
void http_body_free(struct http_exchange *x)
{
    http_request_fini(&x->request);
}

void http_set_user(struct http_exchange *x, void *user)
{
    x->user = user;
}

void *http_user(const struct http_exchange *x)
{
    return x->user;
}
