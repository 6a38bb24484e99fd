#pragma once
/* How a recorded trace begins ($GPUSLICE_TRACE; hook/trace.h) and ends. Whoever makes the file
 * writes the beginning; every event that follows is a line that begins with a comma; `gpuslice run`
 * writes the end. */

#define GS_TRACE_HEAD                                                                              \
    "[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"tid\":0,"                              \
    "\"args\":{\"name\":\"gpuslice\"}}\n"
#define GS_TRACE_TAIL "]\n"
