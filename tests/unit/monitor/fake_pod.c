#include "fake_pod.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <yyjson.h>

#include "kube/view.h"

const struct gs_pods_keys fake_keys[1] = {
    {GS_STR_INIT("hami.io/vgpu-devices-allocated"), GS_STR_INIT("hami.io/vgpu-mig-allocations")}};

/** ' is a quote, ` one inside a text. */
static size_t quote(const char *from, char *to, size_t cap)
{
    size_t n = 0;

    for (; *from != '\0'; from++) {
        assert_true(n + 2 < cap);
        if (*from == '`')
            to[n++] = '\\';
        to[n++] = *from == '\'' || *from == '`' ? '"' : *from;
    }
    return n;
}

int fake_pod(struct gs_pods *pods, const char *json)
{
    static char text[8192];
    yyjson_doc *doc = yyjson_read(text, quote(json, text, sizeof(text)), 0);
    struct gs_arena arena = {0};
    struct gs_kube_pod pod;
    struct gs_err err = {0};
    int rc;

    assert_non_null(doc);
    assert_int_equal(gs_kube_view_pod(yyjson_doc_get_root(doc), &arena, &pod, &err), 0);
    rc = gs_pods_set(pods, &pod, &err);
    assert_true(rc == 0 || err.text[0] != '\0');
    gs_arena_fini(&arena); /* what was taken is a copy */
    yyjson_doc_free(doc);
    return rc;
}
