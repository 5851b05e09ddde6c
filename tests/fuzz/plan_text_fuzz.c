/* Options of a plan, by the first byte: any text is refused with a sentence
 * that names the option, or gives a plan whose sessions are whole. */
#include <string.h>

#include "client/load/plan/plan.h"
#include "tests/fuzz/fuzz.h"

#define TEXT_MAX 1000
#define SESSIONS 3

static void use(struct plan *p)
{
    static struct plan_session s;
    int64_t last = 0;

    for (int i = 0; i < SESSIONS && plan_next(p, &s); i++) {
        FUZZ_CHECK(s.due_us >= last || s.due_us == PLAN_CLOSED);
        FUZZ_CHECK(s.n_turns >= 1 && s.n_turns <= PLAN_TURNS_MAX);
        FUZZ_CHECK(s.n_pieces <= PLAN_PIECES_MAX);
        last = s.due_us;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char text[TEXT_MAX + 1];
    struct plan_options o = {.rate = "1"};
    const char **options[] = {&o.rate,   &o.arrivals,   &o.bursts,
                              &o.prompt, &o.turn_think, &o.prefix,
                              &o.turns,  &o.branches,   &o.profile};
    struct error e = {0};
    struct plan *p;

    if (n < 1 || n > TEXT_MAX) {
        return 0;
    }
    memcpy(text, data + 1, n - 1);
    text[n - 1] = '\0';
    *options[data[0] % (sizeof options / sizeof options[0])] = text;
    if (plan_new(&p, &o, &e) == ST_OK) {
        use(p);
    } else {
        FUZZ_CHECK(p == NULL && strstr(e.text, "--") != NULL);
    }
    plan_free(&p);
    return 0;
}
