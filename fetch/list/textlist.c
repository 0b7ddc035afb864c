#include "fetch/list/textlist.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/base/buf.h"
#include "fetch/base/text.h"

#define FIELDS_MAX 64u            /* S3 Inventory has fewer than 30 */
#define ROW_BYTES_MAX (64u << 10) /* a key as %XX is 3 KiB; ACLs of an inventory some more */
#define SHOWN_BYTES 60            /* of a wrong field, in a message */
#define NS 1000000000

enum where {
    AT_START, /* of a field */
    IN_PLAIN,
    IN_QUOTES,
    AT_QUOTE, /* behind a '"' inside quotes: its end, or the first of two */
    AT_CR,    /* a LF must follow */
};

struct hr_textlist {
    struct hr_textlist_options options;
    struct hr_textlist_figures figures;
    enum where where;
    uint64_t line;     /* of the byte that comes next, from 1 */
    uint64_t row_line; /* where the row began */
    char row[ROW_BYTES_MAX];
    size_t row_len;
    uint32_t field[FIELDS_MAX + 1]; /* where each begins in row; one behind the last */
    unsigned field_count;           /* ended */
    bool overflown;                 /* more fields than FIELDS_MAX */
    struct hr_buf key;
};

const struct hr_textlist_columns hr_textlist_plain = {.key = 0,
                                                      .size = 1,
                                                      .mtime = 2,
                                                      .etag = 3,
                                                      .bucket = HR_TEXTLIST_NONE,
                                                      .is_latest = HR_TEXTLIST_NONE,
                                                      .is_delete_marker = HR_TEXTLIST_NONE};

int hr_textlist_new(const struct hr_textlist_options *options, struct hr_textlist **ret)
{
    struct hr_textlist *list = malloc(sizeof *list);
    if (!list) {
        return -ENOMEM;
    }
    memset(list, 0, offsetof(struct hr_textlist, row));
    list->options = *options;
    list->line = list->row_line = 1;
    list->row_len = 0;
    list->field_count = 0;
    list->field[0] = 0;
    list->overflown = false;
    hr_buf_init(&list->key, ROW_BYTES_MAX);
    *ret = list;
    return 0;
}

void hr_textlist_free(struct hr_textlist *list)
{
    if (list) {
        hr_buf_release(&list->key);
    }
    free(list);
}

void hr_textlist_figures(const struct hr_textlist *list, struct hr_textlist_figures *ret)
{
    *ret = list->figures;
}

/* ---- one row ---- */

struct piece {
    const char *at;
    size_t len;
};

static struct piece field_of(const struct hr_textlist *list, int column)
{
    if (column < 0 || (unsigned)column >= list->field_count) {
        return (struct piece){"", 0};
    }
    return (struct piece){list->row + list->field[column], list->field[column + 1] - list->field[column]};
}

/* One line: keys hold any byte. */
static int fault(const struct hr_textlist *list, const char *what, struct piece shown,
                 char message[HR_TEXTLIST_MESSAGE_BYTES])
{
    snprintf(message, HR_TEXTLIST_MESSAGE_BYTES, "line %llu: %s%s%.*s%s", (unsigned long long)list->row_line,
             what, shown.len ? " '" : "", (int)(shown.len < SHOWN_BYTES ? shown.len : SHOWN_BYTES), shown.at,
             shown.len ? "'" : "");
    for (char *at = message; *at; at++) {
        *at = (unsigned char)*at < ' ' || *at == 0x7f ? '?' : *at;
    }
    return -EINVAL;
}

static bool parse_size(struct piece text, uint64_t *ret)
{
    uint64_t number = 0;
    for (size_t i = 0; i < text.len; i++) {
        unsigned digit = (unsigned char)text.at[i] - (unsigned)'0';
        if (digit > 9 || number > ((uint64_t)INT64_MAX - digit) / 10) {
            return false;
        }
        number = number * 10 + digit;
    }
    *ret = number;
    return text.len > 0;
}

/* Seconds since the epoch with a fraction, or a date. */
static bool parse_time(struct piece text, int64_t *ret_ns)
{
    const char *dot = memchr(text.at, '.', text.len);
    size_t whole = dot ? (size_t)(dot - text.at) : text.len;
    uint64_t seconds, ns = 0;
    if (hr_date_iso8601(text.at, text.len, ret_ns) == 0) {
        return true;
    }
    if (!parse_size((struct piece){text.at, whole}, &seconds) || seconds > INT64_MAX / NS - 1) {
        return false;
    }
    uint64_t unit = NS;
    for (size_t i = whole + 1; i < text.len; i++) {
        unsigned digit = (unsigned char)text.at[i] - (unsigned)'0';
        if (digit > 9) {
            return false;
        }
        unit /= 10;
        ns += digit * unit;
    }
    *ret_ns = (int64_t)(seconds * NS + ns);
    return true;
}

