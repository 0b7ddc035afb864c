#include "fetch/serve/jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "fetch/base/cleanup.h"
#include "fetch/base/clock.h"
#include "fetch/base/log.h"
#include "fetch/serve/reports.h"
#include "fetch/serve/watch.h"

#define HR_JOB_QUIET_MS 60000 /* of one that cannot be watched: longer than steps and checkpoints take */
#define HR_PROGRAM_BYTES 256

struct job;

struct member { /* a process of it that is watched */
    struct member *prev, *next;
    struct job *job;
    struct hr_watch watch;
};

struct job {
    struct job *prev, *next;
    struct hr_jobs *jobs;
    uint32_t context, pid;
    char program[HR_PROGRAM_BYTES];
    bool watched;                        /* some process was */
    struct member *members;              /* those that live */
    bool alone;                          /* no other job ran meanwhile: all figures are its own */
    int64_t began_ns, began_ms, last_ms; /* by the wall's clock; by ours */
    struct hr_wait_sum waits[HR_WAIT_REASONS];
    struct hr_report_figures before;
};

struct hr_jobs {
    struct hr_jobs_options options;
    bool stopped;
    struct job *list;
};

int hr_jobs_new(const struct hr_jobs_options *options, struct hr_jobs **ret)
{
    struct hr_jobs *jobs = calloc(1, sizeof *jobs);
    if (!jobs) {
        return -ENOMEM;
    }
    jobs->options = *options;
    *ret = jobs;
    return 0;
}

static void measure(const struct hr_jobs *jobs, struct hr_report_figures *ret)
{
    hr_plan_stats(jobs->options.plan, &ret->plan);
    hr_stores_stats(jobs->options.stores, &ret->store);
    hr_cache_stats(jobs->options.cache, &ret->cache);
}

static json_t *document_of(const struct job *job, bool ended)
{
    struct hr_jobs *jobs = job->jobs;
    struct hr_report_figures now;
    hr_plan_drain(jobs->options.plan); /* what clients noted lately */
    measure(jobs, &now);
    int64_t last_ms = ended && !job->watched ? job->last_ms : hr_clock_ms(),
            last_ns = job->began_ns + (last_ms - job->began_ms) * 1000000; /* the wall's clock may be set */
    struct hr_report report = {
        .program = job->program,
        .pid = job->pid,
        .began_ns = job->began_ns,
        .ended_ns = ended ? last_ns : 0,
        .now_ns = last_ns,
        .alone = job->alone,
        .waits = job->waits,
        .before = &job->before,
        .after = &now,
        .connections = jobs->options.connections,
        .memory_bytes = jobs->options.memory_bytes,
    };
    return hr_report_json(&report);
}

static void drop_member(struct member *member)
{
    DL_DELETE(member->job->members, member);
    hr_watch_end(&member->watch);
    free(member);
}

static void forget(struct job *job)
{
    while (job->members) {
        drop_member(job->members);
    }
    DL_DELETE(job->jobs->list, job);
    free(job);
}

/* Its report is written, and it is forgotten. */
static void end(struct job *job)
{
    struct hr_jobs *jobs = job->jobs;
    json_t *document = document_of(job, true);
    int error =
        document ? hr_report_write(jobs->options.cache_dir, job->began_ns, job->context, document) : -ENOMEM;
    if (error < 0) {
        hr_log(HR_LOG_WARNING, "the report of a job cannot be written: %s", strerror(-error));
    }
    json_decref(document);
    forget(job);
}

/* NULL: a client made the number up. */
static const struct hr_context *context_of(const struct job *job)
{
    return job->context < HR_CONTEXTS_MAX ? &job->jobs->options.control->contexts[job->context] : NULL;
}

static bool has_tree(const struct job *job, uint32_t tree)
{
    const struct hr_context *context = context_of(job);
    for (uint32_t i = 0; context && i < context->map_count && i < HR_CONTEXT_MAPS_MAX; i++) {
        if (context->tree[i] == tree) {
            return true;
        }
    }
    return false;
}

/* Trees that it had alone are nobody's now. */
static void leave_trees(const struct job *ended)
{
    const struct hr_context *context = context_of(ended);
    for (uint32_t i = 0; context && i < context->map_count && i < HR_CONTEXT_MAPS_MAX; i++) {
        const struct job *job = ended->jobs->list;
        while (job && (job == ended || !has_tree(job, context->tree[i]))) {
            job = job->next;
        }
        if (!job) {
            hr_plan_tree_left(ended->jobs->options.plan, context->tree[i]);
        }
    }
}

