#include "fetch/list/publish.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"
#include "fetch/base/digest.h"
#include "fetch/list/builder.h"
#include "fetch/list/files.h"

#define SECTION_ALIGN_BYTES 64u  /* a cache line, as abi.h has it */
#define WRITE_BYTES (256u << 10) /* one pwrite: large enough that its own cost does not show */
#define HASH_SLOTS_MIN 2u

/* ---- one stream of bytes behind the header ---- */

struct writer {
    int fd;
    int error; /* the first one; what comes later is dropped */
    size_t fill;
    uint64_t offset; /* of buffer[0] in the file */
    uint64_t crc;
    char *buffer; /* WRITE_BYTES */
};

static void flush(struct writer *out)
{
    out->crc = hr_crc64nvme(out->crc, out->buffer, out->fill);
    for (size_t at = 0; at < out->fill && out->error == 0;) {
        ssize_t wrote = pwrite(out->fd, out->buffer + at, out->fill - at, (off_t)(out->offset + at));
        if (wrote < 0 && errno != EINTR) {
            out->error = hr_list_write_error(errno);
        } else if (wrote == 0) {
            out->error = -EIO;
        } else if (wrote > 0) {
            at += (size_t)wrote;
        }
    }
    out->offset += out->fill;
    out->fill = 0;
}

static void put(struct writer *out, const void *bytes, size_t len)
{
    const char *from = bytes;

    while (len > 0) {
        size_t part = len < WRITE_BYTES - out->fill ? len : WRITE_BYTES - out->fill;
        memcpy(out->buffer + out->fill, from, part);
        out->fill += part;
        from += part;
        len -= part;
        if (out->fill == WRITE_BYTES) {
            flush(out);
        }
    }
}

static void pad_to(struct writer *out, uint64_t offset)
{
    static const char zeros[SECTION_ALIGN_BYTES];
    put(out, zeros, (size_t)(offset - (out->offset + out->fill)));
}

/* ---- what is written ---- */

struct sealing {
    struct hr_index_builder *builder;
    struct hr_build_order order;
    struct hr_names header;
    uint32_t *hash; /* in the file itself, which is mapped: */
    char *file;
    struct writer out;
};

static void sealing_release(struct sealing *sealing)
{
    hr_build_order_release(&sealing->order);
    if (sealing->file != NULL) {
        (void)munmap(sealing->file, sealing->header.file_bytes);
    }
    free(sealing->out.buffer);
}

/* What an entry's ETag has in the text, which follows its name there. */
static void etag_text(const struct hr_entry *entry, uint64_t *ret_offset, uint32_t *ret_len)
{
    *ret_offset = hr_build_name_offset(entry) + entry->name_len;
    *ret_len = entry->etag_kind == HR_ETAG_PARTS ? (uint32_t)sizeof(uint32_t) : 0;
    if (entry->etag_kind == HR_ETAG_TEXT) {
        memcpy(ret_offset, entry->etag, sizeof(*ret_offset));
        memcpy(ret_len, entry->etag + sizeof(*ret_offset), sizeof(*ret_len));
    }
}

/* The n-th child of a directory (numbered as it came). */
static struct hr_entry *child_of(const struct sealing *sealing, uint32_t dir, uint32_t n)
{
    return &sealing->builder->entries[sealing->order.sorted[sealing->order.start[dir] + n]];
}

/* Directories get the newest time below them: children before parents, which is from the last to the first.
 */
static void count_up(struct sealing *sealing)
{
    struct hr_names *header = &sealing->header;
    struct hr_build_dir *dirs = sealing->builder->dirs;

    for (size_t place = sealing->builder->dir_count; place-- > 0;) {
        uint32_t dir = sealing->order.dirs[place];
        int64_t newest = dirs[dir].mtime_ns;
        for (uint32_t n = 0; n < sealing->order.count[dir]; n++) {
            struct hr_entry *child = child_of(sealing, dir, n);
            uint64_t offset;
            uint32_t etag_len;
            etag_text(child, &offset, &etag_len);
            header->text_bytes += child->name_len + (uint64_t)etag_len;
            if (child->kind == HR_KIND_FILE) {
                header->file_count++;
                header->unknown_count += child->etag_kind == HR_ETAG_UNKNOWN;
                header->object_bytes = child->size > UINT64_MAX - header->object_bytes
                                           ? UINT64_MAX
                                           : header->object_bytes + child->size;
            }
            newest = child->mtime_ns > newest ? child->mtime_ns : newest;
        }
        dirs[dir].mtime_ns = newest == INT64_MIN ? header->listed_ns : newest;
        sealing->builder->entries[dirs[dir].entry].mtime_ns = dirs[dir].mtime_ns;
    }
}

