#include "node/devnode.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

void gs_devnode_look(const struct gs_devnode_roots *roots, const char *path, bool is_needed,
                     struct gs_devnode *ret)
{
    char full[PATH_MAX];
    struct stat st;
    int n = snprintf(full, sizeof(full), "%s%s", roots->dev, path);

    *ret = (struct gs_devnode){.is_needed = is_needed};
    (void)snprintf(ret->path, sizeof(ret->path), "%s", path);
    ret->is_there = n > 0 && (size_t)n < sizeof(full) && stat(full, &st) == 0 &&
                    (S_ISCHR(st.st_mode) || (roots->dev[0] != '\0' && S_ISREG(st.st_mode)));
}
