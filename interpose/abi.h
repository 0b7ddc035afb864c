/* The contract between the preloaded object and the daemon: what lies in cache_dir, field by field.
 *
 * cache_dir/              0700, owned by the user of both sides, not a symlink
 *   lock                  the living daemon holds an open-file-description write lock on byte 0 (F_OFD_SETLK)
 *   sock                  Unix stream socket, 0600: attach, status, stop (fetch/serve/attach.h)
 *   control               struct hr_control, mapped read-only by clients
 *   slots                 struct hr_slots, mapped read-write by clients
 *   residents-BOOT-GEN    struct hr_residents, read-only to clients
 *   index/TREE-GEN.names  struct hr_names, read-only to everybody once published
 *   index/TREE-GEN-BOOT.states   struct hr_states, read-only to clients
 *   index/TREE-GEN-BOOT.uses     struct hr_uses, read-write for clients; hints only
 *   index/TREE-NUMBER-BOOT.dir   struct hr_names (gen is NUMBER), read-only: one directory as it was read
 *                         before there is an index; it may be replaced or removed any time
 *   objects/XX/ID         ID = file_id in 16 hex digits, XX = its last two
 *     0400                a whole object, or a segment (bytes [offset, offset + size) of a large one)
 *     0200, empty         a face, what a program holds open of a large object; it is opened O_WRONLY, so that
 *                         a read which no hook sees is an error and not an early end
 *   dirs/MAPHASH/PATH     stand-in directories, 0111 (MAPHASH: hr_map_hash, 16 hex digits)
 * BOOT and TREE are 16 lower-case hex digits, GEN 8.
 *
 * Writers: [d] the daemon only, [c] clients, [dc] both. The daemon checks everything that clients may write;
 * clients trust what the daemon wrote. A struct that changes its layout changes HR_ABI_VERSION. Everything is
 * position-independent, of fixed width, and native-endian (one machine). Grown by posix_fallocate before it
 * is published, so that no reader meets SIGBUS.
 *
 * Memory order: a writer fills, then stores the word that announces it with release; a reader loads that word
 * with acquire first. Futex words are 32 bits, shared (no FUTEX_PRIVATE_FLAG). */
#ifndef HR_ABI_H
#define HR_ABI_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HR_ABI_VERSION 4u

#define HR_MAGIC_CONTROL 0x314c525443445248ull   /* "HRDCTRL1" */
#define HR_MAGIC_SLOTS 0x31544f4c53445248ull     /* "HRDSLOT1" */
#define HR_MAGIC_RESIDENTS 0x3149534552445248ull /* "HRDRESI1" */
#define HR_MAGIC_NAMES 0x31454d414e445248ull     /* "HRDNAME1" */
#define HR_MAGIC_STATES 0x3154415453445248ull    /* "HRDSTAT1" */
#define HR_MAGIC_USES 0x3153455355445248ull      /* "HRDUSES1" */

#define HR_KEY_MAX 1024       /* bytes of an S3 key */
#define HR_NAME_BYTES_MAX 255 /* one path component, as the kernel has it */
#define HR_CONTEXTS_MAX 1024  /* jobs with different environments in one daemon's life */
#define HR_CONTEXT_MAPS_MAX 32
#define HR_TREES_MAX 1024 /* distinct endpoint+bucket+prefix+identity */
#define HR_ANSWERS 4096   /* ring of answers; power of two */
#define HR_SLOTS 1024     /* requests filled and not yet copied by the daemon; power of two */
#define HR_MESSAGE_MAX 320
/* The grid of segments: the size of a range at which S3 is cheapest a byte. */
#define HR_CELL_BYTES (8u << 20)

/* ---- control ---- */

/* A context: what one environment means. Found by its key (config/key.h). */
struct hr_context {
    uint8_t key[16];                    /* [d] */
    _Atomic uint32_t ready;             /* [d] 1: the rest holds */
    uint32_t map_count;                 /* [d] */
    uint32_t tree[HR_CONTEXT_MAPS_MAX]; /* [d] number of the tree of the n-th map, in the order hr_maps_parse
                                           gives */
};

