#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/settings.h"

#define ENV(...) ((char **)(const char *[]){__VA_ARGS__, NULL})
#define SETS(...)                                                                                            \
    .sets = (const char *[]){__VA_ARGS__}, .set_count = sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)

static char home[] = "/tmp/headrace-test-settings-XXXXXX";
static char path_room[3][128];

/* "HOME=/tmp/...", ... in one of a few rooms. */
static const char *in_home(unsigned room, const char *before, const char *after)
{
    assert_true(snprintf(path_room[room], sizeof(path_room[room]), "%s%s%s", before, home, after) > 0);
    return path_room[room];
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int make_home(void **state)
{
    char path[128];
    (void)state;
    if (!mkdtemp(home)) {
        return -1;
    }
    (void)snprintf(path, sizeof(path), "%s/.config", home);
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof(path), "%s/.config/headrace", home);
    return mkdir(path, 0700);
}

static int remove_home(void **state)
{
    static const char *const names[] = {"/.config/headrace/config",
                                        "/.config/headrace",
                                        "/.config",
                                        "/headrace/config",
                                        "/headrace",
                                        "/other",
                                        ""};
    char path[128];
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s%s", home, names[i]);
        (void)remove(path);
    }
    return access(home, F_OK) == 0 ? -1 : 0;
}

static struct hr_settings *load(struct hr_settings_sources sources)
{
    char message[HR_SETTINGS_MESSAGE_BYTES];
    struct hr_settings *settings = NULL;
    if (hr_settings_load(&sources, message, &settings) != 0) {
        fail_msg("%s", message);
    }
    assert_string_equal(message, "");
    return settings;
}

static struct hr_settings *load_env(char *const *envp)
{
    return load((struct hr_settings_sources){.envp = envp, .no_file = true});
}

static void expect_error(struct hr_settings_sources sources, int error, const char *wanted)
{
    char message[HR_SETTINGS_MESSAGE_BYTES];
    struct hr_settings *settings = (struct hr_settings *)&sources;
    int result = hr_settings_load(&sources, message, &settings);
    if (result != error || !strstr(message, wanted)) {
        fail_msg("wanted %d \"%s\", got %d \"%s\"", error, wanted, result, message);
    }
    assert_ptr_equal(settings, &sources);
    assert_null(strchr(message, '\n'));
}

static void defaults(void **state)
{
    struct hr_settings *settings = load_env(NULL);
    (void)state;
    assert_string_equal(hr_settings_text(settings, HR_SETTING_CACHE_DIR), "");
    assert_int_equal(hr_settings_bytes(settings, HR_SETTING_CACHE_SIZE, 1000), 800);
    assert_int_equal(hr_settings_count(settings, HR_SETTING_CONNECTIONS), 512);
    assert_int_equal(hr_settings_bytes(settings, HR_SETTING_MEMORY, 0), 320 << 20);
    assert_int_equal(hr_settings_count(settings, HR_SETTING_NET_THREADS), 0);
    assert_int_equal(hr_settings_bytes(settings, HR_SETTING_SMALL_MAX, 0), 8 << 20);
    assert_false(hr_settings_bool(settings, HR_SETTING_REQUIRED));
    assert_int_equal(hr_settings_seconds(settings, HR_SETTING_IDLE_EXIT_S), 300);
    assert_int_equal(hr_settings_map_seconds(settings, NULL, HR_SETTING_REVALIDATE), 3600);
    assert_true(hr_settings_map_bool(settings, NULL, HR_SETTING_PREFETCH));
    assert_int_equal(hr_settings_map_enum(settings, NULL, HR_SETTING_LIST), HR_SETTING_LIST_AUTO);
    assert_int_equal(hr_settings_map_enum(settings, NULL, HR_SETTING_CHANGED), HR_SETTING_CHANGED_ERROR);
    for (int id = 0; id < HR_SETTING_COUNT; id++) {
        assert_true(hr_settings_is_default(settings, id));
        assert_string_equal(hr_settings_origin(settings, id), "default");
        assert_string_equal(hr_settings_text(settings, id), hr_setting_default(id));
        assert_true(strlen(hr_setting_help(id)) > 10);
        assert_true(strlen(hr_setting_name(id)) > 0);
    }
    assert_null(hr_settings_warning(settings, 0));
    hr_settings_free(settings);
    hr_settings_free(NULL);
}

