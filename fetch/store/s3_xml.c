#include "fetch/store/s3_xml.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <expat.h>

#include "fetch/base/cleanup.h"
#include "fetch/base/text.h"
#include "fetch/store/etag.h"

#define DEPTH_MAX 12 /* a listing is 4 deep: ListBucketResult/Contents/Owner/ID */
/* Text of one element: a key of 1024 bytes, each as %XX, is 3 KiB; tokens of some stores carry two. */
#define TEXT_MAX_BYTES (16 * 1024)
#define ROWS_MIN 1024
/* Decoded text never exceeds the document. */
#define ARENA_MAX_BYTES SIZE_MAX

/* Where we are, by depth; everything else is skipped. */
enum place { PLACE_OUTSIDE, PLACE_LIST, PLACE_CONTENTS, PLACE_PREFIXES, PLACE_ERROR };

struct rows {
    struct hr_listed *items; /* key and etag hold offsets into the arena until the end */
    uint32_t count;
    uint32_t room;
};

struct parse {
    XML_Parser parser;
    enum place place;
    bool is_error;
    unsigned depth;
    struct hr_buf text;
    struct rows listed, prefixes;
    bool have_key, have_size;
    struct hr_listed row;
    size_t key_offset, etag_offset;
    bool url_encoded;
    bool truncated;
    char *next_token;
    struct hr_buf arena;
    struct hr_s3_error error;
    const char *why;
    int failed;
};

static void fail(struct parse *parse, int error, const char *why)
{
    if (parse->failed == 0) {
        parse->failed = error;
        parse->why = why;
        (void)XML_StopParser(parse->parser, XML_FALSE);
    }
}

/* A default prefix of the namespace is accepted: only the local name counts. */
static const char *local_name(const char *name)
{
    const char *colon = strrchr(name, ':');

    return colon != NULL ? colon + 1 : name;
}

static void enter_root(struct parse *parse, const char *name)
{
    if (strcmp(name, "ListBucketResult") == 0) {
        parse->place = PLACE_LIST;
    } else if (strcmp(name, "Error") == 0) {
        parse->place = PLACE_ERROR;
        parse->is_error = true;
    } else {
        fail(parse, -EPROTO, "neither a listing nor an error document");
    }
}

static void XMLCALL on_start(void *owner, const XML_Char *full_name, const XML_Char **attributes)
{
    struct parse *parse = owner;
    const char *name = local_name(full_name);

    (void)attributes;
    hr_buf_reset(&parse->text);
    parse->depth++;
    if (parse->depth > DEPTH_MAX) {
        fail(parse, -EPROTO, "nested too deeply");
    } else if (parse->depth == 1) {
        enter_root(parse, name);
    } else if (parse->depth == 2 && parse->place == PLACE_LIST) {
        bool contents = strcmp(name, "Contents") == 0;

        if (contents || strcmp(name, "CommonPrefixes") == 0) {
            parse->place = contents ? PLACE_CONTENTS : PLACE_PREFIXES;
            parse->row = (struct hr_listed){0};
            parse->have_key = parse->have_size = false;
            parse->key_offset = parse->etag_offset = 0;
        }
    }
}

static void XMLCALL on_text(void *owner, const XML_Char *text, int len)
{
    struct parse *parse = owner;
    int r = hr_buf_append(&parse->text, text, (size_t)len);

    if (r == -EFBIG) {
        fail(parse, -EPROTO, "an element is too long");
    } else if (r < 0) {
        fail(parse, r, "out of memory");
    }
}

static void XMLCALL on_doctype(void *owner, const XML_Char *name, const XML_Char *system_id,
                               const XML_Char *public_id, int has_internal_subset)
{
    (void)name;
    (void)system_id;
    (void)public_id;
    (void)has_internal_subset;
    fail(owner, -EPROTO, "a DOCTYPE is not accepted");
}

static int parse_size(const char *text, uint64_t *ret)
{
    uint64_t value = 0;

    if (text[0] == '\0') {
        return -EINVAL;
    }
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || value > (uint64_t)INT64_MAX / 10 - 1) {
            return -EINVAL;
        }
        value = value * 10 + (uint64_t)(*text - '0');
    }
    *ret = value;
    return 0;
}

/* Text is put away as it came; keys are decoded at the end, when EncodingType is known wherever it stood. */
static void take_string(struct parse *parse, size_t *ret_offset, uint32_t *ret_len)
{
    size_t offset = parse->arena.len;
    int r = hr_buf_append(&parse->arena, parse->text.data != NULL ? parse->text.data : "", parse->text.len);

    if (r == 0) {
        r = hr_buf_append(&parse->arena, "", 1);
    }
    if (r < 0) {
        fail(parse, r, "out of memory");
        return;
    }
    *ret_offset = offset;
    if (ret_len != NULL) {
        *ret_len = (uint32_t)parse->text.len;
    }
}

