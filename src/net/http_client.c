#include "net/http_client.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "core/list.h"
#include "net/header_line.h"
#include "net/identity.h"
#include "net/loop.h"

#define BODY_LIMIT   ((size_t)64 << 20)
#define HEADER_LIMIT ((size_t)64 << 10)
/** What a Content-Length may make us reserve before a byte came. */
#define RESERVE_MAX ((size_t)4 << 20)
#define RECEIVE     (128L << 10)

enum call_state {
    CALL_QUEUED,    /**< given to libcurl with the next task */
    CALL_RUNNING,   /**< libcurl has it */
    CALL_CANCELLED, /**< cancelled inside a callback of libcurl: taken out when that is over */
};

struct gs_http_call {
    struct gs_http_client *client;
    GS_LINK(struct gs_http_call) link; /**< in client->calls */
    enum call_state state;
    CURL *easy;
    struct curl_slist *headers, *connect_to; /**< borrowed by easy */
    struct gs_buf head; /**< header lines of the last answer, each ended by NUL */
    struct gs_buf body;
    struct gs_buf upload; /**< body of a call that is sent once; borrowed by easy */
    size_t uploaded, body_limit;
    bool too_large;
    bool stopped;                        /**< on_chunk said so */
    uint64_t timeout_at_ns, deadline_ns; /**< 0 none */
    uint64_t head_at_ns;                 /**< headers must have come by then; 0 none, or came */
    uint64_t idle_ns;                    /**< 0 none */
    uint64_t heard_ns;                   /**< last byte; 0: no header yet */
    struct gs_loop_timer timer;
    gs_http_chunk_fn *on_chunk;
    gs_http_done_fn *done;
    void *user;
    char error[CURL_ERROR_SIZE];
};

struct gs_http_client {
    struct gs_loop *loop;
    CURLM *multi;
    struct gs_identity identity;
    struct gs_loop_timer timer; /**< libcurl's own */
    struct gs_loop_task task;   /**< starts what is queued, takes out what is cancelled */
    GS_LIST(struct gs_http_call) calls;
    bool in_curl; /**< a callback of libcurl may be running: its handles must not be touched */
    bool closing;
    struct gs_http_client_stats stats;
};

/* ---- answers ---- */

/** What libcurl's results mean to our callers; all others are -EIO. */
static const struct {
    CURLcode code;
    int rc;
} results[] = {
    {CURLE_URL_MALFORMAT, -EINVAL},
    {CURLE_COULDNT_RESOLVE_PROXY, -EHOSTUNREACH},
    {CURLE_COULDNT_RESOLVE_HOST, -EHOSTUNREACH},
    {CURLE_COULDNT_CONNECT, -ECONNREFUSED},
    {CURLE_HTTP2, -EPROTO},
    {CURLE_PARTIAL_FILE, -ECONNRESET},
    {CURLE_OUT_OF_MEMORY, -ENOMEM},
    {CURLE_OPERATION_TIMEDOUT, -ETIMEDOUT},
    {CURLE_SSL_CONNECT_ERROR, -EPROTO},
    {CURLE_GOT_NOTHING, -ECONNRESET},
    {CURLE_SEND_ERROR, -ECONNRESET},
    {CURLE_RECV_ERROR, -ECONNRESET},
    {CURLE_SEND_FAIL_REWIND, -ECONNRESET}, /* it would have been sent twice */
    {CURLE_SSL_CERTPROBLEM, -EPROTO},
    {CURLE_PEER_FAILED_VERIFICATION, -EKEYREJECTED},
    {CURLE_SSL_CACERT_BADFILE, -EKEYREJECTED},
    {CURLE_HTTP2_STREAM, -ECONNRESET},
    {CURLE_WEIRD_SERVER_REPLY, -EPROTO},
    {CURLE_UNSUPPORTED_PROTOCOL, -EPROTO}, /* HTTP/0.9, say */
};

static int rc_of(CURLcode code)
{
    if (code == CURLE_OK)
        return 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(results); i++) {
        if (results[i].code == code)
            return results[i].rc;
    }
    return -EIO;
}

/* Value of an answer's header, any case, of several the last; p == NULL absent. At most 64 KiB of
 * headers are kept. */