static void copy_etag(struct piece text, char ret[HR_INDEX_ETAG_MAX + 1])
{
    while (text.len >= 2 && text.at[0] == '"' && text.at[text.len - 1] == '"') {
        text = (struct piece){text.at + 1, text.len - 2};
    }
    bool fits = text.len <= HR_INDEX_ETAG_MAX && !memchr(text.at, '\0', text.len);
    memcpy(ret, text.at, fits ? text.len : 0);
    ret[fits ? text.len : 0] = '\0';
}

/* 1: it is there. 0: left out, and counted. */
static int admit(struct hr_textlist *list, char message[HR_TEXTLIST_MESSAGE_BYTES])
{
    const struct hr_textlist_options *options = &list->options;
    const struct hr_textlist_columns *columns = &options->columns;
    struct piece bucket = field_of(list, columns->bucket), key = field_of(list, columns->key);
    struct piece latest = field_of(list, columns->is_latest);
    struct piece marker = field_of(list, columns->is_delete_marker);
    if (columns->bucket >= 0 &&
        (bucket.len != strlen(options->bucket) || memcmp(bucket.at, options->bucket, bucket.len) != 0)) {
        return fault(list, "it is of another bucket:", bucket, message);
    }
    if (key.len == 0) {
        return fault(list, "there is no key", key, message);
    }
    if ((latest.len == 5 && strncasecmp(latest.at, "false", 5) == 0) ||
        (marker.len == 4 && strncasecmp(marker.at, "true", 4) == 0)) {
        list->figures.gone++;
        return 0;
    }
    hr_buf_reset(&list->key);
    int error = hr_percent_decode(key.at, key.len, columns->plus_is_space, &list->key);
    if (error == -ENOMEM) {
        return error;
    }
    if (error < 0 || memchr(list->key.data, '\0', list->key.len)) {
        return fault(list, "a '%' in a key is written %25, any byte but 0 as %XX:", key, message);
    }
    if (list->key.len < options->prefix_len ||
        memcmp(list->key.data, options->prefix, options->prefix_len) != 0) {
        list->figures.outside++;
        return 0;
    }
    return hr_filter_admits(options->filter, list->key.data + options->prefix_len,
                            list->key.len - options->prefix_len);
}

static int take_row(struct hr_textlist *list, char message[HR_TEXTLIST_MESSAGE_BYTES])
{
    const struct hr_textlist_options *options = &list->options;
    const struct hr_textlist_columns *columns = &options->columns;
    struct piece size_text = field_of(list, columns->size), time_text = field_of(list, columns->mtime);
    uint64_t size = 0;
    int64_t mtime_ns = 0;
    char etag[HR_INDEX_ETAG_MAX + 1];
    list->figures.rows++;
    int admitted = admit(list, message);
    if (admitted <= 0) {
        return admitted;
    }
    if (size_text.len > 0 && !parse_size(size_text, &size)) {
        return fault(list, "this is no size:", size_text, message);
    }
    if (time_text.len > 0 && !parse_time(time_text, &mtime_ns)) {
        return fault(list, "this is no time:", time_text, message);
    }
    copy_etag(field_of(list, columns->etag), etag);
    bool known = size_text.len > 0 && time_text.len > 0;
    int error = hr_builder_add(options->builder, list->key.data + options->prefix_len,
                               (uint32_t)(list->key.len - options->prefix_len), size, mtime_ns,
                               known ? etag : hr_builder_unknown);
    list->figures.keys += error == 0;
    list->figures.unknown += error == 0 && !known;
    if (error == -EINVAL) {
        return fault(list, "this cannot be a key:", field_of(list, columns->key), message);
    }
    snprintf(message, HR_TEXTLIST_MESSAGE_BYTES, "line %llu: %s", (unsigned long long)list->row_line,
             strerror(-error));
    return error;
}

/* ---- CSV ---- */

static void end_field(struct hr_textlist *list)
{
    if (list->field_count == FIELDS_MAX) {
        list->overflown = true;
        return;
    }
    list->field[++list->field_count] = (uint32_t)list->row_len;
}

