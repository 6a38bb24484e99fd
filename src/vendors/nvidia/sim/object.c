#include "vendors/nvidia/sim/object.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gs_object *free_list[GS_OBJECT_KIND_COUNT];

void *gs_object_new(enum gs_object_kind kind, size_t size)
{
    pthread_mutex_lock(&lock);
    struct gs_object *o = free_list[kind];
    if (o)
        free_list[kind] = o->next_free;
    pthread_mutex_unlock(&lock);
    if (o)
        memset(o, 0, size);
    else
        o = calloc(1, size);
    if (o)
        o->kind = (uint64_t)kind ^ GS_OBJECT_SALT;
    return o;
}

void gs_object_free(void *object)
{
    if (!object)
        return;
    struct gs_object *o = object;
    enum gs_object_kind kind = (enum gs_object_kind)(o->kind ^ GS_OBJECT_SALT);
    o->kind = GS_OBJECT_DEAD;
    if (kind <= GS_OBJECT_DEAD || kind >= GS_OBJECT_KIND_COUNT)
        return;
    pthread_mutex_lock(&lock);
    o->next_free = free_list[kind];
    free_list[kind] = o;
    pthread_mutex_unlock(&lock);
}
