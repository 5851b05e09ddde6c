#include "gateway/http/connection.h"

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

bool http_from_loopback(const struct http_exchange *x)
{
    return x->c->loopback;
}

uint64_t http_connection_number(const struct http_exchange *x)
{
    return x->c->id.v;
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
