#pragma once
/* Who a client is and whom it trusts, in the form libcurl wants it: one handle is set up per call.
 *
 * Certificates given as bytes go into files that only this process sees (memfd): libcurl's GnuTLS
 * backend of 7.88 takes paths only (CURLOPT_CAINFO_BLOB and CURLOPT_SSLCERT_BLOB answer
 * CURLE_NOT_BUILT_IN). Threads: the client's. */

#include <curl/curl.h>

#include "core/cleanup.h"
#include "core/str.h"
#include "net/secret.h"

struct gs_err;
struct gs_http_client_options;

/** A certificate, key or CA: a path, and where it is our own, its descriptor. */
struct gs_identity_file {
    char *path; /**< NULL: none */
    int fd;     /**< memfd behind the path, -1 */
};

struct gs_identity {
    struct gs_identity_file ca, cert, key;
    char *token;      /**< NULL: none */
    char *token_file; /**< NULL: none */
    struct gs_secret_stamp token_stamp;
    char *user, *password, *server_name, *proxy, *user_agent;
    bool insecure;
    bool http1;
    unsigned connect_ms;
    int next_fd; /**< no two certificates of a client have the same path: see set_cert */
};

/** Copies all of options. Returns 0; -ENOMEM; -EINVAL a token with control characters. */
GS_WUR int gs_identity_init(struct gs_identity *id, const struct gs_http_client_options *options,
                            struct gs_err *err);
void gs_identity_fini(struct gs_identity *id);
GS_WUR int gs_identity_set_token(struct gs_identity *id, const char *token);
GS_WUR int gs_identity_set_cert(struct gs_identity *id, struct gs_str cert_pem,
                                struct gs_str key_pem);

/** Put the identity on a handle that asks for `url`.
 *  @headers  list so far; "Authorization: ..." and "Host: ..." may be added to it.
 *  @ret_to   what CURLOPT_CONNECT_TO borrows: free after the handle; may be NULL.
 *  Returns   0; -ENOMEM; -EINVAL bad URL; -EACCES unreadable token file. */
GS_WUR int gs_identity_apply(struct gs_identity *id, CURL *easy, const char *url,
                             struct curl_slist **headers, struct curl_slist **ret_to,
                             struct gs_err *err);
