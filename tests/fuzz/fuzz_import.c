/* A file that `headrace index import` is told to read: an index of another node, or text. Whatever its bytes,
 * it is refused with one line or it becomes a good index of this tree. First byte: what the file is; then the
 * file, or the first line of an index, or changes of a good one of 4 bytes each (where 2, what 1, how 1), its
 * checksums made right. */
#include "fetch/serve/indexes.h"

#include <sys/mman.h>
#include <unistd.h>

#include "fetch/base/digest.h"
#include "tests/fuzz/daemon.h"

#define LINE                                                                                                 \
    "{\"headrace_index\":1,\"endpoint\":\"127.0.0.1:9\",\"bucket\":\"bucket\",\"prefix\":\"p/"               \
    "\",\"filter\":\"\"}\n"
#define RECORD_BYTES 4
#define TURNS_MAX 100000

enum file { FILE_BYTES, FILE_LINE, FILE_CHANGED, FILE_KINDS };

static uint8_t *good;
static size_t good_bytes;
static struct hr_timer tick;
static unsigned turns;

static void must(bool truth)
{
    if (!truth) {
        abort();
    }
}

static struct hr_plan_tree *tree(void)
{
    return hr_tree_get(fuzz.plan, fuzz.tree);
}

static void on_tick(void *owner)
{
    (void)owner;
    (void)hr_loop_arm(fuzz.loop, &tick, 1); /* so that turns go on */
}

static void until_read(void *owner)
{
    (void)owner;
    if (!tree()->adopting || ++turns > TURNS_MAX) {
        hr_loop_stop(fuzz.loop);
    }
}

static void start(void)
{
    fuzz_start();
    const struct hr_names *names = tree()->index.names;
    good_bytes = (size_t)names->file_bytes;
    good = malloc(good_bytes);
    must(good != NULL);
    memcpy(good, names, good_bytes);
    tick = (struct hr_timer)HR_TIMER_INIT(on_tick, NULL);
    fuzz_check(hr_loop_arm(fuzz.loop, &tick, 1));
    hr_loop_each_turn(fuzz.loop, until_read, NULL);
}

/* The good index with the changes that the input says. The caller's. */
static uint8_t *changed(const uint8_t *data, size_t size)
{
    uint8_t *file = malloc(good_bytes);
    struct hr_names *names = (struct hr_names *)file;
    must(file != NULL);
    memcpy(file, good, good_bytes);
    for (size_t at = 0; at + RECORD_BYTES <= size; at += RECORD_BYTES) {
        uint8_t *byte = file + (data[at] | (size_t)data[at + 1] << 8) % good_bytes;
        *byte = (uint8_t)(data[at + 3] % 2 ? data[at + 2] : *byte + (int8_t)data[at + 2]);
    }
    names->checksum = hr_crc64nvme(0, file + sizeof *names, good_bytes - sizeof *names);
    names->header_checksum = 0;
    names->header_checksum = hr_crc64nvme(0, names, sizeof *names);
    return file;
}

static int write_file(enum file kind, const uint8_t *data, size_t size)
{
    int fd = memfd_create("index", MFD_CLOEXEC);
    must(fd >= 0);
    if (kind == FILE_BYTES) {
        must(write(fd, data, size) == (ssize_t)size);
        return fd;
    }
    uint8_t *body = changed(kind == FILE_CHANGED ? data : NULL, kind == FILE_CHANGED ? size : 0);
    if (kind == FILE_LINE) {
        static const char begin[] = "{\"headrace_index\":";
        must(write(fd, begin, sizeof begin - 1) > 0 && write(fd, data, size) == (ssize_t)size &&
             write(fd, "\n", 1) == 1);
    } else {
        must(write(fd, LINE, sizeof LINE - 1) > 0);
    }
    must(write(fd, body, good_bytes) == (ssize_t)good_bytes);
    free(body);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    if (!good) {
        start();
    }
    if (size < 1) {
        return 0;
    }
    enum file kind = data[0] % FILE_KINDS;
    int fd = write_file(kind, data + 1, size - 1);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    json_t *request = json_pack("{s:i, s:[s]}", "tree", (int)fuzz.tree, "files", path);
    json_t *answer = hr_indexes_import(fuzz.plan, request);
    must(answer != NULL);
    const char *why = json_string_value(json_object_get(answer, "error"));
    must(why ? why[0] && !strchr(why, '\n') : json_integer_value(json_object_get(answer, "ends")) > 0);
    if (size == 1 && kind == FILE_CHANGED) {
        must(!why); /* what export wrote */
    }
    turns = 0;
    (void)hr_loop_run(fuzz.loop);
    must(turns <= TURNS_MAX && hr_index_check(&tree()->index, NULL) == 0);
    json_decref(answer);
    json_decref(request);
    close(fd);
    return 0;
}
