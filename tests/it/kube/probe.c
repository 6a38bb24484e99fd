/* A client driven by lines: commands on standard input, one JSON object per line on standard
 * output. The other end of the wire is a real API server, or a scripted one.
 *
 *     get PATH                         merge RESOURCE NS NAME JSON     delete RESOURCE NS NAME
 * [UID] list RESOURCE NS PAGE            json RESOURCE NS NAME JSON      evict NS NAME [UID] watch
 * RESOURCE NS [LABELS [FIELDS]]                              create RESOURCE NS JSON relist | stats
 * | unwatch         bind NS POD UID NODE [KEY=VALUE...]
 * probe_more.c has more. "-" stands for nothing. The end of the input ends the program. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <yyjson.h>

#include "base/buf.h"
#include "base/file.h"
#include "kube/client.h"
#include "kube/config.h"
#include "kube/list.h"
#include "kube/patch.h"
#include "kube/view.h"
#include "kube/watch.h"
#include "net/loop.h"
#include "probe.h"

#define WORDS_MAX 64

static const struct gs_kube_resource *const resources[] = {
    &gs_kube_pods, &gs_kube_nodes,       &gs_kube_quotas,     &gs_kube_leases,
    &gs_kube_pdbs, &gs_kube_core_events, &gs_kube_namespaces, &gs_kube_config_maps};

void probe_say(struct gs_kube_merge *m)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};

    if (gs_kube_merge_text(m, &text) < 0)
        abort();
    gs_buf_adds(&text, "\n");
    if (gs_file_write_all(STDOUT_FILENO, gs_buf_text(&text), text.n) < 0)
        exit(1);
    gs_kube_merge_fini(m);
}

static void begin(struct gs_kube_merge *m, const char *what)
{
    gs_kube_merge_init(m);
    gs_kube_merge_str(m, GS_KUBE_PATH("what"), gs_str_of(what));
}

void probe_result(void *arg, const struct gs_kube_result *r)
{
    struct gs_kube_merge m;

    (void)arg; /* results come in the order they come */
    begin(&m, "result");
    gs_kube_merge_i64(&m, GS_KUBE_PATH("rc"), r->rc);
    gs_kube_merge_str(&m, GS_KUBE_PATH("errno"),
                      gs_str_of(r->rc < 0 ? strerrorname_np(-r->rc) : ""));
    gs_kube_merge_i64(&m, GS_KUBE_PATH("status"), r->status);
    gs_kube_merge_i64(&m, GS_KUBE_PATH("tries"), r->tries);
    gs_kube_merge_bool(&m, GS_KUBE_PATH("did_nothing"), r->did_nothing);
    gs_kube_merge_i64(&m, GS_KUBE_PATH("retry_after_ms"), r->retry_after_ms);
    gs_kube_merge_str(&m, GS_KUBE_PATH("reason"), r->reason);
    gs_kube_merge_str(&m, GS_KUBE_PATH("message"), r->message);
    gs_kube_merge_str(&m, GS_KUBE_PATH("err"), gs_str_of(r->err->text));
    if (r->root)
        gs_kube_merge_val(&m, GS_KUBE_PATH("root"), r->root);
    probe_say(&m);
}

void probe_refused(int rc, const struct gs_err *err)
{
    struct gs_kube_merge m;

    begin(&m, "refused");
    gs_kube_merge_i64(&m, GS_KUBE_PATH("rc"), rc);
    gs_kube_merge_str(&m, GS_KUBE_PATH("err"), gs_str_of(err->text));
    probe_say(&m);
}

static void say_key(const char *what, const struct gs_kube_key *key, yyjson_val *object)
{
    struct gs_kube_merge m;
    yyjson_val *meta = yyjson_obj_get(object, "metadata");

    if (getenv("PROBE_QUIET"))
        return;
    begin(&m, what);
    gs_kube_merge_str(&m, GS_KUBE_PATH("ns"), key->ns);
    gs_kube_merge_str(&m, GS_KUBE_PATH("name"), key->name);
    gs_kube_merge_str(&m, GS_KUBE_PATH("uid"), key->uid);
    gs_kube_merge_bool(&m, GS_KUBE_PATH("has_object"), object != NULL);
    if (yyjson_obj_get(meta, "annotations"))
        gs_kube_merge_val(&m, GS_KUBE_PATH("annotations"), yyjson_obj_get(meta, "annotations"));
    if (object && yyjson_obj_get(object, "pad"))
        gs_kube_merge_i64(&m, GS_KUBE_PATH("pad"),
                          (int64_t)yyjson_get_len(yyjson_obj_get(object, "pad")));
    probe_say(&m);
}

