/* Files of certificates: what is written, and what is refused. */
#include "client/cluster/certificate.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <czmq.h>

#include "common/wire/method.h"
#include "tests/unit/client/cluster/scratch.h"
#include "tests/unit/cmocka.h"

static struct error e;
static struct curve_cert cert;

static enum status make(const char *name, uint8_t roles, bool force)
{
    return certificate_write(&cert, scratch_path("keys"), name, roles, force,
                             &e);
}

static void a_pair_has_its_modes_and_roles(void **state)
{
    struct curve_cert key, public;

    (void)state;
    assert_int_equal(make("w1", BY_WORKER, false), ST_OK);
    assert_int_equal(scratch_mode("keys/w1.key"), 0600);
    assert_int_equal(scratch_mode("keys/w1.cert"), 0644);
    assert_int_equal(scratch_mode("keys"), 0700);
    assert_int_equal(certificate_read(&key, scratch_path("keys/w1.key"), &e),
                     ST_OK);
    assert_int_equal(
        certificate_read(&public, scratch_path("keys/w1.cert"), &e), ST_OK);
    assert_true(key.has_secret);
    assert_false(public.has_secret);
    assert_memory_equal(key.identity.key, public.identity.key, KEY_BYTES);
    assert_string_equal(public.identity.name, "w1");
    assert_int_equal(public.identity.roles, BY_WORKER);
}

/* A folder that was there keeps what it has. */
static void a_new_folder_keeps_secrets_out_of_git(void **state)
{
    char text[64] = "";
    FILE *f;

    (void)state;
    assert_int_equal(make("w1", BY_WORKER, true), ST_OK);
    f = fopen(scratch_path("keys/.gitignore"), "r");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    assert_string_equal(text, "*.key\n*.apikey\n");
    assert_int_equal(unlink(scratch_path("keys/.gitignore")), 0);
    assert_int_equal(make("w1", BY_WORKER, true), ST_OK);
    assert_int_equal(access(scratch_path("keys/.gitignore"), F_OK), -1);
}

static void czmq_reads_both_files(void **state)
{
    zcert_t *key, *public;

    (void)state;
    assert_int_equal(make("z", BY_CLIENT, false), ST_OK);
    key = zcert_load(scratch_path("keys/z.key"));
    public = zcert_load(scratch_path("keys/z.cert"));
    assert_non_null(key);
    assert_non_null(public);
    assert_string_equal(zcert_meta(public, "name"), "z");
    assert_string_equal(zcert_meta(public, "role"), "client");
    assert_non_null(zcert_meta(public, "created"));
    assert_string_equal(zcert_public_txt(key), zcert_public_txt(public));
    zcert_destroy(&key);
    zcert_destroy(&public);
}

static void files_are_never_replaced_without_force(void **state)
{
    struct curve_cert first;
    char text[600];

    (void)state;
    assert_int_equal(make("w2", BY_WORKER, false), ST_OK);
    first = cert;
    assert_int_equal(make("w2", BY_WORKER, false), ST_ALREADY_EXISTS);
    snprintf(text, sizeof text,
             "%s exists; --force replaces it, --rotate makes a second key of "
             "the name",
             scratch_path("keys/w2.cert"));
    assert_string_equal(e.text, text);
    assert_int_equal(make("w2", BY_WORKER, true), ST_OK);
    assert_memory_not_equal(first.identity.key, cert.identity.key, KEY_BYTES);
    assert_int_equal(scratch_mode("keys/w2.key"), 0600);
    assert_null(scratch_read("keys/w2.key.new"));
}

static void a_secret_is_refused_that_others_read(void **state)
{
    (void)state;
    assert_int_equal(make("w3", BY_WORKER, false), ST_OK);
    assert_int_equal(chmod(scratch_path("keys/w3.key"), 0640), 0);
    assert_int_equal(certificate_read(&cert, scratch_path("keys/w3.key"), &e),
                     ST_OK);
    assert_int_equal(chmod(scratch_path("keys/w3.key"), 0644), 0);
    assert_int_equal(certificate_read(&cert, scratch_path("keys/w3.key"), &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "mode 644 lets others use the secret key"));
}

