#include "plan_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/load/plan/draw.h"
#include "tests/unit/cmocka.h"

#define FILES_MAX 16

static char paths[FILES_MAX][40];
static unsigned n_paths;

struct plan *fixture_plan(const struct plan_options *o)
{
    struct plan *p;
    struct error e = {0};

    if (plan_new(&p, o, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return p;
}

void fixture_refused(const struct plan_options *o, const char *has)
{
    struct plan *p;
    struct error e = {0};

    if (plan_new(&p, o, &e) == ST_OK) {
        fail_msg("no refusal with \"%s\"", has);
    }
    assert_null(p);
    if (strstr(e.text, has) == NULL) {
        fail_msg("\"%s\" has no \"%s\"", e.text, has);
    }
}

struct plan_session *fixture_next(struct plan *p)
{
    static struct plan_session s;

    return plan_next(p, &s) ? &s : NULL;
}

uint64_t fixture_sum(const struct plan_session *s)
{
    uint64_t sum = draw_mix(s->number, s->content);

    sum = draw_mix(sum, (uint64_t)s->due_us);
    sum = draw_mix(sum, (uint64_t)s->think_us);
    for (uint32_t i = 0; i < s->n_turns; i++) {
        const struct plan_turn *t = &s->turns[i];

        sum = draw_mix(sum, (uint64_t)t->parent);
        sum = draw_mix(sum, (uint64_t)t->think_us);
        sum = draw_mix(sum, t->first_piece * UINT64_C(65536) + t->n_pieces);
        sum = draw_mix(sum, t->n_new);
        sum = draw_mix(sum, t->max_tokens);
        sum = draw_mix(sum, t->entry != NULL ? t->entry->n_text : 0);
    }
    for (uint32_t i = 0; i < s->n_pieces; i++) {
        sum = draw_mix(sum, draw_mix(s->pieces[i].seed, s->pieces[i].n));
    }
    return sum;
}

const char *fixture_file(const char *text)
{
    char *path = paths[n_paths++];
    FILE *f;
    int fd;

    assert_true(n_paths <= FILES_MAX);
    strcpy(path, "/tmp/sluice-plan-XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    f = fdopen(fd, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    return path;
}

void fixture_fini(void)
{
    while (n_paths > 0) {
        unlink(paths[--n_paths]);
    }
}