/* A tree: the names under one prefix as one identity sees them. */
struct hr_tree {
    uint64_t id;          /* [d] in file names */
    uint32_t dev;         /* [d] st_dev of everything in it: one number per endpoint+bucket */
    _Atomic uint32_t gen; /* [d] generation of the published index; 0: none yet. Futex */
    int64_t start_ns;     /* [d] mtime of the root while there is no index */
    int64_t dirs_ns; /* [d] not 0: mtime of every directory in this life of the daemon, because there was no
                        index at its start: a walk that began before the listing must not see them change */
    uint64_t salt; /* [d] st_ino = hr_object_ino(salt, key): the same for every tree of one endpoint+bucket */
    uint32_t prefix_len;     /* [d] */
    char prefix[HR_KEY_MAX]; /* [d] "" or ends in '/' */
    /* The last thing that went wrong here, for people. A client that returns an error because of it prints it
     * unless slots->said[tree] shows that somebody did. */
    _Atomic uint32_t message_seq; /* [d] 0: none; odd while being written */
    char message[HR_MESSAGE_MAX]; /* [d] no secrets, one line, no newline */
};

enum hr_kind { HR_KIND_NONE = 0, HR_KIND_FILE = 1, HR_KIND_DIR = 2 };

/* Answer to a request that carried a ticket: answers[ticket % HR_ANSWERS]. `word` becomes ticket - 1 before
 * anything is written and the ticket after it; a word ahead of one's ticket (signed difference) means
 * overwritten: ask again. Copy, then check word again. */
struct hr_answer {
    _Atomic uint32_t word; /* [d] futex */
    int32_t error;         /* [d] 0 or -errno */
    uint32_t kind;         /* [d] enum hr_kind */
    uint32_t flags;        /* [d] HR_ANSWER_* */
    uint64_t size;         /* [d] bytes */
    int64_t mtime_ns;      /* [d] */
    uint64_t file_id;      /* [d] OPEN, SEGMENT, WHOLE: the cache file. DIR: NUMBER */
    uint64_t offset;       /* [d] SEGMENT: where in the object the file begins; size: the file's bytes */
    uint64_t reserved2[2];
};

#define HR_ANSWER_FACE 1u /* OPEN: file_id is a face's, size the object's */

struct hr_control {
    uint64_t magic;                 /* [d] */
    uint32_t abi_version;           /* [d] */
    uint32_t uid;                   /* [d] */
    uint64_t boot;                  /* [d] random, one a daemon's life */
    uint64_t cache_dev;             /* [d] st_dev that fstat reports for a cache file */
    uint32_t daemon_pid;            /* [d] for people only: pid namespaces differ */
    _Atomic uint32_t retired;       /* [d] 1: another control file has taken the name; map that one. Futex */
    _Atomic uint64_t heartbeat_ms;  /* [d] CLOCK_MONOTONIC, advanced at least every HR_HEARTBEAT_MS */
    _Atomic uint32_t residents_gen; /* [d] 0 until there is one */
    _Atomic uint32_t context_count; /* [d] contexts[0..count) were ever used */
    _Atomic uint32_t tree_count;    /* [d] */
    _Atomic uint32_t use_clock;     /* [d] what clients note in uses (low byte, never 0) */
    struct hr_answer answers[HR_ANSWERS];
    struct hr_context contexts[HR_CONTEXTS_MAX];
    struct hr_tree trees[HR_TREES_MAX];
};

#define HR_HEARTBEAT_MS 200 /* ours; what the daemon does between two turns takes some 20 ms */
/* Older: look at the lock (five missed beats; a loaded machine misses two). */
#define HR_HEARTBEAT_STALE_MS 1000

/* ---- slots ---- */

