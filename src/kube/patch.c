#include "kube/patch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/buf.h"

static void merge_fail(struct gs_kube_merge *m)
{
    yyjson_mut_doc_free(m->doc);
    m->doc = NULL;
    m->root = NULL;
}

void gs_kube_merge_init(struct gs_kube_merge *m)
{
    m->doc = yyjson_mut_doc_new(NULL);
    m->root = yyjson_mut_obj(m->doc);
    if (!m->root) {
        merge_fail(m);
        return;
    }
    yyjson_mut_doc_set_root(m->doc, m->root);
}

void gs_kube_merge_fini(struct gs_kube_merge *m)
{
    merge_fail(m);
}

static yyjson_mut_val *copied(yyjson_mut_doc *doc, struct gs_str s)
{
    return yyjson_mut_strncpy(doc, s.n > 0 ? s.p : "", s.n);
}

/* The object that holds the last element of the path, made on the way; NULL after a failure. */
static yyjson_mut_val *parent_of(struct gs_kube_merge *m, const char *const *path, size_t n)
{
    yyjson_mut_val *at = m->root;

    for (size_t i = 0; at && i < n; i++) {
        yyjson_mut_val *next = yyjson_mut_obj_get(at, path[i]);

        if (!yyjson_mut_is_obj(next)) {
            yyjson_mut_val *key = yyjson_mut_strcpy(m->doc, path[i]);

            next = yyjson_mut_obj(m->doc);
            if (!key || !next || !yyjson_mut_obj_put(at, key, next))
                return NULL;
        }
        at = next;
    }
    return at;
}

static void put(struct gs_kube_merge *m, const char *const *path, size_t n, yyjson_mut_val *key,
                yyjson_mut_val *value)
{
    yyjson_mut_val *parent;

    if (!m->doc)
        return;
    parent = parent_of(m, path, n);
    if (!parent || !key || !value || !yyjson_mut_obj_put(parent, key, value))
        merge_fail(m);
}

static size_t length(const char *const *path)
{
    size_t n = 0;

    while (path[n])
        n++;
    return n;
}

static void put_last(struct gs_kube_merge *m, const char *const *path, yyjson_mut_val *value)
{
    size_t n = length(path);

    if (m->doc && n > 0)
        put(m, path, n - 1, yyjson_mut_strcpy(m->doc, path[n - 1]), value);
}

void gs_kube_merge_str(struct gs_kube_merge *m, const char *const *path, struct gs_str value)
{
    put_last(m, path, copied(m->doc, value));
}

void gs_kube_merge_i64(struct gs_kube_merge *m, const char *const *path, int64_t value)
{
    put_last(m, path, yyjson_mut_sint(m->doc, value));
}

void gs_kube_merge_bool(struct gs_kube_merge *m, const char *const *path, bool value)
{
    put_last(m, path, yyjson_mut_bool(m->doc, value));
}

void gs_kube_merge_null(struct gs_kube_merge *m, const char *const *path)
{
    put_last(m, path, yyjson_mut_null(m->doc));
}

void gs_kube_merge_val(struct gs_kube_merge *m, const char *const *path, yyjson_val *value)
{
    put_last(m, path, m->doc ? yyjson_val_mut_copy(m->doc, value) : NULL);
}

void gs_kube_merge_pair(struct gs_kube_merge *m, const char *const *path, struct gs_str key,
                        struct gs_str value)
{
    put(m, path, length(path), copied(m->doc, key), copied(m->doc, value));
}

static void pair_null(struct gs_kube_merge *m, const char *const *path, struct gs_str key)
{
    put(m, path, length(path), copied(m->doc, key), yyjson_mut_null(m->doc));
}

void gs_kube_merge_annotation(struct gs_kube_merge *m, struct gs_str key, struct gs_str value)
{
    gs_kube_merge_pair(m, GS_KUBE_PATH("metadata", "annotations"), key, value);
}

void gs_kube_merge_annotation_null(struct gs_kube_merge *m, struct gs_str key)
{
    pair_null(m, GS_KUBE_PATH("metadata", "annotations"), key);
}

void gs_kube_merge_label(struct gs_kube_merge *m, struct gs_str key, struct gs_str value)
{
    gs_kube_merge_pair(m, GS_KUBE_PATH("metadata", "labels"), key, value);
}

void gs_kube_merge_version(struct gs_kube_merge *m, struct gs_str resource_version)
{
    gs_kube_merge_str(m, GS_KUBE_PATH("metadata", "resourceVersion"), resource_version);
}

