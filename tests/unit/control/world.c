#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/node.h"
#include "vendors/registry_policy.h"

/* ---- memory that runs out once: the program is linked with --wrap ---- */

static unsigned fail_at;
static bool has_failed;

static bool fails(void)
{
    if (fail_at == 0 || --fail_at > 0)
        return false;
    has_failed = true;
    return true;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
char *__real_strndup(const char *s, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
char *__wrap_strndup(const char *s, size_t n);

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails() ? NULL : __real_realloc(p, n);
}

char *__wrap_strndup(const char *s, size_t n)
{
    return fails() ? NULL : __real_strndup(s, n);
}

unsigned world_fail_at(unsigned n)
{
    unsigned before = fail_at;

    fail_at = n;
    has_failed = has_failed && n == 0;
    return before;
}

bool world_has_failed(void)
{
    return has_failed;
}

/* ---- the world ---- */

void world_init(struct world *w)
{
    *w = (struct world){.conf = {.device_policy = GS_STR("spread"),
                                 .node_policy = GS_STR("binpack"),
                                 .lease_ms = 1000},
                        .now_ms = 1};
    for (size_t i = 0; i < gs_registry_policy_n; i++)
        assert_int_equal(gs_registry_policy[i]->make(NULL, false, &w->arena, &w->policies, &w->err),
                         0);
    assert_int_equal(gs_books_new(&w->policies, &w->books), 0);
}

void world_fini(struct world *w)
{
    (void)world_fail_at(0);
    yyjson_doc_free(w->answer);
    gs_books_free(w->books);
    gs_arena_fini(&w->call);
    gs_arena_fini(&w->arena);
}

int world_node_key(struct world *w, const char *name, const char *key, const char *value)
{
    struct gs_pair pair = {gs_str_of(key), gs_str_of(value != NULL ? value : "")};
    struct gs_pairs annotations = {&pair, value != NULL, 1}, none = {0};

    w->err = (struct gs_err){0};
    return gs_books_node_set(
        w->books, &(struct gs_node_view){gs_str_of(name), &annotations, &none, &none, &none},
        &w->err);
}

int world_node(struct world *w, const char *name, const char *nvidia)
{
    return world_node_key(w, name, "hami.io/node-nvidia-register", nvidia);
}

int world_cards(struct world *w, const char *node, const char *prefix, int n, int mem_mib)
{
    unsigned armed = world_fail_at(0);
    struct gs_buf text = {0};
    int rc;

    gs_buf_adds(&text, "[");
    for (int i = 0; i < n; i++)
        gs_buf_addf(&text,
                    "%s{\"id\":\"%s%d\",\"index\":%d,\"count\":10,\"devmem\":%d,\"devcore\":100,"
                    "\"type\":\"NVIDIA\",\"mode\":\"hami-core\",\"health\":true}",
                    i > 0 ? "," : "", prefix, i, i, mem_mib);
    gs_buf_adds(&text, "]");
    (void)world_fail_at(armed);
    rc = world_node(w, node, gs_buf_text(&text));
    gs_buf_fini(&text);
    return rc;
}

int world_pod(struct world *w, const char *uid, const char *node, const char *grant)
{
    unsigned armed = world_fail_at(0);
    struct gs_str *grants = calloc(w->policies.n, sizeof(*grants));
    int rc;

    assert_non_null(grants);
    grants[0] = gs_str_of(grant);
    w->err = (struct gs_err){0};
    (void)world_fail_at(armed);
    rc = gs_books_pod_set(w->books,
                          &(struct gs_books_pod){.uid = gs_str_of(uid),
                                                 .ns = GS_STR("ns"),
                                                 .name = gs_str_of(uid),
                                                 .node = gs_str_of(node),
                                                 .grant = grants,
                                                 .n_slots = 1,
                                                 .start_us = GS_BOOKS_STAYS,
                                                 .ends_us = GS_BOOKS_STAYS},
                          &w->err);
    free(grants);
    return rc;
}

/* ---- calls ---- */

yyjson_val *world_filter_text(struct world *w, struct gs_str body)
{
    struct gs_filter_env env = {.books = w->books,
                                .conf = &w->conf,
                                .now = {w->now_ms * 1000000, w->now_ms},
                                .arena = &w->call};
    char *text = NULL;
    size_t n = 0;
    int rc;

    yyjson_doc_free(w->answer);
    w->answer = NULL;
    gs_arena_reset(&w->call);
    rc = gs_filter(&env, body, &text, &n, &w->note);
    if (rc < 0)
        return NULL; /* no memory for any answer */
    w->answer = yyjson_read(text, n, 0);
    free(text);
    return yyjson_doc_get_root(w->answer);
}

yyjson_val *world_filter(struct world *w, const char *fmt, ...)
{
    char text[16384];
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    assert_in_range(n, 0, sizeof(text) - 1);
    for (char *p = text; *p != '\0'; p++)
        if (*p == '\'')
            *p = '"';
    return world_filter_text(w, (struct gs_str){text, (size_t)n});
}

const char *world_ask(struct world *w, const char *uid, int mem_mib, int cores)
{
    return gs_arena_printf(&w->arena,
                           "{'metadata':{'name':'%s','namespace':'ns','uid':'%s'},'spec':{"
                           "'containers':[{'name':'c','resources':{'limits':{'nvidia.com/gpu':'1',"
                           "'nvidia.com/gpumem':'%d','nvidia.com/gpucores':'%d'}}}]}}",
                           uid, uid, mem_mib, cores)
        .p;
}

static yyjson_val *member(struct world *w, const char *name)
{
    return yyjson_obj_get(yyjson_doc_get_root(w->answer), name);
}

const char *world_chosen(struct world *w)
{
    yyjson_val *names = member(w, "NodeNames");

    return yyjson_arr_size(names) == 1 ? yyjson_get_str(yyjson_arr_get_first(names)) : "";
}

const char *world_error(struct world *w)
{
    return yyjson_get_str(member(w, "Error"));
}

const char *world_failed(struct world *w, const char *node)
{
    return yyjson_get_str(yyjson_obj_get(member(w, "FailedNodes"), node));
}

struct gs_use world_use(struct world *w, const char *name, const char *card)
{
    const struct gs_node *node = gs_books_node(w->books, gs_str_of(name));

    for (size_t i = 0; node != NULL && i < node->n_dev; i++)
        if (gs_str_eq_c(node->dev[i].id, card))
            return node->use[i];
    return (struct gs_use){.slots = -1, .mem_mib = -1, .cores = -1};
}
