/* Bodies of filter and prioritize before a small cluster: the answer is JSON, whatever came, and
 * what is promised is given back when its lease ends. The first byte chooses the call. */

#include <stdint.h>
#include <string.h>

#include <yyjson.h>

#include "cluster.h"
#include "control/filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *text, size_t n, bool is_filter)
{
    yyjson_doc *doc = yyjson_read(text, n, YYJSON_READ_ALLOW_INVALID_UNICODE);
    yyjson_val *root = yyjson_doc_get_root(doc);

    if (is_filter ? !yyjson_is_str(yyjson_obj_get(root, "Error")) : !yyjson_is_arr(root))
        abort();
    yyjson_doc_free(doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gs_books *books = fuzz_books();
    struct gs_arena arena = {0};
    uint8_t how = size > 0 ? data[0] : 0;
    const struct gs_filter_conf conf = {.device_policy = GS_STR("spread"),
                                        .node_policy = GS_STR("binpack"),
                                        .leaves_node_choice = how & 2,
                                        .lease_ms = 1000};
    const struct gs_filter_env env = {
        .books = books, .conf = &conf, .now = {1, 1}, .arena = &arena};
    const struct gs_str body = {(const char *)data + (size > 0), size - (size > 0)};
    struct gs_filter_note note;
    char *text = NULL;
    size_t n;

    if (how & 1) {
        if (gs_filter_prioritize(&env, body, &text, &n, NULL) == 0)
            check(text, n, false);
    } else {
        fuzz_need(gs_filter(&env, body, &text, &n, &note));
        check(text, n, true);
        if (gs_books_counts(books).reservations >
            (note.outcome == GS_FILTER_FOUND && !note.is_simulation))
            abort();
    }
    free(text);
    gs_books_expire(books, INT64_MAX, INT64_MAX);
    if (gs_books_counts(books).pods != 0)
        abort();
    gs_arena_fini(&arena);
    return 0;
}
