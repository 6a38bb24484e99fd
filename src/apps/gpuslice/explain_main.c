/* gpuslice-explain: what `gpuslice explain` starts. */
#include <errno.h>
#include <string.h>

#include <yyjson.h>

#include "apps/gpuslice/app.h"
#include "apps/gpuslice/explain_text.h"
#include "apps/gpuslice/gather.h"
#include "apps/gpuslice/options.h"
#include "base/arena.h"
#include "control/convert.h"
#include "control/policies.h"
#include "kube/json.h"
#include "model/ask.h"
#include "model/order.h"
#include "net/secret.h"
#include "vendors/registry_policy.h"

struct explaining {
    const struct gs_opt_args *args;
    struct gs_arena conf, arena;
    struct gs_policies policies;
    struct gs_gather gather;
};

static void on_unknown_key(void *user, const char *what)
{
    (void)user;
    gs_app_say("device configuration: unknown key ignored: %s", what);
}

/* Opt-in vendors too: a node that has their cards says so. */
static int read_policies(struct explaining *e, struct gs_err *err)
{
    static const char *const enabled[] = {"ascend", "iluvatar", NULL};
    const char *path = e->args->value[GS_OPTION_DEVICE_CONFIG];
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    struct gs_secret_stamp stamp;
    int rc = path != NULL ? gs_secret_read(path, &text, &stamp) : 0;

    if (rc < 0)
        return gs_err_set(err, rc, "cannot read the device configuration '%s': %s", path,
                          strerror(-rc));
    rc = gs_policies_read(
        &(struct gs_policies_conf){.section = gs_registry_policy,
                                   .n_sections = gs_registry_policy_n,
                                   .enabled = enabled,
                                   .text = {text.p, text.n},
                                   .unknown = &(struct gs_yaml_unknown){on_unknown_key, NULL}},
        &e->conf, &e->policies, err);
    return rc < 0 && path != NULL ? gs_err_wrap(err, rc, "%s", path) : rc;
}

static int gather(struct explaining *e, struct gs_err *err)
{
    const char *const *value = e->args->value;
    const char *name = e->args->rest[1], *slash = strchr(name, '/');
    int rc;

    if (slash != NULL)
        e->gather.ns = (struct gs_str){name, (size_t)(slash - name)};
    e->gather.name = gs_str_of(slash != NULL ? slash + 1 : name);
    rc = value[GS_OPTION_FROM_DUMP] != NULL
             ? gs_gather_dump(&e->gather, value[GS_OPTION_FROM_DUMP], err)
             : gs_gather_cluster(&e->gather, value[GS_OPTION_KUBECONFIG], value[GS_OPTION_CONTEXT],
                                 err);
    if (rc < 0)
        return rc;
    if (gs_buf_check(&e->gather.pod) < 0)
        return gs_err_set(err, -ENOMEM, "out of memory");
    if (e->gather.pod.n == 0)
        return gs_err_set(err, -ENOENT, "no pod %s in namespace %.*s", e->gather.name.p,
                          (int)e->gather.ns.n, e->gather.ns.p);
    if (e->gather.lacks_quotas)
        gs_app_say("resourcequotas may not be listed: quotas are not considered");
    if (e->gather.n_unreadable > 0)
        gs_app_say(
            "%zu objects, or annotations of them, cannot be read and are left out; the first: "
            "%s",
            e->gather.n_unreadable, e->gather.unreadable.text);
    return 0;
}

