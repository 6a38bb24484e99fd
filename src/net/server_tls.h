#pragma once
/* The certificates of a server: a pair that can be exchanged while connections use the old one, and
 * the CA that clients are checked against. GnuTLS only; knows nothing of HTTP.
 * Threads: the loop's. */

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/cleanup.h"
#include "net/secret.h"

struct gs_err;

/** Certificates in a chain, leaf included. */
#define GS_SERVER_TLS_CHAIN 16

/** A certificate with its key, counted: every connection holds the one it was greeted with. */
struct gs_server_tls_pair {
    unsigned refs;
    gnutls_pcert_st chain[GS_SERVER_TLS_CHAIN];
    unsigned n_chain;
    gnutls_privkey_t key;
};

struct gs_server_tls {
    const char *cert_file, *key_file,
        *ca_file; /**< borrowed; ca_file NULL: clients are not asked */
    struct gs_secret_stamp cert_stamp, key_stamp, ca_stamp; /**< of what is in use */
    struct gs_secret_stamp bad_stamp[3]; /**< of what was refused last: said once, tried again */
    struct gs_server_tls_pair *pair;
    gnutls_x509_trust_list_t ca;
};

/** Load everything. Returns 0; -EINVAL unreadable, no certificate, or they do not fit. */
GS_WUR int gs_server_tls_open(struct gs_server_tls *tls, const char *cert_file,
                              const char *key_file, const char *ca_file, struct gs_err *err);
void gs_server_tls_close(struct gs_server_tls *tls);

/** Look for changed files and take them into use.
 *  @ret_is_news  false where the same files were refused before (say it once).
 *  Returns       1 something new is in use; 0 nothing changed; negative errno refused. */
GS_WUR int gs_server_tls_reload(struct gs_server_tls *tls, bool *ret_is_news, struct gs_err *err);

void gs_server_tls_pair_unref(struct gs_server_tls_pair *pair);

/** Who a peer says it is, checked. */
struct gs_server_tls_peer {
    bool is_verified;
    char cn[256]; /**< empty where it has none, or a longer one */
    char o[256];
};

/** Check the peer's certificate against the CA: chain, time, use for client authentication.
 *  Returns  0 ret_peer is filled (is_verified false: it showed none); -EKEYREJECTED it does not
 *           pass. */
GS_WUR int gs_server_tls_check_peer(const struct gs_server_tls *tls, gnutls_session_t session,
                                    struct gs_server_tls_peer *ret_peer);
