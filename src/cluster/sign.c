#include "cluster/sign.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#include "base/log.h"
#include "cluster/pairs.h"
#include "contract/names.h"
#include "model/grant.h"
#include "net/secret.h"

#define KEYS_MAX 8u
#define KEY_MIN  16u
#define KEY_MAX  1024u
#define DIGEST   32u
#define HEX      (2 * DIGEST + 1)

/* ---- what is signed ---- */

static bool is_placements(struct gs_str key)
{
    return gs_str_eq_c(key, GS_NAME_PLACEMENTS);
}

/* May this annotation be part of what is signed? */
static bool is_covered(struct gs_str key)
{
    static const char suffix[] = "-allocated";
    size_t n = sizeof(suffix) - 1;

    if (is_placements(key))
        return true;
    return key.n > n && memcmp(key.p + key.n - n, suffix, n) == 0 &&
           gs_str_skip(&key, GS_STR("hami.io/"));
}

static void put_netstring(struct gs_buf *buf, struct gs_str s)
{
    gs_buf_addf(buf, "%zu:", s.n);
    gs_buf_put(buf, s);
    gs_buf_adds(buf, ",");
}

/* The plugin adds to its reservations what it made of them: that is not signed. */
static int put_placements(struct gs_buf *buf, struct gs_str value, struct gs_arena *arena)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    struct gs_mig_grant *mig;
    size_t n;
    int rc = gs_grant_mig_read(value, arena, &mig, &n, NULL);

    if (rc == -ENOMEM)
        return rc;
    if (rc < 0) {
        put_netstring(buf, value); /* nobody can read it either way */
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        mig[i].is_realised = false;
    gs_grant_mig_write(mig, n, &text);
    put_netstring(buf, gs_buf_str(&text));
    return gs_buf_check(&text);
}

static int by_key(const void *a, const void *b)
{
    const struct gs_pair *const *x = a, *const *y = b;

    return gs_str_cmp((*x)->key, (*y)->key);
}

/* Keys of those that are covered and not empty, ascending, with commas between. */
static int list_keys(const struct gs_pairs *annotations, struct gs_arena *arena, struct gs_buf *buf)
{
    const struct gs_pair **pair = GS_ARENA_ARRAY(arena, annotations->n, const struct gs_pair *);
    size_t n = 0;

    if (pair == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < annotations->n; i++)
        if (is_covered(annotations->at[i].key) && annotations->at[i].value.n > 0)
            pair[n++] = &annotations->at[i];
    if (n > 0)
        qsort(pair, n, sizeof(*pair), by_key);
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            gs_buf_adds(buf, ",");
        gs_buf_put(buf, pair[i]->key);
    }
    return gs_buf_check(buf);
}

/* The bytes that are signed. -EINVAL: keys not covered, not ascending, or not there. */
static int write_message(struct gs_str uid, struct gs_str node, const struct gs_pairs *annotations,
                         struct gs_str keys, struct gs_arena *arena, struct gs_buf *buf)
{
    struct gs_str last = {0}, key;
    int rc = 0;

    put_netstring(buf, GS_STR("gpuslice-grant"));
    put_netstring(buf, GS_STR("1"));
    put_netstring(buf, uid);
    put_netstring(buf, node);
    while (rc == 0 && gs_str_cut(&keys, ',', &key)) {
        const struct gs_str *value = gs_pairs_find(annotations, key);

        if (!is_covered(key) || value == NULL || gs_str_cmp(last, key) >= 0)
            return -EINVAL;
        put_netstring(buf, key);
        if (is_placements(key))
            rc = put_placements(buf, *value, arena);
        else
            put_netstring(buf, *value);
        last = key;
    }
    return rc < 0 ? rc : gs_buf_check(buf);
}

/* HMAC-SHA256 in hex. */
static int hmac(struct gs_str key, struct gs_str message, char hex[HEX])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char digest[DIGEST];

    if (gnutls_hmac_fast(GNUTLS_MAC_SHA256, key.p, key.n, message.p, message.n, digest) < 0)
        return -EIO;
    for (size_t i = 0; i < DIGEST; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[HEX - 1] = '\0';
    return 0;
}

/* ---- keys ---- */

struct gs_sign {
    char *path;
    bool takes_unsigned;
    struct gs_secret_stamp stamp;
    struct gs_buf text; /**< the file; keys are views of it */
    struct gs_str key[KEYS_MAX];
    size_t n;
    struct gs_arena arena; /**< of one check */
};

static struct gs_str trim(struct gs_str s)
{
    while (s.n > 0 && (s.p[0] == ' ' || s.p[0] == '\t'))
        s = (struct gs_str){s.p + 1, s.n - 1};
    while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t' || s.p[s.n - 1] == '\r'))
        s.n--;
    return s;
}

static int split(struct gs_str text, struct gs_str key[KEYS_MAX], size_t *ret_n, struct gs_err *err)
{
    struct gs_str line;
    size_t n = 0;

    while (gs_str_cut(&text, '\n', &line)) {
        line = trim(line);
        if (line.n == 0)
            continue;
        if (n == KEYS_MAX)
            return gs_err_set(err, -E2BIG, "more than %u keys", KEYS_MAX);
        if (line.n < KEY_MIN || line.n > KEY_MAX)
            return gs_err_set(err, -EINVAL, "key %zu: not %u to %u bytes", n + 1, KEY_MIN, KEY_MAX);
        key[n++] = line;
    }
    if (n == 0)
        return gs_err_set(err, -EINVAL, "no key in it");
    *ret_n = n;
    return 0;
}

