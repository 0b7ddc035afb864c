/* Which store this is: bucket, endpoint, addressing, region, credentials; and what is learned of it on the
 * way. */
#include "fetch/store/internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"
#include "fetch/base/clock.h"

#define RELOAD_EVERY_MS 1000 /* 256 calls may learn at once that a token expired: the files are read once */
#define DEFAULT_REGION "us-east-1"

static int say(char ret_message[256], int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int say(char ret_message[256], int error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(ret_message, 256, format, args);
    va_end(args);
    return error;
}

static const char *set_or_null(const char *value)
{
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static int take_bucket(struct hr_store *store, const char *url, char ret_message[256])
{
    const char *scheme_end = strstr(url, "://");

    if (scheme_end == NULL || strncmp(url, "s3://", 5) != 0) {
        return say(ret_message, -EINVAL, "%.100s: unknown scheme; this version knows s3://BUCKET/PREFIX",
                   url);
    }
    const char *bucket = url + 5;
    size_t len = strcspn(bucket, "/?#");
    if (len == 0) {
        return say(ret_message, -EINVAL, "%.100s: the bucket is missing; write s3://BUCKET/PREFIX", url);
    }
    if (!hr_bucket_valid(bucket, len)) {
        return say(ret_message, -EINVAL, "%.100s: not a bucket name (letters, digits, '.', '-', '_')", url);
    }
    store->bucket = strndup(bucket, len);
    return store->bucket != NULL ? 0 : say(ret_message, -ENOMEM, "out of memory");
}

static int take_region(struct hr_store *store, const struct hr_store_options *options, char ret_message[256])
{
    const char *region = set_or_null(options->env(options->env_owner, "AWS_REGION"));

    if (region == NULL) {
        region = set_or_null(options->env(options->env_owner, "AWS_DEFAULT_REGION"));
    }
    if (region == NULL) {
        region = set_or_null(hr_chain_profile(store->chain)->region);
    }
    if (region == NULL) {
        region = DEFAULT_REGION;
    }
    if (!hr_region_valid(region)) {
        return say(ret_message, -EINVAL, "region %.60s is not a region's name (AWS_REGION, profile)", region);
    }
    (void)snprintf(store->region, sizeof(store->region), "%s", region);
    return 0;
}

static const char *configured_endpoint(const struct hr_store *store, const struct hr_store_options *options,
                                       const char **ret_from)
{
    const struct hr_profile *profile = hr_chain_profile(store->chain);
    const char *ignore = options->env(options->env_owner, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
    const struct {
        const char *from, *value;
    } places[] = {
        {"AWS_ENDPOINT_URL_S3", options->env(options->env_owner, "AWS_ENDPOINT_URL_S3")},
        {"AWS_ENDPOINT_URL", options->env(options->env_owner, "AWS_ENDPOINT_URL")},
        {"endpoint_url of the profile's s3", profile->s3_endpoint_url},
        {"endpoint_url of the profile", profile->endpoint_url},
    };

    *ret_from = "endpoint=";
    if (set_or_null(options->endpoint) != NULL) {
        return options->endpoint;
    }
    if (ignore != NULL && strcmp(ignore, "true") == 0) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (set_or_null(places[i].value) != NULL) {
            *ret_from = places[i].from;
            return places[i].value;
        }
    }
    return NULL;
}

static int take_endpoint(struct hr_store *store, const struct hr_store_options *options,
                         char ret_message[256])
{
    const char *from = "";
    const char *why = "";
    const char *url = configured_endpoint(store, options, &from);
    const char *style = set_or_null(hr_chain_profile(store->chain)->addressing_style);

    if (url == NULL) {
        (void)hr_endpoint_aws(store->region, &store->endpoint); /* the region was checked before */
    } else if (hr_endpoint_parse(url, &store->endpoint, &why) < 0) {
        return say(ret_message, -EINVAL, "%s %.100s: %s", from, url, why);
    }
    store->aws = hr_endpoint_is_aws(&store->endpoint);
    hr_endpoint_print(&store->endpoint, store->endpoint_text);
    store->quirk = hr_quirk_by_host(store->endpoint.host);
    bool wants_host = store->aws || strstr(store->endpoint.host, ".amazonaws.com") != NULL;
    if (style != NULL && strcmp(style, "auto") != 0) {
        if (strcmp(style, "path") != 0 && strcmp(style, "virtual") != 0) {
            return say(ret_message, -EINVAL, "addressing_style %.40s of the profile: path, virtual or auto",
                       style);
        }
        wants_host = strcmp(style, "virtual") == 0;
    }
    store->path_style = !wants_host || !hr_bucket_is_host(store->bucket);
    return 0;
}

/* Not over the network in clear; S3 itself refuses such a request, but then the key has been sent. */
static int take_customer_key(struct hr_store *store, const struct hr_store_options *options,
                             char ret_message[256])
{
    const char *path = set_or_null(options->customer_key_file);

    if (path == NULL) {
        return 0;
    }
    if (!hr_endpoint_is_private(&store->endpoint)) {
        return say(ret_message, -EINVAL, "customer_key_file: a key is only sent over https, not to %.100s",
                   store->endpoint_text);
    }
    return hr_customer_key_read(path, &store->customer_key, ret_message);
}

static int take_ca_bundle(struct hr_store *store, const struct hr_store_options *options,
                          char ret_message[256])
{
    const char *path = set_or_null(options->env(options->env_owner, "AWS_CA_BUNDLE"));

    if (path == NULL) {
        path = set_or_null(hr_chain_profile(store->chain)->ca_bundle);
    }
    if (path == NULL || !store->endpoint.https) {
        return 0;
    }
    if (path[0] != '/' || access(path, R_OK) < 0) {
        return say(ret_message, -EINVAL, "AWS_CA_BUNDLE %.150s: give the absolute path of a readable file",
                   path);
    }
    store->ca_bundle = strdup(path);
    return store->ca_bundle != NULL ? 0 : say(ret_message, -ENOMEM, "out of memory");
}

static int take_state(struct hr_store *store, char ret_message[256])
{
    struct hr_stores *stores = store->stores;

    for (struct hr_endpoint_state *state = stores->endpoints; state != NULL; state = state->next) {
        if (strcmp(state->name, store->endpoint_text) == 0) {
            state->refs++;
            store->state = state;
            return 0;
        }
    }
    struct hr_endpoint_state *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return say(ret_message, -ENOMEM, "out of memory");
    }
    made->refs = 1;
    memcpy(made->name, store->endpoint_text, sizeof(made->name));
    hr_retry_budget_init(&made->budget);
    hr_width_init(&made->width, stores->connections);
    made->next = stores->endpoints;
    stores->endpoints = made;
    store->state = made;
    return 0;
}

static void drop_state(struct hr_store *store)
{
    struct hr_endpoint_state *state = store->state;

    if (state == NULL || --state->refs > 0) {
        return;
    }
    struct hr_endpoint_state **link = &store->stores->endpoints;
    while (*link != state) {
        link = &(*link)->next;
    }
    *link = state->next;
    free(state);
}

/* Where the chain only knows the way, one keeper goes it for all stores of that way. */
static int take_keeper(struct hr_store *store, struct hr_chain *chain, char ret_message[256])
{
    struct hr_keeper *keeper = NULL;

    if (hr_chain_way(chain) == NULL) {
        return 0;
    }
    if (store->stores->keepers == NULL) {
        return say(ret_message, -ECANCELED, "stopping");
    }
    if (hr_keeper_get(store->stores->keepers, chain, &keeper) < 0) {
        return say(ret_message, -ENOMEM, "out of memory");
    }
    hr_keeper_unref(store->keeper);
    store->keeper = keeper;
    return 0;
}

int hr_store_new(struct hr_stores *stores, const struct hr_store_options *options, char ret_message[256],
                 struct hr_store **ret)
{
    struct hr_store *store = calloc(1, sizeof(*store));
    int r;

    if (store == NULL) {
        return say(ret_message, -ENOMEM, "out of memory");
    }
    store->refs = 1;
    store->stores = stores;
    stores->refs++;
    store->requester_pays = options->requester_pays;
    ret_message[0] = '\0';
    r = take_bucket(store, options->url, ret_message);
    if (r == 0) {
        r = hr_chain_new(options->env, options->env_owner, ret_message, &store->chain);
    }
    if (r == 0) {
        r = take_region(store, options, ret_message);
    }
    if (r == 0) {
        r = take_endpoint(store, options, ret_message);
    }
    if (r == 0) {
        r = take_ca_bundle(store, options, ret_message);
    }
    if (r == 0) {
        r = take_customer_key(store, options, ret_message);
    }
    if (r == 0) {
        r = take_state(store, ret_message);
    }
    if (r == 0) {
        r = take_keeper(store, store->chain, ret_message);
    }
    if (r == 0) {
        store->identity = hr_chain_identity(store->chain);
        r = store->identity != NULL ? hr_sigv4_signer_new(&store->signer) : -ENOMEM;
        if (r < 0) {
            (void)say(ret_message, r, "out of memory");
        }
    }
    if (r < 0) {
        hr_store_unref(store);
        return r;
    }
    *ret = store;
    return 0;
}

void hr_store_ref(struct hr_store *store)
{
    store->refs++;
}

void hr_store_unref(struct hr_store *store)
{
    if (store == NULL || --store->refs > 0) {
        return;
    }
    drop_state(store);
    hr_keeper_unref(store->keeper);
    hr_chain_free(store->chain);
    hr_sigv4_signer_free(store->signer);
    free(store->bucket);
    free(store->base);
    free(store->identity);
    free(store->ca_bundle);
    hr_customer_key_wipe(&store->customer_key);
    hr_stores_unref(store->stores);
    free(store);
}

const struct hr_width *hr_store_width(const struct hr_store *store)
{
    return &store->state->width;
}

const char *hr_store_endpoint(const struct hr_store *store)
{
    return store->endpoint_text;
}

const char *hr_store_bucket(const struct hr_store *store)
{
    return store->bucket;
}

const char *hr_store_identity(const struct hr_store *store)
{
    return store->identity;
}

bool hr_store_same_key(const struct hr_store *a, const struct hr_store *b)
{
    return hr_customer_key_equal(&a->customer_key, &b->customer_key);
}

const struct hr_credentials *hr_store_credentials(const struct hr_store *store)
{
    return store->keeper != NULL ? hr_keeper_credentials(store->keeper) : hr_chain_credentials(store->chain);
}

unsigned hr_store_generation(const struct hr_store *store)
{
    return store->generation + (store->keeper != NULL ? hr_keeper_generation(store->keeper) : 0);
}

static void credentials_changed(struct hr_store *store)
{
    store->generation++;
    store->proven = false;
    store->refused_until_ms = 0;
}

void hr_store_refresh(struct hr_store *store, hr_env_fn env, void *env_owner)
{
    struct hr_chain *chain = NULL;
    char message[256];

    if (hr_chain_new(env, env_owner, message, &chain) < 0) {
        return;
    }
    const struct hr_credentials *fresh = hr_chain_credentials(chain);
    const struct hr_credentials *held = hr_chain_credentials(store->chain);
    hr_cleanup_free char *identity = hr_chain_identity(chain);
    bool same_one = identity != NULL && strcmp(identity, store->identity) == 0;
    /* The secret of a long-lived key never changes: one that has worked is right and another one is not. */
    bool right_already =
        store->keeper == NULL && store->proven && held->session_token == NULL && fresh->session_token == NULL;

    /* The same way is known already; another one to the same identity brings a newer token. */
    bool same_way =
        store->keeper != NULL ? hr_chain_same(chain, store->chain) : hr_credentials_equal(fresh, held);

    if (!same_one || right_already || same_way || take_keeper(store, chain, message) < 0) {
        hr_chain_free(chain);
        return;
    }
    hr_chain_free(store->chain);
    store->chain = chain;
    credentials_changed(store);
}

bool hr_store_learn_region(struct hr_store *store, const char *region)
{
    if (!hr_region_valid(region) || strcmp(region, store->region) == 0) {
        return false;
    }
    (void)snprintf(store->region, sizeof(store->region), "%s", region);
    if (store->aws) {
        (void)hr_endpoint_aws(region, &store->endpoint);
        free(store->base);
        store->base = NULL;
    }
    return true;
}

bool hr_store_reload_credentials(struct hr_store *store)
{
    int64_t now_ms = hr_clock_ms();
    char message[256];

    if (store->keeper != NULL) {
        return hr_keeper_refused(store->keeper);
    }
    if (store->reloaded_ms != 0 && now_ms - store->reloaded_ms < RELOAD_EVERY_MS) {
        return false;
    }
    store->reloaded_ms = now_ms;
    if (hr_chain_reload(store->chain, message) != 1) {
        return false;
    }
    credentials_changed(store);
    return true;
}

void hr_store_learn_server(struct hr_store *store, const char *server_header)
{
    if (store->quirk == hr_quirk_unknown() && server_header != NULL) {
        store->quirk = hr_quirk_by_server(server_header);
    }
}