static uint64_t next_section(uint64_t *end, uint64_t count, uint64_t unit_bytes)
{
    uint64_t start = (*end + SECTION_ALIGN_BYTES - 1) / SECTION_ALIGN_BYTES * SECTION_ALIGN_BYTES;
    *end = start + count * unit_bytes;
    return start;
}

static void lay_out(struct sealing *sealing)
{
    struct hr_names *header = &sealing->header;
    uint64_t end = sizeof(*header);

    header->entry_count = sealing->order.seen;
    header->dir_count = sealing->builder->dir_count;
    header->hash_slots = (header->entry_count - 1) * 4 / 3 + HASH_SLOTS_MIN;
    for (int why = 0; why < HR_HIDDEN_COUNT; why++) {
        header->hidden_count += sealing->builder->hidden[why];
    }
    header->entries_offset = next_section(&end, header->entry_count, sizeof(struct hr_entry));
    header->dirs_offset = next_section(&end, header->dir_count, sizeof(struct hr_dir));
    header->hash_offset = next_section(&end, header->hash_slots, sizeof(uint32_t));
    header->text_offset = next_section(&end, header->text_bytes, 1);
    header->file_bytes = end;
}

/* A chain that is full is left alone: the reader searches the directory then. */
static void hash_in(struct sealing *sealing, uint32_t number, uint32_t dir, const char *name, size_t name_len)
{
    uint64_t slots = sealing->header.hash_slots;
    uint64_t at = hr_index_slot(hr_index_hash(dir, name, name_len), slots);

    for (unsigned probe = 0; probe < HR_INDEX_PROBES_MAX; probe++) {
        if (sealing->hash[at] == 0) {
            sealing->hash[at] = number;
            return;
        }
        at = at + 1 < slots ? at + 1 : 0;
    }
}

/* One child as the file has it; *text is where its name goes. */
static struct hr_entry final_entry(const struct sealing *sealing, const struct hr_entry *child,
                                   uint64_t *text)
{
    struct hr_entry entry = *child;
    uint64_t offset;
    uint32_t etag_len;

    entry.name_low = (uint32_t)*text;
    entry.name_high = (uint8_t)(*text >> 32);
    *text += entry.name_len;
    etag_text(child, &offset, &etag_len);
    if (child->etag_kind == HR_ETAG_TEXT) {
        memcpy(entry.etag, text, sizeof(*text));
    }
    *text += etag_len;
    if (entry.kind == HR_KIND_DIR) {
        entry.size = sealing->order.place[child->size];
    }
    return entry;
}

static void write_entries(struct sealing *sealing)
{
    const struct hr_index_builder *builder = sealing->builder;
    struct hr_entry root = builder->entries[0];
    uint64_t text = 0;
    uint32_t number = 0;

    pad_to(&sealing->out, sealing->header.entries_offset);
    put(&sealing->out, &root, sizeof(root));
    for (uint32_t place = 0; place < builder->dir_count; place++) {
        uint32_t dir = sealing->order.dirs[place];
        for (uint32_t n = 0; n < sealing->order.count[dir]; n++) {
            const struct hr_entry *child = child_of(sealing, dir, n);
            struct hr_entry entry = final_entry(sealing, child, &text);
            put(&sealing->out, &entry, sizeof(entry));
            hash_in(sealing, ++number, place, builder->text + hr_build_name_offset(child), child->name_len);
        }
    }
}

static int write_dirs(struct sealing *sealing)
{
    const struct hr_build_order *order = &sealing->order;
    size_t count = sealing->builder->dir_count;
    hr_cleanup_free struct hr_dir *dirs = calloc(count, sizeof(*dirs));

    if (dirs == NULL) {
        return -ENOMEM;
    }
    for (uint32_t place = 0; place < count; place++) {
        uint32_t dir = order->dirs[place];
        dirs[place].first = order->first[dir];
        dirs[place].count = order->count[dir];
        for (uint32_t n = 0; n < order->count[dir]; n++) {
            const struct hr_entry *child = child_of(sealing, dir, n);
            if (child->kind == HR_KIND_DIR) {
                dirs[order->place[child->size]].entry = order->first[dir] + n;
                dirs[order->place[child->size]].parent = place;
            }
        }
    }
    pad_to(&sealing->out, sealing->header.dirs_offset);
    put(&sealing->out, dirs, count * sizeof(*dirs));
    return 0;
}

static void write_text(struct sealing *sealing)
{
    const struct hr_index_builder *builder = sealing->builder;

    pad_to(&sealing->out, sealing->header.text_offset);
    for (uint32_t place = 0; place < builder->dir_count; place++) {
        uint32_t dir = sealing->order.dirs[place];
        for (uint32_t n = 0; n < sealing->order.count[dir]; n++) {
            const struct hr_entry *child = child_of(sealing, dir, n);
            uint64_t offset;
            uint32_t etag_len;
            put(&sealing->out, builder->text + hr_build_name_offset(child), child->name_len);
            etag_text(child, &offset, &etag_len);
            put(&sealing->out, builder->text + offset, etag_len);
        }
    }
}

