#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "interpose/child.h"
#include "interpose/context.h"
#include "interpose/path.h"
#include "interpose/real.h"

#define ENVIRONMENT(...) ((char *const *)(const char *const[]){__VA_ARGS__, NULL})

static char folder[] = "/tmp/hr-child-XXXXXX";

static const char *in_folder(const char *name)
{
    static char paths[4][PATH_MAX];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return path;
}

static void put(const char *name, const void *bytes, size_t len, mode_t mode)
{
    int fd = open(in_folder(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), (ssize_t)len);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void put_text(const char *name, const char *text, mode_t mode)
{
    put(name, text, strlen(text), mode);
}

/* The first page of this program, changed: enough of it for a judgement. */
static void put_program(const char *name, void (*change)(unsigned char *image))
{
    unsigned char image[4096];
    int fd = open("/proc/self/exe", O_RDONLY);
    assert_int_equal(read(fd, image, sizeof(image)), (ssize_t)sizeof(image));
    close(fd);
    change(image);
    put(name, image, sizeof(image), 0755);
}

static Elf64_Phdr *interp_of(unsigned char *image)
{
    Elf64_Ehdr *header = (Elf64_Ehdr *)image;
    Elf64_Phdr *segments = (Elf64_Phdr *)(image + header->e_phoff);
    for (unsigned i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type == PT_INTERP) {
            return &segments[i];
        }
    }
    fail();
    return NULL;
}

static void keep(unsigned char *image)
{
    (void)image;
}

static void make_static(unsigned char *image)
{
    interp_of(image)->p_type = PT_NULL;
}

static void make_foreign(unsigned char *image)
{
    ((Elf64_Ehdr *)image)->e_machine = EM_RISCV;
}

static void make_other_libc(unsigned char *image)
{
    image[interp_of(image)->p_offset + 2] ^= 1;
}

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(folder) || hr_maps_parse("/headrace-unit=s3://bucket/x", &hr_maps, NULL) != 0) {
        return -1;
    }
    hr_path_init(&hr_maps);
    put_program("same", keep);
    put_program("static", make_static);
    put_program("foreign", make_foreign);
    put_program("other", make_other_libc);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[PATH_MAX + 16];
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

