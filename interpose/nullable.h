/* Included before everything else in the objects of the preloaded library (Makefile). libc declares the paths
 * of its calls nonnull, and a compiler that sees our definitions of them drops our look for NULL; but
 * programs do pass NULL, which the kernel answers EFAULT: Rust's standard library so finds out whether there
 * is statx. */
#ifndef HR_NULLABLE_H
#define HR_NULLABLE_H

#include <features.h>
#include <sys/cdefs.h>

#undef __nonnull
#define __nonnull(params)
#undef __attribute_nonnull__
#define __attribute_nonnull__(params)

#endif
