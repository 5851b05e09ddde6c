/* http_peer.h - A server that a test drives by hand, in its own thread.
 *
 * Threading, memory: none; the caller's struct. */
#ifndef TESTS_UNIT_CLIENT_LOAD_DRIVE_HTTP_PEER_H
#define TESTS_UNIT_CLIENT_LOAD_DRIVE_HTTP_PEER_H

#include <stdbool.h>
#include <stddef.h>

#define PEER_MAX   16
#define PEER_BYTES 65536

struct http_peer {
    int listener;
    char url[64];
    int fds[PEER_MAX];             /* [n], -1 if closed */
    size_t n_whole[PEER_MAX];      /* requests that came to their end */
    char in[PEER_MAX][PEER_BYTES]; /* the request that is being read */
    size_t n_in[PEER_MAX];
    bool ended[PEER_MAX]; /* closed by the client */
    int n;
    size_t n_requests;
    char last[PEER_BYTES]; /* the last whole request */
};

void http_peer_open(struct http_peer *p);
void http_peer_close(struct http_peer *p);

/* Accepts and reads, without waiting. */
void http_peer_turn(struct http_peer *p);

/* Sends text on connection i; closes it; closes it with a reset. */
void http_peer_send(struct http_peer *p, int i, const char *text);
void http_peer_hang_up(struct http_peer *p, int i);
void http_peer_reset(struct http_peer *p, int i);

#endif
