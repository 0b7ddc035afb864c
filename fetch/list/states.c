/* States and uses of one generation, for one boot. */
#include "fetch/list/publish.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"
#include "fetch/list/files.h"

static uint64_t states_bytes(uint64_t entry_count)
{
    return sizeof(struct hr_states) + entry_count * sizeof(struct hr_state);
}

static uint64_t uses_bytes(uint64_t entry_count)
{
    return sizeof(struct hr_uses) + entry_count;
}

static int create(const char *index_dir, const char *name, uint64_t bytes, struct hr_list_file *ret_file,
                  void **ret_base)
{
    hr_cleanup(hr_list_file_close) struct hr_list_file file = HR_LIST_FILE_NONE;

    int rc = hr_list_file_new(index_dir, name, bytes, &file);
    if (rc < 0) {
        return rc;
    }
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
    if (base == MAP_FAILED) {
        return -errno;
    }
    *ret_base = base;
    *ret_file = file;
    file = HR_LIST_FILE_NONE;
    return 0;
}

/* Fills the headers and gives both their names: from here on clients may map them. */
static int announce(struct hr_states *states, struct hr_uses *uses, uint64_t boot, uint64_t entry_count,
                    struct hr_list_file *states_file, struct hr_list_file *uses_file)
{
    uses->magic = HR_MAGIC_USES;
    uses->abi_version = HR_ABI_VERSION;
    uses->entry_count = entry_count;
    states->magic = HR_MAGIC_STATES;
    states->abi_version = HR_ABI_VERSION;
    states->boot = boot;
    states->entry_count = entry_count;

    int rc = hr_list_file_commit(uses_file, 0600, false);
    if (rc < 0) {
        return rc;
    }
    rc = hr_list_file_commit(states_file, 0400, false);
    if (rc < 0) {
        (void)unlinkat(uses_file->dir_fd, uses_file->final_name, 0);
    }
    return rc;
}

int hr_states_create(const char *index_dir, uint64_t tree_id, uint32_t gen, uint64_t boot,
                     uint64_t entry_count, struct hr_states **ret_states, struct hr_uses **ret_uses)
{
    char name[HR_LIST_NAME_BYTES];
    hr_cleanup(hr_list_file_close) struct hr_list_file states_file = HR_LIST_FILE_NONE;
    hr_cleanup(hr_list_file_close) struct hr_list_file uses_file = HR_LIST_FILE_NONE;
    void *states;
    void *uses;

    if (entry_count == 0 || entry_count > UINT32_MAX) {
        return -EINVAL;
    }
    hr_list_boot_name(tree_id, gen, boot, "states", name);
    int rc = create(index_dir, name, states_bytes(entry_count), &states_file, &states);
    if (rc < 0) {
        return rc;
    }
    hr_list_boot_name(tree_id, gen, boot, "uses", name);
    rc = create(index_dir, name, uses_bytes(entry_count), &uses_file, &uses);
    if (rc < 0) {
        goto unmap_states;
    }
    rc = announce(states, uses, boot, entry_count, &states_file, &uses_file);
    if (rc < 0) {
        goto unmap_uses;
    }
    *ret_states = states;
    *ret_uses = uses;
    return 0;
unmap_uses:
    (void)munmap(uses, uses_bytes(entry_count));
unmap_states:
    (void)munmap(states, states_bytes(entry_count));
    return rc;
}

void hr_states_unmap(struct hr_states *states, struct hr_uses *uses)
{
    /* The states' count for both: clients can write what the uses say. */
    uint64_t entry_count = states != NULL ? states->entry_count : 0;

    if (uses != NULL && states != NULL) {
        (void)munmap(uses, uses_bytes(entry_count));
    }
    if (states != NULL) {
        (void)munmap(states, states_bytes(entry_count));
    }
}
