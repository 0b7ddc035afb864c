/* dlopen, dlmopen, dlsym, dlvsym. What the real ones find depends on who calls (RPATH and $ORIGIN of dlopen,
 * RTLD_NEXT of dlsym), so they are reached by a jump: the return address stays the caller's.
 *
 * dlopen of a mapped path is a call with the cache file's name: a path with a slash needs nobody's RPATH.
 * Libraries that it wants by $ORIGIN are not found beside it; LD_LIBRARY_PATH does not lead into a map.
 * RTLD_DEEPBIND is left out: such a library would find libc's functions before ours.
 *
 * dlsym in a named library that finds a function which we stand before gives ours (ctypes'
 * CDLL('libc.so.6').open). Only if it is the one that ours would call: never one that another preload has
 * replaced. */
#define HR_LOADER_BY_CONTRACT
#define HR_SYSCALL_BY_CONTRACT
#include <fcntl.h>
#include <stdatomic.h>

#include "interpose/alias.h"
#include "interpose/path.h"
#include "interpose/sys.h"
#include "interpose/tiny.h"
#include "interpose/view.h"
#include "interpose/inner.h"

#define EVICTED_TRIES 8 /* each one fetched the object anew: a cache that small cannot serve it */

_Static_assert(RTLD_DEEPBIND == 8, "the code below has it");

typedef void *(*dlopen_fn)(const char *, int);
typedef void *(*dlmopen_fn)(Lmid_t, const char *, int);
typedef void *(*dlsym_fn)(void *, const char *);
typedef void *(*dlvsym_fn)(void *, const char *, const char *);

/* Where the code below jumps; NULL until hr_load_resolve ran. */
#define HIDDEN __attribute__((visibility("hidden")))
extern _Atomic(dlopen_fn) hr_load_dlopen HIDDEN;
extern _Atomic(dlmopen_fn) hr_load_dlmopen HIDDEN;
extern _Atomic(dlsym_fn) hr_load_dlsym HIDDEN;
extern _Atomic(dlvsym_fn) hr_load_dlvsym HIDDEN;
_Atomic(dlopen_fn) hr_load_dlopen;
_Atomic(dlmopen_fn) hr_load_dlmopen;
_Atomic(dlsym_fn) hr_load_dlsym;
_Atomic(dlvsym_fn) hr_load_dlvsym;

void hr_load_resolve(void);
bool hr_load_is_ours(const char *path);
void *hr_load_mapped(const char *path, int flags);
void *hr_load_mapped_into(Lmid_t space, const char *path, int flags);
void *hr_load_symbol(void *handle, const char *name);
void *hr_load_versioned(void *handle, const char *name, const char *version);

