#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "interpose/elf.h"

#define IMAGE_BYTES 4096
#define INTERP_AT 1024

struct image {
    unsigned char bytes[IMAGE_BYTES];
    size_t len;
};

static long read_image(void *source, void *buffer, size_t size, uint64_t offset)
{
    const struct image *image = source;
    if (offset >= image->len) {
        return 0;
    }
    size_t rest = image->len - offset;
    size_t got = size < rest ? size : rest;
    memcpy(buffer, image->bytes + offset, got);
    return (long)got;
}

static Elf64_Ehdr *header_of(struct image *image)
{
    return (Elf64_Ehdr *)image->bytes;
}

static Elf64_Phdr *segment_of(struct image *image, unsigned n)
{
    return (Elf64_Phdr *)(image->bytes + sizeof(Elf64_Ehdr)) + n;
}

/* A program of ours with `segments` program headers, the last of them PT_INTERP when there is an interpreter.
 */
static void make(struct image *image, unsigned segments, const char *interp)
{
    memset(image, 0, sizeof(*image));
    image->len = IMAGE_BYTES;
    Elf64_Ehdr *header = header_of(image);
    memcpy(header->e_ident, ELFMAG, SELFMAG);
    header->e_ident[EI_CLASS] = ELFCLASS64;
    header->e_ident[EI_DATA] = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
    header->e_type = ET_DYN;
#if defined(__x86_64__)
    header->e_machine = EM_X86_64;
#else
    header->e_machine = EM_AARCH64;
#endif
    header->e_phoff = sizeof(Elf64_Ehdr);
    header->e_phentsize = sizeof(Elf64_Phdr);
    header->e_phnum = (Elf64_Half)segments;
    for (unsigned i = 0; i < segments; i++) {
        segment_of(image, i)->p_type = PT_LOAD;
    }
    if (interp) {
        Elf64_Phdr *last = segment_of(image, segments - 1);
        last->p_type = PT_INTERP;
        last->p_offset = INTERP_AT;
        last->p_filesz = strlen(interp) + 1;
        memcpy(image->bytes + INTERP_AT, interp, strlen(interp) + 1);
    }
}

static struct hr_elf identify(struct image *image)
{
    struct hr_elf elf;
    memset(&elf, 0x5a, sizeof(elf));
    hr_elf_identify(read_image, image, &elf);
    return elf;
}

static void programs(void **state)
{
    (void)state;
    struct image image;
    for (unsigned segments = 1; segments <= 15; segments++) {
        make(&image, segments, "/lib/ld.so");
        struct hr_elf elf = identify(&image);
        assert_int_equal(elf.kind, HR_ELF_DYNAMIC);
        assert_string_equal(elf.interp, "/lib/ld.so");
        make(&image, segments, NULL);
        elf = identify(&image);
        assert_int_equal(elf.kind, HR_ELF_STATIC);
        assert_string_equal(elf.interp, "");
    }
}

static void foreign(void **state)
{
    (void)state;
    struct image image;
    make(&image, 3, "/lib/ld.so");
    header_of(&image)->e_ident[EI_CLASS] = ELFCLASS32;
    assert_int_equal(identify(&image).kind, HR_ELF_FOREIGN);
    make(&image, 3, "/lib/ld.so");
    header_of(&image)->e_ident[EI_DATA] ^= ELFDATA2LSB ^ ELFDATA2MSB;
    assert_int_equal(identify(&image).kind, HR_ELF_FOREIGN);
    make(&image, 3, NULL);
    header_of(&image)->e_machine = EM_RISCV;
    assert_int_equal(identify(&image).kind, HR_ELF_FOREIGN);
}

