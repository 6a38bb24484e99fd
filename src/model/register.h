#pragma once
/* Register annotations of nodes: devices as text (7 or 9 fields) or as JSON, told apart by the
 * first byte, for every vendor. A value without a colon and of exactly 7 or 9 fields is one device.
 */

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "core/cleanup.h"
#include "model/device.h"

struct yyjson_val;

/** Called for each JSON element, after its common members were read, for what a vendor has of its
 *  own (migProfiles, custominfo). 0, or negative with err: the whole annotation is refused. */
typedef int (*gs_register_more)(void *user, struct yyjson_val *element, struct gs_arena *arena,
                                struct gs_device *dev, struct gs_err *err);

/** The vendor's part of reading; NULL in place of it: none. */
struct gs_register_own {
    gs_register_more more; /**< NULL: none */
    void *user;
};

#define GS_REGISTER_DEVICES_MAX 4096
#define GS_REGISTER_ID_MAX      95 /**< regions and quotas, HAMi's and ours, keep an id in 96 bytes */
#define GS_REGISTER_WORD_MAX    253 /**< of a type or a mode */
#define GS_REGISTER_BYTES_MAX   (1u << 20)

/** Could grants name these devices? Their ids are at most GS_REGISTER_ID_MAX bytes and hold none of
 *  ",:;" or NUL, types and modes are no longer than GS_REGISTER_WORD_MAX. A device without an id,
 * or with less than nothing of anything, is made unhealthy. 0 or -EINVAL. */
GS_WUR int gs_register_check(struct gs_device *dev, size_t n, struct gs_err *err);

/** Read an annotation; as gs_register_check() has it. An id may be there twice
 *  (gs_device.is_claimed_twice, by gs_node_read()). Text is copied into the arena. Keys of JSON
 * match in any case, unknown ones are ignored, all are optional; numbers outside int32 and negative
 * indexes are refused.
 *  Returns  0 (n may be 0); -EINVAL with HAMi's text in err where HAMi has one; -E2BIG; -ENOMEM. */
GS_WUR int gs_register_read(struct gs_str text, const struct gs_register_own *own,
                            struct gs_arena *arena, struct gs_device **ret_dev, size_t *ret_n,
                            struct gs_err *err);
/** JSON as HAMi v2.8+ writes it: zero values left out, keys in its order. `more` may be NULL. */
void gs_register_write_json(const struct gs_device *dev, size_t n,
                            void (*more)(const struct gs_device *dev, struct gs_buf *buf),
                            struct gs_buf *buf);
/** Nine fields each. */
void gs_register_write_text(const struct gs_device *dev, size_t n, struct gs_buf *buf);
