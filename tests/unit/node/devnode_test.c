#include "node/devnode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void the_machines_nodes_are_character_devices(void **state)
{
    const struct gs_devnode_roots own = {"", ""};
    struct gs_devnode node;

    (void)state;
    gs_devnode_look(&own, "/dev/null", true, &node);
    assert_true(node.is_there && node.is_needed);
    assert_string_equal(node.path, "/dev/null");
    gs_devnode_look(&own, "/dev/no-such-node", false, &node);
    assert_false(node.is_there || node.is_needed);
    gs_devnode_look(&own, "/proc/self/stat", true, &node); /* a file, not a device */
    assert_false(node.is_there);
}

static void files_stand_for_nodes_below_a_root(void **state)
{
    char root[] = "/tmp/gs-devnode-XXXXXX", path[64];
    const struct gs_devnode_roots roots = {root, root};
    struct gs_devnode node;
    FILE *f;

    (void)state;
    assert_non_null(mkdtemp(root));
    (void)snprintf(path, sizeof(path), "%s/dev", root);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/dev/card", root);
    f = fopen(path, "we");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
    gs_devnode_look(&roots, "/dev/card", true, &node);
    assert_true(node.is_there);
    assert_string_equal(node.path, "/dev/card");
    gs_devnode_look(&roots, "/dev/null", true, &node);
    assert_false(node.is_there);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof(path), "%s/dev", root);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(root), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_machines_nodes_are_character_devices),
        cmocka_unit_test(files_stand_for_nodes_below_a_root),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
