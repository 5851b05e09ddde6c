#include "common/wire/curve_keys.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <czmq.h>

#include "common/wire/curve_cert.h"
#include "common/wire/method.h"
#include "tests/key_files.h"
#include "tests/unit/cmocka.h"

static struct key_files files;
static char own[KEY_FILES_PATH];

static int begin(void **state)
{
    (void)state;
    key_files_begin(&files);
    key_files_make(&files, "w1", "worker", 1);
    key_files_make(&files, "router", "router", 1);
    key_files_make(&files, "root", "admin", 1);
    key_files_path(&files, "w1", ".key", own);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    key_files_end(&files);
    return 0;
}

static struct curve_keys *load(void)
{
    struct curve_keys *k;
    struct error e;

    if (curve_keys_load(&k, own, files.dir, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return k;
}

/* Loading fails with a sentence that contains these words. */
static void expect_error(const char *what, const char *why)
{
    struct curve_keys *k;
    struct error e = {0};

    assert_int_equal(curve_keys_load(&k, own, files.dir, &e),
                     ST_INVALID_ARGUMENT);
    assert_null(k);
    if (strstr(e.text, what) == NULL || strstr(e.text, why) == NULL) {
        fail_msg("\"%s\" without \"%s\" or \"%s\"", e.text, what, why);
    }
}

static void reads_a_key_and_who_is_trusted(void **state)
{
    struct curve_keys *k = load();
    const struct identity *id = curve_keys_nth(k, BY_ALL, 0);

    (void)state;
    assert_string_equal(curve_keys_name(k), "w1");
    assert_int_equal(curve_keys_roles(k), BY_WORKER);
    assert_int_equal(curve_keys_n(k), 3);
    assert_string_equal(id->name, "root"); /* in the order of the names */
    assert_int_equal(id->roles, BY_ADMIN | BY_CLIENT);
    assert_ptr_equal(curve_keys_nth(k, BY_CLIENT, 0), id);
    assert_string_equal(curve_keys_nth(k, BY_ROUTER, 0)->name, "router");
    assert_null(curve_keys_nth(k, BY_ROUTER, 1));
    id = curve_keys_find(k, curve_keys_public(k));
    assert_string_equal(id->name, "w1");
    assert_int_equal(id->roles, BY_WORKER);
    assert_null(curve_keys_find(k, curve_keys_secret(k)));
    curve_keys_free(&k);
}

static void without_options_there_are_no_keys(void **state)
{
    struct curve_keys *k;
    struct error e;

    (void)state;
    assert_int_equal(curve_keys_load(&k, NULL, NULL, &e), ST_OK);
    assert_null(k);
    assert_int_equal(curve_keys_load(&k, own, NULL, &e), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "give both"));
    assert_int_equal(curve_keys_load(&k, NULL, files.dir, &e),
                     ST_INVALID_ARGUMENT);
}

/* czmq makes no context, installs no handlers and prints nothing. */
static void reading_has_no_side_effects(void **state)
{
    struct sigaction before, after;
    struct curve_keys *k;

    (void)state;
    sigaction(SIGINT, NULL, &before);
    k = load();
    sigaction(SIGINT, NULL, &after);
    assert_ptr_equal(before.sa_handler, after.sa_handler);
    curve_keys_free(&k);
}

static void reads_what_zcert_writes(void **state)
{
    char path[KEY_FILES_PATH];
    struct curve_keys *k;
    zcert_t *c = zcert_new();

    (void)state;
    assert_non_null(c);
    zcert_set_meta(c, "name", "gw");
    zcert_set_meta(c, "role", "client, worker");
    key_files_path(&files, "gw", ".key", own);
    assert_int_equal(zcert_save_secret(c, own), 0);
    key_files_path(&files, "gw", ".cert", path);
    assert_int_equal(zcert_save_public(c, path), 0);
    k = load();
    assert_string_equal(curve_keys_name(k), "gw");
    assert_memory_equal(curve_keys_public(k), zcert_public_key(c), KEY_BYTES);
    assert_memory_equal(curve_keys_secret(k), zcert_secret_key(c), KEY_BYTES);
    assert_int_equal(curve_keys_find(k, curve_keys_public(k))->roles,
                     BY_CLIENT | BY_WORKER);
    curve_keys_free(&k);
    zcert_destroy(&c);
}

static void others_must_not_read_a_secret_key(void **state)
{
    static const mode_t good[] = {0600, 0400, 0640, 0440, 0700},
                        bad[] = {0604, 0602, 0601, 0660, 0620, 0644};
    struct curve_keys *k;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        chmod(own, good[i]);
        k = load();
        curve_keys_free(&k);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        chmod(own, bad[i]);
        expect_error("w1.key", "use the secret key");
    }
}