static void without_us(void **state)
{
    (void)state;
    static const struct {
        const char *value, *want; /* want NULL: we are not in it */
    } rows[] = {
        {"/usr/lib/libheadrace.so", ""},
        {"libheadrace.so", ""},
        {"/a.so:/x/libheadrace.so:/b.so", "/a.so:/b.so"},
        {"/a.so /x/libheadrace.so", "/a.so"},
        {"/x/libheadrace.so /b.so", "/b.so"},
        {" : /x/libheadrace.so:: /b.so ", "/b.so"},
        {"/x/libheadrace.so:/y/libheadrace.so", ""},
        {"/a.so", NULL},
        {"", NULL},
        {"/x/notlibheadrace.so", NULL},
        {"/x/libheadrace.so.1", NULL},
        {"/libheadrace.so/a.so", NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char out[256];
        assert_int_equal(hr_child_without_us(rows[i].value, out), rows[i].want != NULL);
        assert_string_equal(out, rows[i].want ? rows[i].want : rows[i].value);
    }
}

static bool hooked; /* what the last judgement said */

/* As an exec would: judged, copied when asked for. NULL: envp stays. */
static char **copy_for(const char *path, char *const envp[])
{
    hr_active = true;
    errno = 77;
    long bytes = hr_child_judge(AT_FDCWD, path, envp, &hooked);
    hr_active = false;
    assert_int_equal(errno, 77);
    assert_true(bytes >= 0);
    if (bytes == 0) {
        return NULL;
    }
    /* Exactly as many bytes as it asked for, so that a sanitizer sees one too many. */
    char **copy = malloc((size_t)bytes);
    hr_child_environment(copy, envp);
    return copy;
}

static void judgements(void **state)
{
    (void)state;
    char *const *envp = ENVIRONMENT("A=1", "LD_PRELOAD=/a.so:/x/libheadrace.so", "B=2");
    static const struct {
        const char *name;
        bool stays;
    } rows[] = {{"same", true}, {"static", true}, {"foreign", false}, {"other", false}, {"absent", true}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char **copy = copy_for(in_folder(rows[i].name), envp);
        assert_int_equal(copy == NULL, rows[i].stays);
        if (copy) {
            assert_string_equal(copy[0], "A=1");
            assert_string_equal(copy[1], "LD_PRELOAD=/a.so");
            assert_string_equal(copy[2], "B=2");
            assert_null(copy[3]);
        }
        free(copy);
    }
}

static void alone_in_the_environment(void **state)
{
    (void)state;
    char *const *envp = ENVIRONMENT("LD_PRELOAD=/x/libheadrace.so", "B=2", "LD_PRELOAD=libheadrace.so /b.so");
    char **copy = copy_for(in_folder("other"), envp);
    assert_non_null(copy);
    assert_string_equal(copy[0], "B=2");
    assert_string_equal(copy[1], "LD_PRELOAD=/b.so");
    assert_null(copy[2]);
    free(copy);
    char *const *without = ENVIRONMENT("LD_PRELOAD=/b.so", "B=2");
    assert_null(copy_for(in_folder("other"), without));
    assert_null(copy_for(in_folder("other"), NULL));
}

static void inactive_reads_nothing(void **state)
{
    (void)state;
    char *const *envp = ENVIRONMENT("LD_PRELOAD=/x/libheadrace.so");
    assert_int_equal(hr_child_judge(AT_FDCWD, in_folder("other"), envp, &hooked), 0);
}

static void too_large(void **state)
{
    (void)state;
    static const char *envp[20001];
    for (int i = 0; i < 20000; i++) {
        envp[i] = "A=1";
    }
    envp[5] = "LD_PRELOAD=/x/libheadrace.so";
    assert_null(copy_for(in_folder("static"), (char *const *)envp));
}

/* Four `#!` lines are followed, a fifth is not looked at. */
static void scripts(void **state)
{
    (void)state;
    char *const *envp = ENVIRONMENT("LD_PRELOAD=/x/libheadrace.so");
    char line[PATH_MAX + 8], name[16], last[16] = "other";
    for (int level = 1; level <= 5; level++) {
        snprintf(line, sizeof(line), "#! %s -x\n", in_folder(last));
        snprintf(name, sizeof(name), "script%d", level);
        put_text(name, line, 0755);
        char **copy = copy_for(in_folder(name), envp);
        assert_int_equal(copy != NULL, level <= 4);
        free(copy);
        memcpy(last, name, sizeof(last));
    }
    snprintf(line, sizeof(line), "#!%s\n", in_folder("same"));
    put_text("keeps", line, 0755);
    assert_null(copy_for(in_folder("keeps"), envp));
    snprintf(line, sizeof(line), "#!%s\n", in_folder("loop"));
    put_text("loop", line, 0755);
    assert_null(copy_for(in_folder("loop"), envp));
}

static void what_is_no_file(void **state)
{
    (void)state;
    char *const *envp = ENVIRONMENT("LD_PRELOAD=/x/libheadrace.so");
    assert_null(copy_for(folder, envp));
    assert_int_equal(mkfifo(in_folder("fifo"), 0755), 0);
    assert_null(copy_for(in_folder("fifo"), envp));
    put_text("text", "no program\n", 0755);
    assert_null(copy_for(in_folder("text"), envp));
    put_text("none", "", 0755);
    assert_null(copy_for(in_folder("none"), envp));
}

static void by_descriptor(void **state)
{
    (void)state;
    char *const *envp = ENVIRONMENT("LD_PRELOAD=/x/libheadrace.so");
    int fd = open(in_folder("other"), O_RDONLY);
    hr_active = true;
    assert_true(hr_child_judge(fd, "", envp, &hooked) > 0);
    hr_active = false;
    close(fd);
}

/* Who can read what our descriptors stand for. */
static void hooked_programs(void **state)
{
    (void)state;
    char *const *both = ENVIRONMENT("HEADRACE_MAP=/data=s3://b/", "LD_PRELOAD=/x/libheadrace.so");
    static const struct {
        const char *name;
        bool hooked;
    } rows[] = {{"same", true}, {"other", false}, {"static", false}};
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        free(copy_for(in_folder(rows[i].name), both));
        assert_int_equal(hooked, rows[i].hooked);
    }
    copy_for(in_folder("same"), ENVIRONMENT("HEADRACE_MAP=/data=s3://b/"));
    assert_false(hooked);
    copy_for(in_folder("same"), ENVIRONMENT("LD_PRELOAD=/x/libheadrace.so"));
    assert_false(hooked);
    copy_for(in_folder("same"), ENVIRONMENT("HEADRACE_MAP=", "LD_PRELOAD=/x/libheadrace.so"));
    assert_false(hooked);
    copy_for(in_folder("same"), NULL);
    assert_false(hooked);
    assert_true(hr_child_is_program(AT_FDCWD, in_folder("same")));
    assert_false(hr_child_is_program(AT_FDCWD, in_folder("no-such")));
    assert_false(hr_child_is_program(AT_FDCWD, folder));
}

