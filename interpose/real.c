/* The whole table, names included. */
#define HR_SYSCALL_BY_CONTRACT
#define HR_LOADER_BY_CONTRACT
#include "interpose/real.h"

#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <sys/auxv.h>

#include "interpose/sys.h"
#include "interpose/inner.h"

struct hr_real hr_real;
bool hr_ready;
bool hr_active;

static const char *own_path;

/* One row a symbol of the table. */
struct want {
    const char *name;
    void **slot;
    uint32_t gnu_hash;
    uint32_t sysv_hash;
};

/* Addresses as the dynamic section has them. */
struct object {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *gnu_hash;
    const uint32_t *sysv_hash;
    const ElfW(Half) * versions;
};

struct walk {
    struct want *wants;
    unsigned count;
    unsigned missing;
    bool behind;     /* only objects behind our own */
    bool own_passed; /* our own was seen */
    bool libc_seen;
};

/* ---- the loaded objects ---- */

/* One of them, in the loader's order. */
struct loaded {
    uintptr_t base;
    const ElfW(Dyn) * dynamic;
    const char *path;
};

typedef bool (*loaded_fn)(const struct loaded *loaded, void *pointer);

/* The loader's list, by the debugger's entry in the program's dynamic section. NULL: there is none. */
static const struct link_map *first_loaded(void)
{
    const ElfW(Phdr) *headers = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    unsigned long count = headers ? getauxval(AT_PHNUM) : 0;
    uintptr_t bias = 0;
    bool known = false;
    for (unsigned long i = 0; i < count; i++) {
        if (headers[i].p_type == PT_PHDR) {
            bias = (uintptr_t)headers - headers[i].p_vaddr;
            known = true;
        }
    }
    for (unsigned long i = 0; known && i < count; i++) {
        if (headers[i].p_type != PT_DYNAMIC) {
            continue;
        }
        for (const ElfW(Dyn) *entry = (const ElfW(Dyn) *)(bias + headers[i].p_vaddr); entry->d_tag != DT_NULL;
             entry++) {
            if (entry->d_tag == DT_DEBUG && entry->d_un.d_ptr) {
                return ((const struct r_debug *)entry->d_un.d_ptr)->r_map;
            }
        }
    }
    return NULL;
}

struct relay {
    loaded_fn visit;
    void *pointer;
};

static int relay_one(struct dl_phdr_info *info, size_t size, void *pointer)
{
    const struct relay *relay = pointer;
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
            struct loaded loaded = {.base = info->dlpi_addr,
                                    .dynamic =
                                        (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr),
                                    .path = info->dlpi_name};
            return relay->visit(&loaded, relay->pointer);
        }
    }
    return 0;
}

/* Until visit says true. Not by dl_iterate_phdr if it can be helped: a sanitizer's comes before libc's,
 * begins by asking our dlsym for libc's functions, and so ends here. */
static void for_each_loaded(loaded_fn visit, void *pointer)
{
    const struct link_map *map = first_loaded();
    if (!map) {
        struct relay relay = {.visit = visit, .pointer = pointer};
        dl_iterate_phdr(relay_one, &relay);
    }
    for (; map; map = map->l_next) {
        struct loaded loaded = {.base = map->l_addr, .dynamic = map->l_ld, .path = map->l_name};
        if (loaded.dynamic && visit(&loaded, pointer)) {
            return;
        }
    }
}

static bool is_own(const struct loaded *loaded)
{
    return loaded->dynamic == _DYNAMIC;
}

/* The kernel's, whose addresses are its own affair. */
static bool is_vdso(const struct loaded *loaded)
{
    const uintptr_t vdso_bytes_max = 1 << 16; /* two pages of code and data */
    return (uintptr_t)loaded->dynamic - getauxval(AT_SYSINFO_EHDR) < vdso_bytes_max;
}

/* ---- symbols in one of them ---- */

static uint32_t gnu_hash(const char *name)
{
    uint32_t hash = 5381;
    while (*name) {
        hash = hash * 33 + (unsigned char)*name++;
    }
    return hash;
}

