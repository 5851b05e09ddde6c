#include "gateway/http/tls.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <openssl/x509err.h>

/* An encrypted key must not make a server ask for its password. */
static int no_password(char *text, int size, int writing, void *arg)
{
    (void)text, (void)size, (void)writing, (void)arg;
    return 0;
}

/* A client that offers only h2 gets an alert rather than HTTP/1.1 that it would
 * misread. */
static int choose_protocol(SSL *ssl, const unsigned char **out,
                           unsigned char *out_n, const unsigned char *offered,
                           unsigned offered_n, void *arg)
{
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *chosen;

    (void)ssl, (void)arg;
    if (SSL_select_next_proto(&chosen, out_n, ours, sizeof ours - 1, offered,
                              offered_n) != OPENSSL_NPN_NEGOTIATED) {
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    }
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static void set_up(SSL_CTX *context)
{
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    /* Renegotiation would let a client make the server work without bound.  A
     * peer that closes without notice is an ordinary end here: the lengths of
     * HTTP show whether a request is whole. */
    SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION |
                                     SSL_OP_NO_RENEGOTIATION |
                                     SSL_OP_IGNORE_UNEXPECTED_EOF);
    /* The output buffer may have moved when a write is repeated. */
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    /* Tickets keep sessions at the client; a cache would keep them here. */
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_default_passwd_cb(context, no_password);
    SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
}

/* ---- files ---- */

#define PROBE_BYTES 4096

/* Returns what the beginning of a file shows to be wrong; NULL: nothing. */
static const char *look_at(const char *file, bool is_key)
{
    char text[PROBE_BYTES];
    FILE *f = fopen(file, "r");
    size_t n = f != NULL ? fread(text, 1, sizeof text, f) : 0;
    bool failed = f == NULL || ferror(f) != 0;
    int error = errno;

    if (f != NULL) {
        fclose(f);
    }
#define HAS(word) (memmem(text, n, word, strlen(word)) != NULL)
    if (failed) {
        return strerror(error);
    }
    if (is_key && HAS("ENCRYPTED")) {
        return "it is encrypted, and nobody is asked for a password; decrypt "
               "it with openssl pkey";
    }
    if (is_key && !HAS("PRIVATE KEY")) {
        return "no private key in PEM form is in it";
    }
    return is_key || HAS("CERTIFICATE") ? NULL
                                        : "no certificate in PEM form is in it";
#undef HAS
}

/* Returns what an error of OpenSSL means; NULL: look at the next one.  Its own
 * words ("PEM lib") help nobody. */
static const char *meaning(unsigned long code)
{
    int lib = ERR_GET_LIB(code), reason = ERR_GET_REASON(code);

    if ((lib == ERR_LIB_X509 && (reason == X509_R_KEY_VALUES_MISMATCH ||
                                 reason == X509_R_KEY_TYPE_MISMATCH)) ||
        (lib == ERR_LIB_SSL && reason == SSL_R_NO_CERTIFICATE_ASSIGNED)) {
        return "the key does not belong to the certificate";
    }
    if (lib == ERR_LIB_SSL && (reason == SSL_R_EE_KEY_TOO_SMALL ||
                               reason == SSL_R_CA_KEY_TOO_SMALL)) {
        return "its key is too short; RSA needs 2048 bits or more";
    }
    if (lib == ERR_LIB_SSL && (reason == SSL_R_CA_MD_TOO_WEAK)) {
        return "its signature is too weak; use SHA-256 or better";
    }
    return NULL;
}

static enum status refuse(struct error *e, const char *file, bool is_key)
{
    const char *why = look_at(file, is_key);
    unsigned long code;

    while ((code = ERR_get_error()) != 0) {
        why = why != NULL ? why : meaning(code);
    }
    return error_set(e, ST_INVALID_ARGUMENT, "TLS %s %s: %s",
                     is_key ? "key" : "certificate", file,
                     why == NULL ? "the file is damaged" : why);
}

static enum status load(SSL_CTX *context, const char *cert, const char *key,
                        struct error *e)
{
    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(context, cert) != 1) {
        return refuse(e, cert, false);
    }
    if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(context) != 1) {
        return refuse(e, key, true);
    }
    return ST_OK;
}

