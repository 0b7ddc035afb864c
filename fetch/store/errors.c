#include "fetch/store/errors.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define HINT_SECRET "check the secret access key"
#define HINT_KEY "the store does not know this access key"
#define HINT_EXPIRED "the session token has expired: renew it"

/* A Code decides before the status does: stores agree on the words more than on the numbers. */
static const struct {
    const char *code;
    struct hr_verdict verdict;
} by_code[] = {
    {"SlowDown", {HR_ACTION_THROTTLED, -EIO, ""}},
    {"ServiceUnavailable", {HR_ACTION_THROTTLED, -EIO, ""}},
    {"Throttling", {HR_ACTION_THROTTLED, -EIO, ""}},
    {"ThrottlingException", {HR_ACTION_THROTTLED, -EIO, ""}},
    {"RequestLimitExceeded", {HR_ACTION_THROTTLED, -EIO, ""}},
    {"TooManyRequests", {HR_ACTION_THROTTLED, -EIO, ""}},
    {"RequestThrottled", {HR_ACTION_THROTTLED, -EIO, ""}},
    {"InternalError", {HR_ACTION_RETRY, -EIO, ""}},
    {"RequestTimeout", {HR_ACTION_RETRY, -EIO, ""}},
    {"BadDigest", {HR_ACTION_RETRY, -EIO, ""}},
    {"IncompleteBody", {HR_ACTION_RETRY, -EIO, ""}},
    {"OperationAborted", {HR_ACTION_RETRY, -EIO, ""}},
    {"RequestTimeTooSkewed", {HR_ACTION_CLOCK, -EACCES, "the clocks of this machine and the store differ"}},
    {"RequestExpired", {HR_ACTION_CLOCK, -EACCES, "the clocks of this machine and the store differ"}},
    {"RequestInTheFuture", {HR_ACTION_CLOCK, -EACCES, "the clocks of this machine and the store differ"}},
    {"ExpiredToken", {HR_ACTION_CREDENTIALS, -EACCES, HINT_EXPIRED}},
    {"ExpiredTokenException", {HR_ACTION_CREDENTIALS, -EACCES, HINT_EXPIRED}},
    {"TokenRefreshRequired", {HR_ACTION_CREDENTIALS, -EACCES, HINT_EXPIRED}},
    {"InvalidToken", {HR_ACTION_CREDENTIALS, -EACCES, "the session token is not valid"}},
    {"InvalidAccessKeyId", {HR_ACTION_CREDENTIALS, -EACCES, HINT_KEY}},
    {"XAdminUserNotFound", {HR_ACTION_CREDENTIALS, -EACCES, HINT_KEY}},
    {"SignatureDoesNotMatch", {HR_ACTION_CREDENTIALS, -EACCES, HINT_SECRET}},
    {"PermanentRedirect", {HR_ACTION_REGION, -EIO, "set the bucket's region or endpoint"}},
    {"TemporaryRedirect", {HR_ACTION_REGION, -EIO, "set the bucket's region or endpoint"}},
    {"AuthorizationHeaderMalformed", {HR_ACTION_REGION, -EIO, "set AWS_REGION to the store's region"}},
    {"IllegalLocationConstraintException", {HR_ACTION_REGION, -EIO, "set the bucket's region"}},
    {"NoSuchKey", {HR_ACTION_FAIL, -ENOENT, ""}},
    {"NoSuchVersion", {HR_ACTION_FAIL, -ENOENT, ""}},
    {"NoSuchBucket", {HR_ACTION_FAIL, -EIO, "check the bucket's name and the endpoint"}},
    {"AccessDenied", {HR_ACTION_FAIL, -EACCES, ""}},
    {"UnsupportedAlgorithm", {HR_ACTION_FAIL, -EACCES, "the store wants signed requests"}},
    {"AllAccessDisabled", {HR_ACTION_FAIL, -EACCES, ""}},
    {"AccountProblem", {HR_ACTION_FAIL, -EACCES, ""}},
    {"InvalidObjectState", {HR_ACTION_FAIL, -EACCES, "the object is archived: restore it first"}},
    {"PreconditionFailed", {HR_ACTION_FAIL, -ESTALE, "the object changed in the store"}},
    {"InvalidRange", {HR_ACTION_FAIL, -EMSGSIZE, "the object's size changed"}},
    {"KeyTooLongError", {HR_ACTION_FAIL, -ENAMETOOLONG, ""}},
};

