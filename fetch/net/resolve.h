/* Names to addresses, by getaddrinfo on a thread of its own. Each host keeps every address that its name
 * server gave lately, with health and load, so that requests spread over all of them and leave out those that
 * fail to connect.
 *
 * Any thread may call everything here. Lookups are made one after the other: first those nobody has an answer
 * for. */
#ifndef HR_NET_RESOLVE_H
#define HR_NET_RESOLVE_H

struct hr_resolver;
struct hr_address;

/* Called on the resolver's thread whenever a host got its first answer (or first failure): ask again. Must
 * not block and must not call the resolver. */
typedef void (*hr_resolve_fn)(void *owner);

int hr_resolver_new(hr_resolve_fn answered, void *owner, struct hr_resolver **ret); /* 0 or -errno */
/* `answered` is not called any more when this returns. Every address must have been released. Never waits for
 * a name server. Accepts NULL. */
void hr_resolver_free(struct hr_resolver *resolver);

enum hr_pick { HR_PICK_ANY, HR_PICK_HEALTHY /* only an address that is not being avoided */ };

/* The address of `host` with the least in flight among the healthy, another one than `other` (may be NULL, is
 * only compared) when there is a healthy one; counts as in flight until it is released. 0; -EINPROGRESS:
 * being looked up, `answered` will be called; -EHOSTUNREACH: no such address, *ret_why (static text) says
 * why; -ENOMEM: too many hosts in use. */
int hr_resolve_pick(struct hr_resolver *resolver, const char *host, enum hr_pick pick,
                    const struct hr_address *other, struct hr_address **ret, const char **ret_why);

/* Numeric form: "192.0.2.1", "2001:db8::1". Valid until released. */
const char *hr_address_text(const struct hr_address *address);

enum hr_address_outcome {
    HR_ADDRESS_UNKNOWN, /* the request told nothing about it */
    HR_ADDRESS_CONNECTED,
    HR_ADDRESS_NOT_CONNECTED, /* avoided for a while */
};
void hr_address_release(struct hr_resolver *resolver, struct hr_address *address,
                        enum hr_address_outcome outcome);

#endif
