#include "fetch/serve/orders.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "fetch/base/buf.h"
#include "fetch/base/clock.h"
#include "fetch/base/text.h"
#include "fetch/plan/recording.h"
#include "fetch/plan/replay.h"
#include "fetch/serve/watch.h"

#define HR_QUIET_MS 60000 /* of a job that cannot be watched: longer than steps and checkpoints take */

struct order {
    struct order *prev, *next;
    struct hr_orders *orders;
    uint32_t id, pid;
    struct hr_recording *recording; /* one of the two */
    struct hr_replay *replay;
    uint32_t trees[HR_CONTEXT_MAPS_MAX];
    unsigned tree_count, map; /* map: of the line before */
    bool watched;
    struct hr_watch watch;
};

struct hr_orders {
    struct hr_loop *loop;
    struct hr_plan *plan;
    struct order *list;
    uint32_t last_id;
};

int hr_orders_new(struct hr_loop *loop, struct hr_plan *plan, struct hr_orders **ret)
{
    struct hr_orders *orders = calloc(1, sizeof *orders);
    if (!orders) {
        return -ENOMEM;
    }
    orders->loop = loop;
    orders->plan = plan;
    *ret = orders;
    return 0;
}

static void end(void *owner)
{
    struct order *order = owner;
    DL_DELETE(order->orders->list, order);
    hr_watch_end(&order->watch);
    if (order->recording) {
        hr_recording_end(order->recording);
    }
    if (order->replay) {
        hr_replay_end(order->replay);
    }
    free(order);
}

void hr_orders_free(struct hr_orders *orders)
{
    while (orders && orders->list) {
        end(orders->list);
    }
    free(orders);
}

static int64_t last_ms(const struct order *order)
{
    return order->recording ? hr_recording_last_ms(order->recording) : hr_replay_last_ms(order->replay);
}

bool hr_orders_tick(struct hr_orders *orders)
{
    struct order *order, *next;
    DL_FOREACH_SAFE(orders->list, order, next)
    {
        if (order->recording) {
            hr_recording_flush(order->recording);
        }
        if (!order->watched && hr_clock_ms() - last_ms(order) > HR_QUIET_MS) {
            end(order);
        }
    }
    return orders->list != NULL;
}

static json_t *error_of(int error)
{
    return json_pack("{s:i, s:s}", "errno", -error, "error", strerror(-error));
}

/* Watched from now on. NULL: out of memory. */
static struct order *new_order(struct hr_orders *orders, const json_t *request, uint32_t pid)
{
    const json_t *trees = json_object_get(request, "trees");
    struct order *order = calloc(1, sizeof *order);
    if (!order) {
        return NULL;
    }
    order->orders = orders;
    order->id = ++orders->last_id;
    order->pid = pid;
    order->watch.fd = -1;
    for (size_t i = 0; i < json_array_size(trees) && i < HR_CONTEXT_MAPS_MAX; i++) {
        order->trees[order->tree_count++] = (uint32_t)json_integer_value(json_array_get(trees, i));
    }
    DL_APPEND(orders->list, order);
    return order;
}

static void watch(struct order *order)
{
    order->watched = hr_watch_begin(&order->watch, order->orders->loop, order->pid, end, order) == 0;
}

static void drop(struct order *order)
{
    DL_DELETE(order->orders->list, order);
    free(order);
}

/* One run after the other may record to one file: the former ends now, if its process has; one that cannot be
 * watched does. */
static void end_over(struct hr_orders *orders, const char *file)
{
    struct order *order, *next;
    DL_FOREACH_SAFE(orders->list, order, next)
    {
        if (order->recording && strcmp(hr_recording_file(order->recording), file) == 0 &&
            hr_watch_is_over(&order->watch)) {
            end(order);
        }
    }
}

json_t *hr_orders_record(struct hr_orders *orders, const json_t *request, uint32_t pid)
{
    bool kept = false;
    const char *text = json_string_value(json_object_get(request, "file"));
    struct hr_buf file = HR_BUF_INIT(PATH_MAX - 1);
    struct order *order = NULL;
    int error = text ? hr_percent_decode(text, strlen(text), false, &file) : -EINVAL;
    if (error == 0 && (!file.data || file.data[0] != '/')) {
        error = -EINVAL;
    }
    if (error == 0) {
        end_over(orders, file.data);
        order = new_order(orders, request, pid);
        error = order ? hr_recording_begin(orders->plan, order->trees, order->tree_count, file.data,
                                           &order->recording, &kept)
                      : -ENOMEM;
    }
    hr_buf_release(&file);
    if (error < 0) {
        if (order) {
            drop(order);
        }
        return error == -EBUSY
                   ? json_pack("{s:i, s:s}", "errno", EBUSY, "error", "another job is recorded to it now")
                   : error_of(error);
    }
    watch(order);
    return json_pack("{s:I, s:b}", "id", (json_int_t)order->id, "kept", kept);
}

/* ---- replay ---- */

/* "@N", or a path of the map that was named last. */
static int take_line(struct order *order, const char *line)
{
    struct hr_buf path = HR_BUF_INIT(HR_KEY_MAX);
    if (line[0] == '@') {
        char *rest;
        unsigned long map = strtoul(line + 1, &rest, 10);
        if (*rest || rest == line + 1 || map >= order->tree_count) {
            return -EINVAL;
        }
        order->map = (unsigned)map;
        return 0;
    }
    int error = hr_percent_decode(line, strlen(line), false, &path);
    if (error == 0 && order->map < order->tree_count && path.len > 0) {
        error = hr_replay_add(order->replay, order->trees[order->map], path.data, (uint32_t)path.len);
    }
    hr_buf_release(&path);
    return error;
}

static struct order *find(struct hr_orders *orders, uint32_t id)
{
    struct order *order;
    DL_FOREACH(orders->list, order)
    {
        if (order->id == id && order->replay) {
            return order;
        }
    }
    return NULL;
}

json_t *hr_orders_replay(struct hr_orders *orders, const json_t *request, uint32_t pid)
{
    uint32_t id = (uint32_t)json_integer_value(json_object_get(request, "id"));
    const json_t *lines = json_object_get(request, "lines");
    struct order *order = id ? find(orders, id) : new_order(orders, request, pid);
    int error = order ? 0 : id ? -EINVAL : -ENOMEM;
    if (error == 0 && !id) {
        error = hr_replay_new(orders->plan, &order->replay);
        if (error < 0) {
            drop(order);
            return error_of(error);
        }
        watch(order);
    }
    for (size_t i = 0; i < json_array_size(lines) && error == 0; i++) {
        const char *line = json_string_value(json_array_get(lines, i));
        error = line ? take_line(order, line) : -EINVAL;
    }
    if (error == 0 && !json_is_true(json_object_get(request, "more"))) {
        error = hr_replay_start(order->replay);
    }
    if (error < 0) {
        if (order) {
            end(order);
        }
        return error_of(error);
    }
    return json_pack("{s:I}", "id", (json_int_t)order->id);
}