static int end_row(struct hr_textlist *list, char message[HR_TEXTLIST_MESSAGE_BYTES])
{
    bool empty = list->field_count == 0 && list->row_len == 0 && list->where == AT_START;
    int error = 0;
    if (!empty) {
        end_field(list);
        error = list->overflown ? fault(list, "too many fields", (struct piece){"", 0}, message)
                                : take_row(list, message);
    }
    list->where = AT_START;
    list->row_len = 0;
    list->field_count = 0;
    list->row_line = list->line;
    return error;
}

static bool put_bytes(struct hr_textlist *list, const char *bytes, size_t len)
{
    if (len > ROW_BYTES_MAX - list->row_len) {
        return false;
    }
    memcpy(list->row + list->row_len, bytes, len);
    list->row_len += len;
    return true;
}

/* How many bytes from `at` belong to the field whatever they are. */
static size_t run_of(enum where where, const char *at, size_t len)
{
    size_t n = 0;
    if (where == IN_QUOTES) {
        const char *end = memchr(at, '"', len);
        const char *line = memchr(at, '\n', end ? (size_t)(end - at) : len);
        return line ? (size_t)(line - at) : end ? (size_t)(end - at) : len;
    }
    while (where == IN_PLAIN && n < len && at[n] != ',' && at[n] != '\n' && at[n] != '\r') {
        n++;
    }
    return n;
}

/* What ends a field or a row, and quotes. */
static int take_mark(struct hr_textlist *list, char byte, char message[HR_TEXTLIST_MESSAGE_BYTES])
{
    static const struct piece nothing = {"", 0};
    list->line += byte == '\n';
    if (list->where == IN_QUOTES) {
        if (byte == '"') {
            list->where = AT_QUOTE;
            return 0;
        }
        return put_bytes(list, &byte, 1) ? 0 : fault(list, "it is too long", nothing, message);
    }
    if (list->where == AT_START && byte == '"') {
        list->where = IN_QUOTES;
        return 0;
    }
    if (list->where == AT_QUOTE && byte == '"') {
        list->where = IN_QUOTES;
        return put_bytes(list, &byte, 1) ? 0 : fault(list, "it is too long", nothing, message);
    }
    if (byte == '\n') {
        list->where =
            list->where == AT_CR && list->field_count == 0 && list->row_len == 0 ? AT_START : list->where;
        return end_row(list, message);
    }
    if (list->where == AT_CR) {
        return fault(list, "a carriage return that no line feed follows; quote the field", nothing, message);
    }
    if (byte == '\r') {
        list->where = AT_CR;
        return 0;
    }
    if (byte == ',') {
        end_field(list);
        list->where = AT_START;
        return 0;
    }
    if (list->where == AT_QUOTE) {
        return fault(list, "something follows the closing quote", nothing, message);
    }
    list->where = IN_PLAIN;
    return put_bytes(list, &byte, 1) ? 0 : fault(list, "it is too long", nothing, message);
}

int hr_textlist_feed(struct hr_textlist *list, const char *bytes, size_t len,
                     char ret_message[HR_TEXTLIST_MESSAGE_BYTES])
{
    for (size_t at = 0; at < len;) {
        size_t run = run_of(list->where, bytes + at, len - at);
        if (!put_bytes(list, bytes + at, run)) {
            return fault(list, "it is too long", (struct piece){"", 0}, ret_message);
        }
        at += run;
        if (at < len) {
            int error = take_mark(list, bytes[at++], ret_message);
            if (error < 0) {
                return error;
            }
        }
    }
    return 0;
}

int hr_textlist_end(struct hr_textlist *list, char ret_message[HR_TEXTLIST_MESSAGE_BYTES])
{
    if (list->where == IN_QUOTES) {
        return fault(list, "a quote that does not end", (struct piece){"", 0}, ret_message);
    }
    if (list->where == AT_CR && list->field_count == 0 && list->row_len == 0) {
        list->where = AT_START;
    }
    int error = end_row(list, ret_message);
    list->line = list->row_line = 1;
    return error;
}

/* ---- S3 Inventory ---- */

static struct hr_textlist_columns no_columns(void)
{
    return (struct hr_textlist_columns){.key = HR_TEXTLIST_NONE,
                                        .size = HR_TEXTLIST_NONE,
                                        .mtime = HR_TEXTLIST_NONE,
                                        .etag = HR_TEXTLIST_NONE,
                                        .bucket = HR_TEXTLIST_NONE,
                                        .is_latest = HR_TEXTLIST_NONE,
                                        .is_delete_marker = HR_TEXTLIST_NONE,
                                        .plus_is_space = true};
}

