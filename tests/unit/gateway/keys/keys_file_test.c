/* Key files on disk, new keys, and names of keys for logs. */
#include "gateway/keys/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

/* A user who may write to the file can add a key. */
static void others_must_not_write_the_file(void **state)
{
    static const mode_t good[] = {0600, 0400, 0640, 0644, 0444},
                        bad[] = {0666, 0620, 0602, 0664};
    struct keys_new new;
    struct keys *k, *kept;
    struct error e;

    (void)state;
    assert_int_equal(keys_new_line(&new, "web", &e), ST_OK);
    write_file(new.line);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(chmod(path, good[i]), 0);
        assert_int_equal(keys_load(&k, path, &e), ST_OK);
        keys_free(&k);
    }
    assert_int_equal(keys_load(&kept, path, &e), ST_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(chmod(path, bad[i]), 0);
        assert_int_equal(keys_load(&k, path, &e), ST_INVALID_ARGUMENT);
        assert_non_null(strstr(e.text, path));
        assert_non_null(strstr(e.text, "lets other users add keys"));
        assert_int_equal(keys_reload(kept, path, &e), ST_INVALID_ARGUMENT);
        assert_non_null(keys_find(kept, new.key, strlen(new.key)));
    }
    keys_free(&kept);
    assert_int_equal(chmod(path, 0600), 0);
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
        cmocka_unit_test(others_must_not_write_the_file),
    };

    return cmocka_run_group_tests(tests, make_file, remove_file);
}
