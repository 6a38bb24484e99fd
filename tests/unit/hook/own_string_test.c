#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* hook/own_string.c under other names (meson.build); the C library is the outside source. */
void *own_memchr(const void *s, int c, size_t n);
int own_memcmp(const void *a, const void *b, size_t n);
void *own_memcpy(void *to, const void *from, size_t n);
void *own_memmove(void *to, const void *from, size_t n);
void *own_memset(void *to, int c, size_t n);
char *own_strchr(const char *s, int c);
int own_strcmp(const char *a, const char *b);
size_t own_strcspn(const char *s, const char *reject);
size_t own_strlen(const char *s);
int own_strncmp(const char *a, const char *b, size_t n);
char *own_strrchr(const char *s, int c);

#define ROOM 96

static int sign(int x)
{
    return (x > 0) - (x < 0);
}

static void test_memory(void **state)
{
    unsigned char from[ROOM], mine[ROOM], theirs[ROOM];
    (void)state;
    for (size_t i = 0; i < ROOM; i++)
        from[i] = (unsigned char)(i * 37);
    for (size_t at = 0; at < 9; at++) {
        for (size_t to = 0; to < 9; to++) {
            for (size_t n = 0; n < ROOM - 9; n++) {
                memset(mine, 0xee, ROOM);
                memset(theirs, 0xee, ROOM);
                assert_ptr_equal(own_memcpy(mine + to, from + at, n), mine + to);
                memcpy(theirs + to, from + at, n);
                assert_memory_equal(mine, theirs, ROOM);
                assert_ptr_equal(own_memset(mine + at, 0x1a5, n), mine + at);
                memset(theirs + at, 0x1a5 & 0xff, n);
                assert_memory_equal(mine, theirs, ROOM);
                memcpy(mine, from, ROOM);
                memcpy(theirs, from, ROOM);
                assert_ptr_equal(own_memmove(mine + to, mine + at, n), mine + to);
                memmove(theirs + to, theirs + at, n);
                assert_memory_equal(mine, theirs, ROOM);
            }
        }
    }
}

static void test_comparisons(void **state)
{
    static const char *const words[] = {"",    "a",    "ab",    "abc",
                                        "abd", "\xff", "a\xff", "cuMemAlloc_v2"};
    const size_t n_words = sizeof words / sizeof *words;
    (void)state;
    for (size_t i = 0; i < n_words; i++) {
        assert_int_equal(own_strlen(words[i]), strlen(words[i]));
        for (size_t j = 0; j < n_words; j++) {
            const char *a = words[i];
            const char *b = words[j];
            size_t both = strlen(a) < strlen(b) ? strlen(a) : strlen(b);
            assert_int_equal(sign(own_strcmp(a, b)), sign(strcmp(a, b)));
            assert_int_equal(own_strcspn(a, b), strcspn(a, b));
            assert_int_equal(sign(own_memcmp(a, b, both)), sign(memcmp(a, b, both)));
            for (size_t n = 0; n < 6; n++)
                assert_int_equal(sign(own_strncmp(a, b, n)), sign(strncmp(a, b, n)));
        }
    }
}

static void test_searches(void **state)
{
    static const char text[] = "/usr/lib/\xe9/libcuda.so.1";
    (void)state;
    for (int c = 0; c < 256; c++) {
        assert_ptr_equal(own_strchr(text, c), strchr(text, c));
        assert_ptr_equal(own_strrchr(text, c), strrchr(text, c));
        assert_ptr_equal(own_memchr(text, c, sizeof text), memchr(text, c, sizeof text));
        assert_ptr_equal(own_memchr(text, c, 3), memchr(text, c, 3));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_comparisons),
        cmocka_unit_test(test_searches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
