/* In place of libFuzzer: runs a target on nothing, on each seed of a folder, and on their first
 * parts. usage: replay FOLDER; one that is not there has no seeds. */

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARTS 16u
#define MAX   (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* From a block of just its size, so that a sanitizer sees what is read behind it. */
static void try_part(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);

    if (copy == NULL)
        abort();
    if (size > 0)
        memcpy(copy, data, size);
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static int try_file(const char *folder, const char *name)
{
    static uint8_t data[MAX];
    char path[4096];
    size_t n;
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    f = fopen(path, "rb");
    if (f == NULL) {
        perror(path);
        return 1;
    }
    n = fread(data, 1, sizeof(data), f);
    (void)fclose(f);
    for (size_t i = 1; i <= PARTS; i++)
        try_part(data, n * i / PARTS);
    return 0;
}

int main(int argc, char **argv)
{
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    const struct dirent *entry;
    int bad = 0;

    if (folder == NULL && (argc != 2 || errno != ENOENT)) {
        perror(argc == 2 ? argv[1] : "usage: replay FOLDER");
        return 2;
    }
    try_part(NULL, 0);
    while (folder != NULL && (entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.')
            bad |= try_file(argv[1], entry->d_name);
    if (folder != NULL)
        (void)closedir(folder);
    return bad;
}
