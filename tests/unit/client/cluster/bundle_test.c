/* Bundles: equal bytes for equal files, and attacks on the reader. */
#include "client/cluster/bundle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <archive.h>
#include <archive_entry.h>

#include "client/cluster/bundle_diff.h"
#include "tests/unit/cmocka.h"

static struct error e;

static struct bundle sample(const char *text)
{
    struct bundle b = {.cluster = "c", .host = "h"};

    bundle_add(&b, "etc/sluice/worker-w.conf", text, strlen(text));
    bundle_add(&b, "etc/sluice/keys/w.key", "secret", 6);
    bundle_add_unit(&b, "sluice-worker@w.service");
    bundle_sort(&b);
    return b;
}

static void a_bundle_is_read_as_it_was_written(void **state)
{
    struct bundle b = sample("name = w\n"), back;
    char *bytes;
    size_t n;

    (void)state;
    assert_int_equal(bundle_write(&b, &bytes, &n, &e), ST_OK);
    assert_int_equal(bundle_read(&back, bytes, n, &e), ST_OK);
    assert_string_equal(back.cluster, "c");
    assert_string_equal(back.host, "h");
    assert_int_equal(back.n, 2);
    assert_string_equal(back.file[0].path, "etc/sluice/keys/w.key");
    assert_true(back.file[0].secret);
    assert_string_equal(back.file[1].bytes, "name = w\n");
    assert_false(back.file[1].secret);
    assert_string_equal(back.unit[0], "sluice-worker@w.service");
    free(bytes);
    bundle_free(&b);
    bundle_free(&back);
}

static void equal_files_give_equal_bytes(void **state)
{
    struct bundle b = sample("x\n"), same = sample("x\n");
    char *one, *two;
    size_t n, m;

    (void)state;
    assert_int_equal(bundle_write(&b, &one, &n, &e), ST_OK);
    assert_int_equal(bundle_write(&same, &two, &m, &e), ST_OK);
    assert_int_equal(n, m);
    assert_memory_equal(one, two, n);
    free(one);
    free(two);
    bundle_free(&b);
    bundle_free(&same);
}

