/* TLS over a pair of sockets, with a client of OpenSSL in the same thread. */
#include "gateway/http/tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "tests/unit/cmocka.h"

#define FOLDER "/tmp/sluice-tls-XXXXXX"

struct pair {
    char folder[sizeof FOLDER], cert[64], key[64];
    SSL_CTX *server_context, *client_context;
    SSL *server, *client;
    int fds[2]; /* of server and client */
};

static void write_files(struct pair *p)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    FILE *f;

    X509_gmtime_adj(X509_getm_notBefore(cert), 0);
    X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
    X509_set_pubkey(cert, key);
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    f = fopen(p->cert, "w");
    assert_non_null(f);
    PEM_write_X509(f, cert);
    fclose(f);
    f = fopen(p->key, "w");
    assert_non_null(f);
    PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL);
    fclose(f);
    X509_free(cert);
    EVP_PKEY_free(key);
}

static void begin(struct pair *p)
{
    struct error e;

    memset(p, 0, sizeof *p);
    strcpy(p->folder, FOLDER);
    assert_non_null(mkdtemp(p->folder));
    snprintf(p->cert, sizeof p->cert, "%s/cert", p->folder);
    snprintf(p->key, sizeof p->key, "%s/key", p->folder);
    write_files(p);
    assert_int_equal(tls_context_new(&p->server_context, p->cert, p->key, &e),
                     ST_OK);
    p->client_context = SSL_CTX_new(TLS_client_method());
    assert_int_equal(
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p->fds), 0);
    p->server = tls_new(p->server_context, p->fds[0]);
    p->client = SSL_new(p->client_context);
    SSL_set_fd(p->client, p->fds[1]);
    SSL_set_connect_state(p->client);
}

/* Runs both sides in turn. */
static enum tls_result shake(struct pair *p)
{
    enum tls_result r = TLS_WANTS_READ;

    for (int i = 0; i < 20 && r != TLS_BROKEN; i++) {
        (void)SSL_do_handshake(p->client);
        r = tls_handshake(p->server);
    }
    return r;
}

static void end(struct pair *p)
{
    tls_free(p->server);
    SSL_free(p->client);
    SSL_CTX_free(p->server_context);
    SSL_CTX_free(p->client_context);
    close(p->fds[0]);
    if (p->fds[1] >= 0) {
        close(p->fds[1]);
    }
    unlink(p->cert);
    unlink(p->key);
    rmdir(p->folder);
}

static void bytes_pass_both_ways(void **state)
{
    struct pair p;
    char text[8] = "";
    size_t n;

    (void)state;
    begin(&p);
    assert_int_equal(shake(&p), TLS_DONE);
    assert_int_equal(tls_read(p.server, text, sizeof text, &n), TLS_WANTS_READ);
    assert_int_equal(SSL_write(p.client, "hello", 5), 5);
    assert_int_equal(tls_read(p.server, text, sizeof text, &n), TLS_DONE);
    assert_int_equal(n, 5);
    assert_int_equal(tls_write(p.server, "bye", 3, &n), TLS_DONE);
    assert_int_equal(n, 3);
    assert_int_equal(SSL_read(p.client, text, sizeof text), 3);
    (void)SSL_shutdown(p.client);
    assert_int_equal(tls_read(p.server, text, sizeof text, &n), TLS_END);
    end(&p);
}

static void full_socket_takes_no_more(void **state)
{
    static const char block[65536];
    enum tls_result r;
    struct pair p;
    size_t n;

    (void)state;
    begin(&p);
    assert_int_equal(shake(&p), TLS_DONE);
    do {
        r = tls_write(p.server, block, sizeof block, &n);
    } while (r == TLS_DONE);
    assert_int_equal(r, TLS_WANTS_WRITE);
    assert_int_equal(n, 0);
    end(&p);
}

/* A signal would end the gateway. */
static void broken_connection_raises_no_signal(void **state)
{
    struct pair p;
    size_t n;

    (void)state;
    begin(&p);
    assert_int_equal(shake(&p), TLS_DONE);
    close(p.fds[1]);
    p.fds[1] = -1;
    assert_int_equal(tls_write(p.server, "x", 1, &n), TLS_BROKEN);
    end(&p);
}

