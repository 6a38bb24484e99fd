#pragma once
/* Attributes and scope-bound cleanup shared by every room. */

/** The caller must look at the result. */
#define GS_WUR __attribute__((warn_unused_result))
/** Visible outside a library that is otherwise built with hidden visibility. */
#define GS_EXPORT             __attribute__((visibility("default")))
#define GS_LIKELY(x)          __builtin_expect(!!(x), 1)
#define GS_UNLIKELY(x)        __builtin_expect(!!(x), 0)
#define GS_ARRAY_LEN(a)       (sizeof(a) / sizeof((a)[0]))
#define GS_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))

/** Call `fn(&var)` when `var` leaves scope; `fn` must accept a NULL or zeroed object. */
#define GS_CLEANUP(fn) __attribute__((cleanup(fn)))
/** Take the value out of an owning local and leave NULL behind. */
#define GS_STEAL(p)                                                                                \
    __extension__({                                                                                \
        __typeof__(p) stolen_ = (p);                                                               \
        (p) = NULL;                                                                                \
        stolen_;                                                                                   \
    })
