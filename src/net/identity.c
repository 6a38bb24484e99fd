#include "net/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "net/header_line.h"
#include "net/http_client_options.h"

/** A connection on which nothing is acknowledged for so long is dead. */
#define SILENCE_MS  30000u
#define KEEPALIVE_S 15L

static int copy_text(char **to, const char *text)
{
    if (!text)
        return 0;
    *to = strdup(text);
    return *to ? 0 : -ENOMEM;
}

static void file_fini(struct gs_identity_file *file)
{
    gs_file_close(&file->fd);
    free(file->path);
    *file = (struct gs_identity_file){.fd = -1};
}

/** A path to these bytes. Descriptor numbers only rise: libcurl keeps connections apart by the path
 *  of their certificate, so a new one must not come back under an old one's path. */
static int file_of_bytes(struct gs_identity *id, struct gs_str pem,
                         struct gs_identity_file *ret_file)
{
    GS_CLEANUP(gs_file_close) int fd = memfd_create("pem", MFD_CLOEXEC);
    struct gs_identity_file file = {.fd = -1};

    if (fd < 0)
        return -errno;
    int rc = gs_file_write_all(fd, pem.p, pem.n);
    if (rc < 0)
        return rc;
    file.fd = fcntl(fd, F_DUPFD_CLOEXEC, id->next_fd);
    if (file.fd < 0) /* beyond the limit: start over, the first ones are long gone */
        file.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (file.fd < 0)
        return -errno;
    if (asprintf(&file.path, "/proc/self/fd/%d", file.fd) < 0) {
        close(file.fd);
        return -ENOMEM;
    }
    id->next_fd = file.fd + 1;
    *ret_file = file;
    return 0;
}

static int take_file(struct gs_identity *id, const char *path, struct gs_str pem,
                     struct gs_identity_file *ret_file)
{
    if (pem.n)
        return file_of_bytes(id, pem, ret_file);
    return copy_text(&ret_file->path, path);
}

int gs_identity_init(struct gs_identity *id, const struct gs_http_client_options *o,
                     struct gs_err *err)
{
    *id = (struct gs_identity){.ca = {.fd = -1},
                               .cert = {.fd = -1},
                               .key = {.fd = -1},
                               .insecure = o->insecure,
                               .http1 = o->http1,
                               .connect_ms = o->connect_ms ? o->connect_ms : 10000,
                               .next_fd = 3};
    int rc = take_file(id, o->ca_file, o->ca_pem, &id->ca);
    rc = rc < 0 ? rc : take_file(id, o->cert_file, o->cert_pem, &id->cert);
    rc = rc < 0 ? rc : take_file(id, o->key_file, o->key_pem, &id->key);
    rc = rc < 0 ? rc : gs_identity_set_token(id, o->token);
    rc = rc < 0 ? rc : copy_text(&id->token_file, o->token_file);
    rc = rc < 0 ? rc : copy_text(&id->user, o->user);
    rc = rc < 0 ? rc : copy_text(&id->password, o->password);
    rc = rc < 0 ? rc : copy_text(&id->server_name, o->server_name);
    rc = rc < 0 ? rc : copy_text(&id->proxy, o->proxy);
    rc = rc < 0 ? rc : copy_text(&id->user_agent, o->user_agent ? o->user_agent : "gpuslice");
    if (rc < 0) {
        gs_identity_fini(id);
        return gs_err_set(err, rc, "cannot set up the client: %s", strerror(-rc));
    }
    return 0;
}

static void free_secret(char **text)
{
    if (*text)
        explicit_bzero(*text, strlen(*text));
    free(*text);
    *text = NULL;
}

void gs_identity_fini(struct gs_identity *id)
{
    file_fini(&id->ca);
    file_fini(&id->cert);
    file_fini(&id->key);
    free_secret(&id->token);
    free_secret(&id->password);
    free(id->token_file);
    free(id->user);
    free(id->server_name);
    free(id->proxy);
    free(id->user_agent);
    *id = (struct gs_identity){.ca = {.fd = -1}, .cert = {.fd = -1}, .key = {.fd = -1}};
}

