/* May a directory be the cache, and which one is the default? For the command as well. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"
#include "fetch/cache/inside.h"

#define TMPFS_TYPE 0x01021994u /* linux/magic.h */
#define RAMFS_TYPE 0x858458f6u /* linux/magic.h */

/* File systems whose files live behind a network or another process: slower than what is cached, or shared
 * between machines, or both. Numbers: linux/magic.h; those of file systems outside the kernel's tree as GNU
 * coreutils' stat names them. */
static const struct remote_type {
    uint32_t type;
    const char *name;
} remote_types[] = {
    {0x6969, "NFS"},        {0x0bd00bd0, "Lustre"},   {0x47504653, "GPFS"},   {0xff534d42, "CIFS"},
    {0xfe534d42, "SMB2"},   {0x517b, "SMB"},          {0x01021997, "9p"},     {0x65735546, "FUSE"},
    {0x00c36400, "Ceph"},   {0x5346414f, "AFS"},      {0x6b414653, "kAFS"},   {0x73757245, "Coda"},
    {0x564c, "NCP"},        {0x7461636f, "OCFS2"},    {0x01161970, "GFS2"},   {0x19830326, "BeeGFS"},
    {0xaad7aaea, "PanFS"},  {0x20030528, "OrangeFS"}, {0x786f4256, "vboxsf"}, {0x7c7c6673, "Parallels"},
    {0xbacbacbc, "VMware"}, {0x61636673, "ACFS"},     {0xbeefdead, "SNFS"},   {0x013111a8, "IBRIX"},
    {0x0187, "autofs"},
};

static const char *remote_name(uint32_t type)
{
    for (size_t i = 0; i < sizeof(remote_types) / sizeof(remote_types[0]); i++) {
        if (remote_types[i].type == type) {
            return remote_types[i].name;
        }
    }
    return NULL;
}

/* path without slashes at its end; 0, -EINVAL, -ENAMETOOLONG. */
static int clean_path(const char *dir, char path[PATH_MAX], char message[256])
{
    size_t len = strlen(dir);
    if (dir[0] != '/') {
        (void)snprintf(message, 256, "cache_dir \"%.160s\" is not an absolute path", dir);
        return -EINVAL;
    }
    while (len > 1 && dir[len - 1] == '/') {
        len--;
    }
    if (len > HR_CACHE_DIR_MAX) {
        (void)snprintf(message, 256, "cache_dir %.120s... is too long (%zu bytes)", dir, len);
        return -ENAMETOOLONG;
    }
    memcpy(path, dir, len);
    path[len] = '\0';
    return 0;
}

/* Makes what is missing above the last component, and it. */
static int make_all(const char *path, char message[256])
{
    char part[PATH_MAX];
    size_t len = strlen(path);
    memcpy(part, path, len + 1);
    for (size_t i = 1; i <= len; i++) {
        if (path[i] != '/' && path[i] != '\0') {
            continue;
        }
        part[i] = '\0';
        if (mkdir(part, 0700) < 0 && errno != EEXIST) {
            int r = -errno;
            struct stat st;
            if (!stat(part, &st)) { /* EROFS and EACCES may win over EEXIST */
                part[i] = path[i];
                continue;
            }
            (void)snprintf(message, 256, "cannot create the cache directory %.150s: %s", part, strerror(-r));
            return r;
        }
        part[i] = path[i];
    }
    return 0;
}

static int check_type(int fd, const char *path, char message[256])
{
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0) {
        int r = -errno;
        (void)snprintf(message, 256, "cache directory %.150s: %s", path, strerror(-r));
        return r;
    }
    const char *name = remote_name((uint32_t)fs.f_type);
    if (name) {
        (void)snprintf(message, 256,
                       "cache directory %.120s is on a %s file system: set cache_dir to a local place", path,
                       name);
        return -EOPNOTSUPP;
    }
    return 0;
}

static int check_owner(const struct stat *st, const char *path, char message[256])
{
    if (st->st_uid != geteuid()) {
        (void)snprintf(message, 256, "cache directory %.120s belongs to user %u, not to us (user %u)", path,
                       (unsigned)st->st_uid, (unsigned)geteuid());
        return -EPERM;
    }
    if (st->st_mode & 077) {
        (void)snprintf(message, 256, "cache directory %.120s is open to others (mode %04o): chmod 700 it",
                       path, (unsigned)(st->st_mode & 07777));
        return -EPERM;
    }
    if ((st->st_mode & 0700) != 0700) {
        (void)snprintf(message, 256, "cache directory %.120s has mode %04o: chmod 700 it", path,
                       (unsigned)(st->st_mode & 07777));
        return -EACCES;
    }
    return 0;
}

