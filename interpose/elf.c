#include "interpose/elf.h"

#include <elf.h>
#include <stdbool.h>
#include <string.h>
#include <sys/auxv.h>

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#else
#error "an ELF machine number is needed for this architecture"
#endif

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define OWN_ORDER ELFDATA2LSB
#else
#define OWN_ORDER ELFDATA2MSB
#endif

#define HEADERS_MAX 64   /* program headers of one file; real ones have about 15 */
#define HEADERS_A_READ 8 /* on the stack: 448 bytes */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* `line` is what follows "#!", as far as it was read. */
static void identify_script(const char *line, size_t len, struct hr_elf *ret)
{
    size_t begin = 0;
    while (begin < len && is_blank(line[begin])) {
        begin++;
    }
    size_t end = begin;
    while (end < len && !is_blank(line[end]) && line[end] != '\n' && line[end] != '\0') {
        end++;
    }
    /* A name that runs to the end of a full buffer is cut off: the kernel refuses it too. */
    if (end == begin || (end == len && len + 2 >= HR_ELF_INTERP_MAX)) {
        return;
    }
    memcpy(ret->interp, line + begin, end - begin);
    ret->interp[end - begin] = '\0';
    ret->kind = HR_ELF_SCRIPT;
}

static void read_interp(hr_elf_read_fn read_fn, void *source, const Elf64_Phdr *header, struct hr_elf *ret)
{
    if (header->p_filesz < 2 || header->p_filesz > sizeof(ret->interp)) {
        return;
    }
    long got = read_fn(source, ret->interp, (size_t)header->p_filesz, header->p_offset);
    if (got != (long)header->p_filesz || ret->interp[got - 1] != '\0' || ret->interp[0] == '\0') {
        ret->interp[0] = '\0';
        return;
    }
    ret->kind = HR_ELF_DYNAMIC;
}

static void identify_own_class(hr_elf_read_fn read_fn, void *source, const Elf64_Ehdr *elf,
                               struct hr_elf *ret)
{
    if (elf->e_phnum == 0 || elf->e_phnum > HEADERS_MAX || elf->e_phentsize != sizeof(Elf64_Phdr)) {
        return;
    }
    Elf64_Phdr headers[HEADERS_A_READ];
    for (unsigned at = 0; at < elf->e_phnum; at += HEADERS_A_READ) {
        unsigned count = elf->e_phnum - at < HEADERS_A_READ ? elf->e_phnum - at : HEADERS_A_READ;
        uint64_t offset;
        if (__builtin_add_overflow(elf->e_phoff, at * sizeof(Elf64_Phdr), &offset)) {
            return;
        }
        if (read_fn(source, headers, count * sizeof(Elf64_Phdr), offset) !=
            (long)(count * sizeof(Elf64_Phdr))) {
            return;
        }
        for (unsigned i = 0; i < count; i++) {
            if (headers[i].p_type == PT_INTERP) {
                read_interp(read_fn, source, &headers[i], ret);
                return;
            }
        }
    }
    ret->kind = HR_ELF_STATIC;
}

void hr_elf_identify(hr_elf_read_fn read_fn, void *source, struct hr_elf *ret)
{
    ret->kind = HR_ELF_UNKNOWN;
    ret->interp[0] = '\0';
    union {
        char text[HR_ELF_INTERP_MAX];
        Elf64_Ehdr elf;
    } head;
    long got = read_fn(source, &head, sizeof(head), 0);
    if (got > 2 && head.text[0] == '#' && head.text[1] == '!') {
        identify_script(head.text + 2, (size_t)got - 2, ret);
        return;
    }
    /* The 32-bit header is the shorter one and has the same first 20 bytes. */
    if (got < (long)sizeof(Elf32_Ehdr) || memcmp(head.elf.e_ident, ELFMAG, SELFMAG) != 0) {
        return;
    }
    if (head.elf.e_ident[EI_CLASS] != ELFCLASS64 || head.elf.e_ident[EI_DATA] != OWN_ORDER ||
        head.elf.e_machine != OWN_MACHINE) {
        ret->kind = HR_ELF_FOREIGN;
        return;
    }
    if (got < (long)sizeof(Elf64_Ehdr) || (head.elf.e_type != ET_EXEC && head.elf.e_type != ET_DYN)) {
        return;
    }
    identify_own_class(read_fn, source, &head.elf, ret);
}

const char *hr_elf_own_interp(void)
{
    const Elf64_Phdr *headers = (const Elf64_Phdr *)getauxval(AT_PHDR);
    size_t count = getauxval(AT_PHNUM);
    if (!headers) {
        return NULL;
    }
    uintptr_t base = 0;
    const Elf64_Phdr *interp = NULL;
    for (size_t i = 0; i < count; i++) {
        if (headers[i].p_type == PT_PHDR) {
            base = (uintptr_t)headers - headers[i].p_vaddr;
        }
        if (headers[i].p_type == PT_INTERP) {
            interp = &headers[i];
        }
    }
    return interp ? (const char *)(base + interp->p_vaddr) : NULL;
}
