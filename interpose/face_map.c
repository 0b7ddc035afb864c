#include "interpose/face_map.h"

#include <stdatomic.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "interpose/segment.h"
#include "interpose/sys.h"
#include "interpose/tiny.h"
#include "interpose/vma.h"
#include "interpose/inner.h"

/* Segments begin and end at multiples of it; a machine of larger pages maps wholes. */
#define SEGMENT_PAGE 4096u
#define REMEMBERED 64 /* mappings that may grow later; older ones are forgotten and do not */

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000 /* Linux 4.17 */
#endif
#ifndef MAP_SHARED_VALIDATE
#define MAP_SHARED_VALIDATE 3
#endif
/* What decides about the place alone, so about the reservation and not about the pieces in it. */
#define PLACE_FLAGS (MAP_FIXED | MAP_FIXED_NOREPLACE | PLACE_32BIT)
#ifdef MAP_32BIT
#define PLACE_32BIT MAP_32BIT
#else
#define PLACE_32BIT 0
#endif

/* One mmap call of a face. */
struct job {
    const struct hr_face *face;
    uint64_t offset;
    uint64_t bytes; /* whole pages */
    int prot, flags;
    uintptr_t at;       /* where its pieces go */
    uint64_t first_id;  /* the file of the first piece */
    uint64_t first_off; /* and the place in it */
};

static bool failed(long result)
{
    return result < 0 && result >= -4095;
}

static size_t page_bytes(void)
{
    return getauxval(AT_PAGESZ);
}

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* ---- which of them may grow: an entry a mapping, believed only while the kernel shows its first file there
 * ---- */

struct mapping {
    _Atomic uint32_t seq; /* odd while being written */
    _Atomic uintptr_t at;
    uint64_t first_id, first_off, offset, bytes;
    struct hr_face face;
};

static struct mapping mappings[REMEMBERED];
_Atomic unsigned hr_face_maps; /* ever made */

static void remember(const struct job *job)
{
    unsigned slot = atomic_fetch_add_explicit(&hr_face_maps, 1, memory_order_relaxed) % REMEMBERED;
    struct mapping *mapping = &mappings[slot];
    uint32_t seq = atomic_load_explicit(&mapping->seq, memory_order_relaxed);
    if ((seq & 1) || !atomic_compare_exchange_strong(&mapping->seq, &seq, seq + 1)) {
        return; /* not remembered: it does not grow */
    }
    atomic_thread_fence(memory_order_release); /* no field is seen before the odd number */
    mapping->first_id = job->first_id;
    mapping->first_off = job->first_off;
    mapping->offset = job->offset;
    mapping->bytes = job->bytes;
    mapping->face = *job->face;
    atomic_store_explicit(&mapping->at, job->at, memory_order_relaxed);
    atomic_store_explicit(&mapping->seq, seq + 2, memory_order_release);
}

static bool recall(uintptr_t at, struct mapping *ret, struct hr_vma *ret_vma)
{
    if (atomic_load_explicit(&hr_face_maps, memory_order_relaxed) == 0) {
        return false;
    }
    bool looked = false;
    for (unsigned i = 0; i < REMEMBERED; i++) {
        struct mapping *mapping = &mappings[i];
        uint32_t seq = atomic_load_explicit(&mapping->seq, memory_order_acquire);
        if (atomic_load_explicit(&mapping->at, memory_order_relaxed) != at || (seq & 1) || seq == 0) {
            continue;
        }
        hr_copy_shared(ret, mapping, sizeof(*ret));
        if (atomic_load_explicit(&mapping->seq, memory_order_relaxed) != seq) {
            continue;
        }
        looked = looked || hr_vma_find(at, ret_vma);
        if (looked && ret_vma->start == at && ret_vma->object == ret->first_id &&
            ret_vma->offset == ret->first_off) {
            return true;
        }
    }
    return false;
}

/* The n-th place as it was at some moment; false: empty, or being written. */
static bool peek(unsigned n, struct mapping *ret)
{
    struct mapping *mapping = &mappings[n];
    uint32_t seq = atomic_load_explicit(&mapping->seq, memory_order_acquire);
    if ((seq & 1) || seq == 0) {
        return false;
    }
    hr_copy_shared(ret, mapping, sizeof(*ret));
    return atomic_load_explicit(&mapping->seq, memory_order_relaxed) == seq;
}