enum hr_op {
    HR_OP_NONE = 0,
    HR_OP_FETCH = 1, /* entry of tree+gen is wanted; no ticket: wait on its state word */
    HR_OP_LOOK = 2,  /* what is path? answer: error, kind, size, mtime */
    HR_OP_OPEN = 3,  /* path is wanted, not in an index: answer adds file_id */
    /* The index is wanted (readdir): answered when tree.gen is published, or with its error. */
    HR_OP_LIST = 4,
    HR_OP_STANDIN = 5, /* make the stand-in directory of path in dirs/MAPHASH */
    HR_OP_ANNOUNCE =
        6,             /* hint, not answered: batch `entry` of stream `map_hash` is indices path[0..path_len),
                          uint32_t each, as part `gen` of `ticket` parts; tree is not used */
    HR_OP_SEGMENT = 7, /* bytes of a face's object are wanted; path is a struct hr_segment_ask, tree is not
                          used. Answer: one file that is in the cache and holds ask.offset: a segment, or the
                          whole object's file. -ESTALE: nobody knows that face (any more), or the object was
                          replaced in the store. entry: enum hr_hint; but for
                          NONE nobody waits for the answer */
    HR_OP_WHOLE = 8,   /* the same, for the whole object as one plain file. -ENOSPC: it does not fit */
    HR_OP_DIR = 9,     /* the names of directory path are wanted (readdir). Answer: file_id is the NUMBER of
                          index/TREE-NUMBER-BOOT.dir; 0: the index is published */
    HR_OP_COUNT
};

/* What a program says of a face's bytes. SEQUENTIAL, RANDOM and NORMAL are of all of them, as this process
 * reads them. */
enum hr_hint {
    HR_HINT_NONE = 0,
    HR_HINT_WILLNEED = 1, /* the range is read soon */
    HR_HINT_SEQUENTIAL = 2,
    HR_HINT_RANDOM = 3,
    HR_HINT_NORMAL = 4,   /* neither */
    HR_HINT_DONTNEED = 5, /* the range is not read again */
    HR_HINTS
};

/* What SEGMENT and WHOLE carry in place of a path. */
struct hr_segment_ask {
    uint64_t face_id;
    uint64_t offset; /* below the object's size */
    uint64_t bytes;  /* how far from offset the caller goes on: all of it is fetched side by side; at least 1,
                        cut at the object's end */
};

/* claims[i]: 0 free; else state in bits 0-1, owner pid in bits 2-31, claim time (ms, low 32 bits) in bits
 * 32-63. Claim: CAS 0 -> CLAIMED. Fill slots[i]. Announce: CAS CLAIMED -> FULL (fails when reclaimed by age:
 * start again), doorbell += 1, FUTEX_WAKE doorbell if sleeping. The daemon copies a FULL slot and stores 0; a
 * CLAIMED one older than HR_CLAIM_STALE_MS is taken back by CAS. */
#define HR_CLAIM_STATE(claim) ((unsigned)((claim)&3u))
#define HR_CLAIM_CLAIMED 1u
#define HR_CLAIM_FULL 2u
#define HR_CLAIM_MAKE(state, pid, ms)                                                                        \
    ((uint64_t)(state) | ((uint64_t)((uint32_t)(pid)&0x3fffffffu) << 2) | ((uint64_t)(uint32_t)(ms) << 32))
#define HR_CLAIM_STALE_MS 2000 /* filling takes microseconds: its owner is dead, or late and starts again */

struct hr_slot {
    uint32_t checksum; /* [c] hr_slot_checksum: one torn by a late writer is dropped, its owner asks again */
    uint32_t op;       /* [c] enum hr_op */
    uint32_t tree;     /* [c] number */
    uint32_t gen;      /* [c] FETCH: generation that `entry` belongs to */
    uint32_t entry;    /* [c] FETCH */
    uint32_t ticket;   /* [c] others: from next_ticket, never 0 */
    uint64_t map_hash; /* [c] STANDIN */
    uint32_t pid;      /* [c] for people and for counting */
    uint32_t tid;      /* [c] */
    uint32_t context;  /* [c] number */
    uint32_t path_len; /* [c] <= HR_KEY_MAX */
    char path[HR_KEY_MAX]; /* [c] relative to the map's root, no leading slash; "" is the root */
    uint8_t pad[16];
};

