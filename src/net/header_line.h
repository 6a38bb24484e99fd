#pragma once
/* Lines of a request's header, as libcurl takes them. Inside the room only. */

#include <curl/curl.h>
#include <stdbool.h>

#include "core/cleanup.h"

/** Has the text a control character? Such would end the line it is part of. */
bool gs_header_line_has_control(const char *text);
/** Append a copy. 0 or -ENOMEM (the list is as it was). */
GS_WUR int gs_header_line_add(struct curl_slist **list, const char *line);