static void on_added(void *arg, const struct gs_kube_key *key, yyjson_val *object)
{
    (void)arg;
    say_key("added", key, object);
}

static void on_modified(void *arg, const struct gs_kube_key *key, yyjson_val *object)
{
    (void)arg;
    say_key("modified", key, object);
}

static void on_deleted(void *arg, const struct gs_kube_key *key, yyjson_val *last)
{
    (void)arg;
    say_key("deleted", key, last);
}

static void say_word(const char *word)
{
    struct gs_kube_merge m;

    begin(&m, word);
    probe_say(&m);
}

static void on_synced(void *arg)
{
    (void)arg;
    say_word("synced");
}

static void on_relisted(void *arg)
{
    (void)arg;
    say_word("relisted");
}

static void on_trouble(void *arg, const struct gs_err *why, uint32_t wait_ms)
{
    struct gs_kube_merge m;

    (void)arg;
    begin(&m, "trouble");
    gs_kube_merge_str(&m, GS_KUBE_PATH("err"), gs_str_of(why->text));
    gs_kube_merge_i64(&m, GS_KUBE_PATH("wait_ms"), wait_ms);
    probe_say(&m);
}

static void on_item(void *arg, yyjson_val *object)
{
    struct probe *p = arg;

    p->items++;
    (void)object;
}

static void on_restart(void *arg)
{
    struct probe *p = arg;

    p->items = 0;
    say_word("restart");
}

static void on_list(void *arg, const struct gs_kube_result *r, struct gs_str version)
{
    struct probe *p = arg;
    struct gs_kube_merge m;

    begin(&m, "list");
    gs_kube_merge_i64(&m, GS_KUBE_PATH("rc"), r->rc);
    gs_kube_merge_i64(&m, GS_KUBE_PATH("items"), p->items);
    gs_kube_merge_str(&m, GS_KUBE_PATH("version"), version);
    gs_kube_merge_str(&m, GS_KUBE_PATH("err"), gs_str_of(r->err->text));
    probe_say(&m);
}

static void say_stats(struct probe *p)
{
    struct gs_kube_client_stats c;
    struct gs_kube_watch_stats w = {0};
    struct gs_kube_merge m;

    gs_kube_client_stats(p->client, &c);
    if (p->watch)
        gs_kube_watch_stats(p->watch, &w);
    begin(&m, "stats");
    gs_kube_merge_i64(&m, GS_KUBE_PATH("requests"), (int64_t)c.requests);
    gs_kube_merge_i64(&m, GS_KUBE_PATH("retries"), (int64_t)c.retries);
    gs_kube_merge_i64(&m, GS_KUBE_PATH("throttled"), (int64_t)c.throttled);
    gs_kube_merge_i64(&m, GS_KUBE_PATH("in_flight"), c.in_flight);
    gs_kube_merge_i64(&m, GS_KUBE_PATH("waiting"), c.waiting);
    gs_kube_merge_i64(&m, GS_KUBE_PATH("lists"), (int64_t)w.lists);
    gs_kube_merge_i64(&m, GS_KUBE_PATH("relists"), (int64_t)w.relists);
    gs_kube_merge_i64(&m, GS_KUBE_PATH("watches"), (int64_t)w.watches);
    gs_kube_merge_i64(&m, GS_KUBE_PATH("events"), (int64_t)w.events);
    gs_kube_merge_i64(&m, GS_KUBE_PATH("bookmarks"), (int64_t)w.bookmarks);
    gs_kube_merge_i64(&m, GS_KUBE_PATH("gone"), (int64_t)w.gone);
    gs_kube_merge_i64(&m, GS_KUBE_PATH("broken"), (int64_t)w.broken);
    gs_kube_merge_i64(&m, GS_KUBE_PATH("bad"), (int64_t)w.bad);
    gs_kube_merge_i64(&m, GS_KUBE_PATH("objects"), (int64_t)w.objects);
    gs_kube_merge_i64(&m, GS_KUBE_PATH("bytes"), (int64_t)w.bytes);
    probe_say(&m);
}

static const struct gs_kube_resource *resource_of(const char *plural)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(resources); i++)
        if (strcmp(resources[i]->plural, plural) == 0)
            return resources[i];
    (void)fprintf(stderr, "no resource '%s'\n", plural);
    exit(2);
}