struct hr_slots {
    uint64_t magic;               /* [d] */
    uint32_t abi_version;         /* [d] */
    _Atomic uint32_t doorbell;    /* [c] futex */
    _Atomic uint32_t sleeping;    /* [d] 1: the daemon waits on doorbell */
    _Atomic uint32_t next_ticket; /* [c] fetch_add; a 0 is skipped */
    uint64_t boot; /* [d] equals control's, else the two do not belong together: map both again */
    uint8_t pad[32];
    _Atomic uint64_t claims[HR_SLOTS];   /* [dc] */
    _Atomic uint32_t said[HR_TREES_MAX]; /* [c] tree.message_seq that somebody printed */
    struct hr_slot slots[HR_SLOTS];      /* [c] */
};

static inline enum hr_hint hr_slot_hint(const struct hr_slot *slot)
{
    bool hint = slot->op == HR_OP_SEGMENT && slot->entry < HR_HINTS;
    return hint ? (enum hr_hint)slot->entry : HR_HINT_NONE;
}

/* FNV-1a-32 over the slot from `op` to the end of the path. */
static inline uint32_t hr_slot_checksum(const struct hr_slot *slot, uint32_t path_len)
{
    const unsigned char *bytes = (const unsigned char *)slot;
    size_t end = offsetof(struct hr_slot, path) + path_len;
    uint32_t hash = 2166136261u;
    for (size_t i = offsetof(struct hr_slot, op); i < end; i++) {
        hash = (hash ^ bytes[i]) * 16777619u;
    }
    return hash;
}

/* ---- names, states, uses ---- */

/* One sealed index file. Entry 0 is the root directory. The children of a directory are contiguous, sorted
 * bytewise by name, and have larger numbers than it; hr_dir.first ascends, so that the directory of an entry
 * is the last one that begins at or before it. Sections are 64-byte aligned, offsets from the start of the
 * file. */
struct hr_names {
    uint64_t magic;
    uint32_t abi_version;
    uint32_t gen;
    uint64_t tree_id;
    uint64_t file_bytes;
    uint64_t checksum;        /* CRC64NVME of everything behind the header */
    uint64_t header_checksum; /* CRC64NVME of this header with this field zero */
    int64_t listed_ns;        /* wall clock when the listing began */
    uint64_t entry_count;
    uint64_t dir_count;
    uint64_t file_count;
    uint64_t object_bytes;   /* sum of sizes */
    uint64_t hidden_count;   /* keys that cannot be a path (docs/design.md, names) */
    uint64_t entries_offset; /* struct hr_entry[entry_count] */
    uint64_t dirs_offset;    /* struct hr_dir[dir_count]; dirs[0] is the root */
    uint64_t hash_offset;    /* uint32_t[hash_slots]: 0 empty, else entry number (the root is not in it) */
    uint64_t hash_slots;     /* at most 3/4 full; a hash begins at hr_index_slot of it */
    uint64_t text_offset;    /* names and odd ETags, not terminated */
    uint64_t text_bytes;
    uint64_t unknown_count; /* entries with HR_ETAG_UNKNOWN */
    uint8_t reserved[40];
};

enum hr_etag_kind {
    HR_ETAG_NONE = 0, /* the store gave none */
    HR_ETAG_MD5 = 1,  /* etag = 16 bytes: 32 lower-case hex digits */
    HR_ETAG_TEXT = 2, /* etag[0..8) offset in text, etag[8..12) length */
    /* A file of names gave the name alone: nobody knows size (0), mtime and ETag (HR_STATE_BY_NAME). */
    HR_ETAG_UNKNOWN = 3,
    HR_ETAG_PARTS = 4 /* like MD5, then "-N": N is the uint32_t behind the name in text, not aligned */
};

