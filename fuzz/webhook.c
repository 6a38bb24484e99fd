/* Admission reviews of any content: the answer is a review, and a pod that asks for nothing of ours
 * is let through. The first byte chooses the configuration. */

#include <stdint.h>
#include <string.h>

#include <yyjson.h>

#include "cluster.h"
#include "control/admit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct gs_admit_reply *reply)
{
    yyjson_doc *doc = yyjson_read(reply->json, reply->n, YYJSON_READ_ALLOW_INVALID_UNICODE);
    yyjson_val *response = yyjson_obj_get(yyjson_doc_get_root(doc), "response");
    yyjson_val *allowed = yyjson_obj_get(response, "allowed");

    if (!yyjson_is_bool(allowed))
        abort();
    if (reply->outcome <= GS_ADMIT_OURS && !yyjson_get_bool(allowed))
        abort();
    if (reply->outcome > GS_ADMIT_OURS && yyjson_get_bool(allowed))
        abort();
    yyjson_doc_free(doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gs_books *books = fuzz_books();
    struct gs_arena arena = {0};
    uint8_t how = size > 0 ? data[0] : 0;
    const struct gs_admit_conf conf = {.scheduler_name = how & 1 ? GS_STR("gpuslice") : GS_STR(""),
                                       .overwrites_default = how & 2};
    const struct gs_str body = {(const char *)data + (size > 0), size - (size > 0)};
    struct gs_admit_reply reply;

    fuzz_need(gs_admit(&conf, books, body, &arena, &reply));
    check(&reply);
    free(reply.json);
    gs_arena_fini(&arena);
    return 0;
}