static struct gs_str word(char **words, size_t i)
{
    return words[i] && strcmp(words[i], "-") != 0 ? gs_str_of(words[i]) : (struct gs_str){0};
}

static int send_body(struct probe *p, enum gs_kube_verb verb, char **words, struct gs_err *err)
{
    bool has_name = verb != GS_KUBE_CREATE;
    struct gs_kube_req req = {
        .verb = verb,
        .resource = resource_of(words[1]),
        .ns = word(words, 2),
        .name = has_name ? word(words, 3) : (struct gs_str){0},
        .body = gs_str_of(words[has_name ? 4 : 3]),
        .timeout_ms = p->timeout_ms,
    };

    return gs_kube_client_send(p->client, &req, probe_result, p, NULL, err);
}

static int get(struct probe *p, char **words, struct gs_err *err)
{
    struct gs_kube_req req = {.verb = GS_KUBE_GET, .path = words[1], .timeout_ms = p->timeout_ms};

    return gs_kube_client_send(p->client, &req, probe_result, p, NULL, err);
}

/* Ask the server who we are. */
static int review(struct probe *p, char **words, struct gs_err *err)
{
    struct gs_kube_req req = {
        .verb = GS_KUBE_CREATE,
        .path = "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        .body = gs_str_of(words[1]),
    };

    return gs_kube_client_send(p->client, &req, probe_result, p, NULL, err);
}

static int list(struct probe *p, char **words, struct gs_err *err)
{
    static const struct gs_kube_list_fns fns = {on_item, on_restart, on_list};
    struct gs_kube_list_opt opt = {
        .resource = resource_of(words[1]),
        .ns = word(words, 2),
        .page = words[3] ? (uint32_t)strtoul(words[3], NULL, 10) : 0,
    };

    p->items = 0;
    return gs_kube_list_start(p->client, &opt, &fns, p, NULL, err);
}

static int watch(struct probe *p, char **words, struct gs_err *err)
{
    static const struct gs_kube_watch_fns fns = {on_added,  on_modified, on_deleted,
                                                 on_synced, on_relisted, on_trouble};
    struct gs_kube_watch_opt opt = {
        .resource = resource_of(words[1]),
        .ns = word(words, 2),
        .label_selector = word(words, 3),
        .field_selector = words[3] ? word(words, 4) : (struct gs_str){0},
        .page = p->page,
        .max_object = p->max_object,
        .timeout_s = p->watch_s,
    };

    return gs_kube_watch_new(p->client, &opt, &fns, p, &p->watch, err);
}

static int bind(struct probe *p, char **words, struct gs_err *err)
{
    struct gs_str keys[WORDS_MAX], values[WORDS_MAX];
    struct gs_kube_binding b = {
        .ns = word(words, 1),
        .pod = word(words, 2),
        .uid = word(words, 3),
        .node = word(words, 4),
        .annotation_key = keys,
        .annotation_value = values,
        .timeout_ms = p->timeout_ms,
    };

    for (size_t i = 5; words[i]; i++) {
        struct gs_str rest = gs_str_of(words[i]);

        (void)gs_str_cut(&rest, '=', &keys[b.n_annotations]); /* the key */
        values[b.n_annotations++] = rest;
    }
    return gs_kube_client_bind(p->client, &b, probe_result, p, NULL, err);
}

static int end(struct probe *p, char **words, struct gs_err *err)
{
    bool is_evict = strcmp(words[0], "evict") == 0;
    size_t at = is_evict ? 1 : 2;
    struct gs_kube_end e = {.ns = word(words, at), .name = word(words, at + 1)};

    if (words[at + 2])
        e.uid = word(words, at + 2);
    if (is_evict)
        return gs_kube_client_evict(p->client, &e, probe_result, p, err);
    return gs_kube_client_delete(p->client, resource_of(words[1]), &e, probe_result, p, err);
}

