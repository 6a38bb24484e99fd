#include "kube/base64.h"

#include <errno.h>

#include "base/buf.h"

static int digit_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : -1;
}

int gs_kube_base64_decode(struct gs_str text, char *ret, size_t *ret_n)
{
    unsigned word = 0, digits = 0, pads = 0;
    size_t n = 0;

    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        int digit = digit_of(c);

        if (c == '\n' || c == '\r')
            continue;
        if (c == '=') {
            pads++;
            continue;
        }
        if (digit < 0 || pads > 0)
            return -EINVAL;
        word = word << 6 | (unsigned)digit;
        if (++digits % 4 != 0)
            continue;
        ret[n++] = (char)(word >> 16);
        ret[n++] = (char)(word >> 8);
        ret[n++] = (char)word;
        word = 0;
    }
    if (digits % 4 == 1 || (digits + pads) % 4 != 0 || pads > 2)
        return -EINVAL;
    if (digits % 4 == 2)
        ret[n++] = (char)(word >> 4);
    if (digits % 4 == 3) {
        ret[n++] = (char)(word >> 10);
        ret[n++] = (char)(word >> 2);
    }
    *ret_n = n;
    return 0;
}

void gs_kube_base64_put(struct gs_buf *buf, struct gs_str bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < bytes.n; i += 3) {
        size_t left = bytes.n - i;
        unsigned word = (unsigned)(unsigned char)bytes.p[i] << 16;
        char four[4];

        if (left > 1)
            word |= (unsigned)(unsigned char)bytes.p[i + 1] << 8;
        if (left > 2)
            word |= (unsigned)(unsigned char)bytes.p[i + 2];
        four[0] = digits[word >> 18];
        four[1] = digits[word >> 12 & 63];
        four[2] = left > 1 ? digits[word >> 6 & 63] : '=';
        four[3] = left > 2 ? digits[word & 63] : '=';
        gs_buf_add(buf, four, sizeof(four));
    }
}
