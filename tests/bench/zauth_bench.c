/* zauth_bench - what czmq's zauth and zcertstore do for ports of several roles.
 *
 *     zauth_bench [CERTIFICATES]
 *
 * Makes a folder of certificates (default: 1000) and prints
 *
 * - whether the key of a client passes at a port with the domain of workers,
 * - whether a certificate whose file was removed is still found,
 * - the time of a lookup of a known and of an unknown key.
 *
 * docs/notebook/curve.md has the figures. */
#include <czmq.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define LOOKUPS 100
#define WAIT_MS 2000

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static zcert_t *make(const char *dir, const char *name, const char *role)
{
    char path[256];
    zcert_t *c = zcert_new();

    zcert_set_meta(c, "name", "%s", name);
    zcert_set_meta(c, "role", "%s", role);
    snprintf(path, sizeof path, "%s/%s.cert", dir, name);
    if (zcert_save_public(c, path) != 0) {
        perror(path);
        exit(1);
    }
    return c;
}

/* Returns whether a message of c arrives at a port for workers. */
static bool passes(zcert_t *c)
{
    zcert_t *own = zcert_new();
    zsock_t *server = zsock_new(ZMQ_ROUTER), *client = zsock_new(ZMQ_DEALER);
    zpoller_t *poller = zpoller_new(server, NULL);
    int port;
    bool came;

    zcert_apply(own, server);
    zsock_set_curve_server(server, 1);
    zsock_set_zap_domain(server, "workers");
    port = zsock_bind(server, "tcp://127.0.0.1:*");
    zcert_apply(c, client);
    zsock_set_curve_serverkey(client, zcert_public_txt(own));
    zsock_connect(client, "tcp://127.0.0.1:%d", port);
    zstr_send(client, "hello");
    came = zpoller_wait(poller, WAIT_MS) != NULL;
    zpoller_destroy(&poller);
    zsock_destroy(&client);
    zsock_destroy(&server);
    zcert_destroy(&own);
    return came;
}

/* Returns the mean time of a lookup in us, and whether the key is known. */
static double look_up(zcertstore_t *store, const char *key, bool *known)
{
    double begin = now_us();

    for (int i = 0; i < LOOKUPS; i++) {
        *known = zcertstore_lookup(store, key) != NULL;
    }
    return (now_us() - begin) / LOOKUPS;
}

static void measure_store(const char *dir, int n, const char *file)
{
    zcertstore_t *store = zcertstore_new(dir);
    zcert_t *stranger = zcert_new(), *last = NULL;
    bool known;
    double us;

    for (int i = 0; i < n; i++) {
        char name[32];

        snprintf(name, sizeof name, "c%d", i);
        zcert_destroy(&last);
        last = make(dir, name, "client");
    }
    us = look_up(store, zcert_public_txt(last), &known);
    printf("lookup of a known key among %d: %.1f us, %s\n", n, us,
           known ? "found" : "not found");
    us = look_up(store, zcert_public_txt(stranger), &known);
    printf("lookup of an unknown key among %d: %.1f us, %s\n", n, us,
           known ? "found" : "not found");
    unlink(file);
    us = look_up(store, zcert_public_txt(last), &known);
    printf("after its file was removed: %s\n", known ? "found" : "not found");
    zcert_destroy(&last);
    zcert_destroy(&stranger);
    zcertstore_destroy(&store);
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 1000;
    char dir[] = "/tmp/sluice-zauth-XXXXXX", file[300];
    zactor_t *auth;
    zcert_t *client;

    if (n < 1 || mkdtemp(dir) == NULL) {
        fputs("usage: zauth_bench [CERTIFICATES]\n", stderr);
        return 2;
    }
    auth = zactor_new(zauth, NULL);
    client = make(dir, "client", "client");
    zstr_sendx(auth, "CURVE", dir, NULL); /* of all domains */
    zsock_wait(auth);
    printf("a client's key at a port of the domain workers: %s\n",
           passes(client) ? "accepted" : "refused");
    zactor_destroy(&auth);
    snprintf(file, sizeof file, "%s/c%d.cert", dir, n - 1);
    measure_store(dir, n, file);
    zcert_destroy(&client);
    for (int i = 0; i < n; i++) {
        snprintf(file, sizeof file, "%s/c%d.cert", dir, i);
        unlink(file);
    }
    snprintf(file, sizeof file, "%s/client.cert", dir);
    unlink(file);
    rmdir(dir);
    return 0;
}