int gs_identity_set_token(struct gs_identity *id, const char *token)
{
    char *copy = NULL;

    if (token && gs_header_line_has_control(token))
        return -EINVAL;
    if (copy_text(&copy, token) < 0)
        return -ENOMEM;
    free_secret(&id->token);
    id->token = copy;
    return 0;
}

int gs_identity_set_cert(struct gs_identity *id, struct gs_str cert_pem, struct gs_str key_pem)
{
    struct gs_identity_file cert = {.fd = -1}, key = {.fd = -1};
    int rc = file_of_bytes(id, cert_pem, &cert);

    if (rc < 0)
        return rc;
    rc = file_of_bytes(id, key_pem, &key);
    if (rc < 0) {
        file_fini(&cert);
        return rc;
    }
    file_fini(&id->cert);
    file_fini(&id->key);
    id->cert = cert;
    id->key = key;
    return 0;
}

/** The token file once more where it changed. A file that is gone for a moment leaves the old token
 * in place: whether it still counts is the server's to say. */
static int refresh_token(struct gs_identity *id, struct gs_err *err)
{
    struct gs_buf text = {0};
    struct gs_secret_stamp stamp;

    if (!id->token_file || !gs_secret_is_changed(id->token_file, &id->token_stamp))
        return 0;
    int rc = gs_secret_read(id->token_file, &text, &stamp);
    if (rc < 0 && id->token)
        return 0;
    if (rc < 0)
        return gs_err_set(err, -EACCES, "token file '%s': %s", id->token_file, strerror(-rc));
    while (text.n && strchr(" \t\r\n", text.p[text.n - 1]))
        text.p[--text.n] = '\0';
    if (text.n && strlen(text.p) == text.n)
        rc = gs_identity_set_token(id, text.p);
    else
        rc = id->token ? 0 : -EINVAL; /* being written, perhaps: the old one serves meanwhile */
    gs_secret_wipe(&text);
    if (rc < 0)
        return gs_err_set(err, rc == -ENOMEM ? rc : -EACCES, "token file '%s' holds no token",
                          id->token_file);
    id->token_stamp = stamp;
    return 0;
}

static int apply_token(struct gs_identity *id, struct curl_slist **headers, struct gs_err *err)
{
    int rc = refresh_token(id, err);

    if (rc < 0 || !id->token)
        return rc;
    char *line = NULL;
    if (asprintf(&line, "Authorization: Bearer %s", id->token) < 0)
        return -ENOMEM;
    rc = gs_header_line_add(headers, line);
    free_secret(&line);
    return rc;
}

/** Ask for and verify another name than the URL's: the URL gets that name, and libcurl is told
 * where it lives. Header Host stays what the URL said. */
static int apply_name(const struct gs_identity *id, CURL *easy, CURLU *url,
                      struct curl_slist **headers, struct curl_slist **ret_to)
{
    char *host = NULL, *port = NULL, *line = NULL, *whole = NULL;
    int rc = -ENOMEM;

    if (curl_url_get(url, CURLUPART_HOST, &host, 0) ||
        curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) ||
        asprintf(&line, "Host: %s:%s", host, port) < 0 || gs_header_line_add(headers, line) < 0)
        goto out;
    free(line);
    line = NULL;
    if (asprintf(&line, "::%s:%s", host, port) < 0 || gs_header_line_add(ret_to, line) < 0)
        goto out;
    rc = -EINVAL;
    if (curl_url_set(url, CURLUPART_HOST, id->server_name, 0) ||
        curl_url_get(url, CURLUPART_URL, &whole, 0))
        goto out;
    rc = 0;
    if (curl_easy_setopt(easy, CURLOPT_URL, whole) ||
        curl_easy_setopt(easy, CURLOPT_CONNECT_TO, *ret_to))
        rc = -ENOMEM;
out:
    curl_free(host);
    curl_free(port);
    curl_free(whole);
    free(line);
    return rc;
}

