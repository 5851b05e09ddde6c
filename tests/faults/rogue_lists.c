/* A router whose lists break the rules, against a real sluicectl, which must
 * end within its --timeout and name the fault. */
#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/admin.pb-c.h"
#include "tests/faults/rogue.h"
#include "tests/faults/rogue_node.h"

extern char **environ;

/* Writes `next` of page n, counted from 1.  Returns false to send no reply. */
typedef bool next_fn(uint64_t n, uint64_t *next);

struct fake {
    struct transport *transport;
    struct loop loop;
    struct arena arena;
    struct peer *peer; /* sluicectl's session, or NULL */
    uint64_t session, n_pages;
    next_fn *next;
};

static void reply_page(struct fake *f, struct peer *p, uint64_t call,
                       const struct method_row *m)
{
    Sluice__V1__ListSequencesReply sequences =
        SLUICE__V1__LIST_SEQUENCES_REPLY__INIT;
    Sluice__V1__ListWorkersReply workers = SLUICE__V1__LIST_WORKERS_REPLY__INIT;
    uint64_t next;

    if (!f->next(++f->n_pages, &next)) {
        return;
    }
    sequences.has_next = workers.has_next = true;
    sequences.next = workers.next = next;
    peer_end(p, call,
             m->number == METHOD_ADMIN_LIST_WORKERS ? &workers.base
                                                    : &sequences.base);
}

static void on_call(void *node, struct peer *p, const struct method_row *m,
                    uint64_t call, int64_t deadline_us,
                    const ProtobufCMessage *request)
{
    struct error e;

    (void)deadline_us;
    (void)request;
    if (m->number == METHOD_ADMIN_LIST_WORKERS ||
        m->number == METHOD_ADMIN_LIST_SEQUENCES) {
        reply_page(node, p, call, m);
    } else if (call != 0) {
        error_set(&e, ST_UNIMPLEMENTED, "not by this router");
        peer_fail(p, call, &e, 0);
    }
}

static const struct peer_ops peer_table = {.on_call = on_call};

static void welcome(struct fake *f, struct peer_id from)
{
    struct node_io *io = transport_io(f->transport);
    Sluice__V1__HelloReply reply = SLUICE__V1__HELLO_REPLY__INIT;
    struct peer_config c = {.io = io,
                            .id = from,
                            .self = BY_ROUTER,
                            .other = BY_ADMIN,
                            .ops = &peer_table,
                            .node = f,
                            .arena = &f->arena};
    struct frame *answer;

    peer_free(&f->peer);
    c.session = f->session = io->random(io) | 1;
    reply.session = f->session;
    reply.version_major = WIRE_VERSION_MAJOR;
    reply.name = wire_text("rogue");
    answer = hello_answer(f->session, &reply.base, NULL, 0);
    (void)io->send(io, from, &answer);
    f->peer = peer_new(&c);
}

static void node_recv(void *node, struct peer_id from, struct frame **fp)
{
    struct fake *f = node;
    struct frame *frame = *fp;
    struct frame_header h;
    struct envelope e;

    *fp = NULL;
    if (frame_check(frame->data, frame->bytes, &h, NULL) == ST_OK) {
        if (hello_is_call(frame, &h, &e)) {
            welcome(f, from);
        } else if (f->peer != NULL && h.session == f->session &&
                   peer_recv(f->peer, frame, &h, loop_now_us()) >=
                       PEER_GOODBYE) {
            peer_free(&f->peer);
        }
    }
    frame_free(&frame);
}

static void node_opened(void *node, struct peer_id who)
{
    (void)node;
    (void)who;
}

static void node_lost(void *node, struct peer_id who)
{
    struct fake *f = node;

    if (f->peer != NULL && peer_id(f->peer).v == who.v) {
        peer_free(&f->peer);
    }
}

static int64_t node_tick(void *node, int64_t now_us)
{
    struct fake *f = node;

    if (f->peer != NULL) {
        peer_flush(f->peer, now_us);
    }
    return now_us + 5000;
}

static const struct node_ops node_table = {node_opened, node_recv, node_lost,
                                           node_tick};

static struct fake *fake_new(const char *endpoint, next_fn *next)
{
    struct transport_port port = {endpoint, BY_CLIENT | BY_ADMIN, false};
    struct fake *f = calloc(1, sizeof *f);
    struct error e;

    assert(f != NULL);
    if (transport_listen(&f->transport, &port, 1, NULL, &e) != ST_OK) {
        fprintf(stderr, "rogue: %s\n", e.text);
        exit(2);
    }
    arena_init(&f->arena);
    loop_init(&f->loop, f->transport, &node_table, f);
    f->next = next;
    return f;
}

