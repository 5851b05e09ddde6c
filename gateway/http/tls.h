/* tls.h - TLS 1.2 and 1.3 on non-blocking sockets, by OpenSSL.
 *
 * A context holds a certificate and is shared by the connections made with it:
 * they keep it alive, so it can be replaced at any time.
 *
 * Threading: one thread.  Memory: OpenSSL's; buffers are released while a
 * connection is idle.  Limits: HTTP_READ_BYTES_MAX is a whole record, so no
 * decrypted byte waits inside OpenSSL after a read. */
#ifndef GATEWAY_HTTP_TLS_H
#define GATEWAY_HTTP_TLS_H

#include <stddef.h>

#include <openssl/ssl.h>

#include "common/base/status.h"

enum tls_result {
    TLS_DONE,
    TLS_WANTS_READ,
    TLS_WANTS_WRITE,
    TLS_END,
    TLS_PLAIN, /* the peer sends HTTP without TLS, which is not read */
    TLS_BROKEN
};

/* Reads certificate chain and key from files in PEM.  Returns
 * ST_INVALID_ARGUMENT, and an error that names the file, if a file is wrong or
 * the key belongs to another certificate. */
MUST_CHECK enum status tls_context_new(SSL_CTX **out, const char *cert,
                                       const char *key, struct error *e);

/* Makes the server's side of a connection.  Returns NULL without memory. */
SSL *tls_new(SSL_CTX *context, int fd);

/* Runs the handshake further.  Returns TLS_DONE when it is complete, TLS_PLAIN
 * before it begins. */
enum tls_result tls_handshake(SSL *ssl);

/* Reads at most cap bytes and sets *n.  TLS_END: the peer has closed. */
enum tls_result tls_read(SSL *ssl, char *data, size_t cap, size_t *n);

/* Writes and sets *taken, 0 unless TLS_DONE.  The bytes that were not taken
 * must come first in the next call. */
enum tls_result tls_write(SSL *ssl, const char *data, size_t n, size_t *taken);

/* Sends the notice of closing, if there is room for it, and frees. */
void tls_free(SSL *ssl);

#endif
