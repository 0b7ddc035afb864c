/* Work that waits side by side is taken together; objects that are proven together are proven like others. */
#include "tests/unit/cache/lab.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "fetch/cache/inside.h"

enum { WORKS = 41, PUTS = 48 };

struct book;

struct entry {
    struct hr_work work;
    struct book *book;
    unsigned ran, done;
    unsigned turn; /* so many had run before it */
    pthread_t by;  /* who ran it last */
};

struct book {
    struct hr_loop *loop;
    struct hr_writers *writers;
    sem_t go; /* what the first work waits for, so that the others wait behind it */
    unsigned groups[WORKS], group_count, most;
    atomic_uint ran;
    unsigned done, batches;
    struct entry entries[WORKS];
};

static void block(struct hr_work *work)
{
    struct entry *entry = (struct entry *)(void *)work;
    while (sem_wait(&entry->book->go) < 0) {
    }
    entry->ran++;
    entry->turn = atomic_fetch_add(&entry->book->ran, 1);
}

static void let_go(void *owner)
{
    struct book *book = owner;
    assert_int_equal(sem_post(&book->go), 0);
}

static void run(struct hr_work *work)
{
    struct entry *entry = (struct entry *)(void *)work;
    entry->by = pthread_self();
    entry->ran++;
    entry->turn = atomic_fetch_add(&entry->book->ran, 1);
}

static void done(struct hr_work *work)
{
    struct entry *entry = (struct entry *)(void *)work;
    entry->done++;
    if (++entry->book->done == entry->book->most) {
        hr_loop_stop(entry->book->loop);
    }
}

static void together(struct hr_work *first)
{
    struct book *book = ((struct entry *)(void *)first)->book;
    for (struct hr_work *work = first; work; work = work->next) {
        assert_int_equal(((struct entry *)(void *)work)->ran, 0);
        book->groups[book->group_count]++;
    }
    book->group_count++;
}

static const struct hr_work_kind single = {.run = run, .done = done};
static const struct hr_work_kind blocking = {.run = block, .done = done};
static const struct hr_work_kind grouped = {.run = run, .done = done, .together = together};

static void batch_end(void *owner)
{
    struct book *book = owner;
    book->batches++;
}

/* One thread: 20 that may go together, one alone, 19 together: 16, 4, 1, 16, 3. */
static void waiting_work_is_taken_together(void **state)
{
    static struct book book;
    struct hr_writers *writers;
    (void)state;
    book.most = WORKS;
    assert_int_equal(sem_init(&book.go, 0, 0), 0);
    assert_int_equal(hr_loop_new(&book.loop), 0);
    assert_int_equal(hr_writers_new(1, book.loop, batch_end, &book, &writers), 0);
    for (unsigned i = 0; i < WORKS; i++) {
        bool alone = i == 0 || i == 21;
        book.entries[i] = (struct entry){
            .work = {.kind = i == 0  ? &blocking
                             : alone ? &single
                                     : &grouped},
            .book = &book,
        };
        hr_writers_push(writers, &book.entries[i].work);
    }
    struct hr_timer first_turn = HR_TIMER_INIT(let_go, &book); /* all of it is queued before that begins */
    assert_int_equal(hr_loop_arm(book.loop, &first_turn, 0), 0);
    assert_int_equal(hr_loop_run(book.loop), 0);
    hr_writers_free(writers);
    assert_int_equal(book.ran, WORKS);
    assert_int_equal(book.done, WORKS);
    assert_int_equal(book.group_count, 4);
    assert_int_equal(book.groups[0], HR_WORKS_TOGETHER_MAX);
    assert_int_equal(book.groups[1], 4);
    assert_int_equal(book.groups[2], HR_WORKS_TOGETHER_MAX);
    assert_int_equal(book.groups[3], 3);
    for (unsigned i = 0; i < WORKS; i++) {
        assert_int_equal(book.entries[i].ran, 1);
        assert_int_equal(book.entries[i].done, 1);
    }
    hr_loop_free(book.loop);
    (void)sem_destroy(&book.go);
}

