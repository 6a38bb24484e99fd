#include "net/server_tls.h"

#include <errno.h>
#include <gnutls/x509.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"

static struct gs_server_tls_pair *free_pair(struct gs_server_tls_pair *pair)
{
    if (!pair)
        return NULL;
    for (unsigned i = 0; i < pair->n_chain; i++)
        gnutls_pcert_deinit(&pair->chain[i]);
    if (pair->key)
        gnutls_privkey_deinit(pair->key);
    free(pair);
    return NULL;
}

static void free_pair_p(struct gs_server_tls_pair **pair)
{
    *pair = free_pair(*pair);
}

void gs_server_tls_pair_unref(struct gs_server_tls_pair *pair)
{
    if (pair && --pair->refs == 0)
        free_pair(pair);
}

static gnutls_datum_t datum_of(const struct gs_buf *buf)
{
    return (gnutls_datum_t){.data = (unsigned char *)buf->p, .size = (unsigned)buf->n};
}

static int load_chain(struct gs_server_tls_pair *pair, const struct gs_buf *pem, const char *path,
                      struct gs_err *err)
{
    gnutls_datum_t data = datum_of(pem);
    unsigned n = GS_SERVER_TLS_CHAIN;

    int rc = gnutls_pcert_list_import_x509_raw(pair->chain, &n, &data, GNUTLS_X509_FMT_PEM,
                                               GNUTLS_X509_CRT_LIST_IMPORT_FAIL_IF_EXCEED);
    if (rc < 0 || n == 0)
        return gs_err_set(err, -EINVAL, "no certificate in '%s': %s", path, gnutls_strerror(rc));
    pair->n_chain = n;
    return 0;
}

/** The key, checked to be the one of the chain's first certificate. */
static int load_key(struct gs_server_tls_pair *pair, const struct gs_buf *pem, const char *path,
                    struct gs_err *err)
{
    gnutls_datum_t data = datum_of(pem);
    unsigned char of_key[64], of_cert[64];
    size_t key_n = sizeof(of_key), cert_n = sizeof(of_cert);
    gnutls_pubkey_t public = NULL;

    int rc = gnutls_privkey_init(&pair->key);
    rc = rc < 0 ? rc
                : gnutls_privkey_import_x509_raw(pair->key, &data, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (rc < 0)
        return gs_err_set(err, -EINVAL, "no private key in '%s': %s", path, gnutls_strerror(rc));
    rc = gnutls_pubkey_init(&public);
    rc = rc < 0 ? rc : gnutls_pubkey_import_privkey(public, pair->key, 0, 0);
    rc = rc < 0 ? rc : gnutls_pubkey_get_key_id(public, GNUTLS_KEYID_USE_SHA256, of_key, &key_n);
    rc = rc < 0 ? rc
                : gnutls_pubkey_get_key_id(pair->chain[0].pubkey, GNUTLS_KEYID_USE_SHA256, of_cert,
                                           &cert_n);
    if (public)
        gnutls_pubkey_deinit(public);
    if (rc < 0)
        return gs_err_set(err, -EINVAL, "cannot compare '%s' with its certificate: %s", path,
                          gnutls_strerror(rc));
    if (key_n != cert_n || memcmp(of_key, of_cert, key_n) != 0)
        return gs_err_set(err, -EINVAL, "the key in '%s' is not the certificate's", path);
    return 0;
}

static int read_file(const char *path, struct gs_buf *buf, struct gs_secret_stamp *ret_stamp,
                     struct gs_err *err)
{
    int rc = gs_secret_read(path, buf, ret_stamp);