static int read_keys(struct gs_sign *sign, struct gs_err *err)
{
    struct gs_secret_stamp stamp;
    struct gs_str key[KEYS_MAX];
    struct gs_buf text = {0};
    size_t n = 0;
    int rc = gs_secret_read(sign->path, &text, &stamp);

    if (rc < 0)
        return gs_err_set(err, rc, "cannot read the signing keys '%s': %s", sign->path,
                          strerror(-rc));
    rc = split(gs_buf_str(&text), key, &n, err);
    if (rc < 0) {
        gs_secret_wipe(&text);
        return gs_err_wrap(err, rc, "%s", sign->path);
    }
    gs_secret_wipe(&sign->text);
    sign->text = text;
    memcpy(sign->key, key, sizeof(key));
    sign->n = n;
    sign->stamp = stamp;
    return 0;
}

int gs_sign_new(const char *path, bool takes_unsigned, struct gs_sign **ret, struct gs_err *err)
{
    struct gs_sign *sign = calloc(1, sizeof(*sign));
    int rc = -ENOMEM;

    if (sign == NULL)
        return rc;
    sign->takes_unsigned = takes_unsigned;
    sign->path = strdup(path);
    if (sign->path != NULL)
        rc = read_keys(sign, err);
    if (rc < 0) {
        gs_sign_free(sign);
        return rc;
    }
    *ret = sign;
    return 0;
}

struct gs_sign *gs_sign_free(struct gs_sign *sign)
{
    if (sign == NULL)
        return NULL;
    gs_secret_wipe(&sign->text);
    gs_arena_fini(&sign->arena);
    free(sign->path);
    free(sign);
    return NULL;
}

bool gs_sign_look(struct gs_sign *sign)
{
    struct gs_err err = {0};

    if (!gs_secret_is_changed(sign->path, &sign->stamp))
        return false;
    if (read_keys(sign, &err) < 0) {
        GS_LOG_WARN("grant keys not read again, the old ones stay", GS_LOG_ERR(&err));
        return false;
    }
    GS_LOG_INFO("grant keys read again", GS_LOG_UINT("keys", sign->n));
    return true;
}

/* ---- sealing and checking ---- */

int gs_sign_seal(struct gs_sign *sign, struct gs_str uid, struct gs_str node,
                 struct gs_arena *arena, struct gs_pairs *annotations)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf message = {0}, keys = {0};
    char hex[HEX];
    int rc = list_keys(annotations, arena, &keys);

    if (rc < 0 || keys.n == 0)
        return rc;
    rc = write_message(uid, node, annotations, gs_buf_str(&keys), arena, &message);
    if (rc == 0)
        rc = hmac(sign->key[0], gs_buf_str(&message), hex);
    if (rc < 0)
        return rc;
    return gs_pairs_set(annotations, arena, GS_STR(GS_NAME_SIGNATURE),
                        gs_arena_printf(arena, "1:%s:%s", hex, gs_buf_text(&keys)));
}

/* "1:<hex>:<keys>" */
static bool parse(struct gs_str text, struct gs_str *ret_hex, struct gs_str *ret_keys)
{
    if (!gs_str_skip(&text, GS_STR("1:")) || !gs_str_cut(&text, ':', ret_hex) ||
        ret_hex->n != HEX - 1)
        return false;
    *ret_keys = text;
    return text.n > 0;
}

bool gs_sign_trusts(struct gs_sign *sign, const struct gs_kube_pod *pod)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf message = {0};
    const struct gs_str *signature =
        gs_kube_pairs_find(&pod->meta.annotations, GS_STR(GS_NAME_SIGNATURE));
    struct gs_pairs annotations;
    struct gs_str theirs, keys;
    char hex[HEX];

    if (signature == NULL)
        return sign->takes_unsigned;
    gs_arena_reset(&sign->arena);
    if (!parse(*signature, &theirs, &keys) ||
        gs_pairs_convert(&pod->meta.annotations, &sign->arena, &annotations) < 0 ||
        write_message(pod->meta.uid, pod->node_name, &annotations, keys, &sign->arena, &message) <
            0)
        return false;
    for (size_t i = 0; i < sign->n; i++)
        if (hmac(sign->key[i], gs_buf_str(&message), hex) == 0 &&
            gnutls_memcmp(hex, theirs.p, theirs.n) == 0)
            return true;
    return false;
}

bool gs_sign_counts(const struct gs_sign *sign, const struct gs_kube_pod *pod, struct gs_str key)
{
    const struct gs_str *signature =
        gs_kube_pairs_find(&pod->meta.annotations, GS_STR(GS_NAME_SIGNATURE));
    struct gs_str hex, keys, one;

    if (signature == NULL)
        return sign->takes_unsigned;
    if (!parse(*signature, &hex, &keys))
        return false;
    while (gs_str_cut(&keys, ',', &one))
        if (gs_str_eq(one, key))
            return true;
    return false;
}
