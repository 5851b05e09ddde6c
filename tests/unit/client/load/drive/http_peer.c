#include "tests/unit/client/load/drive/http_peer.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

void http_peer_open(struct http_peer *p)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;

    memset(p, 0, sizeof *p);
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(p->listener, (void *)&a, size), 0);
    assert_int_equal(listen(p->listener, 64), 0);
    assert_int_equal(getsockname(p->listener, (void *)&a, &size), 0);
    snprintf(p->url, sizeof p->url, "http://127.0.0.1:%d", ntohs(a.sin_port));
}

void http_peer_close(struct http_peer *p)
{
    for (int i = 0; i < p->n; i++) {
        http_peer_hang_up(p, i);
    }
    close(p->listener);
}

static void end_request(struct http_peer *p, int i, size_t n)
{
    memcpy(p->last, p->in[i], n);
    p->last[n] = '\0';
    memmove(p->in[i], p->in[i] + n, p->n_in[i] - n);
    p->n_in[i] -= n;
    p->n_whole[i]++;
    p->n_requests++;
}

static void read_request(struct http_peer *p, int i)
{
    ssize_t n = recv(p->fds[i], p->in[i] + p->n_in[i],
                     PEER_BYTES - 1 - p->n_in[i], MSG_DONTWAIT);
    char *end, *length;

    if (n <= 0) {
        p->ended[i] |= n == 0;
        return;
    }
    p->n_in[i] += (size_t)n;
    p->in[i][p->n_in[i]] = '\0';
    end = strstr(p->in[i], "\r\n\r\n");
    length = strcasestr(p->in[i], "content-length: ");
    if (end != NULL && length != NULL) {
        size_t whole =
            (size_t)(end - p->in[i]) + 4 + strtoul(length + 16, NULL, 10);

        if (p->n_in[i] >= whole) {
            end_request(p, i, whole);
        }
    }
}

void http_peer_turn(struct http_peer *p)
{
    int fd = accept(p->listener, NULL, NULL);

    if (fd >= 0) {
        assert_true(p->n < PEER_MAX);
        p->fds[p->n++] = fd;
    }
    for (int i = 0; i < p->n; i++) {
        if (p->fds[i] >= 0 && !p->ended[i]) {
            read_request(p, i);
        }
    }
}

void http_peer_send(struct http_peer *p, int i, const char *text)
{
    assert_int_equal(send(p->fds[i], text, strlen(text), MSG_NOSIGNAL),
                     strlen(text));
}

void http_peer_hang_up(struct http_peer *p, int i)
{
    if (p->fds[i] >= 0) {
        close(p->fds[i]);
        p->fds[i] = -1;
    }
}

void http_peer_reset(struct http_peer *p, int i)
{
    struct linger now = {1, 0};

    setsockopt(p->fds[i], SOL_SOCKET, SO_LINGER, &now, sizeof now);
    http_peer_hang_up(p, i);
}
