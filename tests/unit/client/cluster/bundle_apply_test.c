/* Installation below a root: modes, removal, links in the way. */
#include "client/cluster/bundle_apply.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/client/cluster/scratch.h"
#include "tests/unit/cmocka.h"

static struct error e;
static char changes[4096];

static void on_change(void *arg, enum apply_change what, const char *path)
{
    (void)arg;
    snprintf(changes + strlen(changes), sizeof changes - strlen(changes),
             "%c%s ", "+~-"[what], path + strlen("etc/sluice/"));
}

/* A root with the group, which only root needs. */
static int root_make(void **state)
{
    if (scratch_make(state) != 0) {
        return 1;
    }
    mkdir(scratch_path("etc"), 0755);
    scratch_write("etc/group", "root:x:0:\nsluice:x:4711:\n", 0644);
    return 0;
}

static struct bundle with(const char *router, const char *worker)
{
    struct bundle b = {.cluster = "c", .host = "h"};

    bundle_add(&b, "etc/sluice/keys/w.key", "secret", 6);
    if (router != NULL) {
        bundle_add(&b, "etc/sluice/router.conf", router, strlen(router));
    }
    if (worker != NULL) {
        bundle_add(&b, "etc/sluice/worker-w.conf", worker, strlen(worker));
    }
    return b;
}

/* Applies and frees b, up to the units if `cut`, as a run that is killed. */
static enum status apply_to(struct bundle b, bool dry_run, bool cut)
{
    const struct apply how = {scratch, dry_run, on_change, NULL};
    struct bundle old;
    enum status st = bundle_installed(&old, scratch, &e);

    changes[0] = '\0';
    st = st == ST_OK ? bundle_apply(&b, &old, &how, &e) : st;
    st = st == ST_OK && !cut ? bundle_apply_done(&b, &how, &e) : st;
    bundle_free(&old);
    bundle_free(&b);
    return st;
}

static enum status apply(struct bundle b, bool dry_run)
{
    return apply_to(b, dry_run, false);
}

/* Returns whether the next apply of b restarts a unit. */
static bool next_restarts(struct bundle b, const char *unit)
{
    const struct apply how = {.root = scratch};
    struct bundle old;
    bool differs;

    assert_int_equal(bundle_installed(&old, scratch, &e), ST_OK);
    assert_int_equal(bundle_apply(&b, &old, &how, &e), ST_OK);
    differs = bundle_unit_differs(&b, &old, unit);
    bundle_free(&old);
    bundle_free(&b);
    return differs;
}

static void files_have_their_modes_and_owners(void **state)
{
    struct stat s;

    (void)state;
    assert_int_equal(apply(with("a\n", "b\n"), false), ST_OK);
    assert_string_equal(changes, "+keys/w.key +router.conf +worker-w.conf ");
    assert_string_equal(scratch_read("etc/sluice/router.conf"), "a\n");
    assert_int_equal(scratch_mode("etc/sluice/router.conf"), 0644);
    assert_int_equal(scratch_mode("etc/sluice/keys/w.key"), 0640);
    assert_int_equal(scratch_mode("etc/sluice/keys"), 0750);
    if (geteuid() == 0) {
        assert_int_equal(stat(scratch_path("etc/sluice/keys/w.key"), &s), 0);
        assert_int_equal(s.st_gid, 4711);
        assert_int_equal(s.st_uid, 0);
    }
}

static void a_second_apply_changes_nothing(void **state)
{
    (void)state;
    assert_int_equal(apply(with("a\n", "b\n"), false), ST_OK);
    assert_int_equal(apply(with("a\n", "b\n"), false), ST_OK);
    assert_string_equal(changes, "");
}

static void a_file_that_was_edited_is_restored(void **state)
{
    (void)state;
    assert_int_equal(apply(with("a\n", NULL), false), ST_OK);
    scratch_write("etc/sluice/router.conf", "x\n", 0644);
    assert_int_equal(apply(with("a\n", NULL), false), ST_OK);
    assert_string_equal(changes, "~router.conf ");
    assert_string_equal(scratch_read("etc/sluice/router.conf"), "a\n");
    assert_int_equal(chmod(scratch_path("etc/sluice/keys/w.key"), 0644), 0);
    assert_int_equal(apply(with("a\n", NULL), false), ST_OK);
    assert_int_equal(scratch_mode("etc/sluice/keys/w.key"), 0640);
}

static void a_unit_whose_file_was_edited_restarts(void **state)
{
    (void)state;
    assert_int_equal(apply(with("a\n", "b\n"), false), ST_OK);
    assert_false(next_restarts(with("a\n", "b\n"), "sluice-router.service"));
    scratch_write("etc/sluice/router.conf", "x\n", 0644);
    assert_true(next_restarts(with("a\n", "b\n"), "sluice-router.service"));
}

