#pragma once
/* The option table of gpuslice as C names. */

#include "base/opt.h"

enum gs_options_command {
#define GS_COMMAND(id, name, operands, min, max, stops, complete, brief, text) GS_COMMAND_##id,
#include "apps/gpuslice/options.def"
    GS_COMMAND_COUNT,
    GS_COMMAND_ANY = GS_OPT_ANY,
};

enum gs_options_option {
#define GS_OPTION(command, id, letter, name, arg, complete, help) GS_OPTION_##id,
#include "apps/gpuslice/options.def"
    GS_OPTION_COUNT,
};

extern const struct gs_opt_spec gs_options_spec;