static struct gs_str header_of(const struct gs_http_answer *answer, const char *name)
{
    const struct gs_http_call *call = answer->impl;
    struct gs_str found = {0};
    size_t name_n = strlen(name);

    for (size_t at = 0; at < call->head.n;) {
        const char *line = call->head.p + at;
        size_t n = strlen(line);
        at += n + 1;
        if (n <= name_n || line[name_n] != ':' || strncasecmp(line, name, name_n) != 0)
            continue;
        const char *value = line + name_n + 1;
        value += strspn(value, " \t");
        found = gs_str_of(value);
    }
    return found;
}

static int retry_after(const struct gs_http_answer *answer)
{
    struct gs_str text = header_of(answer, "Retry-After");
    int s = 0;

    if (text.n == 0 || text.n > 9)
        return -1;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return -1;
        s = s * 10 + (text.p[i] - '0');
    }
    return s;
}

static void fill_answer(const struct gs_http_call *call, struct gs_http_answer *answer)
{
    long status = 0, version = 0, opened = 0;

    *answer = (struct gs_http_answer){.error = "", .impl = call};
    if (call->state != CALL_QUEUED) {
        (void)curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
        (void)curl_easy_getinfo(call->easy, CURLINFO_HTTP_VERSION, &version);
        (void)curl_easy_getinfo(call->easy, CURLINFO_NUM_CONNECTS, &opened);
    }
    answer->status = status >= 100 && status <= 599 ? (int)status : 0;
    answer->http_version = version == CURL_HTTP_VERSION_2_0 ? 20 : version ? 11 : 0;
    answer->is_reused = answer->status != 0 && opened == 0;
    answer->retry_after_s = retry_after(answer);
    answer->type = header_of(answer, "Content-Type");
}

/* ---- the life of a call ---- */

static void link_call(struct gs_http_client *client, struct gs_http_call *call)
{
    GS_LIST_PUSH(&client->calls, call, link);
    client->stats.active++;
}

static void unlink_call(struct gs_http_call *call)
{
    GS_LIST_REMOVE(&call->client->calls, call, link);
    call->client->stats.active--;
}

/** Of one that is in no list (any more). */
static void free_unlinked(struct gs_http_call *call)
{
    struct gs_http_client *client = call->client;

    gs_loop_timer_cancel(client->loop, &call->timer);
    if (call->easy) {
        if (call->state != CALL_QUEUED)
            (void)curl_multi_remove_handle(client->multi, call->easy); /* ours: cannot fail */
        curl_easy_cleanup(call->easy);
    }
    curl_slist_free_all(call->headers);
    curl_slist_free_all(call->connect_to);
    gs_buf_fini(&call->head);
    gs_buf_fini(&call->body);
    gs_buf_fini(&call->upload);
    free(call);
}

static void free_call(struct gs_http_call *call)
{
    unlink_call(call);
    free_unlinked(call);
}

/** Report and free; never inside libcurl. */
static void finish(struct gs_http_call *call, int rc, const char *error)
{
    struct gs_http_client *client = call->client;
    struct gs_http_answer answer;
    long opened = 0;

    gs_loop_timer_cancel(client->loop, &call->timer);
    fill_answer(call, &answer);
    (void)curl_easy_getinfo(call->easy, CURLINFO_NUM_CONNECTS, &opened);
    client->stats.connections += opened > 0 ? (uint64_t)opened : 0;
    client->stats.failed += rc != 0;
    answer.is_unsent = call->upload.n > 0 && call->uploaded == 0;
    /* Sent on an old connection that broke, and then no new one could be made. */
    if (call->uploaded > 0 && (rc == -ECONNREFUSED || rc == -EHOSTUNREACH || rc == -EKEYREJECTED))
        rc = -ECONNRESET;
    answer.rc = rc;
    if (rc != 0)
        answer.error = error && *error ? error : strerror(-rc);
    answer.body = gs_buf_str(&call->body);
    /* For `done`, the call is over: it may not be cancelled, and is not found by a closing client.
     */
    unlink_call(call);
    call->done(call->user, &answer);
    free_unlinked(call);
}