static void a_run_that_was_killed_leaves_its_units_to_the_next(void **state)
{
    (void)state;
    assert_int_equal(apply(with("a\n", "b\n"), false), ST_OK);
    assert_int_equal(apply_to(with("a\n", "c\n"), false, true), ST_OK);
    assert_false(next_restarts(with("a\n", "c\n"), "sluice-router.service"));
    assert_true(next_restarts(with("a\n", "c\n"), "sluice-worker@w.service"));
    assert_int_equal(apply(with("a\n", "c\n"), false), ST_OK);
    assert_false(next_restarts(with("a\n", "c\n"), "sluice-worker@w.service"));
}

static void a_unit_of_a_run_that_was_killed_is_known(void **state)
{
    struct bundle b = with("a\n", "b\n"), old;

    (void)state;
    bundle_add_unit(&b, "sluice-worker@w.service");
    assert_int_equal(apply_to(b, false, true), ST_OK);
    assert_int_equal(bundle_installed(&old, scratch, &e), ST_OK);
    assert_int_equal(old.n_units, 1);
    assert_string_equal(old.unit[0], "sluice-worker@w.service");
    bundle_free(&old);
}

/* A folder in place of the last file ends the first run. */
static void files_of_a_run_that_failed_are_removed(void **state)
{
    struct bundle b = with(NULL, "b\n");

    (void)state;
    bundle_add(&b, "etc/sluice/trust/gone.cert", "x", 1);
    bundle_sort(&b);
    mkdir(scratch_path("etc/sluice"), 0755);
    mkdir(scratch_path("etc/sluice/worker-w.conf"), 0755);
    assert_int_equal(apply(b, false), ST_UNAVAILABLE);
    assert_string_equal(scratch_read("etc/sluice/trust/gone.cert"), "x");
    assert_null(scratch_read("etc/sluice/worker-w.conf.new"));
    assert_int_equal(scratch_mode("etc/sluice/worker-w.conf.new"), 0);
    assert_int_equal(rmdir(scratch_path("etc/sluice/worker-w.conf")), 0);
    assert_int_equal(apply(with(NULL, "b\n"), false), ST_OK);
    assert_null(scratch_read("etc/sluice/trust/gone.cert"));
}

static void files_that_are_gone_are_removed(void **state)
{
    (void)state;
    assert_int_equal(apply(with("a\n", "b\n"), false), ST_OK);
    assert_int_equal(apply(with(NULL, "c\n"), false), ST_OK);
    assert_string_equal(changes, "~worker-w.conf -router.conf ");
    assert_null(scratch_read("etc/sluice/router.conf"));
    assert_string_equal(scratch_read("etc/sluice/worker-w.conf"), "c\n");
}

static void a_dry_run_writes_nothing(void **state)
{
    (void)state;
    assert_int_equal(apply(with("a\n", NULL), true), ST_OK);
    assert_string_equal(changes, "+keys/w.key +router.conf ");
    assert_int_equal(scratch_mode("etc/sluice"), 0);
}

static void a_file_of_another_origin_is_kept(void **state)
{
    (void)state;
    mkdir(scratch_path("etc/sluice"), 0755);
    scratch_write("etc/sluice/router.conf", "by hand\n", 0644);
    assert_int_equal(apply(with("a\n", NULL), false), ST_OK);
    assert_string_equal(scratch_read("etc/sluice/router.conf.orig"),
                        "by hand\n");
    assert_int_equal(apply(with("b\n", NULL), false), ST_OK);
    assert_string_equal(scratch_read("etc/sluice/router.conf.orig"),
                        "by hand\n");
}

static void links_are_not_followed(void **state)
{
    (void)state;
    mkdir(scratch_path("elsewhere"), 0755);
    assert_int_equal(
        symlink(scratch_path("elsewhere"), scratch_path("etc/sluice")), 0);
    assert_int_equal(apply(with("a\n", NULL), false), ST_FAILED_PRECONDITION);
    assert_string_equal(e.text,
                        "etc/sluice/cluster.manifest: cannot open the folder: "
                        "a folder of the path is a link or a file");
    assert_null(scratch_read("elsewhere/router.conf"));
}

static void a_link_in_place_of_a_file_is_replaced(void **state)
{
    (void)state;
    mkdir(scratch_path("etc/sluice"), 0755);
    scratch_write("victim", "old\n", 0644);
    assert_int_equal(
        symlink(scratch_path("victim"), scratch_path("etc/sluice/router.conf")),
        0);
    assert_int_equal(apply(with("a\n", NULL), false), ST_OK);
    assert_string_equal(scratch_read("victim"), "old\n");
    assert_string_equal(scratch_read("etc/sluice/router.conf"), "a\n");
}