static int write_all(struct sealing *sealing)
{
    struct hr_names *header = &sealing->header;

    write_entries(sealing);
    int rc = write_dirs(sealing);
    if (rc < 0) {
        return rc;
    }
    pad_to(&sealing->out, header->hash_offset);
    put(&sealing->out, sealing->hash, header->hash_slots * sizeof(*sealing->hash));
    write_text(sealing);
    flush(&sealing->out);
    header->checksum = sealing->out.crc;
    header->header_checksum = hr_crc64nvme(0, header, sizeof(*header));

    memcpy(sealing->out.buffer, header, sizeof(*header));
    sealing->out.fill = sizeof(*header);
    sealing->out.offset = 0;
    flush(&sealing->out);
    return sealing->out.error;
}

/* ---- sealing ---- */

static int map_file(int fd, uint64_t bytes, struct hr_index *ret_index)
{
    void *base = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        return -errno;
    }
    if (hr_index_adopt(ret_index, base, bytes) < 0) {
        (void)munmap(base, bytes);
        return -EIO;
    }
    return 0;
}

static int prepare(struct sealing *sealing)
{
    int rc = hr_builder_root(sealing->builder);
    if (rc < 0) {
        return rc;
    }
    rc = hr_build_order(sealing->builder, &sealing->order);
    if (rc < 0) {
        return rc;
    }
    count_up(sealing);
    lay_out(sealing);
    sealing->out.buffer = malloc(WRITE_BYTES);
    sealing->out.offset = sizeof(sealing->header);
    return sealing->out.buffer == NULL ? -ENOMEM : 0;
}

/* The hash is filled in any order, so it is filled where it will lie, and not in memory first. */
static int map_hash(struct sealing *sealing, int fd)
{
    char *file = mmap(NULL, sealing->header.file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (file == MAP_FAILED) {
        return -errno;
    }
    sealing->file = file;
    sealing->hash = (uint32_t *)(void *)(file + sealing->header.hash_offset);
    return 0;
}

static int publish(struct sealing *sealing, const char *index_dir, const char *name, bool lasting,
                   struct hr_index *ret_index)
{
    hr_cleanup(hr_list_file_close) struct hr_list_file file = HR_LIST_FILE_NONE;
    struct hr_index index;

    int rc = prepare(sealing);
    if (rc < 0) {
        return rc;
    }
    rc = hr_list_file_new(index_dir, name, sealing->header.file_bytes, &file);
    if (rc < 0) {
        return rc;
    }
    rc = map_hash(sealing, file.fd);
    if (rc < 0) {
        return rc;
    }
    sealing->out.fd = file.fd;
    rc = write_all(sealing);
    if (rc < 0) {
        return rc;
    }
    rc = map_file(file.fd, sealing->header.file_bytes, &index);
    if (rc < 0) {
        return rc;
    }
    rc = hr_list_file_commit(&file, 0400, lasting);
    if (rc < 0) {
        hr_index_unmap(&index);
        return rc;
    }
    *ret_index = index;
    return 0;
}

static int seal(struct hr_index_builder *builder, const char *index_dir, const char *name, bool lasting,
                const struct hr_names *header, struct hr_index *ret_index)
{
    hr_cleanup(sealing_release) struct sealing sealing = {.builder = builder, .header = *header};

    int rc = publish(&sealing, index_dir, name, lasting, ret_index);
    hr_builder_empty(builder);
    return rc;
}

static struct hr_names header_of(uint64_t tree_id, uint32_t gen, int64_t listed_ns)
{
    return (struct hr_names){.magic = HR_MAGIC_NAMES,
                             .abi_version = HR_ABI_VERSION,
                             .gen = gen,
                             .tree_id = tree_id,
                             .listed_ns = listed_ns};
}

int hr_builder_publish(struct hr_index_builder *builder, const char *index_dir, uint64_t tree_id,
                       uint32_t gen, int64_t listed_ns, struct hr_index *ret_index)
{
    char name[HR_LIST_NAME_BYTES];
    struct hr_names header = header_of(tree_id, gen, listed_ns);

    hr_list_names_name(tree_id, gen, name);
    return seal(builder, index_dir, name, true, &header, ret_index);
}

int hr_builder_publish_dir(struct hr_index_builder *builder, const char *index_dir, uint64_t tree_id,
                           uint32_t number, uint64_t boot, int64_t listed_ns, struct hr_index *ret_index)
{
    char name[HR_LIST_NAME_BYTES];
    struct hr_names header = header_of(tree_id, number, listed_ns);

    hr_list_boot_name(tree_id, number, boot, "dir", name);
    return seal(builder, index_dir, name, false, &header, ret_index);
}
