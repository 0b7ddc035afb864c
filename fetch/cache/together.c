/* Small objects that a writer took together: their MD5s are computed side by side. What is proven here is
 * written and named as any other; what is not (parts still to come, other checksums) proves itself. */
#include <errno.h>

#include "fetch/base/md5_lanes.h"
#include "fetch/cache/put.h"
#include "fetch/cache/verify.h"
#include "fetch/store/store.h"

static bool is_md5_alone(const struct hr_verify *verify)
{
    return verify->md5 && verify->crc_kind == HR_CRC_NONE;
}

static void judge(struct hr_put *put, const struct hr_md5_message *message)
{
    put->verified = hr_verify_md5(&put->verify, message->digest, put->md5_hex);
    put->result = put->verified ? 0 : -EBADMSG;
}

void hr_puts_verify(struct hr_work *first)
{
    struct hr_put *puts[HR_WORKS_TOGETHER_MAX];
    struct hr_md5_message messages[HR_WORKS_TOGETHER_MAX];
    unsigned count = 0;
    for (struct hr_work *work = first; work && count < HR_WORKS_TOGETHER_MAX; work = work->next) {
        struct hr_put *put = hr_put_of(work);
        (void)hr_put_take_orders(put);
        if (hr_put_is_whole(put) && is_md5_alone(&put->verify)) {
            messages[count] = (struct hr_md5_message){
                .bytes = put->todo.head->bytes.data ? put->todo.head->bytes.data : "",
                .len = put->todo.head->len,
            };
            puts[count++] = put;
        }
    }
    if (count > 1 && hr_md5_many(hr_vectors_widest(), messages, count) == 0) {
        for (unsigned i = 0; i < count; i++) {
            judge(puts[i], &messages[i]);
        }
    }
}