int hr_textlist_schema(const char *schema, struct hr_textlist_columns *ret)
{
    struct hr_textlist_columns columns = no_columns();
    const struct {
        const char *name;
        int *column;
    } names[] = {{"Bucket", &columns.bucket},
                 {"Key", &columns.key},
                 {"Size", &columns.size},
                 {"LastModifiedDate", &columns.mtime},
                 {"ETag", &columns.etag},
                 {"IsLatest", &columns.is_latest},
                 {"IsDeleteMarker", &columns.is_delete_marker}};
    for (int column = 0; *schema; column++) {
        schema += strspn(schema, " ");
        size_t len = strcspn(schema, ",");
        size_t word = len;
        while (word > 0 && schema[word - 1] == ' ') {
            word--;
        }
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            if (strlen(names[i].name) == word && strncmp(names[i].name, schema, word) == 0) {
                *names[i].column = column;
            }
        }
        schema += len + (schema[len] == ',');
    }
    if (columns.key < 0) {
        return -EINVAL;
    }
    *ret = columns;
    return 0;
}

/* A field of a row that has no commas in its fields: quotes around it are dropped. */
static bool next_field(const char **at, const char *end, struct piece *ret)
{
    if (*at > end) {
        return false;
    }
    const char *comma = memchr(*at, ',', (size_t)(end - *at));
    const char *stop = comma ? comma : end;
    *ret = (struct piece){*at, (size_t)(stop - *at)};
    if (ret->len >= 2 && ret->at[0] == '"' && ret->at[ret->len - 1] == '"') {
        *ret = (struct piece){ret->at + 1, ret->len - 2};
    }
    *at = stop + 1;
    return true;
}

static bool is_truth(struct piece text)
{
    return (text.len == 4 && strncasecmp(text.at, "true", 4) == 0) ||
           (text.len == 5 && strncasecmp(text.at, "false", 5) == 0);
}

bool hr_textlist_inventory(const char *line, size_t len, const char *bucket, struct hr_textlist_columns *ret)
{
    struct piece field[6] = {{"", 0}};
    unsigned count = 0;
    const char *newline = memchr(line, '\n', len);
    const char *end = newline ? newline : line + len;
    end -= end > line && end[-1] == '\r';
    while (count < 6 && next_field(&line, end, &field[count])) {
        count++;
    }
    uint64_t size;
    if (count < 2 || field[0].len != strlen(bucket) || memcmp(field[0].at, bucket, field[0].len) != 0 ||
        (count <= 4 && parse_size(field[1], &size))) {
        return false; /* "key,size,...": a key that is called like the bucket */
    }
    bool versions = count >= 5 && is_truth(field[3]) && is_truth(field[4]);
    return hr_textlist_schema(versions
                                  ? "Bucket,Key,VersionId,IsLatest,IsDeleteMarker,Size,LastModifiedDate,ETag"
                                  : "Bucket,Key,Size,LastModifiedDate,ETag",
                              ret) == 0;
}

/* ---- what is no list
 * ------------------------------------------------------------------------------------------ */

#define HR_INSTEAD "have S3 Inventory write CSV, or write lines of key,size,mtime,etag"

static bool begins_with(const char *bytes, size_t len, const char *word)
{
    return len >= strlen(word) && memcmp(bytes, word, strlen(word)) == 0;
}

const char *hr_textlist_foreign(const char *bytes, size_t len)
{
    static const struct {
        const char *magic, *what;
    } kinds[] = {{"PAR1", "it is Parquet, and only text can be read: " HR_INSTEAD},
                 {"ORC", "it is ORC, and only text can be read: " HR_INSTEAD},
                 {"\x28\xb5\x2f\xfd", "it is compressed by zstd, and only gzip can be read"},
                 {"\x04\x22\x4d\x18", "it is compressed by lz4, and only gzip can be read"},
                 {"BZh", "it is compressed by bzip2, and only gzip can be read"},
                 {"\xfd\x37zXZ", "it is compressed by xz, and only gzip can be read"},
                 {"PK\x03\x04", "it is a zip archive, and only gzip can be read"},
                 {"", "it is no text: " HR_INSTEAD}};
    size_t i = 0;
    if (begins_with(bytes, len, "{\"headrace_index\"")) {
        return "it is an exported index: headrace index import reads it";
    }
    if (len > 0 && bytes[0] == '{' && memmem(bytes, len, "\"fileSchema\"", 12)) {
        return "it is a manifest of S3 Inventory: headrace index import reads it";
    }
    if (!memchr(bytes, '\0', len)) {
        return NULL; /* a key may begin with any of these words */
    }
    while (!begins_with(bytes, len, kinds[i].magic)) {
        i++;
    }
    return kinds[i].what;
}
