#include "apps/gpuslice/options.h"

#ifndef GS_VERSION
#error "the build defines GS_VERSION"
#endif

static const struct gs_opt_command commands[] = {
#define GS_COMMAND(id, name, operands, min, max, stops, complete, brief, text)                     \
    {name, operands, brief, text, min, max, stops, complete},
#include "apps/gpuslice/options.def"
};

static const struct gs_opt options[] = {
#define GS_OPTION(command, id, letter, name, arg, complete, help)                                  \
    {GS_COMMAND_##command, letter, name, arg, complete, help},
#include "apps/gpuslice/options.def"
};

static const struct gs_opt_section sections[] = {
#define GS_SECTION(title, text) {title, text},
#include "apps/gpuslice/options.def"
};

const struct gs_opt_spec gs_options_spec = {
    .program = "gpuslice",
    .version = GS_VERSION,
    .brief = "share GPUs between programs: so much memory and compute for each, and no more",
    .commands = commands,
    .n_commands = GS_ARRAY_LEN(commands),
    .options = options,
    .n_options = GS_ARRAY_LEN(options),
    .sections = sections,
    .n_sections = GS_ARRAY_LEN(sections),
};