static int apply_url(const struct gs_identity *id, CURL *easy, const char *text,
                     struct curl_slist **headers, struct curl_slist **ret_to)
{
    char *scheme = NULL;
    int rc = -EINVAL;
    CURLU *url = curl_url();

    if (!url)
        return -ENOMEM;
    if (!curl_url_set(url, CURLUPART_URL, text, 0) &&
        !curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) &&
        (strcmp(scheme, "https") == 0 || strcmp(scheme, "http") == 0)) {
        if (id->server_name && strcmp(scheme, "https") == 0)
            rc = apply_name(id, easy, url, headers, ret_to);
        else
            rc = curl_easy_setopt(easy, CURLOPT_URL, text) ? -ENOMEM : 0;
    }
    curl_free(scheme);
    curl_url_cleanup(url);
    return rc;
}

/** A peer that vanished without a word is noticed by the kernel, in any phase of a connection. */
static int on_socket(void *user, curl_socket_t fd, curlsocktype purpose)
{
    unsigned ms = SILENCE_MS;

    (void)user;
    if (purpose == CURLSOCKTYPE_IPCXN) /* fails for sockets that are not TCP: nothing to do then */
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
    return CURL_SOCKOPT_OK;
}

#define SET(option, value) rc = rc ? rc : curl_easy_setopt(easy, option, value)

static CURLcode apply_tls(const struct gs_identity *id, CURL *easy)
{
    CURLcode rc = CURLE_OK;

    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(CURLOPT_SSL_VERIFYPEER, id->insecure ? 0L : 1L);
    SET(CURLOPT_SSL_VERIFYHOST, id->insecure ? 0L : 2L);
    if (id->ca.path) {
        SET(CURLOPT_CAINFO, id->ca.path);
        SET(CURLOPT_CAPATH, NULL); /* else the machine's CAs count as well */
    }
    if (id->cert.path) {
        SET(CURLOPT_SSLCERT, id->cert.path);
        SET(CURLOPT_SSLKEY, id->key.path ? id->key.path : id->cert.path);
    }
    return rc;
}

static CURLcode apply_rest(const struct gs_identity *id, CURL *easy, const char *url)
{
    CURLcode rc = CURLE_OK;
    /* Without TLS only the first answer tells that connections cannot be shared: a watch's may take
     * for ever. */
    bool may_share = !id->http1 && strncasecmp(url, "https:", 6) == 0;

    SET(CURLOPT_HTTP_VERSION,
        id->http1 ? (long)CURL_HTTP_VERSION_1_1 : (long)CURL_HTTP_VERSION_2TLS);
    /* Share a connection that is being opened rather than open another. */
    SET(CURLOPT_PIPEWAIT, may_share ? 1L : 0L);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)id->connect_ms);
    SET(CURLOPT_TCP_KEEPALIVE, 1L);
    SET(CURLOPT_TCP_KEEPIDLE, KEEPALIVE_S);
    SET(CURLOPT_TCP_KEEPINTVL, KEEPALIVE_S);
    SET(CURLOPT_SOCKOPTFUNCTION, on_socket);
    SET(CURLOPT_USERAGENT, id->user_agent);
    if (id->proxy)
        SET(CURLOPT_PROXY, id->proxy);
    if (id->user && !id->token) {
        SET(CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
        SET(CURLOPT_USERNAME, id->user);
        SET(CURLOPT_PASSWORD, id->password ? id->password : "");
    }
    return rc;
}

#undef SET

int gs_identity_apply(struct gs_identity *id, CURL *easy, const char *url,
                      struct curl_slist **headers, struct curl_slist **ret_to, struct gs_err *err)
{
    int rc = apply_token(id, headers, err);

    if (rc < 0)
        return rc;
    rc = apply_url(id, easy, url, headers, ret_to);
    if (rc < 0)
        return gs_err_set(err, rc, "bad URL '%.200s'", url);
    if (apply_tls(id, easy) || apply_rest(id, easy, url))
        return gs_err_set(err, -ENOMEM, "cannot set up a call");
    return 0;
}
