/* Children: does the program that an exec starts run with this object preloaded? If not, one line says so; if
 * its loader would refuse us, our name is taken out of LD_PRELOAD in a copy of the environment (a static
 * program has no loader: its children inherit ours). Works on the caller's stack alone: safe in a vfork child
 * and in a signal handler. errno untouched. */
#ifndef HR_CHILD_H
#define HR_CHILD_H

#include <stdbool.h>
#include <stddef.h>

/* Looks at the program at (dirfd, path), or at dirfd itself when path is "". Returns
 *   0: envp stays as it is (also: no maps, the file cannot be read, the environment is too large to copy);
 *   n > 0: bytes that a copy needs, to be passed to hr_child_environment;
 *   -EACCES: it cannot be preloaded, and the working directory is inside a map, where it would see nothing.
 * *ret_hooked: the program runs with this object and its maps, so it reads the faces (face.h) it inherits. */
long hr_child_judge(int dirfd, const char *path, char *const envp[], bool *ret_hooked);
/* Is there anything that an exec may start? (Whether it will is the kernel's to say.) */
bool hr_child_is_program(int dirfd, const char *path);

/* Fills `copy` (as many bytes as hr_child_judge said) with a pointer array, terminator included, and the
 * changed strings behind it; the rest still belongs to envp. */
void hr_child_environment(char **copy, char *const envp[]);

/* The file that execvp would run: 0 with a path in out (room bytes), -ENOENT, or -ENAMETOOLONG. search: the
 * value of PATH, NULL when unset. */
int hr_child_search(const char *file, const char *search, char *out, size_t room);

/* Pure. The value of LD_PRELOAD without us, into out (as long as value). False: we are not in it. */
bool hr_child_without_us(const char *value, char *out);

#endif
