#include "node/publish.h"

#include <stdlib.h>

void gs_published_fini(struct gs_published *published)
{
    if (published == NULL)
        return;
    gs_buf_fini(&published->registered);
    gs_buf_fini(&published->scores);
    free(published->offer);
    *published = (struct gs_published){0};
}