/* A certificate that somebody copies in becomes a peer, or an administrator. */
static void others_must_not_write_trusted_certificates(void **state)
{
    static const mode_t bad[] = {0777, 0757, 0775, 01777};
    struct curve_keys *k;
    char path[KEY_FILES_PATH];

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        chmod(files.dir, bad[i]);
        expect_error("--trust", "lets other users add keys");
    }
    chmod(files.dir, 0755);
    key_files_path(&files, "w1", ".cert", path);
    chmod(path, 0666);
    expect_error("w1.cert", "lets other users add keys");
    chmod(path, 0644);
    k = load();
    curve_keys_free(&k);
}

static void names_and_keys_are_unique(void **state)
{
    char public[41], secret[41];

    (void)state;
    assert_int_equal(zmq_curve_keypair(public, secret), 0);
    key_files_cert(&files, "other", "w1", "worker", public);
    expect_error("two certificates", "w1");
    key_files_cert(&files, "other", "w2", "worker", public);
    key_files_cert(&files, "again", "w3", "worker", public);
    expect_error("w2 and w3", "same key");
}

static void a_suffix_allows_two_keys_of_a_name(void **state)
{
    char public[41], secret[41];
    const struct identity *id;
    struct curve_keys *k;
    unsigned n = 0;

    (void)state;
    assert_int_equal(zmq_curve_keypair(public, secret), 0);
    key_files_cert(&files, "new", "router+2", "router", public);
    k = load();
    while ((id = curve_keys_nth(k, BY_ROUTER, n)) != NULL) {
        assert_string_equal(id->name, "router");
        n++;
    }
    assert_int_equal(n, 2);
    curve_keys_free(&k);
}

static void names_are_checked(void **state)
{
    static const char
        *const good[] = {"a", "A-b_c.9", "0123456789abcdef0123456789abcdef",
                         "x+1", "x+9999"},
               *const bad[] = {"",         "a b",
                               "a/b",      "a+",
                               "a+x",      "a+12345",
                               "+1",       "a+1+2",
                               "\xc3\xa4", "0123456789abcdef0123456789abcdef0"};
    char public[41], secret[41];
    struct curve_keys *k;

    (void)state;
    assert_int_equal(zmq_curve_keypair(public, secret), 0);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        key_files_cert(&files, "n", good[i], "client", public);
        k = load();
        curve_keys_free(&k);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        key_files_cert(&files, "n", bad[i], "client", public);
        expect_error("n.cert", "");
    }
}

static void faults_of_a_file_are_sentences(void **state)
{
#define META "metadata\n    name = \"x\"\n    role = \"client\"\n"
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "no name"},
        {META, "public-key"},
        {META "curve\n    public-key = \"short\"\n", "public-key"},
        {META "curve\n    public-key = \"Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{h"
              "~~\"\n",
         "public-key"},
        {"metadata\n  name = \"x\"\n", "line 2"},
        {"metadata\n        name = \"x\"\n", "line 2"},
        {"metadata\n    name = \"x\n", "line 2"},
        {"metadata\n    name=x\n", "line 2"},
        {"metadata\n    name = \"x\"y\n", "line 2"},
        {"\x01\xff\n", "line 1"},
        {"metadata\n    name = \"x\"\n    role = \"king\"\n", "king"},
        {"metadata\n    name = \"x\"\n    role = \"\"\ncurve\n    public-key = "
         "\"Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID\"\n",
         "no role"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        key_files_write(&files, "broken", ".cert", cases[i].text);
        expect_error("broken.cert", cases[i].why);
    }
}