static void a_bundle_of_another_host_is_refused(void **state)
{
    struct bundle b = with("a\n", NULL);

    (void)state;
    assert_int_equal(apply(with("a\n", NULL), false), ST_OK);
    strcpy(b.host, "other");
    assert_int_equal(apply(b, false), ST_FAILED_PRECONDITION);
    assert_string_equal(e.text,
                        "the bundle is of host other of cluster c, but this "
                        "machine has that of host h of cluster c; remove "
                        "/etc/sluice/keys, /etc/sluice/trust and "
                        "/etc/sluice/cluster.manifest to change it");
}

static void a_bundle_of_another_cluster_is_refused(void **state)
{
    struct bundle b = with("b\n", NULL);

    (void)state;
    assert_int_equal(apply(with("a\n", NULL), false), ST_OK);
    strcpy(b.cluster, "d");
    assert_int_equal(apply(b, false), ST_FAILED_PRECONDITION);
    assert_non_null(strstr(e.text, "the bundle is of host h of cluster d, but "
                                   "this machine has that of host h of "
                                   "cluster c; "));
    assert_string_equal(scratch_read("etc/sluice/router.conf"), "a\n");
}

static void the_group_must_exist(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        skip();
    }
    scratch_write("etc/group", "root:x:0:\n", 0644);
    assert_int_equal(apply(with("a\n", NULL), false), ST_FAILED_PRECONDITION);
    assert_non_null(strstr(e.text, "the group sluice does not exist"));
}

static void a_damaged_manifest_is_reported(void **state)
{
    (void)state;
    mkdir(scratch_path("etc/sluice"), 0755);
    scratch_write("etc/sluice/cluster.manifest", "x\n", 0644);
    assert_int_equal(apply(with("a\n", NULL), false), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "manifest, line 1: \"x\" is not of a "
                                   "bundle"));
}

static void a_unit_differs_by_its_own_files(void **state)
{
    struct bundle old = with("a\n", "b\n"), now = with("a\n", "c\n");

    (void)state;
    assert_false(bundle_unit_differs(&now, &old, "sluice-router.service"));
    assert_true(bundle_unit_differs(&now, &old, "sluice-worker@w.service"));
    assert_false(bundle_unit_differs(&now, &old, "sluice-worker@v.service"));
    bundle_add(&now,
               "etc/systemd/system/sluice-router.service.d/"
               "50-cluster.conf",
               "x", 1);
    assert_true(bundle_unit_differs(&now, &old, "sluice-router.service"));
    bundle_free(&old);
    bundle_free(&now);
}

static void a_port_that_listens_needs_a_restart_for_a_new_key(void **state)
{
    static const char alone[] = "name = w\nkey = /etc/sluice/keys/w.key\n";
    static const char stage[] = "stage-listen = x\nname = w\n"
                                "stage-listen = x\n"
                                "key = /etc/sluice/keys/w.key\n";
    const char *unit = "sluice-worker@w.service";
    struct bundle old = with(NULL, alone), now = with(NULL, alone);
    struct bundle was = with(NULL, stage), is = with(NULL, stage);

    (void)state;
    memset(old.file[0].hash, '0', 64);
    memset(was.file[0].hash, '0', 64);
    assert_false(bundle_unit_differs(&now, &old, unit));
    assert_true(bundle_unit_differs(&is, &was, unit));
    bundle_free(&old);
    bundle_free(&now);
    bundle_free(&was);
    bundle_free(&is);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, root_make, scratch_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(files_have_their_modes_and_owners),
        TEST(a_second_apply_changes_nothing),
        TEST(a_file_that_was_edited_is_restored),
        TEST(a_unit_whose_file_was_edited_restarts),
        TEST(a_run_that_was_killed_leaves_its_units_to_the_next),
        TEST(a_unit_of_a_run_that_was_killed_is_known),
        TEST(files_of_a_run_that_failed_are_removed),
        TEST(files_that_are_gone_are_removed),
        TEST(a_dry_run_writes_nothing),
        TEST(a_file_of_another_origin_is_kept),
        TEST(links_are_not_followed),
        TEST(a_link_in_place_of_a_file_is_replaced),
        TEST(a_bundle_of_another_host_is_refused),
        TEST(a_bundle_of_another_cluster_is_refused),
        TEST(the_group_must_exist),
        TEST(a_damaged_manifest_is_reported),
        TEST(a_unit_differs_by_its_own_files),
        TEST(a_port_that_listens_needs_a_restart_for_a_new_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
