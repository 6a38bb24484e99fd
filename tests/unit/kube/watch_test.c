#include "kube/watch.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include <cmocka.h>

#include "fake_http.h"

/* A watch of pods whose callbacks write what they are told: "+a/1 " added a of UID 1, "~" modified,
 * "-" deleted with its last state, "?" found gone, "S" synced, "R" relisted, "T" trouble. */
struct fixture {
    struct fake fake;
    struct gs_kube_watch *watch;
    char said[4096];
    uint32_t wait_ms;
    bool free_at_next; /**< end the watch in the next callback */
};

static void say(struct fixture *f, const char *mark, const struct gs_kube_key *key)
{
    size_t n = strlen(f->said);

    if (key)
        (void)snprintf(f->said + n, sizeof(f->said) - n, "%s%.*s/%.*s ", mark, (int)key->name.n,
                       key->name.p, (int)key->uid.n, key->uid.p);
    else
        (void)snprintf(f->said + n, sizeof(f->said) - n, "%s ", mark);
    if (f->free_at_next)
        f->watch = gs_kube_watch_free(f->watch);
    f->free_at_next = false;
}

static void on_added(void *arg, const struct gs_kube_key *key, yyjson_val *object)
{
    assert_non_null(object);
    say(arg, "+", key);
}

static void on_modified(void *arg, const struct gs_kube_key *key, yyjson_val *object)
{
    assert_non_null(object);
    say(arg, "~", key);
}

static void on_deleted(void *arg, const struct gs_kube_key *key, yyjson_val *last)
{
    say(arg, last ? "-" : "?", key);
}

static void on_synced(void *arg)
{
    say(arg, "S", NULL);
}

static void on_relisted(void *arg)
{
    say(arg, "R", NULL);
}

static void on_trouble(void *arg, const struct gs_err *why, uint32_t wait_ms)
{
    struct fixture *f = arg;

    assert_true(why->text[0] != '\0');
    f->wait_ms = wait_ms;
    say(f, "T", NULL);
}

static const struct gs_kube_watch_fns fns = {on_added,  on_modified, on_deleted,
                                             on_synced, on_relisted, on_trouble};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct gs_kube_watch_opt opt = {
        .resource = &gs_kube_pods, .page = 2, .max_object = 4096, .timeout_s = 300};

    if (!f)
        return -1;
    *state = f;
    fake_new(&f->fake, NULL);
    return gs_kube_watch_new(f->fake.client, &opt, &fns, f, &f->watch, NULL);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    f->watch = gs_kube_watch_free(f->watch);
    fake_free(&f->fake);
    free(f);
    return 0;
}

static void expect_said(struct fixture *f, const char *want)
{
    assert_string_equal(f->said, want);
    f->said[0] = '\0';
}

#define ITEM(name, uid, version)                                                                   \
    "{\"metadata\":{\"namespace\":\"n\",\"name\":\"" name "\",\"uid\":\"" uid                      \
    "\",\"resourceVersion\":\"" version "\"}}"
#define LIST(version, more, items)                                                                 \
    "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"" version "\",\"continue\":\"" more \
    "\"},\"items\":[" items "]}"
#define EVENT(type, name, uid, version)                                                            \
    "{\"type\":\"" type "\",\"object\":" ITEM(name, uid, version) "}\n"
#define BOOKMARK(version)                                                                          \
    "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"resourceVersion\":"       \
    "\"" version "\"}}}\n"
#define GONE                                                                                       \
    "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\","     \
    "\"message\":\"too old resource version\"}}\n"

/* The first list of two objects; the stream that follows it. */
static struct gs_http_call *synced(struct fixture *f)
{
    fake_answer(fake_next(&f->fake, 1000), 200,
                LIST("10", "", ITEM("a", "1", "5") "," ITEM("b", "2", "6")), -1);
    expect_said(f, "+a/1 +b/2 S ");
    return fake_next(&f->fake, 1000);
}

static struct gs_kube_watch_stats stats_of(struct fixture *f)
{
    struct gs_kube_watch_stats stats;

    gs_kube_watch_stats(f->watch, &stats);
    return stats;
}

