/* What an earlier life left in the cache directory, as a damaged disk would hand it over: it is taken or
 * dropped, the accounts are right, and numbers are never given twice. Input: raw (1 byte), then records of 8
 * bytes each, made right in form; with raw the bytes are the journal as they are. */
#include "fetch/cache/inside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fetch/base/log.h"
#include "fetch/cache/record.h"
#include "tests/fuzz/scratch.h"

#define RECORD_BYTES 8
#define FILES 6 /* in objects/, with numbers 1 to FILES and as many bytes */
#define BUDGET_BYTES (64u << 20)

static struct hr_loop *loop;

static void evicted(void *owner, const struct hr_cached *cached)
{
    (void)owner;
    (void)cached;
}

static struct hr_cache *open_cache(void)
{
    char message[256];
    struct hr_cache *cache = NULL;
    struct hr_cache_options options = {.dir = scratch,
                                       .size_bytes = BUDGET_BYTES,
                                       .writer_threads = 1,
                                       .faces_max = 3,
                                       .boot = 7,
                                       .loop = loop,
                                       .evicted = evicted};
    int error = hr_cache_open(&options, message, &cache);
    MUST(error == 0 || error == -EOVERFLOW);
    return error == 0 ? cache : NULL;
}

static void start(void)
{
    scratch_make("/dev/shm"); /* what is synced at each start costs nothing there */
    (void)hr_log_open("/dev/null", HR_LOG_ERROR);
    MUST(hr_loop_new(&loop) == 0);
    struct hr_cache *cache = open_cache(); /* makes the folders */
    MUST(cache != NULL);
    for (unsigned number = 1; number <= FILES; number++) {
        MUST(hr_shelf_make(cache, number) == 0);
    }
    hr_cache_close(cache);
}

/* A file of `number` bytes with the times of its record; what its record must say of it. */
static void put_object(unsigned number, struct stat *ret)
{
    char path[PATH_MAX];
    hr_object_path(scratch, number, path);
    (void)unlink(path);
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, number % 3 == 1 ? 0200 : 0400);
    MUST(fd >= 0 && (number % 3 == 1 || write(fd, "bytes.", number) == (ssize_t)number));
    struct timespec times[2] = {{.tv_sec = 5, .tv_nsec = number}, {.tv_sec = 5, .tv_nsec = number}};
    MUST(futimens(fd, times) == 0 && fstat(fd, ret) == 0);
    close(fd);
}

static void add_record(const uint8_t *at, const struct stat *files, struct hr_buf *out)
{
    static const char *const keys[] = {"k", "l", "m"};
    unsigned number = at[1] % FILES;
    struct hr_record record = {.kind = HR_RECORD_SEGMENT + at[0] % 4, .epoch = at[2], .file_id = number + 1};
    if (record.kind == HR_RECORD_IDS || at[0] >= 0x80) {
        record.file_id = at[3] == 0xff ? (uint64_t)INT64_MAX + 1 - at[2] : (uint64_t)at[3] << (at[2] % 56);
    }
    if (record.kind == HR_RECORD_OBJECT) {
        record.size = files[number].st_size;
        record.ino = files[number].st_ino;
        record.written_s = 5;
        record.nonce = number + 1;
        record.cached = at[4] % 3;
        record.face_id = record.cached == HR_CACHED_SEGMENT ? at[5] % FILES : 0;
        record.offset = record.cached == HR_CACHED_SEGMENT ? (uint64_t)at[6] << (at[5] % 56) : 0;
        record.size += record.cached == HR_CACHED_FACE ? (uint64_t)at[6] << (at[5] % 56) : 0;
        record.key = keys[at[7] % 3];
        record.key_len = 1;
        record.etag = "e";
        record.etag_len = at[7] >= 0x80;
    }
    (void)hr_record_encode(&record, out); /* what is out of its bounds is left out */
}

static void remove_records(void)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/records", scratch);
    DIR *stream = opendir(path);
    MUST(stream != NULL);
    for (const struct dirent *entry = readdir(stream); entry; entry = readdir(stream)) {
        (void)unlinkat(dirfd(stream), entry->d_name, 0);
    }
    closedir(stream);
}

static void put_journal(const uint8_t *data, size_t size)
{
    char path[PATH_MAX];
    struct stat files[FILES];
    struct hr_buf out = HR_BUF_INIT(64 << 20);
    const struct hr_record ids = {.kind = HR_RECORD_IDS, .file_id = 7};
    for (unsigned i = 0; i < FILES; i++) {
        put_object(i + 1, &files[i]);
    }
    if (data[0] % 4 == 0) {
        MUST(hr_buf_append(&out, data + 1, size - 1) == 0);
    }
    for (size_t at = 1; data[0] % 4 && at + RECORD_BYTES <= size; at += RECORD_BYTES) {
        add_record(data + at, files, &out);
    }
    remove_records();
    snprintf(path, sizeof path, "%s/records/00000001.log", scratch);
    FILE *file = fopen(path, "w");
    MUST(file && fwrite(out.data ? out.data : "", 1, out.len, file) == out.len && fclose(file) == 0);
    hr_buf_reset(&out);
    snprintf(path, sizeof path, "%s/records/ids", scratch);
    file = fopen(path, "w");
    MUST(hr_record_encode(&ids, &out) == 0 && file);
    MUST(fwrite(out.data, 1, out.len, file) == out.len && fclose(file) == 0);
    hr_buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!loop) {
        start();
    }
    if (size < 1) {
        return 0;
    }
    put_journal(data, size);
    uint64_t next_id = 0;
    for (int life = 0; life < 2; life++) {
        struct hr_cache *cache = open_cache();
        if (!cache) {
            break;
        }
        struct hr_cache_stats stats;
        hr_cache_stats(cache, &stats);
        MUST(cache->next_id > next_id && cache->id_end > cache->next_id);
        next_id = cache->next_id;
        for (unsigned number = 1; number <= FILES; number++) {
            const struct hr_cached *cached = hr_cache_by_id(cache, number);
            MUST(!cached || (cached->file_id == number && number < next_id));
        }
        hr_cache_close(cache);
    }
    return 0;
}
