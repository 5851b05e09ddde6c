/* Key files on disk, new keys, and names of keys for logs. */
#include "gateway/keys/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

static char path[] = "/tmp/sluice-keys-XXXXXX";

static void write_file(const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_int_equal(fputs(text, f) >= 0, 1);
    assert_int_equal(fclose(f), 0);
}

static void a_new_key_opens_with_its_line(void **state)
{
    struct keys_new a, b;
    struct keys *k;
    struct error e;

    (void)state;
    assert_int_equal(keys_new_line(&a, "web", &e), ST_OK);
    assert_int_equal(keys_new_line(&b, "web", &e), ST_OK);
    assert_int_equal(strlen(a.key), 10 + 64);
    assert_memory_equal(a.key, "sk-sluice-", 10);
    assert_string_not_equal(a.key, b.key);
    assert_null(strstr(a.line, a.key + 10));

    write_file(a.line);
    assert_int_equal(keys_load(&k, path, &e), ST_OK);
    assert_string_equal(tenant_name(keys_find(k, a.key, strlen(a.key))), "web");
    assert_null(keys_find(k, b.key, strlen(b.key)));
    assert_null(keys_find(k, a.key, strlen(a.key) - 1));

    write_file(b.line);
    assert_int_equal(keys_reload(k, path, &e), ST_OK);
    assert_null(keys_find(k, a.key, strlen(a.key)));
    assert_non_null(keys_find(k, b.key, strlen(b.key)));
    keys_free(&k);
}

static void a_new_key_needs_a_valid_name(void **state)
{
    struct keys_new new;
    struct error e;
    char name[TENANT_NAME_MAX + 2];

    (void)state;
    assert_int_equal(keys_new_line(&new, "", &e), ST_INVALID_ARGUMENT);
    assert_int_equal(keys_new_line(&new, "a b", &e), ST_INVALID_ARGUMENT);
    memset(name, 'a', sizeof name);
    name[TENANT_NAME_MAX + 1] = '\0';
    assert_int_equal(keys_new_line(&new, name, &e), ST_INVALID_ARGUMENT);
    name[TENANT_NAME_MAX] = '\0';
    assert_int_equal(keys_new_line(&new, name, &e), ST_OK);
    assert_int_equal(strlen(new.line), sizeof new.line - 1);
}

static void errors_name_the_file(void **state)
{
    struct keys *k;
    struct keys_new new;
    struct error e;

    (void)state;
    assert_int_equal(keys_load(&k, "/nonexistent/keys", &e), ST_NOT_FOUND);
    assert_null(k);
    assert_non_null(strstr(e.text, "/nonexistent/keys: "));
    write_file("x\n");
    assert_int_equal(keys_load(&k, path, &e), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, path));
    assert_non_null(strstr(e.text, ": line 1: "));

    assert_int_equal(keys_new_line(&new, "web", &e), ST_OK);
    write_file(new.line);
    assert_int_equal(keys_load(&k, path, &e), ST_OK);
    assert_int_equal(keys_reload(k, "/nonexistent/keys", &e), ST_NOT_FOUND);
    assert_non_null(keys_find(k, new.key, strlen(new.key)));
    keys_free(&k);
}

static void a_redacted_key_is_six_digits_of_its_hash(void **state)
{
    (void)state;
    assert_string_equal(keys_redact("alpha", 5).text, "8ed3f6");
    assert_string_equal(keys_redact("", 0).text, "e3b0c4");
    assert_string_equal(keys_redact(NULL, 0).text, "none");
}

static int make_file(void **state)
{
    int fd = mkstemp(path);

    (void)state;
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_key_opens_with_its_line),
        cmocka_unit_test(a_new_key_needs_a_valid_name),
        cmocka_unit_test(errors_name_the_file),
        cmocka_unit_test(a_redacted_key_is_six_digits_of_its_hash),
    };

    return cmocka_run_group_tests(tests, make_file, remove_file);
}