static void lists_then_watches(void **state)
{
    struct fixture *f = *state;
    struct gs_http_call *call = fake_next(&f->fake, 1000);

    assert_string_equal(call->url, "http://api/api/v1/pods?limit=2");
    fake_answer(call, 200, LIST("10", "tok/en", ITEM("a", "1", "5") "," ITEM("b", "2", "6")), -1);
    expect_said(f, "+a/1 +b/2 ");
    call = fake_next(&f->fake, 1000);
    assert_string_equal(call->url, "http://api/api/v1/pods?continue=tok%2Fen&limit=2");
    fake_answer(call, 200, LIST("10", "", ITEM("c", "3", "7")), -1);
    expect_said(f, "+c/3 S ");
    call = fake_next(&f->fake, 1000);
    assert_non_null(strstr(call->url, "http://api/api/v1/pods?resourceVersion=10&watch=1"
                                      "&allowWatchBookmarks=true&timeoutSeconds="));
    assert_true(fake_chunk(call, EVENT("ADDED", "d", "4", "11") EVENT("MODIFIED", "a", "1", "12")
                                     EVENT("DELETED", "b", "2", "13")));
    expect_said(f, "+d/4 ~a/1 -b/2 ");
    assert_int_equal(stats_of(f).objects, 3);
    assert_int_equal(stats_of(f).lists, 1);
}

static void lines_may_be_cut_anywhere(void **state)
{
    struct fixture *f = *state;
    struct gs_http_call *call = synced(f);
    const char *text = EVENT("ADDED", "d", "4", "11") "\r\n" EVENT("DELETED", "d", "4", "12");

    for (const char *c = text; *c; c++)
        assert_true(fake_chunk_n(call, c, 1));
    expect_said(f, "+d/4 -d/4 ");
}

static void goes_on_from_the_last_bookmark(void **state)
{
    struct fixture *f = *state;
    struct gs_http_call *call = synced(f);

    assert_true(fake_chunk(call, EVENT("ADDED", "d", "4", "11") BOOKMARK("900")));
    assert_int_equal(stats_of(f).bookmarks, 1);
    fake_run(&f->fake, 300000);
    fake_end(call, 0);
    call = fake_next(&f->fake, 1); /* the agreed end: at once */
    assert_non_null(strstr(call->url, "resourceVersion=900&watch=1"));
    expect_said(f, "+d/4 ");
}

static void a_cut_stream_is_tried_later_and_later(void **state)
{
    struct fixture *f = *state;
    struct gs_http_call *call = synced(f);
    uint32_t last = 0;

    for (int i = 0; i < 8; i++) {
        uint64_t before;

        fake_end(call, -ECONNRESET);
        expect_said(f, "T ");
        assert_in_range(f->wait_ms, 125u << i, 250u << i);
        assert_true(f->wait_ms >= last / 2);
        last = f->wait_ms;
        before = fake_now_ms(&f->fake);
        call = fake_next(&f->fake, 60000);
        assert_int_equal(fake_now_ms(&f->fake) - before, f->wait_ms);
    }
    assert_non_null(strstr(call->url, "resourceVersion=10&watch=1")); /* no new list */
    assert_true(fake_chunk(call, BOOKMARK("20")));                    /* it lives: all forgiven */
    fake_end(call, -ECONNRESET);
    assert_in_range(f->wait_ms, 125, 250);
}

static void gone_in_the_stream_lists_anew(void **state)
{
    struct fixture *f = *state;
    struct gs_http_call *call = synced(f);

    assert_false(fake_chunk(call, GONE));
    expect_said(f, "T ");
    call = fake_next(&f->fake, 1000);
    assert_string_equal(call->url, "http://api/api/v1/pods?limit=2");
    /* a unchanged, b another of that name, c new; a list is told page by page */
    fake_answer(call, 200, LIST("50", "", ITEM("a", "1", "5") "," ITEM("b", "9", "40")), -1);
    expect_said(f, "?b/2 +b/9 R ");
    call = fake_next(&f->fake, 1000);
    assert_non_null(strstr(call->url, "resourceVersion=50&watch=1"));
    assert_int_equal(stats_of(f).gone, 1);
    assert_int_equal(stats_of(f).relists, 1);
}

