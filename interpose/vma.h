/* What the kernel has mapped where: /proc/self/maps. Async-signal-safe. */
#ifndef HR_VMA_H
#define HR_VMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hr_vma {
    uintptr_t start, end;
    uint64_t offset; /* in the file */
    uint64_t object; /* the number that a cache file's name is; 0: another file or none */
    int prot;
    bool shared;
};

/* The mapping that holds `address`. False: none, or it cannot be told. */
bool hr_vma_find(uintptr_t address, struct hr_vma *ret);

/* Pure: one line without its newline. */
bool hr_vma_parse(const char *line, size_t len, struct hr_vma *ret);

#endif