static void damaged(void **state)
{
    (void)state;
    struct image image;
    char longest[HR_ELF_INTERP_MAX + 8];
    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    make(&image, 3, longest);
    assert_int_equal(identify(&image).kind, HR_ELF_UNKNOWN);
    longest[HR_ELF_INTERP_MAX - 1] = '\0';
    make(&image, 3, longest);
    assert_string_equal(identify(&image).interp, longest);
    make(&image, 3, "/lib/ld.so");
    segment_of(&image, 2)->p_filesz = 4; /* its terminator lies behind */
    assert_int_equal(identify(&image).kind, HR_ELF_UNKNOWN);
    assert_string_equal(identify(&image).interp, "");
    make(&image, 3, "/lib/ld.so");
    segment_of(&image, 2)->p_offset = UINT64_MAX;
    assert_int_equal(identify(&image).kind, HR_ELF_UNKNOWN);
    make(&image, 3, NULL);
    header_of(&image)->e_phoff = UINT64_MAX - 8;
    assert_int_equal(identify(&image).kind, HR_ELF_UNKNOWN);
    make(&image, 3, NULL);
    header_of(&image)->e_phnum = 1000;
    assert_int_equal(identify(&image).kind, HR_ELF_UNKNOWN);
    make(&image, 3, NULL);
    header_of(&image)->e_type = ET_CORE;
    assert_int_equal(identify(&image).kind, HR_ELF_UNKNOWN);
}

/* Cut anywhere, a program is whole, foreign by its first bytes, or nothing. */
static void truncated(void **state)
{
    (void)state;
    struct image image;
    make(&image, 9, "/lib/ld.so");
    for (size_t len = 0; len < IMAGE_BYTES; len++) {
        image.len = len;
        enum hr_elf_kind want = len < INTERP_AT + sizeof("/lib/ld.so") ? HR_ELF_UNKNOWN : HR_ELF_DYNAMIC;
        assert_int_equal(identify(&image).kind, want);
    }
}

static void scripts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *interp; /* NULL: no script */
    } rows[] = {
        {"#!/bin/sh\nexit 0\n", "/bin/sh"},
        {"#!/bin/sh", "/bin/sh"},
        {"#! /usr/bin/env python\n", "/usr/bin/env"},
        {"#!\t /bin/sh\t-e\n", "/bin/sh"},
        {"#!python\n", "python"},
        {"#!\n/bin/sh\n", NULL},
        {"#!", NULL},
        {"#!   ", NULL},
        {"#", NULL},
        {"", NULL},
        {"# !/bin/sh\n", NULL},
        {"\n#!/bin/sh\n", NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct image image = {.len = strlen(rows[i].text)};
        memcpy(image.bytes, rows[i].text, image.len);
        struct hr_elf elf = identify(&image);
        assert_int_equal(elf.kind, rows[i].interp ? HR_ELF_SCRIPT : HR_ELF_UNKNOWN);
        assert_string_equal(elf.interp, rows[i].interp ? rows[i].interp : "");
    }
}

/* The kernel reads 256 bytes of the line: a name that does not end in them is refused, one that does is
 * whole. */
static void long_script_lines(void **state)
{
    (void)state;
    for (size_t len = 200; len < 300; len++) {
        struct image image = {.len = 2 + len + 1};
        memset(image.bytes, 'p', sizeof(image.bytes));
        memcpy(image.bytes, "#!/", 3);
        image.bytes[2 + len] = '\n';
        struct hr_elf elf = identify(&image);
        assert_int_equal(elf.kind, len + 2 < HR_ELF_INTERP_MAX ? HR_ELF_SCRIPT : HR_ELF_UNKNOWN);
        assert_int_equal(strlen(elf.interp), len + 2 < HR_ELF_INTERP_MAX ? len : 0);
    }
}

static long read_file(void *source, void *buffer, size_t size, uint64_t offset)
{
    FILE *file = source;
    if (fseek(file, (long)offset, SEEK_SET) != 0) {
        return -1;
    }
    return (long)fread(buffer, 1, size, file);
}

/* What the kernel made of this very program and what its file says are one interpreter. */
static void own_program(void **state)
{
    (void)state;
    FILE *file = fopen("/proc/self/exe", "rb");
    assert_non_null(file);
    struct hr_elf elf;
    hr_elf_identify(read_file, file, &elf);
    fclose(file);
    assert_int_equal(elf.kind, HR_ELF_DYNAMIC);
    assert_non_null(hr_elf_own_interp());
    assert_string_equal(elf.interp, hr_elf_own_interp());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs),    cmocka_unit_test(foreign), cmocka_unit_test(damaged),
        cmocka_unit_test(truncated),   cmocka_unit_test(scripts), cmocka_unit_test(long_script_lines),
        cmocka_unit_test(own_program),
    };
    return cmocka_run_group_tests_name("interpose/elf", tests, NULL, NULL);
}