static void prefer_two(void *owner)
{
    struct book *book = owner;
    hr_writers_prefer(book->writers, &book->entries[0].work); /* it runs, or is next */
    hr_writers_prefer(book->writers, &book->entries[3].work);
    let_go(book);
}

/* One thread: what is urgent when it comes goes first, then what became so while it was queued. */
static void urgent_work_goes_first(void **state)
{
    static struct book book;
    static const unsigned turns[] = {1, 3, 4, 2, 5, 6, 0};
    (void)state;
    book.most = sizeof turns / sizeof *turns;
    assert_int_equal(sem_init(&book.go, 0, 0), 0);
    assert_int_equal(hr_loop_new(&book.loop), 0);
    assert_int_equal(hr_writers_new(1, book.loop, batch_end, &book, &book.writers), 0);
    for (unsigned i = 0; i < book.most; i++) {
        book.entries[i] = (struct entry){
            .work = {.kind = i == 0 ? &blocking : &single, .urgent = i == 6},
            .book = &book,
        };
        hr_writers_push(book.writers, &book.entries[i].work);
    }
    struct hr_timer first_turn =
        HR_TIMER_INIT(prefer_two, &book); /* all of it is queued before that begins */
    assert_int_equal(hr_loop_arm(book.loop, &first_turn, 0), 0);
    assert_int_equal(hr_loop_run(book.loop), 0);
    hr_writers_free(book.writers);
    for (unsigned i = 0; i < book.most; i++) {
        assert_int_equal(book.entries[i].ran, 1);
        assert_int_equal(book.entries[i].turn, turns[i]);
    }
    hr_loop_free(book.loop);
    (void)sem_destroy(&book.go);
}

static void push_patient(struct book *book, struct hr_writers *writers, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        book->entries[i] = (struct entry){
            .work = {.kind = &grouped, .patient = true},
            .book = book,
        };
        hr_writers_push(writers, &book->entries[i].work);
    }
}

/* Three that may wait: with one that may not they go at once, without it they go all the same. */
static void patient_work_goes_with_others(void **state)
{
    static struct book books[3];
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct book *book = &books[i];
        struct hr_writers *writers;
        book->most = i == 0 ? 4 : 3;
        assert_int_equal(hr_loop_new(&book->loop), 0);
        assert_int_equal(hr_writers_new(1, book->loop, batch_end, book, &writers), 0);
        push_patient(book, writers, 3);
        if (i == 0) {
            book->entries[3] = book->entries[2];
            book->entries[3].work.patient = false;
            hr_writers_push(writers, &book->entries[3].work);
        } else if (i == 1) {
            hr_writers_hurry(writers);
        }
        assert_int_equal(hr_loop_run(book->loop), 0);
        hr_writers_free(writers);
        hr_loop_free(book->loop);
        assert_int_equal(book->done, book->most);
        assert_int_equal(book->group_count, 1);
        assert_int_equal(book->groups[0], book->most);
    }
}

/* Pushed and never queued: what ends the writers does it. */
static void patient_work_is_done_at_the_end(void **state)
{
    static struct book book;
    struct hr_writers *writers;
    (void)state;
    book.most = WORKS;
    assert_int_equal(hr_loop_new(&book.loop), 0);
    assert_int_equal(hr_writers_new(2, book.loop, batch_end, &book, &writers), 0);
    push_patient(&book, writers, 5);
    hr_writers_free(writers);
    hr_loop_free(book.loop);
    assert_int_equal(book.done, 5);
}

/* Taken by one thread, ended by two: the other gets its half as soon as it is found idle. */
static void half_is_left_to_an_idle_thread(void **state)
{
    enum { TRIES = 20000 };
    static struct book book;
    struct hr_writers *writers;
    bool by_two = false;
    (void)state;
    book.most = HR_WORKS_TOGETHER_MAX;
    assert_int_equal(hr_loop_new(&book.loop), 0);
    assert_int_equal(hr_writers_new(2, book.loop, batch_end, &book, &writers), 0);
    for (unsigned i = 0; i < TRIES && !by_two; i++) {
        book.done = book.group_count = book.groups[0] = 0;
        push_patient(&book, writers, HR_WORKS_TOGETHER_MAX);
        assert_int_equal(hr_loop_run(book.loop), 0);
        assert_int_equal(book.groups[0], HR_WORKS_TOGETHER_MAX);
        by_two = !pthread_equal(book.entries[0].by, book.entries[HR_WORKS_TOGETHER_MAX - 1].by);
        for (unsigned j = 0; j < HR_WORKS_TOGETHER_MAX; j++) {
            assert_int_equal(book.entries[j].ran, 1);
            assert_int_equal(book.entries[j].done, 1);
        }
    }
    assert_true(by_two);
    hr_writers_free(writers);
    hr_loop_free(book.loop);
}