static void run_command(struct probe *p, char **words)
{
    struct gs_err err = {0};
    int rc = 0;

    if (strcmp(words[0], "get") == 0)
        rc = get(p, words, &err);
    else if (strcmp(words[0], "list") == 0)
        rc = list(p, words, &err);
    else if (strcmp(words[0], "watch") == 0)
        rc = watch(p, words, &err);
    else if (strcmp(words[0], "unwatch") == 0)
        p->watch = gs_kube_watch_free(p->watch);
    else if (strcmp(words[0], "relist") == 0)
        gs_kube_watch_relist(p->watch);
    else if (strcmp(words[0], "stats") == 0)
        say_stats(p);
    else if (strcmp(words[0], "merge") == 0)
        rc = send_body(p, GS_KUBE_MERGE, words, &err);
    else if (strcmp(words[0], "json") == 0)
        rc = send_body(p, GS_KUBE_PATCH, words, &err);
    else if (strcmp(words[0], "create") == 0)
        rc = send_body(p, GS_KUBE_CREATE, words, &err);
    else if (strcmp(words[0], "bind") == 0)
        rc = bind(p, words, &err);
    else if (strcmp(words[0], "evict") == 0 || strcmp(words[0], "delete") == 0)
        rc = end(p, words, &err);
    else if (strcmp(words[0], "review") == 0)
        rc = review(p, words, &err);
    else if (strcmp(words[0], "view") == 0)
        rc = probe_view(p, words, &err);
    else
        rc = probe_more(p, words, &err);
    if (rc < 0)
        probe_refused(rc, &err);
}

static void on_input(void *user, int fd, uint32_t events)
{
    struct probe *p = user;
    char part[4096], *stop;
    ssize_t got = read(fd, part, sizeof(part));

    (void)events;
    if (got <= 0) {
        gs_loop_stop(p->loop);
        return;
    }
    gs_buf_add(&p->input, part, (size_t)got);
    while ((stop = memchr(p->input.p, '\n', p->input.n)) != NULL) {
        char *words[WORDS_MAX + 2] = {0}, *line = strndup(p->input.p, (size_t)(stop - p->input.p));
        char *save = NULL;
        size_t n = 0, used = (size_t)(stop - p->input.p) + 1;

        for (char *w = strtok_r(line, " ", &save); w && n < WORDS_MAX;
             w = strtok_r(NULL, " ", &save))
            words[n++] = w;
        memmove(p->input.p, p->input.p + used, p->input.n - used);
        p->input.n -= used;
        if (n > 0)
            run_command(p, words);
        free(line);
    }
}

static void put(struct gs_kube_merge *m, const char *key, const char *text)
{
    if (text)
        gs_kube_merge_str(m, GS_KUBE_PATH(key), gs_str_of(text));
}

/* What a configuration came to, for comparison with kubectl. */
static void show(const struct gs_kube_config *c)
{
    struct gs_kube_merge m;

    begin(&m, "config");
    put(&m, "context", c->context);
    put(&m, "namespace", c->ns);
    put(&m, "server", c->server);
    put(&m, "tls-server-name", c->tls_server_name);
    put(&m, "proxy-url", c->proxy_url);
    put(&m, "certificate-authority", c->ca_file);
    put(&m, "client-certificate", c->cert_file);
    put(&m, "client-key", c->key_file);
    put(&m, "token", c->token);
    put(&m, "tokenFile", c->token_file);
    put(&m, "username", c->user);
    put(&m, "as", c->as);
    put(&m, "command", c->exec.command);
    probe_say(&m);
}

static uint32_t number(const char *name)
{
    const char *text = getenv(name);

    return text ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

int main(int argc, char **argv)
{
    struct gs_kube_config_opt config_opt = {.path = argc > 1 && argv[1][0] ? argv[1] : NULL,
                                            .context = argc > 2 && argv[2][0] ? argv[2] : NULL};
    struct gs_kube_client_opt client_opt = {.try_ms = number("PROBE_TRY_MS"), .seed = 1};
    struct gs_kube_config config = {0};
    struct gs_err err = {0};
    struct probe p = {
        .timeout_ms = number("PROBE_TIMEOUT_MS"),
        .page = number("PROBE_PAGE"),
        .max_object = number("PROBE_MAX_OBJECT"),
        .watch_s = number("PROBE_WATCH_S"),
    };
    int rc = gs_loop_new(NULL, &p.loop);

    if (rc == 0)
        rc = gs_kube_config_load(&config_opt, &config, &err);
    if (rc == 0)
        show(&config);
    if (rc == 0)
        rc = gs_kube_client_new(&config, p.loop, &client_opt, &p.client, &err);
    if (rc == 0)
        rc = gs_loop_fd_add(p.loop, STDIN_FILENO, EPOLLIN, on_input, &p);
    if (rc == 0)
        rc = gs_loop_run(p.loop);
    if (rc < 0)
        (void)fprintf(stderr, "probe: %s (%d)\n", err.text, rc);
    gs_kube_watch_free(p.watch);
    probe_more_end(&p);
    gs_kube_client_free(p.client);
    gs_kube_config_fini(&config);
    gs_loop_free(p.loop);
    gs_buf_fini(&p.input);
    return rc < 0 ? 1 : 0;
}
