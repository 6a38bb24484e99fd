#pragma once
/* Recording of streams into a graph. Guard of all captures: one lock in capture.c, taken after no
 * other but the graph lock. */

#include "vendors/nvidia/sim/stream_object.h"

/** Turn an operation on the recording stream `h` into a node behind what the stream recorded so
 * far. `params` as cuGraphAddNode takes them (alloc.dptr is an output); *ret_node may be NULL.
 *  Returns the error of adding the node. */
CUresult gs_capture_add(CUstream h, CUgraphNodeParams *params, CUgraphNode *ret_node);

/** Result of a call that a recording stream does not allow: the capture becomes invalid. */
CUresult gs_capture_refuse(struct gs_stream *s);

/** Event recorded in / waited for by a stream of which at least one side records. */
CUresult gs_capture_record(struct gs_stream *s, struct gs_event *e);
CUresult gs_capture_wait(struct gs_stream *s, struct gs_event *e);

/** The event no longer stands for a place in a capture. */
void gs_capture_forget_event(struct gs_event *e);
/** The stream is destroyed. */
void gs_capture_forget_stream(struct gs_stream *s);
