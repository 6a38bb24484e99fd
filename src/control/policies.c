#include "control/policies.h"

#include <ctype.h>
#include <cyaml/cyaml.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What is loaded of the file at a time: one section; the other keys are ignored. */
struct loaded {
    void *conf;
    unsigned n;
};

/** One reading of the file. */
struct reading {
    const struct gs_policies_conf *conf;
    struct gs_arena *arena;
    bool has_slip; /**< an unknown key was told of already */
};

static void on_slip(void *user, const char *what)
{
    struct reading *r = user;

    if (!r->has_slip)
        r->conf->unknown->tell(r->conf->unknown->user, what);
    r->has_slip = true;
}

static int load(struct reading *r, const struct cyaml_schema_value *schema, void **ret,
                struct gs_err *err)
{
    const struct gs_yaml_unknown unknown = {on_slip, r};

    return gs_yaml_load(r->conf->text, schema, r->conf->unknown != NULL ? &unknown : NULL, ret,
                        NULL, err);
}

/* A document with this section in it, or not; the other sections are passed over. A mapping is
 * behind a pointer either way. NULL: all are passed over. 0 or -ENOMEM. */
static int schema_of(const struct reading *r, const struct gs_policy_section *section,
                     const struct cyaml_schema_value *shape, cyaml_schema_value_t *ret)
{
    size_t n = r->conf->n_sections;
    cyaml_schema_field_t *field = GS_ARENA_ARRAY(r->arena, n + 1, cyaml_schema_field_t);

    if (field == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        field[i] =
            (cyaml_schema_field_t)CYAML_FIELD_IGNORE(r->conf->section[i]->key, CYAML_FLAG_OPTIONAL);
        if (r->conf->section[i] != section)
            continue;
        field[i] = (cyaml_schema_field_t){
            .key = section->key,
            .value = *shape,
            .data_offset = offsetof(struct loaded, conf),
            .count_offset = offsetof(struct loaded, n),
            .count_size = sizeof(unsigned),
        };
        field[i].value.flags |= CYAML_FLAG_OPTIONAL | CYAML_FLAG_POINTER_NULL;
    }
    field[n] = (cyaml_schema_field_t)CYAML_FIELD_END;
    *ret = (cyaml_schema_value_t){CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct loaded, field)};
    return 0;
}

/* Load one section in one of its shapes and make its policies. 1: it was there; 0: it is not. */
static int read_shape(struct reading *r, const struct gs_policy_section *section, bool is_older,
                      struct gs_policies *out, struct gs_err *err)
{
    const struct cyaml_schema_value *shape = is_older ? section->older : section->schema;
    cyaml_schema_value_t schema;
    struct loaded *loaded;
    struct gs_policy_list list;
    void *data;
    int rc = schema_of(r, section, shape, &schema);

    if (rc == 0)
        rc = load(r, &schema, &data, err);
    if (rc < 0)
        return rc;
    loaded = data;
    if (loaded == NULL)
        return 0; /* a document of nothing but blanks and comments */
    list = (struct gs_policy_list){loaded->conf, loaded->n};
    if (loaded->conf != NULL)
        rc = section->make(shape->type == CYAML_SEQUENCE ? (const void *)&list : loaded->conf,
                           is_older, r->arena, out, err);
    rc = rc < 0 ? rc : loaded->conf != NULL;
    gs_yaml_free(&schema, data, 0);
    return rc;
}

/* Letters and digits, and between them `more`. */
static bool is_part(struct gs_str s, size_t max, const char *more)
{
    if (s.n == 0 || s.n > max || !isalnum((unsigned char)s.p[0]) ||
        !isalnum((unsigned char)s.p[s.n - 1]))
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (!isalnum((unsigned char)s.p[i]) && (s.p[i] == '\0' || strchr(more, s.p[i]) == NULL))
            return false;
    return true;
}

/* Is what is wrong that the section as a whole is a list, not a mapping, or the other way round?
 * Then it is of the older shape, and what is wrong in that is to be told. */
