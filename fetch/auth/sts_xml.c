/* The XML that STS answers with. */
#include "fetch/auth/documents.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <expat.h>

#include "fetch/base/buf.h"
#include "fetch/base/cleanup.h"
#include "fetch/base/text.h"

#define DEPTH_MAX 12               /* AssumeRoleResponse/AssumeRoleResult/Credentials/AccessKeyId: 4 */
#define TEXT_MAX_BYTES (16 * 1024) /* of one element: a session token runs to 4 KiB */

enum place { OUTSIDE, IN_CREDENTIALS, IN_ERROR };

struct parse {
    XML_Parser parser;
    enum place place;
    unsigned depth, place_depth;
    struct hr_buf text;
    char *id, *secret, *token, *ends;
    struct hr_refusal refusal;
    bool is_error;
    int failed;
};

static void fail(struct parse *parse, int error)
{
    if (parse->failed == 0) {
        parse->failed = error;
        (void)XML_StopParser(parse->parser, XML_FALSE);
    }
}

/* A prefix of the namespace is accepted: only the local name counts. */
static const char *local_name(const char *name)
{
    const char *colon = strrchr(name, ':');

    return colon != NULL ? colon + 1 : name;
}

static void forget_text(struct parse *parse)
{
    if (parse->text.data != NULL) {
        hr_secret_zero(parse->text.data, parse->text.len);
    }
    hr_buf_reset(&parse->text);
}

static void XMLCALL on_start(void *owner, const XML_Char *full_name, const XML_Char **attributes)
{
    struct parse *parse = owner;
    const char *name = local_name(full_name);

    (void)attributes;
    forget_text(parse);
    if (++parse->depth > DEPTH_MAX) {
        fail(parse, -EPROTO);
    } else if (parse->place == OUTSIDE && (strcmp(name, "Credentials") == 0 || strcmp(name, "Error") == 0)) {
        parse->place = name[0] == 'C' ? IN_CREDENTIALS : IN_ERROR;
        parse->place_depth = parse->depth;
        parse->is_error = parse->is_error || parse->place == IN_ERROR;
    }
}

static void XMLCALL on_text(void *owner, const XML_Char *text, int len)
{
    struct parse *parse = owner;
    int r = hr_buf_reserve(&parse->text, TEXT_MAX_BYTES - parse->text.len); /* once: growing leaves copies */

    r = r < 0 ? r : hr_buf_append(&parse->text, text, (size_t)len);
    if (r < 0) {
        fail(parse, r == -EFBIG ? -EPROTO : r);
    }
}

static void keep(struct parse *parse, char **slot)
{
    char *copy = strdup(parse->text.data != NULL ? parse->text.data : "");

    if (copy == NULL) {
        fail(parse, -ENOMEM);
        return;
    }
    hr_secret_free(*slot);
    *slot = copy;
}

static void keep_plain(const struct parse *parse, char *ret, size_t room)
{
    (void)snprintf(ret, room, "%s", parse->text.data != NULL ? parse->text.data : "");
    for (unsigned char *p = (unsigned char *)ret; *p != '\0'; p++) {
        *p = *p < ' ' || *p >= 0x7f ? '?' : *p;
    }
}

static void XMLCALL on_end(void *owner, const XML_Char *full_name)
{
    struct parse *parse = owner;
    const char *name = local_name(full_name);

    if (parse->place == IN_CREDENTIALS && parse->depth == parse->place_depth + 1) {
        char **slot = strcmp(name, "AccessKeyId") == 0       ? &parse->id
                      : strcmp(name, "SecretAccessKey") == 0 ? &parse->secret
                      : strcmp(name, "SessionToken") == 0    ? &parse->token
                      : strcmp(name, "Expiration") == 0      ? &parse->ends
                                                             : NULL;
        if (slot != NULL) {
            keep(parse, slot);
        }
    } else if (parse->place == IN_ERROR && parse->depth == parse->place_depth + 1) {
        if (strcmp(name, "Code") == 0) {
            keep_plain(parse, parse->refusal.code, sizeof(parse->refusal.code));
        } else if (strcmp(name, "Message") == 0) {
            keep_plain(parse, parse->refusal.text, sizeof(parse->refusal.text));
        }
    }
    forget_text(parse);
    if (parse->place != OUTSIDE && parse->depth == parse->place_depth) {
        parse->place = OUTSIDE;
    }
    parse->depth--;
}

static void XMLCALL on_doctype(void *owner, const XML_Char *name, const XML_Char *system_id,
                               const XML_Char *public_id, int has_internal_subset)
{
    (void)name;
    (void)system_id;
    (void)public_id;
    (void)has_internal_subset;
    fail(owner, -EPROTO);
}

static int finish(const struct parse *parse, struct hr_credentials *ret, struct hr_refusal *ret_refusal)
{
    int64_t ends_ns = 0;

    if (parse->failed != 0) {
        return parse->failed;
    }
    if (parse->is_error) {
        *ret_refusal = parse->refusal;
        return -EREMOTEIO;
    }
    if (parse->id == NULL || parse->id[0] == '\0' || parse->secret == NULL || parse->secret[0] == '\0' ||
        parse->token == NULL ||
        (parse->ends != NULL && hr_date_iso8601(parse->ends, strlen(parse->ends), &ends_ns) < 0)) {
        return -EPROTO;
    }
    int r = hr_credentials_make(parse->id, parse->secret, parse->token, "", ret);
    if (r == 0) {
        ret->expires_ms = ends_ns / 1000000;
    }
    return r;
}

int hr_document_sts(const char *text, size_t len, struct hr_credentials *ret, struct hr_refusal *ret_refusal)
{
    struct parse parse = {.parser = XML_ParserCreate(NULL), .text = HR_BUF_INIT(TEXT_MAX_BYTES)};
    int r;

    *ret_refusal = (struct hr_refusal){0};
    if (parse.parser == NULL) {
        return -ENOMEM;
    }
    XML_SetUserData(parse.parser, &parse);
    XML_SetElementHandler(parse.parser, on_start, on_end);
    XML_SetCharacterDataHandler(parse.parser, on_text);
    XML_SetStartDoctypeDeclHandler(parse.parser, on_doctype);
    if (len > INT32_MAX || XML_Parse(parse.parser, text, (int)len, 1) != XML_STATUS_OK) {
        parse.failed = parse.failed != 0 ? parse.failed : -EPROTO;
    }
    r = finish(&parse, ret, ret_refusal);
    XML_ParserFree(parse.parser);
    forget_text(&parse);
    hr_buf_release(&parse.text);
    hr_secret_free(parse.id);
    hr_secret_free(parse.secret);
    hr_secret_free(parse.token);
    hr_secret_free(parse.ends);
    return r;
}