static uint32_t sysv_hash(const char *name)
{
    uint32_t hash = 0;
    while (*name) {
        hash = (hash << 4) + (unsigned char)*name++;
        hash = (hash ^ ((hash & 0xf0000000u) >> 24)) & 0x0fffffffu;
    }
    return hash;
}

/* The loader relocates d_ptr in place on most architectures and leaves it alone in objects it maps read-only.
 */
static const void *at_base(uintptr_t base, uintptr_t value)
{
    return (const void *)(value < base ? base + value : value);
}

static bool read_object(const struct loaded *loaded, struct object *ret)
{
    *ret = (struct object){.base = loaded->base};
    for (const ElfW(Dyn) *entry = loaded->dynamic; entry->d_tag != DT_NULL; entry++) {
        const void *address = at_base(ret->base, entry->d_un.d_ptr);
        switch (entry->d_tag) {
        case DT_SYMTAB:
            ret->symbols = address;
            break;
        case DT_STRTAB:
            ret->strings = address;
            break;
        case DT_GNU_HASH:
            ret->gnu_hash = address;
            break;
        case DT_HASH:
            ret->sysv_hash = address;
            break;
        case DT_VERSYM:
            ret->versions = address;
            break;
        default:
            break;
        }
    }
    return ret->symbols && ret->strings && (ret->gnu_hash || ret->sysv_hash);
}