/** What libcurl has finished. */
static void reap(struct gs_http_client *client)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(client->multi, &left)) != NULL) {
        struct gs_http_call *call = NULL;
        CURLcode code = message->data.result;
        if (message->msg != CURLMSG_DONE ||
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&call) || !call)
            continue;
        if (call->state == CALL_CANCELLED)
            free_call(call);
        else if (call->too_large)
            finish(call, -EFBIG, "the answer is larger than allowed");
        else if (call->stopped)
            finish(call, -ECANCELED, "stopped by its reader");
        else if (code == CURLE_WRITE_ERROR)
            finish(call, -ENOMEM, NULL);
        else
            finish(call, rc_of(code), call->error[0] ? call->error : curl_easy_strerror(code));
    }
}

static void run_curl(struct gs_http_client *client, curl_socket_t fd, int events)
{
    int running;

    client->in_curl = true;
    (void)curl_multi_socket_action(client->multi, fd, events, &running); /* shows in the messages */
    client->in_curl = false;
    reap(client);
}

static void on_timeout(void *user)
{
    run_curl(user, CURL_SOCKET_TIMEOUT, 0);
}

static void on_ready(void *user, int fd, uint32_t events)
{
    int mask = 0;

    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP))
        mask |= CURL_CSELECT_IN;
    if (events & EPOLLOUT)
        mask |= CURL_CSELECT_OUT;
    if (events & EPOLLERR)
        mask |= CURL_CSELECT_ERR;
    run_curl(user, fd, mask);
}

/** Starts what is queued and takes out what was cancelled at a bad moment. Both stop at the first
 *  callback, which may change the list, and start over. */
static void on_task(void *user)
{
    struct gs_http_client *client = user;
    struct gs_http_call *call = client->calls.first;

    while (call) {
        struct gs_http_call *next = call->link.next;
        if (call->state == CALL_CANCELLED) {
            free_call(call);
        } else if (call->state == CALL_QUEUED) {
            call->state = CALL_RUNNING;
            if (curl_multi_add_handle(client->multi, call->easy)) {
                call->state = CALL_QUEUED;
                finish(call, -ENOMEM, NULL);
                next = client->calls.first;
            }
        }
        call = next;
    }
}

static void arm(struct gs_http_call *call);

/** Deadline, timeout or silence. */
static void on_late(void *user)
{
    struct gs_http_call *call = user;
    uint64_t now = gs_loop_now_ns(call->client->loop);

    if (call->timeout_at_ns && now >= call->timeout_at_ns)
        finish(call, -ETIMEDOUT, "timeout");
    else if (call->deadline_ns && now >= call->deadline_ns)
        finish(call, -ETIMEDOUT, "deadline");
    else if (call->head_at_ns && now >= call->head_at_ns)
        finish(call, -ETIMEDOUT, "no answer began");
    else if (call->idle_ns && call->heard_ns && now >= call->heard_ns + call->idle_ns)
        finish(call, -ETIMEDOUT, "the server fell silent");
    else
        arm(call); /* bytes came since: they only move heard_ns, the timer follows here */
}

static void arm(struct gs_http_call *call)
{
    uint64_t at = UINT64_MAX;

    if (call->timeout_at_ns)
        at = call->timeout_at_ns;
    if (call->deadline_ns && call->deadline_ns < at)
        at = call->deadline_ns;
    if (call->head_at_ns && call->head_at_ns < at)
        at = call->head_at_ns;
    if (call->idle_ns && call->heard_ns && call->heard_ns + call->idle_ns < at)
        at = call->heard_ns + call->idle_ns;
    if (at == UINT64_MAX)
        gs_loop_timer_cancel(call->client->loop, &call->timer);
    else
        gs_loop_timer_at(call->client->loop, &call->timer, at, on_late, call);
}

static void note_heard(struct gs_http_call *call)
{
    bool is_first = call->heard_ns == 0;

    call->head_at_ns = 0; /* where its timer comes all the same, it is set for the next cause */
    if (!call->idle_ns)
        return;
    call->heard_ns = gs_loop_now_ns(call->client->loop);
    if (is_first)
        arm(call);
}

/* ---- callbacks of libcurl ---- */

static int on_curl_timer(CURLM *multi, long timeout_ms, void *user)
{
    struct gs_http_client *client = user;

    (void)multi;
    if (timeout_ms < 0)
        gs_loop_timer_cancel(client->loop, &client->timer);
    else
        gs_loop_timer_in(client->loop, &client->timer, (uint64_t)timeout_ms, on_timeout, client);
    return 0;
}