static const struct {
    unsigned status;
    struct hr_verdict verdict;
} by_status[] = {
    {401, {HR_ACTION_FAIL, -EACCES, "the store wants credentials"}},
    {403, {HR_ACTION_FAIL, -EACCES, ""}},
    {404, {HR_ACTION_FAIL, -ENOENT, ""}},
    {408, {HR_ACTION_RETRY, -EIO, ""}},
    {409, {HR_ACTION_RETRY, -EIO, ""}},
    {410, {HR_ACTION_FAIL, -ENOENT, ""}},
    {412, {HR_ACTION_FAIL, -ESTALE, "the object changed in the store"}},
    {416, {HR_ACTION_FAIL, -EMSGSIZE, "the object's size changed"}},
    {429, {HR_ACTION_THROTTLED, -EIO, ""}},
    {501, {HR_ACTION_FAIL, -EIO, "the store does not know this request"}},
    {503, {HR_ACTION_THROTTLED, -EIO, ""}},
    {505, {HR_ACTION_FAIL, -EIO, ""}},
};

static const struct hr_verdict *find_code(const char *code)
{
    for (size_t i = 0; i < sizeof(by_code) / sizeof(by_code[0]); i++) {
        if (strcmp(by_code[i].code, code) == 0) {
            return &by_code[i].verdict;
        }
    }
    return NULL;
}

struct hr_verdict hr_errors_transport(int error)
{
    switch (error) {
    case 0:
        return (struct hr_verdict){HR_ACTION_NONE, 0, ""};
    case -ECANCELED:
        return (struct hr_verdict){HR_ACTION_FAIL, -ECANCELED, ""};
    case -ENOMEM:
        return (struct hr_verdict){HR_ACTION_RETRY, -ENOMEM, ""};
    case -EFBIG:
        return (struct hr_verdict){HR_ACTION_FAIL, -EMSGSIZE, "the answer is longer than the object was"};
    case -EPROTO:
        return (struct hr_verdict){HR_ACTION_FEW, -EIO,
                                   "check the endpoint's scheme and certificate (AWS_CA_BUNDLE)"};
    case -ECONNREFUSED:
    case -EHOSTUNREACH:
        return (struct hr_verdict){HR_ACTION_RETRY, -EIO, "check the endpoint"};
    default:
        return (struct hr_verdict){HR_ACTION_RETRY, -EIO, ""};
    }
}

struct hr_verdict hr_errors_http(unsigned status, const char *code, bool has_location)
{
    bool redirect = status == 301 || status == 302 || status == 307 || status == 308;
    const struct hr_verdict *known = find_code(code);

    if (redirect && has_location) {
        return (struct hr_verdict){HR_ACTION_REDIRECT, -EIO, "the redirect leads nowhere"};
    }
    if (redirect) {
        return (struct hr_verdict){HR_ACTION_REGION, -EIO, "set the bucket's region or endpoint"};
    }
    if (known != NULL) {
        return *known;
    }
    for (size_t i = 0; i < sizeof(by_status) / sizeof(by_status[0]); i++) {
        if (by_status[i].status == status) {
            return by_status[i].verdict;
        }
    }
    if (status >= 500) {
        return (struct hr_verdict){HR_ACTION_RETRY, -EIO, ""};
    }
    return (struct hr_verdict){HR_ACTION_FAIL, -EIO, ""};
}

struct hr_verdict hr_errors_in_success(const char *code)
{
    const struct hr_verdict *known = find_code(code);

    return known != NULL ? *known : (struct hr_verdict){HR_ACTION_FEW, -EIO, ""};
}
