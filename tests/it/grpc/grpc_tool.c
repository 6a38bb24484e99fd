/* Drives net/grpc_server and net/grpc_client, and node/kubelet_pb, for tests/it/grpc.
 *
 *     grpc_tool [--serve PATH] [--max-calls N] [--max-connections N] [--message-limit N]
 *
 * With --serve it is a server, printing "serving":
 *     /test.Unary/Echo     the message
 *     /test.Unary/Big      so many bytes as the message says in decimal
 *     /test.Unary/Fail     the message is "ERRNO TEXT": refused so
 *     /test.Unary/Later    the message says after how many ms it comes back; "gone" is printed
 * where the peer goes first /test.Watch/Watch    a stream of what was published; "watched N" is
 * printed and a device plugin, whose devices are the last published by `devices`; "allocate N
 * ID..." and "prestart ID..." are printed. Lines on standard input; each is answered by a line:
 *     publish N BYTE       N times that byte on the test's stream
 *     devices N SICK       N devices on ListAndWatch, the first SICK of them unhealthy
 *     check | relisten | stats | stop GRACE_MS
 *     client PATH LIMIT    all calls go there from now on
 *     call METHOD TIMEOUT_MS N     with N bytes; "done I rc=R status=S bytes=B error=..." comes
 *     text METHOD TIMEOUT_MS TEXT
 *     register ENDPOINT RESOURCE | pods | pod NAMESPACE NAME | allocatable
 *     cancel I | quit */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "net/grpc.h"
#include "net/grpc_client.h"
#include "net/grpc_server.h"
#include "net/loop.h"
#include "node/kubelet_pb.h"

#define WATCH     "/test.Watch/Watch"
#define MAX_CALLS 4096

enum kind {
    CALL_PLAIN,
    CALL_PODS,
    CALL_POD,
    CALL_ALLOCATABLE,
};

static struct {
    struct gs_loop *loop;
    struct gs_grpc *grpc;
    struct gs_grpc_server *server;
    struct gs_grpc_client *client;
    struct gs_grpc_client_call *call[MAX_CALLS];
    enum kind kind[MAX_CALLS];
    int n_calls;
    char path[128];
    char line[256 * 1024];
    size_t n_line;
} tool;

/* ---- unary ---- */

static unsigned long number_of(struct gs_str text)
{
    char copy[32] = "";

    (void)gs_str_to_field(text, copy, sizeof(copy));
    return strtoul(copy, NULL, 10);
}

static int on_echo(void *user, const struct gs_grpc_request *req, struct gs_buf *ret_message,
                   struct gs_err *err)
{
    (void)user;
    (void)err;
    gs_buf_put(ret_message, req->message);
    return 0;
}

static int on_big(void *user, const struct gs_grpc_request *req, struct gs_buf *ret_message,
                  struct gs_err *err)
{
    (void)user;
    (void)err;
    gs_buf_addc(ret_message, 'x', number_of(req->message));
    return 0;
}

static int on_fail(void *user, const struct gs_grpc_request *req, struct gs_buf *ret_message,
                   struct gs_err *err)
{
    struct gs_str text = req->message, number;

    (void)user;
    (void)ret_message;
    (void)gs_str_cut(&text, ' ', &number);
    return gs_err_set(err, -(int)number_of(number), "%.*s", (int)text.n, text.p);
}

struct promise {
    struct gs_loop_timer timer;
    struct gs_grpc_call *call;
    struct gs_str message;
};

static void on_due(void *user)
{
    struct promise *p = user;
    struct gs_buf buf = {0};

    gs_buf_put(&buf, p->message);
    gs_grpc_server_answer(p->call, &buf);
    free(p);
}

static void on_gone(void *user)
{
    struct promise *p = user;

    gs_loop_timer_cancel(tool.loop, &p->timer);
    free(p);
    puts("gone");
}

static int on_later(void *user, const struct gs_grpc_request *req, struct gs_buf *ret_message,
                    struct gs_err *err)
{
    struct promise *p = calloc(1, sizeof(*p));

