/* statfs and statvfs by path and descriptor: a map is read-only, has one id, blocks and files; a local tree
 * answers. */
#include <sys/statfs.h>
#include <sys/statvfs.h>

#include "tests/preload/probe.h"

static unsigned long id_of_root;

static void ask(const char *relative)
{
    char *path = probe_path(relative);
    struct statvfs vfs, vfs_fd;
    struct statvfs64 vfs64;
    struct statfs fs, fs_fd;
    struct statfs64 fs64;
    bool good = statvfs(path, &vfs) == 0 && statvfs64(path, &vfs64) == 0 && statfs(path, &fs) == 0 &&
                statfs64(path, &fs64) == 0;
    printf("%s: %s\n", relative, good ? "ok" : probe_errno(errno));
    if (!good) {
        free(path);
        return;
    }
    int fd = open(path, O_RDONLY);
    probe_expect(fstatvfs(fd, &vfs_fd) == 0 && fstatfs(fd, &fs_fd) == 0, "%s: by descriptor", relative);
    close(fd);
    probe_expect(vfs.f_namemax == 255 && vfs64.f_namemax == 255 && fs.f_namelen == 255, "%s: longest name",
                 relative);
    probe_expect(vfs.f_bsize > 0 && vfs.f_frsize > 0 && fs.f_bsize > 0, "%s: block size", relative);
    probe_expect(vfs.f_blocks >= vfs.f_bfree && vfs.f_files >= vfs.f_ffree, "%s: more free than there is",
                 relative);
    probe_expect(vfs.f_fsid == vfs64.f_fsid && vfs.f_fsid == vfs_fd.f_fsid, "%s: ids differ", relative);
    probe_expect(fs.f_type == fs64.f_type && fs.f_type == fs_fd.f_type, "%s: types differ", relative);
    if (relative[0] == '\0') {
        id_of_root = vfs.f_fsid;
    }
    probe_expect(vfs.f_fsid == id_of_root, "%s: another id than the root's", relative);
    if (probe_mapped()) {
        probe_expect((vfs.f_flag & ST_RDONLY) && (vfs_fd.f_flag & ST_RDONLY), "%s: not read-only", relative);
        probe_expect(vfs.f_bavail == 0 && vfs.f_favail == 0, "%s: room on a map", relative);
        probe_expect(vfs.f_blocks > 0 && vfs.f_files > 0, "%s: a listed map without blocks or files",
                     relative);
    }
    free(path);
}

int main(int argc, char **argv)
{
    probe_begin(argc, argv);
    probe_walk();
    ask("");
    for (size_t i = 0; i < probe_count; i++) {
        ask(probe_entries[i].path);
    }
    ask("no-such-name");
    return probe_wrong;
}
