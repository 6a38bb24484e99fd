#pragma once
/* How a recorded trace begins ($GPUSLICE_TRACE; hook/trace.h). Whoever makes the file writes this;
 * every event that follows is a line that begins with a comma. */

#define GS_TRACE_HEAD                                                                              \
    "[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"tid\":0,"                              \
    "\"args\":{\"name\":\"gpuslice\"}}\n"