struct hr_entry {
    uint32_t name_low; /* offset in text: name_low + (name_high << 32) */
    uint8_t name_high;
    uint8_t name_len; /* 0 for the root only */
    uint8_t kind;     /* enum hr_kind */
    uint8_t etag_kind;
    uint64_t size;    /* FILE: bytes. DIR: number of its struct hr_dir */
    int64_t mtime_ns; /* DIR: the newest below it */
    uint8_t etag[16];
};

struct hr_dir {
    uint32_t entry; /* its own entry */
    uint32_t first; /* entry number of its first child */
    uint32_t count;
    uint32_t parent; /* number of its parent's hr_dir; the root's is 0 */
};

/* State word of an entry: bits 0-1 below, bits 2-9 errno when FAILED, bits 10-31 counted up at each change.
 * A waiter reads the word, asks if it is neither RESIDENT nor FACE, then waits until the word differs from
 * what it read. */
enum {
    HR_STATE_ABSENT = 0,
    HR_STATE_RESIDENT = 1, /* file_id names the whole object's file */
    HR_STATE_FAILED = 2,
    HR_STATE_FACE = 3 /* a large object: file_id names its face */
};
#define HR_STATE_KIND(word) ((word)&3u)
#define HR_STATE_ERRNO(word) (((word) >> 2) & 0xffu)
#define HR_STATE_NEXT(word, kind, error)                                                                     \
    (((((word) >> 10) + 1u) << 10) | ((uint32_t)((error)&0xff) << 2) | (uint32_t)(kind))
/* FAILED with this errno: what the index says of the entry (but its name) does not hold, the store has
 * another version or nobody knew it. Ask by path (LOOK, OPEN), as where there is no index. */
#define HR_STATE_BY_NAME_ERRNO 11 /* EAGAIN */
#define HR_STATE_BY_NAME(word)                                                                               \
    (HR_STATE_KIND(word) == HR_STATE_FAILED && HR_STATE_ERRNO(word) == HR_STATE_BY_NAME_ERRNO)

struct hr_state {
    _Atomic uint32_t word; /* [d] futex */
    uint32_t reserved;
    _Atomic uint64_t file_id; /* [d] valid when RESIDENT or FACE; an ENOENT of that file means evicted: ask */
};

struct hr_states {
    uint64_t magic;
    uint32_t abi_version;
    _Atomic uint32_t retired; /* [d] 1: another generation is there */
    uint64_t boot;
    uint64_t entry_count;
    _Atomic uint32_t by_name; /* [d] entries that ever had HR_STATE_BY_NAME: 0 spares a look at their words */
    uint8_t pad[28];
    struct hr_state states[];
};

/* Entry number, and the batch (hr_batch_tag) that the loader's worker was busy with; 0: none. */
#define HR_USE(entry, tag) ((uint64_t)(tag) << 32 | (uint32_t)(entry))
#define HR_USE_ENTRY(use) ((uint32_t)(use))
#define HR_USE_TAG(use) ((uint32_t)((use) >> 32))
#define HR_USES_RING 16384 /* lossy: the daemon looks every heartbeat, 80 k opens/s fit */
struct hr_uses {
    uint64_t magic;
    uint32_t abi_version;
    _Atomic uint32_t head; /* [c] fetch_add; ring[head % HR_USES_RING] = HR_USE of what was opened */
    uint64_t entry_count;
    uint8_t pad[40];
    _Atomic uint64_t ring[HR_USES_RING]; /* [c] */
    _Atomic uint8_t last[];              /* [c] use_clock of the last open, an entry a byte; 0 never */
};

/* ---- residents: which inode is which object ---- */

/* Open addressing by hr_ino_slot(ino), linear probing; ino 0 ends a chain, HR_INO_GONE is a tombstone.
 * A record is believed when inode, size, mode 0400 and the nanoseconds of mtime (nonce) match the
 * descriptor's; of a face: inode, size 0, mode 0200 and nonce. Segments have none: nobody holds one open. */