static int on_curl_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *socket_user)
{
    struct gs_http_client *client = user;
    uint32_t events = 0;

    (void)easy;
    (void)socket_user;
    if (what == CURL_POLL_REMOVE) {
        gs_loop_fd_del(client->loop, fd);
        return 0;
    }
    if (what & CURL_POLL_IN)
        events |= EPOLLIN;
    if (what & CURL_POLL_OUT)
        events |= EPOLLOUT;
    int rc = gs_loop_fd_set(client->loop, fd, events);
    if (rc == -ENOENT)
        rc = gs_loop_fd_add(client->loop, fd, events, on_ready, client);
    return rc < 0 ? -1 : 0;
}

static int on_curl_close(void *user, curl_socket_t fd)
{
    struct gs_http_client *client = user;

    gs_loop_fd_del(client->loop, fd); /* libcurl says so before; an old event must not survive */
    return close(fd);
}

static size_t on_header(char *bytes, size_t size, size_t n, void *user)
{
    struct gs_http_call *call = user;
    size_t len = size * n, keep = len;

    note_heard(call);
    if (call->state == CALL_CANCELLED)
        return 0;
    if (len > 5 && memcmp(bytes, "HTTP/", 5) == 0)
        gs_buf_clear(&call->head); /* a new answer: the one before was a 1xx */
    while (keep && (bytes[keep - 1] == '\r' || bytes[keep - 1] == '\n'))
        keep--;
    if (call->head.n + keep < HEADER_LIMIT && !memchr(bytes, '\0', keep)) {
        gs_buf_add(&call->head, bytes, keep);
        gs_buf_addc(&call->head, '\0', 1);
    }
    return call->head.failed ? 0 : len;
}

static bool collect(struct gs_http_call *call, const char *bytes, size_t n)
{
    if (n > call->body_limit - call->body.n) {
        call->too_large = true;
        return false;
    }
    if (call->body.n == 0) {
        curl_off_t whole = 0;
        (void)curl_easy_getinfo(call->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &whole);
        if (whole > 0 && (uint64_t)whole > call->body_limit) {
            call->too_large = true;
            return false;
        }
        size_t room = whole > 0 ? (size_t)whole : n;
        (void)gs_buf_reserve(&call->body, room < RESERVE_MAX ? room : RESERVE_MAX);
    }
    gs_buf_add(&call->body, bytes, n);
    return !call->body.failed;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *user)
{
    struct gs_http_call *call = user;
    size_t len = size * n;
    long status = 0;

    note_heard(call);
    if (call->state == CALL_CANCELLED)
        return 0;
    (void)curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    if (!call->on_chunk || status < 200 || status > 299)
        return collect(call, bytes, len) ? len : 0;
    struct gs_http_answer answer;
    fill_answer(call, &answer);
    answer.body = GS_STR("");
    call->stopped = !call->on_chunk(call->user, &answer, bytes, len);
    return call->stopped || call->state == CALL_CANCELLED ? 0 : len;
}

static size_t on_upload(char *to, size_t size, size_t n, void *user)
{
    struct gs_http_call *call = user;
    size_t room = size * n, left = call->upload.n - call->uploaded;

    if (room > left)
        room = left;
    if (room > 0)
        memcpy(to, call->upload.p + call->uploaded, room);
    call->uploaded += room;
    return room;
}

/* Asked only before the request is sent again. */
static int on_rewind(void *user, curl_off_t offset, int origin)
{
    (void)user;
    (void)offset;
    (void)origin;
    return CURL_SEEKFUNC_FAIL;
}

/* ---- starting and ending ---- */

static int set_headers(struct gs_http_call *call, const struct gs_http_ask *ask, bool has_body,
                       struct gs_err *err)
{
    char type[256];
    int rc = gs_header_line_add(&call->headers, "Expect:"); /* no round trip before a body */

    for (size_t i = 0; rc == 0 && i < ask->n_headers; i++) {
        if (gs_header_line_has_control(ask->headers[i]))
            return gs_err_set(err, -EINVAL, "control character in a header");
        rc = gs_header_line_add(&call->headers, ask->headers[i]);
    }
    if (rc == 0 && has_body) {
        int n = snprintf(type, sizeof(type), "Content-Type: %s",
                         ask->type ? ask->type : "application/json");
        if (n < 0 || (size_t)n >= sizeof(type) || gs_header_line_has_control(type))
            return gs_err_set(err, -EINVAL, "bad content type");
        rc = gs_header_line_add(&call->headers, type);
    }
    return rc;
}

