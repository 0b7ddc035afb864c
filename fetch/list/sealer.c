#include "fetch/list/sealer.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fetch/base/thread.h"

struct hr_sealer {
    struct hr_sealer_options options;
    int event_fd;
    pthread_t thread;
    bool told; /* the owner has what came of it */
    /* The thread's, until event_fd is readable or it was joined: */
    int error;
    struct hr_index index;
};

static void *thread_main(void *owner)
{
    struct hr_sealer *sealer = owner;
    const struct hr_sealer_options *options = &sealer->options;
    uint64_t one = 1;

    (void)pthread_setname_np(pthread_self(), "hr-sealer");
    sealer->error = hr_builder_publish(options->builder, options->index_dir, options->tree_id, options->gen,
                                       options->listed_ns, &sealer->index);
    ssize_t written = write(sealer->event_fd, &one, sizeof(one));
    (void)written; /* a counter of 0 takes it */
    return NULL;
}

static void on_end(void *owner, int fd, uint32_t events)
{
    struct hr_sealer *sealer = owner;
    uint64_t count;

    (void)events;
    if (read(fd, &count, sizeof(count)) == (ssize_t)sizeof(count)) {
        sealer->told = true;
        sealer->options.done(sealer->options.owner, sealer->error, &sealer->index, sealer->options.builder);
    }
}

int hr_sealer_start(const struct hr_sealer_options *options, struct hr_sealer **ret)
{
    struct hr_sealer *sealer = calloc(1, sizeof(*sealer));
    if (sealer == NULL) {
        return -ENOMEM;
    }
    sealer->options = *options;
    sealer->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = sealer->event_fd < 0 ? -errno : 0;
    if (rc < 0) {
        goto free_it;
    }
    rc = hr_loop_watch(options->loop, sealer->event_fd, EPOLLIN, on_end, sealer);
    if (rc < 0) {
        goto close_it;
    }
    rc = hr_thread_start(&sealer->thread, NULL, thread_main, sealer);
    if (rc < 0) {
        goto unwatch;
    }
    *ret = sealer;
    return 0;
unwatch:
    hr_loop_unwatch(options->loop, sealer->event_fd);
close_it:
    (void)close(sealer->event_fd);
free_it:
    free(sealer);
    return rc;
}

void hr_sealer_free(struct hr_sealer *sealer)
{
    if (sealer == NULL) {
        return;
    }
    (void)pthread_join(sealer->thread, NULL);
    if (!sealer->told && sealer->error == 0) {
        hr_index_unmap(&sealer->index);
        hr_index_remove(sealer->options.index_dir, sealer->options.tree_id, sealer->options.gen);
    }
    hr_loop_unwatch(sealer->options.loop, sealer->event_fd);
    (void)close(sealer->event_fd);
    hr_builder_free(sealer->options.builder);
    free(sealer);
}