static void sizes(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes; /* of a file system with 1,000,000,000,007 bytes */
    } cases[] = {
        {"67108864", 67108864},
        {"64M", 67108864},
        {"64MiB", 67108864},
        {"65536k", 67108864},
        {"2g", UINT64_C(2) << 30},
        {"3T", UINT64_C(3) << 40},
        {"1%", UINT64_C(10000000000)},
        {"100%", UINT64_C(1000000000007)},
        {"33%", UINT64_C(330000000002)},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[64];
        (void)snprintf(text, sizeof(text), "HEADRACE_CACHE_SIZE=%s", cases[i].text);
        struct hr_settings *settings = load_env(ENV(text));
        assert_true(hr_settings_bytes(settings, HR_SETTING_CACHE_SIZE, UINT64_C(1000000000007)) ==
                    cases[i].bytes);
        hr_settings_free(settings);
    }
}

static void wrong_values(void **state)
{
    static const struct {
        const char *set, *message;
    } cases[] = {
        {"cache_size=1M",
         "--set: cache_size = `1M` is out of bounds; allowed: a size (K, M, G, T) of at least 64M, or 1% "
         "to 100% of the file system"},
        {"cache_size=0%", "cache_size = `0%` is out of bounds"},
        {"cache_size=101%", "cache_size = `101%` is out of bounds"},
        {"cache_size=%", "cache_size = `%` is not understood"},
        {"cache_size=5x%", "cache_size = `5x%` is not understood"},
        {"cache_size=", "cache_size = `` is not understood"},
        {"memory=50%", "memory = `50%` is not understood; allowed: a size (K, M, G, T) from 32M to 1T"},
        {"memory=64MB", "is not understood"},
        {"memory=64Mi", "is not understood"},
        {"memory=1.5G", "is not understood"},
        {"memory=-1", "is not understood"},
        {"memory= 64M", "is not understood"},
        {"memory=9223372036854775807T", "is not understood"},
        {"memory=18446744073709551616", "is not understood"},
        {"memory=8388608T", "is not understood"},
        {"memory=31M", "memory = `31M` is out of bounds"},
        {"connections=0", "connections = `0` is out of bounds; allowed: a number from 1 to 4096"},
        {"connections=4097", "is out of bounds"},
        {"connections=auto", "is not understood"},
        {"connections=0x10", "is not understood"},
        {"net_threads=17", "net_threads = `17` is out of bounds; allowed: a number from 1 to 16, or auto"},
        {"net_threads=", "net_threads = `` is not understood"},
        {"idle_exit_s=0", "a number of seconds from 1 to 31536000"},
        {"idle_exit_s=5m", "is not understood"},
        {"required=maybe", "required = `maybe` is not understood; allowed: on or off (yes or no)"},
        {"required=ON", "is not understood"},
        {"log_level=loud", "log_level = `loud` is not understood; allowed: error, warning, info or debug"},
        {"log_level=inf", "is not understood"},
        {"cache_dir=relative", "cache_dir = `relative` is not understood; allowed: an absolute path"},
        {"cache_dir=~/x", "is not understood"},
        {"mode=rw", "mode = `rw` is not supported yet in this version; allowed: ro"},
        {"endpoint=localhost:9000", "allowed: http://HOST[:PORT] or https://HOST[:PORT]"},
        {"endpoint=http://a b", "is not understood"},
        {"revalidate=never", "or forever or start"},
        {"nosuch_setting=1", "--set: there is no setting `nosuch_setting`; `headrace config` lists them"},
        {"memroy=1G", "there is no setting `memroy`; did you mean memory?"},
        {"MEMORY=1G", "there is no setting `MEMORY`"},
        {"=1", "there is no setting ``"},
        {"memory", "--set `memory`: there is no '='; write --set name=value"},
        {"log_level=a\nb\x7f", "log_level = `a\\x0ab\\x7f` is not"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        expect_error((struct hr_settings_sources){.no_file = true, SETS(cases[i].set)}, -EINVAL,
                     cases[i].message);
    }
    expect_error((struct hr_settings_sources){.no_file = true, .envp = ENV("HEADRACE_MEMORY=lots")}, -EINVAL,
                 "HEADRACE_MEMORY in the environment: memory = `lots` is not understood");
}

static void good_words(void **state)
{
    static const char *const yes[] = {"on", "yes", "true", "1"}, *const no[] = {"off", "no", "false", "0"};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        char first[32], second[32];
        (void)snprintf(first, sizeof(first), "HEADRACE_REQUIRED=%s", yes[i]);
        (void)snprintf(second, sizeof(second), "HEADRACE_PREFETCH=%s", no[i]);
        struct hr_settings *settings = load_env(ENV(first, second));
        assert_true(hr_settings_bool(settings, HR_SETTING_REQUIRED));
        assert_false(hr_settings_bool(settings, HR_SETTING_PREFETCH));
        hr_settings_free(settings);
    }
    struct hr_settings *settings =
        load_env(ENV("HEADRACE_REVALIDATE=forever", "HEADRACE_LOG_LEVEL=debug", "HEADRACE_CHANGED=follow",
                     "HEADRACE_LIST=all", "HEADRACE_NET_THREADS=3", "HEADRACE_ENDPOINT=https://[::1]:9000"));
    assert_true(hr_settings_seconds(settings, HR_SETTING_REVALIDATE) == HR_SECONDS_FOREVER);
    assert_int_equal(hr_settings_enum(settings, HR_SETTING_LOG_LEVEL), 3);
    assert_int_equal(hr_settings_enum(settings, HR_SETTING_CHANGED), HR_SETTING_CHANGED_FOLLOW);
    assert_int_equal(hr_settings_enum(settings, HR_SETTING_LIST), HR_SETTING_LIST_ALL);
    assert_int_equal(hr_settings_count(settings, HR_SETTING_NET_THREADS), 3);
    assert_string_equal(hr_settings_text(settings, HR_SETTING_ENDPOINT), "https://[::1]:9000");
    hr_settings_free(settings);
}