static bool is_of_other_shape(const struct gs_policy_section *section, const struct gs_err *err)
{
    char words[128];

    (void)snprintf(words, sizeof(words), "_START in mapping field '%s'", section->key);
    return section->older->type != section->schema->type && strstr(err->text, words) != NULL;
}

/* Could a pod ask by that name? The API server takes DOMAIN/NAME alone. Source: Kubernetes 1.36,
 * pkg/apis/core/validation, validateContainerResourceName. Empty: there is none. */
static bool is_askable(struct gs_str name)
{
    struct gs_str rest = name, domain;

    if (name.n == 0)
        return true;
    if (memchr(name.p, '/', name.n) == NULL || !gs_str_cut(&rest, '/', &domain))
        return false;
    return is_part(domain, 253, "-.") && is_part(rest, 63, "-_.");
}

static int check_names(const struct gs_policies *all, size_t from, struct gs_err *err)
{
    for (size_t i = from; i < all->n; i++) {
        const struct gs_names *n = &all->at[i]->names;
        const struct gs_str name[] = {n->count,    n->mem,    n->mem_pct, n->core,
                                      n->priority, n->count2, n->mem2,    n->core2};

        for (size_t k = 0; k < GS_ARRAY_LEN(name); k++)
            if (!is_askable(name[k]))
                return gs_err_set(err, -EINVAL,
                                  "'%.*s' is no name that a pod could ask by: "
                                  "DOMAIN/NAME",
                                  (int)(name[k].n < 100 ? name[k].n : 100), name[k].p);
    }
    return 0;
}

static int read_section(struct reading *r, const struct gs_policy_section *section,
                        struct gs_policies *out, struct gs_err *err)
{
    struct gs_err first = {0}, second = {0};
    size_t before = out->n;
    int rc;

    if (r->conf->text.p == NULL) {
        rc = section->make(NULL, false, r->arena, out, err);
        return rc < 0 ? rc : 1;
    }
    rc = read_shape(r, section, false, out, &first);
    if (rc == -EINVAL && section->older != NULL && is_of_other_shape(section, &first)) {
        rc = read_shape(r, section, true, out, &second);
        first = second;
    }
    if (rc > 0 && check_names(out, before, &first) < 0)
        rc = -EINVAL;
    if (rc < 0)
        return gs_err_set(err, rc, "%s: %s", section->key, first.text);
    return rc;
}

static bool is_enabled(const struct gs_policies_conf *conf, const struct gs_policy_section *section)
{
    if (section->opt_in == NULL)
        return true;
    for (size_t i = 0; conf->enabled != NULL && conf->enabled[i] != NULL; i++)
        if (strcmp(conf->enabled[i], section->opt_in) == 0)
            return true;
    return false;
}

/* Sections that nobody reads: a slip of the pen, or a vendor that is new to us. */
static int tell_unknown(struct reading *r, struct gs_err *err)
{
    cyaml_schema_value_t schema;
    void *data;
    int rc = schema_of(r, NULL, NULL, &schema);

    if (rc == 0)
        rc = load(r, &schema, &data, err);
    if (rc == 0)
        gs_yaml_free(&schema, data, 0);
    return rc;
}

int gs_policies_read(const struct gs_policies_conf *conf, struct gs_arena *arena,
                     struct gs_policies *ret, struct gs_err *err)
{
    struct gs_policies all = {0};
    struct reading r = {.conf = conf, .arena = arena};
    size_t found = 0;
    int rc = conf->text.p != NULL ? tell_unknown(&r, err) : 0;

    for (size_t i = 0; rc >= 0 && i < conf->n_sections; i++) {
        struct gs_policies skipped = {0};
        bool is_on = is_enabled(conf, conf->section[i]);

        rc = read_section(&r, conf->section[i], is_on ? &all : &skipped, err);
        found += rc > 0;
    }
    if (rc < 0)
        return rc;
    if (found == 0)
        return gs_err_set(err, -EINVAL, "all configurations are empty");
    *ret = all;
    return 0;
}
