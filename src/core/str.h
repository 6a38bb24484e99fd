#pragma once
/* Borrowed string views, and text built in a caller's buffer. No allocation, no locale, no stdio,
 * so that the hook may use it inside a stranger's process. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"

/** A view: not NUL-terminated, not owned. */
struct gs_str {
    const char *p;
    size_t n;
};

/** View of a literal. */
#define GS_STR(literal) ((struct gs_str){(literal), sizeof(literal) - 1})

/** The same as an initialiser of a constant. */
#define GS_STR_INIT(literal)                                                                       \
    {                                                                                              \
        (literal), sizeof(literal) - 1                                                             \
    }

/** View of a C string; NULL gives an empty view. */
struct gs_str gs_str_of(const char *s);
/** View of a NUL-padded field of at most `cap` bytes that may lack the NUL. */
struct gs_str gs_str_of_field(const char *field, size_t cap);
bool gs_str_eq(struct gs_str a, struct gs_str b);
bool gs_str_eq_c(struct gs_str a, const char *b);
/** Order by bytes, a shorter view before one that it begins: below, equal to or above 0. */
int gs_str_cmp(struct gs_str a, struct gs_str b);
/** The same of two struct gs_str behind pointers, for qsort() and bsearch(). */
int gs_str_order(const void *a, const void *b);
/** Cut `prefix` off the front of `*s`; false and unchanged when it does not begin so. */
bool gs_str_skip(struct gs_str *s, struct gs_str prefix);
/** Cut the part of `*s` before the first `sep` (all of it where there is none) and the separator
 *  off the front. False when `*s` is empty. */
bool gs_str_cut(struct gs_str *s, char sep, struct gs_str *ret_part);
/** True when every byte is a graphic ASCII character and there is at least one. */
bool gs_str_is_word(struct gs_str s);
/** Copy into a NUL-padded field. Returns 0 or -ENAMETOOLONG (no room for the NUL; field untouched).
 */
int gs_str_to_field(struct gs_str s, char *field, size_t cap);

/** Copy to *at, where there is room for it and a NUL behind, and move *at there: for several texts
 *  in one block. Returns the copy. */
struct gs_str gs_str_keep(struct gs_str s, char **at);

/** Text under construction. Always NUL-terminated when cap > 0; what does not fit is cut and `cut`
 *  set. */
struct gs_str_out {
    char *p;
    size_t cap;
    size_t n; /**< bytes without the NUL */
    bool cut;
};

void gs_str_out_init(struct gs_str_out *out, char *buf, size_t cap);
void gs_str_put(struct gs_str_out *out, struct gs_str s);
void gs_str_put_c(struct gs_str_out *out, const char *s);
void gs_str_put_char(struct gs_str_out *out, char c);
void gs_str_put_u64(struct gs_str_out *out, uint64_t v);
/** Lower case, no prefix, no padding. */
void gs_str_put_hex(struct gs_str_out *out, uint64_t v);