static void fake_free(struct fake **self)
{
    struct fake *f = *self;

    *self = NULL;
    peer_free(&f->peer);
    transport_free(&f->transport);
    arena_fini(&f->arena);
    free(f);
}

/* ---- sluicectl ---- */

/* Starts sluicectl, whose standard error becomes *err. */
static pid_t start(const struct rogue_at *at, const char *verb,
                   const char *operand, int *err)
{
    const char *argv[] = {at->ctl,     verb, "--router", at->listen,
                          "--timeout", "2s", operand,    NULL};
    posix_spawn_file_actions_t files;
    int ends[2];
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        perror("rogue: pipe");
        exit(2);
    }
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&files, ends[1], 2);
    if (posix_spawn(&pid, at->ctl, &files, NULL, (char *const *)(uintptr_t)argv,
                    environ) != 0) {
        fprintf(stderr, "rogue: cannot start %s\n", at->ctl);
        exit(2);
    }
    posix_spawn_file_actions_destroy(&files);
    close(ends[1]);
    *err = ends[0];
    return pid;
}

/* Runs the router until sluicectl has ended.  Returns its exit code, -1 if it
 * did not end. */
static int run_ctl(struct fake *f, const struct rogue_at *at, const char *verb,
                   const char *operand, char *text, size_t n)
{
    int64_t end_us = loop_now_us() + patience_us();
    int err, status = 0;
    pid_t pid = start(at, verb, operand, &err), ended = 0;
    ssize_t got;

    while (ended == 0 && loop_now_us() < end_us) {
        (void)loop_turn(&f->loop, 5000);
        ended = waitpid(pid, &status, WNOHANG);
    }
    if (ended == 0) {
        kill(pid, SIGKILL);
        (void)waitpid(pid, &status, 0);
    }
    got = read(err, text, n - 1); /* one line, which a pipe holds */
    text[got > 0 ? got : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    close(err);
    return ended != 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- the cases ---- */

struct list_attack {
    next_fn *next;
    const char *wanted; /* words of the message */
    bool in_time;       /* only --timeout ends the list: one verb suffices */
};

static bool run_attack(struct rogue_at *at, const struct rogue_case *c)
{
    static const char *const verbs[][2] = {
        {"sequences", NULL}, {"workers", NULL}, {"cancel", "ab"}};
    const struct list_attack *a = c->arg;
    char text[ERROR_TEXT] = "";
    bool well = true;

    for (size_t i = 0; well && i < (a->in_time ? 1 : 3); i++) {
        struct fake *f = fake_new(at->listen, a->next);
        int rc = run_ctl(f, at, verbs[i][0], verbs[i][1], text, sizeof text);

        well = rogue_saw(at, rc == 1 && strstr(text, a->wanted) != NULL,
                         "%s ended with %d after %llu pages: \"%s\"",
                         verbs[i][0], rc, (unsigned long long)f->n_pages, text);
        fake_free(&f);
    }
    return well;
}

static bool next_same(uint64_t n, uint64_t *next)
{
    (void)n;
    *next = 1;
    return true;
}

static bool next_falls(uint64_t n, uint64_t *next)
{
    *next = n == 1 ? UINT64_MAX : UINT64_MAX - n;
    return true;
}

/* Every page takes a while, so that only the time ends the list. */
static bool next_slow(uint64_t n, uint64_t *next)
{
    usleep(20000);
    *next = n;
    return true;
}

static bool next_grows(uint64_t n, uint64_t *next)
{
    *next = n;
    return true;
}

static bool next_never(uint64_t n, uint64_t *next)
{
    *next = n;
    return n < 3;
}

#define CASE(fn, text, words, in_time)                                    \
    {                                                                     \
        "list-" text, ROGUE_CTL, "an error within --timeout", run_attack, \
            &(const struct list_attack)                                   \
        {                                                                 \
            fn, words, in_time                                            \
        }                                                                 \
    }

static const struct rogue_case cases[] = {
    CASE(next_same, "next-same", "page 2 of the list names next=1 after 1",
         false),
    CASE(next_falls, "next-falls", "page 2 of the list names next=", false),
    CASE(next_slow, "slow-pages", "(DEADLINE_EXCEEDED)", true),
    CASE(next_never, "no-page", "(DEADLINE_EXCEEDED)", true),
    /* Ends by the time or by the number of pages. */
    CASE(next_grows, "next-grows", "sluicectl: the ", true),
};

const struct rogue_table rogue_lists = {cases, sizeof cases / sizeof cases[0]};
