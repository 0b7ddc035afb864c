/* What kind of program a file is, as far as preloading goes: its ELF class, machine and interpreter, or its
 * `#!` line. Pure over a read callback; the bytes are somebody else's and are checked. No heap, no state. Any
 * thread, any signal. */
#ifndef HR_ELF_H
#define HR_ELF_H

#include <stddef.h>
#include <stdint.h>

/* Bytes with terminator: the kernel reads as many of a `#!` line (BINPRM_BUF_SIZE). */
#define HR_ELF_INTERP_MAX 256

enum hr_elf_kind {
    HR_ELF_UNKNOWN = 0, /* neither ELF nor a `#!` line, or damaged */
    HR_ELF_SCRIPT,      /* interp: what the `#!` line names */
    HR_ELF_DYNAMIC,     /* our class, byte order and machine; interp: its PT_INTERP */
    HR_ELF_STATIC,      /* our class, byte order and machine, no PT_INTERP */
    HR_ELF_FOREIGN      /* ELF of another class, byte order or machine */
};

struct hr_elf {
    enum hr_elf_kind kind;
    char interp[HR_ELF_INTERP_MAX]; /* terminated; "" unless SCRIPT or DYNAMIC */
};

/* As pread: bytes read (short at the end of the file), or a negative errno. */
typedef long (*hr_elf_read_fn)(void *source, void *buffer, size_t size, uint64_t offset);

/* Always fills *ret; whatever cannot be read or understood is HR_ELF_UNKNOWN. At most 64 program headers are
 * looked at: a file with more (none is known) is HR_ELF_UNKNOWN. */
void hr_elf_identify(hr_elf_read_fn read_fn, void *source, struct hr_elf *ret);

/* The interpreter of the running program, from its program headers in memory; NULL when it has none. Points
 * into the program's own image. */
const char *hr_elf_own_interp(void);

#endif
