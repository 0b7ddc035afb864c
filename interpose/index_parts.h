/* The texts of one entry: between index.c and index_check.c. Safe on any bytes of an adopted index. */
#ifndef HR_INDEX_PARTS_H
#define HR_INDEX_PARTS_H

#include <string.h>

#include "interpose/index.h"

static inline uint64_t hr_index_name_offset(const struct hr_entry *entry)
{
    return entry->name_low + ((uint64_t)entry->name_high << 32);
}

static inline bool hr_index_text_holds(const struct hr_index *index, uint64_t offset, uint64_t len)
{
    return offset <= index->names->text_bytes && len <= index->names->text_bytes - offset;
}

/* A name that is not inside the text is none. */
static inline const char *hr_index_name_of(const struct hr_index *index, const struct hr_entry *entry,
                                           size_t *ret_len)
{
    uint64_t offset = hr_index_name_offset(entry);

    if (!hr_index_text_holds(index, offset, entry->name_len)) {
        *ret_len = 0;
        return index->text;
    }
    *ret_len = entry->name_len;
    return index->text + offset;
}

static inline int hr_index_compare_names(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    if (order != 0) {
        return order;
    }
    return a_len < b_len ? -1 : a_len > b_len;
}

static inline void hr_index_etag_text(const struct hr_entry *entry, uint64_t *ret_offset, uint32_t *ret_len)
{
    memcpy(ret_offset, entry->etag, sizeof(*ret_offset));
    memcpy(ret_len, entry->etag + sizeof(*ret_offset), sizeof(*ret_len));
}

/* N of "-N"; false: it is not inside the text. */
static inline bool hr_index_etag_parts(const struct hr_index *index, const struct hr_entry *entry,
                                       uint32_t *ret)
{
    uint64_t offset = hr_index_name_offset(entry) + entry->name_len;

    if (!hr_index_text_holds(index, offset, sizeof(*ret))) {
        return false;
    }
    memcpy(ret, index->text + offset, sizeof(*ret));
    return true;
}

#endif
