#include "vendors/nvidia/hook/ptx.h"

#include <stdbool.h>
#include <string.h>

#include "vendors/nvidia/hook/cubin.h"

#define TEXT_MAX (64u << 20) /* longer texts are not read to their end */
#define WORD_MAX 64u
#define CHUNK    4096u
#define END      (-1)

/* The text, a chunk at a time: its length is not known and the memory behind it may end anywhere.
 */
struct text {
    const struct gs_cubin_source *source;
    uint64_t next; /* offset of the first byte not in `chunk` */
    uint64_t left;
    uint32_t n, i;
    char chunk[CHUNK];
};

static bool fill(struct text *text)
{
    uint32_t want = (uint32_t)(CHUNK - text->next % CHUNK);

    for (; want != 0; want /= 2) {
        if (want <= text->left &&
            text->source->read(text->source, text->next, text->chunk, want) == 0)
            break;
    }
    text->next += want;
    text->left -= want;
    text->n = want;
    text->i = 0;
    return want != 0;
}

static int peek(struct text *text)
{
    if (text->i == text->n && !fill(text))
        return END;
    return text->chunk[text->i] == '\0' ? END : (unsigned char)text->chunk[text->i];
}

static int get(struct text *text)
{
    int c = peek(text);

    if (c != END)
        text->i++;
    return c;
}

/* Over "//" to the end of the line, or to the end of a block; the slash is read already. */
static void skip_comment(struct text *text)
{
    int c = get(text);
    int before = 0;

    if (c == '/') {
        while (c != END && c != '\n')
            c = get(text);
        return;
    }
    for (c = get(text); c != END && !(before == '*' && c == '/'); c = get(text))
        before = c;
}

static bool is_word(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '$' || c == '%' || c == '.';
}

/* Next word, or one sign as a word of one character. Returns its first character or END. */
static int next_word(struct text *text, char *word)
{
    uint32_t n = 0;
    int c;

    for (;;) {
        c = get(text);
        if (c == '/' && (peek(text) == '/' || peek(text) == '*'))
            skip_comment(text);
        else if (c != ' ' && c != '\t' && c != '\n' && c != '\r')
            break;
    }
    word[0] = (char)c;
    word[1] = '\0';
    if (c == '"') {
        for (c = get(text); c != END && c != '"'; c = get(text))
            continue;
        return c == END ? END : '"';
    }
    if (c == END || !is_word(c))
        return c;
    for (n = 1; is_word(peek(text));) {
        int more = get(text);
        if (n + 1 < WORD_MAX)
            word[n++] = (char)more;
    }
    word[n] = '\0';
    return c;
}

/* Bytes of a fundamental type, by the number at its end; 0: not a type. */
static uint64_t type_bytes(const char *word)
{
    const char *digits = word + 2;

    if (strcmp(word, ".pred") == 0)
        return 1;
    if (strcmp(word, ".bf16") == 0 || strcmp(word, ".f16") == 0)
        return 2;
    if (strcmp(word, ".f16x2") == 0 || strcmp(word, ".bf16x2") == 0)
        return 4;
    if (word[0] != '.' || word[1] == '\0' || !strchr("busf", word[1]))
        return 0;
    if (strcmp(digits, "8") == 0)
        return 1;
    if (strcmp(digits, "16") == 0)
        return 2;
    if (strcmp(digits, "32") == 0)
        return 4;
    if (strcmp(digits, "64") == 0)
        return 8;
    return strcmp(digits, "128") == 0 ? 16 : 0;
}

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product;

    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* A word as a PTX integer literal: decimal, or with 0x, 0b or 0 in front; a suffix U ends it. Not
 * strtoull(): a C library newer than ours makes an import of it that older ones lack. */
static uint64_t literal(const char *word)
{
    unsigned base = 10;
    uint64_t n = 0;

    if (word[0] == '0') {
        char mark = word[1];

        base = mark == 'x' || mark == 'X' ? 16 : mark == 'b' || mark == 'B' ? 2 : 8;
        word += base == 8 ? 1 : 2;
    }
    for (; *word; word++) {
        unsigned letter = (unsigned)(*word | 0x20); /* lower case, and digits as they are */
        unsigned digit = letter >= 'a' ? letter - 'a' + 10 : (unsigned)*word - '0';

        if (digit >= base)
            break;
        n = plus(times(n, base), digit);
    }
    return n;
}

/* What follows `.global` or `.const` up to the semicolon. An array's first dimension may be left to
 * its initial value, which then is in the text, so no larger than it. */
static uint64_t variable_bytes(struct text *text)
{
    char word[WORD_MAX];
    uint64_t element = 0, each, sum = 0;
    uint64_t vector = 1;
    int depth = 0;
    int c;

    for (c = next_word(text, word); c == '.'; c = next_word(text, word)) {
        if (strcmp(word, ".align") == 0)
            (void)next_word(text, word);
        else if (strcmp(word, ".v2") == 0)
            vector = 2;
        else if (strcmp(word, ".v4") == 0)
            vector = 4;
        else if (type_bytes(word) != 0)
            element = type_bytes(word);
    }
    each = times(element, vector);
    for (c = next_word(text, word); c != END && c != ';'; c = next_word(text, word)) {
        if (c == '[' && depth == 0) {
            if (next_word(text, word) >= '0' && word[0] <= '9')
                each = times(each, literal(word));
        } else if (c == ',' && depth == 0) {
            sum = plus(sum, each);
            each = times(element, vector);
        } else if (c == '{') {
            depth++;
        } else if (c == '}') {
            depth--;
        }
    }
    return plus(sum, each);
}

uint64_t gs_ptx_bytes(const struct gs_cubin_source *source, uint64_t offset)
{
    struct text text = {.source = source, .next = offset, .left = TEXT_MAX};
    char word[WORD_MAX];
    uint64_t sum = 0;
    bool external = false;
    int depth = 0;
    int c = next_word(&text, word);

    if (c == END || strcmp(word, ".version") != 0)
        return 0;
    for (; c != END; c = next_word(&text, word)) {
        if (c == '{' || c == '(') /* a parameter may be a pointer to `.global` */
            depth++;
        else if (c == '}' || c == ')')
            depth--;
        else if (depth == 0 && strcmp(word, ".extern") == 0)
            external = true;
        else if (depth == 0 && (strcmp(word, ".global") == 0 || strcmp(word, ".const") == 0)) {
            uint64_t bytes = variable_bytes(&text);
            sum = external ? sum : plus(sum, bytes);
            external = false;
        } else if (c == ';') {
            external = false;
        }
    }
    return sum;
}