#if defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#if SANITIZED
/* A sanitizer's runtime calls dlsym before instrumented code may run: such a build leaves libc's in place. */
#elif defined(__x86_64__)
/* JUMP: to the real one, resolved first if need be. */
#define FUNCTION(name, look, jump)                                                                           \
    __asm__(".text\n.p2align 4\n.globl " #name "\n.type " #name ", @function\n" #name ":\n.cfi_startproc\n"  \
            "    cmpb $0, hr_active(%rip)\n"                                                                 \
            "    je 0f\n" look "0:  movq " jump "(%rip), %rax\n"                                             \
            "    testq %rax, %rax\n"                                                                         \
            "    je 2f\n"                                                                                    \
            "    jmp *%rax\n"                                                                                \
            "2:  pushq %rdi\n.cfi_adjust_cfa_offset 8\n"                                                     \
            "    pushq %rsi\n.cfi_adjust_cfa_offset 8\n"                                                     \
            "    pushq %rdx\n.cfi_adjust_cfa_offset 8\n"                                                     \
            "    call hr_load_resolve\n"                                                                     \
            "    popq %rdx\n.cfi_adjust_cfa_offset -8\n"                                                     \
            "    popq %rsi\n.cfi_adjust_cfa_offset -8\n"                                                     \
            "    popq %rdi\n.cfi_adjust_cfa_offset -8\n"                                                     \
            "    jmp *" jump "(%rip)\n"                                                                      \
            ".cfi_endproc\n.size " #name ", . - " #name "\n")
#define ASK(path)                                                                                            \
    "    pushq %rdi\n.cfi_adjust_cfa_offset 8\n"                                                             \
    "    pushq %rsi\n.cfi_adjust_cfa_offset 8\n"                                                             \
    "    pushq %rdx\n.cfi_adjust_cfa_offset 8\n" path "    call hr_load_is_ours\n"                           \
    "    popq %rdx\n.cfi_adjust_cfa_offset -8\n"                                                             \
    "    popq %rsi\n.cfi_adjust_cfa_offset -8\n"                                                             \
    "    popq %rdi\n.cfi_adjust_cfa_offset -8\n"                                                             \
    "    testb %al, %al\n"
FUNCTION(dlopen, ASK("") "    jne hr_load_mapped\n    andl $-9, %esi\n", "hr_load_dlopen");
FUNCTION(dlmopen, ASK("    movq %rsi, %rdi\n") "    jne hr_load_mapped_into\n    andl $-9, %edx\n",
         "hr_load_dlmopen");
/* RTLD_DEFAULT (0) and RTLD_NEXT (-1) find ours by themselves, or on purpose not. */
FUNCTION(dlsym, "    leaq 1(%rdi), %rax\n    cmpq $1, %rax\n    ja hr_load_symbol\n", "hr_load_dlsym");
FUNCTION(dlvsym, "    leaq 1(%rdi), %rax\n    cmpq $1, %rax\n    ja hr_load_versioned\n", "hr_load_dlvsym");
#else
#define FUNCTION(name, look, jump)                                                                           \
    __asm__(".text\n.p2align 4\n.globl " #name "\n.type " #name ", @function\n" #name ":\n.cfi_startproc\n"  \
            "    adrp x16, hr_active\n"                                                                      \
            "    ldrb w16, [x16, :lo12:hr_active]\n"                                                         \
            "    cbz w16, 0f\n" look "0:  adrp x16, " jump "\n"                                              \
            "    ldr x16, [x16, :lo12:" jump "]\n"                                                           \
            "    cbz x16, 2f\n"                                                                              \
            "    br x16\n"                                                                                   \
            "2:  stp x0, x1, [sp, #-32]!\n.cfi_adjust_cfa_offset 32\n"                                       \
            "    stp x2, x30, [sp, #16]\n.cfi_rel_offset x30, 24\n"                                          \
            "    bl hr_load_resolve\n"                                                                       \
            "    ldp x2, x30, [sp, #16]\n.cfi_restore x30\n"                                                 \
            "    ldp x0, x1, [sp], #32\n.cfi_adjust_cfa_offset -32\n"                                        \
            "    b 0b\n"                                                                                     \
            ".cfi_endproc\n.size " #name ", . - " #name "\n")
#define ASK(path)                                                                                            \
    "    stp x0, x1, [sp, #-32]!\n.cfi_adjust_cfa_offset 32\n"                                               \
    "    stp x2, x30, [sp, #16]\n.cfi_rel_offset x30, 24\n" path "    bl hr_load_is_ours\n"                  \
    "    and w16, w0, #1\n"                                                                                  \
    "    ldp x2, x30, [sp, #16]\n.cfi_restore x30\n"                                                         \
    "    ldp x0, x1, [sp], #32\n.cfi_adjust_cfa_offset -32\n"
FUNCTION(dlopen, ASK("") "    cbz w16, 1f\n    b hr_load_mapped\n1:  and w1, w1, #-9\n", "hr_load_dlopen");
FUNCTION(dlmopen, ASK("    mov x0, x1\n") "    cbz w16, 1f\n    b hr_load_mapped_into\n1:  and w2, w2, #-9\n",
         "hr_load_dlmopen");
/* RTLD_DEFAULT (0) and RTLD_NEXT (-1) find ours by themselves, or on purpose not. */
FUNCTION(dlsym, "    add x16, x0, #1\n    cmp x16, #1\n    b.ls 0f\n    b hr_load_symbol\n", "hr_load_dlsym");
FUNCTION(dlvsym, "    add x16, x0, #1\n    cmp x16, #1\n    b.ls 0f\n    b hr_load_versioned\n",
         "hr_load_dlvsym");
#endif

/* ---- the real ones ---- */

/* A program that has no loader's functions at all (before 2.34, without libdl). */
static void *none(void)
{
    return NULL;
}

static void *real_of(void *resolved, const char *name)
{
    void *found = resolved ? resolved : hr_real_elsewhere(name);
    return found ? found : (void *)none;
}

void hr_load_resolve(void)
{
    hr_real_resolve();
    atomic_store_explicit(&hr_load_dlopen, (dlopen_fn)real_of((void *)hr_real.dlopen, "dlopen"),
                          memory_order_release);
    atomic_store_explicit(&hr_load_dlmopen, (dlmopen_fn)real_of((void *)hr_real.dlmopen, "dlmopen"),
                          memory_order_release);
    atomic_store_explicit(&hr_load_dlvsym, (dlvsym_fn)real_of((void *)hr_real.dlvsym, "dlvsym"),
                          memory_order_release);
    atomic_store_explicit(&hr_load_dlsym, (dlsym_fn)real_of((void *)hr_real.dlsym, "dlsym"),
                          memory_order_release);
}

static void resolve_once(void)
{
    if (!atomic_load_explicit(&hr_load_dlsym, memory_order_acquire)) {
        hr_load_resolve();
    }
}

/* ---- dlopen ---- */

/* Named from a directory of ours it may also be a file outside: then the name changes too. */
bool hr_load_is_ours(const char *path)
{
    struct hr_place place;
    if (!path || !strchr(path, '/')) {
        return false;
    }
    return (hr_path_maybe(AT_FDCWD, path) && (hr_path_find_as(AT_FDCWD, path, true, &place) ||
                                              hr_path_outside(AT_FDCWD, path, &place) != path)) ||
           hr_alias_leads(path, &place);
}

struct target {
    bool spaced; /* dlmopen */
    Lmid_t space;
    int flags;
};

static void *load(const struct target *target, const char *path)
{
    return target->spaced ? atomic_load_explicit(&hr_load_dlmopen, memory_order_acquire)(target->space, path,
                                                                                         target->flags)
                          : atomic_load_explicit(&hr_load_dlopen, memory_order_acquire)(path, target->flags);
}

/* The loader's own error about the path that was asked for. What a local file of that name holds must not be
 * loaded. */
static void *refuse(const struct target *target, struct hr_place *place)
{
    if (place->len + 3 <= sizeof(place->path)) {
        memcpy(place->path + place->len, "/.", 3);
    } else {
        place->path[1] = '\0';
    }
    return load(target, place->path);
}

static void *load_mapped(const struct target *target, const char *path)
{
    struct hr_place place;
    char file[HR_PLACE_MAX];
    resolve_once();
    if (!hr_path_find_as(AT_FDCWD, path, true, &place) && !hr_alias_leads(path, &place)) {
        return load(target, hr_path_outside(AT_FDCWD, path, &place));
    }
    for (int tries = 0; tries < EVICTED_TRIES; tries++) {
        if (hr_view_cache_path(&place, file, sizeof(file)) < 0) {
            break;
        }
        void *handle = load(target, file);
        if (handle || HR_SYS3(SYS_faccessat, AT_FDCWD, file, F_OK) == 0) {
            return handle;
        }
    }
    return refuse(target, &place);
}

void *hr_load_mapped(const char *path, int flags)
{
    struct target target = {.flags = flags & ~RTLD_DEEPBIND};
    return load_mapped(&target, path);
}

void *hr_load_mapped_into(Lmid_t space, const char *path, int flags)
{
    struct target target = {.spaced = true, .space = space, .flags = flags & ~RTLD_DEEPBIND};
    return load_mapped(&target, path);
}

/* ---- dlsym ---- */

static bool is_called_by_ours(const void *function)
{
    void *const *slots = (void *const *)&hr_real;
    for (size_t i = 0; i < sizeof(hr_real) / sizeof(void *); i++) {
        if (slots[i] == function) {
            return true;
        }
    }
    return false;
}

static void *ours_instead(void *found, const char *name)
{
    void *ours = found && is_called_by_ours(found) ? hr_real_own(name) : NULL;
    return ours ? ours : found;
}

void *hr_load_symbol(void *handle, const char *name)
{
    resolve_once();
    return ours_instead(atomic_load_explicit(&hr_load_dlsym, memory_order_acquire)(handle, name), name);
}

/* An older version of a function is another one: only the one that ours calls is replaced. */
void *hr_load_versioned(void *handle, const char *name, const char *version)
{
    resolve_once();
    return ours_instead(atomic_load_explicit(&hr_load_dlvsym, memory_order_acquire)(handle, name, version),
                        name);
}