static void *call_resolver(uintptr_t address)
{
#if defined(__aarch64__)
    struct {
        unsigned long size, hwcap, hwcap2;
    } arguments = {sizeof(arguments), getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
    void *(*resolver)(unsigned long, const void *) = (void *(*)(unsigned long, const void *))address;
    return resolver(arguments.hwcap | 1ul << 62 /* _IFUNC_ARG_HWCAP */, &arguments);
#else
    void *(*resolver)(void) = (void *(*)(void))address;
    return resolver();
#endif
}

/* Own code: strcmp may be a sanitizer's, which asks dlsym, which asks us. */
static bool same_text(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

/* The function behind symbol `index` when it is a definition of `name` that a new link would take. */
static void *usable(const struct object *object, uint32_t index, const char *name)
{
    const ElfW(Sym) *symbol = &object->symbols[index];
    unsigned type = symbol->st_info & 15;
    if (symbol->st_shndx == SHN_UNDEF || symbol->st_value == 0 ||
        (type != STT_FUNC && type != STT_GNU_IFUNC)) {
        return NULL;
    }
    if (object->versions && (object->versions[index] & 0x8000u)) {
        return NULL; /* an old version, for old binaries */
    }
    if (!same_text(object->strings + symbol->st_name, name)) {
        return NULL;
    }
    uintptr_t address = object->base + symbol->st_value;
    return type == STT_GNU_IFUNC ? call_resolver(address) : (void *)address;
}

static void *find_gnu(const struct object *object, const char *name, uint32_t hash)
{
    const uint32_t *table = object->gnu_hash;
    uint32_t bucket_count = table[0];
    uint32_t first = table[1];
    uint32_t bloom_count = table[2];
    const ElfW(Addr) *bloom = (const ElfW(Addr) *)(table + 4);
    const uint32_t *buckets = (const uint32_t *)(bloom + bloom_count);
    const uint32_t *chain = buckets + bucket_count;
    enum { BITS = 8 * sizeof(ElfW(Addr)) };

    if (!bucket_count || !bloom_count) {
        return NULL;
    }
    ElfW(Addr) word = bloom[hash / BITS & (bloom_count - 1)];
    if (!(word >> (hash % BITS) & word >> ((hash >> table[3]) % BITS) & 1)) {
        return NULL;
    }
    for (uint32_t i = buckets[hash % bucket_count]; i >= first; i++) {
        uint32_t link = chain[i - first];
        if ((link | 1) == (hash | 1)) {
            void *found = usable(object, i, name);
            if (found) {
                return found;
            }
        }
        if (link & 1) {
            break;
        }
    }
    return NULL;
}

static void *find_sysv(const struct object *object, const char *name, uint32_t hash)
{
    const uint32_t *table = object->sysv_hash;
    const uint32_t *chain = table + 2 + table[0];
    if (!table[0]) {
        return NULL;
    }
    for (uint32_t i = table[2 + hash % table[0]]; i != 0 && i < table[1]; i = chain[i]) {
        void *found = usable(object, i, name);
        if (found) {
            return found;
        }
    }
    return NULL;
}

static bool visit(const struct loaded *loaded, void *pointer)
{
    struct walk *walk = pointer;
    struct object object;
    if (is_own(loaded)) {
        walk->own_passed = true;
        own_path = loaded->path;
        return false;
    }
    if ((walk->behind && !walk->own_passed) || is_vdso(loaded) || !read_object(loaded, &object)) {
        return false;
    }
    for (unsigned i = 0; i < walk->count; i++) {
        struct want *want = &walk->wants[i];
        if (*want->slot) {
            continue;
        }
        void *found = object.gnu_hash ? find_gnu(&object, want->name, want->gnu_hash)
                                      : find_sysv(&object, want->name, want->sysv_hash);
        if (found) {
            __atomic_store_n(want->slot, found, __ATOMIC_RELEASE);
            walk->missing--;
        }
    }
    /* Nothing behind libc is asked for what libc lacks: that would be some other library's private idea of
     * it. */
    static const char libc_mark[] = "__libc_start_main";
    walk->libc_seen = (object.gnu_hash ? find_gnu(&object, libc_mark, gnu_hash(libc_mark))
                                       : find_sysv(&object, libc_mark, sysv_hash(libc_mark))) != NULL;
    return walk->missing == 0 || walk->libc_seen;
}

void hr_real_resolve(void)
{
    static _Atomic bool done;
    if (atomic_load_explicit(&done, memory_order_acquire)) {
        return;
    }
    struct want wants[] = {
#define HR_SYMBOL(family, type, name, params) {#name, (void **)&hr_real.name, 0, 0},
#include "interpose/symbols.def"
#undef HR_SYMBOL
    };
    struct walk walk = {.wants = wants, .count = sizeof(wants) / sizeof(wants[0]), .behind = true};
    for (unsigned i = 0; i < walk.count; i++) {
        wants[i].gnu_hash = gnu_hash(wants[i].name);
        wants[i].sysv_hash = sysv_hash(wants[i].name);
        walk.missing += *wants[i].slot == NULL;
    }
    for_each_loaded(visit, &walk);
    if (!walk.libc_seen && walk.missing) {
        /* We come behind libc (an object that was linked with us): whatever is there. */
        walk.behind = false;
        for_each_loaded(visit, &walk);
    }
    atomic_store_explicit(&done, true, memory_order_release);
}

/* ---- one symbol, later ---- */

struct lookup {
    const char *name;
    bool own; /* in this object; else in any other */
    void *found;
};

static bool visit_for(const struct loaded *loaded, void *pointer)
{
    struct lookup *lookup = pointer;
    struct object object;
    if (is_own(loaded) != lookup->own || is_vdso(loaded) || !read_object(loaded, &object)) {
        return false;
    }
    lookup->found = object.gnu_hash ? find_gnu(&object, lookup->name, gnu_hash(lookup->name))
                                    : find_sysv(&object, lookup->name, sysv_hash(lookup->name));
    return lookup->found != NULL;
}

void *hr_real_own(const char *name)
{
    struct lookup lookup = {.name = name, .own = true};
    for_each_loaded(visit_for, &lookup);
    return lookup.found;
}

void *hr_real_elsewhere(const char *name)
{
    struct lookup lookup = {.name = name};
    for_each_loaded(visit_for, &lookup);
    return lookup.found;
}

const char *hr_real_own_path(void)
{
    hr_real_resolve();
    return own_path ? own_path : "";
}

long hr_sys(long number, long a, long b, long c, long d, long e, long f)
{
    return hr_sys_raw(number, a, b, c, d, e, f);
}

long hr_edge(long result)
{
    if (HR_UNLIKELY(result < 0 && result >= -4095)) {
        errno = (int)-result;
        return -1;
    }
    return result;
}