    return rc < 0 ? gs_err_set(err, rc, "cannot read '%s': %s", path, strerror(-rc)) : 0;
}

static int load_pair(struct gs_server_tls *tls, struct gs_err *err)
{
    GS_CLEANUP(free_pair_p) struct gs_server_tls_pair *pair = calloc(1, sizeof(*pair));
    GS_CLEANUP(gs_secret_wipe) struct gs_buf cert = {0}, key = {0};
    struct gs_secret_stamp cert_stamp = {0}, key_stamp = {0};

    if (!pair)
        return gs_err_set(err, -ENOMEM, "out of memory");
    int rc = read_file(tls->cert_file, &cert, &cert_stamp, err);
    rc = rc < 0 ? rc : read_file(tls->key_file, &key, &key_stamp, err);
    rc = rc < 0 ? rc : load_chain(pair, &cert, tls->cert_file, err);
    rc = rc < 0 ? rc : load_key(pair, &key, tls->key_file, err);
    if (rc < 0)
        return rc;
    pair->refs = 1;
    gs_server_tls_pair_unref(tls->pair);
    tls->pair = GS_STEAL(pair);
    tls->cert_stamp = cert_stamp;
    tls->key_stamp = key_stamp;
    return 0;
}

static int load_ca(struct gs_server_tls *tls, struct gs_err *err)
{
    GS_CLEANUP(gs_secret_wipe) struct gs_buf pem = {0};
    struct gs_secret_stamp stamp;
    gnutls_x509_trust_list_t list = NULL;

    int rc = read_file(tls->ca_file, &pem, &stamp, err);
    if (rc < 0)
        return rc;
    if (gnutls_x509_trust_list_init(&list, 0) < 0)
        return gs_err_set(err, -ENOMEM, "out of memory");
    gnutls_datum_t data = datum_of(&pem);
    rc = gnutls_x509_trust_list_add_trust_mem(list, &data, NULL, GNUTLS_X509_FMT_PEM, 0, 0);
    if (rc <= 0) {
        gnutls_x509_trust_list_deinit(list, 1);
        return gs_err_set(err, -EINVAL, "no certificate in '%s'", tls->ca_file);
    }
    if (tls->ca)
        gnutls_x509_trust_list_deinit(tls->ca, 1);
    tls->ca = list;
    tls->ca_stamp = stamp;
    return 0;
}

int gs_server_tls_open(struct gs_server_tls *tls, const char *cert_file, const char *key_file,
                       const char *ca_file, struct gs_err *err)
{
    *tls = (struct gs_server_tls){.cert_file = cert_file, .key_file = key_file, .ca_file = ca_file};
    int rc = load_pair(tls, err);
    if (rc == 0 && ca_file)
        rc = load_ca(tls, err);
    if (rc < 0)
        gs_server_tls_close(tls);
    return rc;
}

void gs_server_tls_close(struct gs_server_tls *tls)
{
    gs_server_tls_pair_unref(tls->pair);
    if (tls->ca)
        gnutls_x509_trust_list_deinit(tls->ca, 1);
    *tls = (struct gs_server_tls){0};
}

/** True where `path` still leads to what was refused before; else remember what it leads to now. */
static bool is_refused_again(const char *path, struct gs_secret_stamp *bad)
{
    struct gs_buf text = {0};
    struct gs_secret_stamp now = {0};

    bool same = !gs_secret_is_changed(path, bad);
    if (!same && gs_secret_read(path, &text, &now) == 0)
        *bad = now;
    gs_secret_wipe(&text);
    return same;
}

int gs_server_tls_reload(struct gs_server_tls *tls, bool *ret_is_news, struct gs_err *err)
{
    bool pair = gs_secret_is_changed(tls->cert_file, &tls->cert_stamp) ||
                gs_secret_is_changed(tls->key_file, &tls->key_stamp);
    bool ca = tls->ca_file && gs_secret_is_changed(tls->ca_file, &tls->ca_stamp);
    int rc_pair = 0, rc_ca = 0;

    *ret_is_news = true;
    if (!pair && !ca)
        return 0;
    if (pair)
        rc_pair = load_pair(tls, err);
    if (ca)
        rc_ca = load_ca(tls, rc_pair < 0 ? NULL : err); /* each stands for itself */
    if (rc_pair == 0 && rc_ca == 0)
        return 1;
    bool again_cert = is_refused_again(tls->cert_file, &tls->bad_stamp[0]);
    bool again_key = is_refused_again(tls->key_file, &tls->bad_stamp[1]);
    bool again_ca = !tls->ca_file || is_refused_again(tls->ca_file, &tls->bad_stamp[2]);
    *ret_is_news = !(again_cert && again_key && again_ca);
    return rc_pair < 0 ? rc_pair : rc_ca;
}

static void read_name(gnutls_x509_crt_t crt, const char *oid, char *text, size_t cap)
{
    size_t n = cap;

    text[0] = '\0';
    if (gnutls_x509_crt_get_dn_by_oid(crt, oid, 0, 0, text, &n) < 0 || strlen(text) != n)
        text[0] = '\0'; /* absent, too long, or with a NUL inside */
}

static int verify_chain(const struct gs_server_tls *tls, gnutls_x509_crt_t *chain, unsigned n,
                        struct gs_server_tls_peer *ret_peer)
{
    gnutls_typed_vdata_st use = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                 .data = (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT};
    unsigned status = 0;

    int rc = gnutls_x509_trust_list_verify_crt2(tls->ca, chain, n, &use, 1, 0, &status, NULL);
    if (rc < 0 || status != 0)
        return -EKEYREJECTED;
    ret_peer->is_verified = true;
    read_name(chain[0], GNUTLS_OID_X520_COMMON_NAME, ret_peer->cn, sizeof(ret_peer->cn));
    read_name(chain[0], GNUTLS_OID_X520_ORGANIZATION_NAME, ret_peer->o, sizeof(ret_peer->o));
    return 0;
}

int gs_server_tls_check_peer(const struct gs_server_tls *tls, gnutls_session_t session,
                             struct gs_server_tls_peer *ret_peer)
{
    gnutls_x509_crt_t chain[GS_SERVER_TLS_CHAIN];
    unsigned n = 0, n_shown = 0;
    int rc = 0;
    const gnutls_datum_t *shown = gnutls_certificate_get_peers(session, &n_shown);

    *ret_peer = (struct gs_server_tls_peer){0};
    if (!shown || n_shown == 0)
        return 0;
    if (n_shown > GS_SERVER_TLS_CHAIN ||
        gnutls_certificate_type_get2(session, GNUTLS_CTYPE_PEERS) != GNUTLS_CRT_X509)
        return -EKEYREJECTED;
    for (; n < n_shown && rc == 0; n++) {
        if (gnutls_x509_crt_init(&chain[n]) < 0) {
            rc = -EKEYREJECTED;
            break;
        }
        if (gnutls_x509_crt_import(chain[n], &shown[n], GNUTLS_X509_FMT_DER) < 0)
            rc = -EKEYREJECTED;
    }
    if (rc == 0)
        rc = verify_chain(tls, chain, n, ret_peer);
    while (n)
        gnutls_x509_crt_deinit(chain[--n]);
    return rc;
}
