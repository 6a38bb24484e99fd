#include "model/text.h"

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

struct gs_str gs_text_trim(struct gs_str text)
{
    while (text.n > 0 && is_blank(text.p[0])) {
        text.p++;
        text.n--;
    }
    while (text.n > 0 && is_blank(text.p[text.n - 1]))
        text.n--;
    return text;
}

bool gs_text_eq_fold(struct gs_str a, struct gs_str b)
{
    if (a.n != b.n)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if (lower(a.p[i]) != lower(b.p[i]))
            return false;
    return true;
}

bool gs_text_contains(struct gs_str text, struct gs_str part)
{
    for (size_t i = 0; i + part.n <= text.n; i++)
        if (gs_text_eq_fold((struct gs_str){text.p + i, part.n}, part))
            return true;
    return false;
}

bool gs_text_is_true(struct gs_str text)
{
    static const char *const words[] = {"1", "t", "T", "TRUE", "true", "True"};

    for (size_t i = 0; i < GS_ARRAY_LEN(words); i++)
        if (gs_str_eq_c(text, words[i]))
            return true;
    return false;
}