static void other_bytes_break_a_handshake(void **state)
{
    struct pair p;

    (void)state;
    begin(&p);
    assert_int_equal(write(p.fds[1], "\x16\x09GET / HTTP/1.1\r\n", 18), 18);
    assert_int_equal(tls_handshake(p.server), TLS_BROKEN);
    end(&p);
}

/* Any method is answered so, and nothing is read of it. */
static void http_without_tls_is_recognised(void **state)
{
    static const char *const heads[] = {"GET / HTTP/1.1\r\n\r\n", "P",
                                        "OPTIONS * HTTP/1.1\r\n\r\n"};
    char text[64];

    (void)state;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        ssize_t n = (ssize_t)strlen(heads[i]);
        struct pair p;

        begin(&p);
        assert_int_equal(tls_handshake(p.server), TLS_WANTS_READ);
        assert_int_equal(write(p.fds[1], heads[i], (size_t)n), n);
        assert_int_equal(tls_handshake(p.server), TLS_PLAIN);
        assert_int_equal(read(p.fds[0], text, sizeof text), n);
        end(&p);
    }
}

static void old_versions_are_refused(void **state)
{
    struct pair p;

    (void)state;
    begin(&p);
    SSL_set_security_level(p.client, 0);
    SSL_set_max_proto_version(p.client, TLS1_1_VERSION);
    assert_int_equal(shake(&p), TLS_BROKEN);
    end(&p);
}

static void wrong_files_are_named(void **state)
{
    SSL_CTX *context;
    struct error e;
    struct pair p;

    (void)state;
    begin(&p);
    assert_int_equal(tls_context_new(&context, p.key, p.key, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, p.key));
    assert_non_null(strstr(e.text, "no certificate in PEM form"));
    assert_int_equal(tls_context_new(&context, p.cert, p.cert, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, p.cert));
    assert_non_null(strstr(e.text, "no private key in PEM form"));
    assert_int_equal(tls_context_new(&context, "/none", p.key, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "/none: No such file"));
    assert_int_equal(tls_context_new(&context, "/tmp", p.key, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "/tmp: Is a directory"));
    assert_null(context);
    assert_int_equal(ERR_peek_error(), 0);
    end(&p);
}

static void key_is_refused(const struct pair *p, EVP_PKEY *key,
                           const char *password, const char *why)
{
    FILE *f = fopen(p->key, "w");
    SSL_CTX *context;
    struct error e;

    assert_non_null(f);
    assert_int_equal(PEM_write_PrivateKey(
                         f, key, password != NULL ? EVP_aes_256_cbc() : NULL,
                         NULL, 0, NULL, (void *)(uintptr_t)password),
                     1);
    fclose(f);
    assert_int_equal(tls_context_new(&context, p->cert, p->key, &e),
                     ST_INVALID_ARGUMENT);
    if (strstr(e.text, why) == NULL) {
        fail_msg("%s", e.text);
    }
    EVP_PKEY_free(key);
}

static void wrong_keys_are_explained(void **state)
{
    struct pair p;

    (void)state;
    begin(&p);
    key_is_refused(&p, EVP_EC_gen("P-256"), NULL,
                   "the key does not belong to the certificate");
    key_is_refused(&p, EVP_RSA_gen(2048), NULL,
                   "the key does not belong to the certificate");
    key_is_refused(&p, EVP_EC_gen("P-256"), "abcdef", "it is encrypted");
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_pass_both_ways),
        cmocka_unit_test(full_socket_takes_no_more),
        cmocka_unit_test(broken_connection_raises_no_signal),
        cmocka_unit_test(other_bytes_break_a_handshake),
        cmocka_unit_test(http_without_tls_is_recognised),
        cmocka_unit_test(old_versions_are_refused),
        cmocka_unit_test(wrong_files_are_named),
        cmocka_unit_test(wrong_keys_are_explained),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
