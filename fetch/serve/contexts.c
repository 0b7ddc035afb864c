#include "fetch/serve/contexts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/maps.h"
#include "config/settings.h"
#include "fetch/list/filter.h"
#include "fetch/base/cleanup.h"
#include "fetch/base/log.h"

/* One store an endpoint+bucket+identity, so that jobs share requests, connections and refreshes. */
struct known_store {
    struct known_store *next;
    struct hr_store *store;
    bool requester_pays;
};

_Static_assert(HR_MAPS_MAX <= HR_CONTEXT_MAPS_MAX, "every map has its place");

struct hr_contexts {
    struct hr_control *control;
    struct hr_plan *plan;
    struct hr_stores *stores;
    const struct hr_settings *settings;
    struct known_store *known;
};

int hr_contexts_new(struct hr_control *control, struct hr_plan *plan, struct hr_stores *stores,
                    const struct hr_settings *settings, struct hr_contexts **ret)
{
    struct hr_contexts *contexts = calloc(1, sizeof *contexts);
    if (!contexts) {
        return -ENOMEM;
    }
    contexts->control = control;
    contexts->plan = plan;
    contexts->stores = stores;
    contexts->settings = settings;
    *ret = contexts;
    return 0;
}

void hr_contexts_free(struct hr_contexts *contexts)
{
    if (!contexts) {
        return;
    }
    while (contexts->known) {
        struct known_store *next = contexts->known->next;
        hr_store_unref(contexts->known->store);
        free(contexts->known);
        contexts->known = next;
    }
    free(contexts);
}

static const char *env_get(void *owner, const char *name)
{
    size_t len = strlen(name);
    for (char *const *var = owner; var && *var; var++) {
        if (strncmp(*var, name, len) == 0 && (*var)[len] == '=') {
            return *var + len + 1;
        }
    }
    return NULL;
}

/* Takes `fresh` over: returns the store to use (the known one with fresher credentials, or fresh itself). */
static struct hr_store *share_store(struct hr_contexts *contexts, struct hr_store *fresh, bool requester_pays,
                                    char *const *envp, bool *ret_is_new)
{
    *ret_is_new = false;
    for (struct known_store *known = contexts->known; known; known = known->next) {
        if (known->requester_pays == requester_pays && hr_store_same_key(known->store, fresh) &&
            strcmp(hr_store_endpoint(known->store), hr_store_endpoint(fresh)) == 0 &&
            strcmp(hr_store_bucket(known->store), hr_store_bucket(fresh)) == 0 &&
            strcmp(hr_store_identity(known->store), hr_store_identity(fresh)) == 0) {
            hr_store_unref(fresh);
            hr_store_refresh(known->store, env_get, (void *)(uintptr_t)envp);
            return known->store;
        }
    }
    struct known_store *known = calloc(1, sizeof *known);
    if (!known) {
        hr_store_unref(fresh);
        return NULL;
    }
    known->store = fresh;
    known->requester_pays = requester_pays;
    known->next = contexts->known;
    contexts->known = known;
    *ret_is_new = true;
    return fresh;
}

/* The newest known store again: no tree came of it. */
static void forget_newest(struct hr_contexts *contexts)
{
    struct known_store *known = contexts->known;
    contexts->known = known->next;
    hr_store_unref(known->store);
    free(known);
}

/* Told here, with the pattern; the plan only refuses. */
static int check_filter(const char *include, const char *exclude, const struct hr_map *map, char message[512])
{
    struct hr_filter *filter = NULL;
    char why[256] = "";
    int error = hr_filter_new(include, exclude, &filter, why);
    if (error < 0) {
        snprintf(message, 512, "map %.100s: %s", map->path, why);
    }
    hr_filter_free(filter);
    return error;
}

static enum hr_list_mode list_mode(const struct hr_settings *settings, const struct hr_map *map)
{
    switch (hr_settings_map_enum(settings, map, HR_SETTING_LIST)) {
    case HR_SETTING_LIST_ALL:
        return HR_LIST_ALL;
    case HR_SETTING_LIST_DIRS:
        return HR_LIST_DIRS;
    case HR_SETTING_LIST_NONE:
        return HR_LIST_NONE;
    default:
        return HR_LIST_AUTO;
    }
}

