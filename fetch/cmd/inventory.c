#include "fetch/cmd/inventory.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"
#include "fetch/base/digest.h"
#include "fetch/base/text.h"

#define HEAD_BYTES 4096       /* the brace and the blanks before it lie in it */
#define READ_BYTES (1u << 20) /* large enough that a call's own cost does not show */

bool inventory_is_manifest(const char *path)
{
    char head[HEAD_BYTES + 1];
    hr_cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t got = fd < 0 ? -1 : read(fd, head, HEAD_BYTES);
    if (got <= 0) {
        return false;
    }
    head[got] = '\0';
    const char *at = head;
    while (isspace((unsigned char)*at)) {
        at++;
    }
    /* An exported index begins with a brace, too. */
    return *at == '{' && strncmp(at, "{\"headrace_index\"", 17) != 0;
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

/* A data file lies beside its manifest, in data/ there or beside its folder, or where its key says. */
static int locate(const char *manifest, const char *key, char ret_path[PATH_MAX])
{
    static const char *const folders[] = {"", "data/", "../data/"};
    const char *slash = strrchr(manifest, '/'), *name = strrchr(key, '/');
    int dir_len = slash ? (int)(slash - manifest) + 1 : 0;
    name = name ? name + 1 : key;
    for (size_t i = 0; i <= sizeof folders / sizeof *folders && name[0]; i++) {
        bool by_key = i == sizeof folders / sizeof *folders;
        int len = snprintf(ret_path, PATH_MAX, "%.*s%s%s", dir_len, manifest, by_key ? "" : folders[i],
                           by_key ? key : name);
        if (len > 0 && len < PATH_MAX && access(ret_path, F_OK) == 0) {
            return 0;
        }
    }
    return -ENOENT;
}

static int check_md5(const char *path, const char *expected)
{
    uint8_t sum[HR_MD5_BYTES];
    char hex[2 * HR_MD5_BYTES + 1];
    struct hr_digest_ctx *md5 = NULL;
    hr_cleanup_free char *buffer = malloc(READ_BYTES);
    hr_cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    int error = fd < 0 || fstat(fd, &st) < 0 ? -errno
                : S_ISREG(st.st_mode)        ? 0
                                             : -EINVAL; /* a device has no end */
    error = error < 0 ? error : buffer ? hr_digest_new(HR_DIGEST_MD5, &md5) : -ENOMEM;
    ssize_t got = 1;
    while (error == 0 && got != 0) {
        got = read(fd, buffer, READ_BYTES);
        error = got < 0 ? -errno : hr_digest_update(md5, buffer, (size_t)got);
    }
    error = error == 0 ? hr_digest_final(md5, sum) : error;
    hr_digest_free(md5);
    if (error == 0) {
        hr_hex_encode(sum, sizeof sum, hex);
        error = strcasecmp(hex, expected) == 0 ? 0 : -EBADMSG;
    }
    return error;
}

static int add_file(const char *manifest, const json_t *file, json_t *files, char message[HR_MESSAGE_BYTES])
{
    char path[PATH_MAX], whole[PATH_MAX];
    const char *key = text_of(file, "key"), *md5 = text_of(file, "MD5checksum");
    int error = locate(manifest, key, path);
    if (error < 0 || !realpath(path, whole)) {
        snprintf(message, HR_MESSAGE_BYTES, "its data file %.300s is not beside it", key);
        return -ENOENT;
    }
    error = md5[0] ? check_md5(whole, md5) : 0;
    if (error < 0) {
        snprintf(message, HR_MESSAGE_BYTES, "%.300s: %s", whole,
                 error == -EBADMSG  ? "its MD5 is not the manifest's"
                 : error == -EINVAL ? "it is no regular file"
                                    : strerror(-error));
        return error;
    }
    json_t *item = json_string(whole);
    return item && json_array_append_new(files, item) == 0 ? 0 : -EILSEQ;
}

int inventory_load(const char *path, const char *bucket, json_t *request, char message[HR_MESSAGE_BYTES])
{
    json_error_t where;
    json_t *manifest = json_load_file(path, 0, &where);
    json_t *files = json_array();
    int error = 0;
    snprintf(message, HR_MESSAGE_BYTES, "%s", strerror(EILSEQ));
    if (!manifest) {
        snprintf(message, HR_MESSAGE_BYTES, "line %d: %.300s", where.line, where.text);
        error = -EINVAL;
    } else if (!text_of(manifest, "fileSchema")[0]) {
        snprintf(message, HR_MESSAGE_BYTES, "it is no manifest of S3 Inventory (it has no fileSchema)");
        error = -EINVAL;
    } else if (strcasecmp(text_of(manifest, "fileFormat"), "CSV") != 0) {
        snprintf(message, HR_MESSAGE_BYTES,
                 "its files are %.60s, and only CSV can be read: change the format of the inventory's "
                 "configuration, or "
                 "write lines of key,size,mtime,etag",
                 text_of(manifest, "fileFormat"));
        error = -EOPNOTSUPP;
    } else if (strcmp(text_of(manifest, "sourceBucket"), bucket) != 0) {
        snprintf(message, HR_MESSAGE_BYTES, "it is of the bucket %.100s, the map is of %.100s",
                 text_of(manifest, "sourceBucket"), bucket);
        error = -EXDEV;
    }
    const json_t *list = json_object_get(manifest, "files");
    for (size_t i = 0; i < json_array_size(list) && error == 0; i++) {
        error = add_file(path, json_array_get(list, i), files, message);
    }
    if (error == 0 && json_array_size(files) == 0) {
        snprintf(message, HR_MESSAGE_BYTES, "it names no data files");
        error = -EINVAL;
    }
    long long created_ms = strtoll(text_of(manifest, "creationTimestamp"), NULL, 10);
    if (error == 0) {
        json_object_set(request, "files", files);
        json_object_set(request, "columns", json_object_get(manifest, "fileSchema"));
        json_object_set_new(
            request, "listed_ns",
            json_integer(created_ms > 0 && created_ms < LLONG_MAX / 1000000 ? created_ms * 1000000 : 0));
    }
    json_decref(files);
    json_decref(manifest);
    return error;
}