static void later_layers_win(void **state)
{
    const char *config = in_home(0, "", "/.config/headrace/config");
    (void)state;
    write_file(config, "# ours\nmemory = 64M  # half\nconnections = 8\nlog_level = error\nhide = yes\n");
    struct hr_settings *settings = load((struct hr_settings_sources){
        .envp = ENV(in_home(1, "HOME=", ""), "HEADRACE_CONNECTIONS=9", "HEADRACE_LOG_LEVEL=warning",
                    "HEADRACE_CONNECTIONS=99", "HEADRACE_HIDE="),
        SETS("log_level=debug", "timeout_s=5", "timeout_s=6")});
    assert_int_equal(hr_settings_bytes(settings, HR_SETTING_MEMORY, 0), 64 << 20);
    assert_int_equal(hr_settings_count(settings, HR_SETTING_CONNECTIONS), 9);
    assert_int_equal(hr_settings_enum(settings, HR_SETTING_LOG_LEVEL), 3);
    assert_int_equal(hr_settings_seconds(settings, HR_SETTING_TIMEOUT_S), 6);
    assert_true(hr_settings_bool(settings, HR_SETTING_HIDE));
    assert_string_equal(hr_settings_origin(settings, HR_SETTING_MEMORY),
                        in_home(2, "", "/.config/headrace/config:2"));
    assert_string_equal(hr_settings_origin(settings, HR_SETTING_CONNECTIONS),
                        "HEADRACE_CONNECTIONS in the environment");
    assert_string_equal(hr_settings_origin(settings, HR_SETTING_LOG_LEVEL), "--set");
    assert_string_equal(hr_settings_origin(settings, HR_SETTING_SMALL_MAX), "default");
    assert_false(hr_settings_is_default(settings, HR_SETTING_MEMORY));
    hr_settings_free(settings);
}

