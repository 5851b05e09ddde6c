#include "common/base/job_turns.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

struct job {
    struct job_turn turn; /* first */
    char name;
    int left; /* slices */
};

/* Runs all jobs of t in turn; writes the name of the job of each slice. */
static void run(struct job_turns *t, char *log)
{
    struct job *j;

    while ((j = (struct job *)job_turns_take(t)) != NULL) {
        *log++ = j->name;
        if (--j->left > 0) {
            job_turns_put(t, &j->turn);
        }
    }
    *log = '\0';
}

static void put(struct job_turns *t, struct job *j, uint64_t client, char name,
                int slices)
{
    *j = (struct job){.turn = {.client = client}, .name = name, .left = slices};
    job_turns_put(t, &j->turn);
}

/* Client 1 has three long jobs, client 2 a long and a short one, client 3 a
 * short one. */
static void clients_and_their_jobs_take_turns(void **state)
{
    struct job_turns t;
    struct job j[6];
    char log[64];

    (void)state;
    job_turns_init(&t, 4);
    put(&t, &j[0], 1, 'a', 3);
    put(&t, &j[1], 1, 'b', 3);
    put(&t, &j[2], 1, 'c', 2);
    put(&t, &j[3], 2, 'd', 3);
    put(&t, &j[4], 2, 'e', 1);
    put(&t, &j[5], 3, 'f', 1);
    run(&t, log);
    assert_string_equal(log, "adfbecdadbcab");
    assert_null(job_turns_take(&t));
    job_turns_fini(&t);
}

/* A client whose job is at work when another one comes keeps its place. */
static void a_job_put_back_goes_behind_its_clients_others(void **state)
{
    struct job_turns t;
    struct job_turn *first;
    struct job j[4];
    char log[64];

    (void)state;
    job_turns_init(&t, 4);
    put(&t, &j[0], 1, 'a', 2);
    first = job_turns_take(&t);
    assert_ptr_equal(first, &j[0].turn);
    put(&t, &j[1], 2, 'b', 2);
    put(&t, &j[2], 1, 'c', 1);
    put(&t, &j[3], 3, 'd', 1);
    job_turns_put(&t, first);
    run(&t, log);
    assert_string_equal(log, "bcdbaa");
    job_turns_fini(&t);
}

/* Every slice of the flood is one client's turn. */
static void a_short_job_passes_a_flood_of_one_client(void **state)
{
    struct job *flood = calloc(60, sizeof *flood), honest;
    struct job_turns t;
    char log[60 * 9 + 2];

    (void)state;
    assert_non_null(flood);
    job_turns_init(&t, 16);
    for (int i = 0; i < 60; i++) {
        put(&t, &flood[i], 1, '.', 9);
    }
    put(&t, &honest, 2, 'h', 1);
    run(&t, log);
    assert_int_equal(strlen(log), 60 * 9 + 1);
    assert_ptr_equal(strchr(log, 'h'), log + 1);
    job_turns_fini(&t);
    free(flood);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clients_and_their_jobs_take_turns),
        cmocka_unit_test(a_job_put_back_goes_behind_its_clients_others),
        cmocka_unit_test(a_short_job_passes_a_flood_of_one_client),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
