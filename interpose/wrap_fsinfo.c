/* statfs and statvfs: a map is a read-only file system of its own, full, with as many files as its index has.
 */

#include "interpose/context.h"
#include "interpose/door.h"
#include "interpose/identity.h"
#include "interpose/standin.h"
#include "interpose/view.h"
#include "interpose/inner.h"

#define FUSE_MAGIC 0x65735546 /* linux/magic.h has it since 5.16 */

#define BLOCK_BYTES 4096 /* of statfs' counts: a page */

_Static_assert(sizeof(struct statfs) == sizeof(struct statfs64) &&
                   sizeof(struct statvfs) == sizeof(struct statvfs64),
               "one layout serves both names on 64-bit machines");

/* What both families tell; sizes are known once there is an index, nothing is asked for their sake. */
struct volume {
    uint64_t blocks, files;
    uint32_t dev;
};

static struct volume volume_of(const struct hr_object *object)
{
    struct volume volume = {.dev = object->dev};
    if (object->tree) {
        const struct hr_names *names = object->tree->index.names;
        volume.blocks = names->object_bytes / BLOCK_BYTES + (names->object_bytes % BLOCK_BYTES != 0);
        volume.files = names->entry_count;
    }
    return volume;
}

/* The type number is that of a file system in user space: tools then neither trust link counts nor wait for
 * inotify. */
static void give_statfs(const struct volume *volume, struct statfs64 *ret)
{
    *ret = (struct statfs64){
        .f_type = FUSE_MAGIC,
        .f_bsize = BLOCK_BYTES,
        .f_frsize = BLOCK_BYTES,
        .f_blocks = volume->blocks,
        .f_files = volume->files,
        .f_namelen = HR_NAME_BYTES_MAX,
        .f_flags = ST_RDONLY | ST_NOSUID | ST_NODEV,
    };
    memcpy(&ret->f_fsid, &volume->dev, sizeof(volume->dev));
}

static void give_statvfs(const struct volume *volume, struct statvfs64 *ret)
{
    *ret = (struct statvfs64){
        .f_bsize = BLOCK_BYTES,
        .f_frsize = BLOCK_BYTES,
        .f_blocks = volume->blocks,
        .f_files = volume->files,
        .f_fsid = volume->dev,
        .f_namemax = HR_NAME_BYTES_MAX,
        .f_flag = ST_RDONLY | ST_NOSUID | ST_NODEV,
    };
}

static int volume_at(const struct hr_place *place, struct volume *ret)
{
    struct hr_object object;
    int error = hr_view_find(place, &object);
    if (error == 0) {
        *ret = volume_of(&object);
    }
    return error;
}

/* False: not ours. Else *ret_error is 0 with *ret filled, or a negative errno. */
static bool volume_of_fd(int fd, struct volume *ret, int *ret_error)
{
    struct hr_place place;
    struct stat stat;
    if (HR_LIKELY(!hr_active)) {
        return false;
    }
    if (hr_standin_maybe(fd) && hr_path_of_fd(fd, &place) && place.map != HR_WAY) {
        *ret_error = volume_at(&place, ret);
        return true;
    }
    if (!hr_identity_fd(fd, &stat)) {
        return false;
    }
    *ret = (struct volume){.dev = (uint32_t)stat.st_dev};
    *ret_error = 0;
    return true;
}

static int answer_statfs(const struct hr_place *place, struct statfs64 *ret)
{
    struct volume volume;
    int error = volume_at(place, &volume);
    if (error == 0) {
        give_statfs(&volume, ret);
    }
    return (int)hr_edge(error);
}

static int answer_statvfs(const struct hr_place *place, struct statvfs64 *ret)
{
    struct volume volume;
    int error = volume_at(place, &volume);
    if (error == 0) {
        give_statvfs(&volume, ret);
    }
    return (int)hr_edge(error);
}

/* After the kernel said ENOENT: a way is on the file system of the nearest directory. */
static HR_NOINLINE int missed_statfs(const char *path, struct statfs64 *ret, int result)
{
    struct hr_place place;
    struct stat up;
    if (result == 0 || !hr_way_missed(AT_FDCWD, path, &place)) {
        return result;
    }
    hr_way_nearest(&place, &up);
    return HR_REAL(statfs64)(place.path, ret);
}

static HR_NOINLINE int missed_statvfs(const char *path, struct statvfs64 *ret, int result)
{
    struct hr_place place;
    struct stat up;
    if (result == 0 || !hr_way_missed(AT_FDCWD, path, &place)) {
        return result;
    }
    hr_way_nearest(&place, &up);
    return HR_REAL(statvfs64)(place.path, ret);
}

int statfs(const char *path, struct statfs *ret)
{
    struct hr_place place;
    return hr_door_target(AT_FDCWD, &path, &place)
               ? answer_statfs(&place, (struct statfs64 *)ret)
               : missed_statfs(path, (struct statfs64 *)ret, HR_REAL(statfs)(path, ret));
}

int __statfs(const char *path, struct statfs *ret)
{
    struct hr_place place;
    return hr_door_target(AT_FDCWD, &path, &place)
               ? answer_statfs(&place, (struct statfs64 *)ret)
               : missed_statfs(path, (struct statfs64 *)ret, HR_REAL(__statfs)(path, ret));
}

int statfs64(const char *path, struct statfs64 *ret)
{
    struct hr_place place;
    return hr_door_target(AT_FDCWD, &path, &place) ? answer_statfs(&place, ret)
                                                   : missed_statfs(path, ret, HR_REAL(statfs64)(path, ret));
}

int statvfs(const char *path, struct statvfs *ret)
{
    struct hr_place place;
    return hr_door_target(AT_FDCWD, &path, &place)
               ? answer_statvfs(&place, (struct statvfs64 *)ret)
               : missed_statvfs(path, (struct statvfs64 *)ret, HR_REAL(statvfs)(path, ret));
}

int statvfs64(const char *path, struct statvfs64 *ret)
{
    struct hr_place place;
    return hr_door_target(AT_FDCWD, &path, &place) ? answer_statvfs(&place, ret)
                                                   : missed_statvfs(path, ret, HR_REAL(statvfs64)(path, ret));
}

int fstatfs64(int fd, struct statfs64 *ret)
{
    struct volume volume;
    int error;
    if (!volume_of_fd(fd, &volume, &error)) {
        return HR_REAL(fstatfs64)(fd, ret);
    }
    if (error == 0) {
        give_statfs(&volume, ret);
    }
    return (int)hr_edge(error);
}

int fstatfs(int fd, struct statfs *ret)
{
    return HR_UNLIKELY(hr_active) ? fstatfs64(fd, (struct statfs64 *)ret) : HR_REAL(fstatfs)(fd, ret);
}

int fstatvfs64(int fd, struct statvfs64 *ret)
{
    struct volume volume;
    int error;
    if (!volume_of_fd(fd, &volume, &error)) {
        return HR_REAL(fstatvfs64)(fd, ret);
    }
    if (error == 0) {
        give_statvfs(&volume, ret);
    }
    return (int)hr_edge(error);
}

int fstatvfs(int fd, struct statvfs *ret)
{
    return HR_UNLIKELY(hr_active) ? fstatvfs64(fd, (struct statvfs64 *)ret) : HR_REAL(fstatvfs)(fd, ret);
}