static void files_have_a_longest_length(void **state)
{
    char text[CURVE_CERT_BYTES_MAX + 2] = "", path[KEY_FILES_PATH];
    struct curve_keys *k;
    size_t n;
    FILE *f;

    (void)state;
    key_files_path(&files, "root", ".cert", path);
    f = fopen(path, "r");
    n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    memset(text + n, ' ', CURVE_CERT_BYTES_MAX - n);
    key_files_write(&files, "root", ".cert", text);
    k = load();
    curve_keys_free(&k);
    text[CURVE_CERT_BYTES_MAX] = ' ';
    key_files_write(&files, "root", ".cert", text);
    expect_error("root.cert", "at most 8192 bytes");
}

static void the_folder_has_a_most_of_certificates(void **state)
{
    struct curve_keys *k;
    char public[41], secret[41], name[KEY_NAME_MAX];

    (void)state;
    for (unsigned i = 3; i <= CURVE_KEYS_MAX; i++) {
        if (i == CURVE_KEYS_MAX) {
            k = load();
            assert_int_equal(curve_keys_n(k), CURVE_KEYS_MAX);
            curve_keys_free(&k);
        }
        assert_int_equal(zmq_curve_keypair(public, secret), 0);
        snprintf(name, sizeof name, "c%u", i);
        key_files_cert(&files, name, name, "client", public);
    }
    expect_error("more than 4096", "");
}

static void a_key_file_needs_its_secret_key(void **state)
{
    (void)state;
    key_files_path(&files, "w1", ".cert", own);
    chmod(own, 0600);
    expect_error("w1.cert", "no secret key");
    key_files_path(&files, "none", ".key", own);
    expect_error("none.key", "No such file");
    key_files_path(&files, "", "", own);
    expect_error("is not a file", "");
}

static void a_pair_must_fit(void **state)
{
    char public[41], secret[41], text[512];

    (void)state;
    assert_int_equal(zmq_curve_keypair(public, secret), 0);
    assert_int_equal(zmq_curve_keypair(public, (char[41]){0}), 0);
    snprintf(text, sizeof text,
             META "curve\n    public-key = \"%s\"\n    "
                  "secret-key = \"%s\"\n",
             public, secret);
    key_files_write(&files, "w1", ".key", text);
    expect_error("w1.key", "does not belong");
}

static void a_reload_takes_all_or_nothing(void **state)
{
    struct curve_keys *k = load();
    uint8_t before[KEY_BYTES];
    struct error e;

    (void)state;
    memcpy(before, curve_keys_public(k), KEY_BYTES);
    key_files_make(&files, "w1", "worker", 1);
    key_files_write(&files, "broken", ".cert", "?");
    assert_int_equal(curve_keys_reload(k, &e), ST_INVALID_ARGUMENT);
    assert_int_equal(curve_keys_n(k), 3);
    assert_memory_equal(curve_keys_public(k), before, KEY_BYTES);
    assert_non_null(curve_keys_find(k, before));
    key_files_remove(&files, "broken", ".cert");
    key_files_remove(&files, "root", ".cert");
    assert_int_equal(curve_keys_reload(k, &e), ST_OK);
    assert_int_equal(curve_keys_n(k), 2);
    assert_memory_not_equal(curve_keys_public(k), before, KEY_BYTES);
    assert_null(curve_keys_find(k, before));
    curve_keys_free(&k);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(reads_a_key_and_who_is_trusted),
        TEST(without_options_there_are_no_keys),
        TEST(reading_has_no_side_effects),
        TEST(reads_what_zcert_writes),
        TEST(others_must_not_read_a_secret_key),
        TEST(others_must_not_write_trusted_certificates),
        TEST(names_and_keys_are_unique),
        TEST(a_suffix_allows_two_keys_of_a_name),
        TEST(names_are_checked),
        TEST(faults_of_a_file_are_sentences),
        TEST(files_have_a_longest_length),
        TEST(the_folder_has_a_most_of_certificates),
        TEST(a_key_file_needs_its_secret_key),
        TEST(a_pair_must_fit),
        TEST(a_reload_takes_all_or_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
