#pragma once
/* One client of net/http_client.h: who it is and whom it trusts. */

#include <stdbool.h>

#include "core/str.h"

/** Who we are and whom we trust. Zero means none or the default. Everything is copied. A `_pem`
 *  beats the `_file` beside it. Files of certificates are read at each new connection. */
struct gs_http_client_options {
    const char *ca_file; /**< PEM; neither file nor pem: the system's CAs */
    struct gs_str ca_pem;
    const char *cert_file; /**< client certificate, PEM with its chain */
    struct gs_str cert_pem;
    const char *key_file;
    struct gs_str key_pem;
    const char *token;      /**< bearer token */
    const char *token_file; /**< re-read when it changes (looked at with each call); beats token */
    const char *user;       /**< basic authentication, with the password */
    const char *password;
    const char *server_name;  /**< name to ask for and verify in TLS instead of the URL's host */
    const char *proxy;        /**< URL; NULL: as the environment says; "": none */
    const char *user_agent;   /**< "gpuslice" */
    bool insecure;            /**< do not verify the server */
    bool http1;               /**< never HTTP/2 */
    unsigned connect_ms;      /**< name, TCP and TLS; 10,000 */
    unsigned max_connections; /**< per server; 0 no limit */
};