int hr_cache_dir_check(const char *dir, char ret_message[256])
{
    char path[PATH_MAX];
    char message[256] = "";
    struct stat st;
    int r = clean_path(dir, path, message);
    if (!r && lstat(path, &st) < 0 && errno == ENOENT) {
        r = make_all(path, message);
    }
    if (r < 0) {
        memcpy(ret_message, message, sizeof(message));
        return r;
    }
    hr_cleanup_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        r = -errno;
        bool link = !lstat(path, &st) && S_ISLNK(st.st_mode);
        (void)snprintf(message, sizeof(message), "cache directory %.150s %s%s", path,
                       link            ? "is a symlink: name the directory itself"
                       : r == -ENOTDIR ? "is not a directory"
                                       : "cannot be opened: ",
                       link || r == -ENOTDIR ? "" : strerror(-r));
        r = link ? -ELOOP : r;
    }
    if (!r && fstat(fd, &st) < 0) {
        r = -errno;
        (void)snprintf(message, sizeof(message), "cache directory %.150s: %s", path, strerror(-r));
    }
    if (!r) {
        r = check_type(fd, path, message); /* first: on a network owner and mode may be anything */
    }
    if (!r) {
        r = check_owner(&st, path, message);
    }
    if (!r && faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0) {
        r = -errno;
        (void)snprintf(message, sizeof(message), "cache directory %.150s is not writable: %s", path,
                       strerror(-r));
    }
    if (r < 0) {
        memcpy(ret_message, message, sizeof(message));
    }
    return r;
}

/* The file system that `path` would be on: that of the nearest directory that exists, which near (PATH_MAX)
 * is then; so that nothing is made in a place that is not taken. False: not known. */
static bool nearest(const char *path, char *near, struct statfs *ret)
{
    (void)snprintf(near, PATH_MAX, "%s", path);
    while (statfs(near, ret) < 0) {
        char *slash = strrchr(near, '/');
        if (!slash || slash == near) {
            return false;
        }
        *slash = '\0';
    }
    return true;
}

/* Not by default: tmpfs is memory, for those who ask for it; nor a network, which *ret_note then says (only
 * the first). */
static bool passed_over(const char *path, char note[256])
{
    char near[PATH_MAX];
    struct statfs fs;
    uint32_t type = nearest(path, near, &fs) ? (uint32_t)fs.f_type : 0;
    const char *remote = type ? remote_name(type) : NULL;
    if (remote && !note[0]) {
        (void)snprintf(note, 256, "%.140s is on a %s file system", path, remote);
    }
    return remote || type == TMPFS_TYPE || type == RAMFS_TYPE;
}

/* It is not there, and hr_cache_dir_check would make it. */
static bool is_to_be_made(const char *path)
{
    struct stat st;
    struct statfs fs;
    char near[PATH_MAX];
    return lstat(path, &st) < 0 && errno == ENOENT && nearest(path, near, &fs) &&
           faccessat(AT_FDCWD, near, W_OK | X_OK, AT_EACCESS) == 0;
}

static const struct place {
    const char *variable; /* NULL: fixed */
    const char *below;    /* with_user: then "-UID" */
    bool with_user;
} places[] = {
    {"SLURM_TMPDIR", "/headrace", true},    {"TMPDIR", "/headrace", true},
    {"XDG_CACHE_HOME", "/headrace", false}, {"HOME", "/.cache/headrace", false},
    {NULL, "/var/tmp/headrace", true},
};

/* Its path in this environment, PATH_MAX bytes: the length. -ENOENT: it has none. */
static int path_of(const struct place *place, hr_env_of env, void *owner, char *path)
{
    char user[16] = "";
    const char *base = place->variable ? env(owner, place->variable) : "";
    if (!base || (place->variable && base[0] != '/')) {
        return -ENOENT;
    }
    if (place->with_user) {
        (void)snprintf(user, sizeof(user), "-%u", (unsigned)geteuid());
    }
    size_t base_len = strlen(base);
    while (base_len && base[base_len - 1] == '/') {
        base_len--;
    }
    int len = snprintf(path, PATH_MAX, "%.*s%s%s", (int)base_len, base, place->below, user);
    return len < 0 || len > HR_CACHE_DIR_MAX ? -ENOENT : len;
}

static int choose(hr_env_of env, void *owner, bool make, char *ret_dir, size_t room, char ret_message[256])
{
    char message[256] = "no place for a cache directory";
    char note[256] = "";
    int r = -ENOENT;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        char path[PATH_MAX];
        int len = path_of(&places[i], env, owner, path);
        if (len < 0 || passed_over(path, note)) {
            continue;
        }
        if (!make && is_to_be_made(path)) {
            (void)snprintf(ret_message, 256, "%.200s is not there yet", path);
            return -ENOENT;
        }
        if (!make && access(path, F_OK) < 0) {
            continue; /* it could not be made either */
        }
        r = hr_cache_dir_check(path, message);
        if (!r && (size_t)len >= room) {
            (void)snprintf(ret_message, 256, "cache directory %.150s is too long", path);
            return -ENAMETOOLONG;
        }
        if (!r) {
            memcpy(ret_dir, path, (size_t)len + 1);
            (void)snprintf(ret_message, 256, "%s%s%.80s%s", note, note[0] ? ": the cache is in " : "",
                           note[0] ? path : "", note[0] ? " (cache_dir)" : "");
            return 0;
        }
    }
    (void)snprintf(ret_message, 256, "%.200s (set cache_dir)", message);
    return r;
}

int hr_cache_dir_default(hr_env_of env, void *owner, char *ret_dir, size_t room, char ret_message[256])
{
    return choose(env, owner, true, ret_dir, room, ret_message);
}

int hr_cache_dir_find(hr_env_of env, void *owner, char *ret_dir, size_t room, char ret_message[256])
{
    return choose(env, owner, false, ret_dir, room, ret_message);
}