enum status tls_context_new(SSL_CTX **out, const char *cert, const char *key,
                            struct error *e)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());

    *out = NULL;
    if (context == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "no memory for TLS");
    }
    set_up(context);
    if (load(context, cert, key, e) != ST_OK) {
        SSL_CTX_free(context);
        return ST_INVALID_ARGUMENT;
    }
    *out = context;
    return ST_OK;
}

/* OpenSSL's own sockets are written with write(), and a broken one would then
 * end the process by SIGPIPE. */
static int write_quietly(BIO *bio, const char *data, int n)
{
    ssize_t sent =
        send((int)BIO_get_fd(bio, NULL), data, (size_t)n, MSG_NOSIGNAL);

    BIO_clear_retry_flags(bio);
    if (sent < 0 && BIO_sock_should_retry((int)sent)) {
        BIO_set_retry_write(bio);
    }
    return (int)sent;
}

/* Everything but writing is as in OpenSSL's sockets.  Made once, and kept as
 * long as the process. */
static const BIO_METHOD *quiet_method(void)
{
    static BIO_METHOD *quiet;
    const BIO_METHOD *plain = BIO_s_socket();

    if (quiet != NULL) {
        return quiet;
    }
    quiet = BIO_meth_new(BIO_TYPE_SOCKET, "quiet socket");
    if (quiet == NULL) {
        return NULL;
    }
    BIO_meth_set_write(quiet, write_quietly);
    BIO_meth_set_read(quiet, BIO_meth_get_read(plain));
    BIO_meth_set_ctrl(quiet, BIO_meth_get_ctrl(plain));
    BIO_meth_set_create(quiet, BIO_meth_get_create(plain));
    BIO_meth_set_destroy(quiet, BIO_meth_get_destroy(plain));
    return quiet;
}

SSL *tls_new(SSL_CTX *context, int fd)
{
    SSL *ssl = SSL_new(context);
    BIO *bio = ssl == NULL ? NULL : BIO_new(quiet_method());

    if (bio == NULL) {
        SSL_free(ssl);
        return NULL;
    }
    BIO_set_fd(bio, fd, BIO_NOCLOSE);
    SSL_set_bio(ssl, bio, bio);
    SSL_set_accept_state(ssl);
    return ssl;
}

static enum tls_result result_of(SSL *ssl, int rc)
{
    switch (SSL_get_error(ssl, rc)) {
    case SSL_ERROR_NONE:
        return TLS_DONE;
    case SSL_ERROR_WANT_READ:
        return TLS_WANTS_READ;
    case SSL_ERROR_WANT_WRITE:
        return TLS_WANTS_WRITE;
    case SSL_ERROR_ZERO_RETURN:
        return TLS_END;
    default:
        return TLS_BROKEN;
    }
}

/* A method of HTTP is in capitals; a record of TLS begins with byte 22. */
static bool is_plain(const SSL *ssl)
{
    char first;

    return recv(SSL_get_fd(ssl), &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1 &&
           first >= 'A' && first <= 'Z';
}

/* The queue of errors is the thread's: SSL_get_error() misreads its own call
 * if an older error is left there. */
enum tls_result tls_handshake(SSL *ssl)
{
    if (BIO_number_read(SSL_get_rbio(ssl)) == 0 && is_plain(ssl)) {
        return TLS_PLAIN;
    }
    ERR_clear_error();
    return result_of(ssl, SSL_do_handshake(ssl));
}

enum tls_result tls_read(SSL *ssl, char *data, size_t cap, size_t *n)
{
    *n = 0;
    ERR_clear_error();
    return result_of(ssl, SSL_read_ex(ssl, data, cap, n));
}

enum tls_result tls_write(SSL *ssl, const char *data, size_t n, size_t *taken)
{
    *taken = 0;
    ERR_clear_error();
    return result_of(ssl, SSL_write_ex(ssl, data, n, taken));
}

void tls_free(SSL *ssl)
{
    ERR_clear_error();
    if (SSL_is_init_finished(ssl)) {
        (void)SSL_shutdown(ssl);
    }
    SSL_free(ssl);
    ERR_clear_error();
}
