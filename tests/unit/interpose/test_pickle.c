/* Index batches as Python pickles them, and what only looks like one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "interpose/pickle.h"

#define ROOM 4096

static size_t unhex(const char *hex, uint8_t *ret)
{
    size_t len = strlen(hex) / 2;
    for (size_t i = 0; i < len; i++) {
        unsigned byte;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        ret[i] = (uint8_t)byte;
    }
    return len;
}

/* pickle.dumps((batch, [indices]), protocol).hex() of CPython 3.11 */
static const struct {
    const char *hex;
    unsigned count;
    uint64_t batch;
    uint32_t indices[4];
} good[] = {
    {"80024b005d7100284b054b074d2c01658671012e", 3, 0, {5, 7, 300}},
    {"80034b005d7100284b054b074d2c01658671012e", 3, 0, {5, 7, 300}},
    {"80049510000000000000004b005d94284b054b074d2c016586942e", 3, 0, {5, 7, 300}},
    {"80059510000000000000004b005d94284b054b074d2c016586942e", 3, 0, {5, 7, 300}},
    {"80024b0c5d71004b00618671012e", 1, 12, {0}},
    {"8004950a000000000000004b0c5d944b006186942e", 1, 12, {0}},
    {"80024b055d71008a0500000080008671012e", 0, 0, {0}}, /* an int with no append behind it */
    {"80024b055d71008a050000008000618671012e", 1, 5, {0x80000000u}},
    {"80024a701101005d71004a8e8c1300618671012e", 1, 70000, {1281166}},
    /* the same of numpy's integers, and with the flag that torchdata's StatefulDataLoader adds to the list */
    {"80034b035d710028636e756d70792e636f72652e6d756c746961727261790a7363616c61720a7101"
     "636e756d70790a64747970650a71025802000000693871038988877104527105284b035801000000"
     "3c71064e4e4e4affffffff4affffffff4b007471076243080500000000000000710886710952710a"
     "6801680543080700000000000000710b86710c52710d6801680543082c01000000000000710e8671"
     "0f527110658671112e",
     3,
     3,
     {5, 7, 300}},
    {"80049597000000000000004b035d94288c156e756d70792e636f72652e6d756c7469617272617994"
     "8c067363616c61729493948c056e756d7079948c0564747970659493948c02693894898887945294"
     "284b038c013c944e4e4e4affffffff4affffffff4b00749462430805000000000000009486945294"
     "680368094308070000000000000094869452946803680943082c0100000000000094869452946586"
     "942e",
     3,
     3,
     {5, 7, 300}},
    {"80059597000000000000004b035d94288c156e756d70792e636f72652e6d756c7469617272617994"
     "8c067363616c61729493948c056e756d7079948c0564747970659493948c02693894898887945294"
     "284b038c013c944e4e4e4affffffff4affffffff4b00749462430805000000000000009486945294"
     "680368094308070000000000000094869452946803680943082c0100000000000094869452946586"
     "942e",
     3,
     3,
     {5, 7, 300}},
    {"8004956c000000000000004b045d948c156e756d70792e636f72652e6d756c74696172726179948c"
     "067363616c61729493948c056e756d7079948c0564747970659493948c0269349489888794529428"
     "4b038c013c944e4e4e4affffffff4affffffff4b0074946243047011010094869452946186942e",
     1,
     4,
     {70000}},
    {"80049575000000000000004b055d94284b098c156e756d70792e636f72652e6d756c746961727261"
     "79948c067363616c61729493948c056e756d7079948c0564747970659493948c0275389489888794"
     "5294284b038c013c944e4e4e4affffffff4affffffff4b0074946243080800000000000000948694"
     "52944b016586942e",
     3,
     5,
     {9, 8, 1}},
    {"80024b065d7100284b054b0765888671018671022e", 2, 6, {5, 7}},
    {"80049510000000000000004b065d94284b054b076588869486942e", 2, 6, {5, 7}},
    {"8004950d000000000000004b075d944b096189869486942e", 1, 7, {9}},
};

