#include "vendors/nvidia/hook/launch_stream.h"

struct gs_launch_stream gs_launch_streams[GS_LAUNCH_STREAMS];
