/* Datasets: any bytes are refused with a sentence, or give rows of which each
 * entry has one content. */
#include <string.h>

#include "client/load/plan/dataset.h"
#include "tests/fuzz/fuzz.h"

#define ROWS_MAX 100

static void check(const struct plan_entry *e)
{
    FUZZ_CHECK((e->text != NULL) + (e->messages != NULL) + (e->ids != NULL) ==
               1);
    FUZZ_CHECK((e->n_text > 0) + (e->n_messages > 0) + (e->n_ids > 0) == 1);
    FUZZ_CHECK(e->text == NULL || e->text[e->n_text] == '\0');
    FUZZ_CHECK(e->messages == NULL || strlen(e->messages) == e->n_messages);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct error e = {0};
    struct dataset *d;
    size_t n_entries = 0;

    if (dataset_parse(&d, (const char *)data, n, ROWS_MAX, &e) != ST_OK) {
        FUZZ_CHECK(d == NULL && e.text[0] == 'l');
        return 0;
    }
    FUZZ_CHECK(d->n_rows >= 1 && d->n_rows <= ROWS_MAX);
    for (size_t i = 0; i < d->n_rows; i++) {
        const struct dataset_row *r = &d->rows[i];

        FUZZ_CHECK(r->first == n_entries);
        FUZZ_CHECK(r->n >= 1 && r->n <= PLAN_TURNS_MAX);
        n_entries += r->n;
    }
    FUZZ_CHECK(n_entries == d->n_entries);
    for (size_t i = 0; i < n_entries; i++) {
        check(&d->entries[i]);
    }
    dataset_free(&d);
    return 0;
}
