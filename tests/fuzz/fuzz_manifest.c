/* Any bytes as the manifest of an S3 Inventory: refused with one line, or files that are there. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/cmd/inventory.c" /* the commands are not among what every fuzzer links */
#include "tests/fuzz/scratch.h"

static void make_dir(void)
{
    char path[64];
    scratch_make("/tmp");
    snprintf(path, sizeof path, "%s/d", scratch);
    scratch_put(path, "b,k\n", 4);
}

static void check_files(const json_t *request)
{
    const json_t *files = json_object_get(request, "files");
    for (size_t i = 0; i < json_array_size(files); i++) {
        if (access(json_string_value(json_array_get(files, i)), F_OK) != 0) {
            abort();
        }
    }
    if (json_array_size(files) == 0 || json_integer_value(json_object_get(request, "listed_ns")) < 0) {
        abort();
    }
}

/* A manifest that is right in form around the input, whose parts end in NUL: the MD5, a key, the time. */
static void check_made(const uint8_t *data, size_t size, const char *path)
{
    char *text = malloc(size + 3), message[HR_MESSAGE_BYTES];
    if (!text) {
        abort();
    }
    memcpy(text, data, size);
    memset(text + size, 0, 3);
    const char *md5 = text, *key = md5 + strlen(md5) + 1, *created = key;
    created += key <= text + size ? strlen(key) + 1 : 0;
    json_t *manifest =
        json_pack("{s:s, s:s, s:s, s:s, s:[{s:s, s:s}]}", "fileSchema", "Bucket, Key", "fileFormat", "CSV",
                  "sourceBucket", "b", "creationTimestamp", created <= text + size ? created : "", "files",
                  "key", key <= text + size ? key : "", "MD5checksum", md5);
    json_t *request = json_object();
    if (manifest && json_dump_file(manifest, path, 0) == 0 &&
        inventory_load(path, "b", request, message) == 0) {
        check_files(request);
    }
    json_decref(manifest); /* NULL: no UTF-8 */
    json_decref(request);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool made;
    char path[64], message[HR_MESSAGE_BYTES] = "";
    if (!made) {
        make_dir();
        made = true;
    }
    snprintf(path, sizeof path, "%s/manifest.json", scratch);
    scratch_put(path, data, size);
    (void)inventory_is_manifest(path);
    json_t *request = json_object();
    int error = inventory_load(path, "b", request, message);
    if (error == 0) {
        check_files(request);
    } else if (!message[0] || !memchr(message, '\0', sizeof message)) {
        abort();
    }
    json_decref(request);
    check_made(data, size, path);
    return 0;
}