    (void)user;
    (void)ret_message;
    if (!p)
        return gs_err_set(err, -ENOMEM, "no memory");
    p->call = gs_grpc_server_later(req, on_gone, p);
    p->message = req->message;
    gs_loop_timer_in(tool.loop, &p->timer, number_of(req->message), on_due, p);
    return GS_GRPC_LATER;
}

static void on_watched(void *user, size_t n_open)
{
    printf("%s %zu\n", (const char *)user, n_open);
}

/* ---- a device plugin ---- */

static int on_options(void *user, const struct gs_grpc_request *req, struct gs_buf *ret_message,
                      struct gs_err *err)
{
    (void)user;
    (void)req;
    (void)err;
    return gs_kubelet_pb_put_options(
        ret_message, &(const struct gs_kubelet_options){.pre_start = true, .prefer = true});
}

static void print_texts(struct gs_kubelet_texts texts)
{
    for (size_t i = 0; i < texts.n; i++)
        printf(" %s", texts.p[i]);
}

/** The last of those available first, after those that must be. */
static int on_prefer(void *user, const struct gs_grpc_request *req, struct gs_buf *ret_message,
                     struct gs_err *err)
{
    GS_CLEANUP(gs_arena_fini) struct gs_arena arena = {0};
    const struct gs_kubelet_prefer *ask;
    size_t n;

    (void)user;
    int rc = gs_kubelet_pb_prefer(&arena, req->message, &ask, &n, err);
    if (rc < 0)
        return rc;
    struct gs_kubelet_texts *answer = GS_ARENA_ARRAY(&arena, n, struct gs_kubelet_texts);
    if (!answer)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        size_t size = ask[i].size > 0 ? (size_t)ask[i].size : 0;
        if (size > ask[i].available.n)
            return gs_err_set(err, -EINVAL, "only %zu are available", ask[i].available.n);
        answer[i].p = ask[i].available.p + (ask[i].available.n - size);
        answer[i].n = size;
    }
    return gs_kubelet_pb_put_preferred(ret_message, answer, n);
}

static int on_allocate(void *user, const struct gs_grpc_request *req, struct gs_buf *ret_message,
                       struct gs_err *err)
{
    static const struct gs_kubelet_pair env[] = {{"A", "1"}, {"EMPTY", ""}};
    static const struct gs_kubelet_pair annotation[] = {{"k", "v"}};
    static const struct gs_kubelet_mount mount[] = {{"/c", "/h", true}};
    static const struct gs_kubelet_node node[] = {{"/dev/x", "/dev/null", "rw"}};
    GS_CLEANUP(gs_arena_fini) struct gs_arena arena = {0};
    const struct gs_kubelet_texts *ask;
    size_t n;

    (void)user;
    int rc = gs_kubelet_pb_allocate(&arena, req->message, &ask, &n, err);
    if (rc < 0)
        return rc;
    struct gs_kubelet_edits *answer = GS_ARENA_ARRAY(&arena, n, struct gs_kubelet_edits);
    if (!answer)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        printf("allocate %zu", i);
        print_texts(ask[i]);
        putchar('\n');
        answer[i] = (struct gs_kubelet_edits){.envs = env,
                                              .n_envs = 2,
                                              .annotations = annotation,
                                              .n_annotations = 1,
                                              .mounts = mount,
                                              .n_mounts = 1,
                                              .nodes = node,
                                              .n_nodes = 1,
                                              .cdi = ask[i]};
    }
    return gs_kubelet_pb_put_edits(ret_message, answer, n);
}

static int on_pre_start(void *user, const struct gs_grpc_request *req, struct gs_buf *ret_message,
                        struct gs_err *err)
{
    GS_CLEANUP(gs_arena_fini) struct gs_arena arena = {0};
    struct gs_kubelet_texts ids;

    (void)user;
    (void)ret_message;
    int rc = gs_kubelet_pb_pre_start(&arena, req->message, &ids, err);
    if (rc < 0)
        return rc;
    printf("prestart");
    print_texts(ids);
    putchar('\n');
    return 0;
}

