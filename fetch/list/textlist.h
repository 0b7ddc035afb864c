/* Rows of text -> keys of an index builder: a file of names (list=FILE) and S3 Inventory's CSV.
 *
 * CSV: rows end in LF or CRLF, fields are separated by ','; a field that begins with '"' ends at the
 * next single '"', "" in it is one, and it may hold commas and line ends. Empty lines are passed over. %XX in
 * a key is that byte (a '%' is written %25), with plus_is_space a '+' is a blank, as S3 Inventory writes
 * keys. Keys are whole keys of the bucket; those outside the prefix are counted and left out. A size or time
 * that is not there makes an entry of which the name alone is known (HR_ETAG_UNKNOWN). Fed in any pieces;
 * believes nothing. */
#ifndef HR_LIST_TEXTLIST_H
#define HR_LIST_TEXTLIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fetch/list/filter.h"
#include "fetch/list/publish.h"

#define HR_TEXTLIST_MESSAGE_BYTES 256 /* one line; longer ones are cut */
#define HR_TEXTLIST_NONE (-1)

/* Numbers of columns, from 0; HR_TEXTLIST_NONE: not there. */
struct hr_textlist_columns {
    int key;
    int size;  /* bytes */
    int mtime; /* ISO 8601, or seconds since the epoch with an optional fraction */
    int etag;  /* quotes around it are dropped */
    int bucket;
    int is_latest;        /* "false": an older version, left out */
    int is_delete_marker; /* "true": left out */
    bool plus_is_space;
};

/* key[,size,mtime[,etag]] */
extern const struct hr_textlist_columns hr_textlist_plain;
/* Of a row of S3 Inventory without its manifest: Bucket, Key, [VersionId, IsLatest, IsDeleteMarker,] Size,
 * LastModifiedDate, ETag, ...; line: its beginning, with a whole row if that is short. False: it is none. */
bool hr_textlist_inventory(const char *line, size_t len, const char *bucket, struct hr_textlist_columns *ret);
/* "Bucket, Key, Size, ...", the fileSchema of a manifest. 0 or -EINVAL (no Key). */
int hr_textlist_schema(const char *schema, struct hr_textlist_columns *ret);

/* Of the beginning of a file: what to tell where it is no list (a column file, an archive, a manifest); NULL:
 * it may be one. */
const char *hr_textlist_foreign(const char *bytes, size_t len);

struct hr_textlist_options {
    struct hr_textlist_columns columns;
    const char *bucket; /* a bucket column must have it */
    const char *prefix;
    uint32_t prefix_len;
    const struct hr_filter *filter;   /* NULL: all */
    struct hr_index_builder *builder; /* the caller's */
};

struct hr_textlist_figures {
    uint64_t rows;
    uint64_t keys;    /* given to the builder */
    uint64_t outside; /* of the prefix */
    uint64_t gone;    /* older versions and delete markers */
    uint64_t unknown; /* of the keys: without size or time */
};

struct hr_textlist;

/* Borrows all that options points to. 0 or -ENOMEM. */
int hr_textlist_new(const struct hr_textlist_options *options, struct hr_textlist **ret);
void hr_textlist_free(struct hr_textlist *list); /* accepts NULL */
/* 0; -EINVAL with one line ("line 7: ..."); -ENOMEM, -EFBIG as the builder's. After an error only free. */
int hr_textlist_feed(struct hr_textlist *list, const char *bytes, size_t len,
                     char ret_message[HR_TEXTLIST_MESSAGE_BYTES]);
/* The file has ended: its last row may lack a line end. The next byte fed is line 1 of another file. */
int hr_textlist_end(struct hr_textlist *list, char ret_message[HR_TEXTLIST_MESSAGE_BYTES]);
void hr_textlist_figures(const struct hr_textlist *list, struct hr_textlist_figures *ret);

#endif
