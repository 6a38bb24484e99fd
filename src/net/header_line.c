#include "net/header_line.h"

#include <errno.h>

bool gs_header_line_has_control(const char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return true;
    }
    return false;
}

int gs_header_line_add(struct curl_slist **list, const char *line)
{
    struct curl_slist *more = curl_slist_append(*list, line);

    if (!more)
        return -ENOMEM;
    *list = more;
    return 0;
}