void gs_kube_merge_uid(struct gs_kube_merge *m, struct gs_str uid)
{
    gs_kube_merge_str(m, GS_KUBE_PATH("metadata", "uid"), uid);
}

static int write_doc(const yyjson_mut_doc *doc, struct gs_buf *buf)
{
    yyjson_write_err why = {0};
    size_t n = 0;
    char *text;

    if (!doc)
        return -ENOMEM;
    text = yyjson_mut_write_opts(doc, YYJSON_WRITE_NOFLAG, NULL, &n, &why);
    if (!text)
        return why.code == YYJSON_WRITE_ERROR_INVALID_STRING ? -EILSEQ : -ENOMEM;
    gs_buf_add(buf, text, n);
    free(text);
    return gs_buf_check(buf);
}

int gs_kube_merge_text(const struct gs_kube_merge *m, struct gs_buf *buf)
{
    return write_doc(m->doc, buf);
}

static void patch_fail(struct gs_kube_patch *p)
{
    yyjson_mut_doc_free(p->doc);
    p->doc = NULL;
    p->ops = NULL;
}

void gs_kube_patch_init(struct gs_kube_patch *p)
{
    p->n = 0;
    p->doc = yyjson_mut_doc_new(NULL);
    p->ops = yyjson_mut_arr(p->doc);
    if (!p->ops) {
        patch_fail(p);
        return;
    }
    yyjson_mut_doc_set_root(p->doc, p->ops);
}

void gs_kube_patch_fini(struct gs_kube_patch *p)
{
    patch_fail(p);
}

/* RFC 6901, section 3: "~" is written "~0" and "/" is written "~1". */
static void add_part(struct gs_buf *buf, struct gs_str part)
{
    gs_buf_addc(buf, '/', 1);
    for (size_t i = 0; i < part.n; i++) {
        if (part.p[i] == '~')
            gs_buf_adds(buf, "~0");
        else if (part.p[i] == '/')
            gs_buf_adds(buf, "~1");
        else
            gs_buf_addc(buf, part.p[i], 1);
    }
}

static yyjson_mut_val *pointer_text(struct gs_kube_patch *p, struct gs_kube_pointer at)
{
    yyjson_mut_val *val = NULL;
    struct gs_buf buf;

    gs_buf_init(&buf);
    for (size_t i = 0; i < at.n; i++)
        add_part(&buf, at.part[i]);
    if (gs_buf_check(&buf) == 0)
        val = yyjson_mut_strncpy(p->doc, gs_buf_text(&buf), buf.n);
    gs_buf_fini(&buf);
    return val;
}

/* value: NULL for operations without one. */
static void add_op(struct gs_kube_patch *p, const char *op, struct gs_kube_pointer at,
                   bool has_value, yyjson_mut_val *value)
{
    yyjson_mut_val *row;

    if (!p->doc)
        return;
    row = yyjson_mut_arr_add_obj(p->doc, p->ops);
    if (!row || !yyjson_mut_obj_add_str(p->doc, row, "op", op) ||
        !yyjson_mut_obj_add_val(p->doc, row, "path", pointer_text(p, at)) ||
        (has_value && !yyjson_mut_obj_add_val(p->doc, row, "value", value))) {
        patch_fail(p);
        return;
    }
    p->n++;
}

void gs_kube_patch_add_str(struct gs_kube_patch *p, struct gs_kube_pointer at, struct gs_str value)
{
    add_op(p, "add", at, true, copied(p->doc, value));
}

void gs_kube_patch_add(struct gs_kube_patch *p, struct gs_kube_pointer at,
                       yyjson_mut_val *value_take)
{
    add_op(p, "add", at, true, value_take);
}

void gs_kube_patch_replace_str(struct gs_kube_patch *p, struct gs_kube_pointer at,
                               struct gs_str value)
{
    add_op(p, "replace", at, true, copied(p->doc, value));
}

void gs_kube_patch_replace(struct gs_kube_patch *p, struct gs_kube_pointer at,
                           yyjson_mut_val *value_take)
{
    add_op(p, "replace", at, true, value_take);
}

void gs_kube_patch_remove(struct gs_kube_patch *p, struct gs_kube_pointer at)
{
    add_op(p, "remove", at, false, NULL);
}

void gs_kube_patch_test_str(struct gs_kube_patch *p, struct gs_kube_pointer at, struct gs_str value)
{
    add_op(p, "test", at, true, copied(p->doc, value));
}

int gs_kube_patch_text(const struct gs_kube_patch *p, struct gs_buf *buf)
{
    return write_doc(p->doc, buf);
}