static void gone_as_an_answer_lists_anew(void **state)
{
    struct fixture *f = *state;

    fake_answer(synced(f), 410, "{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"}", -1);
    expect_said(f, "T ");
    fake_answer(fake_next(&f->fake, 1000), 200, LIST("50", "", ITEM("a", "1", "30")), -1);
    expect_said(f, "~a/1 ?b/2 R ");
}

static void gone_between_pages_starts_over(void **state)
{
    struct fixture *f = *state;

    fake_answer(fake_next(&f->fake, 1000), 200,
                LIST("10", "t", ITEM("a", "1", "5") "," ITEM("b", "2", "6")), -1);
    fake_answer(fake_next(&f->fake, 1000), 410, "{\"kind\":\"Status\",\"code\":410}", -1);
    expect_said(f, "+a/1 +b/2 ");
    struct gs_http_call *call = fake_next(&f->fake, 1000);
    assert_string_equal(call->url, "http://api/api/v1/pods?limit=4"); /* larger pages */
    fake_answer(call, 200, LIST("20", "", ITEM("b", "2", "6")), -1);
    expect_said(f, "?a/1 S ");
}

/* Whoever may make pods may make them large: fewer are asked for at a time, from where it was. */
static void pages_that_are_too_large_shrink(void **state)
{
    struct fixture *f = *state;
    struct gs_http_call *call;

    fake_answer(fake_next(&f->fake, 1000), 200, LIST("10", "t", ITEM("a", "1", "5")), -1);
    fake_break(fake_next(&f->fake, 1000), -EFBIG);
    call = fake_next(&f->fake, 0); /* at once */
    assert_string_equal(call->url, "http://api/api/v1/pods?continue=t&limit=1");
    fake_answer(call, 200, LIST("10", "", ITEM("b", "2", "6")), -1);
    expect_said(f, "+a/1 +b/2 S ");
}

static void one_object_that_is_too_large_is_told(void **state)
{
    struct fixture *f = *state;

    fake_break(fake_next(&f->fake, 1000), -EFBIG);
    fake_break(fake_next(&f->fake, 1000), -EFBIG);
    expect_said(f, "T ");
}

static void what_vanished_in_a_gap_is_told(void **state)
{
    struct fixture *f = *state;
    struct gs_http_call *call = synced(f);

    fake_end(call, -ECONNRESET);
    fake_answer(fake_next(&f->fake, 1000), 410, "{}", -1);
    expect_said(f, "T T ");
    fake_answer(fake_next(&f->fake, 5000), 200, LIST("99", "", ""), -1);
    assert_int_equal(strlen(f->said), strlen("?a/1 ?b/2 R ")); /* in any order */
    assert_non_null(strstr(f->said, "?a/1 "));
    assert_non_null(strstr(f->said, "?b/2 "));
    assert_int_equal(stats_of(f).objects, 0);
}

static void an_empty_list_may_be_null(void **state)
{
    struct fixture *f = *state;

    fake_answer(fake_next(&f->fake, 1000), 200,
                "{\"metadata\":{\"resourceVersion\":\"7\"},\"items\":null}", -1);
    expect_said(f, "S ");
    assert_non_null(strstr(fake_next(&f->fake, 1000)->url, "resourceVersion=7&watch=1"));
}

static void retry_after_is_obeyed(void **state)
{
    struct fixture *f = *state;
    struct gs_http_call *call = synced(f);
    uint64_t before = fake_now_ms(&f->fake);

    fake_answer(call, 429, "{\"kind\":\"Status\",\"code\":429}", 7);
    expect_said(f, "T ");
    (void)fake_next(&f->fake, 60000);
    assert_in_range(fake_now_ms(&f->fake) - before, 7000, 7250);
}

/* Somebody's load balancer: what it says is not worth an hour of a cache that grows old. */
static void but_not_for_an_hour(void **state)
{
    struct fixture *f = *state;
    struct gs_http_call *call = synced(f);
    uint64_t before = fake_now_ms(&f->fake);

    fake_answer(call, 503, "", 3600);
    expect_said(f, "T ");
    (void)fake_next(&f->fake, 60000);
    assert_in_range(fake_now_ms(&f->fake) - before, 30000, 30250);
}