static void only_paths_of_sluice_are_allowed(void **state)
{
    static const char *const good[] = {
        "etc/sluice/router.conf", "etc/sluice/worker-a.b_c-1.conf",
        "etc/sluice/trust/w1+22.cert",
        "etc/systemd/system/sluice-worker@w.service.d/50-cluster.conf"};
    static const char *const bad[] = {
        "etc/passwd",
        "/etc/sluice/router.conf",
        "etc/sluice/../passwd",
        "etc/sluice/keys/../../passwd.key",
        "etc/sluice/keys/.key",
        "etc/sluice/keys/a/b.key",
        "etc/sluice/keys/w+2.key",
        "etc/sluice/trust/w+.cert",
        "etc/sluice/trust/w+12345.cert",
        "etc/sluice/worker-.conf",
        "etc/sluice/worker-a.conf.x",
        "etc/systemd/system/ssh.service.d/50-cluster.conf",
        "etc/systemd/system/sluice-worker@a/b.service.d/50-cluster.conf",
        ""};

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(bundle_path_allowed(good[i]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (bundle_path_allowed(bad[i])) {
            fail_msg("%s is allowed", bad[i]);
        }
    }
}

/* ---- tar files of an attacker ---- */

struct tar {
    struct archive *archive;
    char bytes[65536];
    size_t n;
};

static void tar_begin(struct tar *t)
{
    t->archive = archive_write_new();
    archive_write_set_format_pax_restricted(t->archive);
    assert_int_equal(
        archive_write_open_memory(t->archive, t->bytes, sizeof t->bytes, &t->n),
        ARCHIVE_OK);
}

static void tar_add(struct tar *t, const char *path, const char *link,
                    const char *text)
{
    struct archive_entry *entry = archive_entry_new();

    archive_entry_set_pathname(entry, path);
    archive_entry_set_perm(entry, 04777);
    archive_entry_set_filetype(entry, link != NULL ? AE_IFLNK : AE_IFREG);
    if (link != NULL) {
        archive_entry_set_symlink(entry, link);
    }
    archive_entry_set_size(entry, (la_int64_t)strlen(text));
    assert_int_equal(archive_write_header(t->archive, entry), ARCHIVE_OK);
    archive_write_data(t->archive, text, strlen(text));
    archive_entry_free(entry);
}

static void tar_refused(struct tar *t, const char *text)
{
    struct bundle b;

    archive_write_close(t->archive);
    archive_write_free(t->archive);
    assert_int_equal(bundle_read(&b, t->bytes, t->n, &e), ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, text);
    assert_int_equal(b.n, 0);
}

#define HASH_X \
    "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
#define FILE_X   "file 0644 root " HASH_X " etc/sluice/router.conf\n"
#define MANIFEST "sluice-bundle 1\ncluster c\nhost h\n"

static void foreign_entries_are_refused(void **state)
{
    static struct tar t;

    (void)state;
    tar_begin(&t);
    tar_add(&t, "manifest", NULL, MANIFEST);
    tar_add(&t, "../../etc/passwd", NULL, "x");
    tar_refused(&t, "\"../../etc/passwd\": a bundle may not write there");

    tar_begin(&t);
    tar_add(&t, "manifest", NULL, MANIFEST FILE_X);
    tar_add(&t, "etc/sluice/router.conf", "/etc/shadow", "");
    tar_refused(&t, "\"etc/sluice/router.conf\" is a link, a folder or a "
                    "device; a bundle has plain files only");

    tar_begin(&t);
    tar_add(&t, "etc/sluice/router.conf", NULL, "x");
    tar_refused(&t, "\"etc/sluice/router.conf\": the first file must be the "
                    "manifest, once");

    tar_begin(&t);
    tar_add(&t, "manifest", NULL, MANIFEST);
    tar_add(&t, "manifest", NULL, MANIFEST);
    tar_refused(&t, "\"manifest\": the first file must be the manifest, once");
}

static void the_manifest_and_the_files_must_agree(void **state)
{
    static struct tar t;

    (void)state;
    tar_begin(&t);
    tar_add(&t, "manifest", NULL, MANIFEST);
    tar_add(&t, "etc/sluice/router.conf", NULL, "x");
    tar_refused(&t, "\"etc/sluice/router.conf\" is not in the manifest; a "
                    "bundle has no other files");

    tar_begin(&t);
    tar_add(&t, "manifest", NULL, MANIFEST FILE_X);
    tar_add(&t, "etc/sluice/router.conf", NULL, "y");
    tar_refused(&t, "\"etc/sluice/router.conf\" has another hash than in the "
                    "manifest");

    tar_begin(&t);
    tar_add(&t, "manifest", NULL, MANIFEST FILE_X);
    tar_add(&t, "etc/sluice/router.conf", NULL, "x");
    tar_add(&t, "etc/sluice/router.conf", NULL, "x");
    tar_refused(&t, "\"etc/sluice/router.conf\" is there twice");

    tar_begin(&t);
    tar_add(&t, "manifest", NULL, MANIFEST FILE_X);
    tar_refused(&t, "etc/sluice/router.conf is in the manifest, but not in the "
                    "bundle");
}

static void no_tar_is_refused(void **state)
{
    struct bundle b;
    static char large[BUNDLE_BYTES_MAX + 1];

    (void)state;
    assert_int_equal(bundle_read(&b, "hello", 5, &e), ST_INVALID_ARGUMENT);
    assert_int_equal(bundle_read(&b, "", 0, &e), ST_INVALID_ARGUMENT);
    assert_int_equal(bundle_read(&b, large, sizeof large, &e),
                     ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, "the bundle has 67108865 bytes; at most "
                                "67108864 are allowed");
    assert_int_equal(bundle_read(&b, large, sizeof large - 1, &e),
                     ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, "the bundle is empty");
}

static void a_file_has_a_limit(void **state)
{
    char *text = calloc(1, BUNDLE_FILE_BYTES + 2);
    struct bundle b = {.cluster = "c", .host = "h"}, back;
    char *bytes;
    size_t n;

    (void)state;
    bundle_add(&b, "etc/sluice/router.conf", text, BUNDLE_FILE_BYTES);
    assert_int_equal(bundle_write(&b, &bytes, &n, &e), ST_OK);
    assert_int_equal(bundle_read(&back, bytes, n, &e), ST_OK);
    bundle_free(&back);
    bundle_free(&b);
    free(bytes);
    b = (struct bundle){.cluster = "c", .host = "h"};
    bundle_add(&b, "etc/sluice/router.conf", text, BUNDLE_FILE_BYTES + 1);
    assert_int_equal(bundle_write(&b, &bytes, &n, &e), ST_OK);
    assert_int_equal(bundle_read(&back, bytes, n, &e), ST_INVALID_ARGUMENT);
    assert_string_equal(e.text,
                        "\"etc/sluice/router.conf\" has 1048577 bytes; at most "
                        "1048576 are allowed");
    bundle_free(&b);
    free(bytes);
    free(text);
}

static void bad_manifest(const char *text, const char *fault)
{
    struct bundle b;

    assert_int_equal(bundle_manifest_parse(&b, text, strlen(text), &e),
                     ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, fault);
}

static void manifests_are_strict(void **state)
{
    struct bundle b;

    (void)state;
    assert_int_equal(
        bundle_manifest_parse(&b, MANIFEST FILE_X, strlen(MANIFEST FILE_X), &e),
        ST_OK);
    bundle_free(&b);
    bad_manifest("", "the manifest is empty");
    bad_manifest("sluice-bundle 2\n",
                 "manifest, line 1: \"sluice-bundle 2\" is not of a bundle");
    bad_manifest("sluice-bundle 1\ncluster c\n",
                 "the manifest names no cluster or no host");
    bad_manifest(MANIFEST "host x\n",
                 "manifest, line 4: \"host x\" is not of a bundle");
    bad_manifest(MANIFEST "unit ssh.service\n",
                 "manifest, line 4: \"unit ssh.service\" is not of a bundle");
    bad_manifest(MANIFEST "file 0644 root abc etc/sluice/router.conf\n",
                 "manifest, line 4: \"file 0644 root abc "
                 "etc/sluice/router.conf\" is not of a bundle");
    assert_int_equal(bundle_manifest_parse(&b, MANIFEST FILE_X FILE_X,
                                           strlen(MANIFEST FILE_X FILE_X), &e),
                     ST_INVALID_ARGUMENT);
}

static void the_difference_shows_lines_but_no_secret(void **state)
{
    struct bundle old = sample("a = 1\nb = 2\n");
    struct bundle now = {.cluster = "c", .host = "h"};
    char *text;
    size_t n;
    FILE *to = open_memstream(&text, &n);

    (void)state;
    bundle_add(&now, "etc/sluice/keys/w.key", "other", 5);
    bundle_add(&now, "etc/sluice/router.conf", "x\n", 2);
    bundle_add(&now, "etc/sluice/worker-w.conf", "a = 1\nb = 3\n", 12);
    assert_int_equal(bundle_diff(to, &old, &now), 3);
    bundle_free(&now);
    assert_int_equal(bundle_diff(to, &old, &now), 2);
    fclose(to);
    assert_string_equal(text, "  ~ etc/sluice/keys/w.key\n"
                              "  + etc/sluice/router.conf\n"
                              "  ~ etc/sluice/worker-w.conf\n"
                              "    - b = 2\n"
                              "    + b = 3\n"
                              "  - etc/sluice/keys/w.key\n"
                              "  - etc/sluice/worker-w.conf\n");
    free(text);
    bundle_free(&old);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bundle_is_read_as_it_was_written),
        cmocka_unit_test(equal_files_give_equal_bytes),
        cmocka_unit_test(only_paths_of_sluice_are_allowed),
        cmocka_unit_test(foreign_entries_are_refused),
        cmocka_unit_test(the_manifest_and_the_files_must_agree),
        cmocka_unit_test(no_tar_is_refused),
        cmocka_unit_test(a_file_has_a_limit),
        cmocka_unit_test(manifests_are_strict),
        cmocka_unit_test(the_difference_shows_lines_but_no_secret),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
