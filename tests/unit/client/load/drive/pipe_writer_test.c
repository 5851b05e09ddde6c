/* Records through a pipe: whole, in order, within the limit. */
#include "client/load/drive/pipe_writer.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

static void open_pipe(int fds[2])
{
    assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
}

static void records_arrive_whole_through_a_slow_reader(void **state)
{
    const uint32_t n_records = 3000;
    struct pipe_writer w;
    size_t size = 64u << 20, n = 0, at = 0;
    char *bytes = malloc(size);
    int fds[2];

    (void)state;
    assert_non_null(bytes);
    open_pipe(fds);
    pipe_writer_init(&w, fds[1], size);
    for (uint32_t i = 0; i < n_records; i++) {
        static char body[10000];

        memset(body, (char)i, sizeof body);
        pipe_writer_add(&w, i, &i, sizeof i, body, i % sizeof body);
        if (i % 7 == 0) {
            pipe_writer_flush(&w);
        }
    }
    while (w.n > 0) {
        ssize_t part;

        pipe_writer_flush(&w);
        part = read(fds[0], bytes + n, 777);
        n += part > 0 ? (size_t)part : 0;
    }
    for (ssize_t part; (part = read(fds[0], bytes + n, size - n)) > 0;) {
        n += (size_t)part;
    }
    for (uint32_t i = 0; i < n_records; i++) {
        struct pipe_record r;

        memcpy(&r, bytes + at, sizeof r);
        assert_int_equal(r.kind, i);
        assert_int_equal(r.size, (4 + i % 10000 + 7) / 8 * 8);
        assert_memory_equal(bytes + at + sizeof r, &i, sizeof i);
        if (i % 10000 > 0) {
            assert_int_equal(bytes[at + sizeof r + 4 + i % 10000 - 1], (char)i);
        }
        at += sizeof r + r.size;
    }
    assert_int_equal(at, n);
    assert_false(w.full || w.broken);
    pipe_writer_fini(&w);
    close(fds[0]);
    close(fds[1]);
    free(bytes);
}

static void limit_holds_at_it_and_one_past_it(void **state)
{
    struct pipe_writer w;

    (void)state;
    pipe_writer_init(&w, -1, 48);
    pipe_writer_add(&w, 1, "12345678", 8, NULL, 0); /* 16 with its head */
    pipe_writer_add(&w, 1, "1234567812345678", 16, "12345678", 8);
    assert_int_equal(w.n, 48);
    assert_false(w.full);
    pipe_writer_add(&w, 1, NULL, 0, NULL, 0);
    assert_int_equal(w.n, 48);
    assert_true(w.full);
    pipe_writer_fini(&w);
    pipe_writer_init(&w, -1, 47);
    pipe_writer_add(&w, 1, "12345678", 8, NULL, 0);
    pipe_writer_add(&w, 1, "1234567812345678", 16, "12345678", 8);
    assert_int_equal(w.n, 16);
    assert_true(w.full);
    pipe_writer_fini(&w);
}

static void reader_that_is_gone_is_noticed(void **state)
{
    struct pipe_writer w;
    int fds[2];

    (void)state;
    signal(SIGPIPE, SIG_IGN);
    open_pipe(fds);
    close(fds[0]);
    pipe_writer_init(&w, fds[1], 1000);
    pipe_writer_add(&w, 1, NULL, 0, NULL, 0);
    pipe_writer_flush(&w);
    assert_true(w.broken);
    pipe_writer_fini(&w);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_arrive_whole_through_a_slow_reader),
        cmocka_unit_test(limit_holds_at_it_and_one_past_it),
        cmocka_unit_test(reader_that_is_gone_is_noticed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