static void member_ended(void *owner)
{
    struct member *member = owner;
    struct job *job = member->job;
    drop_member(member);
    if (!job->members) {
        hr_plan_job_ended(job->jobs->options.plan, job->context);
        leave_trees(job);
        end(job);
    }
}

/* The job lives as long as this process, and those before it. */
static void join(struct job *job, uint32_t pid)
{
    struct member *member = pid ? calloc(1, sizeof *member) : NULL;
    if (!member) {
        return;
    }
    member->job = job;
    if (hr_watch_begin(&member->watch, job->jobs->options.loop, pid, member_ended, member) < 0) {
        free(member);
        return;
    }
    DL_APPEND(job->members, member);
    job->watched = true;
}

void hr_jobs_stop(struct hr_jobs *jobs)
{
    while (jobs && jobs->list) {
        end(jobs->list);
    }
    if (jobs) {
        jobs->stopped = true;
    }
}

void hr_jobs_free(struct hr_jobs *jobs)
{
    while (jobs && jobs->list) {
        forget(jobs->list);
    }
    free(jobs);
}

static struct job *find(struct hr_jobs *jobs, uint32_t context)
{
    struct job *job;
    DL_FOREACH(jobs->list, job)
    {
        if (job->context == context) {
            return job;
        }
    }
    return NULL;
}

static struct job *begin(struct hr_jobs *jobs, uint32_t context)
{
    struct job *job = jobs->stopped ? NULL : calloc(1, sizeof *job);
    struct job *other;
    if (!job) {
        return NULL;
    }
    job->jobs = jobs;
    job->context = context;
    job->alone = jobs->list == NULL;
    DL_FOREACH(jobs->list, other)
    {
        other->alone = false;
    }
    job->began_ns = hr_clock_wall_ns();
    job->began_ms = job->last_ms = hr_clock_ms();
    hr_plan_drain(jobs->options.plan); /* what was noted before is not its */
    measure(jobs, &job->before);
    DL_APPEND(jobs->list, job);
    return job;
}

/* One that cannot be watched and has waited for nothing is a look, and gives no report. */
static bool is_empty(const struct job *job)
{
    for (unsigned i = 0; i < HR_WAIT_REASONS; i++) {
        if (job->waits[i].count > 0) {
            return false;
        }
    }
    return !job->watched;
}

static void end_or_forget(struct job *job)
{
    if (is_empty(job)) {
        forget(job);
    } else {
        end(job);
    }
}

void hr_jobs_began(struct hr_jobs *jobs, uint32_t context, const char *program, uint32_t pid)
{
    struct job *job = find(jobs, context);
    if (job && program[0] && !job->members) {
        end_or_forget(job); /* nobody of it is known to live */
        job = NULL;
    }
    if (!job && (job = begin(jobs, context))) {
        snprintf(job->program, sizeof job->program, "%s", program);
        job->pid = pid;
    }
    if (job) {
        join(job, pid);
    }
}

/* What the kernel calls the process that asked first: `python3`. */
static void name_by_pid(struct job *job, uint32_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/comm", pid);
    hr_cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, job->program, sizeof job->program - 1);
    job->program[got > 0 ? got : 0] = '\0';
    job->program[strcspn(job->program, "\n")] = '\0';
    if (!job->program[0]) {
        snprintf(job->program, sizeof job->program, "?"); /* of another PID namespace */
    }
    job->pid = pid;
}

void hr_jobs_waited(void *owner, const struct hr_wait_ended *wait)
{
    struct hr_jobs *jobs = owner;
    struct job *job = find(jobs, wait->context);
    job = job ? job : begin(jobs, wait->context);
    if (!job) {
        return;
    }
    if (!job->program[0]) {
        name_by_pid(job, wait->pid);
    }
    job->last_ms = hr_clock_ms();
    struct hr_wait_sum *sum = &job->waits[wait->reason];
    sum->count++;
    sum->us += wait->us;
    sum->max_us = wait->us > sum->max_us ? wait->us : sum->max_us;
}

void hr_jobs_tick(struct hr_jobs *jobs)
{
    struct job *job, *next;
    DL_FOREACH_SAFE(jobs->list, job, next)
    {
        if (!job->members && hr_clock_ms() - job->last_ms > HR_JOB_QUIET_MS) {
            leave_trees(job);
            end_or_forget(job);
        }
    }
}

json_t *hr_jobs_json(struct hr_jobs *jobs)
{
    json_t *list = json_array();
    struct job *job;
    DL_FOREACH(jobs->list, job)
    {
        json_array_append_new(list, document_of(job, false));
    }
    return json_pack("{s:o}", "jobs", list);
}