#define SET(option, value) rc = rc ? rc : curl_easy_setopt(easy, option, value)

/* libcurl cannot repeat what it has to read from us and must not rewind. */
static CURLcode set_upload(struct gs_http_call *call, struct gs_str body)
{
    CURL *easy = call->easy;
    CURLcode rc = CURLE_OK;

    gs_buf_put(&call->upload, body);
    if (gs_buf_check(&call->upload) < 0)
        return CURLE_OUT_OF_MEMORY;
    SET(CURLOPT_READFUNCTION, on_upload);
    SET(CURLOPT_READDATA, call);
    SET(CURLOPT_SEEKFUNCTION, on_rewind);
    SET(CURLOPT_SEEKDATA, call);
    return rc;
}

static CURLcode set_method(struct gs_http_call *call, const struct gs_http_ask *ask,
                           const char *method, bool has_body)
{
    CURL *easy = call->easy;
    struct gs_str body = ask->body;
    CURLcode rc = CURLE_OK;

    if (strcmp(method, "HEAD") == 0) {
        SET(CURLOPT_NOBODY, 1L);
        return rc;
    }
    if (has_body) {
        SET(CURLOPT_POST, 1L);
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.n);
        if (ask->is_once && body.n > 0)
            rc = rc ? rc : set_upload(call, body);
        else
            SET(CURLOPT_COPYPOSTFIELDS, body.n ? body.p : "");
    }
    SET(CURLOPT_CUSTOMREQUEST, method);
    return rc;
}

static CURLcode set_callbacks(struct gs_http_call *call)
{
    CURL *easy = call->easy;
    CURLcode rc = CURLE_OK;

    SET(CURLOPT_PRIVATE, (char *)call);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_ERRORBUFFER, call->error);
    SET(CURLOPT_BUFFERSIZE, RECEIVE);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, call);
    SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, call);
    SET(CURLOPT_CLOSESOCKETFUNCTION, on_curl_close);
    SET(CURLOPT_CLOSESOCKETDATA, call->client);
    SET(CURLOPT_HTTPHEADER, call->headers);
    return rc;
}

#undef SET

static bool is_token(const char *method)
{
    size_t n = 0;

    for (; method[n]; n++) {
        if (!isupper((unsigned char)method[n]) || n >= 16)
            return false;
    }
    return n > 0;
}

static int set_up(struct gs_http_call *call, const struct gs_http_ask *ask, struct gs_err *err)
{
    const char *method = ask->method ? ask->method : "GET";
    bool has_body = ask->body.n || strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 ||
                    strcmp(method, "PATCH") == 0;

    if (!ask->done || !ask->url || !is_token(method) || gs_header_line_has_control(ask->url))
        return gs_err_set(err, -EINVAL, "bad call");
    call->easy = curl_easy_init();
    if (!call->easy)
        return -ENOMEM;
    int rc = set_headers(call, ask, has_body, err);
    if (rc < 0)
        return rc;
    rc = gs_identity_apply(&call->client->identity, call->easy, ask->url, &call->headers,
                           &call->connect_to, err);
    if (rc < 0)
        return rc;
    if (set_callbacks(call) || set_method(call, ask, method, has_body))
        return -ENOMEM;
    return 0;
}

static void set_times(struct gs_http_call *call, const struct gs_http_ask *ask)
{
    if (ask->timeout_ms)
        call->timeout_at_ns = gs_loop_now_ns(call->client->loop) + ask->timeout_ms * GS_CLOCK_MS;
    call->deadline_ns = ask->deadline_ns;
    if (ask->head_ms)
        call->head_at_ns = gs_loop_now_ns(call->client->loop) + ask->head_ms * GS_CLOCK_MS;
    call->idle_ns = ask->idle_ms * GS_CLOCK_MS;
    arm(call);
}

