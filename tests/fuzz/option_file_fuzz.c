/* Configuration files: any bytes are refused with a sentence that names the
 * file, or give names and values which, printed as a file, are read back. */
#include <string.h>

#include "common/base/option_file.h"
#include "tests/fuzz/fuzz.h"

/* Prints all entries as a file.  The text is to be freed. */
static char *print(const struct option_file *f, size_t *n)
{
    char *text = NULL;
    FILE *to = open_memstream(&text, n);

    FUZZ_CHECK(to != NULL);
    for (size_t i = 0; i < f->n; i++) {
        fprintf(to, "%s = ", f->entries[i].name);
        FUZZ_CHECK(option_file_print_value(to, f->entries[i].value));
        fputc('\n', to);
    }
    fclose(to);
    return text;
}

static void same(const struct option_file *a, const struct option_file *b)
{
    FUZZ_CHECK(a->n == b->n);
    for (size_t i = 0; i < a->n; i++) {
        FUZZ_CHECK(strcmp(a->entries[i].name, b->entries[i].name) == 0);
        FUZZ_CHECK(strcmp(a->entries[i].value, b->entries[i].value) == 0);
        FUZZ_CHECK(a->entries[i].line >= i + 1);
        FUZZ_CHECK(b->entries[i].line == i + 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct option_file f, again;
    struct error e = {0};
    size_t printed;
    char *text;

    if (option_file_parse(&f, "x.conf", data, n, &e) != ST_OK) {
        FUZZ_CHECK(f.text == NULL && f.entries == NULL && f.n == 0);
        FUZZ_CHECK(strncmp(e.text, "x.conf:", 7) == 0);
        return 0;
    }
    text = print(&f, &printed);
    /* Escapes may lengthen a line or the file past its limit. */
    if (option_file_parse(&again, "y.conf", text, printed, &e) == ST_OK) {
        same(&f, &again);
    } else {
        FUZZ_CHECK(printed > OPTION_LINE_BYTES_MAX);
    }
    option_file_fini(&again);
    option_file_fini(&f);
    free(text);
    return 0;
}