static const struct gs_grpc_route routes[] = {
    {.path = "/test.Unary/Echo", .handler = on_echo},
    {.path = "/test.Unary/Big", .handler = on_big},
    {.path = "/test.Unary/Fail", .handler = on_fail},
    {.path = "/test.Unary/Later", .handler = on_later},
    {.path = WATCH, .watched = on_watched, .user = "watched"},
    {.path = GS_KUBELET_OPTIONS, .handler = on_options},
    {.path = GS_KUBELET_WATCH, .watched = on_watched, .user = "listed"},
    {.path = GS_KUBELET_PREFER, .handler = on_prefer},
    {.path = GS_KUBELET_ALLOCATE, .handler = on_allocate},
    {.path = GS_KUBELET_PRE_START, .handler = on_pre_start},
};

static void publish(unsigned long n, char c)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};

    gs_buf_addc(&buf, c, n);
    printf("published %d\n", gs_grpc_server_publish(tool.server, WATCH, &buf));
}

static void publish_devices(size_t n, size_t sick)
{
    GS_CLEANUP(gs_arena_fini) struct gs_arena arena = {0};
    GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};
    static const int64_t numa[] = {0, 1};
    struct gs_kubelet_device *device = GS_ARENA_ARRAY(&arena, n, struct gs_kubelet_device);

    for (size_t i = 0; i < n; i++)
        device[i] = (struct gs_kubelet_device){
            .id = gs_arena_printf(&arena, "GPU-%04zu", i).p,
            .healthy = i >= sick,
            .numa = &numa[i % 2],
            .n_numa = i % 3 ? 1 : 0,
        };
    int rc = gs_kubelet_pb_put_devices(&buf, device, n);
    size_t bytes = buf.n;
    if (rc == 0)
        rc = gs_grpc_server_publish(tool.server, GS_KUBELET_WATCH, &buf);
    printf("published %d %zu\n", rc, bytes);
}

/* ---- calls ---- */

static void print_held(const struct gs_kubelet_held *held, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        printf(" %s=", held[i].resource);
        for (size_t k = 0; k < held[i].ids.n; k++)
            printf("%s%s", k ? "," : "", held[i].ids.p[k]);
    }
}

static void print_pod(const struct gs_kubelet_pod *pod)
{
    for (size_t i = 0; i < pod->n_container; i++) {
        printf("pod %s/%s %s", pod->namespace, pod->name, pod->container[i].name);
        print_held(pod->container[i].held, pod->container[i].n_held);
        putchar('\n');
    }
}

static int print_resources(enum kind kind, struct gs_str bytes)
{
    GS_CLEANUP(gs_arena_fini) struct gs_arena arena = {0};
    const struct gs_kubelet_held *held;
    const struct gs_kubelet_pod *pod;
    struct gs_kubelet_pod one;
    size_t n;
    int rc = 0;

    if (kind == CALL_PODS) {
        rc = gs_kubelet_pb_pods(&arena, bytes, &pod, &n, NULL);
        for (size_t i = 0; rc == 0 && i < n; i++)
            print_pod(&pod[i]);
    } else if (kind == CALL_POD) {
        rc = gs_kubelet_pb_pod(&arena, bytes, &one, NULL);
        if (rc == 0)
            print_pod(&one);
    } else if (kind == CALL_ALLOCATABLE) {
        rc = gs_kubelet_pb_allocatable(&arena, bytes, &held, &n, NULL);
        if (rc == 0) {
            printf("allocatable");
            print_held(held, n);
            putchar('\n');
        }
    }
    return rc;
}

static void on_done(void *user, const struct gs_grpc_answer *a)
{
    int i = (int)(intptr_t)user;
    int rc = a->rc;

    tool.call[i] = NULL;
    if (rc == 0)
        rc = print_resources(tool.kind[i], a->message);
    printf("done %d rc=%d status=%d bytes=%zu error=%s\n", i, rc, a->status, a->message.n,
           a->error);
}

