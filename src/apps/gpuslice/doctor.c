#include "apps/gpuslice/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/file.h"

#define FILE_MAX (1u << 20)

static const char *const word[GS_DOCTOR_STATES] = {
    [GS_DOCTOR_FINE] = "ok",
    [GS_DOCTOR_NOTE] = "note",
    [GS_DOCTOR_WARNING] = "warning",
    [GS_DOCTOR_BROKEN] = "broken",
};

void gs_doctor_fini(struct gs_doctor *doctor)
{
    if (doctor == NULL)
        return;
    free(doctor->finding);
    free(doctor->change);
    gs_inventory_fini(&doctor->inv);
    gs_buf_fini(&doctor->registered);
    gs_buf_fini(&doctor->scores);
}

/* Names come from drivers and files: what could drive a terminal or spoil a document becomes '?'.
 */
static void clean(char *text)
{
    for (char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || (unsigned char)*c > 0x7e)
            *c = '?';
}

void gs_doctor_find(struct gs_doctor *doctor, const char *check, enum gs_doctor_state state,
                    const char *fix, const char *fmt, ...)
{
    struct gs_doctor_finding *p =
        realloc(doctor->finding, (doctor->n_findings + 1) * sizeof(doctor->finding[0]));
    va_list ap;

    if (p == NULL) {
        doctor->failed = true;
        return;
    }
    doctor->finding = p;
    p += doctor->n_findings++;
    *p = (struct gs_doctor_finding){.state = state, .check = check};
    va_start(ap, fmt);
    (void)vsnprintf(p->text, sizeof(p->text), fmt, ap); /* a sentence that long is cut */
    va_end(ap);
    (void)snprintf(p->fix, sizeof(p->fix), "%s", fix);
    clean(p->text);
    clean(p->fix);
}

void gs_doctor_changed(struct gs_doctor *doctor, double after_s, const char *text)
{
    struct gs_doctor_change *p =
        realloc(doctor->change, (doctor->n_changes + 1) * sizeof(doctor->change[0]));

    if (p == NULL) {
        doctor->failed = true;
        return;
    }
    doctor->change = p;
    p += doctor->n_changes++;
    *p = (struct gs_doctor_change){.after_s = after_s};
    (void)snprintf(p->text, sizeof(p->text), "%s", text);
    clean(p->text);
    if (doctor->on_change != NULL)
        doctor->on_change(p);
}

enum gs_doctor_state gs_doctor_worst(const struct gs_doctor *doctor)
{
    enum gs_doctor_state worst = GS_DOCTOR_FINE;

    for (size_t i = 0; i < doctor->n_findings; i++)
        if (doctor->finding[i].state > worst)
            worst = doctor->finding[i].state;
    return worst;
}

void gs_doctor_text(const struct gs_doctor *doctor, struct gs_buf *buf)
{
    size_t n[GS_DOCTOR_STATES] = {0};

    for (size_t i = 0; i < doctor->n_findings; i++) {
        const struct gs_doctor_finding *f = &doctor->finding[i];

        n[f->state]++;
        gs_buf_addf(buf, "%-8s %-12s %s\n", word[f->state], f->check, f->text);
        if (f->fix[0] != '\0')
            gs_buf_addf(buf, "%-21s   -> %s\n", "", f->fix);
    }
    gs_buf_addf(buf, "%zu broken, %zu warnings, %zu notes, %zu ok\n", n[GS_DOCTOR_BROKEN],
                n[GS_DOCTOR_WARNING], n[GS_DOCTOR_NOTE], n[GS_DOCTOR_FINE]);
}

/* --- JSON --- */

static bool add_text(yyjson_mut_doc *doc, yyjson_mut_val *obj, const char *key, const char *text)
{
    char copy[512];

    (void)snprintf(copy, sizeof(copy), "%s", text);
    clean(copy);
    return yyjson_mut_obj_add_strcpy(doc, obj, key, copy);
}

static bool add_findings(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct gs_doctor *doctor)
{
    yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, root, "findings");
    bool ok = list != NULL;

    for (size_t i = 0; ok && i < doctor->n_findings; i++) {
        const struct gs_doctor_finding *f = &doctor->finding[i];
        yyjson_mut_val *obj = yyjson_mut_arr_add_obj(doc, list);

        ok = obj != NULL && yyjson_mut_obj_add_str(doc, obj, "check", f->check) &&
             yyjson_mut_obj_add_str(doc, obj, "state", word[f->state]) &&
             add_text(doc, obj, "text", f->text) &&
             (f->fix[0] != '\0' ? add_text(doc, obj, "fix", f->fix)
                                : yyjson_mut_obj_add_null(doc, obj, "fix"));
    }
    return ok;
}

static bool add_changes(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct gs_doctor *doctor)
{
    yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, root, "changes");
    bool ok = list != NULL;

    for (size_t i = 0; ok && i < doctor->n_changes; i++) {
        yyjson_mut_val *obj = yyjson_mut_arr_add_obj(doc, list);

        ok = obj != NULL &&
             yyjson_mut_obj_add_real(doc, obj, "after_s", doctor->change[i].after_s) &&
             add_text(doc, obj, "text", doctor->change[i].text);
    }
    return ok;
}

