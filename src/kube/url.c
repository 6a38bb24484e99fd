#include "kube/url.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"

static const struct {
    const char *method;
    bool needs_name;
} verbs[GS_KUBE_VERB_COUNT] = {
    [GS_KUBE_GET] = {"GET", true},       [GS_KUBE_LIST] = {"GET", false},
    [GS_KUBE_CREATE] = {"POST", false},  [GS_KUBE_UPDATE] = {"PUT", true},
    [GS_KUBE_MERGE] = {"PATCH", true},   [GS_KUBE_PATCH] = {"PATCH", true},
    [GS_KUBE_DELETE] = {"DELETE", true},
};

const char *gs_kube_url_method(enum gs_kube_verb verb)
{
    return verbs[verb].method;
}

/* RFC 3986, 2.3: these stand for themselves anywhere. */
static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

static void put_escaped(struct gs_buf *buf, struct gs_str text)
{
    static const char hex[] = "0123456789ABCDEF";

    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];

        if (is_plain(text.p[i]))
            gs_buf_addc(buf, text.p[i], 1);
        else
            gs_buf_add(buf, (const char[]){'%', hex[c >> 4], hex[c & 15]}, 3);
    }
}

/* A name that stays one part of a path on every proxy between. */
static bool is_part(struct gs_str name)
{
    if (gs_str_eq(name, GS_STR(".")) || gs_str_eq(name, GS_STR("..")))
        return false;
    for (size_t i = 0; i < name.n; i++)
        if (name.p[i] == '/' || name.p[i] == '%' || (unsigned char)name.p[i] <= ' ')
            return false;
    return true;
}

static void put_part(struct gs_buf *buf, struct gs_str part)
{
    gs_buf_addc(buf, '/', 1);
    put_escaped(buf, part);
}

static void put_query(struct gs_buf *buf, char *mark, const char *key, struct gs_str value)
{
    if (value.n == 0)
        return;
    gs_buf_addc(buf, *mark, 1);
    *mark = '&';
    gs_buf_adds(buf, key);
    gs_buf_addc(buf, '=', 1);
    put_escaped(buf, value);
}

static int put_path(struct gs_buf *buf, const struct gs_kube_req *req, struct gs_err *err)
{
    const struct gs_kube_resource *r = req->resource;

    if (req->name.n == 0 && (verbs[req->verb].needs_name || req->subresource))
        return gs_err_set(err, -EINVAL, "%s %s: no name", verbs[req->verb].method, r->plural);
    if (req->name.n > 0 && r->is_namespaced && req->ns.n == 0)
        return gs_err_set(err, -EINVAL, "%s %s: no namespace", verbs[req->verb].method, r->plural);
    if (!is_part(req->ns) || !is_part(req->name))
        return gs_err_set(err, -EINVAL, "%s %s: a name that no path can hold",
                          verbs[req->verb].method, r->plural);
    if (r->group[0])
        gs_buf_addf(buf, "/apis/%s/%s", r->group, r->version);
    else
        gs_buf_addf(buf, "/api/%s", r->version);
    if (r->is_namespaced && req->ns.n > 0) {
        gs_buf_adds(buf, "/namespaces");
        put_part(buf, req->ns);
    }
    put_part(buf, gs_str_of(r->plural));
    if (req->name.n > 0)
        put_part(buf, req->name);
    if (req->subresource)
        put_part(buf, gs_str_of(req->subresource));
    return 0;
}

int gs_kube_url_put(struct gs_buf *buf, const char *server, const struct gs_kube_req *req,
                    const char *more, struct gs_err *err)
{
    char mark = '?';
    int rc = 0;

    if ((unsigned)req->verb >= GS_KUBE_VERB_COUNT || (!req->resource && !req->path))
        return gs_err_set(err, -EINVAL, "request without a target");
    gs_buf_adds(buf, server);
    if (req->resource)
        rc = put_path(buf, req, err);
    else if (req->path[0] != '/')
        rc = gs_err_set(err, -EINVAL, "path does not begin with '/'");
    else
        gs_buf_adds(buf, req->path);
    if (rc < 0)
        return rc;
    if (!req->resource && strchr(req->path, '?'))
        mark = '&';
    put_query(buf, &mark, "labelSelector", req->label_selector);
    put_query(buf, &mark, "fieldSelector", req->field_selector);
    put_query(buf, &mark, "resourceVersion", req->resource_version);
    put_query(buf, &mark, "resourceVersionMatch", req->resource_version_match);
    put_query(buf, &mark, "continue", req->page);
    if (req->limit > 0)
        gs_buf_addf(buf, "%climit=%u", mark, req->limit);
    if (req->limit > 0)
        mark = '&';
    if (req->server_s > 0)
        gs_buf_addf(buf, "%ctimeout=%us", mark, req->server_s);
    if (req->server_s > 0)
        mark = '&';
    if (more && more[0])
        gs_buf_addf(buf, "%c%s", mark, more);
    return gs_buf_check(buf);
}