static int explain(struct explaining *e, struct gs_buf *buf, struct gs_err *err)
{
    const char *const *value = e->args->value;
    const char *node_policy = value[GS_OPTION_NODE_POLICY], *card = value[GS_OPTION_CARD_POLICY];
    const struct gs_explain_opt opt = {gs_str_of(card != NULL ? card : "spread"),
                                       gs_str_of(node_policy != NULL ? node_policy : "binpack")};
    struct gs_str text = gs_buf_str(&e->gather.pod);
    GS_CLEANUP(gs_kube_json_free_p) struct yyjson_doc *doc = NULL;
    struct gs_explanation explanation;
    struct gs_kube_pod view;
    struct gs_pod pod;
    int rc = gs_kube_json_read(text, text.n, &doc, err);

    if (rc == 0)
        rc = gs_kube_view_pod(yyjson_doc_get_root(doc), &e->arena, &view, err);
    if (rc == 0)
        rc = gs_convert_pod(&view, &e->arena, &pod);
    if (rc == 0)
        rc = gs_explain(e->gather.books, &pod, &opt, &e->arena, &explanation, err);
    if (rc < 0)
        return rc;
    if (value[GS_OPTION_EXPLAIN_JSON] != NULL)
        return gs_explain_json(&explanation, &view, buf);
    gs_explain_text(&explanation, &view, buf);
    return gs_buf_check(buf);
}

static int run(struct explaining *e)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};
    struct gs_err err = {0};
    int rc = read_policies(e, &err);

    if (rc == 0)
        rc = gs_books_new(&e->policies, &e->gather.books);
    if (rc == 0)
        rc = gather(e, &err);
    if (rc == 0)
        rc = explain(e, &buf, &err);
    if (rc < 0) {
        gs_app_say("%s", err.text[0] != '\0' ? err.text : strerror(-rc));
        return GS_EXIT_FAILED;
    }
    return gs_app_finish(&buf);
}

/* Words that the scheduler would take no notice of; who asks here has mistyped them. */
static int check_policies(const char *const *value, struct gs_err *err)
{
    const char *node = value[GS_OPTION_NODE_POLICY], *card = value[GS_OPTION_CARD_POLICY];
    struct gs_str word;

    if (node != NULL && !gs_ask_knows_node_policy(gs_str_of(node)))
        return gs_err_set(err, -EINVAL,
                          "--node-scheduler-policy '%s' is not known; write 'binpack' or 'spread'",
                          node);
    if (card != NULL && (card[0] == '\0' || !gs_order_knows(gs_str_of(card), &word)))
        return gs_err_set(err, -EINVAL,
                          "--gpu-scheduler-policy '%s' is not known; write 'binpack', 'spread', "
                          "'numa', 'mutex', 'topology-aware', or several with commas",
                          card);
    return 0;
}

/* [NAMESPACE/]NAME; what such names are made of is the cluster's business. */
static int check_pod(const char *name, struct gs_err *err)
{
    const char *slash = strchr(name, '/');
    const char *last = slash != NULL ? slash + 1 : name;

    if (slash == name || *last == '\0' || strchr(last, '/') != NULL)
        return gs_err_set(err, -EINVAL, "'%s' is no pod; write NAME or NAMESPACE/NAME", name);
    return 0;
}

static int print_help(void)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};

    gs_opt_help(&gs_options_spec, GS_COMMAND_EXPLAIN, &buf);
    return gs_app_finish(&buf);
}

int main(int argc, char **argv)
{
    const char *value[GS_OPTION_COUNT];
    struct gs_opt_args args = {.value = value};
    struct explaining e = {.args = &args};
    struct gs_err err = {0};
    int rc;

    if (gs_opt_parse(&gs_options_spec, GS_COMMAND_EXPLAIN, argc - 1, argv + 1, &args, &err) != 0) {
        gs_app_say("%s", err.text);
        return GS_EXIT_USAGE;
    }
    if (value[GS_OPTION_HELP] != NULL)
        return print_help();
    if (check_policies(value, &err) < 0 || check_pod(args.rest[1], &err) < 0) {
        gs_app_say("explain: %s", err.text);
        return GS_EXIT_USAGE;
    }
    rc = run(&e);
    gs_books_free(e.gather.books);
    gs_gather_fini(&e.gather);
    gs_arena_fini(&e.arena);
    gs_arena_fini(&e.conf);
    return rc;
}
