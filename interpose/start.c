/* The one constructor: real symbols, maps, working directory. Contacts nobody. */
#include <sys/auxv.h>

#include "interpose/alias.h"
#include "interpose/attach.h"
#include "interpose/context.h"
#include "interpose/cwd.h"
#include "interpose/path.h"
#include "interpose/standin.h"
#include "interpose/sys.h"
#include "interpose/tiny.h"
#include "interpose/view.h"
#include "interpose/inner.h"

/* In libc's shared part since 2.3.2; pthread_atfork itself is a static stub around it or needs 2.34. */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso);
extern void *__dso_handle __attribute__((visibility("hidden")));

static volatile int remembered_pid;

bool hr_pid_is_borrowed(void)
{
    return remembered_pid != 0 && HR_SYS0(SYS_getpid) != remembered_pid;
}

static void remember_pid(void)
{
    remembered_pid = (int)HR_SYS0(SYS_getpid);
}

static void after_fork(void)
{
    remember_pid();
    hr_session_after_fork();
}

static void read_maps(const char *text)
{
    struct hr_maps_error error;
    unsigned dropped = hr_maps_parse_lenient(text, &hr_maps, &error);
    if (dropped) {
        char number[24];
        struct hr_out out;
        hr_out_init(&out, number, sizeof(number));
        hr_out_decimal(&out, dropped);
        hr_say("HEADRACE_MAP: ", error.message, "; dropped ", number, dropped == 1 ? " map" : " maps", NULL);
    }
}

__attribute__((constructor)) static void start(void)
{
    hr_real_resolve();
    const char *text = hr_env("HEADRACE_MAP");
    /* A privileged program takes no orders from its caller's environment. */
    if (text && *text && !getauxval(AT_SECURE)) {
        hr_say_init();
        read_maps(text);
        if (hr_maps.count) {
            remember_pid();
            hr_path_init(&hr_maps);
            hr_view_init();
            hr_alias_init();
            hr_attach_init();
            hr_cwd_init();
            hr_standin_adopt_inherited();
            __register_atfork(NULL, NULL, after_fork, __dso_handle);
            hr_active = true;
        }
    }
    hr_ready = true;
}