static void search(void **state)
{
    (void)state;
    char out[PATH_MAX], path[3 * PATH_MAX], small[8];
    assert_int_equal(mkdir(in_folder("one"), 0755), 0);
    assert_int_equal(mkdir(in_folder("two"), 0755), 0);
    put_text("one/tool", "x", 0644); /* not executable */
    put_text("two/tool", "x", 0755);
    assert_int_equal(mkdir(in_folder("one/dir"), 0755), 0);
    put_text("two/dir", "x", 0755);
    snprintf(path, sizeof(path), "/none:%s:%s", in_folder("one"), in_folder("two"));
    assert_int_equal(hr_child_search("tool", path, out, sizeof(out)), 0);
    assert_string_equal(out, in_folder("two/tool"));
    assert_int_equal(hr_child_search("dir", path, out, sizeof(out)), 0);
    assert_string_equal(out, in_folder("two/dir"));
    assert_int_equal(hr_child_search("absent", path, out, sizeof(out)), -ENOENT);
    assert_int_equal(hr_child_search("", path, out, sizeof(out)), -ENOENT);
    assert_int_equal(hr_child_search("./x", path, out, sizeof(out)), 0);
    assert_string_equal(out, "./x");
    assert_int_equal(hr_child_search("sh", NULL, out, sizeof(out)), 0);
    assert_string_equal(out, "/bin/sh");
    assert_int_equal(hr_child_search("/a/long/name", path, small, sizeof(small)), -ENAMETOOLONG);
    assert_int_equal(hr_child_search("tool", path, small, sizeof(small)), -ENOENT);
    /* An empty element is the working directory. */
    char here[PATH_MAX];
    assert_non_null(getcwd(here, sizeof(here)));
    assert_int_equal(chdir(in_folder("two")), 0);
    assert_int_equal(hr_child_search("tool", "/none:", out, sizeof(out)), 0);
    assert_string_equal(out, "tool");
    assert_int_equal(hr_child_search("tool", "", out, sizeof(out)), 0);
    assert_int_equal(chdir(here), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_us),
        cmocka_unit_test(judgements),
        cmocka_unit_test(alone_in_the_environment),
        cmocka_unit_test(inactive_reads_nothing),
        cmocka_unit_test(too_large),
        cmocka_unit_test(scripts),
        cmocka_unit_test(what_is_no_file),
        cmocka_unit_test(by_descriptor),
        cmocka_unit_test(hooked_programs),
        cmocka_unit_test(search),
    };
    return cmocka_run_group_tests_name("interpose/child", tests, set_up, tear_down);
}