/* Is it still there? */
static bool stands(const struct mapping *mapping)
{
    struct mapping same;
    struct hr_vma vma;
    return recall(mapping->at, &same, &vma) && same.face.id == mapping->face.id;
}

bool hr_face_is_mapped(uint64_t face_id)
{
    struct mapping mapping;
    for (unsigned i = 0; hr_face_maps_any() && i < REMEMBERED; i++) {
        if (peek(i, &mapping) && mapping.face.id == face_id && stands(&mapping)) {
            return true;
        }
    }
    return false;
}

void hr_face_map_advise(const void *address, size_t bytes, int advice)
{
    static const enum hr_hint hints[] = {[MADV_NORMAL] = HR_HINT_NORMAL,
                                         [MADV_RANDOM] = HR_HINT_RANDOM,
                                         [MADV_SEQUENTIAL] = HR_HINT_SEQUENTIAL};
    struct mapping mapping;
    for (unsigned i = 0; i < REMEMBERED; i++) {
        if (!peek(i, &mapping) || (uintptr_t)address < mapping.at ||
            (uintptr_t)address - mapping.at >= mapping.bytes || !stands(&mapping)) {
            continue;
        }
        if (advice == MADV_WILLNEED) {
            uint64_t skipped = (uintptr_t)address - mapping.at, left = mapping.bytes - skipped;
            hr_segment_hint(&mapping.face, mapping.offset + skipped, bytes < left ? bytes : left);
        } else if (advice >= 0 && (size_t)advice < sizeof(hints) / sizeof(*hints)) {
            hr_segment_advise(&mapping.face, 0, mapping.face.size, hints[advice]);
        }
        return;
    }
}

bool hr_face_mapped_at(const void *address)
{
    struct hr_vma vma;
    return atomic_load_explicit(&hr_face_maps, memory_order_relaxed) > 0 &&
           hr_vma_find((uintptr_t)address, &vma) && vma.object != 0;
}

/* ---- pieces ---- */

/* The segment for what lies `done` bytes into the job, opened; *ret_bytes of the job are in it. Pages beyond
 * the object's end belong to the last one. */
static int open_piece(const struct job *job, uint64_t done, struct hr_segment *ret, uint64_t *ret_bytes)
{
    uint64_t size = job->face->size, rest = job->bytes - done;
    uint64_t offset = job->offset + done;
    uint64_t look = offset < size ? offset : size - 1;
    uint64_t wanted = rest < size - look ? rest : size - look;
    int fd = hr_segment_open(job->face, look, wanted, ret);
    if (fd < 0) {
        return fd;
    }
    uint64_t end = ret->offset + ret->bytes;
    int error = look < ret->offset || look >= end || end > size ? -EIO : 0;
    if (!error && (ret->offset % SEGMENT_PAGE || (end < size && end % SEGMENT_PAGE))) {
        error = -EXDEV; /* cannot be put side by side */
    }
    if (error) {
        HR_SYS1(SYS_close, fd);
        return error;
    }
    *ret_bytes = end == size || rest < end - offset ? rest : end - offset;
    return fd;
}

/* Waits for everything, so that the mapping which is to be replaced stays until nothing should fail any more.
 */
static int wait_for_all(const struct job *job)
{
    struct hr_segment segment;
    uint64_t bytes;
    for (uint64_t done = 0; done < job->bytes; done += bytes) {
        int fd = open_piece(job, done, &segment, &bytes);
        if (fd < 0) {
            return fd == -EXDEV ? 0 : fd;
        }
        HR_SYS1(SYS_close, fd);
    }
    return 0;
}

static long map_pieces(struct job *job)
{
    int flags = (job->flags & ~PLACE_FLAGS) | MAP_FIXED;
    struct hr_segment segment;
    uint64_t bytes;
    for (uint64_t done = 0; done < job->bytes; done += bytes) {
        int fd = open_piece(job, done, &segment, &bytes);
        if (fd < 0) {
            return fd;
        }
        uint64_t place = job->offset + done - segment.offset;
        long mapped = HR_SYS6(SYS_mmap, job->at + done, bytes, job->prot, flags, fd, place);
        HR_SYS1(SYS_close, fd);
        if (failed(mapped)) {
            return mapped;
        }
        if (done == 0) {
            job->first_id = segment.file_id;
            job->first_off = place;
        }
    }
    return 0;
}

