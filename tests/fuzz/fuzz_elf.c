/* Any bytes as a program: identified or not, never read beyond what is there, an interpreter always
 * terminated. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Not among the objects every fuzzer links. */
#include "interpose/elf.c"

struct bytes {
    const uint8_t *data;
    size_t size;
};

static long read_bytes(void *source, void *buffer, size_t size, uint64_t offset)
{
    const struct bytes *bytes = source;
    if (offset >= bytes->size) {
        return 0;
    }
    size_t got = bytes->size - offset < size ? bytes->size - (size_t)offset : size;
    memcpy(buffer, bytes->data + offset, got);
    return (long)got;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes bytes = {data, size};
    struct hr_elf elf;
    /* Most inputs would stop at the first bytes: every other one is given ours. */
    _Alignas(Elf64_Ehdr) uint8_t own[512];
    if (size > 64 && size <= sizeof(own) && data[size - 1] % 2) {
        memcpy(own, data, size);
        memcpy(own, ELFMAG, SELFMAG);
        own[EI_CLASS] = ELFCLASS64;
        own[EI_DATA] = OWN_ORDER;
        ((Elf64_Ehdr *)own)->e_machine = OWN_MACHINE;
        ((Elf64_Ehdr *)own)->e_type = ET_DYN;
        ((Elf64_Ehdr *)own)->e_phentsize = sizeof(Elf64_Phdr);
        ((Elf64_Ehdr *)own)->e_phoff %= 128;
        bytes.data = own;
    }
    hr_elf_identify(read_bytes, &bytes, &elf);
    size_t len = strnlen(elf.interp, sizeof(elf.interp));
    bool named = elf.kind == HR_ELF_SCRIPT || elf.kind == HR_ELF_DYNAMIC;
    if (len == sizeof(elf.interp) || named != (len > 0)) {
        abort();
    }
    return 0;
}
