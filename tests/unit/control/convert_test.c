/* What the books are told of a pod as the API server has it. */

#include "control/convert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <yyjson.h>

#define RUNS  "{'name':'c','state':{'running':{'startedAt':'2026-01-01T00:00:00Z'}}}"
#define WAITS "{'name':'c','state':{'waiting':{'reason':'ContainerCreating'}}}"
#define ENDED "{'name':'c','state':{'terminated':{'exitCode':137}}}"

/* How long could containers of a pod with these statuses and this grace period run on? `meta`: more
 * of its metadata. */
static int64_t outlives_from(const char *meta, const char *statuses, const char *init_statuses,
                             const char *grace)
{
    struct gs_policies none = {0};
    struct gs_arena arena = {0};
    struct gs_kube_pod seen;
    struct gs_books_pod told;
    struct gs_pod placed;
    char text[1024];
    yyjson_doc *doc;
    int64_t ms;

    (void)snprintf(text, sizeof(text),
                   "{'metadata':{'name':'p','namespace':'ns','uid':'u'%s},'spec':{'nodeName':'n'%s,"
                   "'initContainers':[{'name':'i'}],'containers':[{'name':'c'}]},'status':{"
                   "'phase':'Running','containerStatuses':[%s],'initContainerStatuses':[%s]}}",
                   meta, grace, statuses, init_statuses);
    for (char *p = text; *p != '\0'; p++)
        if (*p == '\'')
            *p = '"';
    doc = yyjson_read(text, strlen(text), 0);
    assert_non_null(doc);
    assert_int_equal(gs_kube_view_pod(yyjson_doc_get_root(doc), &arena, &seen, NULL), 0);
    assert_int_equal(gs_convert_pod(&seen, &arena, &placed), 0);
    assert_int_equal(gs_convert_books_pod(&seen, &placed, &none, &arena, &told), 0);
    ms = told.outlives_ms;
    yyjson_doc_free(doc);
    gs_arena_fini(&arena);
    return ms;
}

static int64_t outlives(const char *statuses, const char *init_statuses, const char *grace)
{
    return outlives_from("", statuses, init_statuses, grace);
}

/* 30 s is the API server's default of terminationGracePeriodSeconds; the kubelet gives it also to a
 * pod that was deleted by force, once it has heard of that. */
static void containers_that_run_may_run_on(void **state)
{
    (void)state;
    assert_int_equal(outlives("", "", ""), 0);
    assert_int_equal(outlives(WAITS, "", ""), 0);
    assert_int_equal(outlives(ENDED, ENDED, ""), 0);
    assert_int_equal(outlives(RUNS, ENDED, ""), 60000);
    assert_int_equal(outlives(WAITS, RUNS, ""), 60000);
    assert_int_equal(outlives(ENDED "," RUNS, "", ""), 60000);
    assert_int_equal(outlives(RUNS, "", ",'terminationGracePeriodSeconds':0"), 30000);
    assert_int_equal(outlives(RUNS, "", ",'terminationGracePeriodSeconds':600"), 630000);
    assert_int_equal(outlives(RUNS, "", ",'terminationGracePeriodSeconds':7200"), 7230000);
    /* a number, whatever its owner writes */
    assert_int_equal(outlives(RUNS, "", ",'terminationGracePeriodSeconds':9223372036854775807"),
                     (INT64_C(2147483647) + 30) * 1000);
    /* kubectl delete --grace-period=7200, and by force while that runs */
    assert_int_equal(outlives_from(",'deletionTimestamp':'2026-01-01T02:00:00Z',"
                                   "'deletionGracePeriodSeconds':7200",
                                   RUNS, "", ""),
                     7230000);
    assert_int_equal(outlives_from(",'deletionTimestamp':'2026-01-01T02:00:00Z',"
                                   "'deletionGracePeriodSeconds':0",
                                   RUNS, "", ",'terminationGracePeriodSeconds':600"),
                     630000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(containers_that_run_may_run_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