static void take_etag(struct parse *parse)
{
    const char *text = parse->text.data;
    size_t len = parse->text.len;

    hr_etag_trim(&text, &len);
    if (hr_etag_usable(text, len)) {
        memmove(parse->text.data, text, len);
        parse->text.len = len;
        parse->text.data[len] = '\0';
        take_string(parse, &parse->etag_offset, NULL);
    }
}

static void end_contents_child(struct parse *parse, const char *name, const char *text)
{
    if (strcmp(name, "Key") == 0) {
        take_string(parse, &parse->key_offset, &parse->row.key_len);
        parse->have_key = true;
    } else if (strcmp(name, "Size") == 0) {
        if (parse_size(text, &parse->row.size) < 0) {
            fail(parse, -EPROTO, "a size is not a number");
        }
        parse->have_size = true;
    } else if (strcmp(name, "LastModified") == 0) {
        /* A date we cannot read is no reason to refuse the names: it stays 0. */
        (void)hr_date_iso8601(text, parse->text.len, &parse->row.mtime_ns);
    } else if (strcmp(name, "ETag") == 0) {
        take_etag(parse);
    }
}

static void end_list_child(struct parse *parse, const char *name, const char *text)
{
    if (strcmp(name, "IsTruncated") == 0) {
        parse->truncated = strcmp(text, "true") == 0;
    } else if (strcmp(name, "EncodingType") == 0) {
        parse->url_encoded = strcmp(text, "url") == 0;
    } else if (strcmp(name, "NextContinuationToken") == 0 && text[0] != '\0') {
        free(parse->next_token);
        parse->next_token = strdup(text);
        if (parse->next_token == NULL) {
            fail(parse, -ENOMEM, "out of memory");
        }
    }
}

static void copy_plain(const char *text, char *ret, size_t size)
{
    size_t used = 0;

    for (; *text != '\0' && used + 1 < size; text++) {
        char c = *text;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                     c == '-' || c == '_';

        if (plain) {
            ret[used++] = c;
        }
    }
    ret[used] = '\0';
}

static void copy_readable(const char *text, char *ret, size_t size)
{
    size_t used = 0;

    for (; *text != '\0' && used + 1 < size; text++) {
        ret[used++] = (unsigned char)*text < ' ' || *text == 0x7f ? ' ' : *text;
    }
    ret[used] = '\0';
}

static void end_error_child(struct hr_s3_error *error, const char *name, const char *text)
{
    if (strcmp(name, "Code") == 0) {
        copy_plain(text, error->code, sizeof(error->code));
    } else if (strcmp(name, "Message") == 0) {
        copy_readable(text, error->message, sizeof(error->message));
    } else if (strcmp(name, "Region") == 0) {
        copy_plain(text, error->region, sizeof(error->region));
    } else if (strcmp(name, "RequestId") == 0) {
        copy_plain(text, error->request_id, sizeof(error->request_id));
    } else if (strcmp(name, "StorageClass") == 0) {
        copy_plain(text, error->storage_class, sizeof(error->storage_class));
    }
}

static void add_row(struct parse *parse, struct rows *rows)
{
    if (rows->count == rows->room) {
        size_t room = rows->room == 0 ? ROWS_MIN : (size_t)rows->room * 2;
        struct hr_listed *items = NULL;

        if (room <= UINT32_MAX) {
            items = reallocarray(rows->items, room, sizeof(*items));
        }
        if (items == NULL) {
            fail(parse, -ENOMEM, "out of memory");
            return;
        }
        rows->items = items;
        rows->room = (uint32_t)room;
    }
    /* Offset 0 is the empty string put there at the start. */
    parse->row.key = (const char *)(uintptr_t)parse->key_offset;
    parse->row.etag = (const char *)(uintptr_t)parse->etag_offset;
    rows->items[rows->count++] = parse->row;
}

static void end_row(struct parse *parse)
{
    bool contents = parse->place == PLACE_CONTENTS;

    parse->place = PLACE_LIST;
    if (!parse->have_key || parse->row.key_len == 0 || (contents && !parse->have_size)) {
        fail(parse, -EPROTO, "an entry without a key or size");
        return;
    }
    add_row(parse, contents ? &parse->listed : &parse->prefixes);
}

static void XMLCALL on_end(void *owner, const XML_Char *full_name)
{
    struct parse *parse = owner;
    const char *name = local_name(full_name);
    const char *text = parse->text.data != NULL ? parse->text.data : "";

    if (parse->failed != 0) {
        return;
    }
    if (parse->depth == 2 && parse->place == PLACE_ERROR) {
        end_error_child(&parse->error, name, text);
    } else if (parse->depth == 2 && parse->place == PLACE_LIST) {
        end_list_child(parse, name, text);
    } else if (parse->depth == 2 && (parse->place == PLACE_CONTENTS || parse->place == PLACE_PREFIXES)) {
        end_row(parse);
    } else if (parse->depth == 3 && parse->place == PLACE_CONTENTS) {
        end_contents_child(parse, name, text);
    } else if (parse->depth == 3 && parse->place == PLACE_PREFIXES && strcmp(name, "Prefix") == 0) {
        take_string(parse, &parse->key_offset, &parse->row.key_len);
        parse->have_key = true;
    }
    parse->depth--;
    hr_buf_reset(&parse->text);
}

