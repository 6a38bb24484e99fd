/* By itself, so that what only reads the words does not bring the look-up interposers along. */
#include "hook/engine.h"

struct gs_engine_state gs_engine;
_Thread_local uint32_t gs_engine_depth;
_Thread_local uintptr_t gs_engine_frame;
