/* SPDX-License-Identifier: MIT
 *
 * Finds the functions that are wrapped here. The symbols of a preloaded library come before those of all others, so a
 * program's call arrives here whichever copy of the TLS library it means: the one that the calling file is linked with,
 * which dlsym finds by the file's own handle. RTLD_NEXT finds only what was there when the program was started.
 *
 * What is found is remembered by the caller's place in memory, so dlsym is called once for each file. A
 * TLS library that was found stays in memory from then on.
 */
#include <dlfcn.h>
#include <link.h>

/* As dlsym, which is wrapped here. */
static void *look_up(void *handle, const char *name);

/* A function of libc that is wrapped here; found when it is called first, which may be before the constructor. */
static inline void *real_function(void **known, const char *name)
{
	void *found = __atomic_load_n(known, __ATOMIC_RELAXED);
	if (!found) {
		found = look_up(RTLD_NEXT, name);
		__atomic_store_n(known, found, __ATOMIC_RELAXED);
	}
	return found;
}

#define EXPORTED __attribute__((visibility("default")))

/* Leave for a function that looks at who called it. A build by gcc, to test, may call it. */
#ifdef __clang__
#define JUMP __attribute__((musttail))
#else
#define JUMP
#endif

static void *real_dlopen, *real_dlclose;

/* A handle of a file that is in memory already; 0: it is not. */
static void *open_file(const char *path, int mode)
{
	return ((void *(*)(const char *, int))real_function(&real_dlopen, "dlopen"))(path,
										     RTLD_LAZY | RTLD_NOLOAD | mode);
}

static void close_file(void *handle)
{
	((int (*)(void *))real_function(&real_dlclose, "dlclose"))(handle);
}

enum family {
	FAMILY_OPENSSL,
	FAMILY_GNUTLS,
	FAMILY_NSPR,
	FAMILY_NSS,
	FAMILIES,
};

/* As live/preload/preload_capture.py names them. */
enum library_name {
	LIBRARY_UNKNOWN,
	LIBRARY_OPENSSL,
	LIBRARY_BORINGSSL,
	LIBRARY_GNUTLS,
	LIBRARY_NSS,
};

#define MOST_FUNCTIONS 32
#define MOST_LIBRARIES 16
#define MOST_CALLERS 64

struct names {
	const char *mark;     /* exported by the library itself, not by what only uses it */
	const char *files[6]; /* where it is looked for if the caller is linked with none */
	const char *functions[MOST_FUNCTIONS];
};

struct library {
	enum family family;
	enum library_name name;
	u64 start, end; /* of its file in memory */
	void *functions[MOST_FUNCTIONS];
};

/* A file whose code calls a library. */
struct caller {
	u64 start, end, unloads;
	enum family family;
	u32 is_ready;
	struct library *library;
};

static struct library libraries[MOST_LIBRARIES];
static struct library
    *fetched[FAMILIES]; /* whose functions a program asked dlsym for, and that it is not linked with */
static struct caller callers[MOST_CALLERS];
static u32 library_count, caller_count;
static u64 unloads; /* how often dlclose was called: another file may be at a caller's place now */

/* A file in memory. */
struct mapped_file {
	u64 address; /* in: an address in it */
	u64 start, end;
	const char *path; /* empty: the program itself */
};

static int compare_file(struct dl_phdr_info *info, size_t size, void *state)
{
	struct mapped_file *file = state;
	u64 start = ~0ULL, end = 0;
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		u64 at = info->dlpi_addr + segment->p_vaddr;
		if (segment->p_type != PT_LOAD)
			continue;
		start = at < start ? at : start;
		end = at + segment->p_memsz > end ? at + segment->p_memsz : end;
	}
	if (file->address < start || file->address >= end)
		return 0;
	file->start = start;
	file->end = end;
	file->path = info->dlpi_name;
	return 1;
}

/* Find the file that has `address`. Code that no file has, of a just-in-time compiler, is a caller of its own. */
static struct mapped_file file_at(u64 address)
{
	struct mapped_file file = {.address = address, .path = ""};
	if (!dl_iterate_phdr(compare_file, &file)) {
		file.start = address & ~(PAGE_BYTES - 1ULL);
		file.end = file.start + PAGE_BYTES;
	}
	return file;
}

static struct mapped_file own_file; /* this library */

static int is_own(const void *function)
{
	return (u64)function >= own_file.start && (u64)function < own_file.end;
}

/* The function by its name in a file and those that it is linked with; 0: there is none but a wrapper. */
static void *find_in(void *handle, const char *name)
{
	void *found = look_up(handle, name);
	return is_own(found) ? 0 : found;
}

static void *find_in_file(const char *path, const char *name)
{
	void *handle = open_file(path, 0);
	if (!handle)
		return 0;
	void *found = find_in(handle, name);
	close_file(handle);
	return found;
}

