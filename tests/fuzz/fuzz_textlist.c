/* Rows of text into an index, in pieces that the input chooses: never a crash, the same whatever the pieces,
 * and what is published is a good index. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/list/builder.h"
#include "fetch/list/textlist.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    int error;
    struct hr_textlist_figures figures;
    uint64_t entries;
};

static struct outcome read_in_steps(const char *text, size_t len, size_t step,
                                    const struct hr_textlist_columns *columns)
{
    struct outcome outcome = {.error = 0};
    struct hr_index_builder *builder;
    struct hr_textlist *list;
    char message[HR_TEXTLIST_MESSAGE_BYTES] = "";
    if (hr_builder_new(&builder) < 0) {
        abort();
    }
    struct hr_textlist_options options = {
        .columns = *columns, .bucket = "b", .prefix = "p/", .prefix_len = 2, .builder = builder};
    if (hr_textlist_new(&options, &list) < 0) {
        abort();
    }
    for (size_t at = 0; at < len && outcome.error == 0; at += step) {
        outcome.error = hr_textlist_feed(list, text + at, len - at < step ? len - at : step, message);
    }
    outcome.error = outcome.error == 0 ? hr_textlist_end(list, message) : outcome.error;
    hr_textlist_figures(list, &outcome.figures);
    outcome.entries = builder->entry_count;
    if (outcome.error < 0 && (message[0] == '\0' || strchr(message, '\n'))) {
        abort();
    }
    hr_textlist_free(list);
    hr_builder_free(builder);
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    char *text = malloc(size); /* exactly: reading beyond it is found */
    memcpy(text, data + 1, size - 1);
    struct hr_textlist_columns columns = hr_textlist_plain;
    (void)hr_textlist_foreign(text, size - 1);
    if (!hr_textlist_inventory(text, size - 1, "b", &columns) && (data[0] & 128)) {
        char *schema = strndup(text, size - 1);
        (void)hr_textlist_schema(schema, &columns);
        free(schema);
    }
    struct outcome whole = read_in_steps(text, size - 1, size, &columns);
    struct outcome pieces = read_in_steps(text, size - 1, 1 + (data[0] & 127), &columns);
    if (whole.error != pieces.error || whole.entries != pieces.entries ||
        memcmp(&whole.figures, &pieces.figures, sizeof whole.figures) != 0) {
        abort();
    }
    free(text);
    return 0;
}