static void which_file(void **state)
{
    const char *in_home_variable = in_home(0, "HOME=", "");
    (void)state;
    write_file(in_home(1, "", "/.config/headrace/config"), "connections = 1\n");
    assert_int_equal(mkdir(in_home(1, "", "/headrace"), 0700), 0);
    write_file(in_home(1, "", "/headrace/config"), "connections = 2\n");
    write_file(in_home(1, "", "/other"), "connections = 3\n");
    const struct {
        char **envp;
        unsigned connections;
    } cases[] = {
        {ENV(in_home_variable), 1},
        {ENV(in_home_variable, "XDG_CONFIG_HOME=/nonexistent"), 1},
        {ENV(in_home_variable, "XDG_CONFIG_HOME="), 1},
        {ENV(in_home_variable, "XDG_CONFIG_HOME=relative"), 1},
        {ENV(in_home_variable, in_home(1, "XDG_CONFIG_HOME=", "")), 2},
        {ENV(in_home_variable, path_room[1], in_home(2, "HEADRACE_CONFIG=", "/other")), 3},
        {ENV(in_home_variable, "HEADRACE_CONFIG="), 1},
        {ENV(in_home_variable, "HEADRACE_CONFIG=/dev/null"), 512},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hr_settings *settings = load((struct hr_settings_sources){.envp = cases[i].envp});
        assert_int_equal(hr_settings_count(settings, HR_SETTING_CONNECTIONS), cases[i].connections);
        assert_null(hr_settings_warning(settings, 0));
        hr_settings_free(settings);
    }
}

static void bad_files(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"memory = 1G\n\nnonsense\n", "/other:3: no '='; write name = value"},
        {"nosuch = 1\n", "/other:1: there is no setting `nosuch`"},
        {"timeout = 1\n", "/other:1: there is no setting `timeout`; did you mean timeout_s?"},
        {"\nmemory = x\n", "/other:2: memory = `x` is not understood; allowed: a size"},
        {"[daemon]\nmemory = 1G\n",
         "/other:2: settings stand outside of sections; remove the section `daemon`"},
        {"map = /a=s3://b\n", "there is no setting `map`"},
    };
    const char *named = in_home(0, "HEADRACE_CONFIG=", "/other");
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        write_file(in_home(1, "", "/other"), cases[i].text);
        expect_error((struct hr_settings_sources){.envp = ENV(named)}, -EINVAL, cases[i].message);
    }
    expect_error(
        (struct hr_settings_sources){.envp = ENV("HEADRACE_CONFIG=/nonexistent/x")}, -ENOENT,
        "settings file `/nonexistent/x` cannot be read: No such file or directory; HEADRACE_CONFIG names it");
    expect_error((struct hr_settings_sources){.envp = ENV("HEADRACE_CONFIG=/")}, -EISDIR, "Is a directory");
    expect_error((struct hr_settings_sources){.envp = ENV("HEADRACE_CONFIG=/dev/zero")}, -EFBIG,
                 "File too large");
}

/* A home directory that cannot be read is passed over with a line; here the file is a directory. */
static void unreadable_file_is_passed_over(void **state)
{
    const char *config = in_home(0, "", "/.config/headrace/config");
    (void)state;
    assert_int_equal(remove(config), 0);
    assert_int_equal(mkdir(config, 0700), 0);
    struct hr_settings *settings = load((struct hr_settings_sources){.envp = ENV(in_home(1, "HOME=", ""))});
    assert_non_null(hr_settings_warning(settings, 0));
    assert_non_null(strstr(hr_settings_warning(settings, 0), "cannot be read: Is a directory; passed over"));
    assert_null(hr_settings_warning(settings, 1));
    hr_settings_free(settings);
    assert_int_equal(rmdir(config), 0);
}

static void unknown_variables(void **state)
{
    struct hr_settings *settings =
        load_env(ENV("HEADRACE_MAP=/a=s3://b", "HEADRACE_CONFIG=/dev/null", "HEADRACE_MEMROY=1",
                     "HEADRACE_XYZZY=2", "HEADRACE_memory=64M", "HEADRACE_=3", "HEADRACE_NOVALUE",
                     "HEADRACE_A_NAME_LONGER_THAN_ANY_THAT_IS_EVER_KNOWN=4", "OTHER=5"));
    (void)state;
    assert_string_equal(hr_settings_warning(settings, 0),
                        "unknown variable `HEADRACE_MEMROY`; did you mean HEADRACE_MEMORY?");
    assert_string_equal(hr_settings_warning(settings, 1),
                        "unknown variable `HEADRACE_XYZZY`; `headrace config` lists them");
    assert_string_equal(hr_settings_warning(settings, 2),
                        "unknown variable `HEADRACE_memory`; did you mean HEADRACE_MEMORY?");
    assert_non_null(strstr(hr_settings_warning(settings, 3), "`HEADRACE_`"));
    assert_non_null(strstr(hr_settings_warning(settings, 4), "HEADRACE_A_NAME_LONGER"));
    assert_null(hr_settings_warning(settings, 5));
    assert_int_equal(hr_settings_bytes(settings, HR_SETTING_MEMORY, 0), 320 << 20);
    hr_settings_free(settings);
}