/* One file instead of pieces. */
static long map_whole(const struct job *job, uintptr_t address, int flags)
{
    int fd = hr_face_open_whole(job->face, O_CLOEXEC);
    if (fd < 0) {
        return fd;
    }
    long mapped = HR_SYS6(SYS_mmap, address, job->bytes, job->prot, flags, fd, job->offset);
    HR_SYS1(SYS_close, fd);
    return mapped;
}

static long reserve(const struct job *job, uintptr_t address)
{
    return HR_SYS6(SYS_mmap, address, job->bytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (job->flags & PLACE_FLAGS), -1, 0);
}

static long map_job(struct job *job, uintptr_t address)
{
    if (page_bytes() != SEGMENT_PAGE) {
        return map_whole(job, address, job->flags);
    }
    long result = job->flags & MAP_FIXED ? wait_for_all(job) : 0;
    if (result < 0) {
        return result;
    }
    long place = reserve(job, address);
    if (failed(place)) {
        return place;
    }
    job->at = (uintptr_t)place;
    result = map_pieces(job);
    /* ENOMEM: more pieces than a process may have mappings. */
    if (result == -EXDEV || result == -ENOMEM) {
        long whole = map_whole(job, job->at, (job->flags & ~PLACE_FLAGS) | MAP_FIXED);
        result = failed(whole) ? (result == -ENOMEM ? -ENOMEM : whole) : 0;
    } else if (result == 0) {
        remember(job);
    }
    if (result < 0) {
        HR_SYS2(SYS_munmap, job->at, job->bytes);
        return result;
    }
    return place;
}

/* What the kernel says of the arguments before it looks at the file's pages. */
static int judge(size_t bytes, int prot, int flags, int64_t offset)
{
    int type = flags & MAP_TYPE;
    size_t page = page_bytes();
    if (bytes == 0 || (uint64_t)offset % page ||
        (type != MAP_PRIVATE && type != MAP_SHARED && type != MAP_SHARED_VALIDATE) ||
        (flags & (MAP_HUGETLB | MAP_GROWSDOWN))) {
        return -EINVAL;
    }
    if (bytes > (size_t)INT64_MAX - page) {
        return -ENOMEM;
    }
    if (offset < 0 || round_up(bytes, page) > (uint64_t)INT64_MAX - (uint64_t)offset) {
        return -EOVERFLOW;
    }
    return type != MAP_PRIVATE && (prot & PROT_WRITE) ? -EACCES : 0;
}

long hr_face_mmap(const struct hr_face *face, void *address, size_t bytes, int prot, int flags,
                  int64_t offset)
{
    int error = judge(bytes, prot, flags, offset);
    if (error) {
        return error;
    }
    struct job job = {.face = face,
                      .offset = (uint64_t)offset,
                      .bytes = round_up(bytes, page_bytes()),
                      .prot = prot,
                      .flags = flags};
    return map_job(&job, (uintptr_t)address);
}

/* ---- growing ---- */

/* The rest of the object mapped behind what is there. */
static long grow_in_place(const struct mapping *mapping, const struct hr_vma *vma, uint64_t old_bytes,
                          uint64_t new_bytes)
{
    void *at = (void *)(mapping->at + old_bytes);
    long got = hr_face_mmap(&mapping->face, at, new_bytes - old_bytes, vma->prot,
                            (vma->shared ? MAP_SHARED : MAP_PRIVATE) | MAP_FIXED_NOREPLACE,
                            (int64_t)(mapping->offset + old_bytes));
    if (!failed(got) && got != (long)at) {
        HR_SYS2(SYS_munmap, got, new_bytes - old_bytes); /* a kernel that takes the address as a wish */
        return -EEXIST;
    }
    return got;
}

/* Moves mappings with what was written to them, each by itself: older kernels move no more at once. 0 or
 * -errno; *ret_moved bytes are moved. */