static void md5_of(const char *key, size_t len, char ret_hex[33])
{
    struct hr_buf bytes;
    uint8_t digest[HR_MD5_BYTES];
    lab_fill(&bytes, key, 0, len);
    assert_int_equal(hr_digest(HR_DIGEST_MD5, bytes.data, len, digest), 0);
    hr_hex_encode(digest, sizeof(digest), ret_hex);
    hr_buf_release(&bytes);
}

static void nothing(struct hr_work *work)
{
    (void)work;
}

static const struct hr_work_kind blocking_alone = {.run = block, .done = nothing};

/* Of many objects that wait for the writer some are wrong, some have a CRC beside the MD5, some nothing to
 * prove, some come in two parts, one is empty. */
static void objects_are_proven_together(void **state)
{
    struct lab lab;
    static struct lab_put puts[PUTS];
    static struct book book;
    char key[32], hex[33];
    (void)state;
    lab_start(&lab);
    lab.writers = 1;
    lab_open(&lab);
    assert_int_equal(sem_init(&book.go, 0, 0), 0);
    book.entries[0] = (struct entry){.work = {.kind = &blocking_alone}, .book = &book};
    hr_writers_push(lab.cache->writers, &book.entries[0].work);
    for (unsigned i = 0; i < PUTS; i++) {
        size_t size = i == 7 ? 0 : 500 + 997 * i;
        struct hr_verify verify = {.md5 = i % 6 != 1};
        (void)snprintf(key, sizeof(key), "one-%u", i);
        md5_of(key, size, verify.md5_hex);
        if (i % 5 == 0) {
            verify.md5_hex[3] = verify.md5_hex[3] == '0' ? '1' : '0';
        }
        if (i % 7 == 2) {
            struct hr_buf bytes;
            lab_fill(&bytes, key, 0, size);
            verify.crc_kind = HR_CRC_CRC32C;
            verify.crc = hr_crc32c(0, bytes.data, size) + (i % 2);
            hr_buf_release(&bytes);
        }
        assert_int_equal(lab_begin(&lab, &puts[i], key, "e", size), 0);
        size_t first = i % 8 == 3 ? size / 3 : size;
        assert_int_equal(first ? lab_part(&puts[i], key, 0, first) : 0, 0);
        assert_int_equal(first < size ? lab_part(&puts[i], key, first, size - first) : 0, 0);
        hr_put_finish(puts[i].put, &verify);
    }
    assert_int_equal(sem_post(&book.go), 0);
    for (unsigned i = 0; i < PUTS; i++) {
        size_t size = i == 7 ? 0 : 500 + 997 * i;
        bool md5 = i % 6 != 1, wrong = (md5 && i % 5 == 0) || (i % 7 == 2 && i % 2);
        lab_wait(&puts[i]);
        (void)snprintf(key, sizeof(key), "one-%u", i);
        assert_int_equal(puts[i].error, wrong ? -EBADMSG : 0);
        assert_int_equal(puts[i].written_bytes, size);
        if (md5) {
            md5_of(key, size, hex);
            assert_string_equal(puts[i].md5_hex, hex);
        }
        assert_true(wrong ? !lab_find(&lab, key, "e") : lab_file_right(&lab, puts[i].file_id, key, size));
    }
    (void)sem_destroy(&book.go);
    lab_end(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_work_is_taken_together), cmocka_unit_test(urgent_work_goes_first),
        cmocka_unit_test(patient_work_goes_with_others),  cmocka_unit_test(patient_work_is_done_at_the_end),
        cmocka_unit_test(half_is_left_to_an_idle_thread), cmocka_unit_test(objects_are_proven_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
