/* By itself, so that what only reads the words does not bring the look-up interposers along. */
#include "hook/engine.h"

struct gs_engine_state gs_engine;