static int attach_map(struct hr_contexts *contexts, const struct hr_map *map,
                      const struct hr_settings *settings, char *const *envp, char message[512],
                      uint32_t *ret_tree)
{
    const char *endpoint = hr_settings_map_text(settings, map, HR_SETTING_ENDPOINT);
    const char *customer_key_file = hr_settings_map_text(settings, map, HR_SETTING_CUSTOMER_KEY_FILE);
    bool requester_pays = hr_settings_map_bool(settings, map, HR_SETTING_REQUESTER_PAYS);
    struct hr_store_options options = {
        .url = map->url,
        .endpoint = endpoint[0] ? endpoint : NULL,
        .requester_pays = requester_pays,
        .customer_key_file = customer_key_file,
        .env = env_get,
        .env_owner = (void *)(uintptr_t)envp,
    };
    const char *include = hr_settings_map_text(settings, map, HR_SETTING_INCLUDE);
    const char *exclude = hr_settings_map_text(settings, map, HR_SETTING_EXCLUDE);
    char why[256] = "";
    struct hr_store *store = NULL;
    int error = check_filter(include, exclude, map, message);
    if (error < 0) {
        return error;
    }
    error = hr_store_new(contexts->stores, &options, why, &store);
    if (error < 0) {
        snprintf(message, 512, "map %.100s: %s", map->path, why[0] ? why : strerror(-error));
        return error;
    }
    bool is_new = false;
    store = share_store(contexts, store, requester_pays, envp, &is_new);
    if (!store) {
        snprintf(message, 512, "out of memory");
        return -ENOMEM;
    }
    struct hr_tree_settings tree = {
        .prefetch = hr_settings_map_bool(settings, map, HR_SETTING_PREFETCH),
        .list = list_mode(settings, map),
        .follow = hr_settings_map_enum(settings, map, HR_SETTING_CHANGED) == HR_SETTING_CHANGED_FOLLOW,
        .list_file = hr_settings_map_enum(settings, map, HR_SETTING_LIST) == HR_SETTING_LIST_FILE
                         ? hr_settings_map_text(settings, map, HR_SETTING_LIST)
                         : NULL,
        .include = include,
        .exclude = exclude,
        .revalidate_s = hr_settings_map_seconds(settings, map, HR_SETTING_REVALIDATE),
    };
    error = hr_plan_tree(contexts->plan, store, map->prefix, map->prefix_len, &tree, ret_tree);
    if (error < 0) {
        snprintf(message, 512, "map %.100s: %s", map->path,
                 error == -ENOSPC
                     ? "the daemon serves as many prefixes as it can; `headrace stop` lets it start anew"
                     : strerror(-error));
        if (is_new) {
            forget_newest(contexts);
        }
    }
    return error;
}

static int find_context(struct hr_contexts *contexts, const uint8_t key[16], uint32_t *ret)
{
    struct hr_control *control = contexts->control;
    uint32_t count = atomic_load(&control->context_count);
    for (uint32_t i = 0; i < count; i++) {
        if (memcmp(control->contexts[i].key, key, 16) == 0) {
            *ret = i;
            return 0;
        }
    }
    if (count >= HR_CONTEXTS_MAX) {
        return -ENOSPC;
    }
    *ret = count;
    return 0;
}

static void publish_context(struct hr_contexts *contexts, uint32_t number, const uint8_t key[16],
                            const uint32_t *trees, unsigned count)
{
    struct hr_control *control = contexts->control;
    struct hr_context *context = &control->contexts[number];
    /* Re-attached: the same environment gives the same trees in the same order, so readers see no change. */
    memcpy(context->key, key, 16);
    context->map_count = count;
    memcpy(context->tree, trees, count * sizeof *trees);
    atomic_store_explicit(&context->ready, 1, memory_order_release);
    if (number == atomic_load(&control->context_count)) {
        atomic_store_explicit(&control->context_count, number + 1, memory_order_release);
    }
}

int hr_contexts_attach(struct hr_contexts *contexts, const uint8_t key[16], char *const *envp,
                       char ret_message[512], uint32_t *ret_context)
{
    uint32_t number;
    int error = find_context(contexts, key, &number); /* before anything is made for it */
    if (error < 0) {
        snprintf(ret_message, 512, "the daemon knows %u jobs already; `headrace stop` lets it start anew",
                 HR_CONTEXTS_MAX);
        return error;
    }
    hr_cleanup_free struct hr_maps *maps = malloc(sizeof *maps);
    if (!maps) {
        snprintf(ret_message, 512, "out of memory");
        return -ENOMEM;
    }
    struct hr_maps_error maps_error;
    /* As the preloaded object does it, so that the n-th map is the same for both. */
    (void)hr_maps_parse_lenient(env_get((void *)(uintptr_t)envp, "HEADRACE_MAP"), maps, &maps_error);
    struct hr_settings_sources sources = {.envp = envp, .no_file = true};
    struct hr_settings *settings = NULL;
    char why[HR_SETTINGS_MESSAGE_BYTES];
    error = hr_settings_load(&sources, why, &settings);
    if (error < 0) {
        snprintf(ret_message, 512, "%.500s", why);
        return error;
    }
    uint32_t trees[HR_CONTEXT_MAPS_MAX];
    for (unsigned i = 0; i < maps->count && error == 0; i++) {
        error = attach_map(contexts, &maps->map[i], settings, envp, ret_message, &trees[i]);
    }
    hr_settings_free(settings);
    if (error == 0) {
        publish_context(contexts, number, key, trees, maps->count);
        *ret_context = number;
    }
    return error;
}

void hr_contexts_compare(const struct hr_contexts *contexts, char *const *envp, char ret_warning[512])
{
    struct hr_settings_sources sources = {.envp = envp, .no_file = true};
    struct hr_settings *settings = NULL;
    char why[HR_SETTINGS_MESSAGE_BYTES];
    ret_warning[0] = '\0';
    if (hr_settings_load(&sources, why, &settings) < 0) {
        return;
    }
    for (int id = 0; id < HR_SETTING_COUNT; id++) {
        /* cache_dir chose this daemon; `required` is the job's own affair. */
        if (id == HR_SETTING_CACHE_DIR || id == HR_SETTING_REQUIRED || hr_setting_per_map(id) ||
            hr_settings_is_default(settings, id)) {
            continue;
        }
        const char *mine = hr_settings_text(contexts->settings, id);
        const char *asked = hr_settings_text(settings, id);
        size_t len = strlen(ret_warning);
        if (strcmp(mine, asked) != 0) {
            snprintf(ret_warning + len, 512 - len, "%s%s=%s (not %s)",
                     len ? ", " : "the daemon already runs, started by another job, with ",
                     hr_setting_name(id), mine, asked);
        }
    }
    hr_settings_free(settings);
}
