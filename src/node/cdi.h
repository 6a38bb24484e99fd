#pragma once
/* One CDI device for each slot: a name that Allocate promises, and the spec behind it that
 * PreStartContainer writes when it knows whose slot it is.
 *
 * A name is never used twice: runtimes cache the folder, and a spec that was changed in place is
 * served stale, while a name that they do not know makes them look again.
 * Source  Container Device Interface specification 0.5.0. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "core/str.h"

struct gs_buf;
struct gs_edits;
struct gs_err;

#define GS_CDI_KIND "gpuslice.io/slot"
/** Room for a name and its NUL. */
#define GS_CDI_NAME 160

/** "slot-<id>-<nonce>". What a name may not hold becomes '-'; a long id is cut. */
void gs_cdi_make_name(struct gs_str id, uint64_t nonce, char ret[GS_CDI_NAME]);
/** Of "gpuslice.io/slot=NAME", the name, where it is one that gs_cdi_make_name() could have made;
 *  else empty. For text from outside: the name becomes part of a file's. */
struct gs_str gs_cdi_name_of(struct gs_str qualified);

/** The spec's text. 0; -ENOMEM; -EILSEQ something is no UTF-8. */
GS_WUR int gs_cdi_text(const char *name, const struct gs_edits *edits, struct gs_buf *buf);

/** Folder of the specs, made where it is missing (0755). Descriptor, or what mkdir or open said. */
GS_WUR int gs_cdi_open(const char *path, struct gs_err *err);
/** Write a spec: nothing else of that name is there before or after. 0 or negative errno. */
GS_WUR int gs_cdi_write(int dirfd, const char *name, const struct gs_edits *edits,
                        struct gs_err *err);
bool gs_cdi_is_there(int dirfd, const char *name);
/** 0, also where it is gone already. */
int gs_cdi_remove(int dirfd, const char *name);
/** Remove the specs of ours that nobody keeps: `keeps(arg, name)`. Returns how many went, or
 *  negative errno where the folder cannot be read. */
int gs_cdi_sweep(int dirfd, bool (*keeps)(void *arg, struct gs_str name), void *arg);
