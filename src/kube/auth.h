#pragma once
/* Credentials of exec plugins: run when there is none yet, when the last is near its end, or when
 * the server refused it (401); then given to the HTTP client. Tokens, token files, passwords and
 * certificates of the configuration are the HTTP client's own matter.
 *
 * Plugins run as child processes whose output the loop reads; nothing blocks. Used by kube/client.h
 * alone. */

#include <stdbool.h>

#include "base/err.h"
#include "core/cleanup.h"

struct gs_http_client;
struct gs_kube_auth;
struct gs_kube_config;
struct gs_loop;

enum gs_kube_auth_state {
    GS_KUBE_AUTH_READY,   /**< send */
    GS_KUBE_AUTH_WAITING, /**< a plugin runs: `fn` will tell */
};

/** A run has ended: 0, or why there is no credential. */
typedef void gs_kube_auth_fn(void *arg, int rc, const struct gs_err *err);

/** @config  borrowed, as is http.
 *  Owner    caller; release with gs_kube_auth_free(), which ends a plugin that runs. */
GS_WUR int gs_kube_auth_new(const struct gs_kube_config *config, struct gs_loop *loop,
                            struct gs_http_client *http, gs_kube_auth_fn *fn, void *arg,
                            struct gs_kube_auth **ret_auth);
struct gs_kube_auth *gs_kube_auth_free(struct gs_kube_auth *auth);

/** May a request be sent now? Starts the plugin where one is needed. fn is never called from here.
 */
enum gs_kube_auth_state gs_kube_auth_check(struct gs_kube_auth *auth);
/** The server said 401. True where a further try may have another outcome: a plugin gives a new
 *  credential (asked at most once in ten seconds), a token file may have been replaced. */
bool gs_kube_auth_refused(struct gs_kube_auth *auth);
