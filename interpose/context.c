#include "interpose/context.h"

#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <unistd.h>

#include "config/key.h"
#include "interpose/attach.h"
#include "interpose/live.h"
#include "interpose/sys.h"
#include "interpose/tiny.h"
#include "interpose/inner.h"

#define FAILURE_MEMO_MS 5000    /* a job of many files does not start a process for each */
#define CONTEXT_TIMEOUT_MS 2000 /* from attach's answer until the context shows in the control file */
#define TURN_TIMEOUT_MS 40000   /* longer than an attach may take: its thread is gone */
#define INTERRUPTIBLE_AFTER_MS 2000
#define RETRY_MS 10
#define DIRS_MAX 8   /* cache directories that one process sees in its life */
#define JOIN_EVERY 8 /* batches between two looks for a daemon: few calls, and few batches untold */

struct hr_maps hr_maps;

_Atomic(struct hr_live *) hr_live_current;
static _Atomic(const char *) cache_dir; /* NULL: not looked for yet */
static _Atomic uint64_t failed_until_ms;
/* Who attaches: tid in the low half, start time (ms) in the high one; 0 nobody. */
static _Atomic uint64_t turn;

static const char *intern_dir(const char *dir, size_t len)
{
    static char pool[DIRS_MAX][PATH_MAX];
    static _Atomic unsigned used;
    while (len > 1 && dir[len - 1] == '/') {
        len--;
    }
    if (len >= PATH_MAX) {
        return NULL;
    }
    const char *known = atomic_load(&cache_dir);
    if (known && strlen(known) == len && memcmp(known, dir, len) == 0) {
        return known;
    }
    unsigned slot = atomic_fetch_add(&used, 1);
    if (slot >= DIRS_MAX) {
        atomic_store(&used, DIRS_MAX);
        return NULL;
    }
    memcpy(pool[slot], dir, len);
    pool[slot][len] = '\0';
    return pool[slot];
}

/* As hr_session_dir; "" while not known. */
static const char *known_dir(void)
{
    const char *known = atomic_load_explicit(&cache_dir, memory_order_acquire);
    if (HR_UNLIKELY(!known)) {
        const char *text = hr_env("HEADRACE_CACHE_DIR");
        known = text && text[0] == '/' ? intern_dir(text, strlen(text)) : NULL;
        known = known ? known : "";
        const char *expected = NULL;
        if (!atomic_compare_exchange_strong(&cache_dir, &expected, known)) {
            known = expected;
        }
    }
    return known;
}

bool hr_session_stale(const struct hr_control *control)
{
    if (atomic_load_explicit(&control->retired, memory_order_acquire)) {
        return true;
    }
    uint64_t beat_ms = atomic_load_explicit(&control->heartbeat_ms, memory_order_relaxed);
    uint64_t now_ms = hr_now_ms();
    return now_ms > beat_ms && now_ms - beat_ms > HR_HEARTBEAT_STALE_MS;
}

/* Does somebody hold the daemon's lock? When it cannot be told, yes. */
static bool lock_is_held(const char *dir)
{
    char path[PATH_MAX];
    struct hr_out out;
    hr_out_init(&out, path, sizeof(path));
    hr_out_text(&out, dir);
    hr_out_text(&out, "/lock");
    if (hr_out_done(&out) < 0) {
        return false;
    }
    long fd = HR_SYS4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0);
    if (fd < 0) {
        return fd != -ENOENT && fd != -ENOTDIR;
    }
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    long got = HR_SYS3(SYS_fcntl, fd, F_OFD_GETLK, &lock);
    HR_SYS1(SYS_close, fd);
    return got < 0 || lock.l_type != F_UNLCK;
}

/* Our context in a control file; -ENOENT. */
static int find_context(const struct hr_control *control, uint32_t *ret)
{
    uint8_t key[HR_CONTEXT_KEY_BYTES];
    hr_context_key(environ, (uint32_t)HR_SYS0(SYS_geteuid), key);
    uint32_t count = atomic_load_explicit(&control->context_count, memory_order_acquire);
    for (uint32_t i = 0; i < count && i < HR_CONTEXTS_MAX; i++) {
        const struct hr_context *context = &control->contexts[i];
        if (atomic_load_explicit(&context->ready, memory_order_acquire) == 1 &&
            memcmp(context->key, key, sizeof(key)) == 0) {
            if (context->map_count != hr_maps.count) {
                continue;
            }
            *ret = i;
            return 0;
        }
    }
    return -ENOENT;
}