static void hostile_lines_end_the_stream(void **state)
{
    static const char *const lines[] = {"not JSON\n", "[]\n", "{\"type\":1,\"object\":{}}\n",
                                        "{\"type\":\"ADDED\"}\n",
                                        "{\"type\":\"ADDED\",\"object\":[]}\n"};
    struct fixture *f = *state;
    struct gs_http_call *call = synced(f);

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        assert_false(fake_chunk(call, lines[i]));
        expect_said(f, "T ");
        fake_answer(fake_next(&f->fake, 60000), 200,
                    LIST("10", "", ITEM("a", "1", "5") "," ITEM("b", "2", "6")), -1);
        expect_said(f, "R ");
        call = fake_next(&f->fake, 1000);
    }
}

static void objects_without_a_name_are_passed_over(void **state)
{
    struct fixture *f = *state;
    struct gs_http_call *call = synced(f);

    assert_true(fake_chunk(call, "{\"type\":\"ADDED\",\"object\":{}}\n"
                                 "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":7}}}\n"
                                 "{\"type\":\"DELETED\",\"object\":{\"metadata\":null}}\n"
                                 "{\"type\":\"NEWS\",\"object\":" ITEM("e", "5", "14") "}\n"));
    expect_said(f, "+e/5 ");
    assert_int_equal(stats_of(f).bad, 3);
}

static void an_object_beyond_the_limit_lists_anew(void **state)
{
    struct fixture *f = *state;
    struct gs_http_call *call = synced(f);
    char part[1024];

    memset(part, 'x', sizeof(part));
    for (int i = 0; i < 4; i++)
        assert_true(fake_chunk_n(call, part, sizeof(part)));
    assert_false(fake_chunk_n(call, part, 1));
    expect_said(f, "T ");
    assert_string_equal(fake_next(&f->fake, 60000)->url, "http://api/api/v1/pods?limit=2");
}

static void a_deleted_of_another_is_not_ours(void **state)
{
    struct fixture *f = *state;
    struct gs_http_call *call = synced(f);

    assert_true(fake_chunk(call, EVENT("DELETED", "a", "77", "11")));
    assert_true(fake_chunk(call, EVENT("DELETED", "nobody", "1", "12")));
    expect_said(f, "");
    assert_true(fake_chunk(call, EVENT("MODIFIED", "a", "78", "13")));
    expect_said(f, "?a/1 +a/78 ");
}

static void relist_on_demand(void **state)
{
    struct fixture *f = *state;

    (void)synced(f);
    gs_kube_watch_relist(f->watch);
    assert_int_equal(fake_open(), 0); /* the stream was cut */
    struct gs_http_call *call = fake_next(&f->fake, 1000);
    assert_string_equal(call->url, "http://api/api/v1/pods?limit=2");
    gs_kube_watch_relist(f->watch); /* this list may have begun too early */
    fake_answer(call, 200, LIST("20", "", ITEM("a", "1", "5") "," ITEM("b", "2", "6")), -1);
    expect_said(f, ""); /* not the one that was asked for last */
    call = fake_next(&f->fake, 1000);
    assert_string_equal(call->url, "http://api/api/v1/pods?limit=2");
    fake_answer(call, 200, LIST("21", "", ITEM("b", "2", "6")), -1);
    expect_said(f, "?a/1 R ");
    assert_non_null(strstr(fake_next(&f->fake, 1000)->url, "watch=1"));
}

/* A list shows what was written before it began, whenever its answer comes; of a stream nobody
 * knows how far it is behind. */
static void when_the_list_began(void **state)
{
    struct fixture *f = *state;
    struct gs_http_call *call;
    int64_t began_ms;

    assert_int_equal(stats_of(f).listed_ms, -1);
    call = synced(f);
    began_ms = stats_of(f).listed_ms;
    assert_true(began_ms >= 0 && began_ms <= (int64_t)fake_now_ms(&f->fake));
    fake_run(&f->fake, 5000);
    assert_true(fake_chunk(call, EVENT("MODIFIED", "a", "1", "30")));
    assert_true(stats_of(f).heard_ms >= began_ms + 5000);
    assert_int_equal(stats_of(f).listed_ms, began_ms);
    gs_kube_watch_relist(f->watch);
    call = fake_next(&f->fake, 1000);
    began_ms = (int64_t)fake_now_ms(&f->fake);
    fake_run(&f->fake, 3000);
    fake_answer(call, 200, LIST("20", "", ITEM("a", "1", "5")), -1);
    assert_int_equal(stats_of(f).listed_ms, began_ms);
}