static void start(enum kind kind, const char *method, unsigned timeout_ms, struct gs_str message)
{
    int i = tool.n_calls++ % MAX_CALLS;
    const struct gs_grpc_ask ask = {.method = method,
                                    .message = message,
                                    .timeout_ms = timeout_ms,
                                    .done = on_done,
                                    .user = (void *)(intptr_t)i};

    tool.kind[i] = kind;
    int rc = gs_grpc_client_start(tool.client, &ask, &tool.call[i]);
    if (rc < 0)
        printf("done %d rc=%d status=-1 bytes=0 error=refused\n", i, rc);
}

static void make_client(const char *path, size_t limit)
{
    const struct gs_grpc_client_options options = {.path = path, .message_limit = limit};

    tool.client = gs_grpc_client_free(tool.client);
    printf("client %d\n", gs_grpc_client_new(tool.grpc, &options, &tool.client));
}

static void call_register(const char *endpoint, const char *resource)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};
    const struct gs_kubelet_register req = {.version = "v1beta1",
                                            .endpoint = endpoint,
                                            .resource = resource,
                                            .options = {.pre_start = true, .prefer = true}};

    if (gs_kubelet_pb_put_register(&buf, &req) == 0)
        start(CALL_PLAIN, GS_KUBELET_REGISTER, 10000, gs_buf_str(&buf));
}

static void call_pod(const char *namespace, const char *name)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};

    if (gs_kubelet_pb_put_pod_get(&buf, namespace, name) == 0)
        start(CALL_POD, GS_KUBELET_POD_GET, 10000, gs_buf_str(&buf));
}

/* ---- lines ---- */

static void print_stats(void)
{
    struct gs_grpc_server_stats s = {0};
    struct gs_grpc_client_stats c = {0};

    if (tool.server)
        gs_grpc_server_get_stats(tool.server, &s);
    if (tool.client)
        gs_grpc_client_get_stats(tool.client, &c);
    printf("stats {\"connections\":%lu,\"open\":%lu,\"crowded\":%lu,\"calls\":%lu,\"active\":%lu,"
           "\"streams\":%lu,\"sent\":%lu,\"refused\":%lu,\"gone\":%lu,\"client_calls\":%lu,"
           "\"client_active\":%lu,\"client_failed\":%lu,\"client_connections\":%lu}\n",
           s.connections, s.open, s.crowded, s.calls, s.active, s.streams, s.sent, s.refused,
           s.gone, c.calls, c.active, c.failed, c.connections);
}

static void on_stopped(void *user)
{
    (void)user;
    tool.server = gs_grpc_server_free(tool.server);
    puts("stopped");
}

static bool run_server_line(const char *word, const char *a, const char *b)
{
    struct gs_err err = {0};

    if (strcmp(word, "publish") == 0)
        publish(strtoul(a, NULL, 10), *b);
    else if (strcmp(word, "devices") == 0)
        publish_devices(strtoul(a, NULL, 10), strtoul(b, NULL, 10));
    else if (strcmp(word, "check") == 0)
        printf("check %d\n", gs_grpc_server_check_path(tool.server));
    else if (strcmp(word, "relisten") == 0)
        printf("relisten %d %s\n", gs_grpc_server_relisten(tool.server, &err), err.text);
    else if (strcmp(word, "stop") == 0)
        gs_grpc_server_stop(tool.server, (unsigned)strtoul(a, NULL, 10), on_stopped, NULL);
    else
        return false;
    return true;
}