int gs_http_client_start(struct gs_http_client *client, const struct gs_http_ask *ask,
                         struct gs_http_call **ret_call, struct gs_err *err)
{
    if (client->closing)
        return gs_err_set(err, -ECANCELED, "the client is closing");
    struct gs_http_call *call = calloc(1, sizeof(*call));
    if (!call)
        return gs_err_set(err, -ENOMEM, "out of memory");
    call->client = client;
    call->on_chunk = ask->on_chunk;
    call->done = ask->done;
    call->user = ask->user;
    call->body_limit = ask->body_limit ? ask->body_limit : BODY_LIMIT;
    int rc = set_up(call, ask, err);
    if (rc < 0) {
        free_unlinked(call);
        return rc == -ENOMEM ? gs_err_set(err, rc, "out of memory") : rc;
    }
    link_call(client, call);
    set_times(call, ask);
    client->stats.calls++;
    gs_loop_defer(client->loop, &client->task, on_task, client);
    if (ret_call)
        *ret_call = call;
    return 0;
}

void gs_http_client_cancel(struct gs_http_call *call)
{
    if (!call)
        return;
    struct gs_http_client *client = call->client;
    if (!client->in_curl || call->state == CALL_QUEUED) {
        free_call(call);
        return;
    }
    gs_loop_timer_cancel(client->loop, &call->timer);
    call->state = CALL_CANCELLED;
    gs_loop_defer(client->loop, &client->task, on_task, client);
}

int gs_http_client_set_token(struct gs_http_client *client, const char *token)
{
    return gs_identity_set_token(&client->identity, token);
}

int gs_http_client_set_cert(struct gs_http_client *client, struct gs_str cert_pem,
                            struct gs_str key_pem)
{
    return gs_identity_set_cert(&client->identity, cert_pem, key_pem);
}

void gs_http_client_get_stats(const struct gs_http_client *client,
                              struct gs_http_client_stats *ret_stats)
{
    *ret_stats = client->stats;
}

static void init_library(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT); /* handles cannot be made where this failed */
}

static int set_up_multi(struct gs_http_client *client, unsigned max_connections)
{
    CURLM *m = client->multi;

    if (curl_multi_setopt(m, CURLMOPT_SOCKETFUNCTION, on_curl_socket) ||
        curl_multi_setopt(m, CURLMOPT_SOCKETDATA, client) ||
        curl_multi_setopt(m, CURLMOPT_TIMERFUNCTION, on_curl_timer) ||
        curl_multi_setopt(m, CURLMOPT_TIMERDATA, client) ||
        curl_multi_setopt(m, CURLMOPT_PIPELINING, (long)CURLPIPE_MULTIPLEX) ||
        curl_multi_setopt(m, CURLMOPT_MAX_HOST_CONNECTIONS, (long)max_connections))
        return -ENOMEM;
    return 0;
}

int gs_http_client_new(struct gs_loop *loop, const struct gs_http_client_options *options,
                       struct gs_http_client **ret_client, struct gs_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    GS_CLEANUP(gs_http_client_free_p) struct gs_http_client *client = calloc(1, sizeof(*client));

    if (!client)
        return gs_err_set(err, -ENOMEM, "out of memory");
    client->loop = loop;
    int rc = gs_identity_init(&client->identity, options, err);
    if (rc < 0)
        return rc;
    pthread_once(&once, init_library);
    client->multi = curl_multi_init();
    if (!client->multi || set_up_multi(client, options->max_connections) < 0)
        return gs_err_set(err, -ENOMEM, "cannot set up libcurl");
    *ret_client = GS_STEAL(client);
    return 0;
}

struct gs_http_client *gs_http_client_free(struct gs_http_client *client)
{
    if (!client)
        return NULL;
    client->closing = true;
    while (client->calls.first) {
        if (client->calls.first->state == CALL_CANCELLED)
            free_call(client->calls.first);
        else
            finish(client->calls.first, -ECANCELED, "the client is closing");
    }
    gs_loop_task_cancel(client->loop, &client->task);
    if (client->multi)
        (void)curl_multi_cleanup(client->multi); /* fails for a bad handle only */
    gs_loop_timer_cancel(client->loop, &client->timer);
    gs_identity_fini(&client->identity);
    free(client);
    return NULL;
}

void gs_http_client_free_p(struct gs_http_client **client)
{
    *client = gs_http_client_free(*client);
}