/* Other tuples, lists and torn ones. */
static const char *const bad[] = {
    "",
    "80",
    "80044e2e",                                 /* None */
    "80024b015d71002e",                         /* (1, ... cut off */
    "80024b015d7100867101",                     /* no stop */
    "80024b015d71008671012e",                   /* an empty list */
    "80024b014b028671002e",                     /* (1, 2) */
    "80024b015d7100284affffffff4b02658671012e", /* a negative index */
    "80024b015d71008a060000000000016186710"
    "12e", /* 2^40: no index of ours */
    "80024b015d710058010000006171016186710"
    "22e",                                              /* ["a"] */
    "80014b005d7100284b054b074d2c01658671012e",         /* protocol 1 has other opcodes */
    "80064b005d7100284b054b074d2c01658671012e",         /* a protocol that does not exist yet */
    "80024b005d7100284b054b074d2c01658671012e00",       /* a byte behind the end */
    "80024b005d710028284b054b07658671012e",             /* a run within a run */
    "80024b005d71008affffffffffffffffffffff618671012e", /* a length that leads out */
    "80049570000000000000004b015d948c156e756d70792e636f72652e6d756c74696172726179948c"
    "067363616c61729493948c056e756d7079948c0564747970659493948c0266389489888794529428"
    "4b038c013c944e4e4e4affffffff4affffffff4b0074946243080000000000000000948694529461"
    "86942e", /* no whole number */
    "80049570000000000000004b015d948c156e756d70792e636f72652e6d756c74696172726179948c"
    "067363616c61729493948c056e756d7079948c0564747970659493948c0269389489888794529428"
    "4b038c013c944e4e4e4affffffff4affffffff4b007494624308ffffffffffffffff948694529461"
    "86942e", /* negative */
    "8004956a000000000000004b015d948c156e756d70792e636f72652e6d756c74696172726179948c"
    "067363616c61729493948c056e756d7079948c0564747970659493948c0269329489888794529428"
    "4b038c013c944e4e4e4affffffff4affffffff4b007494624302010094869452946186942e", /* of two bytes */
    "80049511000000000000004b015d94288c0161948c0162946586942e",                   /* texts */
    "8004950d000000000000004b015d944b05614e869486942e",                           /* no flag */
    "8004950f000000000000004b015d944b0561884b02879486942e",                       /* one more */
};

static void test_batches(void **state)
{
    (void)state;
    uint8_t bytes[512];
    uint32_t indices[ROOM];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t batch = 99;
        size_t len = unhex(good[i].hex, bytes);
        assert_int_equal(hr_pickle_batch(bytes, len, &batch, indices, ROOM), good[i].count);
        if (good[i].count) {
            assert_true(batch == good[i].batch);
            assert_memory_equal(indices, good[i].indices, good[i].count * sizeof *indices);
        }
    }
}

static void test_other_bytes(void **state)
{
    (void)state;
    uint8_t bytes[512];
    uint32_t indices[ROOM];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t batch = 99;
        assert_int_equal(hr_pickle_batch(bytes, unhex(bad[i], bytes), &batch, indices, ROOM), 0);
        assert_true(batch == 99);
    }
}

static void test_every_cut_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[512];
    uint32_t indices[ROOM];
    uint64_t batch;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        size_t len = unhex(good[i].hex, bytes);
        for (size_t cut = 0; cut < len; cut++) {
            assert_int_equal(hr_pickle_batch(bytes, cut, &batch, indices, ROOM), 0);
        }
    }
}

static void test_more_than_room(void **state)
{
    (void)state;
    uint8_t bytes[512];
    uint32_t indices[ROOM];
    uint64_t batch;
    size_t len = unhex(good[0].hex, bytes);
    assert_int_equal(hr_pickle_batch(bytes, len, &batch, indices, 2), 0);
    assert_int_equal(hr_pickle_batch(bytes, len, &batch, indices, 3), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_other_bytes),
        cmocka_unit_test(test_every_cut_is_refused),
        cmocka_unit_test(test_more_than_room),
    };
    return cmocka_run_group_tests_name("pickle", tests, NULL, NULL);
}