#define HR_INO_GONE UINT64_MAX
#define HR_RESIDENT_EVICTED 1u /* may still be open somewhere */
#define HR_RESIDENT_FACE 2u    /* size is the object's, the file is empty */
struct hr_resident {
    _Atomic uint32_t seq; /* [d] odd while being written */
    uint32_t nonce;       /* [d] 0..999999999, tv_nsec of the cache file's mtime */
    _Atomic uint64_t ino; /* [d] of the cache file */
    uint64_t size;        /* [d] the object's */
    int64_t mtime_ns;     /* [d] the object's */
    uint64_t object_ino;  /* [d] st_ino to report */
    uint32_t object_dev;  /* [d] st_dev to report */
    uint32_t flags;       /* [d] HR_RESIDENT_* */
    uint64_t file_id;     /* [d] */
    uint64_t reserved;
};

struct hr_residents {
    uint64_t magic;
    uint32_t abi_version;
    _Atomic uint32_t retired; /* [d] */
    uint64_t capacity;        /* power of two */
    uint8_t pad[40];
    struct hr_resident records[];
};

static inline uint64_t hr_mix64(uint64_t x)
{
    /* splitmix64's finaliser */
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* What a loader announced as this batch and what its worker opens for it have the same tag; never 0. */
static inline uint32_t hr_batch_tag(uint32_t number, const uint32_t *indices, uint32_t count)
{
    uint64_t hash = 0xcbf29ce484222325ull ^ number;
    for (uint32_t i = 0; i < count; i++) {
        hash = (hash ^ indices[i]) * 0x100000001b3ull;
    }
    uint32_t tag = (uint32_t)(hr_mix64(hash) >> 32);
    return tag ? tag : 1;
}

static inline uint64_t hr_ino_slot(uint64_t ino, uint64_t capacity)
{
    return hr_mix64(ino) & (capacity - 1);
}

/* st_ino of a key (the full key in the bucket, without trailing slash for directories; "" for the bucket's
 * root): never 0, below 2^63 so that no reader takes it for negative. */
static inline uint64_t hr_object_ino_head(uint64_t salt, const char *key_head, size_t head_len)
{
    uint64_t hash = 0xcbf29ce484222325ull ^ salt;
    for (size_t i = 0; i < head_len; i++) {
        hash = (hash ^ (unsigned char)key_head[i]) * 0x100000001b3ull;
    }
    return hash;
}

/* What the head of the key made is done once for all names of a directory. */
static inline uint64_t hr_object_ino_tail(uint64_t head, const char *key_tail, size_t tail_len)
{
    uint64_t hash = head;
    for (size_t i = 0; i < tail_len; i++) {
        hash = (hash ^ (unsigned char)key_tail[i]) * 0x100000001b3ull;
    }
    hash = hr_mix64(hash) >> 1;
    return hash ? hash : 1;
}

static inline uint64_t hr_object_ino(uint64_t salt, const char *key_head, size_t head_len,
                                     const char *key_tail, size_t tail_len)
{
    return hr_object_ino_tail(hr_object_ino_head(salt, key_head, head_len), key_tail, tail_len);
}

_Static_assert(sizeof(struct hr_answer) == 64, "one cache line an answer");
_Static_assert(sizeof(struct hr_segment_ask) == 24, "no holes");
_Static_assert(sizeof(struct hr_slot) == 1088, "17 cache lines a slot");
_Static_assert(offsetof(struct hr_slots, claims) == 64, "claims start a line");
_Static_assert(sizeof(struct hr_names) == 192, "sections start at 192");
_Static_assert(sizeof(struct hr_entry) == 40, "the budget of bytes an object");
_Static_assert(sizeof(struct hr_dir) == 16, "");
_Static_assert(sizeof(struct hr_state) == 16, "");
_Static_assert(offsetof(struct hr_states, states) == 64, "");
_Static_assert(offsetof(struct hr_uses, ring) == 64, "");
_Static_assert(sizeof(struct hr_resident) == 64, "one cache line a resident");
_Static_assert(offsetof(struct hr_residents, records) == 64, "");

#endif