static void a_failed_list_is_tried_again(void **state)
{
    struct fixture *f = *state;
    int tries = 0;

    while (strcmp(f->said, "T ") != 0) { /* the client tries for a minute, then the watch says so */
        fake_answer(fake_next(&f->fake, 60000), 503, "{}", -1);
        tries++;
    }
    assert_true(tries > 3);
    f->said[0] = '\0';
    fake_answer(fake_next(&f->fake, 60000), 403,
                "{\"kind\":\"Status\",\"code\":403,\"reason\":\"Forbidden\"}", -1);
    expect_said(f, "T ");
    (void)synced(f);
}

static void may_be_ended_in_any_callback(void **state)
{
    struct fixture *f = *state;
    struct gs_http_call *call = fake_next(&f->fake, 1000);

    f->free_at_next = true; /* at the first object of a list */
    fake_answer(call, 200, LIST("10", "t", ITEM("a", "1", "5") "," ITEM("b", "2", "6")), -1);
    expect_said(f, "+a/1 ");
    fake_run(&f->fake, 1000);
    assert_int_equal(fake_open(), 0);
}

static void may_be_ended_in_the_stream(void **state)
{
    struct fixture *f = *state;
    struct gs_http_call *call = synced(f);

    f->free_at_next = true;
    assert_false(fake_chunk(call, EVENT("ADDED", "d", "4", "11") EVENT("ADDED", "e", "5", "12")));
    expect_said(f, "+d/4 ");
}

static void may_be_ended_at_the_end_of_a_list(void **state)
{
    struct fixture *f = *state;

    (void)synced(f);
    gs_kube_watch_relist(f->watch);
    f->free_at_next = true;
    fake_answer(fake_next(&f->fake, 1000), 200, LIST("20", "", ""), -1);
    assert_int_equal(strlen(f->said), strlen("?a/1 ")); /* one of two, then no more */
    f->said[0] = '\0';
}

static void memory_comes_back(void **state)
{
    struct fixture *f = *state;
    struct gs_http_call *call = synced(f);
    char text[512];
    size_t before = stats_of(f).bytes;

    for (int i = 0; i < 20000; i++) {
        (void)snprintf(text, sizeof(text),
                       EVENT("ADDED", "p%d", "%d", "%d") EVENT("DELETED", "p%d", "%d", "%d"), i,
                       i + 1000, i + 100, i, i + 1000, i + 101);
        assert_true(fake_chunk(call, text));
        f->said[0] = '\0';
    }
    assert_int_equal(stats_of(f).bytes, before);
    assert_int_equal(stats_of(f).objects, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(lists_then_watches),
        TEST(lines_may_be_cut_anywhere),
        TEST(goes_on_from_the_last_bookmark),
        TEST(a_cut_stream_is_tried_later_and_later),
        TEST(gone_in_the_stream_lists_anew),
        TEST(gone_as_an_answer_lists_anew),
        TEST(gone_between_pages_starts_over),
        TEST(pages_that_are_too_large_shrink),
        TEST(one_object_that_is_too_large_is_told),
        TEST(what_vanished_in_a_gap_is_told),
        TEST(an_empty_list_may_be_null),
        TEST(retry_after_is_obeyed),
        TEST(but_not_for_an_hour),
        TEST(hostile_lines_end_the_stream),
        TEST(objects_without_a_name_are_passed_over),
        TEST(an_object_beyond_the_limit_lists_anew),
        TEST(a_deleted_of_another_is_not_ours),
        TEST(relist_on_demand),
        TEST(when_the_list_began),
        TEST(a_failed_list_is_tried_again),
        TEST(may_be_ended_in_any_callback),
        TEST(may_be_ended_in_the_stream),
        TEST(may_be_ended_at_the_end_of_a_list),
        TEST(memory_comes_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