static void roles_are_parsed_and_printed(void **state)
{
    char text[CERTIFICATE_ROLES_TEXT];
    uint8_t roles;

    (void)state;
    assert_int_equal(certificate_roles("router,worker", &roles, &e), ST_OK);
    assert_int_equal(roles, BY_ROUTER | BY_WORKER);
    assert_int_equal(certificate_roles("admin", &roles, &e), ST_OK);
    assert_int_equal(roles, BY_ADMIN | BY_CLIENT);
    assert_string_equal(certificate_roles_text(text, roles), "admin");
    assert_string_equal(certificate_roles_text(text, BY_ALL),
                        "router,worker,admin");
    assert_int_equal(certificate_roles("worker,", &roles, &e),
                     ST_INVALID_ARGUMENT);
    assert_int_equal(certificate_roles("", &roles, &e), ST_INVALID_ARGUMENT);
    assert_int_equal(certificate_roles("root", &roles, &e),
                     ST_INVALID_ARGUMENT);
    assert_string_equal(e.text,
                        "role \"root\": router, worker, client or admin is "
                        "required, or several with commas");
}

static void the_newest_of_a_name_has_the_highest_number(void **state)
{
    struct certificate_list list;

    (void)state;
    assert_int_equal(make("r", BY_ROUTER, false), ST_OK);
    assert_int_equal(make("r+2", BY_ROUTER, false), ST_OK);
    assert_int_equal(make("r+10", BY_ROUTER, false), ST_OK);
    assert_int_equal(make("r-x", BY_ROUTER, false), ST_OK);
    assert_int_equal(certificate_list(&list, scratch_path("keys"), ".key", &e),
                     ST_OK);
    assert_string_equal(certificate_newest(&list, "r")->file, "r+10.key");
    assert_string_equal(certificate_newest(&list, "r-x")->file, "r-x.key");
    assert_null(certificate_newest(&list, "q"));
    certificate_list_free(&list);
}

static void numbers_of_names_are_bounded(void **state)
{
    (void)state;
    assert_int_equal(certificate_number("w1"), 1);
    assert_int_equal(certificate_number("w1+2"), 2);
    assert_int_equal(certificate_number("w1+9999"), CERTIFICATE_NUMBER_MAX);
    assert_int_equal(certificate_number("w1+10000"), CERTIFICATE_NUMBER_MAX);
}

static void a_broken_file_is_an_entry_with_a_fault(void **state)
{
    struct certificate_list list;
    bool found = false;

    (void)state;
    scratch_write("broken.cert", "metadata\n    name = \"b\"\n", 0644);
    assert_int_equal(certificate_list(&list, scratch, ".cert", &e), ST_OK);
    for (size_t i = 0; i < list.n; i++) {
        found = found || (!list.item[i].readable &&
                          strstr(list.item[i].fault, "broken.cert") != NULL);
    }
    assert_true(found);
    certificate_list_free(&list);
    assert_int_equal(certificate_list(&list, scratch_path("none"), ".cert", &e),
                     ST_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pair_has_its_modes_and_roles),
        cmocka_unit_test(a_new_folder_keeps_secrets_out_of_git),
        cmocka_unit_test(czmq_reads_both_files),
        cmocka_unit_test(files_are_never_replaced_without_force),
        cmocka_unit_test(a_secret_is_refused_that_others_read),
        cmocka_unit_test(roles_are_parsed_and_printed),
        cmocka_unit_test(the_newest_of_a_name_has_the_highest_number),
        cmocka_unit_test(numbers_of_names_are_bounded),
        cmocka_unit_test(a_broken_file_is_an_entry_with_a_fault),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