static long move_pieces(uintptr_t from, uintptr_t to, uint64_t bytes, uint64_t *ret_moved)
{
    struct hr_vma vma;
    uint64_t moved = 0;
    long result = 0;
    while (moved < bytes && !failed(result)) {
        uintptr_t at = from + moved;
        if (!hr_vma_find(at, &vma)) {
            result = -EFAULT;
            break;
        }
        uint64_t piece = vma.end - at < bytes - moved ? vma.end - at : bytes - moved;
        result = HR_SYS5(SYS_mremap, at, piece, piece, MREMAP_MAYMOVE | MREMAP_FIXED, to + moved);
        moved += failed(result) ? 0 : piece;
    }
    *ret_moved = moved;
    return failed(result) ? result : 0;
}

/* The rest of the object first, since only that can fail for a reason of the object's. */
static long move_private(const struct mapping *mapping, const struct hr_vma *vma, uint64_t old_bytes,
                         uint64_t new_bytes, bool fixed, void *to)
{
    uint64_t moved, back;
    struct job whole = {.face = &mapping->face,
                        .offset = mapping->offset,
                        .bytes = new_bytes,
                        .flags = fixed ? MAP_FIXED : 0,
                        .first_id = mapping->first_id,
                        .first_off = mapping->first_off};
    long got = reserve(&whole, fixed ? (uintptr_t)to : 0);
    if (failed(got)) {
        return got;
    }
    whole.at = (uintptr_t)got;
    long result = hr_face_mmap(&mapping->face, (void *)(whole.at + old_bytes), new_bytes - old_bytes,
                               vma->prot, MAP_PRIVATE | MAP_FIXED, (int64_t)(mapping->offset + old_bytes));
    if (!failed(result)) {
        result = move_pieces(mapping->at, whole.at, old_bytes, &moved);
        if (failed(result)) {
            (void)move_pieces(whole.at, mapping->at, moved, &back);
        }
    }
    if (failed(result)) {
        HR_SYS2(SYS_munmap, got, new_bytes);
        return result;
    }
    remember(&whole);
    return got;
}

static long grow_elsewhere(const struct mapping *mapping, const struct hr_vma *vma, uint64_t old_bytes,
                           uint64_t new_bytes, int flags, void *to)
{
    bool fixed = flags & MREMAP_FIXED;
    if (!(flags & MREMAP_MAYMOVE)) {
        return -ENOMEM;
    }
    if (fixed && (uintptr_t)to < mapping->at + old_bytes && mapping->at < (uintptr_t)to + new_bytes) {
        return -EINVAL;
    }
    if (!vma->shared) {
        return old_bytes > 0 ? move_private(mapping, vma, old_bytes, new_bytes, fixed, to) : -EINVAL;
    }
    long got = hr_face_mmap(&mapping->face, fixed ? to : NULL, new_bytes, vma->prot,
                            MAP_SHARED | (fixed ? MAP_FIXED : 0), (int64_t)mapping->offset);
    if (!failed(got) && old_bytes > 0) {
        HR_SYS2(SYS_munmap, mapping->at, old_bytes);
    }
    return got;
}

bool hr_face_mremap(void *old, size_t old_bytes, size_t new_bytes, int flags, void *to, long *ret)
{
    struct mapping mapping;
    struct hr_vma vma;
    size_t page = page_bytes();
    if (round_up(new_bytes, page) <= round_up(old_bytes, page) || (uintptr_t)old % page ||
        (flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED)) || flags == MREMAP_FIXED ||
        !recall((uintptr_t)old, &mapping, &vma)) {
        return false;
    }
    uint64_t have = round_up(old_bytes, page), want = round_up(new_bytes, page);
    if (new_bytes > (size_t)INT64_MAX - page) {
        *ret = -ENOMEM;
        return true;
    }
    *ret = flags & MREMAP_FIXED || have == 0 ? -EEXIST : grow_in_place(&mapping, &vma, have, want);
    if (*ret == -EEXIST) {
        *ret = grow_elsewhere(&mapping, &vma, have, want, flags, to);
    } else if (!failed(*ret)) {
        *ret = (long)mapping.at;
    }
    return true;
}
