/* The library's own <string.h>, linked into it and seen by nothing else (exports.map hides all).
 *
 * A program may interpose the C library's: a linked-in ASan or TSan does, and asks dlsym for the
 * real ones before its own work. Our dlsym must not need them then. Compilers write calls of these
 * names for plain assignments too, so nothing less than the names themselves will do; the flags in
 * meson.build keep the loops below from becoming such calls. Semantics: C17 7.24, POSIX. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* In parentheses: newer C libraries have these three as macros, too, which keep the argument's
 * const (C23). */
void *(memchr)(const void *s, int c, size_t n)
{
    const unsigned char *p = s;
    for (size_t i = 0; i < n; i++)
        if (p[i] == (unsigned char)c)
            return (void *)(uintptr_t)(p + i);
    return NULL;
}

int memcmp(const void *a, const void *b, size_t n)
{
    const unsigned char *p = a;
    const unsigned char *q = b;
    for (size_t i = 0; i < n; i++)
        if (p[i] != q[i])
            return p[i] < q[i] ? -1 : 1;
    return 0;
}

/** Words where both ends allow it: structures are what we mostly copy. */
void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    unsigned char *p = to;
    const unsigned char *q = from;
    size_t i = 0;
    if ((((uintptr_t)p | (uintptr_t)q) & (sizeof(uint64_t) - 1)) == 0)
        for (; i + sizeof(uint64_t) <= n; i += sizeof(uint64_t))
            *(uint64_t *)(void *)(p + i) = *(const uint64_t *)(const void *)(q + i);
    for (; i < n; i++)
        p[i] = q[i];
    return to;
}

void *memmove(void *to, const void *from, size_t n)
{
    unsigned char *p = to;
    const unsigned char *q = from;
    if ((uintptr_t)p <= (uintptr_t)q)
        for (size_t i = 0; i < n; i++)
            p[i] = q[i];
    else
        for (size_t i = n; i > 0; i--)
            p[i - 1] = q[i - 1];
    return to;
}

void *memset(void *to, int c, size_t n)
{
    unsigned char *p = to;
    const uint64_t word = UINT64_C(0x0101010101010101) * (unsigned char)c;
    size_t i = 0;
    if (((uintptr_t)p & (sizeof(uint64_t) - 1)) == 0)
        for (; i + sizeof(uint64_t) <= n; i += sizeof(uint64_t))
            *(uint64_t *)(void *)(p + i) = word;
    for (; i < n; i++)
        p[i] = (unsigned char)c;
    return to;
}

char *(strchr)(const char *s, int c)
{
    for (;; s++) {
        if (*s == (char)c)
            return (char *)(uintptr_t)s;
        if (*s == '\0')
            return NULL;
    }
}

int strcmp(const char *a, const char *b)
{
    while (*a != '\0' && *a == *b)
        a++, b++;
    return (unsigned char)*a - (unsigned char)*b;
}

size_t strcspn(const char *s, const char *reject)
{
    size_t n = 0;
    while (s[n] != '\0' && strchr(reject, s[n]) == NULL)
        n++;
    return n;
}

size_t strlen(const char *s)
{
    size_t n = 0;
    while (s[n] != '\0')
        n++;
    return n;
}

int strncmp(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (a[i] != b[i])
            return (unsigned char)a[i] - (unsigned char)b[i];
        if (a[i] == '\0')
            break;
    }
    return 0;
}

char *(strrchr)(const char *s, int c)
{
    const char *found = NULL;
    for (;; s++) {
        if (*s == (char)c)
            found = s;
        if (*s == '\0')
            return (char *)(uintptr_t)found;
    }
}
