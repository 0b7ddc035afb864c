#include "interpose/origin.h"

#include <fcntl.h>

#include "interpose/context.h"
#include "interpose/identity.h"
#include "interpose/sys.h"
#include "interpose/inner.h"

/* As many distinct names as are asked for one by one before a prefix is listed (README, list=auto). */
#define NOTES 64
#define NOTE_WORDS (HR_KEY_MAX / sizeof(uint64_t))

/* A name below a map's root. One that two threads wrote at the same time is neither's: it is believed when
 * its st_ino is the descriptor's. */
struct note {
    _Atomic uint32_t map;
    _Atomic uint32_t len; /* 0: none */
    _Atomic uint64_t text[NOTE_WORDS];
};

static struct note notes[NOTES];
static _Atomic uint32_t noted;

static bool holds(const struct hr_tree_view *view, uint32_t entry, uint64_t file_id)
{
    const struct hr_state *state = &view->states->states[entry];
    unsigned kind = HR_STATE_KIND(atomic_load_explicit(&state->word, memory_order_acquire));
    return (kind == HR_STATE_RESIDENT || kind == HR_STATE_FACE) &&
           atomic_load_explicit(&state->file_id, memory_order_acquire) == file_id;
}

/* The newest notes first: who asks has just opened it. */
static bool find_noted(const struct hr_tree_view *view, uint64_t file_id, uint32_t *ret_entry)
{
    uint32_t head = atomic_load_explicit(&view->uses->head, memory_order_relaxed);
    for (uint32_t i = 1; i <= HR_USES_RING && i <= head; i++) {
        uint64_t use =
            atomic_load_explicit(&view->uses->ring[(head - i) % HR_USES_RING], memory_order_relaxed);
        uint32_t entry = HR_USE_ENTRY(use);
        if (entry < view->index.names->entry_count && holds(view, entry, file_id)) {
            *ret_entry = entry;
            return true;
        }
    }
    return false;
}

static bool find_entry(const struct hr_tree_view *view, uint64_t file_id, uint32_t *ret_entry)
{
    if (find_noted(view, file_id, ret_entry)) {
        return true;
    }
    for (uint32_t entry = 0; entry < view->index.names->entry_count; entry++) {
        if (holds(view, entry, file_id)) {
            *ret_entry = entry;
            return true;
        }
    }
    return false;
}

/* The map's root; what is below it comes at `rel`. */
static void begin_place(unsigned map, struct hr_place *ret)
{
    uint32_t root = hr_maps.map[map].path_len;
    memcpy(ret->path, hr_maps.map[map].path, root);
    ret->path[root] = '/';
    ret->map = map;
    ret->rel = ret->len = root + 1;
    ret->must_be_dir = false;
}

static bool name(unsigned map, const struct hr_tree_view *view, uint32_t entry, struct hr_place *ret)
{
    begin_place(map, ret);
    int len = hr_index_path(&view->index, entry, ret->path + ret->rel, sizeof(ret->path) - ret->rel);
    ret->len += len > 0 ? (uint32_t)len : 0;
    return len > 0;
}

static bool find_listed(const struct hr_session *session, const struct hr_identity *identity,
                        struct hr_place *ret)
{
    const struct hr_tree_view *view;
    uint32_t entry;
    for (uint32_t map = 0; map < session->maps->map_count && map < hr_maps.count; map++) {
        uint32_t tree = session->maps->tree[map];
        if (tree < HR_TREES_MAX && session->control->trees[tree].dev == identity->dev &&
            hr_session_tree(session, tree, &view) == 0 && find_entry(view, identity->file_id, &entry) &&
            name(map, view, entry, ret)) {
            return true;
        }
    }
    return false;
}

bool hr_origin_of(int fd, struct hr_place *ret)
{
    struct hr_identity identity;
    struct hr_session session;
    return hr_identity_of(fd, &identity) && hr_session_peek(&session) &&
           find_listed(&session, &identity, ret);
}

/* ---- names that are not listed ---- */

void hr_origin_note(const struct hr_place *place)
{
    uint64_t text[NOTE_WORDS] = {0};
    uint32_t len = place->len - place->rel;
    if (len > HR_KEY_MAX || hr_pid_is_borrowed()) {
        return;
    }
    memcpy(text, place->path + place->rel, len);
    struct note *note = &notes[atomic_fetch_add_explicit(&noted, 1, memory_order_relaxed) % NOTES];
    for (uint32_t i = 0; i * sizeof(text[0]) < len; i++) {
        atomic_store_explicit(&note->text[i], text[i], memory_order_relaxed);
    }
    atomic_store_explicit(&note->map, place->map, memory_order_relaxed);
    atomic_store_explicit(&note->len, len, memory_order_relaxed);
}

/* The note as a place; false: there is none. */
static bool read_note(const struct note *note, struct hr_place *ret)
{
    uint64_t text[NOTE_WORDS];
    uint32_t len = atomic_load_explicit(&note->len, memory_order_relaxed);
    uint32_t map = atomic_load_explicit(&note->map, memory_order_relaxed);
    if (len == 0 || map >= hr_maps.count) {
        return false;
    }
    for (uint32_t i = 0; i * sizeof(text[0]) < len; i++) {
        text[i] = atomic_load_explicit(&note->text[i], memory_order_relaxed);
    }
    begin_place(map, ret);
    if (ret->rel + len >= sizeof(ret->path)) {
        return false;
    }
    memcpy(ret->path + ret->rel, text, len);
    ret->len += len;
    ret->path[ret->len] = '\0';
    return true;
}

static bool is_its_name(const struct hr_session *session, const struct hr_identity *identity,
                        const struct hr_place *place)
{
    uint32_t tree = place->map < session->maps->map_count ? session->maps->tree[place->map] : HR_TREES_MAX;
    if (tree >= HR_TREES_MAX) {
        return false;
    }
    const struct hr_tree *of = &session->control->trees[tree];
    uint32_t head = of->prefix_len <= HR_KEY_MAX ? of->prefix_len : HR_KEY_MAX;
    return of->dev == identity->dev && hr_object_ino(of->salt, of->prefix, head, place->path + place->rel,
                                                     place->len - place->rel) == identity->ino;
}

bool hr_origin_at(int dirfd, const char *path, struct hr_place *ret)
{
    struct hr_identity identity;
    struct hr_session session;
    int fd = (int)HR_SYS4(SYS_openat, dirfd, path, O_PATH | O_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    bool ours = hr_identity_of(fd, &identity) && hr_session_peek(&session);
    HR_SYS1(SYS_close, fd);
    bool found = ours && find_listed(&session, &identity, ret);
    for (unsigned i = 0; ours && !found && i < NOTES; i++) {
        found = read_note(&notes[i], ret) && is_its_name(&session, &identity, ret);
    }
    return found;
}