static void warnings_are_bounded(void **state)
{
    static char names[40][24];
    static char *envp[41];
    (void)state;
    for (unsigned i = 0; i < 40; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "HEADRACE_QQQ%u=1", i);
        envp[i] = names[i];
    }
    struct hr_settings *settings = load_env(envp);
    assert_non_null(hr_settings_warning(settings, 15));
    assert_null(hr_settings_warning(settings, 16));
    hr_settings_free(settings);
}

static void maps_override(void **state)
{
    static struct hr_maps maps;
    (void)state;
    assert_int_equal(
        hr_maps_parse("/a=s3://b?prefetch=off&revalidate=start&list=all&endpoint=http://map;/c=s3://d", &maps,
                      NULL),
        0);
    struct hr_settings *settings =
        load_env(ENV("HEADRACE_REVALIDATE=60", "HEADRACE_CHANGED=follow", "HEADRACE_ENDPOINT=http://all"));
    const struct hr_map *a = &maps.map[0], *c = &maps.map[1];
    assert_false(hr_settings_map_bool(settings, a, HR_SETTING_PREFETCH));
    assert_true(hr_settings_map_bool(settings, c, HR_SETTING_PREFETCH));
    assert_true(hr_settings_map_seconds(settings, a, HR_SETTING_REVALIDATE) == HR_SECONDS_START);
    assert_int_equal(hr_settings_map_seconds(settings, c, HR_SETTING_REVALIDATE), 60);
    assert_int_equal(hr_settings_map_enum(settings, a, HR_SETTING_LIST), HR_SETTING_LIST_ALL);
    assert_int_equal(hr_settings_map_enum(settings, c, HR_SETTING_LIST), HR_SETTING_LIST_AUTO);
    assert_int_equal(hr_settings_map_enum(settings, a, HR_SETTING_CHANGED), HR_SETTING_CHANGED_FOLLOW);
    assert_string_equal(hr_settings_map_text(settings, a, HR_SETTING_ENDPOINT), "http://map");
    assert_string_equal(hr_settings_map_text(settings, c, HR_SETTING_ENDPOINT), "http://all");
    assert_true(hr_setting_per_map(HR_SETTING_ENDPOINT));
    assert_false(hr_setting_per_map(HR_SETTING_MEMORY));
    hr_settings_free(settings);
}

struct exported {
    char text[1024];
    unsigned calls, stop_at;
};

static int export_one(void *owner, const char *variable, const char *value)
{
    struct exported *exported = owner;
    if (++exported->calls == exported->stop_at) {
        return -ECANCELED;
    }
    size_t len = strlen(exported->text);
    (void)snprintf(exported->text + len, sizeof(exported->text) - len, "%s=%s;", variable, value);
    return 0;
}

static void export_round_trip(void **state)
{
    struct hr_settings *settings = load((struct hr_settings_sources){
        .no_file = true, .envp = ENV("HEADRACE_MEMORY=64M", "HEADRACE_PREFETCH=on"), SETS("idle_exit_s=7")});
    struct exported exported = {.calls = 0}, stopped = {.stop_at = 2};
    (void)state;
    assert_int_equal(hr_settings_export(settings, export_one, &exported), 0);
    /* A value that equals the default was set all the same, perhaps against a file. */
    assert_string_equal(exported.text, "HEADRACE_MEMORY=64M;HEADRACE_IDLE_EXIT_S=7;HEADRACE_PREFETCH=on;");
    assert_int_equal(hr_settings_export(settings, export_one, &stopped), -ECANCELED);
    assert_int_equal(stopped.calls, 2);
    hr_settings_free(settings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),          cmocka_unit_test(sizes),
        cmocka_unit_test(wrong_values),      cmocka_unit_test(good_words),
        cmocka_unit_test(later_layers_win),  cmocka_unit_test(which_file),
        cmocka_unit_test(bad_files),         cmocka_unit_test(unreadable_file_is_passed_over),
        cmocka_unit_test(unknown_variables), cmocka_unit_test(warnings_are_bounded),
        cmocka_unit_test(maps_override),     cmocka_unit_test(export_round_trip),
    };
    return cmocka_run_group_tests_name("config/settings", tests, make_home, remove_home);
}
