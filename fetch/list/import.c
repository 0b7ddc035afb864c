/* A names file from another node becomes one of ours. */
#include "fetch/list/publish.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"
#include "fetch/base/digest.h"
#include "fetch/list/files.h"

#define COPY_BYTES (1u << 20) /* one pread and pwrite */

static int read_header(int fd, uint64_t offset, uint64_t bytes, struct hr_names *ret)
{
    struct hr_names bare;
    if (pread(fd, ret, sizeof *ret, (off_t)offset) != (ssize_t)sizeof *ret) {
        return -EBADMSG;
    }
    if (ret->magic == HR_MAGIC_NAMES && ret->abi_version != HR_ABI_VERSION) {
        return -EPROTONOSUPPORT;
    }
    bare = *ret;
    bare.header_checksum = 0;
    return ret->magic == HR_MAGIC_NAMES && ret->file_bytes == bytes &&
                   ret->header_checksum == hr_crc64nvme(0, &bare, sizeof bare)
               ? 0
               : -EBADMSG;
}

static int write_at(int fd, const char *bytes, size_t len, uint64_t offset)
{
    for (size_t at = 0; at < len;) {
        ssize_t wrote = pwrite(fd, bytes + at, len - at, (off_t)(offset + at));
        if (wrote < 0 && errno != EINTR) {
            return hr_list_write_error(errno);
        }
        at += wrote > 0 ? (size_t)wrote : 0;
    }
    return 0;
}

/* Everything behind the header, whose checksum must be the header's. */
static int copy_body(int from, uint64_t offset, int to, const struct hr_names *header)
{
    hr_cleanup_free char *buffer = malloc(COPY_BYTES);
    uint64_t crc = 0;
    if (!buffer) {
        return -ENOMEM;
    }
    for (uint64_t at = sizeof *header; at < header->file_bytes;) {
        size_t wanted = header->file_bytes - at < COPY_BYTES ? (size_t)(header->file_bytes - at) : COPY_BYTES;
        ssize_t got = pread(from, buffer, wanted, (off_t)(offset + at));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return -EBADMSG;
        }
        crc = hr_crc64nvme(crc, buffer, (size_t)got);
        int error = write_at(to, buffer, (size_t)got, at);
        if (error < 0) {
            return error;
        }
        at += (uint64_t)got;
    }
    return crc == header->checksum ? 0 : -EBADMSG;
}

int hr_index_import(const char *index_dir, int fd, uint64_t offset, uint64_t tree_id, uint32_t gen,
                    struct hr_index *ret_index)
{
    hr_cleanup(hr_list_file_close) struct hr_list_file file = HR_LIST_FILE_NONE;
    char name[HR_LIST_NAME_BYTES];
    struct hr_names header;
    struct hr_index index;
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return -errno;
    }
    if ((uint64_t)st.st_size < offset + sizeof header) {
        return -EBADMSG;
    }
    int error = read_header(fd, offset, (uint64_t)st.st_size - offset, &header);
    if (error < 0) {
        return error;
    }
    hr_list_names_name(tree_id, gen, name);
    error = hr_list_file_new(index_dir, name, header.file_bytes, &file);
    if (error == 0) {
        error = copy_body(fd, offset, file.fd, &header);
    }
    if (error < 0) {
        return error;
    }
    header.tree_id = tree_id;
    header.gen = gen;
    header.header_checksum = 0;
    header.header_checksum = hr_crc64nvme(0, &header, sizeof header);
    error = write_at(file.fd, (const char *)&header, sizeof header, 0);
    if (error < 0) {
        return error;
    }
    void *base = mmap(NULL, header.file_bytes, PROT_READ, MAP_SHARED, file.fd, 0);
    if (base == MAP_FAILED) {
        return -errno;
    }
    error = hr_index_adopt(&index, base, header.file_bytes);
    error = error == 0 ? hr_index_check(&index, NULL) : error;
    error = error == 0 ? hr_list_file_commit(&file, 0400, true) : error;
    if (error < 0) {
        (void)munmap(base, header.file_bytes);
        return error;
    }
    *ret_index = index;
    return 0;
}