static void run_call_line(const char *word, const char *a, const char *b, const char *c)
{
    unsigned timeout_ms = (unsigned)strtoul(b, NULL, 10);

    if (strcmp(word, "call") == 0) {
        GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};
        gs_buf_addc(&buf, 'm', strtoul(c, NULL, 10));
        start(CALL_PLAIN, a, timeout_ms, gs_buf_str(&buf));
    } else if (strcmp(word, "text") == 0) {
        start(CALL_PLAIN, a, timeout_ms, gs_str_of(c));
    } else if (strcmp(word, "register") == 0) {
        call_register(a, b);
    } else if (strcmp(word, "pods") == 0) {
        start(CALL_PODS, GS_KUBELET_POD_LIST, 10000, (struct gs_str){0});
    } else if (strcmp(word, "pod") == 0) {
        call_pod(a, b);
    } else if (strcmp(word, "allocatable") == 0) {
        start(CALL_ALLOCATABLE, GS_KUBELET_ALLOCATABLE, 10000, (struct gs_str){0});
    } else if (strcmp(word, "cancel") == 0) {
        gs_grpc_client_cancel(tool.call[strtoul(a, NULL, 10) % MAX_CALLS]);
        puts("cancelled");
    } else {
        printf("what is '%s'?\n", word);
    }
}

static void run_line(char *line)
{
    char *save = NULL, *word = strtok_r(line, " ", &save);
    char *a = strtok_r(NULL, " ", &save), *b = strtok_r(NULL, " ", &save);
    char *c = strtok_r(NULL, "", &save);
    static char none[] = "";

    if (!word)
        return;
    a = a ? a : none;
    b = b ? b : none;
    if (strcmp(word, "quit") == 0)
        gs_loop_stop(tool.loop);
    else if (strcmp(word, "stats") == 0)
        print_stats();
    else if (strcmp(word, "client") == 0)
        make_client(a, strtoul(b, NULL, 10));
    else if (!run_server_line(word, a, b))
        run_call_line(word, a, b, c ? c : none);
}

static void on_input(void *user, int fd, uint32_t events)
{
    (void)user;
    (void)events;
    ssize_t n = read(fd, tool.line + tool.n_line, sizeof(tool.line) - 1 - tool.n_line);
    if (n < 0)
        return;
    if (n == 0)
        gs_loop_stop(tool.loop);
    tool.n_line += (size_t)n;
    char *end, *at = tool.line;
    while ((end = memchr(at, '\n', tool.n_line - (size_t)(at - tool.line)))) {
        *end = '\0';
        run_line(at);
        at = end + 1;
    }
    tool.n_line -= (size_t)(at - tool.line);
    memmove(tool.line, at, tool.n_line);
}

static int serve(struct gs_grpc_server_options *options)
{
    struct gs_err err = {0};

    options->routes = routes;
    options->n_routes = GS_ARRAY_LEN(routes);
    int rc = gs_grpc_server_open(tool.grpc, options, &tool.server, &err);
    if (rc < 0)
        fprintf(stderr, "grpc_tool: %s\n", err.text);
    else
        puts("serving");
    return rc;
}

static int read_options(int argc, char **argv, struct gs_grpc_server_options *options)
{
    static const struct option names[] = {
        {"serve", required_argument, NULL, 's'},
        {"max-calls", required_argument, NULL, 'c'},
        {"max-connections", required_argument, NULL, 'n'},
        {"message-limit", required_argument, NULL, 'm'},
        {0},
    };
    int c;

    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (c == 's')
            options->path = optarg;
        else if (c == 'c')
            options->max_calls = (unsigned)strtoul(optarg, NULL, 10);
        else if (c == 'n')
            options->max_connections = (unsigned)strtoul(optarg, NULL, 10);
        else if (c == 'm')
            options->message_limit = strtoul(optarg, NULL, 10);
        else
            return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct gs_grpc_server_options options = {0};

    if (read_options(argc, argv, &options) < 0)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (gs_loop_new(NULL, &tool.loop) < 0 || gs_grpc_new(tool.loop, &tool.grpc) < 0)
        return 1;
    if (options.path && serve(&options) < 0)
        return 1;
    (void)fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    if (gs_loop_fd_add(tool.loop, STDIN_FILENO, EPOLLIN, on_input, NULL) < 0)
        return 1;
    int rc = gs_loop_run(tool.loop);
    tool.client = gs_grpc_client_free(tool.client);
    tool.server = gs_grpc_server_free(tool.server);
    tool.grpc = gs_grpc_free(tool.grpc);
    tool.loop = gs_loop_free(tool.loop);
    puts("quit");
    return rc < 0;
}