/* Maps what lies in dir and finds us in it. 0, or -errno: nobody is there, or does not know us. */
static int try_join(const char *dir)
{
    struct hr_mapping control_map;
    struct hr_mapping slots_map;
    uint32_t context;
    int error = hr_live_map(dir, "control", false, sizeof(struct hr_control), &control_map);
    if (error) {
        return error;
    }
    const struct hr_control *control = control_map.base;
    struct hr_live *old = hr_live_now();
    if (control->magic != HR_MAGIC_CONTROL || control->abi_version != HR_ABI_VERSION) {
        error = -EPROTO;
    } else if (control->uid != (uint32_t)HR_SYS0(SYS_geteuid)) {
        error = -EPERM; /* also one user in two user namespaces */
    } else if (atomic_load_explicit(&control->retired, memory_order_acquire) ||
               (hr_session_stale(control) && !lock_is_held(dir))) {
        error = -ESRCH;
    } else {
        error = find_context(control, &context);
    }
    if (!error && old && old->session.control->boot == control->boot && old->session.context == context &&
        !atomic_load_explicit(&old->session.control->retired, memory_order_acquire)) {
        hr_live_unmap(&control_map); /* the one we have already */
        return 0;
    }
    if (!error) {
        error = hr_live_map(dir, "slots", true, sizeof(struct hr_slots), &slots_map);
    }
    if (error) {
        hr_live_unmap(&control_map);
        return error;
    }
    struct hr_slots *slots = slots_map.base;
    struct hr_live *live =
        slots->magic == HR_MAGIC_SLOTS && slots->abi_version == HR_ABI_VERSION && slots->boot == control->boot
            ? hr_live_new()
            : NULL;
    if (!live) {
        hr_live_unmap(&control_map);
        hr_live_unmap(&slots_map);
        return -EPROTO;
    }
    live->session = (struct hr_session){.control = control,
                                        .slots = slots,
                                        .context = context,
                                        .maps = &control->contexts[context],
                                        .live = live};
    live->dir = dir;
    live->dir_len = (uint32_t)strlen(dir);
    atomic_store_explicit(&cache_dir, dir, memory_order_release);
    atomic_store_explicit(&hr_live_current, live, memory_order_release);
    return 0;
}

static int attach_and_join(void)
{
    char answer[PATH_MAX];
    int error = hr_attach(answer, sizeof(answer));
    if (error) {
        return error;
    }
    const char *dir = intern_dir(answer, strlen(answer));
    if (!dir) {
        hr_say("too many cache directories", NULL);
        return -EIO;
    }
    uint64_t start_ms = hr_now_ms();
    while ((error = try_join(dir)) != 0) {
        if (hr_now_ms() - start_ms > CONTEXT_TIMEOUT_MS) {
            hr_say(error == -ENOENT ? "the daemon does not know this environment: "
                   : error == -EPROTO
                       ? "another version of headrace was installed since this program started: "
                   : error == -EPERM ? "the daemon there runs as another user: "
                                     : "no daemon in ",
                   dir, NULL);
            return -EIO;
        }
        hr_sleep_ms(RETRY_MS);
    }
    return 0;
}

/* Only one thread attaches. 0: it is our turn (mine); 1: another one finished; -EINTR. */
static int take_turn(uint64_t mine, const struct hr_live *before)
{
    uint64_t start_ms = hr_now_ms();
    for (;;) {
        uint64_t holder = 0;
        if (atomic_compare_exchange_strong(&turn, &holder, mine)) {
            return 0;
        }
        /* A signal handler on top of the attaching code must not wait for itself; attaching twice is
         * harmless. */
        bool ourselves = (uint32_t)holder == (uint32_t)mine;
        /* Signed: who has it may have looked at the clock after us. */
        int32_t older_ms = (int32_t)((uint32_t)(mine >> 32) - (uint32_t)(holder >> 32));
        bool abandoned = older_ms > TURN_TIMEOUT_MS;
        uint64_t waited_ms = hr_now_ms() - start_ms;
        if (ourselves || ((abandoned || waited_ms > TURN_TIMEOUT_MS) &&
                          atomic_compare_exchange_strong(&turn, &holder, mine))) {
            return 0;
        }
        hr_sleep_ms(RETRY_MS);
        if (hr_live_now() != before) {
            return 1;
        }
    }
}

/* A session with a living daemon, whatever it takes. */
static int establish(void)
{
    struct hr_live *before = hr_live_now();
    uint64_t now_ms = hr_now_ms();
    if (now_ms < atomic_load_explicit(&failed_until_ms, memory_order_relaxed)) {
        return -EIO;
    }
    uint64_t mine = now_ms << 32 | (uint32_t)HR_SYS0(SYS_gettid);
    if (take_turn(mine, before) == 1) {
        return 0;
    }
    /* Whoever had the turn before us may have failed or succeeded meanwhile. */
    int error = 0;
    if (hr_live_now() == before) {
        if (hr_now_ms() < atomic_load_explicit(&failed_until_ms, memory_order_relaxed)) {
            error = -EIO;
        } else {
            const char *dir = known_dir();
            error = *dir ? try_join(dir) : -ENOENT;
            if (error) {
                error = attach_and_join();
            }
            if (error && error != -EINTR) {
                error = -EIO;
                atomic_store_explicit(&failed_until_ms, hr_now_ms() + FAILURE_MEMO_MS, memory_order_relaxed);
            }
        }
    }
    atomic_compare_exchange_strong(&turn, &mine, 0);
    return error;
}

