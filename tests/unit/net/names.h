/* getaddrinfo as the tests want it. Included by one file only. */
#ifndef HR_TEST_NAMES_H
#define HR_TEST_NAMES_H

#include <arpa/inet.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Names of the tests; each answer is a list of 127.0.0.x. */
static const struct {
    const char *name;
    const char *last_bytes; /* one a byte; "": the name does not exist */
    unsigned delay_ms;
} names[] = {
    {"one.test", "\1", 0},      {"many.test", "\1\2\3", 0}, {"half.test", "\11\1", 0},
    {"dead.test", "\11\12", 0}, {"slow.test", "\1", 200},   {"late.test", "\1", 1500},
    {"none.test", "", 0},
};
static atomic_uint lookups;

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **ret)
{
    (void)service;
    (void)hints;
    atomic_fetch_add(&lookups, 1);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(node, names[i].name) != 0) {
            continue;
        }
        (void)usleep(names[i].delay_ms * 1000);
        struct addrinfo *first = NULL, **link = &first;
        for (const char *last = names[i].last_bytes; *last; last++) {
            struct {
                struct addrinfo info;
                struct sockaddr_in at;
            } *entry = calloc(1, sizeof(*entry));
            entry->at.sin_family = AF_INET;
            entry->at.sin_addr.s_addr = htonl(0x7f000000u + (unsigned char)*last);
            entry->info = (struct addrinfo){.ai_family = AF_INET,
                                            .ai_socktype = SOCK_STREAM,
                                            .ai_addrlen = sizeof(entry->at),
                                            .ai_addr = (struct sockaddr *)&entry->at};
            *link = &entry->info;
            link = &entry->info.ai_next;
        }
        *ret = first;
        return first ? 0 : EAI_NONAME;
    }
    return EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *list)
{
    while (list) {
        struct addrinfo *next = list->ai_next;
        free(list);
        list = next;
    }
}

#endif
