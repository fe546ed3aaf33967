/* SPDX-License-Identifier: MIT
 *
 * The TLS libraries of this process, and how their functions are wrapped.
 *
 * This library exports none of their names: a program finds what it would find without it, and nothing where there is no TLS
 * library. Instead the constructor, and dlopen when it has loaded more, look at the references of each file (imports.h): one
 * that the dynamic linker has bound to a function of a TLS library is made to refer to that function's wrapper.
 *
 * There is a wrapper for each copy of a library that a process may have, so a wrapper knows without a search which function to
 * call: no lock, no wait, and no call that fails. A copy for which there is none left is counted, and not touched.
 */
#pragma once

#include "process.h"
#include "objects.h"

#define EXPORTED __attribute__((visibility("default")))

/* Leave for a function that looks at who called it. A build by gcc, to test, may call it. */
#ifdef __clang__
#define JUMP __attribute__((musttail))
#else
#define JUMP
#endif

enum family {
	FAMILY_OPENSSL,
	FAMILY_GNUTLS,
	FAMILY_NSPR,
	FAMILY_NSS,
	FAMILIES,
};

/* As sslsniff/preload/preload_capture.py names them. */
enum library_name {
	LIBRARY_UNKNOWN,
	LIBRARY_OPENSSL,
	LIBRARY_BORINGSSL,
	LIBRARY_GNUTLS,
	LIBRARY_NSS,
};

#define MOST_FUNCTIONS 40
#define MOST_LIBRARIES 16

struct library {
	enum family family;
	enum library_name name;
	u32 order;	  /* in the list of files */
	u64 start, end;	  /* of its file in memory; 0: there is no library here */
	u64 generation;	  /* of the list of files in which it was seen last */
	struct object of; /* its file */
	void *functions[MOST_FUNCTIONS];
	u64 (*last_error)(
	    void); /* says this thread's last error, without a change; 0: the library has none, or it was not found */
};

struct function {
	const char *name;
	void *const *wrappers; /* for each library; 0: it is only asked */
};

struct family_functions {
	const char *mark; /* exported by the library itself, not by what only uses it */
	struct function functions[MOST_FUNCTIONS];
};

#define WRAPPED(name) {#name, name##_wrappers}
#define ASKED(name) {name, 0}

static struct library libraries[MOST_LIBRARIES];

static const struct family_functions *const families[FAMILIES];

/* Make the wrappers of a function: that of each library calls name_in, with the library as the first argument. */
#define AND_LIBRARY(...) (struct library * library __VA_OPT__(, ) __VA_ARGS__)
#define AFTER_LIBRARY(...) __VA_OPT__(, ) __VA_ARGS__
#define WRAPPER(number, type, name, parameters, arguments)                    \
	static type name##_##number parameters                                \
	{                                                                     \
		return name##_in(&libraries[number] AFTER_LIBRARY arguments); \
	}
#define WRAP(type, name, parameters, arguments)                                          \
	static __attribute__((noinline)) type name##_in AND_LIBRARY parameters;          \
	WRAPPER(0, type, name, parameters, arguments)                                    \
	WRAPPER(1, type, name, parameters, arguments)                                    \
	WRAPPER(2, type, name, parameters, arguments)                                    \
	WRAPPER(3, type, name, parameters, arguments)                                    \
	WRAPPER(4, type, name, parameters, arguments)                                    \
	WRAPPER(5, type, name, parameters, arguments)                                    \
	WRAPPER(6, type, name, parameters, arguments)                                    \
	WRAPPER(7, type, name, parameters, arguments)                                    \
	WRAPPER(8, type, name, parameters, arguments)                                    \
	WRAPPER(9, type, name, parameters, arguments)                                    \
	WRAPPER(10, type, name, parameters, arguments)                                   \
	WRAPPER(11, type, name, parameters, arguments)                                   \
	WRAPPER(12, type, name, parameters, arguments)                                   \
	WRAPPER(13, type, name, parameters, arguments)                                   \
	WRAPPER(14, type, name, parameters, arguments)                                   \
	WRAPPER(15, type, name, parameters, arguments)                                   \
	static void *const name##_wrappers[MOST_LIBRARIES] = {                           \
	    (void *)name##_0,  (void *)name##_1,  (void *)name##_2,  (void *)name##_3,   \
	    (void *)name##_4,  (void *)name##_5,  (void *)name##_6,  (void *)name##_7,   \
	    (void *)name##_8,  (void *)name##_9,  (void *)name##_10, (void *)name##_11,  \
	    (void *)name##_12, (void *)name##_13, (void *)name##_14, (void *)name##_15}; \
	static type name##_in AND_LIBRARY parameters

/* Whether a library has a function that is only asked: old ones, and those with a part of the interface, have not all. */
#define HAS(library, function) ((library)->functions[function] != 0)
#define REAL(library, function, type, ...) ((type (*)(__VA_ARGS__))(library)->functions[function])