/* The mark of the library that `file` is linked with, itself or by the program's; 0: there is none. */
static void *find_linked(const struct names *names, const struct mapped_file *file)
{
	void *found = file->path[0] ? find_in_file(file->path, names->mark) : 0;
	return found ? found : find_in(RTLD_NEXT, names->mark);
}

/* The mark of the library that is in memory under a usual name; 0: there is none. */
static void *find_named(const struct names *names)
{
	void *found = 0;
	for (u32 i = 0; !found && i < sizeof(names->files) / sizeof(names->files[0]) && names->files[i]; i++)
		found = find_in_file(names->files[i], names->mark);
	return found;
}

static struct library *known_library(const void *mark, enum family family)
{
	for (u32 i = 0; i < MOST_LIBRARIES; i++) {
		struct library *library = &libraries[i];
		if (__atomic_load_n(&library->end, __ATOMIC_ACQUIRE) && library->family == family &&
		    (u64)mark >= library->start && (u64)mark < library->end)
			return library;
	}
	return 0;
}

static enum library_name library_name(enum family family, void *handle)
{
	if (family == FAMILY_OPENSSL)
		return look_up(handle, "SSL_CTX_set_grease_enabled") ? LIBRARY_BORINGSSL : LIBRARY_OPENSSL;
	return family == FAMILY_GNUTLS ? LIBRARY_GNUTLS : LIBRARY_NSS;
}

/* The library with `mark`. It is known from now on, unless there are very many. */
static struct library *learn_library(const void *mark, enum family family, const struct names *names)
{
	struct library *library = known_library(mark, family);
	if (library)
		return library;
	struct mapped_file file = file_at((u64)mark);
	void *handle = open_file(file.path[0] ? file.path : 0, RTLD_NODELETE);
	u32 index = __atomic_fetch_add(&library_count, 1, __ATOMIC_RELAXED);
	if (!handle || index >= MOST_LIBRARIES)
		return 0;
	library = &libraries[index];
	library->family = family;
	library->name = library_name(family, handle);
	for (u32 i = 0; i < MOST_FUNCTIONS && names->functions[i]; i++)
		library->functions[i] = find_in(handle, names->functions[i]);
	library->start = file.start;
	__atomic_store_n(&library->end, file.end, __ATOMIC_RELEASE);
	return library;
}

static const struct names *const family_names[FAMILIES];

/* After an unload: whether the same file is at a caller's place as before, and calls the same library. It is remembered
 * again, in its place: a program may unload files as often as it likes. */
static int is_still_so(const struct mapped_file *file, const struct library *library, u64 now)
{
	for (u32 i = 0; i < MOST_CALLERS; i++) {
		struct caller *caller = &callers[i];
		if (__atomic_load_n(&caller->is_ready, __ATOMIC_ACQUIRE) && caller->start == file->start &&
		    caller->end == file->end && caller->library == library) {
			__atomic_store_n(&caller->unloads, now, __ATOMIC_RELEASE);
			return 1;
		}
	}
	return 0;
}

static __attribute__((noinline, cold)) struct library *find_library(enum family family, u64 address)
{
	struct mapped_file file = file_at(address);
	u64 before = __atomic_load_n(&unloads, __ATOMIC_ACQUIRE);
	const struct names *names = family_names[family];
	void *mark = find_linked(names, &file);
	struct library *library = mark ? 0 : __atomic_load_n(&fetched[family], __ATOMIC_ACQUIRE);
	if (!mark && !library)
		mark = find_named(names);
	if (mark)
		library = learn_library(mark, family, names);
	if (library && is_still_so(&file, library, before))
		return library;
	u32 index = library ? __atomic_fetch_add(&caller_count, 1, __ATOMIC_RELAXED) : 0;
	if (library && index < MOST_CALLERS) {
		struct caller *caller = &callers[index];
		caller->start = file.start;
		caller->end = file.end;
		caller->unloads = before;
		caller->family = family;
		caller->library = library;
		__atomic_store_n(&caller->is_ready, 1, __ATOMIC_RELEASE);
	}
	return library;
}

/* The library of a family that the code at `address` calls; 0: there is none. */
static inline struct library *library_of(enum family family, const void *address)
{
	u64 now = __atomic_load_n(&unloads, __ATOMIC_ACQUIRE);
	for (u32 i = 0; i < MOST_CALLERS; i++) {
		struct caller *caller = &callers[i];
		if (!__atomic_load_n(&caller->is_ready, __ATOMIC_ACQUIRE))
			break;
		if ((u64)address - caller->start < caller->end - caller->start && caller->family == family &&
		    __atomic_load_n(&caller->unloads, __ATOMIC_ACQUIRE) == now)
			return caller->library;
	}
	return find_library(family, (u64)address);
}