static bool add_parts(yyjson_mut_doc *doc, yyjson_mut_val *obj, const struct gs_doctor *doctor,
                      size_t card)
{
    const struct gs_inventory_card *c = &doctor->inv.card[card];
    yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, obj, "parts");
    bool ok = list != NULL;

    for (size_t k = 0; ok && k < c->n_parts; k++) {
        yyjson_mut_val *part = yyjson_mut_arr_add_obj(doc, list);

        ok = part != NULL && add_text(doc, part, "uuid", c->part[k].uuid) &&
             add_text(doc, part, "profile", c->part[k].profile) &&
             yyjson_mut_obj_add_uint(doc, part, "memory_bytes", c->part[k].mem_bytes) &&
             yyjson_mut_obj_add_str(doc, part, "health",
                                    gs_health_word(gs_health_why(&doctor->health, card, (int)k)));
    }
    return ok;
}

static bool add_links(yyjson_mut_doc *doc, yyjson_mut_val *obj, const struct gs_inventory *inv,
                      size_t card)
{
    yyjson_mut_val *links = yyjson_mut_obj_add_obj(doc, obj, "links");
    bool ok = links != NULL;

    for (size_t k = 0; ok && inv->link != NULL && k < inv->n; k++) {
        yyjson_mut_val *key;

        if (k == card)
            continue;
        key = yyjson_mut_strcpy(doc, inv->card[k].uuid);
        ok = key != NULL &&
             yyjson_mut_obj_add(
                 links, key,
                 yyjson_mut_sint(doc, gs_inventory_score(inv->link[card * inv->n + k],
                                                         inv->link[k * inv->n + card], NULL)));
    }
    return ok;
}

static bool add_cards(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct gs_doctor *doctor)
{
    const struct gs_inventory *inv = &doctor->inv;
    yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, root, "cards");
    bool ok = list != NULL;

    for (size_t i = 0; ok && i < inv->n; i++) {
        const struct gs_inventory_card *c = &inv->card[i];
        yyjson_mut_val *obj = yyjson_mut_arr_add_obj(doc, list);
        const struct gs_health_unit *unit = gs_health_find(&doctor->health, i, -1);

        ok = obj != NULL && add_text(doc, obj, "uuid", c->uuid) &&
             yyjson_mut_obj_add_uint(doc, obj, "index", c->index) &&
             add_text(doc, obj, "name", c->name) && add_text(doc, obj, "pci", c->pci) &&
             yyjson_mut_obj_add_int(doc, obj, "numa", c->numa) &&
             yyjson_mut_obj_add_uint(doc, obj, "memory_bytes", c->memory) &&
             yyjson_mut_obj_add_str(doc, obj, "health",
                                    gs_health_word(gs_health_why(&doctor->health, i, -1))) &&
             yyjson_mut_obj_add_uint(doc, obj, "errors", unit != NULL ? unit->errors : 0) &&
             yyjson_mut_obj_add_bool(doc, obj, "split", c->is_split) &&
             add_parts(doc, obj, doctor, i) && add_links(doc, obj, inv, i);
    }
    return ok;
}

static bool add_annotation(yyjson_mut_doc *doc, yyjson_mut_val *root, const char *key,
                           const struct gs_buf *text)
{
    return text->n > 0 ? yyjson_mut_obj_add_strncpy(doc, root, key, text->p, text->n)
                       : yyjson_mut_obj_add_null(doc, root, key);
}

int gs_doctor_json(const struct gs_doctor *doctor, struct gs_buf *buf)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = doc != NULL ? yyjson_mut_obj(doc) : NULL;
    char *text = NULL;
    size_t n = 0;

    if (root != NULL && yyjson_mut_obj_add_int(doc, root, "version", 1) &&
        yyjson_mut_obj_add_str(doc, root, "worst", word[gs_doctor_worst(doctor)]) &&
        add_text(doc, root, "driver", doctor->inv.driver) &&
        add_text(doc, root, "runtime", doctor->inv.runtime) && add_findings(doc, root, doctor) &&
        add_cards(doc, root, doctor) && add_changes(doc, root, doctor) &&
        add_annotation(doc, root, "register", &doctor->registered) &&
        add_annotation(doc, root, "scores", &doctor->scores)) {
        yyjson_mut_doc_set_root(doc, root);
        text = yyjson_mut_write(doc, 0, &n);
    }
    yyjson_mut_doc_free(doc);
    if (text == NULL)
        return -ENOMEM;
    gs_buf_add(buf, text, n);
    gs_buf_adds(buf, "\n");
    free(text);
    return gs_buf_check(buf);
}

/* --- files --- */

const char *gs_doctor_path(const struct gs_doctor *doctor, const char *path,
                           char ret[GS_DOCTOR_PATH])
{
    (void)snprintf(ret, GS_DOCTOR_PATH, "%s%s", doctor->root, path);
    return ret;
}

bool gs_doctor_read(const struct gs_doctor *doctor, const char *path, struct gs_buf *ret)
{
    char full[GS_DOCTOR_PATH];

    return gs_file_read(AT_FDCWD, gs_doctor_path(doctor, path, full), FILE_MAX, ret) == 0;
}