void hr_session_after_fork(void)
{
    atomic_store(&turn, 0);
}

bool hr_session_peek(struct hr_session *ret)
{
    struct hr_live *live = hr_live_now();
    if (live) {
        *ret = live->session;
    }
    return live != NULL;
}

/* The place that the environment does not name, by a process that tells it; "" while it is not there. */
static const char *find_dir(void)
{
    char found[PATH_MAX];
    const char *known = known_dir();
    const char *dir = hr_attach_find(found, sizeof(found)) == 0 ? intern_dir(found, strlen(found)) : NULL;
    /* Lost to a thread that has opened something meanwhile: that one's is the daemon's. */
    return dir && atomic_compare_exchange_strong(&cache_dir, &known, dir) ? dir : known;
}

/* Where a process that has used no map looks for a daemon; "" while no look is due, or no place is known. It
 * asks for the place when workers should have opened something, and when that has taken longer. */
static const char *dir_to_join(void)
{
    static _Atomic uint32_t asked;
    uint32_t nth = atomic_fetch_add(&asked, 1);
    const char *dir = nth % JOIN_EVERY == 0 ? known_dir() : "";
    bool is_due = nth == JOIN_EVERY || nth == 8 * JOIN_EVERY || nth == 64 * JOIN_EVERY;
    return is_due && !*dir ? find_dir() : dir;
}

/* Tries it once, unless another thread attaches. */
static void join_in_turn(const char *dir)
{
    uint64_t nobody = 0, mine = hr_now_ms() << 32 | (uint32_t)HR_SYS0(SYS_gettid);
    if (atomic_compare_exchange_strong(&turn, &nobody, mine)) {
        (void)try_join(dir);
        atomic_compare_exchange_strong(&turn, &mine, 0);
    }
}

bool hr_session_follow(struct hr_session *ret)
{
    struct hr_live *live = hr_live_now();
    if ((!live || hr_session_stale(live->session.control)) && !hr_pid_is_borrowed()) {
        const char *dir = live ? live->dir : dir_to_join();
        if (*dir) {
            join_in_turn(dir);
            live = hr_live_now();
        }
    }
    if (!live || hr_session_stale(live->session.control)) {
        return false;
    }
    *ret = live->session;
    return true;
}

int hr_session_get(struct hr_session *ret)
{
    struct hr_live *live = hr_live_now();
    if (HR_UNLIKELY(!live || hr_live_retired(live))) {
        int error = establish();
        if (error) {
            return error;
        }
        live = hr_live_now();
        if (!live) {
            return -EIO;
        }
    }
    *ret = live->session;
    return 0;
}

/* Does the name `control` still lead to the file we have mapped? */
static bool control_replaced(const struct hr_live *live)
{
    struct hr_mapping mapping;
    if (hr_live_map(live->dir, "control", false, sizeof(struct hr_control), &mapping)) {
        return false;
    }
    bool other = ((const struct hr_control *)mapping.base)->boot != live->session.control->boot;
    hr_live_unmap(&mapping);
    return other;
}

int hr_session_revive(void)
{
    struct hr_live *live = hr_live_now();
    if (live) {
        if (!hr_session_stale(live->session.control)) {
            return 0;
        }
        if (!atomic_load_explicit(&live->session.control->retired, memory_order_acquire) &&
            lock_is_held(live->dir) && !control_replaced(live)) {
            return 0; /* alive, only slow */
        }
    }
    return establish();
}

const char *hr_session_dir(const struct hr_session *session)
{
    return session->live->dir;
}

int hr_session_file_path(const struct hr_session *session, uint64_t file_id, char *ret_path, size_t room)
{
    return hr_live_file_path(session->live, file_id, ret_path, room);
}

void hr_session_say(const struct hr_session *session, uint32_t tree)
{
    const struct hr_tree *from = &session->control->trees[tree];
    _Atomic uint32_t *said = &session->slots->said[tree];
    char text[HR_MESSAGE_MAX];
    uint32_t sequence = 0;
    /* Bounded: a writer that died in the middle leaves an odd number for ever. */
    for (unsigned i = 0; i < 100; i++) {
        sequence = atomic_load_explicit(&from->message_seq, memory_order_acquire);
        if (sequence & 1) {
            hr_sleep_ms(1);
            continue;
        }
        hr_copy_shared(text, from->message, sizeof(text));
        if (atomic_load_explicit(&from->message_seq, memory_order_relaxed) == sequence) {
            break;
        }
        sequence = 0;
    }
    uint32_t before = atomic_load_explicit(said, memory_order_relaxed);
    if (sequence == 0 || (sequence & 1) || before == sequence ||
        !atomic_compare_exchange_strong(said, &before, sequence)) {
        return;
    }
    text[sizeof(text) - 1] = '\0';
    hr_say(text, NULL);
}
