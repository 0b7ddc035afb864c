/* What the calls under way are doing, for people who wonder what a program waits for. */
#ifndef HR_STORE_CALLS_H
#define HR_STORE_CALLS_H

#include "fetch/store/store.h"

enum hr_call_state {
    HR_CALL_ASKED,    /* a request is out, nothing has come back */
    HR_CALL_COMING,   /* its answer has begun */
    HR_CALL_RETRYING, /* the last one failed; the next goes out later */
    HR_CALL_KEYS      /* credentials are being fetched */
};

struct hr_call_doing {
    enum hr_call_state state;
    int64_t sent_ms;                   /* ago; of ASKED and COMING */
    int64_t next_ms;                   /* from now; of RETRYING */
    unsigned requests;                 /* sent so far, this one included */
    char address[80];                  /* of ASKED and COMING */
    char error[200];                   /* what the last failure said; "" when there was none */
    uint64_t range_first, range_bytes; /* range_bytes 0: whole */
};

/* The n-th call under way of this kind for exactly this key (LIST: prefix). False: there are fewer. */
bool hr_calls_doing(const struct hr_store *store, enum hr_call_kind kind, const char *key, uint32_t key_len,
                    unsigned n, struct hr_call_doing *ret);

/* The call of this store that has been under way longest, where it has failed or lasts: as its message would
 * be, and for how long it is tried yet. False: none. */
bool hr_calls_trouble(const struct hr_store *store, char ret_text[256], int64_t *ret_left_ms);

#endif