/* %XX and '+' in place: the decoded text is never longer. */
static int decode_key(char *key, uint32_t *key_len, struct hr_buf *scratch)
{
    int r;

    if (memchr(key, '%', *key_len) == NULL && memchr(key, '+', *key_len) == NULL) {
        return 0;
    }
    hr_buf_reset(scratch);
    r = hr_percent_decode(key, *key_len, true, scratch);
    if (r < 0) {
        return r;
    }
    if (scratch->len > *key_len || memchr(scratch->data, '\0', scratch->len) != NULL) {
        return -EINVAL;
    }
    memcpy(key, scratch->data, scratch->len + 1);
    *key_len = (uint32_t)scratch->len;
    return 0;
}

static int finish_rows(struct parse *parse, struct rows *rows)
{
    hr_cleanup(hr_buf_release) struct hr_buf scratch = HR_BUF_INIT(TEXT_MAX_BYTES);

    for (uint32_t i = 0; i < rows->count; i++) {
        struct hr_listed *row = &rows->items[i];
        char *key = parse->arena.data + (uintptr_t)row->key;
        int r = parse->url_encoded ? decode_key(key, &row->key_len, &scratch) : 0;

        if (r < 0) {
            parse->why = r == -ENOMEM ? "out of memory" : "a key's encoding is broken";
            return r == -ENOMEM ? r : -EPROTO;
        }
        row->key = key;
        row->etag = parse->arena.data + (uintptr_t)row->etag;
    }
    return 0;
}

static void parse_release(struct parse *parse)
{
    if (parse->parser != NULL) {
        XML_ParserFree(parse->parser);
    }
    hr_buf_release(&parse->text);
    hr_buf_release(&parse->arena);
    free(parse->listed.items);
    free(parse->prefixes.items);
    free(parse->next_token);
}

static int run(struct parse *parse, const char *xml, size_t len)
{
    hr_buf_init(&parse->text, TEXT_MAX_BYTES);
    hr_buf_init(&parse->arena, ARENA_MAX_BYTES);
    parse->parser = XML_ParserCreate(NULL);
    if (parse->parser == NULL || hr_buf_append(&parse->arena, "", 1) < 0) {
        parse->why = "out of memory";
        return -ENOMEM;
    }
    XML_SetUserData(parse->parser, parse);
    XML_SetElementHandler(parse->parser, on_start, on_end);
    XML_SetCharacterDataHandler(parse->parser, on_text);
    XML_SetStartDoctypeDeclHandler(parse->parser, on_doctype);
    if (len > INT_MAX) {
        parse->why = "too long";
        return -EPROTO;
    }
    if (XML_Parse(parse->parser, xml, (int)len, XML_TRUE) != XML_STATUS_OK) {
        if (parse->failed == 0) {
            parse->why = XML_ErrorString(XML_GetErrorCode(parse->parser));
            return XML_GetErrorCode(parse->parser) == XML_ERROR_NO_MEMORY ? -ENOMEM : -EPROTO;
        }
    }
    return parse->failed;
}

int hr_s3_parse_list(const char *xml, size_t len, struct hr_s3_page *ret, struct hr_s3_error *ret_error,
                     const char **ret_why)
{
    hr_cleanup(parse_release) struct parse parse = {0};
    int r = run(&parse, xml, len);

    if (r == 0 && parse.is_error) {
        *ret_error = parse.error;
        return -EREMOTEIO;
    }
    if (r == 0) {
        r = finish_rows(&parse, &parse.listed);
    }
    if (r == 0) {
        r = finish_rows(&parse, &parse.prefixes);
    }
    if (r < 0) {
        *ret_why = parse.why;
        return r;
    }
    *ret = (struct hr_s3_page){
        .listed = hr_steal_pointer(parse.listed.items),
        .listed_count = parse.listed.count,
        .prefixes = hr_steal_pointer(parse.prefixes.items),
        .prefix_count = parse.prefixes.count,
        .next_token = hr_steal_pointer(parse.next_token),
        .truncated = parse.truncated,
        .arena = parse.arena,
    };
    parse.arena = (struct hr_buf){0};
    return 0;
}

void hr_s3_page_release(struct hr_s3_page *page)
{
    free(page->listed);
    free(page->prefixes);
    free(page->next_token);
    hr_buf_release(&page->arena);
    *page = (struct hr_s3_page){0};
}

void hr_s3_parse_error(const char *xml, size_t len, struct hr_s3_error *ret)
{
    hr_cleanup(parse_release) struct parse parse = {0};

    *ret = (struct hr_s3_error){0};
    if (len > 0 && run(&parse, xml, len) == 0 && parse.is_error) {
        *ret = parse.error;
    }
}
